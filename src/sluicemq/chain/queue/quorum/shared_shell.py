"""A member of a quorum queue that has members on several nodes.

    channels --commands--> ASKING --rows--> the leader: here, or over the ask post on another node
    the log, committed --Fifo--> effects: those for channels of this node are made real here

Each member applies the whole log and has all bodies. So each node sends its own channels their
confirms and deliveries, whoever leads, and consumers do not notice a change of leader. Requests
that were not seen to be applied are sent again to the next leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.member_mail import RaftContentRead
from sluicemq.chain.queue.group.shared_log import SharedLog
from sluicemq.chain.queue.group.snapshot_taker import SnapshotTaker
from sluicemq.chain.queue.queue import LinkEnded
from sluicemq.chain.queue.quorum.asked_queue import (
    ASKED,
    JOINED_BYTES_MAX,
    CountReady,
)
from sluicemq.chain.queue.quorum.asking import Asking
from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
from sluicemq.chain.queue.quorum.gathering import GatheringDue
from sluicemq.chain.queue.quorum.lease import DeliveryLease, LeaseDue
from sluicemq.chain.queue.quorum.member_shell import LostTooLong, MemberShell, Undeclared
from sluicemq.chain.queue.quorum.replicator import CODEC, QUORUM_ENTRIES
from sluicemq.chain.queue.quorum.shared_replicator import SharedReplicator
from sluicemq.chain.queue.quorum.shell import (
    EFFECTS,
    NOTHING_SEEN,
    SETTLES_MAX,
    QuorumShell,
)
from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.address import node_of
from sluicemq.limits import (
    LEASE_LOOK_MS,
    QUORUM_GATHER_BYTES,
    RAFT_APPEND_BYTES,
)
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum import effects as qe
from sluicemq.queues.quorum.command_codec import encode_entry, joined
from sluicemq.queues.quorum.dead_letter_queue import NO_ID
from sluicemq.queues.quorum.service_queue import CANCELLED, UP
from sluicemq.queues.settings import settings_of
from sluicemq.raft.messages import RaftMessage
from sluicemq.replication.ask_post import AskAgain, LeaderKnown, RowCame
from sluicemq.replication.raft_post import MemberReach, RaftTick, tick_fit
from sluicemq.storage.raft.reading import RaftEntriesRead, RaftLiveRead

if TYPE_CHECKING:
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.kernel.address import ActorAddress
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.quorum.commands import FifoCommand
    from sluicemq.queues.settings import QueueSettings
    from sluicemq.raft.raft import Raft

ANSWERS: Final = (
    qe.ConsumerAdded,
    qe.MessageGot,
    qe.QueuePurged,
    qe.FifoRefused,
)
"""Effects that answer a channel's request, except for those about things that are gone."""
NOBODY_LEADS: Final = LeaderKnown(0, 0)
ROWS_UNDER_WAY: Final = 4
"""Small rows on their way to a leader on another node: one that is being committed, and more that
wait there to be the next, because the leader waits for all publishers that it has seen before."""
SETTLES_UNDER_WAY: Final = 2
"""With so many under way settlements alone make no further row."""


@mypyc_attr(native_class=False)
class StateDivergedError(AssertionError):
    """A member has applied the same entries as the leader and reached a different state."""


