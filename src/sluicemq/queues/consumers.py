"""The consumers of a queue: how much each may take, and whose turn it is.

Higher priority first; inside one priority strict round robin, one message each; a consumer without
room is left out, and comes back as the last. Dealing n messages to k consumers gives the i-th every
k-th message, so round robin costs one slice a consumer and not one step a message. A channel must
get the messages of a queue in their order though (AMQP 0-9-1, 4.7), whichever of its consumers they
are for: consumers that share one are dealt few messages one by one, many in blocks.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias

from sluicemq.limits import CREDIT_MAX_MESSAGES, DELIVERY_COST_BYTES

if TYPE_CHECKING:
    from sluicemq.flow.credit import Outflow
    from sluicemq.flow.prefetch import Limiter, Prefetch
    from sluicemq.kernel.actor import Actor

DEALT_SINGLY_MAX: Final = 16
"""Messages of one deal to consumers that share a channel. Each is a delivery of its own, at the
price of twenty in a block."""

ASKS_MAX: Final = 1000
"""Consumers without room that are asked in one go: it takes less than a millisecond."""

SMALL: Final = 32
"""Of a ring or line that is no longer, who is removed leaves it at once."""

NOWHERE, IN_RING, HOLDING, IN_LINE = range(4)
"""Where a consumer is: in no ring, as it was removed or is not active; in its ring; nowhere until
something that it holds is settled; in the line of its window."""

Waiting: TypeAlias = "tuple[int, int, Consumer]"
"""The highest priority first, then the order in which they came."""


class Consumer:
    """A consumer as its queue sees it, made by a basic.consume.

    `window` is the delivery credit towards the channel's socket; `prefetch` the consumer's own
    limit on unacknowledged messages; `limiter` the channel's, shared by its consumers. It gets
    messages only while `active`: in a queue with a single active consumer the others wait.
    """

    __slots__ = (
        "active",
        "arguments",
        "cancelled",
        "channel",
        "exclusive",
        "limiter",
        "no_ack",
        "place",
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
        self.place = NOWHERE
        """Its queue's affair."""

    @property
    def is_limited(self) -> bool:
        """Tell whether it shares its room with the other consumers of its channel, so that any
        message may be the last that it can take."""
        return self.limiter.limit > 0 and not self.no_ack

    def room(self, cost_each: int, queue: Actor) -> int:
        """Return how many messages of `cost_each` this consumer of `queue` can take now. The cost
        is in units of its window."""
        window = self.window
        if window.is_shut or window.waits():
            return 0
        room = window.credit // cost_each or 1
        limiter = self.limiter
        if self.no_ack:  # its messages do not count, but it waits for the others' room
            return 0 if limiter.limit and not limiter.permits(queue) else room
        prefetch = self.prefetch
        if prefetch.limit and prefetch.limit - prefetch.unacked < room:
            room = prefetch.limit - prefetch.unacked
        if room > 0 and limiter.limit:
            if not limiter.permits(queue):
                return 0
            room = 1  # consumers share it: one message each keeps round robin and the limit
        return room if room > 0 else 0

    def take(self, count: int, cost_each: int) -> int:
        """Account for `count` deliveries of `cost_each`. Returns their total cost in units of the
        window."""
        cost = count * cost_each
        self.window.spend(cost)
        if not self.no_ack:
            self.prefetch.take(count)
            self.limiter.take(count)
        return cost


