"""The end of one channel, or republisher, of this node at a queue of another node, in one life of
the link between the nodes: what waits to be sent, what waits for answers, deliveries that wait for
the channel's window, and those that the channel has not settled.

When the link is lost, or the queue fails, the end is over; the channel gets another one with its
next request. Each has its own LinkId, and settles only deliveries that came over it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.remote import sections as s
from sluicemq.chain.remote.remote_state import RemoteState
from sluicemq.cluster.cluster_port import QUEUE_ASKS
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.address import AddressTable
from sluicemq.limits import WIRE_BATCH_BYTES, WIRE_CREDIT
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.command_codec import command_parts
from sluicemq.queues.commands import LinkId
from sluicemq.queues.consumers import Consumer
from sluicemq.replication.replicator import Replicator

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import PublishLink
    from sluicemq.chain.remote.queue_mail import QueueMail
    from sluicemq.chain.remote.sections import OpenedEnd
    from sluicemq.flow.credit import Outflow
    from sluicemq.flow.prefetch import Limiter
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.address import ActorAddress
    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.commands import Command


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteQueuePort(Queue[RemoteState, Replicator[Any, Any]]):
    """The stand-in of a queue, as its ends see it."""

    def enter(self, end: RemoteEnd) -> ActorAddress:
        """Give an end the address by which the other node knows it; messages for it are posted to
        this queue."""
        raise NotImplementedError

    def forget(self, serial: int) -> None:
        """Forget an end that is over."""
        raise NotImplementedError

    def opened_by(self, actor: Actor) -> OpenedEnd:
        """Return how the queue's node is told of a new end of that actor."""
        raise NotImplementedError

    def new_run(self) -> int:
        """Return a number that no run of deliveries has had here."""
        raise NotImplementedError

    def refuse_publish(self, publish: c.Publish) -> None:
        """Answer a batch that cannot go to the queue."""
        raise NotImplementedError


class RemoteConsumer(NamedTuple):
    """A consumer of this end, and the link over which the queue delivers to it, as the queue's node
    knows it."""

    consumer: Consumer
    home_link: LinkId


class RemoteRun:
    """One run of deliveries to the channel: the contents from `offset` on of the run `home_run` at
    the queue's node. `left` of them are not settled. `consumer` is None for an answer to basic.get.
    """

    __slots__ = ("consumer", "home_link", "home_run", "left", "offset")

    def __init__(
        self, home_link: LinkId, home_run: int, offset: int, left: int, consumer: Consumer | None
    ) -> None:
        self.home_link = home_link
        self.home_run = home_run
        self.offset = offset
        self.left = left
        self.consumer = consumer


class HeldDelivery:
    """A delivery that waits until its consumer has room: the contents from `offset` on of the run
    `home_run`."""

    __slots__ = ("came", "consumer", "offset")

    def __init__(self, consumer: RemoteConsumer, came: s.MessagesOnWire) -> None:
        self.consumer = consumer
        self.came = came
        self.offset = 0


