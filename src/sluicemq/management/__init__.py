"""The management process: RabbitMQ's HTTP API, metrics for Prometheus, pages. It asks a broker over
its control socket, and keeps the history of samples itself."""
