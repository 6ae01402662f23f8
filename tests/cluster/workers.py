"""What the clients of a cluster do: publish with confirms, consume or poll and acknowledge, declare
and delete.
"""

from __future__ import annotations

from typing import Final

from cluster.book import Sent, Session, Stream
from cluster.crowd import PATIENCE_S, Client, Crowd
from durability.clients import CHANNEL
from durability.roles import GONE_UNHEARD, Ledger
from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method

ASK_S: Final = 1.0
"""Between two questions to the broker, which say whether it still hears."""

LATE_S: Final = 0.5
"""A publisher that was late catches up on no more than that."""

REGISTER_S: Final = 0.05
"""Between two declarations or deletions."""

DEFINITIONS: Final = "definitions"
"""What the answers to these count as."""

NEW: Final = Session("nobody")


class Publisher(Client):
    """Publishes `rate` messages a second to one queue, with at most so many in flight. What was not
    confirmed for PATIENCE_S holds nothing up. Who belongs nowhere goes elsewhere then."""

    def __init__(
        self, crowd: Crowd, name: str, queue: str, rate: float, in_flight_max: int, home: int | None
    ) -> None:
        super().__init__(crowd, name, home)
        self.queue = queue
        self.every_s = 1.0 / rate
        self.in_flight_max = in_flight_max
        self.stream: Stream | None = None
        self.next_at = 0.0
        self.is_done = False
        self.sizes: tuple[int, ...] = (0, 100, 100, 2000)
        """Of the bodies of a connection, one of these."""

    def opened(self) -> None:
        self.send(m.ConfirmSelect())

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.ConfirmSelectOk):
            self.stream = self.book.stream(repr(self), self.queue, self.dice.choice(self.sizes))
        elif isinstance(method, m.BasicAck) and self.stream is not None:
            self.book.confirm(self.stream, method.delivery_tag, method.multiple)
        elif isinstance(method, m.BasicNack) and self.stream is not None:
            self.book.refuse(self.stream, method.delivery_tag, method.multiple)

    def on_acks(self, tags: list[int]) -> None:
        assert self.stream is not None
        for tag in tags:
            self.book.confirm(self.stream, tag, False)

    def on_content(self, method: Method, content: bytes) -> None:
        assert self.stream is not None
        self.book.returned(self.stream, content)

    def act(self, now: float) -> None:
        if self.stream is None:
            return
        waiting = self.stream.waiting.values()
        oldest = next((since for _, since in waiting), now)
        if self.home is None and now - oldest > PATIENCE_S:
            self.drop()
            return
        self.next_at = max(self.next_at, now - LATE_S)
        while not self.is_done and not self.is_blocked and self.next_at <= now:
            if sum(now - since <= PATIENCE_S for _, since in waiting) >= self.in_flight_max:
                break
            self.next_at += self.every_s
            assert self.session is not None
            content = self.book.publish(self.stream)
            publish = m.BasicPublish("", self.queue, mandatory=True)
            self.session.send_bytes(publish.frame(CHANNEL) + content)

    def gone(self) -> None:
        if self.stream is not None:
            self.stream.waiting.clear()
        self.stream = None

    @property
    def has_heard(self) -> bool:
        """Nothing that it sent over the connection it has now waits for an answer."""
        return self.stream is None or not self.stream.waiting


