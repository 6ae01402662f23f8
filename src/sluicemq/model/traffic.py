"""Traffic since the creation of a channel, a queue, a virtual host or an exchange. It is counted
once a batch, under RabbitMQ's names, and read on demand.
"""

from __future__ import annotations

from typing import Final

TRAFFIC: Final = (
    "ack",
    "confirm",
    "deliver",
    "deliver_no_ack",
    "drop_unroutable",
    "get",
    "get_empty",
    "get_no_ack",
    "publish",
    "redeliver",
    "return_unroutable",
)
"""The names of the counters that everything but an exchange has, sorted."""


class Traffic:
    """Counts the messages that went through a channel, a queue or a virtual host; counters that do
    not apply stay 0. The counters never decrease."""

    __slots__ = TRAFFIC

    def __init__(self) -> None:
        self.publish = 0
        self.confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0
        self.ack = 0


class ExchangeTraffic:
    """Counts the messages that clients published to one exchange (`publish_in`), and how many
    queues they went to in sum (`publish_out`)."""

    __slots__ = ("publish_in", "publish_out")

    def __init__(self) -> None:
        self.publish_in = 0
        self.publish_out = 0
