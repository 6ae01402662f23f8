"""channel ---batch, command---> REMOTE QUEUE ---> post ---> the node that has the queue, and back.

Channels and republishers of this node see a queue of another node as this: it takes the same
messages as any queue, and gives the same answers. Links end here; traffic between the nodes has its
own credit (`remote_end.py`). While the queue's node is not reached, requests are answered with 404
in RabbitMQ's words, and publishes as `cluster.down_queue` says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sluicemq.chain.queue.former_queue import FormerQueue
from sluicemq.chain.queue.queue import (
    CreditLink,
    LinkEnded,
    PolicyChanged,
    Queue,
    SetTarget,
)
from sluicemq.chain.queue.republish_messages import RepublisherPort
from sluicemq.chain.remote import sections as s
from sluicemq.chain.remote.home_follower import HomeFollower
from sluicemq.chain.remote.queue_post import HomeLost, HomeReached, RemoteAnswer
from sluicemq.chain.remote.remote_end import RemoteConsumer, RemoteEnd, RemoteQueuePort
from sluicemq.chain.remote.remote_state import RemoteState
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.credit import Grant
from sluicemq.flow.gate import Gate
from sluicemq.flow.prefetch import Limiter, Resume
from sluicemq.kernel.cleanup_steps import take
from sluicemq.model.queue_types import TYPES
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.commands import LinkId
from sluicemq.queues.machine import Depth
from sluicemq.text import text_of

if TYPE_CHECKING:
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import PublishLink
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.flow.credit import Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.address import ActorAddress
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.queues.consumers import Consumer


class RemoteLink(CreditLink):
    """A link to a queue of another node, which ends at its stand-in here."""

    __slots__ = ("is_let_go", "is_lost")

    def __init__(self, sender: FlowActor, queue: RemoteQueue) -> None:
        super().__init__(sender, queue)
        self.is_lost = False
        """Its sender was told that it answers nothing more."""
        self.is_let_go = False
        """Its sender was told that the queue is deleted: what still comes over it is dropped."""


class QueueUndeclared:
    """Tells the stand-in of a queue that the queue is not declared any more."""

    __slots__ = ()


class HomesChanged:
    """Tells the stand-in of a queue that these nodes have the queue now."""

    __slots__ = ("homes",)

    def __init__(self, homes: tuple[int, ...]) -> None:
        self.homes = homes


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteQueue(RemoteQueuePort, FormerQueue, HomeFollower):
    """A queue of the node `home` or, if several have it, of the first of `homes` that is reached.
    If this node gets a member of the queue, it stays for its present users: `heir` is the queue
    that all others use then."""

    is_local: ClassVar[bool] = False
    goes_on = False
    """Do others serve the queue when its home does no more?"""
    is_here = False
    """Does another queue of this node have its name, which serves it?"""

    def __init__(
        self, vhost: NamespacePort, declared: DeclaredQueue, homes: tuple[int, ...], post: QueuePost
    ) -> None:
        super().__init__(vhost, declared.definition, declared.id)
        self.declared = declared
        self.homes = homes
        self.office = post
        self.topology = vhost.topology
        self.machine = RemoteState(declared.definition)
        self.home = homes[0]
        self.reaches: dict[int, int] = {}
        """The homes that are reached, and the name of the link to each."""
        self.ends: dict[Actor, RemoteEnd] = {}
        self.ends_by_link: dict[LinkId, RemoteEnd] = {}
        """Those, and ends that are over and whose channel has not settled everything."""
        self.ends_by_window: dict[Outflow, RemoteEnd] = {}
        self.ends_by_limiter: dict[Limiter, RemoteEnd] = {}
        self.touched: dict[RemoteEnd, None] = {}
        """The ends that may have something to say at the turn's end."""
        self.invitations: list[Limiter] = []
        self.heir: Queue | None = None
        self.deletions: list[e.Deleted] = []
        """Deletions to be answered when this node has heard that the queue is not declared."""
        self.figures = Depth()
        """What its home has said of it, for people; nothing while that is not reached."""
        self.behind = Gate(self.keeper, "")
        """Shut while publishes wait to be sent to its node."""
        self._name_gate()
        self.last_run = 0
        post.join(self)

    # -- what channels see

    @property
    def takes_enveloped(self) -> bool:
        return not TYPES[self.definition.type].is_log

    @property
    def reach(self) -> int:
        """Return the name of the link to its home; 0 while that is not reached."""
        return self.reaches.get(self.home, 0)

    def link_from(self, sender: FlowActor) -> PublishLink:
        return RemoteLink(sender, self)

    def link_of(self, sender: FlowActor) -> PublishLink | None:
        end = self.ends.get(sender)
        return None if end is None else end.publish_link

    def link_ended(self, link: PublishLink, *, is_lost: bool) -> None:
        """Tell a sender that its link has ended; the sender may know it as a link to this queue's
        successor."""
        link.sender.post(LinkEnded(self, link, is_lost))
        if self.heir is not None:
            link.sender.post(LinkEnded(self.heir, link, is_lost))

    def state(self, now_ns: int) -> str:
        """Return its state as users see it, at `now_ns`: `down` while its node is not reached."""
        return self.flow_state(now_ns) if self.reach else "down"

    def enter(self, end: RemoteEnd) -> ActorAddress:
        return self.office.enter(end)

    def forget(self, serial: int) -> None:
        self.office.forget(serial)

    def opened_by(self, actor: Actor) -> s.OpenedEnd:
        name = getattr(actor, "name", "")
        return s.OpenedEnd(self.vhost.name, self.name, self.declared.id, name)

    def told(self, figures: s.QueueFigures) -> None:
        """Note the figures that its home tells."""
        depth = self.figures
        depth.ready, depth.unacked, depth.persistent = figures[1:4]
        depth.ready_bytes, depth.unacked_bytes, depth.consumers = figures[4:]

    def new_run(self) -> int:
        self.last_run += 1
        return self.last_run

    # -- the inbox

    def receive(self, message: object) -> None:
        if isinstance(message, c.Publish):
            self.publish(message)
        elif isinstance(message, RemoteAnswer):
            self.answered(message)
        elif isinstance(message, c.Settle):
            self.settle(message)
        elif isinstance(message, Grant):
            message.outflow.refill(message.amount)
            self.hand_over(self.ends_by_window.get(message.outflow))
        elif isinstance(message, Resume):
            self.invitations.append(message.limiter)
            self.hand_over(self.ends_by_limiter.get(message.limiter))
        elif isinstance(message, c.Down):
            self.down(message)
        elif isinstance(message, c.COMMANDS):
            self.ask(message)
        else:
            self.receive_rare(message)

    def receive_rare(self, message: object) -> None:
        """Handle messages about its node and about declarations."""
        if isinstance(message, HomeReached):
            self.reaches[message.home] = message.reach
            if not self.reach:
                self.turn_to(message.home)
        elif isinstance(message, HomeLost):
            self.home_lost(message.home)
        elif isinstance(message, HomesChanged):
            self.homes_changed(message.homes)
        elif isinstance(message, QueueUndeclared):
            self.undeclared()
        elif isinstance(message, PolicyChanged):
            self.policy = message.policy
        elif not isinstance(message, SetTarget):
            self.receive_other(message)

    def receive_other(self, message: object) -> None:
        """Handle messages that only some stand-ins are sent."""
        super().receive(message)

    def turn_to(self, home: int) -> None:
        """Use that node as its home from now on."""
        self.home = home
        self._name_gate()

    def _name_gate(self) -> None:
        self.behind.name = f"queue {self.name} on {self.office.name_of(self.home)}"

    def end_of(self, actor: Actor) -> RemoteEnd:
        """Return the end of an actor at the queue, made with its first request."""
        end = self.ends.get(actor)
        if end is None:
            link = self.machine.link_to(actor)
            end = RemoteEnd(self, actor, link, self.office.mail[self.home], self.reach)
            self.ends[actor] = self.ends_by_link[link] = end
        self.touched[end] = None
        return end

    def publish(self, publish: c.Publish) -> None:
        """Take a batch, unless the queue cannot be reached. It counts on the link to its sender
        until it is sent on."""
        link = publish.link
        assert isinstance(link, RemoteLink)
        self.published += len(publish.batch.contents)
        if self.machine.deleted:
            self.link_ended(link, is_lost=False)
            self.publish_to_deleted(publish)
        elif link.is_let_go:  # its sender may use another link by now
            self.publish_to_deleted(publish)
        elif link.is_lost:
            self.drop(publish)
        elif not self.reach:
            self.refuse_publish(publish)
        else:
            end = self.end_of(link.sender)
            end.publish_link = link
            end.waiting.append(publish)

    def publish_to_deleted(self, publish: c.Publish) -> None:
        """Drop a batch, and answer it as a deleted queue does."""
        link, count = publish.link, len(publish.batch.contents)
        link.taken(count, publish.batch.size)
        if publish.confirm:
            link.sender.post(e.Confirm(link, publish.first_seq, count))

    def confirm(self, link: PublishLink, first_seq: int, count: int) -> None:
        link.sender.post(e.Confirm(link, first_seq, count))

    def drop(self, publish: c.Publish) -> None:
        """Drop a batch whose sender expects no answer, or gets it elsewhere."""
        count = len(publish.batch.contents)
        if not publish.confirm:
            self.services.counters.dropped += count
        publish.link.taken(count, publish.batch.size)

    def refuse_publish(self, publish: c.Publish) -> None:
        """Answer a batch that cannot go to the queue: reject it, if it is to be confirmed; with
        `cluster.down_queue = drop` confirm it, as RabbitMQ does."""
        link, count = publish.link, len(publish.batch.contents)
        is_dropped = self.services.config.cluster.down_queue == "drop"
        if not publish.confirm:
            self.drop(publish)
            return
        link.taken(count, publish.batch.size)
        if is_dropped and not isinstance(link.sender, RepublisherPort):
            self.services.counters.dropped += count
            link.sender.post(e.Confirm(link, publish.first_seq, count))
        else:
            link.sender.post(e.Rejected(link, publish.first_seq, 0, count))

    def ask(self, command: Any) -> None:
        """Send a command, behind everything that its channel has published; or refuse it."""
        channel = asker(command)
        if channel is None:
            return  # the broker deletes a queue where it lives
        if self.machine.deleted or not self.reach:
            self.refuse(command, channel)
            return
        end = self.end_of(channel)
        end.asked.append(command)
        end.waiting.append(command)
        if isinstance(command, c.Consume):
            end.window, end.limiter = command.consumer.window, command.consumer.limiter
            self.ends_by_window[end.window] = end
            self.ends_by_limiter[end.limiter] = end

    def refuse(self, command: Any, channel: Actor) -> None:
        """Answer a command that cannot go to the queue."""
        if isinstance(command, c.Cancel):
            channel.post(e.Cancelled(command.consumer, False))
        elif isinstance(command, c.Delete) and self.machine.deleted:
            channel.post(e.Deleted(channel, 0))
        else:
            goes_on = self.is_here and not self.machine.deleted
            channel.post(e.Refuse(channel, 404, self.why_not(), goes_on))

    def why_not(self) -> str:
        """Return why the queue cannot be used, in RabbitMQ's words."""
        if self.machine.deleted or not self.definition.durable:
            return f"no {self.title}"
        node = self.office.name_of(self.home)
        return f"home node '{node}' of durable {self.title} is down or inaccessible"

    def settle(self, settle: c.Settle) -> None:
        """Note that a channel has settled messages: those that came over that very link."""
        end = self.ends_by_link.get(settle.link)
        if end is not None:
            assert end.link == settle.link, "a settlement of what came over another link"
            end.settle(settle)
            self.touched[end] = None
            if end.is_over and not end.runs:
                del self.ends_by_link[settle.link]

    def down(self, command: c.Down) -> None:
        """Forget a channel that is gone, after sending what it has published."""
        channel = command.channel
        self.upstream.pop(channel, None)
        self.machine.links.pop(channel, None)
        self.forget_over(channel)
        end = self.ends.pop(channel, None)
        if end is None:
            return
        self.ends_by_link.pop(end.link, None)
        self.forget_windows(end)
        end.is_leaving = True
        end.asked.clear()
        end.held.clear()
        end.runs.clear()
        end.waiting.append(command)
        self.touched[end] = None

    def forget_over(self, channel: Actor) -> None:
        """Forget what a channel that is gone had not settled over ends that are closed."""
        for link, end in [*self.ends_by_link.items()]:
            if end.is_over and end.actor is channel:
                del self.ends_by_link[link]

    def forget_idle(self, end: RemoteEnd) -> None:
        """Close an end at which the channel has nothing."""
        end.leave()
        self.ends.pop(end.actor, None)
        self.ends_by_link.pop(end.link, None)
        self.machine.links.pop(end.actor, None)

    def forget_windows(self, end: RemoteEnd) -> None:
        """Stop passing grants to an end whose channel is gone."""
        if end.window is not None and end.limiter is not None:
            self.ends_by_window.pop(end.window, None)
            self.ends_by_limiter.pop(end.limiter, None)

    def hand_over(self, end: RemoteEnd | None) -> None:
        if end is not None and not end.is_over:
            end.hand_over()
            self.touched[end] = None

    def turn_ended(self) -> None:
        """Send what waits, and say what was gathered."""
        for limiter in self.invitations:
            limiter.had_turn(self)
        self.invitations.clear()
        touched, self.touched = self.touched, {}
        for end in touched:
            end.say_gathered()
            end.send_waiting()
            if end.waiting:
                self.touched[end] = None
            elif end.is_idle and not end.is_over:
                self.forget_idle(end)
        if self.touched:
            self.behind.shut()
        else:
            self.behind.open()
            if not self.ends and (self.heir is not None or self.machine.deleted):
                self.office.leave(self)

    # -- what its node says

    def answered(self, answer: RemoteAnswer) -> None:
        """Handle an answer of the queue's node; an unreadable one ends the link to it."""
        end, section = answer.end, answer.section
        self.touched[end] = None
        if end.is_over or (end.is_leaving and section.kind != s.CREDIT):
            return
        try:
            take_answer = ANSWERED.get(section.kind)
            if take_answer is None:
                raise s.BrokenSection(f"section {section.kind} to a channel, which is not known")
            take_answer(self, end, section)
        except s.BrokenSection as error:
            self.office.broken(end.mail.node, error)

    def credited(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        [amount] = s.unpacked(s.AMOUNT, answer.body)
        end.credit += amount

    def confirmed(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        for first_seq, count in s.rows(s.CONFIRM_ROW, answer.body):
            if end.unanswered.pop(first_seq, None) is not None and end.publish_link is not None:
                self.confirm(end.publish_link, first_seq, count)

    def rejected(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        first_seq, offset, count = s.unpacked(s.REJECTION, answer.body)
        left = end.unanswered.get(first_seq)
        if left is None or end.publish_link is None:
            return
        end.unanswered[first_seq] = left - count
        if left <= count:
            del end.unanswered[first_seq]
        mixed = bool(answer.flags & s.MIXED)
        end.actor.post(e.Rejected(end.publish_link, first_seq, offset, count, mixed))

    def delivered_to(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        end.deliver(s.decode_delivery(answer.flags, answer.frame, answer.start, answer.end))

    def consumed(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        consumer: Consumer = asked_by(end, c.Consume).consumer
        link = LinkId(*s.unpacked(s.LINK, answer.body))
        end.consumers[consumer.tag] = RemoteConsumer(consumer, link)
        consumer.active = True
        end.actor.post(e.Consumed(consumer, end.link))

    def cancelled(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        """Pass on that a consumer is gone; a channel that has cancelled a missing one is answered,
        too."""
        by_broker = bool(answer.flags & s.BY_BROKER)
        consumer = end.end_consumer(text_of(answer.body))
        if not by_broker:
            consumer = asked_by(end, c.Cancel).consumer
        if consumer is not None:
            end.actor.post(e.Cancelled(consumer, by_broker))

    def got(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        asked_by(end, c.Get)
        end.actor.post(end.got(s.decode_got(answer.flags, answer.body)))

    def inspected(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        asked_by(end, c.Inspect)
        ready, consumers = s.unpacked(s.INSPECTION, answer.body)
        end.actor.post(e.Inspected(end.actor, ready, consumers))

    def purged(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        asked_by(end, c.Purge)
        [count] = s.unpacked(s.AMOUNT, answer.body)
        end.actor.post(e.Purged(end.actor, count))

    def deleted(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        """Answer the channel that deleted the queue when it is not declared here any more, so that
        it can be declared anew."""
        asked_by(end, c.Delete)
        [count] = s.unpacked(s.AMOUNT, answer.body)
        deleted = e.Deleted(end.actor, count)
        if self.machine.deleted:
            end.actor.post(deleted)
            self.leave_deleted(end)
        else:
            self.deletions.append(deleted)

    def refused(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        if not end.asked:
            raise s.BrokenSection("a refusal of what was not asked for")
        end.asked.popleft()
        end.actor.post(e.Refuse(end.actor, *s.decode_refusal(answer.body)))

    def ended(self, end: RemoteEnd, answer: s.SectionCame) -> None:
        """Handle that the queue was deleted, has failed, or has no member there any more: then
        everything unanswered is lost."""
        if answer.flags & s.IS_LOST:
            why = "has crashed and is being restarted"
            if self.declared.members:
                why = f"is not served by node {self.office.name_of(end.mail.node)} any more"
            self.lose(end, f"{self.title} {why}")
            self.turn_on(end.mail.node)
            self.topology.has_changed()
        else:
            self.let_go(end)

    # -- when it is not there

    def let_go(self, end: RemoteEnd) -> None:
        """Answer the publishes of an end, because the queue is deleted: they were for a queue that
        somebody deleted on purpose."""
        link, end.publish_link = end.publish_link, None
        if link is None:
            return
        assert isinstance(link, RemoteLink)
        link.is_let_go = True
        self.link_ended(link, is_lost=False)
        for first_seq, count in end.unanswered.items():
            self.confirm(link, first_seq, count)
        end.unanswered.clear()
        for command in [*end.waiting]:
            if isinstance(command, c.Publish):
                end.waiting.remove(command)
                self.publish_to_deleted(command)

    def lose(self, end: RemoteEnd, why: str) -> None:
        """Close an end whose queue has failed, or is not reached: unanswered publishes are
        rejected, consumers are cancelled, requests are refused."""
        self.ends.pop(end.actor, None)
        self.machine.links.pop(end.actor, None)
        self.forget_windows(end)
        waiting, asked = [*end.waiting], [*end.asked]
        link = end.publish_link
        if link is not None:
            assert isinstance(link, RemoteLink)
            link.is_lost = True
            self.link_ended(link, is_lost=True)
        for command in waiting:
            if isinstance(command, c.Publish):
                self.drop(command)
        goes_on = self.goes_on and not self.machine.deleted
        for tag in [*end.consumers]:
            consumer = end.end_consumer(tag)
            if consumer is not None:
                end.actor.post(e.Cancelled(consumer, True, goes_on))
        for command in asked:
            if isinstance(command, c.Cancel) or self.machine.deleted:
                self.refuse(command, end.actor)
            else:
                end.actor.post(e.Refuse(end.actor, 404, why))
        end.close()
        if not end.runs:
            self.ends_by_link.pop(end.link, None)

    def home_lost(self, home: int) -> None:
        """Close the ends at a node that is not reached any more, and turn to another one that has
        the queue, if there is one."""
        self.reaches.pop(home, None)
        why = self.why_not()
        for end in [*self.ends.values(), *self.touched]:
            if not end.is_over and end.mail.node == home:
                self.lose(end, why)
        self.topology.has_changed()  # routes use links that are lost
        if home == self.home:
            self.figures = Depth()
            self.answer_deletions()
            self.turn_on(home)

    def turn_on(self, home: int) -> None:
        """Turn to the next node that has the queue and is reached, if `home` is the present one and
        there is another."""
        at = self.homes.index(home) + 1 if home in self.homes else 0
        for other in (*self.homes[at:], *self.homes[:at]):
            if home == self.home and other != home and other in self.reaches:
                self.turn_to(other)
                break

    def homes_changed(self, homes: tuple[int, ...]) -> None:
        """Turn to another node if the present one does not have the queue any more; the present one
        is told that the channels are gone."""
        before, self.homes = self.homes, homes
        for home in before:
            if home not in homes and home in self.reaches:
                for end in self.ends.values():
                    if end.mail.node == home and end.is_open:
                        end.send(c.Down(end.actor))
                self.home_lost(home)
        self.office.look_for(self, [home for home in homes if home not in before])
        if self.home not in homes:
            self.turn_to(next((home for home in homes if home in self.reaches), homes[0]))

    def undeclared(self) -> None:
        """Release everybody who has something here, because the queue is not declared any more. The
        channel that deleted it waits for its node, or for the loss of that."""
        self.machine.deleted = True
        for end in [*self.ends.values()]:
            for tag in [*end.consumers]:
                consumer = end.end_consumer(tag)
                if consumer is not None:
                    end.actor.post(e.Cancelled(consumer, True))
            self.let_go(end)
            if not any(isinstance(command, c.Delete) for command in end.asked):
                self.leave_deleted(end)
        self.answer_deletions()

    def leave_deleted(self, end: RemoteEnd) -> None:
        """Close the end of a channel at the queue, which is deleted."""
        for command in end.asked:
            self.refuse(command, end.actor)
        end.leave()
        self.forget_windows(end)
        del self.ends[end.actor]
        if not end.runs:
            self.ends_by_link.pop(end.link, None)

    def answer_deletions(self) -> None:
        """Answer the channels that have deleted the queue."""
        deletions, self.deletions = self.deletions, []
        for deleted in deletions:
            if deleted.channel is not None:
                deleted.channel.post(deleted)

    def faulted(self, error: Exception) -> None:
        """Begin anew after a fault in here: the queue itself has none."""
        ends = [*self.ends.values()]
        take(
            self,
            [
                *(partial(self.lose_and_leave, end) for end in ends),
                self.topology.has_changed,
            ],
        )

    def lose_and_leave(self, end: RemoteEnd) -> None:
        """Close an end that both nodes know."""
        if end.is_open:
            end.send(c.Down(end.actor))
        self.lose(end, f"{self.title} has crashed and is being restarted")


def asker(command: Any) -> Actor | None:
    """Return the actor that sent a command; None when the broker did."""
    if isinstance(command, c.Consume | c.Cancel):
        return command.consumer.channel
    channel: Actor | None = command.channel
    return channel


def asked_by(end: RemoteEnd, kind: type) -> Any:
    """Return the request that was just answered. Raises BrokenSection when it was of
    another kind."""
    if not end.asked or not isinstance(end.asked[0], kind):
        raise s.BrokenSection(f"an answer to a {kind.__name__}, which was not asked for")
    return end.asked.popleft()


ANSWERED: Final[dict[int, Callable[[RemoteQueue, RemoteEnd, s.SectionCame], None]]] = {
    s.CREDIT: RemoteQueue.credited,
    s.CONFIRMS: RemoteQueue.confirmed,
    s.REJECTED: RemoteQueue.rejected,
    s.DELIVER: RemoteQueue.delivered_to,
    s.GOT: RemoteQueue.got,
    s.CONSUMED: RemoteQueue.consumed,
    s.CANCELLED: RemoteQueue.cancelled,
    s.INSPECTED: RemoteQueue.inspected,
    s.PURGED: RemoteQueue.purged,
    s.DELETED: RemoteQueue.deleted,
    s.REFUSED: RemoteQueue.refused,
    s.ENDED: lambda queue, end, answer: queue.ended(end, answer),
}
