"""Clients of one node of several: publishers and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.sim.messages import PERSISTENT, TRANSIENT, content_of, id_of_body
from sluicemq.sim.nodes.book import CONFIRMED, REFUSED, ChannelHolder
from sluicemq.sim.peer import FRAME_MAX, Role
from sluicemq.sim.records import ACKED, REJECTED, REQUEUED, promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.book import BookedConsumer, BookedDelivery, ClusterStream
    from sluicemq.sim.nodes.site_port import SitePort

AWAY: Final = "is down or inaccessible"
"""The end of a broker's text about a queue whose node is unreachable."""
GONE: Final = (
    AWAY,
    "has lost this node's channels",
    "any more",
)
"""The ends of texts about a queue that a channel cannot go on using, but a new channel may."""
UNAGREED: Final = ("have not agreed on it", "have to agree on it")
"""What a broker says of a change of definitions that was not agreed on in time."""
TO_ALL: Final = "to all"
"""The exchange that is bound to all queues."""
TIMES_MAX: Final = 4
"""A consumer requeues a message at most this often, so that every run comes to an end."""


class SiteRole(Role):
    """What a client of a site does on one channel."""

    pause_ns: int

    def __init__(self, site: SitePort) -> None:
        self.site = site
        self.is_planned = False

    def wake(self) -> None:
        """Act soon, unless an act is planned already."""
        if not self.is_planned and not self.over:
            self.is_planned = True
            pause_ns = MS // 20 if self.site.is_healing else self.pause_ns
            self.later(1 + self.site.random.randrange(pause_ns), "acts", self._act)

    def _act(self) -> None:
        self.is_planned = False
        self.act()

    def act(self) -> None:
        """Do the next thing that is due."""
        raise NotImplementedError

    def heal(self) -> None:
        self.wake()

    def successor(self) -> SiteRole | None:
        """Return the role that continues where this one ended, on another channel; None without
        one."""
        raise NotImplementedError


def publish(role: SiteRole, stream: ClusterStream, queue: str) -> None:
    """Publish a message to the queue, or sometimes to all queues of the run."""
    site = role.site
    plan, random = site.plan, site.random
    kind = PERSISTENT if random.randrange(100) < plan.persistent_percent else TRANSIENT
    queues: tuple[str, ...] = (queue,)
    method = m.BasicPublish(routing_key=queue)
    if plan.fans_out and not random.randrange(3):
        queues = tuple(each.name for each in plan.fanned)
        method = m.BasicPublish(exchange=TO_ALL)
    number, sequence = site.book.publish(stream, queues, kind == PERSISTENT)
    size = random.randrange(plan.body_bytes_max)
    content = content_of(role.number, number, sequence, kind, size, FRAME_MAX)
    role.peer.send(method.frame(role.number) + content)


def is_unagreed(text: str) -> bool:
    """Tell whether a broker's text says that a change was not agreed on in time."""
    return any(each in text for each in UNAGREED)


def is_gone(site: SitePort, queue: str, close: m.ChannelClose) -> bool:
    """Tell whether a channel is closed because its queue is unavailable, or its storage has failed,
    perhaps on another node."""
    text = close.reply_text
    if site.plan.queue(queue).passes and (close.reply_code == 404 or is_unagreed(text)):
        return True
    is_away = close.reply_code == 404 and any(each in text for each in GONE)
    return is_away or "storage has failed" in text


class SitePublisher(SiteRole):
    """Publishes one stream of messages on one channel."""

    refusal_breaks = True

    def __init__(self, site: SitePort, name: str, total: int) -> None:
        super().__init__(site)
        random = site.random
        self.name = name
        self.total = total
        self.confirms = random.randrange(100) < site.plan.confirm_percent
        self.in_flight_max = random.choice((1, 3, 20))
        self.burst_max = random.choice((1, 5))
        self.pause_ns = random.choice((10 * MS, 50 * MS, 150 * MS))
        self.queue = site.any_queue()
        self.stream = site.book.stream(name, site.number, self.confirms)

    def opened(self) -> None:
        if self.confirms:
            self.send(m.ConfirmSelect())
        else:
            self.wake()

    def on_method(self, method: Method) -> None:
        book = self.site.book
        if isinstance(method, m.BasicAck):
            book.answer(self.stream, method.delivery_tag, method.multiple, CONFIRMED)
        elif isinstance(method, m.BasicNack):
            book.answer(self.stream, method.delivery_tag, method.multiple, REFUSED)
        else:
            promise(isinstance(method, m.ConfirmSelectOk), self.name, "gets", method)
        self.wake()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.name, "gets", method)

    def on_writable(self) -> None:
        self.wake()

    def act(self) -> None:
        """Publish some messages; close after the last once all are answered."""
        is_over = len(self.stream.sent) >= self.total or self.site.is_healing
        if is_over and not self.stream.unconfirmed:
            self.close()
            return
        for _ in range(1 + self.site.random.randrange(self.burst_max)):
            if len(self.stream.sent) >= self.total or self.site.is_healing or self._must_wait():
                return
            self._publish()
        self.wake()

    def _must_wait(self) -> bool:
        """Tell whether it waits for room in its socket, or for confirms, which wake it."""
        return self.peer.socket.room() <= 0 or len(self.stream.unconfirmed) >= self.in_flight_max

    def _publish(self) -> None:
        site = self.site
        random = site.random
        if random.randrange(10) == 0:
            self.queue = site.any_queue()
        publish(self, self.stream, self.queue)

    def ended(self, how: str) -> None:
        self.stream.ended = how
        self.stream.unconfirmed.clear()  # nobody will hear of these

    def successor(self) -> SiteRole | None:
        left = self.total - len(self.stream.sent)
        if self.site.is_healing or left <= 0:
            return None
        return SitePublisher(self.site, self.name, left)


