"""SluiceMQ: an AMQP 0-9-1 broker, a stress lab and a Spark pipeline around it."""

__version__ = "0.1.0"
