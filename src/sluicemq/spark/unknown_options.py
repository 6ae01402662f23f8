"""The errors for options that `format("amqp")` does not have: those of earlier versions, of Spark,
and of its Kafka source."""

from __future__ import annotations

from typing import Final

from sluicemq.errors import Refused

NO_TABLES: Final = (
    ". There are no tables of it, for Spark hands their options to a Python source when they are"
    " created, and none when they are read: use CREATE TEMPORARY VIEW orders USING amqp"
    " OPTIONS (...), or spark.read.format('amqp')"
)
KAFKA_CLIENTS: Final = "; options of Kafka's client have others in their place: docs/spark-kafka.md"

RENAMED: Final = {
    "idempotencyheaders": "; it is called placeHeaders now, for these headers do not name a row",
    "retries": "; say how long a broker may be away: reconnectFor, in milliseconds",
    "provider": NO_TABLES,
    "kafka.bootstrap.servers": "; the brokers are named by uris",
    "subscribe": "; the queues are named by queues",
    "subscribepattern": "; there is queuePattern",
    "assign": "; a stream has one partition, its queue: name it by queues",
    "topic": "; a sink has exchange and routingKey",
    "maxoffsetspertrigger": "; there is maxMessagesPerBatch",
    "minoffsetspertrigger": "; there is minMessagesPerTrigger",
    "startingoffsetsbytimestamp": "; startingOffsets takes a time",
    "startingtimestamp": "; startingOffsets takes a time",
    "endingoffsetsbytimestamp": "; endingOffsets takes an offset, or next",
    "endingtimestamp": "; endingOffsets takes an offset, or next",
    "groupidprefix": "; queues have no groups: give each query a queue of its own",
    "kafka.group.id": "; queues have no groups: give each query a queue of its own",
    "includeheaders": "; headers are a column, like all properties: includeProperties",
}
"""The end of the error's sentence, by the option's name in small letters."""


def no_such_option(key: str) -> Refused:
    """Return the error for an unknown option, with the one to use instead where that is known. The
    value is not shown, because it may be a password."""
    kafka = KAFKA_CLIENTS if key.lower().startswith("kafka.") else ""
    now = RENAMED.get(key.lower(), kafka)
    return Refused(f"{key}: there is no such option of format amqp{now}")