class ConsumerGroups:
    """Keeps the consumers of a queue: for each priority a ring of those that may have room. With
    `single_active` one is in the rings, and the others wait: the highest priority is next, then the
    one that came first.

    A consumer that has no room in its turn leaves its ring, and is not asked again until something
    has changed: the cost of a deal depends on what is dealt, not on the number of other consumers.
    When it returns it goes behind the others of its priority. Consumers of one channel share a
    window and a limiter: when these are in the way they wait in one line. The first in line returns
    to its ring when there may be room, and the next one after its turn, so that only consumers that
    may get something are asked.

    Invariant: while a window is open and has a line, a consumer with that window is in a ring,
    whose priority is no lower than any in the line; or its limiter is in the way.
    """

    __slots__ = (
        "asks_max",
        "busy",
        "dead",
        "exclusive",
        "limited",
        "lines",
        "members",
        "of_channel",
        "rings",
        "serial",
        "single_active",
        "successors",
        "unasked",
    )

    def __init__(self, single_active: bool = False) -> None:
        self.single_active = single_active
        self.asks_max = ASKS_MAX
        self.members: dict[Consumer, None] = {}
        """All, in the order in which they came."""
        self.of_channel: dict[Actor, dict[Consumer, None]] = {}
        self.rings: dict[int, deque[Consumer]] = {}
        """By negative priority; none is empty. Some in them may have been removed."""
        self.busy: list[int] = []
        """The keys of `rings`, in order."""
        self.lines: dict[Outflow, list[Waiting]] = {}
        """A heap for each window; none is empty. Some in them may have been removed."""
        self.limited: dict[Limiter, Outflow] = {}
        """Limiters that have sent somebody to the line of a window."""
        self.dead = 0
        """Those in rings and lines who have been removed."""
        self.successors: list[Waiting] = []
        """A heap of those behind the single active one; some may have been removed."""
        self.serial = 0
        self.exclusive: Consumer | None = None
        self.unasked = False
        """Has `able` found nobody because it did not ask any further?"""

    @property
    def count(self) -> int:
        """Return the number of all consumers, including those that are not active."""
        return len(self.members)

    def refuses(self, consumer: Consumer) -> bool:
        """Tell whether the new consumer must be refused: another one is exclusive, or it would be
        exclusive and is not the only one. No consumer of a queue with a single active consumer may
        be exclusive."""
        if self.exclusive is not None:
            return True
        return consumer.exclusive and (self.count > 0 or self.single_active)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer behind the others of its priority. With a single active consumer it waits
        while another one is active."""
        if consumer.exclusive:
            self.exclusive = consumer
        if self.single_active and self.members:
            heappush(self.successors, self._waiting(consumer))
        else:
            self._activate(consumer)
        self.members[consumer] = None
        self.of_channel.setdefault(consumer.channel, {})[consumer] = None

    def remove(self, consumer: Consumer) -> bool:
        """Remove a consumer. Returns whether it was there. After the single active one the first of
        the highest priority becomes active."""
        if consumer not in self.members:
            return False
        del self.members[consumer]
        same = self.of_channel[consumer.channel]
        del same[consumer]
        if not same:
            del self.of_channel[consumer.channel]
            self.limited.pop(consumer.limiter, None)
        if self.exclusive is consumer:
            self.exclusive = None
        self._withdraw(consumer)
        was_active, consumer.active = consumer.active, False
        if self.single_active and was_active:
            self._promote()
        return True

    def all(self) -> list[Consumer]:
        """Return all consumers, the highest priority first, then in the order of arrival. Those
        that wait to become active come last, in that order."""
        return sorted(self.members, key=rank)

    def of(self, channel: Actor) -> list[Consumer]:
        """Return the consumers of one channel. With a single active consumer that one is the last:
        when they are removed in this order none of them succeeds another."""
        same = [*self.of_channel.get(channel, ())]
        return sorted(same, key=is_active) if self.single_active else same

    # -- who takes part

    def _waiting(self, consumer: Consumer) -> Waiting:
        self.serial += 1
        return -consumer.priority, self.serial, consumer

    def _activate(self, consumer: Consumer) -> None:
        consumer.active = True
        self._enter(consumer)

    def _promote(self) -> None:
        """Make the next consumer the active one."""
        while self.successors:
            _, _, successor = heappop(self.successors)
            if successor in self.members:
                self._activate(successor)
                return

    def _enter(self, consumer: Consumer) -> None:
        """Put a consumer at the end of its ring."""
        consumer.place = IN_RING
        key = -consumer.priority
        ring = self.rings.get(key)
        if ring is None:
            self.rings[key] = deque((consumer,))
            insort(self.busy, key)
        else:
            ring.append(consumer)

    def _leave(self, consumer: Consumer) -> None:
        """Take a consumer that had no room in its turn out of its ring."""
        window = consumer.window
        if not consumer.no_ack and consumer.prefetch.exhausted:
            consumer.place = HOLDING
            self.wake(window)
            return
        consumer.place = IN_LINE
        if not window.is_shut:
            self.limited[consumer.limiter] = window
        heappush(self.lines.setdefault(window, []), self._waiting(consumer))

    def _withdraw(self, consumer: Consumer) -> None:
        """Take a consumer out of wherever it is; it stays where finding it would take long."""
        place, consumer.place = consumer.place, NOWHERE
        if place == IN_RING:
            self.wake(consumer.window)
            ring = self.rings[-consumer.priority]
            if len(ring) <= SMALL:
                ring.remove(consumer)
                if not ring:
                    del self.rings[-consumer.priority]
                    self.busy.remove(-consumer.priority)
                return
        elif place == IN_LINE:
            line = self.lines[consumer.window]
            if len(line) <= SMALL:
                left = [each for each in line if each[2] is not consumer]
                heapify(left)
                self.lines[consumer.window] = left
                if not left:
                    del self.lines[consumer.window]
                return
        else:
            return
        self.dead += 1
        if self.dead > len(self.members):
            self._sweep()

    def _sweep(self) -> None:
        """Drop consumers that have been removed."""
        rings = {
            key: deque(consumer for consumer in ring if consumer.place == IN_RING)
            for key, ring in self.rings.items()
        }
        self.rings = {key: ring for key, ring in rings.items() if ring}
        self.busy = sorted(self.rings)
        lines = {
            window: [each for each in line if each[2].place == IN_LINE]
            for window, line in self.lines.items()
        }
        self.lines = {window: line for window, line in lines.items() if line}
        for line in self.lines.values():
            heapify(line)
        self.dead = 0

    # -- what has changed

    def wake(self, window: Outflow) -> None:
        """Let the first consumer in line for this window have its turn, if the window is open."""
        line = self.lines.get(window)
        if line is None or window.is_shut:
            return
        consumer: Consumer | None = None
        while line and consumer is None:
            _, _, first = heappop(line)
            if first.place == IN_LINE:
                consumer = first
            else:
                self.dead -= 1
        if not line:
            del self.lines[window]
        if consumer is not None:
            self._enter(consumer)

    def resume(self, limiter: Limiter) -> None:
        """Let a consumer that waits for a limiter have its turn, because the limiter has room."""
        window = self.limited.pop(limiter, None)
        if window is not None:
            self.wake(window)

    def gave(self, consumer: Consumer) -> None:
        """Let a consumer that was full have its turn again, because one of its messages was
        settled."""
        if consumer.place == HOLDING and not consumer.prefetch.exhausted:
            self._enter(consumer)

    # -- whose turn it is

    def able(self, cost_each: int, queue: Actor, most: int) -> tuple[list[Consumer], int]:
        """Return the next consumers that can take anything, in turn, and how many messages of
        `cost_each` each of them may take: at most `most` consumers, all of the highest priority
        that can. The caller must then call `dealt` with the number of messages they took. The list
        is empty when nobody can, or when too many had to be asked (`unasked`)."""
        asks = self.asks_max
        self.unasked = False
        while self.busy:
            key = self.busy[0]
            ring = self.rings[key]
            is_lone = len(ring) == 1
            if (is_lone or most == 1) and not self.lines:
                consumer = ring[0]
                if consumer.place == IN_RING and not consumer.is_limited:
                    room = consumer.room(cost_each, queue)
                    if room:
                        return [consumer], min(room, CREDIT_MAX_MESSAGES) if is_lone else 1
            able, each, asks = self._ask(ring, cost_each, queue, most, asks)
            if able:
                return able, each
            if asks <= 0:
                self.unasked = True
                return [], 0
            if not ring:
                del self.rings[key]
                self.busy.remove(key)
        return [], 0

    def _ask(
        self, ring: deque[Consumer], cost_each: int, queue: Actor, most: int, asks: int
    ) -> tuple[list[Consumer], int, int]:
        """Do as `able` does for one ring; `asks` is how many consumers without room may be asked.
        These leave the ring."""
        able: list[Consumer] = []
        each = CREDIT_MAX_MESSAGES
        sharers: dict[Outflow, int] = {}
        alone = False
        while ring and len(able) < most and asks > 0 and not alone:
            consumer = ring[0]
            if consumer.place != IN_RING:
                self.dead -= 1
                asks -= 1
                del ring[0]
                continue
            window = consumer.window
            alone = consumer.is_limited or window in self.lines
            sharing = sharers.get(window, 0) + 1
            if able and (alone or (sharing > 1 and sharing * cost_each > window.credit)):
                break
            room = consumer.room(cost_each, queue)
            del ring[0]
            if room:
                sharers[window] = sharing
                able.append(consumer)
                each = room if room < each else each
            else:
                alone = False
                asks -= 1
                self._leave(consumer)
        if ring or alone:
            each = 1
        elif len(sharers) < len(able):
            for window, sharing in sharers.items():
                if sharing > 1:
                    each = min(each, window.credit // (cost_each * sharing))
        ring.extendleft(reversed(able))
        return able, each, asks

    def dealt(self, able: list[Consumer], count: int) -> None:
        """Account for `count` messages that went to these consumers in turn: the one that got the
        last message is the last of its ring now, even behind those in line with it."""
        if self.lines and able[0].window in self.lines:
            self.wake(able[0].window)
        if count > len(able):
            count %= len(able)
        ring = self.rings[-able[0].priority]
        if len(ring) > 1:
            ring.rotate(-count)


def rank(consumer: Consumer) -> tuple[bool, int]:
    """Return the sort key of a consumer in a list: active ones by falling priority, then those that
    wait to become active."""
    return (False, -consumer.priority) if consumer.active else (True, 0)


def is_active(consumer: Consumer) -> bool:
    """Return the sort key that puts active consumers behind the others."""
    return consumer.active


def shares(able: list[Consumer], places: range) -> Iterator[tuple[Consumer, range]]:
    """Yield for each consumer the places of its messages in a run, in the order of delivery."""
    count = len(places)
    step = len(able)
    if step == 1:
        yield able[0], places
        return
    if len({consumer.channel for consumer in able}) == step:
        for index in range(min(step, count)):
            yield able[index], places[index::step]
        return
    size = 1 if count <= DEALT_SINGLY_MAX else -(-count // step)
    for index, first in enumerate(range(0, count, size)):
        yield able[index % step], places[first : first + size]


def cost_of(size_each: int) -> int:
    """Return what a message of that many bytes takes from a delivery window: 1, and 1 more for each
    whole DELIVERY_COST_BYTES, so that one window bounds messages and bytes."""
    return 1 + size_each // DELIVERY_COST_BYTES
