"""channel ---batch---> QUEUE: the actors around the machines of classic queues and streams."""
