"""A client for AMQP 0-9-1: a session without I/O, and a small blocking client."""
