"""What the clients of the durability tests do: publish, consume, get, declare and delete."""

from __future__ import annotations

from typing import Final

from durability.clients import CHANNEL, Client, Fleet, cut
from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.client.session import FRAME_MAX_BYTES
from sluicemq.sim.messages import (
    PERSISTENT,
    PERSISTENT_NAMED,
    TRANSIENT,
    TRANSIENT_NAMED,
    content_of,
    id_of_body,
    is_persistent,
)
from sluicemq.sim.records import ACKED, ENDED_WELL, REQUEUED, Consumption, Delivery, Holder, promise

EXCHANGE: Final = "torture"
"""A durable fanout exchange: one message, several queues."""

SIZES: Final = ((0, 50), (0, 1000), (3000, 4200), (4000, 20_000), (0, 20_000))
"""Bodies of one publisher, bytes beyond HEAD: some for the index, some for the message store, and
some around the limit between them."""

PERSISTENT_KINDS: Final = (PERSISTENT,) * 9 + (PERSISTENT_NAMED,)
TRANSIENT_KINDS: Final = (TRANSIENT, TRANSIENT_NAMED)
OUT_MAX_BYTES: Final = 1 << 16
TIMES_MAX: Final = 4
NOT_COUNTED: Final = -1
GONE_UNHEARD: Final = "in doubt"


class Publisher(Client):
    """A stream of mostly persistent messages with confirms, never more in flight than it likes."""

    def __init__(self, fleet: Fleet, name: str, targets: list[tuple[str, ...]], total: int) -> None:
        dice = fleet.dice
        self.targets = targets
        self.target = dice.choice(targets)
        self.total = total
        self.in_flight_max = dice.choice((1, 20, 200, 1000))
        self.burst_max = dice.choice((1, 5, 50))
        self.sizes = dice.choice(SIZES)
        self.transient_one_in = 15
        self.leaves = dice.randrange(3) == 0
        self.stream = fleet.book.stream(name, True)
        self.ready = False
        super().__init__(fleet, name)

    def opened(self) -> None:
        self.send(m.ConfirmSelect())

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.ConfirmSelectOk):
            self.ready = True
        elif isinstance(method, m.BasicAck):
            self.confirm(method.delivery_tag, method.multiple)
        else:
            super().on_method(method)

    def on_acks(self, tags: list[int]) -> None:
        for tag in tags:
            self.confirm(tag, False)

    def confirm(self, tag: int, multiple: bool) -> None:
        """basic.ack from the broker."""
        if self.leaving:
            return
        self.book.confirm(self.stream, tag, multiple)

    def act(self, now: float) -> None:
        if not self.ready or self.blocked:
            return
        for _ in range(1 + self.dice.randrange(self.burst_max)):
            if self.is_done() or len(self.stream.unconfirmed) >= self.in_flight_max:
                break
            if len(self.out) >= OUT_MAX_BYTES:
                break
            self.publish()
        if self.leaves and self.is_done() and not self.stream.unconfirmed:
            self.leave()

    def is_done(self) -> bool:
        return len(self.stream.sent) >= self.total

    def publish(self) -> None:
        """One message; mostly to where the one before went."""
        dice = self.dice
        if dice.randrange(20) == 0:
            self.target = dice.choice(self.targets)
        transient = self.transient_one_in and dice.randrange(self.transient_one_in) == 0
        kind = dice.choice(TRANSIENT_KINDS if transient else PERSISTENT_KINDS)
        size = dice.randint(*self.sizes)
        exchange, key = (EXCHANGE, "") if len(self.target) > 1 else ("", self.target[0])
        sequence = self.book.publish(self.stream, self.target, persistent=is_persistent(kind))
        content = content_of(CHANNEL, self.stream.number, sequence, kind, size, FRAME_MAX_BYTES)
        self.out += self.session.data_to_send()
        self.out += m.BasicPublish(exchange, key).frame(CHANNEL)
        self.out += content

    def ended(self, how: str) -> None:
        self.stream.ended = how
        if how == ENDED_WELL:
            self.stream.unconfirmed.clear()  # who leaves early does not hear


class ReceivingClient(Client):
    """What consumers and getters have in common: tags, what is held, and settling it."""

    def __init__(self, fleet: Fleet, name: str, queue: str) -> None:
        self.queue = queue
        self.holder = Holder(name)
        self.held: dict[int, Delivery] = {}
        self.last_tag = 0
        self.asked = 0
        """The moment of the question that is being answered."""
        super().__init__(fleet, name)

    def take(self, tag: int, by: Consumption, redelivered: bool, content: bytes) -> None:
        """A message has come."""
        if self.leaving:
            return
        promise(tag == self.last_tag + 1, self.holder, "gets tag", tag, "after", self.last_tag)
        self.last_tag = tag
        message = id_of_body(*cut(content))
        self.held[tag] = self.book.deliver(message, by, redelivered, False)

    def ack(self, tags: list[int], multiple: bool) -> None:
        """These, which are all up to the last of them when `multiple`."""
        for tag in tags:
            self.book.settle(self.held.pop(tag), ACKED)
            if not multiple:
                self.send(m.BasicAck(tag))
        if multiple:
            self.send(m.BasicAck(tags[-1], True))

    def give_back(self, tag: int) -> None:
        """To the queue, unless it was there often enough."""
        message = self.held[tag].message
        if len(self.book.queue(self.queue).seen[message]) >= TIMES_MAX:
            self.ack([tag], False)
            return
        self.book.settle(self.held.pop(tag), REQUEUED)
        self.send(m.BasicNack(tag, False, True))

    def ask(self) -> None:
        """basic.qos changes nothing: its answer says that the acks before it have arrived."""
        if not self.asked:
            self.asked = self.book.now()
            self.send(m.BasicQos(prefetch_count=self.prefetch))

    prefetch = 0

    def answered(self) -> None:
        if self.asked:
            self.book.answered(self.holder, self.asked)
            self.asked = 0

    def ended(self, how: str) -> None:
        self.book.end(self.holder, how)


