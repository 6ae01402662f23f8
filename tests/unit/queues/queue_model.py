"""The naive queue: one message at a time in plain lists, as one would state the rules.

It knows no runs, chunks or slices. What it expects is said as tuples, in order; deliveries
of one serving in the order in which the messages stand in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OVERHEAD = 96
RETURN = 100
COST_BYTES = 4096

Expected = tuple[object, ...]


@dataclass(eq=False)
class Message:
    """One message in one queue; `position` is its place for ever."""

    position: int
    content: bytes
    envelope: bytes
    channel_number: int
    persistent: bool
    copies: int
    redelivered: bool = False
    returns: int = 0
    """How often it has come back."""

    @property
    def footprint(self) -> int:
        return OVERHEAD + len(self.content) // self.copies

    @property
    def cost(self) -> int:
        return 1 + len(self.content) // COST_BYTES


@dataclass(eq=False)
class ModelChannel:
    """Limit and count of basic.qos global; one delivery window for each queue."""

    name: str
    windows: dict[str, int]
    limit: int = 0
    unacked: int = 0
    line: list[str] = field(default_factory=list)
    """The queues that were refused; while the first of them is asked nobody else is served."""
    asked: str = ""

    @property
    def exhausted(self) -> bool:
        return 0 < self.limit <= self.unacked

    def permits(self, queue: str) -> bool:
        """May the queue deliver one message?"""
        if not self.limit or (not self.exhausted and self.asked in ("", queue)):
            return True
        if queue not in self.line:
            self.line.append(queue)
        return False

    def ask(self) -> str:
        """Who is to be asked now, if there is room and somebody waits."""
        if self.line and not self.asked and not self.exhausted:
            self.asked = self.line.pop(0)
            return self.asked
        return ""


@dataclass(eq=False)
class ModelConsumer:
    name: str
    channel: ModelChannel
    no_ack: bool
    exclusive: bool
    priority: int
    prefetch: int
    unacked: int = 0

    def has_room(self, queue: str) -> bool:
        """Could it have one more message?"""
        if self.channel.windows[queue] <= 0:
            return False
        full = not self.no_ack and 0 < self.prefetch <= self.unacked
        return not (full or self.channel.exhausted)

    def accepts(self, queue: str) -> bool:
        """May it have one more message now? If the channel's limit is in the way: it will ask."""
        if self.channel.windows[queue] <= 0:
            return False
        full = not self.no_ack and 0 < self.prefetch <= self.unacked
        return not full and self.channel.permits(queue)


@dataclass(eq=False)
class Out:
    """A message that is out, to whom; no consumer: by basic.get."""

    message: Message
    channel: ModelChannel
    consumer: ModelConsumer | None