class RemoteEnd:
    """The end of `actor`, to which channel and queue refer by `link`."""

    def __init__(
        self, queue: RemoteQueuePort, actor: Actor, link: LinkId, mail: QueueMail, reach: int
    ) -> None:
        self.queue = queue
        self.actor = actor
        self.link = link
        self.mail = mail
        self.reach = reach
        self.address: ActorAddress = queue.enter(self)
        self.table = AddressTable(self.address.node, self.address.incarnation)
        self.table.serial = self.address.serial - 1
        self.is_open = False
        """Does the other node know of it?"""
        self.is_leaving = False
        """The channel is gone: it waits for nothing but to have sent what it has published."""
        self.is_over = False
        self.publish_link: PublishLink | None = None
        """What the actor publishes over; None: it has not begun to."""
        self.credit = WIRE_CREDIT
        """What may be sent on, before the queue's node has handed more to the queue."""
        self.waiting: deque[Command] = deque()
        """What the actor has asked for, and is not sent: publishes, and what is behind them."""
        self.unanswered: dict[int, int] = {}
        """Publishes that wait for an answer: messages without one, by the first number."""
        self.asked: deque[Command] = deque()
        """What waits for an answer, in order."""
        self.consumers: dict[str, RemoteConsumer] = {}
        self.window: Outflow | None = None
        """The window of the channel for what this queue delivers; None: it has consumed nothing."""
        self.limiter: Limiter | None = None
        """The limiter of the channel, likewise."""
        self.held: deque[HeldDelivery] = deque()
        self.owed = 0
        """Of the delivery window, what the actor was given."""
        self.runs: dict[int, RemoteRun] = {}
        self.settles: list[c.Settle] = []
        """What was settled in this turn."""
        self.has_source = False
        """The channel has got something from the queue that it has to acknowledge."""
        self.limit = 0
        """The limit of the channel's limiter, as the queue's node knows it."""

    @property
    def is_idle(self) -> bool:
        """Tell whether the channel has nothing at the queue: only one request, which is answered. A
        channel tells only queues where it has something that it is gone."""
        has_something = self.publish_link or self.window or self.has_source
        return not (has_something or self.waiting or self.asked or self.unanswered)

    # -- to the queue's node

    def say(self, kind: int, body: list[bytes]) -> None:
        """Have the mail say something about this end to the queue's node, which is first told whose
        end it is."""
        if not self.is_open:
            self.is_open = True
            opened = s.encode_open(self.queue.opened_by(self.actor))
            self._put(s.OPEN, [opened])
        self._put(kind, body)

    def _put(self, kind: int, body: list[bytes]) -> None:
        self.mail.put(self.reach, QUEUE_ASKS, s.section(kind, self.address.serial, body))

    def send(self, command: Command) -> None:
        """Pass a command to the queue's node."""
        self.say(s.COMMAND, command_parts(command, self.table))

    def send_waiting(self) -> None:
        """Send what waits, as far as credit and room in the mail go."""
        waiting = self.waiting
        while waiting and not self.is_over:
            command = waiting[0]
            if isinstance(command, c.Publish):
                if self.credit <= 0:
                    return
                if not self.mail.has_room:
                    self.mail.wait_for_room(self.queue)
                    return
                self._publish(command)
            elif isinstance(command, c.Down):
                self.leave()
                return
            else:
                if isinstance(command, c.Consume):
                    self.tell_limit(command.consumer)
                self.send(command)
            waiting.popleft()

    def _publish(self, publish: c.Publish) -> None:
        """Send a batch: for its sender, only now it has left this queue's inbox."""
        batch = publish.batch
        count = len(batch.contents)
        if batch.size > WIRE_BATCH_BYTES:
            self.queue.refuse_publish(publish)
            return
        self.credit -= s.cost_on_wire(count, batch.size)
        if publish.confirm:
            self.unanswered[publish.first_seq] = count
        self.send(publish)
        publish.link.taken(count, batch.size)

    def tell_limit(self, consumer: Consumer) -> None:
        """Tell the queue's node how much all consumers of the channel may hold together."""
        limit = consumer.limiter.limit
        if limit != self.limit:
            self.limit = limit
            self.say(s.LIMIT, [s.COUNT.pack(limit)])

    def say_gathered(self) -> None:
        """Say what was settled and what the channel has taken; both are always sent, because their
        amount is bounded by the deliveries."""
        if self.is_over:
            return
        settles, self.settles = self.settles, []
        for settle in settles:
            self.send(settle)
        if self.owed >= self.queue.services.delivery_window.more_after:
            owed, self.owed = self.owed, 0
            self.say(s.WINDOW, [s.AMOUNT.pack(owed)])

    def leave(self) -> None:
        """Say that the channel is gone, and close the end."""
        if not self.is_over:
            self.say_gathered()
            if self.is_open:
                self.send(c.Down(self.actor))
            self.close()

    def close(self) -> None:
        """Close the end: nothing is sent any more, and nothing that arrives counts."""
        self.is_over = True
        self.waiting.clear()
        self.asked.clear()
        self.held.clear()
        self.settles.clear()
        self.unanswered.clear()
        self.queue.forget(self.address.serial)

    # -- to the channel

    def deliver(self, came: s.MessagesOnWire) -> None:
        """Keep a delivery of the queue. Raises BrokenSection for an unknown consumer."""
        consumer = self.consumers.get(came.tag)
        if consumer is None:
            raise s.BrokenSection("a delivery to a consumer that there is not")
        self.held.append(HeldDelivery(consumer, came))
        self.hand_over()

    def hand_over(self) -> None:
        """Pass the channel its deliveries, as far as its windows and limits allow."""
        held = self.held
        while held:
            delivery = held[0]
            left = len(delivery.came.contents) - delivery.offset
            room = delivery.consumer.consumer.room(delivery.came.cost_each, self.queue)
            if not room:
                return
            self._give(delivery, min(left, room))
            if room >= left:
                held.popleft()

    def _give(self, delivery: HeldDelivery, count: int) -> None:
        came, offset = delivery.came, delivery.offset
        consumer = delivery.consumer.consumer
        contents = came.contents
        if count < len(contents):
            contents = contents[offset : offset + count]
            delivery.offset = offset + count
        run = 0
        if came.run:
            run = self._new_run(delivery.consumer.home_link, came.run, offset, count, consumer)
        cost = consumer.take(count, came.cost_each)
        self.owed += cost
        self.queue.delivered += count
        self.actor.post(e.Deliver(consumer, run, contents, came.traits, came.redelivered, cost))

    def _new_run(
        self, home_link: LinkId, home_run: int, offset: int, count: int, consumer: Consumer | None
    ) -> int:
        run = self.queue.new_run()
        self.runs[run] = RemoteRun(home_link, home_run, offset, count, consumer)
        return run

    def got(self, got: s.MessageOnWire) -> e.Got:
        """Return the answer to a basic.get for the channel."""
        run, link = 0, None
        if got.link is not None:
            self.has_source = True
            run, link = self._new_run(got.link, got.run, 0, 1, None), self.link
        traits: MessageTraits = got.traits
        return e.Got(self.actor, got.content, run, traits, got.redelivered, got.ready, None, link)

    def end_consumer(self, tag: str) -> Consumer | None:
        """Forget a consumer that gets no more; return None when there is none. Its waiting
        deliveries still go to it, if it does not acknowledge; otherwise they go back."""
        found = self.consumers.pop(tag, None)
        if found is None:
            return None
        consumer = found.consumer
        of_others: deque[HeldDelivery] = deque()
        for delivery in self.held:
            if delivery.consumer is not found:
                of_others.append(delivery)
            elif consumer.no_ack:
                self._give(delivery, len(delivery.came.contents) - delivery.offset)
            else:
                self._give_back(delivery)
        self.held = of_others
        consumer.cancelled, consumer.active = True, False
        return consumer

    def _give_back(self, delivery: HeldDelivery) -> None:
        came = delivery.came
        start, end = delivery.offset, len(came.contents)
        self.owed += (end - start) * came.cost_each
        self._add_settle(delivery.consumer.home_link, (came.run, start, end), c.REQUEUE)

    # -- what the channel is done with

    def settle(self, settle: c.Settle) -> None:
        """Note what the channel has settled, in terms of the queue's node. Deliveries over an end
        that is closed mean nothing to the queue, but the channel's limits count them until now."""
        for run, start, end in settle.parts:
            known = self.runs.get(run)
            if known is None:
                continue
            known.left -= end - start
            assert known.left >= 0, "more is settled than was delivered"
            if not known.left:
                del self.runs[run]
            if known.consumer is not None:
                known.consumer.prefetch.give(end - start)
                known.consumer.limiter.give(end - start)
                self.tell_limit_later(known.consumer)
            if not self.is_over:
                part = known.home_run, known.offset + start, known.offset + end
                self._add_settle(known.home_link, part, settle.outcome)

    def tell_limit_later(self, consumer: Consumer) -> None:
        """Do as `tell_limit` does, unless the end is closed."""
        if not self.is_over:
            self.tell_limit(consumer)

    def _add_settle(self, home_link: LinkId, part: tuple[int, int, int], outcome: int) -> None:
        last = self.settles[-1] if self.settles else None
        if last is not None and last.link == home_link and last.outcome == outcome:
            last.parts.append(part)
        else:
            self.settles.append(c.Settle(home_link, [part], outcome))