class Consumer(ReceivingClient):
    """One consumer with a prefetch; acknowledges in one of several styles, or is slow."""

    def __init__(self, fleet: Fleet, name: str, queue: str, drains: bool = False) -> None:
        dice = fleet.dice
        self.drains = drains
        self.prefetch = 200 if drains else dice.choice((1, 5, 50, 300))
        self.style = "multiple" if drains else dice.choice(("single", "multiple", "mixed"))
        self.pause_s = 0.0 if drains else dice.choice((0.0, 0.005, 0.05))
        self.requeues = not drains and dice.randrange(3) == 0
        self.leaves_after = 0 if drains or dice.randrange(3) else dice.randrange(300)
        self.next_act = 0.0
        super().__init__(fleet, name, queue)
        self.by = Consumption(self.holder, queue, self.prefetch)

    def opened(self) -> None:
        self.send(m.BasicQos(prefetch_count=self.prefetch))
        self.send(m.BasicConsume(self.queue, "c"))

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicQosOk):
            self.answered()
        elif not isinstance(method, m.BasicConsumeOk):
            super().on_method(method)

    def on_delivery(self, tag: int, consumer: str, redelivered: bool, content: bytes) -> None:
        self.take(tag, self.by, redelivered, content)

    def act(self, now: float) -> None:
        if now < self.next_act or not self.held:
            return
        self.next_act = now + self.pause_s
        dice = self.dice
        tags = list(self.held)
        if not self.drains:
            tags = tags[: 1 + dice.randrange(len(tags))]
        if self.requeues and dice.randrange(4) == 0:
            self.give_back(tags[-1])
        else:
            multiple = self.style == "multiple" or (self.style == "mixed" and dice.random() < 0.5)
            self.ack(tags, multiple)
        self.ask()
        if self.leaves_after and self.last_tag > self.leaves_after:
            self.leave()


class Getter(ReceivingClient):
    """Polls with basic.get, one at a time."""

    def __init__(self, fleet: Fleet, name: str, queue: str) -> None:
        super().__init__(fleet, name, queue)
        self.by = Consumption(self.holder, queue, NOT_COUNTED)
        self.asking = False

    def act(self, now: float) -> None:
        if not self.asking:
            self.asking = True
            self.send(m.BasicGet(self.queue))

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicQosOk):
            self.answered()
        elif isinstance(method, m.BasicGetEmpty):
            self.asking = False
        else:
            super().on_method(method)

    def on_content(self, method: Method, content: bytes) -> None:
        promise(isinstance(method, m.BasicGetOk), self.name, "gets", method)
        assert isinstance(method, m.BasicGetOk)
        self.asking = False
        self.take(method.delivery_tag, self.by, method.redelivered, content)
        if len(self.held) > self.dice.randrange(10):
            tags = list(self.held)
            if self.dice.randrange(10) == 0:
                self.give_back(tags[0])
            else:
                self.ack(tags, True)
            self.ask()


class Ledger:
    """Durable queues that come and go, and what the broker has said of each."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """there, gone, or in doubt."""
        self.count = 0

    def new_name(self) -> str:
        self.count += 1
        return f"ledger-{self.count}"


class Registrar(Client):
    """Declares durable queues and deletes them, one after the other."""

    def __init__(self, fleet: Fleet, name: str, ledger: Ledger) -> None:
        self.ledger = ledger
        self.pending = ""
        super().__init__(fleet, name)

    def act(self, now: float) -> None:
        if self.pending:
            return
        there = [name for name, state in self.ledger.known.items() if state == "there"]
        if len(there) < 5 or self.dice.randrange(2):
            self.pending = self.ledger.new_name()
            self.send(m.QueueDeclare(self.pending, durable=True))
            self.send(m.QueueBind(self.pending, "amq.direct", self.pending))
        else:
            self.pending = self.dice.choice(there)
            self.send(m.QueueDelete(self.pending))
        self.ledger.known[self.pending] = GONE_UNHEARD

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.QueueBindOk):
            self.ledger.known[self.pending] = "there"
            self.pending = ""
        elif isinstance(method, m.QueueDeleteOk):
            self.ledger.known[self.pending] = "gone"
            self.pending = ""
        elif not isinstance(method, m.QueueDeclareOk):
            super().on_method(method)
