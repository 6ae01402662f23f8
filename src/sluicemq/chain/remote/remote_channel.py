"""post ---asked---> REMOTE CHANNEL ---commands---> queue of this node; effects go back to the post.

It stands for one channel, or republisher, of another node at one queue, which knows only this one.
It publishes over a link of its own to the queue, and while that is held up it gives no credit back
to the other node. Deliveries go on at once, as far as there is room in the mail; the window that
bounds them opens when the client there has taken the messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.chain.flow_actor import ActorKeeper, FlowActor
from sluicemq.chain.queue.queue import LinkEnded
from sluicemq.chain.remote import sections as s
from sluicemq.cluster.cluster_port import QUEUE_ANSWERS
from sluicemq.flow.credit import Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter
from sluicemq.kernel.address import AddressTable, UnknownAddress
from sluicemq.kernel.cleanup_steps import take
from sluicemq.limits import WIRE_CREDIT_NOTIFY
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.command_codec import CommandDecoder, UnreadableCommand
from sluicemq.text import octets

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import PublishLink, Queue
    from sluicemq.chain.remote.post_port import PostPort
    from sluicemq.chain.remote.queue_mail import QueueMail
    from sluicemq.chain.services import Services
    from sluicemq.flow.credit import Inflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.address import ActorAddress


class PeerLost(NamedTuple):
    """Posted to the stand-in of a channel: the link to that channel's node has ended."""


