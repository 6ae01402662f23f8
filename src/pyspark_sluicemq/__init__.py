"""Spark looks for packages named pyspark_* and registers their `DefaultSource`: format("amqp")."""

from sluicemq.spark.data_source import AmqpDataSource as DefaultSource

__all__ = ["DefaultSource"]
