"""Clients that use basic.get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.sim.messages import id_of_body
from sluicemq.sim.nodes.book import ChannelHolder
from sluicemq.sim.nodes.clients import TIMES_MAX, SiteRole, is_gone
from sluicemq.sim.records import ACKED, REQUEUED, promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.book import BookedConsumer, BookedDelivery
    from sluicemq.sim.nodes.site_port import SitePort

HELD_MAX: Final = 3


class SiteGetter(SiteRole):
    """Gets messages of one queue, holds some of them for a while, and settles them."""

    def __init__(self, site: SitePort, name: str, queue: str) -> None:
        super().__init__(site)
        self.name = name
        self.queue = queue
        self.holder = ChannelHolder(name, site.number)
        self.pause_ns = site.random.choice((20 * MS, 100 * MS, 300 * MS))
        self.held: dict[int, BookedDelivery] = {}
        self.last_tag = 0
        self.asked: BookedConsumer | None = None
        """The record for the basic.get under way; None without one."""
        self.last_of: dict[int, int] = {}

    def opened(self) -> None:
        self.wake()

    def act(self) -> None:
        """Settle one held message, or ask for another one."""
        if self.site.is_healing and self.asked is None:
            self.settle_all()
        elif self.held and (len(self.held) >= HELD_MAX or not self.site.random.randrange(2)):
            self.settle_one()
        elif self.asked is None:
            book = self.site.book
            life = self.site.life_of(self.queue)
            self.asked = book.consumer(self.holder, self.queue, 0, life)
            self.asked.last_of = self.last_of
            self.send(m.BasicGet(queue=self.queue))
        if not self.site.is_healing:
            self.wake()

    def settle_all(self) -> None:
        """Acknowledge everything, and be done."""
        if self.held:
            last = [*self.held][-1]
            for delivery in self.held.values():
                self.site.book.settle(delivery, ACKED)
            self.held.clear()
            self.send(m.BasicAck(last, multiple=True))

    def settle_one(self) -> None:
        """Acknowledge one message, or requeue it."""
        random = self.site.random
        tag = random.choice([*self.held])
        delivery = self.held[tag]
        times = len(self.site.book.queues[self.queue].seen[delivery.message])
        gives_back = random.randrange(100) < self.site.plan.requeue_percent and times < TIMES_MAX
        del self.held[tag]
        self.site.book.settle(delivery, REQUEUED if gives_back else ACKED)
        self.send(m.BasicNack(tag, requeue=True) if gives_back else m.BasicAck(tag))

    def on_method(self, method: Method) -> None:
        well = isinstance(method, m.BasicGetEmpty) and self.asked is not None
        promise(well, self.name, "gets", method)
        self.asked = None
        self.wake()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(isinstance(method, m.BasicGetOk), self.name, "gets", method)
        assert isinstance(method, m.BasicGetOk)
        promise(self.asked is not None, self.name, "gets what it has not asked for")
        assert self.asked is not None
        tag = method.delivery_tag
        promise(tag == self.last_tag + 1, self.name, "gets tag", tag, "after", self.last_tag)
        self.last_tag = tag
        message = id_of_body(properties, body)
        self.held[tag] = self.site.book.deliver(message, self.asked, method.redelivered)
        self.asked = None
        self.wake()

    def is_refused(self, close: m.ChannelClose) -> bool:
        return is_gone(self.site, self.queue, close)

    def is_done(self) -> bool:
        return self.over or not (self.held or self.asked)

    def ended(self, how: str) -> None:
        self.site.book.give_back(self.site.book.queues[self.queue])
        self.holder.ended = how

    def successor(self) -> SiteRole | None:
        if self.site.is_leaving or self.site.is_healing:
            return None
        return SiteGetter(self.site, self.name, self.queue)
