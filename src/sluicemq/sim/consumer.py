"""Simulated consumers: every way of acknowledging, cancelling, giving back and getting."""

from __future__ import annotations

from typing import Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.amqp.types import Table
from sluicemq.sim.messages import id_of_body, returns_of, sent_on_by
from sluicemq.sim.peer import Role, Stage
from sluicemq.sim.records import (
    ACKED,
    LASTING,
    REJECTED,
    REQUEUED,
    Consumption,
    Delivery,
    Holder,
    promise,
)
from sluicemq.sim.units import MS

STYLES: Final = ("single", "multiple", "out of order", "mixed", "late")
TIMES_MAX: Final = 4
"""A consumer requeues a message at most this often, so that every run comes to an end."""

CANCELS: Final = (0, 0, 40)
"""A consumer cancels once in this many acts; never with 0."""
CANCELS_QUORUM: Final = (2, 3, 20)
"""The same for quorum queues where assigned messages that were not sent have to be requeued: that
seldom happens."""

NOT_COUNTED: Final = -1
"""The limit of a consumption by basic.get, to which no prefetch applies."""


class ReceivingRole(Role):
    """What consumers and getters have in common: delivery tags, held messages, and
    settling them.
    """

    def __init__(self, work: Stage, name: str) -> None:
        self.work = work
        self.holder = Holder(name)
        self.held: dict[int, Delivery] = {}
        self.last_tag = 0
        self.acting = False
        self.asked: list[int] = []
        """When the unanswered questions were asked."""
        self.recovering = 0
        """basic.recover is under way: messages that still arrive are already requeued."""
        self.pause_ns = work.dice.choice((MS // 10, 2 * MS, 30 * MS))

    def take(
        self, tag: int, by: Consumption, redelivered: bool, no_ack: bool, raw: tuple[bytes, bytes]
    ) -> None:
        """Check a message that has arrived, and hold it until it is settled."""
        promise(tag == self.last_tag + 1, self.holder, "gets tag", tag, "after", self.last_tag)
        self.last_tag = tag
        if self.recovering and not no_ack:
            promise(id_of_body(*raw) is not None, self.holder, "receives what nobody sent")
            return
        source = self.work.book.queue(by.queue).source
        came_from = source and source.name
        promise(sent_on_by(raw[0]) == came_from, self.holder, "gets what was not in", came_from)
        returns = returns_of(raw[0])
        delivery = self.work.book.deliver(id_of_body(*raw), by, redelivered, no_ack, returns)
        number, sequence = delivery.message
        due_ns = self.work.book.streams[number].sent[sequence].due_ns
        is_due = self.work.timeline.now_ns + MS > due_ns  # the broker has the time in milliseconds
        promise(is_due, self.holder, "gets", delivery.message, "too early")
        if not no_ack:
            self.held[tag] = delivery

    def ask(self, method: Method) -> None:
        """Send a method that the broker answers."""
        self.asked.append(self.work.book.now())
        self.send(method)

    def answered(self) -> None:
        """Note the answer to the oldest question: all acknowledgements sent before that question
        have arrived."""
        self.work.book.answered(self.holder, self.asked.pop(0))

    def closed(self) -> None:
        self.work.book.answered(self.holder)

    def wake(self) -> None:
        """Act soon, unless an act is planned already."""
        if not self.acting and not self.over:
            self.acting = True
            pause_ns = self.pause_ns if not self.work.healing else MS // 20
            self.later(1 + self.work.dice.randrange(pause_ns), "acts", self.act)

    def act(self) -> None:
        raise NotImplementedError

    def settle(self, tags: list[int], state: str) -> None:
        for tag in tags:
            self.work.book.settle(self.held.pop(tag), state)

    def ack_multiple(self, tag: int) -> None:
        """Acknowledge all held messages up to and including `tag`."""
        self.settle([each for each in self.held if each <= tag], ACKED)
        self.send(m.BasicAck(delivery_tag=tag, multiple=True))

    def ack(self, tag: int) -> None:
        self.settle([tag], ACKED)
        self.send(m.BasicAck(delivery_tag=tag))

    def give_back(self, tag: int) -> None:
        """Nack or reject a message so that it is requeued, unless it has been requeued often
        enough."""
        message = self.held[tag].message
        queue = self.work.book.queue(self.held[tag].by.queue)
        requeue = len(queue.seen[message]) < TIMES_MAX
        dice = self.work.dice
        if queue.graves and dice.randrange(2):
            self.reject(tag)
            return
        several = dice.randrange(6)
        tags = list(self.held) if several == 0 else [each for each in self.held if each <= tag]
        if several <= 2 and all(self.times(each) < TIMES_MAX for each in tags):
            self.settle(tags, REQUEUED)
            if several == 0:
                self.recovering += 1
                self.work.book.give_back_unseen(self.holder)
                self.ask(m.BasicRecover(requeue=True))
            else:
                self.send(m.BasicNack(delivery_tag=tag, multiple=True, requeue=True))
            return
        if not requeue:
            self.reject(tag)
            return
        self.settle([tag], REQUEUED)
        self.send_back(tag, requeue)

    def reject(self, tag: int) -> None:
        """Reject a message without requeueing it; it is dead-lettered where the queue has a dead
        letter exchange."""
        queue = self.work.book.queue(self.held[tag].by.queue)
        self.settle([tag], REJECTED if queue.graves else ACKED)
        self.send_back(tag, requeue=False)

    def send_back(self, tag: int, requeue: bool) -> None:
        """Send basic.nack or basic.reject, chosen at random."""
        if self.work.dice.randrange(2):
            self.send(m.BasicNack(delivery_tag=tag, requeue=requeue))
        else:
            self.send(m.BasicReject(delivery_tag=tag, requeue=requeue))

    def times(self, tag: int) -> int:
        delivery = self.held[tag]
        return len(self.work.book.queue(delivery.by.queue).seen[delivery.message])

    def ended(self, how: str) -> None:
        self.work.book.end(self.holder, how)

    def is_done(self) -> bool:
        return self.over or not (self.held or self.recovering)

    def err(self) -> None:
        """Acknowledge an unknown delivery tag, so that the broker closes the channel."""
        self.over = True
        self.ended("closed")
        self.send(m.BasicAck(delivery_tag=self.last_tag + 1000))


class SimConsumer(ReceivingRole):
    """Consumes from one queue, with one or two consumers on one channel."""

    def __init__(self, work: Stage, name: str, queue: str, no_ack: bool, drains: bool) -> None:
        super().__init__(work, name)
        dice = work.dice
        swarm = work.swarm
        self.queue = queue
        self.no_ack = no_ack
        self.drains = drains
        self.style = "multiple" if drains else dice.choice(STYLES)
        self.prefetch = dice.randrange(swarm.prefetch_max + 1)
        self.limit = 0
        if drains:
            self.prefetch = 40
        elif self.prefetch and dice.randrange(3) == 0:
            self.limit = 1 + dice.randrange(self.prefetch)
        self.is_quorum = work.book.queue(queue).is_quorum
        if self.is_quorum:
            self.limit = 0  # there is none for a whole channel
        self.requeue_percent = 0 if drains else swarm.requeue_percent
        self.consumers = 1 if drains else dice.choice((1, 1, 1, 2))
        self.priority = 0 if drains else dice.choice((0, 0, 0, 5))
        often = CANCELS_QUORUM if self.is_quorum else CANCELS
        self.cancel_one_in = 0 if drains else dice.choice(often)
        self.consumptions: dict[str, Consumption] = {}
        self.cancelling: dict[str, None] = {}
        self.next_consumer = 0

    def opened(self) -> None:
        if self.work.book.queue(self.queue).promise not in LASTING:
            self.ask(self.work.declaration(self.queue))
        else:
            self.begin()

    def begin(self) -> None:
        """Set the prefetch limits, then consume."""
        if self.prefetch:
            self.ask(m.BasicQos(prefetch_count=self.prefetch))
        if self.limit:
            self.set_limit(self.limit)
        for _ in range(self.consumers):
            self.consume()

    def set_limit(self, limit: int) -> None:
        """Set the prefetch that all consumers of the channel share; it is only ever raised, or
        removed."""
        self.ask(m.BasicQos(prefetch_count=limit, global_=True))
        self.holder.limit = limit

    def consume(self) -> None:
        """Begin another consumer on the channel."""
        self.next_consumer += 1
        tag = f"c{self.next_consumer}"
        limit = 0 if self.no_ack else self.prefetch
        self.consumptions[tag] = Consumption(self.holder, self.queue, limit)
        arguments: Table = {"x-priority": self.priority} if self.priority else {}
        self.ask(
            m.BasicConsume(
                queue=self.queue, consumer_tag=tag, no_ack=self.no_ack, arguments=arguments
            )
        )

    def on_method(self, method: Method) -> None:
        if not isinstance(method, m.BasicCancel):
            self.answered()
        if isinstance(method, m.QueueDeclareOk):
            self.begin()
        elif isinstance(method, m.BasicRecoverOk):
            self.recovering -= 1
        elif isinstance(method, m.BasicCancelOk):
            del self.cancelling[method.consumer_tag]
            del self.consumptions[method.consumer_tag]
            self.consume()
        elif isinstance(method, m.BasicCancel):
            self.cancelled(method.consumer_tag)
        else:
            well = isinstance(method, m.BasicConsumeOk | m.BasicQosOk)
            promise(well, self.holder, "gets", method)

    def cancelled(self, tag: str) -> None:
        """Start anew on another channel, because the queue was deleted."""
        history = self.work.book.queue(self.queue)
        expected = history.promise not in LASTING or history.had_fault
        promise(expected, self.holder, "is cancelled")
        if tag not in self.cancelling:
            self.close()

    def may_be_refused(self, code: int) -> bool:
        """Tell whether the queue may be deleted before the consumer starts, or is being
        read back.
        """
        history = self.work.book.queue(self.queue)
        return code == 404 and (history.promise not in LASTING or history.had_fault)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        assert isinstance(method, m.BasicDeliver)
        by = self.consumptions.get(method.consumer_tag)
        promise(by is not None, self.holder, "gets a message for", method.consumer_tag)
        assert by is not None
        raw = (properties, body)
        self.take(method.delivery_tag, by, method.redelivered, self.no_ack, raw)
        self.wake()

    def act(self) -> None:
        """Settle some messages; now and then cancel and consume again."""
        self.acting = False
        dice = self.work.dice
        if self.held:
            if self.work.healing:
                self.ack_multiple(next(reversed(self.held)))
            elif dice.randrange(100) < self.requeue_percent:
                self.give_back(dice.choice(list(self.held)))
            else:
                self.acknowledge()
        if self.holder.limit and dice.randrange(20) == 0:
            self.set_limit(0 if self.work.healing else self.holder.limit + dice.randrange(3))
        if self.cancel_one_in and dice.randrange(self.cancel_one_in) == 0:
            self.cancel()
        if self.held:
            self.wake()

    def acknowledge(self) -> None:
        """Acknowledge some held messages, in this consumer's style."""
        dice = self.work.dice
        held = list(self.held)
        style = self.style if self.style != "mixed" else dice.choice(STYLES[:3])
        count = 1 + dice.randrange(len(held))
        if style == "late" and self.prefetch and len(held) < self.prefetch and dice.randrange(20):
            return
        if style == "multiple":
            self.ack_multiple(held[count - 1])
            return
        chosen = dice.sample(held, count) if style == "out of order" else held[:count]
        for tag in chosen:
            self.ack(tag)

    def cancel(self) -> None:
        """Cancel one consumer; on cancel-ok another begins."""
        for tag in self.consumptions:
            if tag not in self.cancelling:
                self.cancelling[tag] = None
                if self.is_quorum:  # messages not sent to it are requeued
                    self.work.book.queue(self.queue).is_shuffled = True
                self.ask(m.BasicCancel(consumer_tag=tag))
                return

    def heal(self) -> None:
        self.cancel_one_in = 0
        self.wake()


class Getter(ReceivingRole):
    """Polls a queue with basic.get, one message at a time."""

    def __init__(self, work: Stage, name: str, queue: str, no_ack: bool) -> None:
        super().__init__(work, name)
        self.no_ack = no_ack
        self.by = Consumption(self.holder, queue, NOT_COUNTED)
        self.asking = False

    def opened(self) -> None:
        self.wake()

    def on_method(self, method: Method) -> None:
        self.answered()
        if isinstance(method, m.BasicRecoverOk):
            self.recovering -= 1
            return
        promise(isinstance(method, m.BasicGetEmpty) and self.asking, self.holder, "gets", method)
        self.asking = False
        self.wake()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(isinstance(method, m.BasicGetOk) and self.asking, self.holder, "gets", method)
        assert isinstance(method, m.BasicGetOk)
        self.answered()
        self.asking = False
        raw = (properties, body)
        self.take(method.delivery_tag, self.by, method.redelivered, self.no_ack, raw)
        self.wake()

    def may_be_refused(self, code: int) -> bool:
        """Tell whether its queue may be being read back after a fault."""
        return code == 404 and self.work.book.queue(self.by.queue).had_fault

    def act(self) -> None:
        """Ask for the next message; settle now and then."""
        self.acting = False
        dice = self.work.dice
        if self.held and (self.work.healing or dice.randrange(3) == 0):
            tag = dice.choice(list(self.held))
            if not self.work.healing and dice.randrange(100) < self.work.swarm.requeue_percent:
                self.give_back(tag)
            else:
                self.ack_multiple(tag)
        if self.work.healing:
            if self.held:
                self.wake()
        elif not self.asking:
            self.asking = True
            self.ask(m.BasicGet(queue=self.by.queue, no_ack=self.no_ack))

    def is_done(self) -> bool:
        return super().is_done() and (self.over or not self.asking)

    def heal(self) -> None:
        self.wake()
