"""What a quorum queue keeps for each channel and republisher: an address, and what is under way.

The queue's state knows no object of this process; it uses addresses, message numbers that each
sender counts without a gap, and ids that each consumer counts. This module translates them to the
links, sequence numbers and runs that channels know, and back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.flow.link import Link
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Confirm, Rejected
from sluicemq.queues.quorum.commands import ConsumerKey
from sluicemq.queues.quorum.effects import DeliveredPart

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.address import ActorAddress
    from sluicemq.queues.commands import Command, LinkId


class PendingBatch:
    """An unanswered batch. The queue numbers its messages from `seq` on; its sender numbers them
    from `first_seq` on over `link`, if it wants confirms."""

    __slots__ = ("confirm", "first_seq", "link", "messages", "seq")

    def __init__(self, seq: int, messages: int, link: Link, first_seq: int, confirm: bool) -> None:
        self.seq = seq
        self.messages = messages
        self.link = link
        self.first_seq = first_seq
        self.confirm = confirm


class DueDelivery:
    """Messages that were assigned to a consumer and have not been sent."""

    __slots__ = ("consumer", "part")

    def __init__(self, consumer: Consumer, part: DeliveredPart) -> None:
        self.consumer = consumer
        self.part = part


class DeliveredRun:
    """A run of deliveries: its contents from 0 on have the ids from `first_id` on at the consumer
    `key`. `left` of them are unsettled."""

    __slots__ = ("first_id", "key", "left")

    def __init__(self, key: ConsumerKey, first_id: int, count: int) -> None:
        self.key = key
        self.first_id = first_id
        self.left = count


class ChannelEnd:
    """A channel or republisher, `actor`, as the queue knows it in one life: by `address`, which is
    never reused, and by the link `link`."""

    __slots__ = (
        "actor",
        "address",
        "consumers",
        "dealt",
        "last_key",
        "link",
        "next_seq",
        "outbox",
        "pending",
        "question",
        "question_row",
        "runs",
        "withheld",
    )

    def __init__(self, actor: Actor, address: ActorAddress, link: LinkId) -> None:
        self.actor = actor
        self.address = address
        self.link = link
        self.next_seq = 0
        """The number of its next message; 0: it has not published yet."""
        self.pending: deque[PendingBatch] = deque()
        self.withheld: list[tuple[Link, int, int]] = []
        """Messages and bytes that came over a link, and whose credit is withheld because too much
        is pending."""
        self.consumers: dict[str, Consumer] = {}
        """Its consumers by tag, including one that may yet be refused."""
        self.dealt: dict[str, int] = {}
        """By tag, the id behind the last one known to be assigned, if the queue has members on
        several nodes."""
        self.last_key = ConsumerKey(address, "")
        """The key of a consumer that was last asked for: it is mostly the same one."""
        self.outbox: deque[DueDelivery] = deque()
        self.runs: dict[int, DeliveredRun] = {}
        """Its deliveries, by the numbers of their runs."""
        self.question: Command | None = None
        """The request that it waits for..."""
        self.question_row = 0
        """... and the number of the row that has it, if the queue has members on several nodes."""

    def key(self, tag: str) -> ConsumerKey:
        """Return the key of its consumer with that tag; the tag of messages it got by basic.get is
        ""."""
        if self.last_key.tag != tag:
            self.last_key = ConsumerKey(self.address, tag)
        return self.last_key

    @property
    def heard_seq(self) -> int:
        """Return the number below which it has an answer for every message."""
        return self.pending[0].seq if self.pending else self.next_seq

    @property
    def under_way(self) -> int:
        """Return how many of its messages have no answer yet."""
        return self.next_seq - self.heard_seq

    def answered(self, seq: int, count: int, is_taken: bool) -> list[Confirm | Rejected]:
        """Note that the oldest pending messages, with the numbers from `seq` on, were taken or
        rejected. Return the answers for their senders."""
        answers: list[Confirm | Rejected] = []
        end = seq + count
        pending = self.pending
        while pending and pending[0].seq < end:
            batch = pending.popleft()
            assert seq <= batch.seq and batch.seq + batch.messages <= end, (
                "an answer to half a batch"
            )
            if batch.confirm:
                if is_taken:
                    answers.append(Confirm(batch.link, batch.first_seq, batch.messages))
                else:
                    answers.append(Rejected(batch.link, batch.first_seq, 0, batch.messages))
        return answers

    def give_credit_back(self) -> None:
        """Return the withheld credit, because few enough batches are pending now."""
        withheld, self.withheld = self.withheld, []
        for link, count, size_bytes in withheld:
            link.taken(count, size_bytes)

    def unsent(self, consumer: Consumer | None) -> dict[ConsumerKey, list[tuple[int, int]]]:
        """Remove the messages that were assigned to a consumer, or to all if it is None, and not
        sent. Return the ranges of their ids, by consumer."""
        found: dict[ConsumerKey, list[tuple[int, int]]] = {}
        left: deque[DueDelivery] = deque()
        for due in self.outbox:
            if consumer is None or due.consumer is consumer:
                part = due.part
                ids = found.setdefault(self.key(due.consumer.tag), [])
                ids.append((part.first_id, part.first_id + len(part.places)))
            else:
                left.append(due)
        self.outbox = left
        return found

    def settled(self, run: int, start: int, end: int) -> tuple[ConsumerKey, int, int] | None:
        """Note that contents of a run are settled. Return the consumer and the range of ids; None
        if there is no such run."""
        delivered = self.runs.get(run)
        if delivered is None:
            return None
        delivered.left -= end - start
        assert delivered.left >= 0, "a message was settled twice"
        if not delivered.left:
            del self.runs[run]
        return delivered.key, delivered.first_id + start, delivered.first_id + end


def joined_ids(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges of ids in ascending order, with adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return (*found,)