class SharedShell(MemberShell, SnapshotTaker):
    """The shell around the state of a quorum queue, for one of several members."""

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
        services = vhost.services
        assert services.raft_post is not None, "members on several nodes without a post"
        clock = services.world.clock
        self.lease = DeliveryLease(clock, services.raft_post.cluster, raft)
        self.asking = Asking(services.new_address(), CODEC)
        self.leader = NOBODY_LEADS
        """The last announced leader."""
        self.expected: dict[int, int] = {}
        """The number of the next row from each node that has sent rows to this leader."""
        self.lost_ends: list[ChannelEnd] = []
        """Channels that the other members have taken for gone."""
        self.is_ticking = False
        self.compared = 0
        """The last entry at which this leader has had states compared."""
        self.looks_for_lease = False
        """A LeaseDue is on its way."""
        super().__init__(vhost, definition, queue_id, raft, content, is_born=is_born, term=term)

    def make_log(self, raft: Raft, *, is_born: bool) -> SharedLog:
        post, strand = self.raft_post, self.read_strand
        kind = QUORUM_ENTRIES
        self.shared_log = SharedLog(
            self.store, self.id, self, kind, raft, post, strand, is_born=is_born
        )
        return self.shared_log

    def make_replicator(self, raft: Raft) -> SharedReplicator:
        self.fifo.audience = self.services.life.node
        self.row_replicator = SharedReplicator(
            self.fifo, self.effects, self, raft, self.shared_log, self.bodies, self.clock
        )
        return self.row_replicator

    def begin_life(self, former: list[ActorAddress]) -> None:
        """Begin: clean up after earlier lives of this node and of this queue as soon as there is a
        leader. The only voter leads at once. A member that is no voter, or may have forgotten
        something, serves no channels."""
        if self.raft.is_amnesiac or self.raft.member.name not in self.raft.configuration.voters:
            self.learn()
            return
        life = self.services.life
        self.submit(q.NodeRestarted(life.node, life.incarnation))
        for address in former:
            if (address.node, address.incarnation) == (life.node, life.incarnation):
                self.submit(q.AddressDown(address, is_lost=True))
        self.take_part()
        if self.raft.configuration.voters == (self.raft.member.name,):
            self.raft.campaign()
        self.schedule()

    def lead_first(self) -> None:
        """Stand for election at once: the queue was just born, and its declarer has chosen this
        member."""
        self.raft.campaign()
        self.schedule()

    def again(self, content: bytes, found: dict[int, bytes]) -> QuorumShell:
        self.raft.resign()
        fresh = super().again(content, found)
        assert isinstance(fresh, SharedShell)
        fresh.former = self.former
        return fresh

    # -- requests

    @property
    def next_row(self) -> int:
        return self.asking.next_number

    def submit(self, command: FifoCommand) -> None:
        if not self.machine.deleted:
            self.is_urgent = True
            self.asking.add(command)

    def submit_settle(self, command: q.SettleDelivered) -> None:
        if self.machine.deleted:
            return
        if command.consumer == q.DEAD_LETTER_WORKER:
            self.lead(command)
        else:
            self.asking.add(command)

    def lead(self, command: FifoCommand) -> None:
        """Propose a command that only the leader is responsible for; the next leader does this
        anew."""
        if self.led_term and not self.machine.deleted:
            self.replicator.submit(command)
            self.schedule()

    def enqueue(self, enqueue: q.Enqueue, size_bytes: int) -> None:
        last = self.asking.last_gathered()
        if isinstance(last, q.Enqueue) and size_bytes < JOINED_BYTES_MAX and joined(last, enqueue):
            self.asking.grew(size_bytes)
        else:
            self.submit(enqueue)

    def get(self, command: c.Get) -> None:
        """Get a message that has to be settled in any case: a leader's answer may get lost, but the
        message must not."""
        if self.refuses(command.channel):
            return
        end = self.has_asked(command.channel, command)
        self.submit(q.GetMessage(end.address, no_ack=False))

    def inspect(self, command: c.Inspect) -> None:
        if self.refuses(command.channel):
            return
        if self.settings.expires_ms is not None and not isinstance(command, CountReady):
            self.submit(q.UseQueue())
        self.is_urgent = True
        self.inspections.append((self.asking.next_number, command.channel))

    def configure(self, policy: EffectivePolicy | None) -> None:
        """Hold these settings; the leader proposes them."""
        arguments = self.definition.arguments
        self.settings: QueueSettings = settings_of(arguments, policy.definition if policy else {})
        if self.led_term:
            self.lead(c.Configure(self.settings))

    # -- the inbox

    def receive(self, message: object) -> None:
        if isinstance(message, RaftMessage):
            if not self.replicator.is_closed:
                self.row_replicator.step(message)
        elif isinstance(message, RaftAppended):
            self.appended(message)
        elif isinstance(message, RowCame):
            self.row_came(message)
        elif isinstance(message, RaftTick):
            if self.led_term and self.has_to_look:
                self.look_with_time()
        else:
            super().receive(message)

    def receive_rare(self, message: object) -> None:
        if isinstance(message, LeaderKnown):
            self.follow(message)
        elif isinstance(message, AskAgain):
            pass  # rows are sent at the end of the turn
        elif isinstance(message, MemberReach):
            (self.raft.link_back if message.is_reached else self.raft.link_lost)(message.name)
            if not message.is_reached:
                self.watch_lost(node_of(message.name))
        elif isinstance(message, Undeclared):
            if not self.machine.deleted:
                self.deleted(qe.FifoDeleted(None, 0))
        elif isinstance(message, LostTooLong):
            self.look_lost(message.node)
        elif isinstance(message, LeaseDue):
            self.looks_for_lease = False
        elif isinstance(message, GatheringDue):
            self.row_replicator.gathering_due()
        elif not self.heard_of_members(message) and not self.was_read_for_mail(message):
            super().receive_rare(message)

    def was_read_for_mail(self, message: object) -> bool:
        """Take in data that was read for a lagging member. Returns whether it was such data."""
        return isinstance(
            message, RaftContentRead | RaftEntriesRead | RaftLiveRead
        ) and self.shared_log.mail.was_read(message)

    def appended(self, message: RaftAppended) -> None:
        if self.shared_log.installing and message.number >= self.shared_log.installing:
            self.shared_log.installing = 0
            self.deliveries_due.is_on_its_way = False
        if not self.replicator.is_closed:
            self.raft.synced(message.number)

    def row_came(self, row: RowCame) -> None:
        """Propose a row of another node if it follows those sent to this leader before. A node that
        meant a former leader will hear of the present one."""
        if self.machine.deleted or row.term != self.led_term:
            return
        if row.node not in self.nodes.values():
            return  # the node had a member, and may be about to have one again
        if not row.is_first and self.expected.get(row.node) != row.number:
            self.ask_post.leads(self.id, self.led_term)
            return
        self.node_asks(row.node)
        self.expected[row.node] = row.number + 1
        self.row_replicator.add_row(row.node, row.data, len(row.data))

    # -- the leader

    def follow(self, known: LeaderKnown) -> None:
        """Send all rows that are not applied to the present leader."""
        if known.term >= self.leader.term:
            self.leader = known
            self.asking.begin_anew()

    def look_at_role(self) -> None:
        """Check whether this member has become the leader or has ceased to be."""
        term = self.raft.member.term if self.raft.is_leader else 0
        if term == self.led_term:
            return
        if self.led_term:
            self.replicator.drop_proposals()
            self.deliveries_due.forget_dead_letters()
            self.ask_post.ceased(self.id, self.led_term)
            if self.leader.term == self.led_term:
                self.leader = NOBODY_LEADS._replace(term=self.led_term)
        self.led_term = term
        self.expected = {}
        self.time_passes = False
        if term:
            self.begin_leading()

    def begin_leading(self) -> None:
        """Take over the leader's duties beyond proposing rows."""
        self.led_since_ns = self.clock.now_ns()
        self.sweep_index = 0
        self.begin_listening()
        self.ask_post.leads(self.id, self.led_term)
        self.lead(c.Configure(self.settings))
        self.lead(q.ResumeConsumer(q.DEAD_LETTER_WORKER, 0))
        for name in self.raft.configuration.members:
            self.watch_lost(node_of(name))
        self.seen = NOTHING_SEEN

    # -- committed entries

    def applied(self, command: FifoCommand) -> None:
        self.done += 1
        if isinstance(command, q.PassTime):
            self.time_passes = False
        elif isinstance(command, q.AddressDown):
            end = self.ends_at.get(command.channel)
            if end is not None:
                self.lost_ends.append(end)

    def look_at_state(self) -> None:
        super().look_at_state()
        newest = max(self.fifo.marks, default=0) if self.led_term else 0
        if newest > self.compared:
            self.compared = newest
            self.lead(q.CompareState(newest, self.fifo.marks[newest]))

    def state_differs(self, effect: qe.StateDiffers) -> None:
        """Give up this state: a new one is built from the disk, as after any fault."""
        raise StateDivergedError(
            f"{self.title}: this member's state is not the leader's as of entry {effect.entry}"
        )

    def make_real(self, effect: qe.FifoEffect) -> None:
        if isinstance(effect, qe.FifoDelivered):
            self.delivered_to(effect)
        elif isinstance(effect, qe.Enqueued):
            self.answer_publish(effect)
        elif isinstance(effect, qe.RowBegins):
            if self.asking.began(effect):
                self.end_strangers()
        elif isinstance(effect, ANSWERS) and not self.is_waited_for(effect):
            self.unwanted(effect)
        elif isinstance(effect, qe.ConsumerGone) and self.is_known_gone(effect):
            pass
        else:
            super().make_real(effect)
        self.at = None

    def is_waited_for(self, effect: qe.FifoEffect) -> bool:
        """Tell whether a channel still waits for this answer."""
        kind: type
        if isinstance(effect, qe.ConsumerAdded):
            address, kind = effect.consumer.channel, c.Consume
        elif isinstance(effect, qe.MessageGot):
            address, kind = effect.channel, c.Get
        elif isinstance(effect, qe.QueuePurged):
            address, kind = effect.channel, c.Purge
        else:
            assert isinstance(effect, qe.FifoRefused)
            address, kind = effect.channel, object
        end = self.ends_at.get(address)
        return end is not None and end.question is not None and isinstance(end.question, kind)

    def unwanted(self, effect: qe.FifoEffect) -> None:
        """Return a message of a repeated basic.get: it was requested again after a snapshot, while
        the first was in the log. Other answers say nothing new."""
        if not isinstance(effect, qe.MessageGot) or effect.part is None:
            return
        end = self.ends_at.get(effect.channel)
        if end is not None:
            first = effect.part.first_id
            end.dealt[""] = first + 1
            self.submit(q.SettleDelivered(end.key(""), ((first, first + 1),), q.UNSENT))

    def is_known_gone(self, effect: qe.ConsumerGone) -> bool:
        """Tell whether the consumer was known to be gone. Another one may have its tag now."""
        end = self.ends_at.get(effect.consumer.channel)
        return end is not None and effect.consumer.tag not in end.consumers

    def consumer_added(self, effect: qe.ConsumerAdded) -> None:
        super().consumer_added(effect)
        self.ends_at[effect.consumer.channel].dealt[effect.consumer.tag] = effect.next_id

    def delivered_to(self, effect: qe.FifoDelivered) -> None:
        end = self.ends_at.get(effect.consumer.channel)
        if end is not None:
            tag = effect.consumer.tag
            end.dealt[tag] = effect.parts[-1].end_id
            self.deliveries_due.dealt(end, end.consumers[tag], effect.parts)

    def message_got(self, effect: qe.MessageGot) -> None:
        end = self.ends_at[effect.channel]
        part = effect.part
        if part is not None:
            end.dealt[""] = part.first_id + 1
            question = end.question
            assert isinstance(question, c.Get)
            if question.no_ack:
                ids = ((part.first_id, part.first_id + 1),)
                self.submit_settle(q.SettleDelivered(end.key(""), ids, c.ACK))
                effect = effect._replace(part=part.with_id(NO_ID))
        super().message_got(effect)

    def refused_publish(self, effect: qe.EnqueueRefused) -> None:
        """Take a channel for lost that publishes although the other members took it for gone."""
        end = self.ends_at.get(effect.sender)
        if end is not None:
            assert not effect.expected_seq, "a sender of this node leaves no gap"
            self.lost_ends.append(end)

    def lose_end(self, end: ChannelEnd) -> None:
        """Tell a channel that the other members took it for gone: its unanswered publishes and its
        consumers are lost, and it may begin anew. Its later requests get no answer, and must not
        keep messages from others."""
        if self.ends.get(end.actor) is not end:
            return
        channel = end.actor
        question = end.question
        for consumer in end.consumers.values():
            if isinstance(question, c.Consume) and question.consumer is consumer:
                continue
            self.machine.consumers.members.pop(consumer, None)
            channel.post(e.Cancelled(consumer, True))
        waits_for_body = self.deliveries_due.forget(end)
        if question is not None or waits_for_body:
            channel.post(e.Refuse(channel, 404, f"{self.title} has lost this node's channels"))
        link = self.upstream.pop(channel, None)
        if link is not None:
            link.end()
            channel.post(LinkEnded(self, link, True))
        del self.ends[channel], self.ends_at[end.address], self.ends_of[end.link]
        self.under_way -= end.under_way
        self.machine.links.pop(channel, None)
        self.submit(q.AddressDown(end.address, is_lost=True))

    def overtaken(self) -> None:
        self.effects_real()
        for end in self.deliveries_due.overtaken():
            text = f"{self.title} has lost what was got, for this node was cut off"
            end.actor.post(e.Refuse(end.actor, 404, text))

    def put_in(self) -> None:
        """Look up the outcome of rows, publishes and deliveries in the state, and repeat requests
        that it has seen: it does not show how they were answered. The others are still in rows."""
        self.deliveries_due.is_on_its_way = True
        self.snapshots.was_overtaken()
        self.seen = NOTHING_SEEN
        if self.asking.applied(self.fifo.askers.done(self.asking.address)):
            self.end_strangers()
        for end in [*self.ends.values()]:
            if self.fifo.enqueuers.has_ended(end.address):
                self.lose_end(end)
                continue
            self.hear_answers(end)
            self.hear_deliveries(end)
            question = end.question
            if question is not None and end.question_row <= self.asking.done:
                self.asked[type(question)](self, question)
        self.asking.begin_anew()

    def hear_answers(self, end: ChannelEnd) -> None:
        """Look up the outcome of a channel's publishes."""
        enqueuer = self.fifo.enqueuers.members.get(end.address)
        if enqueuer is None or not end.pending:
            return
        for start, stop, is_taken in enqueuer.answers(end.pending[0].seq, enqueuer.next_seq):
            answer = qe.Enqueued if is_taken else qe.EnqueueRejected
            self.answer_publish(answer(end.address, start, stop - start))

    def hear_deliveries(self, end: ChannelEnd) -> None:
        """Look up which messages a channel's consumers were assigned, and which consumers are gone.
        Messages of these and of basic.get that have not arrived here return to the queue."""
        for tag in ["", *end.consumers]:
            key = end.key(tag)
            known = self.fifo.consumers.members.get(key)
            dealt = end.dealt.get(tag, 0)
            if known is not None and known.status == CANCELLED and known.next_id > dealt:
                end.dealt[tag] = known.next_id
                self.submit(q.SettleDelivered(key, ((dealt, known.next_id),), q.UNSENT))
            if not tag:
                continue
            consumer = end.consumers[tag]
            if consumer not in self.machine.consumers.members:
                if known is None or known.status == CANCELLED:
                    continue  # it is requested again
                self.consumer_added(qe.ConsumerAdded(key, dealt, known.status == UP))
            if known is None or known.status == CANCELLED:
                self.consumer_gone(qe.ConsumerGone(key, by_broker=True))
                continue
            parts = [
                qe.DeliveredPart(first, run.batch.index, run.places, run.returns, run.redelivered)
                for first, run in known.checked_out.since(dealt)
            ]
            consumer.active = not self.fifo.consumers.single_active or (
                self.fifo.consumers.active is known
            )
            if parts:
                self.delivered_to(qe.FifoDelivered(key, parts))

    # -- the end of a turn

    def pass_tick(self) -> bool:
        """Let a tick pass for the member. Returns whether it has, or may have, consequences."""
        raft = self.raft
        tick_fit(raft, self.raft_post.cluster)
        self.look_in_ticks -= 1
        self.is_urgent |= self.asking.has_waited()
        return (
            raft.has_work
            or raft.is_quiet
            or raft.is_leader != bool(self.led_term)
            or (self.led_term > 0 and self.has_to_look)
            or self.row_replicator.has_due()
            or (len(self.asking.gathered) > 0 and self.is_row_due())
            or not self.is_serving
        )

    def has_changed(self) -> bool:
        """Tell whether this turn has consequences. Answers from members often have none, and
        requests wait for more of them."""
        raft, asking, due = self.raft, self.asking, self.deliveries_due
        return bool(
            self.effects
            or raft.has_work
            or (asking.gathered and self.is_row_due())
            or (asking.rows and asking.rows[-1].number > asking.sent)
            or self.row_replicator.has_due()
            or self.inspections
            or due.has_work
            or self.lost_ends
            or self.done != self.seen
            or self.snapshots.steps is not None
            or (raft.member.term if raft.is_leader else 0) != self.led_term
            or raft.configuration is not self.members_known
            or not self.is_serving
            or self.is_ticking != self.needs_ticks
        )

    def may_deliver(self) -> bool:
        """Tell whether there is a lease; if not, check again after a while."""
        if self.lease.is_held():
            return True
        if not self.looks_for_lease:
            self.looks_for_lease = True
            self.clock.call_after(LEASE_LOOK_MS, self, LeaseDue())
        return False

    def turn_ended(self) -> None:
        if not self.has_changed():
            if self.accounted != self.bodies.ram_bytes + self.unagreed_bytes:
                self.look_at_backlog()
                self.account()
            return
        super().turn_ended()
        if self.lost_ends:
            for end in self.lost_ends:
                self.lose_end(end)
            self.lost_ends = []
        if self.effects:
            self.schedule()
        self.look_at_ticks()

    @property
    def needs_ticks(self) -> bool:
        """Tell whether the member, or its gathered commands, wait for something."""
        return not (self.raft.is_quiet or self.machine.deleted) or self.asking.wait_ticks > 0

    def look_at_ticks(self) -> None:
        """Have ticks while something waits."""
        is_ticking = self.needs_ticks
        if is_ticking != self.is_ticking:
            self.is_ticking = is_ticking
            if is_ticking:
                self.raft_post.tick(self.id, self.pass_tick)
            else:
                self.raft_post.rest(self.id)

    @property
    def unagreed_bytes(self) -> int:
        return self.asking.size_bytes + self.replicator.unagreed_bytes

    @property
    def done_for_inspections(self) -> int:
        return self.asking.done

    def propose(self) -> None:
        """Make a row of the gathered commands when a lone leader would make an entry, send unsent
        rows, and do the member's work."""
        if self.replicator.is_closed:
            return
        asking = self.asking
        if (asking.gathered or self.inspections) and self.is_row_due():
            self.is_urgent = False
            asking.make_row()
        if asking.rows and asking.rows[-1].number > asking.sent:
            self.send_rows()
        self.replicator.turn_ended()
        self.look_at_role()
        self.look_at_members()
        if not self.is_serving:
            self.look_if_caught_up()

    def is_row_due(self) -> bool:
        asking = self.asking
        gathered = len(asking.gathered)
        if not gathered and not (self.is_urgent and self.inspections):
            return False
        more_bytes = asking.gathered_bytes
        if more_bytes < RAFT_APPEND_BYTES and self.is_row_to_wait(more_bytes):
            return False
        if self.is_urgent or self.fifo.messages.count or gathered >= SETTLES_MAX:
            return True
        self.plan_settles()
        return False

    def is_row_to_wait(self, size_bytes: int) -> bool:
        """Tell whether a row of this size should wait for more: as long as no entry would take it
        now."""
        asking = self.asking
        if asking.rows and not self.leader.node:
            return True
        if self.led_term and self.leader.term == self.led_term:
            return self.row_replicator.would_wait(size_bytes)
        rows_max = ROWS_UNDER_WAY if self.is_urgent else SETTLES_UNDER_WAY
        return asking.under_way_bytes >= QUORUM_GATHER_BYTES or (
            len(asking.rows) >= rows_max and size_bytes < QUORUM_GATHER_BYTES
        )

    def plan_settles(self) -> None:
        self.asking.wait()

    def send_rows(self) -> None:
        """Send the leader the rows that it has not been sent."""
        asking, leader = self.asking, self.leader
        for row in asking.unsent:
            is_first = asking.sent == 0
            if leader.node == self.ask_post.cluster.node:
                if leader.term != self.led_term:
                    return
                self.row_replicator.add_row(leader.node, row.commands, row.size_bytes)
            elif self.ask_post.has_room(leader.node, self.id):
                data = encode_entry(row.commands)
                self.ask_post.ask(
                    leader.node, self.id, leader.term, row.number, data, is_first=is_first
                )
            else:
                return
            asking.sent = row.number

    def plan_time(self) -> None:
        if self.led_term:
            super().plan_time()

    # -- ends

    def undeclared(self) -> None:
        if self.crash is not None:
            super().undeclared()
        else:
            self.post(Undeclared())

    def finish(self, answer: e.Deleted) -> None:
        self.asking.let_go()
        super().finish(answer)

    def forget_log(self, *, is_deleted: bool = True) -> None:
        self.shared_log.mail.close()
        self.raft_post.close(self.id)
        self.ask_post.close(self.id, is_deleted=is_deleted)
        super().forget_log(is_deleted=is_deleted)


SharedShell.asked = {
    **ASKED,
    c.Get: SharedShell.get,
    c.Inspect: SharedShell.inspect,
    CountReady: SharedShell.inspect,
}
SharedShell.made_real = {
    **EFFECTS,
    qe.EnqueueRefused: SharedShell.refused_publish,
    qe.StateDiffers: SharedShell.state_differs,
    qe.ConsumerAdded: SharedShell.consumer_added,
    qe.FifoDelivered: SharedShell.delivered_to,
    qe.MessageGot: SharedShell.message_got,
}