class Receiver(Client):
    """What consumers and getters have in common: what they hold, and settling it."""

    def __init__(self, crowd: Crowd, name: str, queue: str, home: int | None) -> None:
        super().__init__(crowd, name, home)
        self.queue = queue
        self.seat = NEW
        self.held: dict[int, Sent | None] = {}
        self.gives_back = False
        self.pause_s = 0.0
        self.next_act = 0.0

    def opened(self) -> None:
        self.seat = Session(repr(self))

    def take(self, tag: int, redelivered: bool, content: bytes) -> None:
        """A message has come."""
        self.held[tag] = self.book.deliver(self.seat, self.queue, content, redelivered)

    def settle(self, count: int, multiple: bool) -> None:
        """Acknowledge the first ones of what is held, or give one back."""
        tags = list(self.held)[:count]
        if self.gives_back and self.dice.randrange(20) == 0:
            sent = self.held.pop(tags[0])
            if sent is not None:
                self.book.give_back(sent)
            self.send(m.BasicNack(tags[0], False, True))
            return
        for tag in tags:
            sent = self.held.pop(tag)
            if sent is not None:
                self.book.ack(sent)
            if not multiple:
                self.send(m.BasicAck(tag))
        if multiple:
            self.send(m.BasicAck(tags[-1], True))

    def gone(self) -> None:
        self.book.gone(self.seat, self.queue)
        self.held.clear()


class Consumer(Receiver):
    """One consumer; it hurries when it is to drain the queue."""

    def __init__(
        self, crowd: Crowd, name: str, queue: str, prefetch: int, home: int | None
    ) -> None:
        super().__init__(crowd, name, queue, home)
        self.prefetch = prefetch
        self.multiple = bool(self.dice.randrange(2))
        self.ask_at = 0.0

    def opened(self) -> None:
        super().opened()
        self.send(m.BasicQos(prefetch_count=self.prefetch))
        self.send(m.BasicConsume(self.queue, "c"))

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicQosOk):
            self.since = 0.0
        elif isinstance(method, m.BasicCancel):
            self.drop()

    def on_delivery(self, tag: int, redelivered: bool, content: bytes) -> None:
        self.take(tag, redelivered, content)

    def act(self, now: float) -> None:
        if now >= self.ask_at and not self.since:
            self.ask_at, self.since = now + ASK_S, now
            self.send(m.BasicQos(prefetch_count=self.prefetch))
        if self.held and now >= self.next_act:
            self.next_act = now + self.pause_s
            self.settle(1 + self.dice.randrange(len(self.held)), self.multiple)


class Getter(Receiver):
    """Polls with basic.get, one at a time."""

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicGetEmpty):
            self.since = 0.0

    def on_content(self, method: Method, content: bytes) -> None:
        assert isinstance(method, m.BasicGetOk)
        self.since = 0.0
        self.take(method.delivery_tag, method.redelivered, content)

    def act(self, now: float) -> None:
        if self.since or now < self.next_act:
            return
        self.next_act = now + max(self.pause_s, 0.01)
        if self.held:
            self.settle(1, False)
        self.since = now
        self.send(m.BasicGet(self.queue))


class Registrar(Client):
    """Declares durable exchanges and deletes them, one after the other."""

    def __init__(self, crowd: Crowd, name: str, ledger: Ledger) -> None:
        super().__init__(crowd, name, None)
        self.ledger = ledger
        self.pending = ""
        self.next_act = 0.0
        self.is_done = False

    def act(self, now: float) -> None:
        if self.pending or self.is_done or now < self.next_act:
            return
        self.since, self.next_act = now, now + REGISTER_S
        there = [name for name, state in self.ledger.known.items() if state == "there"]
        if len(there) < 5 or self.dice.randrange(2):
            self.pending = self.ledger.new_name()
            self.send(m.ExchangeDeclare(self.pending, "direct", durable=True))
        else:
            self.pending = self.dice.choice(there)
            self.send(m.ExchangeDelete(self.pending))
        self.ledger.known[self.pending] = GONE_UNHEARD

    def on_method(self, method: Method) -> None:
        is_declared = isinstance(method, m.ExchangeDeclareOk)
        if is_declared or isinstance(method, m.ExchangeDeleteOk):
            self.ledger.known[self.pending] = "there" if is_declared else "gone"
            self.book.goes_on(DEFINITIONS, self.since)
            self.since, self.pending = 0.0, ""

    def gone(self) -> None:
        self.pending = ""
