"""channel ---batch---> QUORUM QUEUE ---append---> message store; committed entries come back.

    channel's command --channel_ends--> command by value --replicator--> the log
    the log, committed --Fifo--> effects by value --here--> channels, republisher

Nothing is answered before it is committed. Messages that the state assigns to consumers wait here
until their windows have room; the bodies are cut out of the log's entries, in RAM or read from its
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sluicemq.chain.pacer import QueuePace
from sluicemq.chain.queue.dead_lettering import DeadLettering
from sluicemq.chain.queue.group.member_log import GroupLog, pieces_in
from sluicemq.chain.queue.group.snapshots import Snapshots
from sluicemq.chain.queue.queue import Leaving, PolicyChanged
from sluicemq.chain.queue.quorum.asked_queue import ASKED, AskedQueue
from sluicemq.chain.queue.quorum.deliveries import DamagedLog, QuorumDeliveries, ReadAgain
from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies
from sluicemq.chain.queue.quorum.replicator import QUORUM_ENTRIES, FifoReplicator
from sluicemq.chain.store.messages import Flush, Flushed, Forgotten, StoreQueueDeleted
from sluicemq.chain.store.raft_answers import RaftRefused, RaftSnapshotKept, RaftSnapshotWanted
from sluicemq.flow.credit import Grant
from sluicemq.flow.gate import Gate
from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import (
    EXPIRY_LOOK_MS,
    QUORUM_BACKLOG_BYTES,
    QUORUM_GATHER_BYTES,
    QUORUM_SNAPSHOT_BYTES,
    QUORUM_SNAPSHOT_ENTRIES,
    RAFT_APPEND_BYTES,
)
from sluicemq.model.traits import NO_TRAITS
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum import effects as qe
from sluicemq.queues.quorum.entry_content import EntryContent, content_of
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.queues.settings import settings_of
from sluicemq.raft.entry import DATA
from sluicemq.replication.state_owner import StateOwner
from sluicemq.storage.raft.reading import RaftEntriesRead

if TYPE_CHECKING:
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.quorum.commands import FifoCommand
    from sluicemq.raft.raft import Raft

READ_STRAND_STEP: Final = 2
"""Reads of a log do not queue behind its writes."""
SETTLES_MAX: Final = 1000
"""The most settlements that wait for other commands."""
SETTLES_WAIT_MS: Final = 100
"""How long they wait, or up to twice that if entries were made meanwhile. Nobody waits for them,
and where there are publishers their entries come more often."""
IDLE_MS: Final = 5000


class TimeDue:
    """Tells a quorum queue that something may have expired; `due_ms` is when the timer was to go
    off, in milliseconds since the epoch."""

    __slots__ = ("due_ms",)

    def __init__(self, due_ms: int) -> None:
        self.due_ms = due_ms


class LookIdle:
    """Tells a quorum queue that it may have fallen idle: `index` was the last index applied some
    time ago."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


NOTHING_SEEN: Final = -1
"""The value of `seen` after a read: the entries read may not be needed any more."""


class SettlesDue:
    """Tells a quorum queue that its settlements have waited long enough for other commands. It is
    ignored if more entries, or rows, than `made` exist now: then the settlements are newer."""

    __slots__ = ("made",)

    def __init__(self, made: int) -> None:
        self.made = made


class LogDamaged:
    """Tells a quorum queue, from itself, that its member must be silent, because it may have
    forgotten promises."""

    __slots__ = ()


