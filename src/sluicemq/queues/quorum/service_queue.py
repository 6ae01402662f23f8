"""The consumers of a quorum queue, by value, and the order in which they are served.

The highest priority comes first; inside one priority there is strict round robin, one message each,
among consumers that may hold more. With a single active consumer one is served and the others wait:
the highest priority is next, then the one that came first; none is displaced.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from typing import Final

from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import QUORUM_PREFETCH_MAX
from sluicemq.queues.quorum.checked_out import CheckedOut
from sluicemq.queues.quorum.commands import AddConsumer, ConsumerKey

UP: Final = 0
WAITING: Final = 1
CANCELLED: Final = 2


class QueueConsumer:
    """A consumer, or a cancelled one's unsettled messages. `status` is UP, WAITING (for the single
    active one to go) or CANCELLED; the next message it gets has the id `next_id`."""

    __slots__ = (
        "arguments",
        "checked_out",
        "exclusive",
        "key",
        "next_id",
        "no_ack",
        "node",
        "prefetch",
        "priority",
        "status",
    )

    def __init__(self, key: ConsumerKey) -> None:
        self.key = key
        self.node = key.channel.node
        self.prefetch = 0
        self.priority = 0
        self.exclusive = False
        self.no_ack = False
        self.arguments = b""
        self.status = CANCELLED
        self.next_id = 0
        self.checked_out = CheckedOut()

    @property
    def credit(self) -> int:
        """Return how many more messages it may hold now."""
        return max(0, self.prefetch - self.checked_out.count)


class ServiceQueue:
    """All consumers, and for each priority a ring of those that may hold more, in the order of
    their turns.

    As an invariant a consumer is in its ring exactly when it is UP and has credit.
    """

    __slots__ = ("active", "busy", "exclusive", "members", "of_channel", "rings", "single_active")

    def __init__(self) -> None:
        self.single_active = False
        self.members: dict[ConsumerKey, QueueConsumer] = {}
        """The consumers in order of arrival."""
        self.of_channel: dict[ActorAddress, dict[QueueConsumer, None]] = {}
        self.rings: dict[int, OrderedDict[QueueConsumer, None]] = {}
        """By negative priority; none is empty."""
        self.busy: list[int] = []
        """The keys of `rings`, in order."""
        self.active: QueueConsumer | None = None
        """The single active consumer."""
        self.exclusive: QueueConsumer | None = None

    @property
    def count(self) -> int:
        """Return the number of consumers that were not cancelled."""
        return sum(1 for each in self.members.values() if each.status != CANCELLED)

    @property
    def is_used(self) -> bool:
        """Tell whether there is any consumer that was not cancelled."""
        return any(each.status != CANCELLED for each in self.members.values())

    def refuses(self, command: AddConsumer) -> bool:
        """Tell whether a new consumer may not be added: another one is exclusive, or the new one
        would be exclusive beside others, or in a queue with a single active consumer."""
        if self.exclusive is not None:
            return True
        return command.exclusive and (self.is_used or self.single_active)

    def holder(self, key: ConsumerKey) -> QueueConsumer:
        """Return the consumer with that name; if there is none, a new cancelled one. Its ids begin
        behind all ids of its channel's forgotten consumers, so that a repeated request never means
        another message."""
        consumer = self.members.get(key)
        if consumer is None:
            consumer = self.members[key] = QueueConsumer(key)
            self.of_channel.setdefault(key.channel, {})[consumer] = None
            former = self.members.get(ConsumerKey(key.channel, ""))
            consumer.next_id = 0 if former is None else former.next_id
        return consumer

    def add(self, command: AddConsumer) -> QueueConsumer:
        """Add a consumer behind the others of its priority. A cancelled one that holds messages
        goes on where it was."""
        assert command.consumer.tag, "messages got one by one have no consumer"
        consumer = self.holder(command.consumer)
        assert consumer.status == CANCELLED, "a consumer is added once"
        consumer.prefetch = min(command.prefetch or QUORUM_PREFETCH_MAX, QUORUM_PREFETCH_MAX)
        consumer.priority = command.priority
        consumer.exclusive = command.exclusive
        consumer.no_ack = command.no_ack
        consumer.arguments = command.arguments
        if command.exclusive:
            self.exclusive = consumer
        if self.single_active and self.active is not None:
            consumer.status = WAITING
        else:
            self.activate(consumer)
        return consumer

    def activate(self, consumer: QueueConsumer) -> None:
        """Let a consumer be served."""
        assert consumer.status != UP
        consumer.status = UP
        if self.single_active:
            assert self.active is None, "two single active consumers"
            self.active = consumer
        self.gained(consumer)

    def gained(self, consumer: QueueConsumer) -> None:
        """Give a consumer that may hold more again its turn, behind the others."""
        key = -consumer.priority
        ring = self.rings.get(key)
        if consumer.status != UP or not consumer.credit or (ring and consumer in ring):
            return
        if ring is None:
            self.rings[key] = OrderedDict({consumer: None})
            insort(self.busy, key)
        else:
            ring[consumer] = None

    def withdraw(self, consumer: QueueConsumer) -> None:
        """Take a consumer out of its ring, if it is there."""
        key = -consumer.priority
        ring = self.rings.get(key)
        if ring is None or consumer not in ring:
            return
        del ring[consumer]
        if not ring:
            del self.rings[key]
            self.busy.remove(key)

    def cancel(self, consumer: QueueConsumer) -> QueueConsumer | None:
        """Give a consumer nothing any more; it stays as long as it holds messages. Returns its
        successor as the single active one; None: there is none, or it was not that."""
        self.withdraw(consumer)
        consumer.status = CANCELLED
        if self.exclusive is consumer:
            self.exclusive = None
        self.tidy(consumer)
        if self.active is not consumer:
            return None
        self.active = None
        return self.promote()

    def promote(self) -> QueueConsumer | None:
        """Make the first waiting consumer of the highest priority the single active one."""
        assert self.active is None
        waiting = [each for each in self.members.values() if each.status == WAITING]
        if not waiting:
            return None
        successor = max(waiting, key=priority_of)
        self.activate(successor)
        return successor

    def tidy(self, consumer: QueueConsumer) -> None:
        """Forget a cancelled consumer that holds nothing, except for its ids, which no other
        consumer of its channel may reuse: the one with the tag "" goes on behind them, and stays as
        long as the channel."""
        channel, tag = consumer.key
        if consumer.status != CANCELLED or consumer.checked_out.count or not tag:
            return
        del self.members[consumer.key]
        same = self.of_channel[channel]
        del same[consumer]
        if consumer.next_id:
            got = self.holder(ConsumerKey(channel, ""))
            got.next_id = max(got.next_id, consumer.next_id)
        elif not same:
            del self.of_channel[channel]

    def forget(self, channel: ActorAddress) -> None:
        """Forget a channel that is gone, whose consumers are cancelled and hold nothing."""
        for consumer in self.of_channel.pop(channel, ()):
            assert consumer.status == CANCELLED and not consumer.checked_out.count
            del self.members[consumer.key]

    def of(self, channel: ActorAddress) -> list[QueueConsumer]:
        """Return the consumers of a channel; the single active one is the last, so that none
        succeeds another when they go in this order."""
        same = [*self.of_channel.get(channel, ())]
        if self.active in same:
            same.remove(self.active)
            same.append(self.active)
        return same

    # -- turns

    def able(self, messages: int) -> tuple[list[QueueConsumer], int]:
        """Return the next consumers, in turn, each of which can take the same number of messages,
        and that number. There are no more of them than messages; either they are all consumers of
        the highest priority with credit, or each can take one."""
        if not self.busy:
            return [], 0
        ring = self.rings[self.busy[0]]
        size = len(ring)
        if size == 1 or messages == 1:
            for first in ring:
                return [first], first.credit if size == 1 else 1
        if messages >= size:
            able = [*ring]
            credit = able[0].credit
            for consumer in able:
                credit = min(credit, consumer.credit)
            return able, credit
        able = []
        for consumer in ring:
            able.append(consumer)
            if len(able) == messages:
                break
        return able, 1

    def dealt(self, able: list[QueueConsumer], count: int) -> None:
        """Account for `count` messages that went to these consumers in turn, which `able` has
        returned: consumers without credit leave the ring, which then begins with the one after the
        last."""
        if not count:
            return
        key = -able[0].priority
        ring = self.rings[key]
        size = len(able)
        served = able if count >= size else able[:count]
        turns = count % size if size == len(ring) else len(served)
        for consumer in able[:turns]:
            ring.move_to_end(consumer)
        for consumer in served:
            if not consumer.credit:
                del ring[consumer]
        if not ring:
            del self.rings[key]
            self.busy.remove(key)


def priority_of(consumer: QueueConsumer) -> int:
    """Return the priority of a consumer, the higher the sooner."""
    return consumer.priority
