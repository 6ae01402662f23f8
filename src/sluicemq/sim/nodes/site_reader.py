"""Clients that read a stream of the broker: each gets every message from some offset or time on, in
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp import methods as m
from sluicemq.sim.messages import id_of_body, offset_of
from sluicemq.sim.nodes.clients import SiteRole, is_gone
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.amqp.types import FieldValue
    from sluicemq.sim.nodes.site_port import SitePort


class SiteReader(SiteRole):
    """Reads a stream on one channel, for a while from each place. With `drains` it reads from the
    beginning to the end, and stays."""

    def __init__(self, site: SitePort, name: str, queue: str, drains: bool) -> None:
        super().__init__(site)
        random = site.random
        self.name = name
        self.queue = queue
        self.drains = drains
        self.prefetch = 40 if drains else 1 + random.randrange(20)
        self.patience = 1 + random.randrange(40)
        """After this many messages it begins at another place, on another channel."""
        self.pause_ns = random.choice((2 * MS, 30 * MS))
        self.next_offset: int | None = None
        """The offset of the next message; None allows any."""
        self.tag = self.settled = 0

    def opened(self) -> None:
        self.send(m.BasicQos(prefetch_count=self.prefetch))
        self.later(1 + self.site.random.randrange(50 * MS), "reads", self.read)

    def read(self) -> None:
        """Begin to read at some place of the stream."""
        arguments = {"x-stream-offset": self.place()}
        self.send(m.BasicConsume(queue=self.queue, consumer_tag="r", arguments=arguments))

    def place(self) -> FieldValue:
        """Choose the place to start from and return it as consumer argument; the reader then knows
        the first message to expect."""
        random = self.site.random
        known = self.site.book.queues[self.queue].entries
        kind = 0 if self.drains else random.randrange(4)
        if kind == 0:
            self.next_offset = 0
            return "first"
        if kind == 1 and known:
            self.next_offset = random.choice([*known])
            return self.next_offset
        return "last" if kind == 2 else "next"

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicCancel):
            promise(not self.site.book.is_calm, self.name, "is cancelled")
            self.close()
        else:
            well = isinstance(method, m.BasicConsumeOk | m.BasicQosOk)
            promise(well, self.name, "gets", method)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(isinstance(method, m.BasicDeliver), self.name, "gets", method)
        assert isinstance(method, m.BasicDeliver)
        self.tag += 1
        promise(method.delivery_tag == self.tag, self.name, "gets tag", method.delivery_tag)
        promise(not method.redelivered, self.name, "gets what is flagged as redelivered")
        held = self.tag - self.settled
        promise(held <= self.prefetch, self.name, "holds", held, "with prefetch", self.prefetch)
        offset = offset_of(properties)
        due = self.next_offset
        promise(due in (offset, None), self.name, "gets offset", offset, "and not", due)
        self.next_offset = offset + 1
        self.site.book.read(self.queue, offset, id_of_body(properties, body))
        if self.drains:
            self.site.book.queues[self.queue].read_to = self.next_offset
        self.wake()

    def act(self) -> None:
        """Acknowledge some or all messages; leave after reading enough."""
        held = self.tag - self.settled
        if held:
            is_healing = self.site.is_healing
            self.settled += held if is_healing else 1 + self.site.random.randrange(held)
            self.send(m.BasicAck(self.settled, multiple=True))
        if not self.drains and (self.tag >= self.patience or self.site.is_healing):
            self.close()
        elif self.settled < self.tag:
            self.wake()

    def is_refused(self, close: m.ChannelClose) -> bool:
        return is_gone(self.site, self.queue, close)

    def is_done(self) -> bool:
        return self.over or self.settled == self.tag

    def ended(self, how: str) -> None:
        """Do nothing: a reader holds nothing beyond its channel."""

    def successor(self) -> SiteRole | None:
        if self.site.is_leaving or (self.site.is_healing and not self.drains):
            return None
        return SiteReader(self.site, self.name, self.queue, self.drains)
