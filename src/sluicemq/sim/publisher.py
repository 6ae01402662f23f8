"""Simulated publishers: they send bursts into a socket that may be full, with or
without confirms.
"""

from __future__ import annotations

from typing import Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.sim.messages import (
    DELAYS_MS,
    PERSISTENT,
    PERSISTENT_NAMED,
    PRIORITIES,
    TRANSIENT,
    TRANSIENT_NAMED,
    content_of,
    delayed,
    id_of_body,
    priority_of,
    urgent,
)
from sluicemq.sim.peer import FRAME_MAX, Role, Stage
from sluicemq.sim.records import BROKEN, PublishedStream, promise
from sluicemq.sim.units import MS

QUESTION_ONE_IN: Final = 30
CARELESS_ONE_IN: Final = 8
"""One publisher in this many closes without waiting for its confirms."""


class SimPublisher(Role):
    """Publishes one stream of messages on one channel."""

    refusal_breaks = True

    def __init__(self, work: Stage, name: str, total: int) -> None:
        self.work = work
        dice = work.dice
        swarm = work.swarm
        self.total = total
        self.confirming = dice.randrange(100) < swarm.confirm_percent
        self.careless = dice.randrange(CARELESS_ONE_IN) == 0
        self.in_flight_max = dice.choice((1, 3, 20, 10_000))
        self.burst_max = dice.choice((1, 5, 30))
        self.pause_ns = dice.choice((MS // 20, MS, 20 * MS))
        self.target = dice.choice(work.targets)
        self.size_max = 1 + dice.randrange(swarm.body_bytes_max)
        self.even = dice.randrange(2) == 0
        self.mixed = dice.randrange(4) == 0
        self.urgent = any(plan.max_priority for plan in swarm.queues)
        """Some of its messages have priorities."""
        self.stream: PublishedStream = work.book.stream(name, self.confirming)
        self.acting = False
        self.finishing = False

    def opened(self) -> None:
        if self.confirming:
            self.send(m.ConfirmSelect())
        else:
            self.wake()

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicAck):
            self.work.book.confirm(self.stream, method.delivery_tag, method.multiple)
            self.wake()
        elif isinstance(method, m.BasicNack):
            self.work.book.reject(self.stream, method.delivery_tag, method.multiple)
            self.wake()
        elif isinstance(method, m.ConfirmSelectOk):
            self.wake()
        else:
            promise(isinstance(method, m.QueueDeclareOk), self.stream.name, "gets", method)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(isinstance(method, m.BasicReturn), self.stream.name, "gets", method)
        self.work.book.give_back(self.stream, id_of_body(properties, body))

    def on_writable(self) -> None:
        self.wake()

    def wake(self) -> None:
        """Act soon, unless an act is planned already."""
        if not self.acting and not self.over:
            self.acting = True
            pause_ns = self.pause_ns if not self.work.healing else MS // 20
            self.later(1 + self.work.dice.randrange(pause_ns), "publishes", self.act)

    def act(self) -> None:
        """Write what may be written; then wait for room, a confirm, or the next time."""
        self.acting = False
        dice = self.work.dice
        if len(self.stream.sent) >= self.total or self.work.healing:
            self.finish()
            return
        for _ in range(1 + dice.randrange(self.burst_max)):
            if len(self.stream.sent) >= self.total or self.must_wait():
                break
            self.publish()
        if dice.randrange(QUESTION_ONE_IN) == 0 and self.peer.socket.room() > 0:
            self.send(m.QueueDeclare(queue=self.work.swarm.queues[0].name, passive=True))
        if not self.must_wait():
            self.wake()

    def must_wait(self) -> bool:
        """Tell whether it has to wait for room in the socket or for a confirm, which wakes it."""
        full = len(self.stream.unconfirmed) >= self.in_flight_max
        return self.peer.socket.room() <= 0 or full

    def publish(self) -> None:
        """Publish one message, mostly like the one before, as real publishers do."""
        work = self.work
        dice = work.dice
        if dice.randrange(10) == 0:
            self.target = dice.choice(work.targets)
        target = self.target
        size = self.size_max if self.even else dice.randrange(self.size_max)
        persistent = dice.randrange(100) < work.swarm.persistent_percent
        kind = PERSISTENT if persistent else TRANSIENT
        if self.mixed and dice.randrange(4) == 0:
            kind = PERSISTENT_NAMED if persistent else TRANSIENT_NAMED
        if self.urgent and dice.randrange(3) == 0:
            kind = urgent(kind, dice.randrange(len(PRIORITIES)))
        delay_ms = 0
        if target.delays:
            nth = dice.randrange(len(DELAYS_MS))
            kind, delay_ms = delayed(kind, nth), DELAYS_MS[nth]
        mandatory = dice.randrange(20) == 0
        method = m.BasicPublish(
            exchange=target.exchange, routing_key=target.key, mandatory=mandatory
        )
        sequence = work.book.publish(
            self.stream,
            target.queues,
            mandatory,
            target.spread,
            persistent,
            priority_of(kind),
            work.timeline.now_ns + delay_ms * MS,
        )
        number = self.number
        content = content_of(number, self.stream.number, sequence, kind, size, FRAME_MAX)
        self.peer.send(method.frame(number) + content)

    def finish(self) -> None:
        """Close when nothing is left to wait for."""
        if not self.stream.unconfirmed or (self.careless and not self.work.healing):
            self.close()

    def ended(self, how: str) -> None:
        self.stream.ended = how
        if how == BROKEN:
            return
        self.stream.unconfirmed.clear()  # a client that leaves early gets no confirms

    def may_be_refused(self, code: int) -> bool:
        """Tell whether the queue it asks about may be being read back after a fault."""
        return code == 404 and any(queue.had_fault for queue in self.work.book.queues.values())

    def heal(self) -> None:
        self.wake()

    def err(self) -> None:
        """Publish to an exchange that does not exist, so that the broker closes the channel."""
        self.over = True
        self.ended("closed")
        method = m.BasicPublish(exchange="missing", routing_key="x")
        self.peer.send(method.frame(self.number) + content_of(self.number, 0, 0, 0, 0, FRAME_MAX))
