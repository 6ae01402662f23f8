"""Simulated clients that change queues: one declares everything, others purge, delete, redeclare,
or listen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.sim.consumer import ReceivingRole
from sluicemq.sim.peer import Role, Stage
from sluicemq.sim.records import ENDED_WELL, LISTENING, Consumption, promise
from sluicemq.sim.units import MS

NEWS: Final = "news"
"""The fanout exchange that listeners bind their queues to."""
ANSWERS: Final = (
    m.QueueDeclareOk,
    m.QueueDeleteOk,
    m.QueuePurgeOk,
    m.QueueBindOk,
    m.QueueUnbindOk,
)


class Installer(Role):
    """Declares everything that the run needs, step by step, then calls `done`."""

    def __init__(
        self,
        steps: list[Method],
        done: Callable[[], None],
        may_break: Callable[[], bool] = lambda: False,
    ) -> None:
        self.steps = steps
        self.done = done
        self.may_break = may_break
        """True when the node may be down."""

    def opened(self) -> None:
        self.next()

    def next(self) -> None:
        """Take the next step, or call `done` after the last."""
        if self.steps:
            self.send(self.steps.pop(0))
        else:
            self.over = True
            self.done()

    def on_method(self, method: Method) -> None:
        self.next()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, "the installer gets", method)

    def ended(self, how: str) -> None:
        promise(how == ENDED_WELL or self.may_break(), "the installer's connection breaks")


class Operator(Role):
    """Purges, deletes and redeclares one volatile queue, over and over."""

    def __init__(self, work: Stage, queue: str) -> None:
        self.work = work
        self.queue = queue
        self.unanswered = 0
        self.pause_ns = work.dice.choice((5 * MS, 50 * MS, 500 * MS))

    def opened(self) -> None:
        self.plan()

    def plan(self) -> None:
        self.later(1 + self.work.dice.randrange(self.pause_ns), "operates", self.act)

    def act(self) -> None:
        """Act once; the next act follows the answer."""
        if self.work.healing:
            return
        declare = self.work.declaration(self.queue)
        delete = m.QueueDelete(queue=self.queue)
        acts: tuple[tuple[Method, ...], ...] = (
            (delete,),
            (delete, declare),
            (declare,),
            (declare, m.QueuePurge(queue=self.queue)),
            (declare, m.QueuePurge(queue=self.queue, nowait=True), declare),
            (declare, m.QueueBind(queue=self.queue, exchange=NEWS, routing_key="any")),
            (declare, m.QueueUnbind(queue=self.queue, exchange=NEWS, routing_key="any")),
        )
        chosen = self.work.dice.choice(acts)
        self.unanswered = sum(not getattr(method, "nowait", False) for method in chosen)
        for method in chosen:
            self.send(method)

    def on_method(self, method: Method) -> None:
        promise(isinstance(method, ANSWERS), self.peer.name, "gets", method)
        self.unanswered -= 1
        if not self.unanswered:
            self.plan()

    def may_be_refused(self, code: int) -> bool:
        """Tell whether another operator may have deleted the queue meanwhile."""
        return code == 404

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.peer.name, "gets", method)

    def is_done(self) -> bool:
        return self.over or not self.unanswered

    def ended(self, how: str) -> None:
        """Do nothing: an operator holds nothing that outlives its channel."""


class Listener(ReceivingRole):
    """Declares a queue of its own, consumes the news for a while, and leaves."""

    def __init__(self, work: Stage, name: str) -> None:
        super().__init__(work, name)
        dice = work.dice
        self.exclusive = dice.randrange(2) == 0
        self.no_ack = dice.randrange(2) == 0
        self.patience = 1 + dice.randrange(30)
        self.by: Consumption

    def opened(self) -> None:
        self.send(m.QueueDeclare(exclusive=self.exclusive, auto_delete=not self.exclusive))

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.QueueDeclareOk):
            self.work.book.queue(method.queue, LISTENING)
            if not self.exclusive:
                self.work.left_behind[method.queue] = None
            self.by = Consumption(self.holder, method.queue, 0)
            self.send(m.QueueBind(queue=method.queue, exchange=NEWS))
            self.send(m.BasicConsume(queue=method.queue, no_ack=self.no_ack))
        elif isinstance(method, m.BasicCancel):
            promise(self.work.healing, self.holder, "is cancelled")
        else:
            well = isinstance(method, m.QueueBindOk | m.BasicConsumeOk)
            promise(well, self.holder, "gets", method)

    def may_be_refused(self, code: int) -> bool:
        """Tell whether the run is ending, when queues are deleted."""
        return code == 404 and self.work.healing

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        assert isinstance(method, m.BasicDeliver)
        raw = (properties, body)
        self.take(method.delivery_tag, self.by, method.redelivered, self.no_ack, raw)
        self.patience -= 1
        self.wake()

    def act(self) -> None:
        """Acknowledge everything; leave after receiving enough."""
        self.acting = False
        if self.held:
            self.ack_multiple(next(reversed(self.held)))
        if self.patience <= 0 and not self.work.healing:
            if self.exclusive:
                self.peer.close()
            else:
                self.close()

    def heal(self) -> None:
        self.wake()