class QueueFound:
    """Tells the stand-in of a channel which queue it asks, which this node has heard of only now;
    None: it is deleted."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue | None) -> None:
        self.queue = queue


class RemoteChannel(FlowActor):
    """Stands for the channel that `opened` describes, at `address` of another node."""

    kind = "channel"
    is_vital = False

    def __init__(
        self,
        services: Services,
        post: PostPort,
        mail: QueueMail,
        address: ActorAddress,
        opened: s.OpenedEnd,
    ) -> None:
        super().__init__(services.scheduler, services.world.clock)
        self.keeper = ActorKeeper(services.world.clock, self)
        self.deliveries = GateKeeper(services.world.clock)
        self.services = services
        self.carrier = post
        self.mail = mail
        self.reach = mail.reach
        self.address = address
        self.name = opened.channel
        self.title = f"queue '{opened.queue}' in vhost '{opened.vhost}'"
        self.queue: Queue | None = None
        self.early: list[s.SectionCame] | None = []
        """What was asked before it was known whether there is such a queue; None: it is known."""
        self.link: PublishLink | None = None
        self.window: tuple[Outflow, Inflow] | None = None
        self.limiter = Limiter()
        table = AddressTable(services.life.node, services.life.incarnation)
        table.stand_for(address, self)
        self.decoder = CommandDecoder(table, self.window_of, Link)
        self.owed = 0
        """Of the credit that the other node has spent, what the queue has been handed."""
        self.confirms: list[bytes] = []
        self.due: deque[Any] = deque()
        """What the queue has delivered and answered, and has not been said for lack of room."""

    # -- its queue

    def found(self, queue: Queue | None) -> None:
        """Ask this queue from now on; None: it is deleted. Requests that have come already are
        handled first, also those that are still in the inbox."""
        if self.early or self.inbox:
            self.post(QueueFound(queue))
        else:
            self.begin_with(queue)

    def begin_with(self, queue: Queue | None) -> None:
        """Handle the requests that have waited for the queue. If that is on another node by now,
        the other side has to look there itself, or two nodes might forward requests in a circle."""
        early, self.early = self.early, None
        if queue is not None and not queue.is_local:
            self.say(s.ENDED, [], s.IS_LOST)
            self.end(is_lost=False)
            return
        self.queue = queue
        for message in early or ():
            self.asked(message)

    def latest(self) -> Queue | None:
        """Return the queue, or its successor after a fault, which knows none of the earlier windows
        and limits; None when it is deleted."""
        queue = self.queue
        if queue is not None and queue.successor is not None:
            self.queue = queue.latest
            self.window = None
            limit = self.limiter.limit
            self.limiter = Limiter()
            self.limiter.set_limit(limit)
        return self.queue

    def window_of(self, _: Actor) -> Outflow:
        """Return the queue's end of the delivery window, after making it if there is none."""
        queue = self.latest()
        if queue is None:
            return Outflow(self.deliveries, "", self.services.delivery_window)
        if self.window is None:
            keepers = queue.deliveries, self.deliveries
            self.window = self.services.delivery_link(queue, keepers, self.name)
        return self.window[0]

    # -- the inbox

    def receive(self, message: object) -> None:
        if isinstance(message, s.SectionCame):
            if self.early is not None:
                self.early.append(message.by_itself())
            else:
                self.asked(message)
        elif isinstance(message, e.Deliver):
            self.due.append(message)
        elif isinstance(message, e.Confirm):
            self.confirms.append(s.CONFIRM_ROW.pack(message.first_seq, message.count))
        elif isinstance(message, e.Rejected):
            self.say_confirms()
            row = s.REJECTION.pack(message.first_seq, message.offset, message.count)
            self.say(s.REJECTED, [row], s.MIXED * message.mixed)
        elif isinstance(message, PeerLost):
            self.end(is_lost=True)
        elif isinstance(message, QueueFound):
            self.begin_with(message.queue)
        elif isinstance(message, LinkEnded):
            self.link_ended(message)
        elif isinstance(message, ANSWERS):
            self.due.append(message)
        else:
            super().receive(message)

    def asked(self, ask: s.SectionCame) -> None:
        """Handle a request of the other node; an unreadable one ends the link to it."""
        try:
            if ask.kind == s.COMMAND:
                self.command(self.decoder.decode(ask.frame, ask.start, ask.end))
            elif ask.kind == s.WINDOW:
                [amount] = s.unpacked(s.AMOUNT, ask.body)
                if self.window is not None and amount:
                    self.window[1].settle(amount)
            elif ask.kind == s.LIMIT:
                [limit] = s.unpacked(s.COUNT, ask.body)
                self.limiter.set_limit(limit)
            else:
                raise s.BrokenSection(f"section {ask.kind} to a queue, which is not known here")
        except (UnreadableCommand, UnknownAddress) as error:
            self.carrier.broken(self.address.node, s.BrokenSection(str(error)))
        except s.BrokenSection as error:
            self.carrier.broken(self.address.node, error)

    def command(self, command: c.Command) -> None:
        """Pass a command to the queue, or answer it as a deleted queue would."""
        queue = self.latest()
        if isinstance(command, c.Publish):
            self.publish(command, queue)
        elif isinstance(command, c.Down):
            self.end(is_lost=False)
        elif queue is None:
            self.refuse(command)
        else:
            if isinstance(command, c.Consume):
                command.consumer.limiter = self.limiter
            queue.post(command)

    def publish(self, publish: c.Publish, queue: Queue | None) -> None:
        """Pass a batch to the queue. Its bodies get ids of this node's message store."""
        batch = publish.batch
        count = len(batch.contents)
        self.owed += s.cost_on_wire(count, batch.size)
        if queue is None:
            if publish.confirm:
                self.confirms.append(s.CONFIRM_ROW.pack(publish.first_seq, count))
            return
        if batch.traits.envelope and len(batch.contents[0]) >= self.services.large_from_bytes:
            batch.first_id = self.services.message_ids(count)
        if self.link is None:
            self.link = queue.link_from(self)
        self.link.send(batch, publish.first_seq, publish.confirm)

    def refuse(self, command: c.Command) -> None:
        """Answer a request to a queue that is deleted."""
        if isinstance(command, c.Cancel):
            self.due.append(e.Cancelled(command.consumer, False))
        elif isinstance(command, c.Delete):
            self.due.append(e.Deleted(self, 0))
        elif not isinstance(command, c.Settle):
            self.due.append(e.Refuse(self, 404, f"no {self.title}"))

    # -- what the queue says

    def say(self, kind: int, body: list[bytes], flags: int = 0) -> None:
        """Send a section to the channel's node."""
        parts = s.section(kind, self.address.serial, body, flags)
        self.mail.put(self.reach, QUEUE_ANSWERS, parts)

    def say_confirms(self) -> None:
        if self.confirms:
            confirms, self.confirms = self.confirms, []
            self.say(s.CONFIRMS, confirms)

    def say_due(self) -> None:
        """Send deliveries and answers of the queue, in order, as far as there is room."""
        due = self.due
        while due:
            if not self.mail.has_room:
                self.mail.wait_for_room(self)
                return
            message = due.popleft()
            if isinstance(message, e.Deliver):
                count = len(message.contents)
                flags, body = s.encode_delivery(
                    message.consumer.tag,
                    message.run,
                    message.cost // count,
                    message.whole(),
                    message.traits,
                    message.redelivered,
                )
                self.say(s.DELIVER, body, flags)
            elif isinstance(message, LinkEnded):
                self.say(s.ENDED, [], s.IS_LOST * message.is_lost)
                if message.is_lost:
                    self.end(is_lost=False)
            elif isinstance(message, e.Cancelled | e.Refuse) and message.goes_on:
                self.say(s.ENDED, [], s.IS_LOST)  # the other node has to look where
                self.end(is_lost=False)
            else:
                self.say(*answer_section(message))

    def link_ended(self, message: LinkEnded) -> None:
        """Pass on that the queue is deleted, or has failed: then the other node gets nothing more
        from here."""
        if message.link is self.link:
            self.link.end()
            self.link = None
            self.say_confirms()
            self.due.append(message)

    def flow_resumed(self) -> None:
        self.schedule()

    def turn_ended(self) -> None:
        """Send what was gathered, and return the credit of what the queue has been given, unless it
        is held up."""
        self.say_confirms()
        self.say_due()
        if self.owed >= WIRE_CREDIT_NOTIFY and not self.keeper.gates_shut:
            owed, self.owed = self.owed, 0
            self.say(s.CREDIT, [s.AMOUNT.pack(owed)])

    # -- its end

    def end(self, is_lost: bool) -> None:
        """Have the queue take the channel for down, and ignore further messages. `is_lost` tells
        that the link to the channel's node has ended, not the channel."""
        self.go_deaf()
        self.due.clear()
        self.keeper.release()
        self.carrier.ended(self.address)
        link, self.link = self.link, None
        if link is not None:
            link.end()
        queue = self.latest()
        if queue is not None:
            queue.post(c.Down(self, is_lost))

    def faulted(self, error: Exception) -> None:
        """End, after a fault in here, and have the other node take the queue for failed."""
        take(
            self,
            [lambda: self.say(s.ENDED, [], s.IS_LOST), lambda: self.end(is_lost=False)],
        )