class QuorumShell(AskedQueue, StateOwner[q.FifoCommand]):
    """The shell around the state of a quorum queue, for the group's only member."""

    has_state = False
    asked: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = ASKED
    """The methods that handle channels' requests."""
    made_real: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    """The methods that make effects real."""

    def __init__(
        self,
        vhost: VhostPort,
        definition: QueueDefinition,
        queue_id: int,
        raft: Raft,
        content: bytes,
        *,
        is_born: bool,
        term: int = c.FIRST_TERM,
    ) -> None:
        super().__init__(vhost, definition, queue_id, term)
        services = vhost.services
        self.clock = services.world.clock
        self.read_strand = self.strand + READ_STRAND_STEP
        self.full = Gate(self.keeper, "entries waiting for a sync")
        self.backlog_bytes_max = QUORUM_BACKLOG_BYTES
        """It is shut while more bytes than this are uncommitted."""
        self.fifo = Fifo(self.title)
        if content:
            self.fifo.restore(pieces_in(content))
        self.bodies = EntryBodies()
        self.log = self.make_log(raft, is_born=is_born)
        self.replicator = self.make_replicator(raft)
        self.deliveries_due = QuorumDeliveries(self, self.bodies)
        self.snapshots = Snapshots(
            self.fifo, raft, self.log, QUORUM_SNAPSHOT_ENTRIES, QUORUM_SNAPSHOT_BYTES
        )
        self.dead_lettering = DeadLettering(self)
        self.done = 0
        """The number of this life's submitted commands that are applied."""
        self.seen = 0
        """The number of commands whose consequences are done."""
        self.pace = QueuePace()
        self.timer_ms = 0
        """When the timer goes off, by the wall clock; 0: there is none."""
        self.time_passes = False
        """A PassTime is submitted and not applied."""
        self.storage_failed = False
        self.settles_wait = False
        """A SettlesDue is on its way."""
        self.watches = False
        """A LookIdle is on its way."""
        if content:
            self.hold_bodies()
        self.configure(self.policy)

    def make_log(self, raft: Raft, *, is_born: bool) -> GroupLog:
        return GroupLog(self.store, self.id, self, QUORUM_ENTRIES, is_born=is_born)

    def make_replicator(self, raft: Raft) -> FifoReplicator:
        return FifoReplicator(
            self.fifo, self.effects, self, raft, self.log, self.bodies, self.clock
        )

    def hold_bodies(self) -> None:
        """Keep bodies of entries before the snapshot that are in no segment yet, and so cannot be
        read."""
        group = self.store.raft.table.group(self.id)
        for index in sorted(group.held):
            entry = group.held[index].entry
            if entry.kind == DATA and index <= self.fifo.index:
                content = content_of(entry.data)
                content.decoded()
                self.bodies.add(index, content)

    def begin_life(self, former: list[ActorAddress]) -> None:
        """Begin: stand for election, and clean up after earlier lives: `former` addresses, and
        earlier lives of this node."""
        services = self.services
        self.submit(q.NodeRestarted(services.life.node, services.life.incarnation))
        for address in former:
            self.submit(q.AddressDown(address, is_lost=True))
        self.submit(q.ResumeConsumer(q.DEAD_LETTER_WORKER, 0))
        self.replicator.raft.campaign()
        self.replicator.pump()
        if self.replicator.raft.is_amnesiac:
            self.post(LogDamaged())
        self.schedule()

    def again(self, content: bytes, found: dict[int, bytes]) -> QuorumShell:
        """Make the queue that replaces this one after a fault, from the member's newest snapshot
        and log; `found` are entries that had to be read because they are not in RAM."""
        raft = self.replicator.raft
        term = self.machine.term + 1
        fresh = type(self)(
            self.vhost, self.definition, self.id, raft, content, is_born=True, term=term
        )
        log = raft.member.log
        for entry in log.entries:
            if entry.index in found and isinstance(entry.data, EntryContent):
                entry.data.data = found[entry.index]
        fresh.bodies.were_stored(self.bodies.on_disk_upto)
        fresh.snapshots.taken = self.snapshots.taken  # the new queue hears when it is kept
        for entry in log.entries:
            if fresh.fifo.index < entry.index <= raft.applied and entry.kind == DATA:
                fresh.replicator.replay(entry)
        fresh.replicator.pump()  # appends made durable since may commit entries
        fresh.begin_life([*fresh.fifo.addresses()])
        return fresh

    def store_gate(self) -> Gate:
        return self.full

    def configure(self, policy: EffectivePolicy | None) -> None:
        """Propose the settings from the arguments and this policy; None: there is no policy."""
        settings = settings_of(self.definition.arguments, policy.definition if policy else {})
        self.settings = settings
        self.submit(c.Configure(settings))
        self.schedule()

    # -- the inbox

    def receive(self, message: object) -> None:
        """Handle publishes over a credited link, commands from channels, and messages of the store
        and the disk."""
        if isinstance(message, c.Publish):
            self.publish(message)
        elif isinstance(message, c.Settle):
            self.settle(message)
        elif self.replicator.receive(message):
            pass
        elif isinstance(message, Grant):
            message.outflow.refill(message.amount)
            self.deliveries_due.window_opened(message.outflow)
        elif type(message) in ASKED:
            self.asked[type(message)](self, message)
        else:
            self.receive_rare(message)

    def receive_rare(self, message: object) -> None:
        """Handle messages of the disk, of timers and of policies, and those about the
        queue's end.
        """
        if isinstance(message, RaftEntriesRead):
            self.deliveries_due.was_read(message)
            self.seen = NOTHING_SEEN
        elif isinstance(message, ReadAgain):
            self.deliveries_due.is_reading = False
        elif isinstance(message, RaftSnapshotKept):
            self.snapshots.kept()
        elif isinstance(message, RaftSnapshotWanted):
            self.snapshots.is_wanted = True
            self.seen = NOTHING_SEEN
        elif isinstance(message, TimeDue):
            if message.due_ms == self.timer_ms:
                self.timer_ms = 0
                self.plan_time()
        elif isinstance(message, SettlesDue):
            self.settles_wait = False
            self.is_urgent |= message.made == self.made
        elif isinstance(message, LookIdle):
            self.look_idle(message)
        elif isinstance(message, PolicyChanged):
            self.configure(message.policy)
        elif isinstance(message, Flush):
            self.store.post(Flushed(self))
        elif isinstance(message, RaftRefused):
            self.storage_failed = True
            self.full.shut()
            self.refuse_all()
        elif isinstance(message, Leaving):
            self.leave_some()
        elif isinstance(message, Forgotten):
            self.forgotten = True
        elif isinstance(message, LogDamaged):
            raise DamagedLog(f"the log of {self.title} was damaged")
        else:
            super().receive(message)

    # -- committed entries

    def applied(self, command: FifoCommand) -> None:
        self.done += 1
        if isinstance(command, q.PassTime):
            self.time_passes = False
        elif isinstance(command, q.ResumeConsumer):
            self.end_strangers()

    def end_strangers(self) -> None:
        """End addresses of this node that no channel here has: entries that were on their way to
        the disk at a fault may have brought them."""
        life = self.services.life
        for address in self.fifo.addresses():
            is_own = (address.node, address.incarnation) == (life.node, life.incarnation)
            if is_own and address not in self.ends_at:
                self.submit(q.AddressDown(address, is_lost=True))

    def make_real(self, effect: qe.FifoEffect) -> None:
        self.made_real[type(effect)](self, effect)
        self.at = None

    def answer_publish(self, effect: qe.Enqueued | qe.EnqueueRejected) -> None:
        """Tell the publisher whether its messages were taken, and let it publish more."""
        end = self.ends_at.get(effect.sender)
        if end is None:
            return
        is_taken = isinstance(effect, qe.Enqueued)
        self.under_way -= end.under_way
        for answer in end.answered(effect.first_seq, effect.messages, is_taken):
            end.actor.post(answer)
        self.under_way += end.under_way
        if end.withheld and len(end.pending) < self.pending_max:
            end.give_credit_back()

    def refused_publish(self, effect: qe.EnqueueRefused) -> None:
        assert effect.sender not in self.ends_at, "a sender of this node leaves no gap"

    def nothing(self, effect: object) -> None:
        """Do nothing for an effect that nobody on this node waits for."""

    def consumer_added(self, effect: qe.ConsumerAdded) -> None:
        end = self.ends_at.get(effect.consumer.channel)
        if end is None:
            return
        consumer = end.consumers[effect.consumer.tag]
        consumer.active = effect.is_active
        self.machine.consumers.members[consumer] = None
        end.question = None
        end.actor.post(e.Consumed(consumer, end.link))

    def consumer_active(self, effect: qe.ConsumerActive) -> None:
        end = self.ends_at.get(effect.consumer.channel)
        if end is not None:
            end.consumers[effect.consumer.tag].active = True

    def consumer_gone(self, effect: qe.ConsumerGone) -> None:
        end = self.ends_at.get(effect.consumer.channel)
        if end is None:
            return
        consumer = end.consumers.pop(effect.consumer.tag)
        consumer.active = False
        self.machine.consumers.members.pop(consumer, None)
        self.return_unsent(end, consumer)
        question = end.question
        was_asked = isinstance(question, c.Cancel) and question.consumer is consumer
        if was_asked:
            end.question = None
        end.actor.post(e.Cancelled(consumer, effect.by_broker and not was_asked))

    def delivered_to(self, effect: qe.FifoDelivered) -> None:
        end = self.ends_at.get(effect.consumer.channel)
        if end is not None:
            consumer = end.consumers[effect.consumer.tag]
            self.deliveries_due.dealt(end, consumer, effect.parts)

    def message_got(self, effect: qe.MessageGot) -> None:
        end = self.ends_at.get(effect.channel)
        if end is None:
            return
        end.question = None
        if effect.part is None:
            end.actor.post(e.Got(end.actor, None, 0, NO_TRAITS, False, 0))
        else:
            self.deliveries_due.got.append((end, effect))

    def purged(self, effect: qe.QueuePurged) -> None:
        end = self.ends_at.get(effect.channel)
        if end is not None:
            end.question = None
            end.actor.post(e.Purged(end.actor, effect.messages))

    def refused(self, effect: qe.FifoRefused) -> None:
        end = self.ends_at.get(effect.channel)
        if end is None:
            return
        if isinstance(end.question, c.Consume):
            del end.consumers[end.question.consumer.tag]
        end.question = None
        end.actor.post(e.Refuse(end.actor, effect.code, effect.text))

    def dead_lettered(self, effect: qe.DeadLettered) -> None:
        self.deliveries_due.dead.extend(effect.parts)

    def dead_letter(self, letter: e.DeadLetter) -> None:
        done = None
        if letter.run:
            parts = [(letter.run, 0, len(letter.contents))]
            done = c.Settle(self.machine.own_link, parts, c.ACK)
        self.dead_lettering.pass_on(letter, self.settings, done, at_most_once=done is None)

    def deleted(self, effect: qe.FifoDeleted) -> None:
        """Answer all channels because the queue is deleted, and leave. Some of them may have
        requested a deletion, too."""
        if self.machine.deleted:
            return
        asker = None if effect.channel is None else self.ends_at.get(effect.channel)
        self.machine.deleted = True
        self.replicator.close()
        for end in self.ends.values():
            for batch in end.pending:
                if batch.confirm:
                    end.actor.post(e.Confirm(batch.link, batch.first_seq, batch.messages))
            end.pending.clear()
            end.give_credit_back()
            end.outbox.clear()
        self.under_way = 0
        for end in self.deliveries_due.give_up_gets():
            self.refuse_deleted(end.actor)
        for _, channel in self.inspections:
            self.refuse_deleted(channel)
        self.inspections.clear()
        self.leave(e.Deleted(None if asker is None else asker.actor, effect.messages))
        for end in self.ends.values():
            question, end.question = end.question, None
            if question is None or end is asker:
                continue
            if isinstance(question, c.Delete):
                self.leave(e.Deleted(end.actor, 0))
            else:
                self.refuse_deleted(end.actor)

    # -- the end of a turn

    def may_deliver(self) -> bool:
        """Tell whether channels may have their messages now. It is called when there are some."""
        return True

    def turn_ended(self) -> None:
        """Propose new commands, make effects real, and deliver; then propose the commands that
        follow from these."""
        self.propose()
        self.effects_real()
        if not self.machine.deleted:
            if self.deliveries_due.has_work and self.may_deliver():
                self.deliveries_due.serve()
            if self.inspections:
                self.answer_inspections()
            if self.has_to_look_at_state:
                self.seen = self.done
                self.look_at_state()
            self.propose()
            self.look_at_backlog()
        self.account()

    def look_at_backlog(self) -> None:
        """Take nothing more from publishers while too much is uncommitted."""
        if self.unagreed_bytes > self.backlog_bytes_max or self.storage_failed:
            self.full.shut()
        else:
            self.full.open()

    @property
    def unagreed_bytes(self) -> int:
        """Return the approximate bytes of requests made here that are not committed."""
        return self.replicator.unagreed_bytes

    @property
    def has_to_look_at_state(self) -> bool:
        """Tell whether applied commands may have consequences, or work of an earlier
        turn goes on.
        """
        due, snapshots = self.deliveries_due, self.snapshots
        return self.done != self.seen or snapshots.steps is not None or due.holds_back

    def look_at_state(self) -> None:
        """Handle the consequences of applied commands, beside their effects."""
        self.deliveries_due.release(self.fifo.released)
        self.machine.look_at(self.fifo)
        self.plan_time()
        if self.snapshots.go_on(self.deliveries_due):
            self.schedule()
        self.watch_idle()
        self.deliveries_due.shrink()

    def propose(self) -> None:
        """Make an entry of the gathered commands if one is due, and do the member's work."""
        replicator = self.replicator
        if replicator.gathered and self.is_entry_due():
            self.is_urgent = False
            replicator.propose()
            replicator.is_stirred = True
        replicator.turn_ended()

    def is_entry_due(self) -> bool:
        """Tell whether the gathered commands should become an entry. While much is under way they
        wait for that, and for more commands. Settlements wait a little for other commands, unless
        the queue has messages that may use the room they make."""
        replicator = self.replicator
        if not replicator.raft.takes_proposals:
            return False
        more_bytes = replicator.gathered_bytes
        under_way_bytes = replicator.unagreed_bytes - more_bytes
        if under_way_bytes >= QUORUM_GATHER_BYTES and more_bytes < RAFT_APPEND_BYTES:
            return False
        gathered = len(replicator.gathered)
        if self.is_urgent or self.fifo.messages.count or gathered >= SETTLES_MAX:
            return True
        self.plan_settles()
        return False

    @property
    def made(self) -> int:
        """Return the number of entries, or rows, so far."""
        return self.replicator.raft.member.log.last_index

    def plan_settles(self) -> None:
        """Plan the end of the settlements' wait."""
        if not self.settles_wait:
            self.settles_wait = True
            self.clock.call_after(SETTLES_WAIT_MS, self, SettlesDue(self.made))

    def watch_idle(self) -> None:
        """Plan to check whether the queue has fallen idle: then the store is told what is
        committed, and the log may become shorter."""
        if not self.watches:
            self.watches = True
            self.clock.call_after(IDLE_MS, self, LookIdle(self.fifo.index))

    def look_idle(self, message: LookIdle) -> None:
        """Take a snapshot if no entry was applied for a while."""
        self.watches = False
        if message.index != self.fifo.index:
            self.watch_idle()
            return
        self.log.say_committed()
        is_idle = not self.deliveries_due.has_pinned
        if is_idle and self.snapshots.is_free and self.snapshots.is_worth_it:
            self.snapshots.begin()

    def answer_inspections(self) -> None:
        """Tell the depth of the queue to channels whose earlier requests are done by now."""
        done = self.done_for_inspections
        while self.inspections and self.inspections[0][0] <= done:
            _, channel = self.inspections.popleft()
            count = self.fifo.messages.count
            channel.post(e.Inspected(channel, count, self.fifo.consumers.count))

    @property
    def done_for_inspections(self) -> int:
        """Return the number up to which the requests of inspections are done."""
        return self.done

    def plan_time(self) -> None:
        """Have time pass if something is due, or plan when to look again."""
        due_ms = self.fifo.due_ms
        if due_ms is None or self.time_passes:
            return
        now_ms = self.clock.wall_ms()
        if due_ms <= now_ms:
            self.time_passes = True
            self.submit(q.PassTime())
            return
        due_ms = min(due_ms, now_ms + EXPIRY_LOOK_MS)
        if self.timer_ms <= now_ms or due_ms < self.timer_ms:
            self.timer_ms = due_ms
            self.clock.call_after(due_ms - now_ms, self, TimeDue(due_ms))

    def account(self) -> None:
        """Account for the memory, note the depth for observers, and tell the pacer."""
        footprint = self.bodies.ram_bytes + self.unagreed_bytes
        depth = self.machine.depth
        depth.footprint = footprint
        if footprint != self.accounted:
            self.services.memory_used(footprint - self.accounted)
            self.accounted = footprint
        pacer = self.services.pacer
        if pacer is not None:
            waiting = depth.ready if depth.consumers else 0
            pacer.note_under_way(self.pace, self.published, self.under_way)
            pacer.note(self.pace, self.published, self.delivered, waiting)

    # -- ends

    def finish(self, answer: e.Deleted) -> None:
        self.dead_lettering.close()
        self.full.open()
        self.bodies = EntryBodies()
        self.replicator.unagreed_bytes = 0
        self.forget_log()
        self.store.post(StoreQueueDeleted(self, answer))

    def forget_log(self, *, is_deleted: bool = True) -> None:
        """Have the member and its files forgotten, because the queue is deleted, or has left this
        node."""
        self.log.forget(self.replicator.raft.member.next_number)


Handler = Callable[[QuorumShell, Any], None]

EFFECTS: Final[dict[type, Handler]] = {
    qe.Enqueued: QuorumShell.answer_publish,
    qe.EnqueueRejected: QuorumShell.answer_publish,
    qe.EnqueueRefused: QuorumShell.refused_publish,
    qe.EnqueuerRegistered: QuorumShell.nothing,
    qe.PublishStatus: QuorumShell.nothing,
    qe.ConsumerAdded: QuorumShell.consumer_added,
    qe.ConsumerActive: QuorumShell.consumer_active,
    qe.ConsumerGone: QuorumShell.consumer_gone,
    qe.FifoDelivered: QuorumShell.delivered_to,
    qe.MessageGot: QuorumShell.message_got,
    qe.QueuePurged: QuorumShell.purged,
    qe.FifoDeleted: QuorumShell.deleted,
    qe.FifoRefused: QuorumShell.refused,
    qe.DeadLettered: QuorumShell.dead_lettered,
}

QuorumShell.made_real = EFFECTS
