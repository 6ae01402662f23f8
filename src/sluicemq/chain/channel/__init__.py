"""reader ---> CHANNEL ---> queues, and back: methods, publishing, consuming, transactions."""
