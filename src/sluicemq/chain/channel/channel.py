"""reader ---> CHANNEL ---> queues, with batches; queues ---> CHANNEL ---> writer, with deliveries.

A channel handles its inbox in order. It waits while a queue answers a method: whatever the client
sends meanwhile is held, so that replies leave in the order of the methods. Everything due to the
client is gathered in `out` and leaves once, at the turn's end.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import Acks, AnyPublishes, MethodFrame
from sluicemq.amqp.frames import joined
from sluicemq.amqp.methods import BasicCancel, ChannelClose
from sluicemq.amqp.properties import BASIC_CLASS
from sluicemq.chain.channel.attaching import Attachment, attach_again, wants_to_hear
from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.chain.channel.consumer_timeouts import LookAtOldest
from sluicemq.chain.channel.consuming import Consuming
from sluicemq.chain.channel.delivery_frames import DirectReply
from sluicemq.chain.channel.methods import (
    ANSWERS,
    METHOD_WORK,
    METHODS,
    WholeChannel,
)
from sluicemq.chain.channel.publishing import Publishing
from sluicemq.chain.channel.questions import Question
from sluicemq.chain.channel.reply_to import ReplyConsumer
from sluicemq.chain.channel.transactions import Transaction, too_early
from sluicemq.chain.property_traits import BASIC_PUBLISH
from sluicemq.chain.queue.queue import LinkEnded, Queue
from sluicemq.chain.splitting import split
from sluicemq.chain.writer import DeliveriesFlushed, Frames
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.flow.gate import Gate, GateKeeper
from sluicemq.kernel.actor import MESSAGE_WORK
from sluicemq.kernel.cleanup_steps import take
from sluicemq.limits import QUEUED_BYTES_MAX
from sluicemq.model.batch import OVERHEAD_BYTES
from sluicemq.model.traffic import Traffic
from sluicemq.queues.commands import Down
from sluicemq.queues.effects import Cancelled, Confirm, Deliver, Refuse, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.amqp.method import Method
    from sluicemq.chain.channel.channel_directory import ChannelDirectory
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.connection_port import ConnectionPort, Farewell
    from sluicemq.chain.services import Services
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.cleanup_steps import Step
    from sluicemq.queues.commands import Command


class ChannelDown:
    """Sent by the reader when the channel has ended, at whoever's request. `reply` is the last
    method that the client is sent on it, None when nothing more is due. `farewell`, if not None,
    waits for the end."""

    __slots__ = ("farewell", "reply")

    def __init__(self, reply: Method | None, farewell: Farewell | None = None) -> None:
        self.reply = reply
        self.farewell = farewell


class TooLarge:
    """Sent by the reader when the client has announced a message of `size` bytes, which exceeds the
    limit; its body is being skipped."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


FORGET_MAX: Final = 1000
"""The most entries that are freed in a piece."""

QUEUED_BYTES: Final = 300
"""Bytes of RAM that a queued event takes beside its octets: objects, decoded arguments."""
TAG_BYTES: Final = 40
"""Bytes of RAM that a tag takes in a run of acknowledgements."""


def bytes_of(message: object) -> int:
    """Return about how many bytes of memory a client's message takes; 0 for other messages."""
    if isinstance(message, AnyPublishes):
        return QUEUED_BYTES + message.size + OVERHEAD_BYTES * len(message.contents)
    if isinstance(message, MethodFrame):
        return QUEUED_BYTES + 2 * len(message.raw)
    if isinstance(message, Acks):
        return QUEUED_BYTES + TAG_BYTES * len(message.tags)
    return 0


