"""A client for AMQP 0-9-1: the session as bytes in and events out, and a small blocking one."""