class SiteConsumer(SiteRole):
    """Consumes from one queue on one channel. One that drains requeues nothing, and stays."""

    def __init__(self, site: SitePort, name: str, queue: str, drains: bool) -> None:
        super().__init__(site)
        random = site.random
        self.name = name
        self.queue = queue
        self.drains = drains
        self.holder = ChannelHolder(name, site.number)
        self.prefetch = 20 if drains else random.randrange(site.plan.prefetch_max + 1)
        self.requeue_percent = 0 if drains else site.plan.requeue_percent
        self.pause_ns = random.choice((MS, 10 * MS, 60 * MS))
        self.cancel_one_in = 0 if drains else random.choice((0, 0, 40))
        self.is_patient = False
        """It was refused before, and waits a little."""
        self.is_cancelling = False
        self.held: dict[int, BookedDelivery] = {}
        self.last_tag = 0
        self.consumer: BookedConsumer | None = None
        """None while it does not consume."""

    def opened(self) -> None:
        if self.prefetch:
            self.send(m.BasicQos(prefetch_count=self.prefetch))
        planned = self.site.plan.queue(self.queue)
        if self.drains and planned.passes:
            self.send(planned.declaration())
        if self.is_patient:
            self._consume_later()
        else:
            self.consume()

    def _consume_later(self) -> None:
        delay_ns = 1 + self.site.random.randrange(200 * MS)
        self.later(delay_ns, "consumes again", self.consume)

    def consume(self) -> None:
        """Begin to consume from the queue."""
        site = self.site
        life = site.life_of(self.queue)
        self.consumer = site.book.consumer(self.holder, self.queue, self.prefetch, life)
        self.send(m.BasicConsume(queue=self.queue, consumer_tag="c"))

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicCancelOk):
            self.is_cancelling = False
            self.consume()
        elif isinstance(method, m.BasicCancel):
            self._cancelled()
        else:
            well = isinstance(method, m.BasicConsumeOk | m.BasicQosOk | m.QueueDeclareOk)
            promise(well, self.name, "gets", method)

    def _cancelled(self) -> None:
        """Handle a basic.cancel because the queue's node is lost: held messages no longer count,
        and come again from that node. A consumer that is already cancelling is told, too."""
        is_deleted = self.site.plan.queue(self.queue).passes
        promise(is_deleted or not self.site.book.is_calm, self.name, "is cancelled")
        self.consumer = None
        if not self.is_cancelling:
            self._consume_later()

    def is_refused(self, close: m.ChannelClose) -> bool:
        return is_gone(self.site, self.queue, close)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        assert isinstance(method, m.BasicDeliver)
        tag = method.delivery_tag
        promise(tag == self.last_tag + 1, self.name, "gets tag", tag, "after", self.last_tag)
        self.last_tag = tag
        assert self.consumer is not None
        message = id_of_body(properties, body)
        self.held[tag] = self.site.book.deliver(message, self.consumer, method.redelivered)
        self.wake()

    def act(self) -> None:
        """Settle some of the held messages."""
        if not self.held:
            return
        random = self.site.random
        tag = random.choice([*self.held])
        seen = self.site.book.queues[self.queue].seen
        if self.site.is_healing:
            self._settle([*self.held], ACKED, m.BasicAck([*self.held][-1], multiple=True))
        elif self.site.plan.queue(self.queue).grave and not random.randrange(4):
            self._settle([tag], REJECTED, m.BasicNack(tag, requeue=False))
        elif random.randrange(100) < self.requeue_percent:
            if len(seen[self.held[tag].message]) < TIMES_MAX:
                self._settle([tag], REQUEUED, m.BasicNack(tag, requeue=True))
        elif random.randrange(2):
            upto = [each for each in self.held if each <= tag]
            self._settle(upto, ACKED, m.BasicAck(tag, multiple=True))
        else:
            self._settle([tag], ACKED, m.BasicAck(tag))
        may_cancel = self.cancel_one_in and self.consumer is not None and not self.is_cancelling
        if may_cancel and not random.randrange(self.cancel_one_in):
            self.cancel()
        if self.held:
            self.wake()

    def _settle(self, tags: list[int], state: str, method: Method) -> None:
        for tag in tags:
            self.site.book.settle(self.held.pop(tag), state)
        self.send(method)

    def cancel(self) -> None:
        """Stop consuming; on cancel-ok the next consumer begins."""
        self.is_cancelling = True
        self.site.book.give_back(self.site.book.queues[self.queue])
        self.send(m.BasicCancel(consumer_tag="c"))

    def is_done(self) -> bool:
        return self.over or not self.held

    @property
    def consumes(self) -> bool:
        """Whether it has a consumer, as far as it has heard."""
        return self.consumer is not None and not (self.over or self.is_cancelling)

    def ended(self, how: str) -> None:
        self.site.book.give_back(self.site.book.queues[self.queue])
        self.holder.ended = how

    def heal(self) -> None:
        self.cancel_one_in = 0
        self.wake()

    def successor(self) -> SiteRole | None:
        if self.site.is_leaving or (self.site.is_healing and not self.drains):
            return None
        successor = SiteConsumer(self.site, self.name, self.queue, self.drains)
        successor.is_patient = True
        return successor