class Channel(WholeChannel):
    """One channel of one connection: it handles its inbox in order, and holds what the client sends
    while an answer is due."""

    kind = "channel"
    is_vital = False

    def __init__(
        self,
        services: Services,
        directory: ChannelDirectory[ChannelPort],
        reader: ConnectionPort,
        number: int,
    ) -> None:
        super().__init__(services.scheduler, services.world.clock, reader.share)
        self.services = services
        self.directory = directory
        self.reader = reader
        assert reader.vhost is not None, "a channel before connection.open"
        self.vhost = reader.vhost
        self.rights = reader.rights
        self.number = number
        self.name = f"{reader.name} ({number})"
        self.deliveries = GateKeeper(services.world.clock)
        self.traffic = Traffic()
        self.publishing = Publishing(self)
        self.consuming = Consuming(self)
        self.outflow: Outflow
        """The reader's half of the link over which the client's publishes come."""
        self.inflow: Inflow
        self.crowded = Gate(reader.halts, f"methods held on channel {number}")
        self.replies: ReplyConsumer | None = None
        self.question: object = None
        """What the client waits for: a Question, or a Transaction that is being committed."""
        self.asked: Actor | None = None
        """The actor that was asked last on behalf of the client."""
        self.queued_methods: deque[object] = deque()
        self.queued_bytes = 0
        self.accounted = 0
        """The bytes of RAM that the channel was last accounted with."""
        self.last_queue = ""
        self.closing = False
        self.gone = False
        self.out: list[bytes] = []
        self.out_cost = 0

    def receive(self, message: object) -> None:
        """Handle one message. A client's is held while an answer is due to it; all others are
        handled at once."""
        if isinstance(message, (AnyPublishes, Acks)):
            if self.closing or self.question is not None or self.queued_methods:
                self.from_client(message)
            else:
                self.take(message)
        elif isinstance(message, Deliver):
            if self.closing:
                self.reader.window.give_back(message.cost)
            else:
                self.consuming.deliver(message)
        elif isinstance(message, Confirm):
            self.publishing.confirm(message)
        elif isinstance(message, DeliveriesFlushed):
            self.consuming.flushed(message.cost)
        elif isinstance(message, (MethodFrame, TooLarge)):
            self.from_client(message)
        else:
            self.receive_rare(message)

    def receive_rare(self, message: object) -> None:
        """Handle rare messages: answers of queues, ends of consumers, links and the channel,
        grants."""
        if isinstance(message, Cancelled) and message.by_broker:
            if isinstance(self.question, Question) or (message.goes_on and self.question):
                self.queued_methods.append(message)  # who deletes the queue hears of that first
            else:
                self.cancelled_by_broker(message)
        elif isinstance(message, ANSWERS):
            self.answered(message)
        elif isinstance(message, Rejected):
            self.publishing.reject(message)
        elif isinstance(message, LinkEnded):
            self.publishing.link_ended(message)
        elif isinstance(message, DirectReply):
            replies = self.replies
            if replies is not None and replies.at == message.at:
                replies.deliver(message)
        elif isinstance(message, LookAtOldest):
            self.look_at_oldest(message)
        elif isinstance(message, ChannelDown):
            if isinstance(self.question, Transaction) or not (self.question or self.queued_methods):
                self.down(message)
            else:
                self.queued_methods.append(message)  # everything that the client sent before counts
        else:
            super().receive(message)

    def from_client(self, message: object) -> None:
        """Handle a client's message, or hold it while an answer is due or other messages are held.
        The reader gets the credit of publishes back when their turn comes. A closing channel drops
        messages."""
        if self.closing:
            self.settle(message)
            return
        if self.question is not None or self.queued_methods:
            self.behind_question(message, self.question)
        else:
            self.take(message)

    def take(self, message: object) -> None:
        """Handle a client's message whose turn has come; a violation closes the channel or the
        connection."""
        self.settle(message)
        try:
            self.handle(message)
        except ChannelViolation as violation:
            self.fail(violation)
        except ConnectionViolation as violation:
            self.fault(violation)

    def begin_long(self, pieces: Iterator[int], method_id: int) -> None:
        self.begin(self.guarded(pieces, method_id))

    def guarded(self, pieces: Iterator[int], method_id: int) -> Iterator[int]:
        """Yield what `pieces` yield; when one raises a violation, close the channel or the
        connection. The violation blames `method_id` unless it names a method."""
        try:
            yield from pieces
        except ChannelViolation as violation:
            if not violation.class_id:
                violation.class_id, violation.method_id = BASIC_CLASS, method_id
            self.fail(violation)
        except ConnectionViolation as violation:
            self.fault(violation)

    def behind_question(self, message: object, question: object) -> None:
        """Hold a message until `question` is answered or, when that is None, until earlier held
        messages are done. A client that sends anything during its commit has its connection closed.
        """
        if isinstance(question, Transaction):
            self.settle(message)
            self.fault(too_early(message))
            return
        self.queued_methods.append(message)
        self.queued_bytes += bytes_of(message)
        if self.is_crowded:
            self.crowded.shut()

    @property
    def is_crowded(self) -> bool:
        """Tell whether so many messages or bytes are held that the client must not send more."""
        too_many = len(self.queued_methods) >= self.services.queued_methods_max
        return too_many or self.queued_bytes >= QUEUED_BYTES_MAX

    def account(self) -> None:
        """Count the bytes that are held as memory in use, if they have changed."""
        if self.queued_bytes != self.accounted:
            change, self.accounted = self.queued_bytes - self.accounted, self.queued_bytes
            self.services.memory_used(change)

    def settle(self, message: object) -> None:
        """Give the reader back the credit of a run of publishes; other messages take none."""
        if isinstance(message, AnyPublishes):
            self.inflow.settle(len(message.contents), message.size)

    def handle(self, message: object) -> None:
        """Do what one event of the client asks for. Raises ChannelViolation or ConnectionViolation,
        with the class and method to blame, when the broker refuses it."""
        if isinstance(message, AnyPublishes):
            self.publish(message)
        elif isinstance(message, Acks):
            self.consuming.ack_run(message.tags, 80)
        elif isinstance(message, TooLarge):
            limit = self.services.config.net.max_message_size
            text = f"message size {message.size} is larger than configured max size {limit}"
            raise ChannelViolation(406, text, *BASIC_PUBLISH)
        else:
            assert isinstance(message, MethodFrame)
            self.do(message.method)

    def do(self, method: Method) -> None:
        """Do what a method asks for. Raises as `handle` does."""
        handler = METHODS.get(type(method))
        if handler is None:
            text = "unimplemented method"
            raise ConnectionViolation(503, text, method.class_id, method.method_id)
        self.spend(METHOD_WORK.get(type(method), 10))
        try:
            handler(self, method)
        except (ChannelViolation, ConnectionViolation) as violation:
            if not violation.class_id:
                violation.class_id = method.class_id
                violation.method_id = method.method_id
            raise

    def publish(self, run: AnyPublishes) -> None:
        """Route a run of publishes and send it to its queues, in pieces if that takes long."""
        publishing = self.publishing
        done = self.publish_some(run)
        if publishing.pending or done < len(run.contents):
            self.begin_long(self.publish_rest(run, done), BASIC_PUBLISH[1])

    def publish_some(self, run: AnyPublishes) -> int:
        """Publish the first messages of a run, as many as a turn can, and return their number.
        Raises the violation of a refused message, after publishing those before it."""
        publishing = self.publishing
        try:
            return publishing.publish_any(run)
        except (ChannelViolation, ConnectionViolation):
            deque(publishing.spread(), 0)  # messages before it go out before the channel ends
            raise

    def publish_rest(self, run: AnyPublishes, done: int) -> Iterator[int]:
        """Publish the rest of a run, after `done` messages, and yield the work of each piece: they
        go to many queues, or take long to route."""
        yield from self.publishing.spread()
        while done < len(run.contents):
            yield 0  # the messages before it may have been the work of a turn
            yield from self.publishing.look_ups.search()
            if done:
                run = split(run, done)[1]
            done = self.publish_some(run)
            yield from self.publishing.spread()

    def ask(self, question: Question, queue: Queue, command: Command) -> None:
        self.wait(question)
        self.asked = queue
        queue.post(command)

    def wait(self, question: Question) -> None:
        assert self.question is None
        self.question = question
        self.asked = None

    def waits_for_nothing(self) -> bool:
        """Tell whether no answer to a question is due."""
        return self.question is None

    def answered(self, answer: object) -> None:
        """Have the question handle its answer, then go on with held messages. An answer that nobody
        waits for any more is dropped."""
        question = self.question
        if not isinstance(question, Question) or self.closing:
            return
        self.question = None
        try:
            if isinstance(answer, Refuse) and answer.goes_on:
                self.ask_again(question)
            else:
                question.answer(answer)
        except ChannelViolation as violation:
            question.blame(violation)
            self.fail(violation)
        self.take_queued()

    def ask_again(self, question: Question) -> None:
        """Ask what has the queue's name now."""
        if isinstance(question, Attachment):
            question.ask_again()
        else:
            self.do(question.method)

    def take_queued(self) -> None:
        """Handle queued messages in order until one of them takes time or the turn's work is spent;
        at least one is handled unless an answer is due or the channel is closing."""
        queued = self.queued_methods
        scheduler = self.scheduler
        while queued and self.question is None and self.underway is None and not self.closing:
            message = queued.popleft()
            self.queued_bytes -= bytes_of(message)
            if isinstance(message, ChannelDown):
                self.down(message)
            elif isinstance(message, Cancelled):
                self.cancelled_by_broker(message)
            else:
                self.take(message)
            scheduler.work -= MESSAGE_WORK
            if scheduler.work <= 0:
                break
        if not self.is_crowded:
            self.crowded.open()

    @property
    def replies_at(self) -> str:
        return "" if self.replies is None else self.replies.at

    @property
    def has_unacked(self) -> bool:
        return self.consuming.unacked.count > 0

    def reply(self, method: Method) -> None:
        self.out.append(method.frame(self.number))

    def cancelled_by_broker(self, message: Cancelled) -> None:
        """Forget a consumer whose queue was deleted, and tell its client. If the queue goes on, it
        has the consumer again, unless the client wants to hear of that."""
        consumer = message.consumer
        subscription = self.consuming.subscriptions.get(consumer.tag)
        if subscription is None or subscription.consumer is not consumer:
            return  # another one has its tag: it was asked for again before this was heard
        del self.consuming.subscriptions[consumer.tag]
        if self.closing:
            return
        if message.goes_on and not wants_to_hear(consumer):
            attach_again(self, subscription.queue.name, consumer)
        else:
            self.say_cancelled(consumer.tag)

    def say_cancelled(self, tag: str) -> None:
        if self.reader.client_can("consumer_cancel_notify"):
            self.reply(BasicCancel(consumer_tag=tag, nowait=True))

    def look_at_oldest(self, look: LookAtOldest) -> None:
        """Close the channel when its oldest unacknowledged delivery is overdue."""
        violation = None if self.closing else self.consuming.overdue(look)
        if violation is not None:
            self.fail(violation)

    def fault(self, violation: ConnectionViolation) -> None:
        """Stop the channel and have the whole connection closed for this violation."""
        self.stop()
        self.reader.post(ConnectionFault(violation))

    def fail(self, violation: ChannelViolation) -> None:
        self.services.world.log.write("error", f"channel {self.name}: closing it: {violation}")
        self.flush_confirms()
        self.stop()
        self.reply(
            ChannelClose(
                reply_code=violation.code,
                reply_text=violation.short_text(),
                failed_class_id=violation.class_id,
                failed_method_id=violation.method_id,
            )
        )
        self.reader.channel_closing(self.number)

    def down(self, message: ChannelDown) -> None:
        """End the channel for good, at the client's request or with its connection, and send the
        last reply if there is one. A second call does nothing."""
        if self.gone:
            return
        if not self.closing:
            self.flush_confirms()
        self.stop()
        self.inflow.detach()
        self.gone = True
        if self.consuming.unacked.spans:
            self.begin(self.forget_unacked())
        if message.reply is not None:
            self.reply(message.reply)
        if message.farewell is not None:
            message.farewell.one_less()
        self.release()

    def release(self) -> None:
        """Clear its parts' references to it, so that it is freed when nobody else holds it. Later
        messages (answers of queues, flushed deliveries) are ignored without them."""
        self.publishing.release()
        self.consuming.release()

    def forget_unacked(self) -> Iterator[int]:
        """Free the records of unacknowledged deliveries, perhaps a million entries, about
        FORGET_MAX in each piece, and yield its work."""
        while self.consuming.unacked.forget(FORGET_MAX):
            yield FORGET_MAX // 4

    def stop(self) -> None:
        """Give everything back, once: credit to senders, and to each queue its unsettled
        deliveries."""
        if self.closing:
            return
        self.closing = True
        self.question = None
        while self.queued_methods:
            message = self.queued_methods.popleft()
            if isinstance(message, ChannelDown):
                self.post(message)
            else:
                self.settle(message)
        self.queued_bytes = 0
        self.account()
        self.crowded.open()
        self.replies = None
        self.forget_transaction()
        queues: dict[object, None] = dict.fromkeys(self.publishing.close())
        for queue in [*queues, *self.consuming.close()]:
            queues[queue] = None
        for queue in queues:
            queue.post(Down(self))  # type: ignore[attr-defined]

    def faulted(self, error: Exception) -> None:
        """Give up this channel, which has raised an unexpected exception, and have the connection
        closed."""
        self.abandon()
        self.reader.broken()

    def abandon(self) -> None:
        """Give back, after a fault, what the channel holds of the broker. The caller has to have
        its connection closed."""
        take(self, self.ending())

    def ending(self) -> list[Step]:
        """Return the steps that end a channel after a fault: it ignores further messages, and its
        queues learn that it is down, so that deliveries return to their places and its consumers
        are removed."""
        queues: dict[Actor, None] = dict.fromkeys(
            [
                *self.publishing.links,
                *self.consuming.windows,
                *self.consuming.sources,
                *(span.source.queue for span in self.consuming.unacked.spans),
            ]
        )
        if isinstance(self.asked, Queue):  # its answer may be a message
            queues[self.asked] = None
        return [
            self.go_deaf,
            self.account,
            self.account,
            self.forget_transaction,
            self.crowded.open,
            *(link.end for link in self.publishing.links.values()),
            self.publishing.close,
            self.consuming.close,
            self.inflow.detach,
            *(partial(queue.post, Down(self)) for queue in queues),
            self.release,
        ]

    def go_deaf(self) -> None:
        """Ignore all further messages, after a fault, and drop everything held and everything due
        to the client."""
        super().go_deaf()
        self.closing = self.gone = True
        self.question = self.replies = None
        self.queued_methods.clear()
        self.queued_bytes = 0
        self.out = []
        self.out_cost = 0

    def forget_transaction(self) -> None:
        """Drop everything that waits for a commit, if the channel is transactional."""
        if self.publishing.transaction is not None:
            self.publishing.transaction.clear()

    def flush_confirms(self) -> None:
        """Append the confirms that are due to `out`, behind everything that is there already."""
        if self.publishing.unconfirmed.has_answers:
            self.publishing.acknowledge(self.out)

    def turn_ended(self) -> None:
        """Go on with held messages, append the confirms that are due, and pass all of `out` to the
        writer at once."""
        if self.queued_methods and self.waits_for_nothing():
            self.take_queued()
            if self.queued_methods and self.waits_for_nothing():
                self.schedule()
        if self.publishing.unconfirmed.has_answers and not self.closing:
            self.flush_confirms()
        out = self.out
        if out:
            channel = self if self.out_cost else None
            self.reader.writer.take(Frames(joined(out), channel, self.out_cost))
            self.out = []
            self.out_cost = 0
        if self.queued_bytes != self.accounted:
            self.account()

    def state(self, now_ns: int) -> str:
        """Return the state that users see: `closing`, or else `flow` or `running`."""
        return "closing" if self.closing else self.flow_state(now_ns)
