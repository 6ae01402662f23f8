"""What flows and what is declared: batches of messages; exchanges, queues and bindings."""
