"""Clients that delete and redeclare queues while others use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp import methods as m
from sluicemq.sim.nodes.clients import SiteRole, is_unagreed
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.plan import PlannedQueue
    from sluicemq.sim.nodes.site_port import SitePort


class SiteRemaker(SiteRole):
    """Deletes or redeclares one of the passing queues, `total` times. The clients that drain the
    queues declare them at last."""

    def __init__(self, site: SitePort, total: int) -> None:
        super().__init__(site)
        self.total = total
        self.pause_ns = site.random.choice((50 * MS, 200 * MS, 500 * MS))
        self.awaited: type[Method] | None = None
        """The awaited answer; None without one."""

    def opened(self) -> None:
        self.wake()

    def act(self) -> None:
        """Ask for the next deletion or declaration; close after the last."""
        if self.awaited is not None:
            return
        random = self.site.random
        if self.site.is_healing or not self.total:
            self.close()
            return
        self.total -= 1
        queue = random.choice(passing(self.site))
        if random.randrange(2):
            self.awaited = m.QueueDeleteOk
            self.send(m.QueueDelete(queue=queue.name))
        else:
            self.awaited = m.QueueDeclareOk
            self.send(queue.declaration())

    def on_method(self, method: Method) -> None:
        promise(type(method) is self.awaited, self.peer.name, "gets", method)
        if isinstance(method, m.QueueDeleteOk):
            self.site.book.figures["deletions"] += 1
        self.awaited = None
        self.wake()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.peer.name, "gets", method)

    def is_refused(self, close: m.ChannelClose) -> bool:
        if close.reply_code == 404:
            return True  # its home already knows of the deletion, or is away
        text = close.reply_text
        return is_unagreed(text) or "storage" in text

    def ended(self, how: str) -> None:
        """Do nothing: nobody needs to know whether the last change happened."""

    def is_done(self) -> bool:
        return self.over

    def successor(self) -> SiteRole | None:
        if self.site.is_healing or not self.total:
            return None
        return SiteRemaker(self.site, self.total)


def passing(site: SitePort) -> list[PlannedQueue]:
    """Return the queues of the run that are deleted and redeclared."""
    return [each for each in site.plan.queues if each.passes]