@dataclass(eq=False)
class ModelQueue:
    name: str
    durable: bool
    title: str
    ready: list[Message] = field(default_factory=list)
    out: dict[int, Out] = field(default_factory=dict)
    members: list[ModelConsumer] = field(default_factory=list)
    """Those that get something, as they came."""
    rings: dict[int, list[ModelConsumer]] = field(default_factory=dict)
    """By priority; the first of a ring is asked first. Who had no room is in none."""
    holding: list[ModelConsumer] = field(default_factory=list)
    """They wait until something that they hold is settled."""
    lines: dict[str, list[ModelConsumer]] = field(default_factory=dict)
    """By channel: they wait for its window or its limit."""
    limited: list[str] = field(default_factory=list)
    """Channels whose limit has been in the way."""
    highest: int = 0
    """The priority that counts as the highest one."""
    delivery_limit: int | None = None
    single_active: bool = False
    waiting: list[ModelConsumer] = field(default_factory=list)
    """Behind the single active one, in the order in which they came."""
    published: dict[int, int] = field(default_factory=dict)
    """Messages by priority."""
    deleted: bool = False
    stored: set[int] = field(default_factory=set)
    """Positions of the messages that were written to disk."""

    def next_position(self, priority: int) -> int:
        """Each priority has positions of its own."""
        priority = min(priority, self.highest)
        return (priority << 48) + self.published.get(priority, 0)

    def publish(
        self, contents: list[bytes], kind: tuple[bytes, int, bool, int], priority: int
    ) -> None:
        """`kind`: envelope, channel number, persistent, copies."""
        for content in contents:
            position = self.next_position(priority)
            if not self.deleted:
                envelope, channel_number, persistent, copies = kind
                self.ready.append(
                    Message(position, content, envelope, channel_number, persistent, copies)
                )
                if persistent and self.durable:
                    self.stored.add(position)
            level = position >> 48
            self.published[level] = self.published.get(level, 0) + 1
        self.ready.sort(key=turn_of)

    def serve(self) -> list[Expected]:
        """Give the head to whoever's turn it is, until nobody wants it."""
        given: list[Expected] = []
        while self.ready:
            consumer = self.next_consumer()
            if consumer is None:
                break
            message = self.ready.pop(0)
            consumer.channel.windows[self.name] -= message.cost
            if not consumer.no_ack:
                consumer.unacked += 1
                consumer.channel.unacked += 1
                self.out[message.position] = Out(message, consumer.channel, consumer)
            given.append(("deliver", consumer.name, *self.shown(message), not consumer.no_ack))
            self.wake(consumer.channel)
            self.enter(consumer)
        return given

    def next_consumer(self) -> ModelConsumer | None:
        """The first with room of the highest priority that has any; it has left its ring, and so
        have those who had none."""
        while some := [priority for priority, ring in self.rings.items() if ring]:
            ring = self.rings[max(some)]
            consumer = ring.pop(0)
            if consumer.accepts(self.name):
                return consumer
            self.leave(consumer)
        return None

    def enter(self, consumer: ModelConsumer) -> None:
        self.rings.setdefault(consumer.priority, []).append(consumer)

    def leave(self, consumer: ModelConsumer) -> None:
        """It has no room."""
        channel = consumer.channel
        if not consumer.no_ack and 0 < consumer.prefetch <= consumer.unacked:
            self.holding.append(consumer)
            self.wake(channel)
            return
        self.lines.setdefault(channel.name, []).append(consumer)
        if channel.windows[self.name] > 0:
            self.limited.append(channel.name)

    def wake(self, channel: ModelChannel) -> None:
        """One of those that wait for the channel is asked again, of the highest priority."""
        line = self.lines.get(channel.name)
        if line and channel.windows[self.name] > 0:
            first = max(line, key=lambda consumer: consumer.priority)
            line.remove(first)
            self.enter(first)

    def resume(self, channel: ModelChannel) -> None:
        """The channel has room for one of its consumers."""
        if channel.name in self.limited:
            self.limited = [name for name in self.limited if name != channel.name]
            self.wake(channel)

    def is_idle(self) -> bool:
        """Nothing ready that somebody could take."""
        return not self.ready or not any(c.has_room(self.name) for c in self.members)

    def consumers(self) -> list[ModelConsumer]:
        """Highest priority first; those that get something."""
        return sorted(self.members, key=lambda consumer: -consumer.priority)

    def add(self, consumer: ModelConsumer) -> bool:
        """False: somebody is in the way."""
        others = self.members
        if any(other.exclusive for other in others) or (consumer.exclusive and others):
            return False
        if consumer.exclusive and self.single_active:
            return False
        if self.single_active and others:
            self.waiting.append(consumer)
        else:
            self.members.append(consumer)
            self.enter(consumer)
        return True

    def remove(self, consumer: ModelConsumer) -> None:
        if consumer in self.waiting:
            self.waiting.remove(consumer)
            return
        self.members.remove(consumer)
        in_ring = False
        for some in (*self.rings.values(), self.holding, *self.lines.values()):
            if consumer in some:
                some.remove(consumer)
                in_ring = any(some is ring for ring in self.rings.values())
        if in_ring:
            self.wake(consumer.channel)
        if all(other.channel is not consumer.channel for other in self.members):
            self.limited = [name for name in self.limited if name != consumer.channel.name]
        if self.waiting:
            highest = max(waiting.priority for waiting in self.waiting)
            chosen = next(waiting for waiting in self.waiting if waiting.priority == highest)
            self.waiting.remove(chosen)
            self.members.append(chosen)
            self.enter(chosen)

    def get(self, channel: ModelChannel, no_ack: bool) -> Expected:
        if not self.ready:
            return ("got", channel.name, None, 0)
        message = self.ready.pop(0)
        if not no_ack:
            self.out[message.position] = Out(message, channel, None)
        return ("got", channel.name, (*self.shown(message), not no_ack), len(self.ready))

    def settle(self, positions: list[int], requeue: bool) -> None:
        for position in positions:
            out = self.out.pop(position)
            if out.consumer is not None:
                out.consumer.unacked -= 1
                out.channel.unacked -= 1
                if out.consumer in self.holding and out.consumer.unacked < out.consumer.prefetch:
                    self.holding.remove(out.consumer)
                    self.enter(out.consumer)
            if requeue and not self.deleted:
                self.back(out.message)

    def back(self, message: Message) -> None:
        """To its old place, unless it has been there too often."""
        message.redelivered = True
        message.returns += 1
        if self.delivery_limit is None or message.returns <= self.delivery_limit:
            self.ready.append(message)
            self.ready.sort(key=turn_of)

    def down(self, channel: ModelChannel) -> None:
        for consumer in [*self.waiting, *self.consumers()]:
            if consumer.channel is channel:
                self.remove(consumer)
        for position in [p for p, out in self.out.items() if out.channel is channel]:
            message = self.out.pop(position).message
            if not self.deleted:
                self.back(message)

    def removed(self) -> set[int]:
        """Positions of the messages of which the disk must have been told that they are gone."""
        there = {message.position for message in self.ready}
        return self.stored - there - (set() if self.deleted else self.out.keys())

    def depth(self) -> dict[str, int]:
        """The counters as they must be."""
        out = [] if self.deleted else [entry.message for entry in self.out.values()]
        both = [*self.ready, *out]
        return {
            "ready": len(self.ready),
            "unacked": len(out),
            "ready_bytes": sum(len(message.content) for message in self.ready),
            "unacked_bytes": sum(len(message.content) for message in out),
            "persistent": sum(message.persistent and self.durable for message in both),
            "consumers": len(self.consumers()) + len(self.waiting),
            "footprint": sum(message.footprint + self.remembered(message) for message in both),
            "ram_messages": len(self.ready),
            "ram_unacked": len(out),
        }

    def remembered(self, message: Message) -> int:
        """Bytes for the number of its returns."""
        return RETURN if message.returns and self.delivery_limit is not None else 0

    def shown(self, message: Message) -> tuple[object, ...]:
        """What a consumer can see of a message."""
        returns = 0 if self.delivery_limit is None else message.returns
        seen = (message.content, message.envelope, message.channel_number)
        return (*seen, message.redelivered, returns)


def turn_of(message: Message) -> tuple[int, int]:
    """Sort key: higher priorities come first."""
    return -(message.position >> 48), message.position
