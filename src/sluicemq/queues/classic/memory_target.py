"""How much of each queue may stay in RAM: each keeps messages for the same number of seconds.

As in RabbitMQ a queue measures how fast messages move through it, and is told a duration; the
product is the number of messages that it may keep in RAM. A fast queue keeps many, an unused one
none. RabbitMQ lowers the duration step by step until memory has come down; this broker computes it
at once (docs/decisions/0007-paging-target.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

HALF_LIFE_NS: Final = 5_000_000_000
"""After so long without traffic a rate has halved (RabbitMQ: 5 s)."""

IDLE_BELOW: Final = 0.01
"""A queue with fewer messages a second counts as idle (RabbitMQ's figure): an exponential average
never reaches zero by itself."""


class Rates:
    """Measures how fast messages come and go, in messages a second: four exponential averages.

    The queue counts: published, delivered (first deliveries out of the backlog), ack_in (messages
    that became pending) and ack_out (acknowledged). Callers that need the rates call `update`
    first.
    """

    __slots__ = (
        "ack_in",
        "ack_in_rate",
        "ack_out",
        "ack_out_rate",
        "delivered",
        "delivered_rate",
        "published",
        "published_rate",
        "updated_ns",
    )

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.ack_in = 0
        self.ack_out = 0
        self.published_rate = 0.0
        self.delivered_rate = 0.0
        self.ack_in_rate = 0.0
        self.ack_out_rate = 0.0
        self.updated_ns: int | None = None

    def update(self, now_ns: int) -> None:
        """Move the counts since the last update into the averages.

        Counts before the very first update are taken as if they had just come, so that their
        beginning need not be known: they weigh as if spread over a short time.
        """
        elapsed_ns = 0 if self.updated_ns is None else now_ns - self.updated_ns
        self.updated_ns = now_ns
        keep = 0.5 ** (elapsed_ns / HALF_LIFE_NS)
        if elapsed_ns > 0:
            gain = (1 - keep) / (elapsed_ns / 1e9)
        else:
            gain = math.log(2) / (HALF_LIFE_NS / 1e9)  # the limit of the above
        self.published_rate = self.published_rate * keep + self.published * gain
        self.delivered_rate = self.delivered_rate * keep + self.delivered * gain
        self.ack_in_rate = self.ack_in_rate * keep + self.ack_in * gain
        self.ack_out_rate = self.ack_out_rate * keep + self.ack_out * gain
        self.published = self.delivered = self.ack_in = self.ack_out = 0

    def sum(self) -> float:
        """Return the sum of all four rates, in messages a second; 0 when idle. Both sides count, so
        that a queue which only fills, or only empties, keeps its share."""
        total = self.published_rate + self.delivered_rate + self.ack_in_rate + self.ack_out_rate
        return total if total >= IDLE_BELOW else 0.0


def target_count(duration_s: float, rates_sum: float) -> int | None:
    """Return how many messages a queue may keep in RAM, as many as move in `duration_s` seconds;
    None: there is no bound, for the product is infinite."""
    wanted = math.inf if math.isinf(duration_s) else duration_s * rates_sum
    return None if math.isinf(wanted) else int(wanted)


class QueueLoad(NamedTuple):
    """What a queue holds in RAM, and how fast it moves, in messages a second."""

    rate: float
    """`Rates.sum()`."""
    messages: int
    bytes: int


def desired_duration(
    loads: Sequence[QueueLoad], accounted: int, limit: int, ratio: float, disk_alarm: bool
) -> float:
    """Return how many seconds' worth of messages each queue may keep, so that what is accounted
    comes to `ratio * limit` bytes.

    Infinity (no paging) while `accounted` bytes are below that, and under a disk alarm: paging
    would only make it worse. 0 when all queues are idle. Memory accounted elsewhere is not left for
    queues. A queue that holds less than the duration allows counts with what it holds, and leaves
    the rest to the others: a busy queue that is nearly empty needs no room.
    """
    goal = ratio * limit
    if disk_alarm or accounted < goal:
        return math.inf
    elsewhere = max(0, accounted - sum(load.bytes for load in loads))
    room = max(0.0, goal - elsewhere)
    moving = [load for load in loads if load.rate > 0 and load.messages > 0 and load.bytes > 0]
    if not moving:
        return 0.0
    moving.sort(key=held_s)
    flows = list(accumulate(bytes_each_s(load) for load in reversed(moving)))
    flows.reverse()  # flows[i]: of moving[i] and all that hold more; summed so, nothing cancels
    at_least = room / flows[0]
    for load, flow in zip(moving, flows, strict=True):
        duration = room / flow
        if duration <= held_s(load):
            return max(duration, at_least)
        room -= load.bytes
    return max(held_s(moving[-1]), at_least)


def held_s(load: QueueLoad) -> float:
    """Return how many seconds' worth of messages a queue holds."""
    return load.messages / load.rate


def bytes_each_s(load: QueueLoad) -> float:
    """Return how many bytes of RAM one second's worth of its messages takes."""
    return load.rate * load.bytes / load.messages
