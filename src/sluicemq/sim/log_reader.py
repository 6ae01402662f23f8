"""Simulated readers of a stream: each gets every message from some offset or time on, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.sim.messages import id_of_body, offset_of
from sluicemq.sim.peer import Role, Stage
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.types import FieldValue

UNKNOWN: Final = -1


class LogReader(Role):
    """Reads a stream on one channel. With `drains` it reads from the beginning to the end, and the
    run waits until it has."""

    def __init__(self, work: Stage, name: str, queue: str, drains: bool) -> None:
        self.work = work
        self.name = name
        self.queue = queue
        self.drains = drains
        dice = work.dice
        self.prefetch = 40 if drains else 1 + dice.randrange(max(1, work.swarm.prefetch_max))
        self.patience = 1 + dice.randrange(60)
        """It leaves after this many messages, and another reader comes."""
        self.pause_ns = dice.choice((MS // 10, 2 * MS, 30 * MS))
        self.next_offset = UNKNOWN
        self.tag = self.settled = 0
        self.acting = False

    def opened(self) -> None:
        self.send(m.BasicQos(prefetch_count=self.prefetch))

    def start(self) -> FieldValue:
        """Choose the place to start from and return it as consumer argument; the reader then knows
        the first message to expect."""
        read = self.work.book.log(self.queue).entries
        kind = 0 if self.drains else self.work.dice.randrange(4)
        if kind == 0:
            self.next_offset = 0
            return "first"
        if kind == 1 and read:
            self.next_offset = self.work.dice.choice(list(read))
            return self.next_offset
        return "last" if kind == 2 else "next"

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicQosOk):
            arguments = {"x-stream-offset": self.start()}
            self.send(m.BasicConsume(queue=self.queue, arguments=arguments))
        elif isinstance(method, m.BasicCancel):
            faulty = self.work.book.queue(self.queue).had_fault
            promise(faulty, self.name, "is cancelled")
            self.close()
        else:
            promise(isinstance(method, m.BasicConsumeOk), self.name, "gets", method)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        """Check the next message of the stream."""
        assert isinstance(method, m.BasicDeliver)
        self.tag += 1
        promise(method.delivery_tag == self.tag, self.name, "gets tag", method.delivery_tag)
        promise(not method.redelivered, self.name, "gets what is flagged as redelivered")
        held = self.tag - self.settled
        promise(held <= self.prefetch, self.name, "holds", held, "with prefetch", self.prefetch)
        offset = offset_of(properties)
        right = self.next_offset in (offset, UNKNOWN)
        promise(right, self.name, "gets offset", offset, "and not", self.next_offset)
        self.next_offset = offset + 1
        log = self.work.book.log(self.queue)
        log.read(offset, id_of_body(properties, body))
        if self.drains:
            log.read_to = max(log.read_to, self.next_offset)
        self.wake()

    def may_be_refused(self, code: int) -> bool:
        """Tell whether the stream may be being read back after a fault."""
        return code == 404 and self.work.book.queue(self.queue).had_fault

    def wake(self) -> None:
        """Act soon, unless an act is planned already."""
        if not self.acting and not self.over:
            self.acting = True
            pause_ns = self.pause_ns if not self.work.healing else MS // 20
            self.later(1 + self.work.dice.randrange(pause_ns), "acts", self.act)

    def act(self) -> None:
        """Acknowledge some or all messages; leave after reading enough."""
        self.acting = False
        held = self.tag - self.settled
        if held:
            self.settled += held if self.work.healing else 1 + self.work.dice.randrange(held)
            self.send(m.BasicAck(delivery_tag=self.settled, multiple=True))
        if self.tag >= self.patience and not self.work.healing:
            self.close()
        elif self.settled < self.tag:
            self.wake()

    def heal(self) -> None:
        self.wake()

    def is_done(self) -> bool:
        return self.over or self.settled == self.tag

    def ended(self, how: str) -> None:
        """Do nothing: a reader holds nothing beyond its channel."""
