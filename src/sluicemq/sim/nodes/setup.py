"""Declares the queues of the run at each node, and records which ones the node knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp import methods as m
from sluicemq.sim.nodes.clients import AWAY, GONE, TO_ALL, UNAGREED, SiteRole
from sluicemq.sim.nodes.mirror_policies import are_set, set_policies
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.site_port import SitePort


class SiteSetup(SiteRole):
    """Declares each queue of the plan that the clients of its node have not found yet. A queue
    whose node is down counts as found. Then it binds the queues to the exchange of all, if there is
    one."""

    def __init__(self, site: SitePort) -> None:
        super().__init__(site)
        self.pause_ns = 50 * MS
        self.todo = [each for each in site.plan.queues if each.name not in site.known]
        self.to_bind = site.plan.fanned
        self.is_asking = False

    def opened(self) -> None:
        if self.to_bind:
            self.send(m.ExchangeDeclare(exchange=TO_ALL, exchange_type="fanout", durable=True))
        self.wake()

    def act(self) -> None:
        """Go on with the next queue, if there is one."""
        if self.is_asking:
            return
        if self.site.plan.has_mirrors and not are_set(self.site.node, self.site.plan):
            set_policies(self.site.node, self.site.plan)
            self.wake()
            return
        self.is_asking = True
        if self.todo:
            queue = self.todo[0]
            self.send(queue.declaration())
        elif self.to_bind:
            self.send(m.QueueBind(queue=self.to_bind[0].name, exchange=TO_ALL))
        else:
            self.is_asking = False

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.ExchangeDeclareOk):
            return
        self.is_asking = False
        if self.todo:
            promise(isinstance(method, m.QueueDeclareOk), self.peer.name, "gets", method)
            self._found()
        else:
            promise(isinstance(method, m.QueueBindOk), self.peer.name, "gets", method)
            self.to_bind.pop(0)
            if not self.to_bind:
                self.site.bound()
        self.act()

    def _found(self) -> None:
        self.site.found(self.todo.pop(0).name)

    def is_refused(self, close: m.ChannelClose) -> bool:
        if self.todo and close.reply_code == 404 and AWAY in close.reply_text:
            self._found()
            return True
        if self.todo and self.todo[0].passes and close.reply_code == 404:
            return True  # its home already knows of the deletion
        return any(each in close.reply_text for each in (*GONE, *UNAGREED, "storage"))

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.peer.name, "gets", method)

    def ended(self, how: str) -> None:
        """Do nothing: the next setup finishes this one's work."""

    def is_done(self) -> bool:
        return self.over or not (self.todo or self.to_bind)

    def successor(self) -> SiteRole | None:
        if self.site.is_leaving or not (self.todo or self.to_bind):
            return None
        successor = SiteSetup(self.site)
        successor.todo, successor.to_bind = self.todo, self.to_bind
        return successor
