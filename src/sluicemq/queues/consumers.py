"""Who takes messages from a queue, how much each may take, and whose turn it is.

Rules (spec 9.2-9.5): higher priority first; inside one priority strict round robin, one message
each; a consumer without room is passed over. Dealing n messages to k consumers gives the i-th
every k-th message, so round robin costs one slice a consumer and not one step a message. A channel
must get the messages of a queue in their order though (AMQP 0-9-1, 4.7), whichever of its consumers
they are for: consumers that share one are dealt few messages one by one, many in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from sluicemq.limits import DELIVERY_COST_BYTES

if TYPE_CHECKING:
    from sluicemq.flow.credit import Outflow
    from sluicemq.flow.prefetch import Limiter, Prefetch
    from sluicemq.kernel.actor import Actor

DEALT_SINGLY_MAX: Final = 16
"""Messages of one deal to consumers that share a channel. Each is a delivery of its own, at the
price of twenty in a block."""


class Consumer:
    """One basic.consume.

    `window` is the delivery credit towards the channel's socket; `prefetch` the consumer's own
    limit on unacknowledged messages; `limiter` the channel's, shared by its consumers. `active`:
    it may get messages; of a queue with a single active consumer the others wait.
    """

    __slots__ = (
        "active",
        "arguments",
        "cancelled",
        "channel",
        "exclusive",
        "limiter",
        "no_ack",
        "prefetch",
        "priority",
        "tag",
        "window",
    )

    def __init__(
        self,
        channel: Actor,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: Prefetch,
        limiter: Limiter,
        window: Outflow,
        arguments: Mapping[str, object],
    ) -> None:
        self.channel = channel
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.prefetch = prefetch
        self.limiter = limiter
        self.window = window
        self.arguments = arguments
        self.active = False
        self.cancelled = False

    def room(self, cost_each: int, queue: Actor) -> int:
        """How many messages of `cost_each` this consumer can take now."""
        window = self.window
        if window.is_shut:
            return 0
        room = window.credit // cost_each or 1
        if self.no_ack:
            return room
        prefetch = self.prefetch
        if prefetch.limit:
            room = min(room, prefetch.limit - prefetch.held)
        limiter = self.limiter
        if room > 0 and limiter.limit:
            if not limiter.permits(queue):
                return 0
            room = 1  # consumers share it: one message each keeps round robin and the limit
        return max(room, 0)

    def take(self, count: int, cost_each: int) -> int:
        """Account `count` deliveries; returns what they cost of the window."""
        cost = count * cost_each
        self.window.spend(cost)
        if not self.no_ack:
            self.prefetch.take(count)
            self.limiter.take(count)
        return cost


class ConsumerGroups:
    """The consumers of a queue, by descending priority, each group in rotation order. With
    `single_active` there is one in the groups, and the others are `waiting` in the order in which
    they came."""

    __slots__ = ("count", "exclusive", "groups", "single_active", "waiting")

    def __init__(self, single_active: bool = False) -> None:
        self.groups: list[tuple[int, list[Consumer]]] = []
        self.single_active = single_active
        self.waiting: list[Consumer] = []
        self.count = 0
        self.exclusive: Consumer | None = None

    def refuses(self, consumer: Consumer) -> bool:
        """Is somebody here exclusively, or would the new one be, and may not? Of a queue with a
        single active consumer nobody may."""
        if self.exclusive is not None:
            return True
        return consumer.exclusive and (self.count > 0 or self.single_active)

    def add(self, consumer: Consumer) -> None:
        """Behind the others of its priority; behind everybody while another one is active."""
        self.count += 1
        if consumer.exclusive:
            self.exclusive = consumer
        if self.single_active and self.groups:
            self.waiting.append(consumer)
        else:
            self._activate(consumer)

    def _activate(self, consumer: Consumer) -> None:
        consumer.active = True
        for index, (priority, group) in enumerate(self.groups):
            if priority == consumer.priority:
                group.append(consumer)
                return
            if priority < consumer.priority:
                self.groups.insert(index, (consumer.priority, [consumer]))
                return
        self.groups.append((consumer.priority, [consumer]))

    def remove(self, consumer: Consumer) -> bool:
        """True when it was there. After the single active one the next is the first of the highest
        priority."""
        consumer.active = False
        if consumer in self.waiting:
            self.waiting.remove(consumer)
            self.count -= 1
            return True
        for index, (_, group) in enumerate(self.groups):
            if consumer in group:
                group.remove(consumer)
                if not group:
                    del self.groups[index]
                self.count -= 1
                if self.exclusive is consumer:
                    self.exclusive = None
                if self.waiting:
                    self._promote()
                return True
        return False

    def _promote(self) -> None:
        successor = max(self.waiting, key=priority_of)
        self.waiting.remove(successor)
        self._activate(successor)

    def all(self) -> list[Consumer]:
        """Highest priority first, then those that wait."""
        return [*(consumer for _, group in self.groups for consumer in group), *self.waiting]

    def able(self, cost_each: int, queue: Actor) -> tuple[list[Consumer], int, list[Consumer]]:
        """Of the highest priority that can take anything: the consumers with room in turn, how
        many each of them may take, and the whole group (for `rotate`). Empty when nobody can."""
        for _, group in self.groups:
            rooms = [consumer.room(cost_each, queue) for consumer in group]
            if any(rooms):
                able = [consumer for consumer, room in zip(group, rooms, strict=True) if room]
                each = min(filter(None, rooms))
                if len(able) > 1:
                    each = room_together(able, each, cost_each)
                return (able, each, group) if each else (able[:1], 1, group)
        return [], 0, []

    def rotate(self, group: list[Consumer], able: list[Consumer], count: int) -> None:
        """After `count` messages were dealt to `able` in turn: who is first next time."""
        if len(group) > 1:
            last = group.index(able[(count - 1) % len(able)])
            group[:] = group[last + 1 :] + group[: last + 1]


def priority_of(consumer: Consumer) -> int:
    """Sort key."""
    return consumer.priority


def room_together(able: list[Consumer], each: int, cost_each: int) -> int:
    """How many each of several may take at once when alone it could take `each`; 0: it must be
    dealt one by one. Consumers of one channel share its window and its limiter."""
    if any(consumer.limiter.limit for consumer in able):
        return 0
    sharers = 1 + len(able) - len({consumer.window for consumer in able})
    if sharers > 1:
        credit = min(consumer.window.credit for consumer in able)
        each = min(each, credit // (cost_each * sharers))
    return each


def shares(able: list[Consumer], places: range) -> Iterator[tuple[Consumer, range]]:
    """Which places in a run of messages each consumer gets, in the order to deliver them in."""
    count = len(places)
    step = len(able)
    if step == 1 or len({consumer.channel for consumer in able}) == step:
        for index in range(min(step, count)):
            yield able[index], places[index::step]
        return
    size = 1 if count <= DEALT_SINGLY_MAX else -(-count // step)
    for index, first in enumerate(range(0, count, size)):
        yield able[index % step], places[first : first + size]


def cost_of(size_each: int) -> int:
    """What a message of this many bytes takes from a delivery window: 1 for each started
    DELIVERY_COST_BYTES, so that one window bounds messages and bytes."""
    return 1 + size_each // DELIVERY_COST_BYTES