def answer_section(answer: e.Effect) -> tuple[int, list[bytes], int]:
    """Return kind, body and flags of the section for an answer of a queue."""
    flags = 0
    if isinstance(answer, e.Got):
        message = s.MessageOnWire(
            answer.content, answer.run, answer.link, answer.ready, answer.traits, answer.redelivered
        )
        flags, body = s.encode_got(message)
        return s.GOT, body, flags
    if isinstance(answer, e.Consumed):
        return s.CONSUMED, [s.LINK.pack(*answer.link)], flags
    if isinstance(answer, e.Cancelled):
        return s.CANCELLED, [octets(answer.consumer.tag)], s.BY_BROKER * answer.by_broker
    if isinstance(answer, e.Inspected):
        return s.INSPECTED, [s.INSPECTION.pack(answer.ready, answer.consumers)], flags
    if isinstance(answer, e.Purged):
        return s.PURGED, [s.AMOUNT.pack(answer.count)], flags
    if isinstance(answer, e.Deleted):
        return s.DELETED, [s.AMOUNT.pack(answer.count)], flags
    assert isinstance(answer, e.Refuse), f"a queue has answered {answer!r}"
    return s.REFUSED, s.encode_refusal(answer.code, answer.text), flags


ANSWERS: Final = (e.Got, e.Consumed, e.Cancelled, e.Inspected, e.Purged, e.Deleted, e.Refuse)
"""What a queue answers to commands, and says when consumers end."""
