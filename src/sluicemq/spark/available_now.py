"""Trigger.AvailableNow: decides when a query has read the messages counted at its start.

A queue is done when that many of its messages were handed out, or when it is silent and the broker
has none left: other consumers may have taken them. Messages that were handed out and come again are
waited for once more.

Waiting ends `timeout` after the last sign of progress: messages wait, a connection is being made,
consumers came or went. Old reports do not end it: a gathering process that is silent either reports
again, or is lost, and then its messages go to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_assignment import AnyConsumer, Group
from sluicemq.spark.options import Options

TOLD_MAX: Final = 10
"""The most consumers that an error names."""


class AvailableNow:
    """Decides when a query with Trigger.AvailableNow has read all counted messages. `counted` says
    how many messages each queue had when the query began. Times are monotonic, in seconds."""

    def __init__(self, options: Options, counted: Mapping[str, int]) -> None:
        self._options = options
        self._left = dict(counted)
        """Messages that each queue still owes; below 0 when more have come than were counted."""
        self._deadline = 0.0
        self._consumers: set[str] = set()
        """The names of consumers that could still bring messages at the last look."""

    def taken(self, queue: str, rows: int) -> None:
        """Note that `rows` messages of the queue were handed out; the queue then owes so many
        fewer."""
        self._left[queue] -= rows

    def again(self, queue: str, rows: int) -> None:
        """Note that `rows` messages of the queue that were handed out will come again; the queue
        then owes so many more."""
        self._left[queue] += rows

    def forget(self, queues: Iterable[str]) -> None:
        """Stop waiting for any more messages of these queues."""
        self._left.update(dict.fromkeys(queues, 0))

    def left(self) -> dict[str, int]:
        """Return how many messages are still waited for, by queue; queues without any are left
        out."""
        return {queue: count for queue, count in self._left.items() if count > 0}

    def wanted(self, consumers: Iterable[AnyConsumer]) -> list[AnyConsumer]:
        """Return those of the consumers whose queues still owe messages."""
        return [consumer for consumer in consumers if self._left[consumer.queue] > 0]

    def begin(self, now: float) -> None:
        """Start the timeout anew at `now`."""
        self._deadline = now + self._options.timeout_ms / 1000

    def is_over(self, groups: Sequence[Group], now: float) -> bool:
        """Return whether there has been no sign of progress for longer than the timeout, in the
        latest reports of all groups that still owe messages. Any sign starts the timeout anew."""
        wanted = self.wanted(consumer for group in groups for consumer in group.consumers)
        names = {consumer.name for consumer in wanted}
        if names != self._consumers or any(is_busy(consumer) for consumer in wanted):
            self._consumers = names
            self.begin(now)
        heard_at = min(group.heard_at for group in groups if self.wanted(group.consumers))
        return min(now, heard_at) > self._deadline

    def give_up(self, groups: Sequence[Group], ready: Mapping[str, int]) -> None:
        """Stop waiting for the missing messages. Raises `AmqpError` with their numbers, and with
        how many the broker still has `ready` by queue, unless failOnDataLoss is false."""
        left = self.left()
        if not self._options.fail_on_data_loss:
            self.forget(left)
            return
        queues = ", ".join(
            f"{count} of queue {queue!r}, of which the broker has {ready.get(queue, 0)}"
            for queue, count in left.items()
        )
        consumers = [
            f"{consumer.name} at {group.endpoint.host} ({consumer.taken} handed out)"
            for group in groups
            for consumer in self.wanted(group.consumers)
        ]
        more = f" and {len(consumers) - TOLD_MAX} more" if len(consumers) > TOLD_MAX else ""
        raise AmqpError(
            f"messages that were counted do not come in {self._options.timeout_ms / 1000:g} s:"
            f" {queues}; asked for by {', '.join(consumers[:TOLD_MAX])}{more}"
            " (failOnDataLoss = true)"
        )


def is_busy(consumer: AnyConsumer) -> bool:
    """Return whether the consumer holds messages, or is still making a connection."""
    return bool(consumer.waiting_rows() or consumer.outage.attempts or not consumer.tried.is_set())
