"""This node's member of the group of a mirrored queue, on the master's node and on any other: log,
mirror, ticks and mail.

    the log, committed --> MIRROR of this node
    leads, and has applied an entry of its term --> MASTER (master.py), which clients use
    leads no more, or another member does --> the master ends (master_end.py)

A witness, which is not to be a mirror, serves no clients: it hands over to a mirror.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.fault_history import CRASHED, FaultHistory
from sluicemq.chain.queue.group.member_changes import MemberChanges, update_nodes
from sluicemq.chain.queue.group.member_log import pieces_in
from sluicemq.chain.queue.group.member_mail import RaftContentRead
from sluicemq.chain.queue.group.member_messages import (
    HandOver,
    LeadFrom,
    MemberGone,
    MembersDue,
    SyncMirrors,
)
from sluicemq.chain.queue.group.shared_log import SharedLog
from sluicemq.chain.queue.group.snapshot_taker import SnapshotTaker
from sluicemq.chain.queue.group.snapshots import Snapshots
from sluicemq.chain.queue.mirrored.idle_watch import IdleWatch, MirrorIdle
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.mirrored.master_watch import MasterMissing, MasterWatch
from sluicemq.chain.queue.mirrored.member_port import MemberPort
from sluicemq.chain.queue.mirrored.move import MirrorMove
from sluicemq.chain.queue.mirrored.replicator import (
    MIRROR_ENTRIES,
    SNAPSHOT_BYTES,
    SNAPSHOT_ENTRIES,
    MirrorReplicator,
)
from sluicemq.chain.queue.queue import FIRST_STRAND
from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.kernel.address import node_of
from sluicemq.kernel.containment import traceback_text
from sluicemq.limits import MIRROR_REPLACE_MS
from sluicemq.metadata.changes import AddMember, RemoveMember
from sluicemq.model.mirroring import mirror_nodes, mirroring_of, voting_nodes
from sluicemq.queues.commands import FIRST_TERM
from sluicemq.queues.mirrored.commands import (
    InSyncChanged,
    MirrorCommand,
    MirrorEffect,
    MirrorFree,
)
from sluicemq.queues.mirrored.entry_content import content_of
from sluicemq.queues.mirrored.group_standing import GroupStanding, may_begin, may_serve, standing_of
from sluicemq.queues.mirrored.held_mirrors import HeldMirrors
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.queues.mirrored.promotion import NODE_DOWN, status_of, term_of_promotion
from sluicemq.raft.messages import RaftMessage
from sluicemq.replication.ask_post import LeaderKnown
from sluicemq.replication.member_status import TellsStatus
from sluicemq.replication.raft_post import MemberReach, RaftTick, tick_fit
from sluicemq.replication.state_owner import StateOwner
from sluicemq.storage.raft.reading import RaftEntriesRead, RaftLiveRead

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.queue.classic import ClassicShell
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.mirroring import Mirroring
    from sluicemq.raft.configuration import Configuration
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.raft import Raft
    from sluicemq.replication.member_status import MemberStatus

READ_STRAND_STEP: Final = 2
"""Reads of a log do not queue behind its writes."""
LOOK_TICKS: Final = 5
"""Ticks between two looks of a master at mirrors that make no progress."""
MS: Final = 1_000_000


class NothingPinned:
    """No delivery needs bodies that the mirror has released: a master has those it
    delivers in RAM.
    """

    has_pinned = False


class MirrorMember(MemberPort, StateOwner[MirrorCommand], SnapshotTaker, TellsStatus):
    """This node's member of one queue's group. `raft` is its Raft state, `content` that of its
    newest snapshot."""

    is_vital = False
    has_led = False
    is_ticking = False
    has_looked = False
    """As the leader it has looked at mirrors, members and policy since anything has come but
    entries, and answers to these."""
    is_down = False
    """The queue has had its second fault here in a minute: it serves no clients until a restart."""
    is_over = False
    """The member is forgotten by the append `last_number`."""

    def __init__(
        self,
        vhost: NamespacePort,
        definition: QueueDefinition,
        queue_id: int,
        raft: Raft,
        content: bytes,
        *,
        is_born: bool,
    ) -> None:
        services = vhost.services
        super().__init__(services.scheduler)
        assert services.raft_post is not None and services.ask_post is not None
        self.services = services
        self.raft_post = services.raft_post
        self.ask_post = services.ask_post
        self.clock = services.world.clock
        self.vhost = vhost
        self.store = vhost.store
        self.definition = definition
        self.id = queue_id
        self.name = definition.name
        self.title = f"queue '{definition.name}' in vhost '{vhost.name}'"
        self.raft = raft
        self.own = raft.member.name
        self.mirror = Mirror()
        self.bounds = MirrorBounds()
        if content:
            self.mirror.restore(pieces_in(content))
        strand = FIRST_STRAND + queue_id + READ_STRAND_STEP
        kind, post = MIRROR_ENTRIES, self.raft_post
        self.log = SharedLog(self.store, queue_id, self, kind, raft, post, strand, is_born=is_born)
        self.effects: list[MirrorEffect] = []
        self.replicator = MirrorReplicator(
            self.mirror, self.effects, self, raft, self.log, self.clock
        )
        self.snapshots = Snapshots(self.mirror, raft, self.log, SNAPSHOT_ENTRIES, SNAPSHOT_BYTES)
        self.changes = MemberChanges(services, vhost.name, definition.name, queue_id, raft)
        self.nodes: dict[int, int] = {}
        """The node of each member, as of the configuration `members_known`."""
        self.members_known: Configuration | None = None
        self._mirrors: frozenset[int] = frozenset()
        self.held = HeldMirrors()
        self.long_lost: frozenset[int] = frozenset()
        """Nodes with members that have been out of the leader's reach for so long that others take
        their places, if there are any."""
        self.master: MasterShell | None = None
        """The queue that clients use here; None: this member does not serve."""
        self.move: MirrorMove | None = None
        """The move of messages here from a queue without mirrors; None: there is none."""
        self.watch = MasterWatch(self, self.changes)
        self.served_term = 0
        """The term in which it serves; 0: it does not, or was born as master and waits to be
        elected."""
        self.asked: object = None
        """The declared members for which it has last proposed changes, and the wanted nodes."""
        self.seen: object = None
        """The state of the group that the master has seen."""
        self.patient: object = None
        """The members that this leader lets wait, and those of them that get entries at once; None:
        Raft was not told."""
        self.look_in_ticks = 0
        self.idle = IdleWatch(self, self.clock, self.mirror, self.log, self.snapshots)
        self.accounted = 0
        self.last_number = 0

    def begin_life(self, *, is_first: bool = False, source: ClassicShell | None = None) -> None:
        """Take part from now on. `is_first`: it was just born and its declarer wants it to be
        master: channels use it at once, but get no answers before it is elected. Messages of
        `source` are moved here before it serves."""
        self.look_at_mirrors()
        self.look_at_members()
        self.raft_post.open(self.id, self.own, self, self.nodes)
        self.ask_post.open(self.id, self)
        self.watch.lost(0)
        if is_first:
            self.begin_master(FIRST_TERM)
        if is_first or self.raft.configuration.voters == (self.own,):
            self.raft.campaign()
        if source is not None:
            self.move = MirrorMove(source, self)
        self.schedule()

    # -- the master's view of it

    @property
    def standing(self) -> GroupStanding | None:
        return standing_of(self.raft) if self.served_term and self.raft.is_leader else None

    @property
    def mirrors(self) -> frozenset[int]:
        return self._mirrors

    @property
    def takes_proposals(self) -> bool:
        return self.served_term > 0 and self.raft.takes_proposals and not self.is_over

    @property
    def has_heir(self) -> bool:
        return self.raft.best_heir(self._mirrors) in self._mirrors

    @property
    def can_move(self) -> bool:
        return may_serve(self.raft) and self.raft.takes_proposals and not self.is_over

    def moved(self) -> None:
        if self.move is not None:
            self.vhost.source_ended(self.move.source)
            self.move = None
            self.schedule()

    def propose(self, commands: list[MirrorCommand]) -> tuple[int, int]:
        self.schedule()
        return self.replicator.propose_commands(commands)

    def names_of(self, members: Iterable[int]) -> list[str]:
        return [self.name_of(node_of(each)) for each in members]

    def name_of(self, node: int) -> str:
        """Return a node's name for users."""
        return self.ask_post.cluster.name_of(node)

    def contents(self, indexes: Iterable[int]) -> dict[int, bytes]:
        log = self.raft.member.log
        group = self.store.raft.table.groups.get(self.id)
        found: dict[int, bytes] = {}
        for index in indexes:
            held = None if group is None else group.held.get(index)
            entry = None if held is None else held.entry
            if index > log.snapshot.index:
                entry = log.entry_at(index)
            if entry is not None and (content := content_of(entry.data)).is_there:
                found[index] = bytes(content)
        return found

    @property
    def in_sync(self) -> tuple[int, ...]:
        """Return the members that confirms wait for, the eldest first, including the master."""
        return self.mirror.in_sync.members

    def policy_changed(self) -> None:
        self.held.is_cancelled = False
        self.look_at_mirrors()
        self.schedule()

    def look_at_mirrors(self) -> None:
        """Note which members should be mirrors, by the policy and the declared members."""
        self.asked = None
        self.has_looked = False
        declared = self.changes.declared
        if declared is None:
            return
        nodes = sorted(map(node_of, declared.members), key=self.long_lost.__contains__)
        wanted = mirror_nodes(self.mirroring, nodes, self.name_of)
        self._mirrors = frozenset(each for each in declared.members if node_of(each) in wanted)

    @property
    def mirroring(self) -> Mirroring | None:
        """Return what the present policy says of mirrors; None: nothing."""
        policy = self.vhost.policies.for_queue(self.name, self.definition.type)
        return mirroring_of(policy.definition) if policy is not None else None

    def look_at_lost(self) -> None:
        """As the leader, note the nodes with members that have been out of reach for so long that
        others must take their places."""
        before_ns = self.clock.now_ns() - MIRROR_REPLACE_MS * MS
        lost = frozenset(
            node
            for node in map(node_of, self.raft.member.lost)
            if (since_ns := self.raft_post.lost_ns(node)) is not None and since_ns <= before_ns
        )
        if lost != self.long_lost:
            self.long_lost = lost
            self.look_at_mirrors()

    def look_at_policy(self) -> None:
        """As the master, propose the members that the policy wants: new ones on nodes that are up
        and have none yet."""
        declared, cluster = self.changes.declared, self.ask_post.cluster
        if declared is None or not self.served_term:
            return
        members = [node_of(name) for name in declared.members]
        own = node_of(self.own)
        up = [node for node in cluster.nodes if cluster.standing(node) is NodeStanding.UP]
        order = sorted(dict.fromkeys((own, *members, *up)), key=self.long_lost.__contains__)
        voting = voting_nodes(mirror_nodes(self.mirroring, order, self.name_of), order)
        asked = (declared.members, declared.leaving, voting)
        if asked == self.asked:
            return
        self.asked = asked
        place = self.vhost.name, self.name, self.id
        leaving = [node_of(name) for name in declared.leaving]
        for node in voting:
            if node not in members and node not in leaving:
                self.services.agreement.propose(AddMember(*place, node))
        for node in members:
            if node not in voting:
                self.services.agreement.propose(RemoveMember(*place, node))

    # -- synchronisation

    @property
    def new_members(self) -> list[int]:
        """Return the declared members that are not in the group yet."""
        declared, there = self.changes.declared, self.raft.configuration.members
        return [] if declared is None else [each for each in declared.members if each not in there]

    @property
    def is_syncing(self) -> bool:
        """Tell whether new members are being sent the queue's messages."""
        configuration = self.raft.configuration
        return bool(configuration.voters and configuration.learners)

    def look_at_held(self) -> set[int]:
        """Return the new members that are not to be sent the queue's messages yet."""
        new, mirroring = self.new_members, self.mirroring
        if not (new or self.mirror.in_sync.held):
            return set()
        master = self.master if self.served_term else None
        mastership = None if master is None else master.mirrored.mastership
        syncs = mirroring is None or mirroring.syncs
        waiting = self.held.look(new, self.mirror.in_sync, mastership, syncs=syncs)
        if master is not None:
            master.schedule()
        if mirroring is not None:
            self.log.mail.piece_bytes = self.bytes_of(mirroring.batch)
        return waiting

    def bytes_of(self, messages: int) -> int:
        """Return the size of so many messages of the queue's average size."""
        mirror = self.mirror
        return 1 + messages * mirror.body_bytes // (mirror.messages or 1)

    def sync(self, message: SyncMirrors) -> None:
        """Have new members sent the queue's messages, or stop that. Stopped members are removed,
        and others that replace them are held."""
        if not message.is_cancelled:
            self.held.sync(self.new_members)
            return
        learners = self.raft.configuration.learners
        if self.served_term and (learners or self.held.free.intersection(self.new_members)):
            self.held.cancel()
            for name in learners:
                place = self.vhost.name, self.name, self.id
                self.services.agreement.propose(RemoveMember(*place, node_of(name)))

    # -- the inbox

    def receive(self, message: object) -> None:
        if self.is_over:
            if isinstance(message, RaftAppended) and message.number >= self.last_number:
                self.vhost.forgotten(self.id, self.name)
        elif isinstance(message, RaftMessage):
            if message.to == self.own:
                self.replicator.step(message)
        elif isinstance(message, RaftAppended):
            self.appended(message)
        elif isinstance(message, RaftTick):
            self.seen = None  # so that the master checks the time
            self.has_looked = False
        elif isinstance(message, MemberReach):
            self.has_looked = False
            (self.raft.link_back if message.is_reached else self.raft.link_lost)(message.name)
        elif isinstance(message, RaftSettled):
            self.settled(message)
        elif isinstance(message, RaftSnapshotKept):
            self.snapshots.kept()
            self.replicator.recount(self.held_entries)
        elif isinstance(message, RaftSnapshotWanted):
            self.snapshots.is_wanted = True
        else:
            self.receive_rare(message)

    def receive_rare(self, message: object) -> None:
        """Handle messages about members, about the disk, and about the end."""
        self.has_looked = False
        if isinstance(message, RaftContentRead | RaftEntriesRead | RaftLiveRead):
            self.log.mail.was_read(message)
        elif isinstance(message, MembersDue):
            self.members_known = None
            self.look_at_mirrors()
        elif isinstance(message, LeadFrom):
            self.hurry()
            self.changes.lead_from(message.node)
        elif isinstance(message, HandOver):
            self.hand_to_mirror()
        elif isinstance(message, SyncMirrors):
            self.sync(message)
        elif isinstance(message, LeaderKnown):
            self.watch.heard(message)
        elif isinstance(message, MasterMissing):
            self.watch.look(message.term, self.mirroring)
        elif isinstance(message, MirrorIdle):
            self.idle.look(message)
        elif isinstance(message, MemberGone):
            self.forget(is_deleted=False)
        elif isinstance(message, RaftRefused):
            self.stop("nothing is written any more")
        else:
            raise AssertionError(f"a member of {self.title} got {message!r}")

    def appended(self, message: RaftAppended) -> None:
        if self.log.installing and message.number >= self.log.installing:
            self.log.installing = 0
        self.raft.synced(message.number)

    def settled(self, message: RaftSettled) -> None:
        self.replicator.let_go(message.top)
        self.replicator.recount(self.held_entries)
        if self.master is not None:
            self.master.settled()

    @property
    def held_entries(self) -> list[LogEntry]:
        """Return the entries that the store holds in RAM."""
        group = self.store.raft.table.groups.get(self.id)
        return [] if group is None else [each.entry for each in group.held.values()]

    # -- committed entries

    def applied(self, command: MirrorCommand) -> None:
        """Do nothing: the mirror has all consequences."""

    def overtaken(self) -> None:
        """Do nothing: a member that receives a snapshot has no master."""

    def put_in(self) -> None:
        self.snapshots.was_overtaken()

    # -- the end of a turn

    def turn_ended(self) -> None:
        if self.is_over:
            return
        self.replicator.turn_ended()
        for effect in self.effects:
            if isinstance(effect, InSyncChanged) and self.served_term:
                names = ", ".join(self.names_of(effect.members))
                self.say("info", f"in sync are {names}: {effect.event}")
            elif isinstance(effect, MirrorFree):
                self.held.was_freed(effect.member)
        self.effects.clear()
        self.look_at_role()
        self.look_at_members()
        self.tell_master()
        if self.snapshots.go_on(NothingPinned()):
            self.schedule()
        self.idle.watch()
        self.look_at_ticks()
        self.account()

    def account(self) -> None:
        """Account for entries in RAM, which no segment has yet, even if their messages have left
        the queue. A master accounts for its bodies itself."""
        ram_bytes = self.replicator.ram_bytes
        if self.master is not None:
            ram_bytes = max(0, ram_bytes - self.master.accounted)
        if ram_bytes != self.accounted:
            self.services.memory_used(ram_bytes - self.accounted)
            self.accounted = ram_bytes

    def say(self, level: str, text: str) -> None:
        self.services.world.log.write(level, f"{self.title}: {text}")

    def tell_master(self) -> None:
        """Give the master, or the move of messages to this member, a turn when there is news for
        it."""
        teller = self.move or self.master
        if teller is None:
            return
        standing = self.standing
        news = (standing, self.mirror.index, self.raft.takes_proposals)
        if news != self.seen:
            self.seen = news
            teller.schedule()

    # -- serving

    @property
    def is_witness(self) -> bool:
        """Tell whether this member should serve no clients. If no mirror can serve it does after
        all, because it has all confirmed messages, too."""
        raft = self.raft
        others = {*raft.configuration.voters}.intersection(self._mirrors) - raft.member.lost
        return bool(others - {self.own}) and (self.is_down or self.own not in self._mirrors)

    def look_at_role(self) -> None:
        """Check whether this member has to begin or to stop serving."""
        raft = self.raft
        if raft.is_leader != self.has_led:
            self.has_led = raft.is_leader
            self.patient = None
            self.held = HeldMirrors()
            self.long_lost = frozenset()
            self.look_at_mirrors()
        if self.has_settled:
            return
        if raft.is_leader:
            self.has_looked = True
            self.look_at_lost()
            self.let_witnesses_wait()
            self.changes.look(self.look_at_held())
            self.look_at_policy()
        serves = may_serve(raft) and not self.is_witness and self.move is None
        term = raft.member.term if serves else 0
        if self.master is not None and not self.may_go_on(term):
            self.end_master()
        if term and self.served_term != term and (self.master is not None or may_begin(raft)):
            self.served_term = term
            if self.master is None:
                self.begin_master(term)
            self.ask_post.leads(self.id, term)
        if raft.is_leader and self.is_witness and not raft.is_handing_over:
            self.hand_to_mirror()

    @property
    def has_settled(self) -> bool:
        """Tell whether this member serves, as at the last look, a group that has all declared
        members, and nothing can have changed since."""
        raft = self.raft
        serves = raft.is_leader and self.served_term == raft.member.term
        is_same = self.has_looked and raft.configuration is self.members_known
        return serves and is_same and self.changes.is_done and not self.mirror.in_sync.held

    def may_go_on(self, term: int) -> bool:
        """Tell whether the present master may go on when this member may serve in that term; 0: in
        none. One that was born as master and not elected yet goes on unless another has served."""
        if self.served_term:
            return term == self.served_term
        has_other = self.raft.member.leader not in (0, self.own)
        return not (has_other or self.mirror.in_sync.master or self.is_witness)

    def hand_to_mirror(self) -> None:
        """Let another mirror lead, if there is one."""
        heir = self.raft.best_heir(self._mirrors - {self.own})
        if heir in self._mirrors:
            self.hurry()
            self.raft.transfer(heir)

    def hurry(self) -> None:
        """Write everything that the master here has for the log, because it is about to end."""
        if self.master is not None:
            self.master.hurry()

    def let_witnesses_wait(self) -> None:
        """As the leader, let members that no confirm waits for get many entries at a time; mirrors
        get each at once, but need not hear at once that it is committed."""
        voters = self.raft.configuration.voters
        mirrors = (*(each for each in voters if each in self._mirrors),)
        patient = (*(each for each in voters if each != self.own),)
        if (patient, mirrors) != self.patient:
            self.patient = patient, mirrors
            self.raft.let_wait(patient, mirrors)

    def begin_master(self, term: int) -> None:
        self.master = MasterShell(self.vhost, self.definition, self.id, self, term)
        self.seen = None
        self.vhost.master_begins(self.master)

    def end_master(self) -> None:
        """Stop serving on this node."""
        master, self.master = self.master, None
        term, self.served_term = self.served_term, 0
        if term:
            self.ask_post.ceased(self.id, term)
            self.watch.lost(term)
        if master is not None and not master.gone:
            self.vhost.master_ended(master)

    def master_failed(self, error: Exception) -> None:
        """End the queue of this master after a fault; the next master, here or elsewhere, begins
        with what is committed."""
        faults = self.vhost.crashes.setdefault(self.name, FaultHistory())
        state, _ = faults.judge(self.clock.now_ns(), self.id, [], [])
        self.is_down = state == CRASHED
        self.say("error", f"its master here has crashed: {traceback_text(error)}")
        if self.is_down:
            self.say("error", "it serves nobody here until a restart, after its second fault")
        self.end_master()
        self.raft.resign()
        self.schedule()

    # -- without a master for long

    def status(self) -> MemberStatus:
        if self.is_over:
            return {"raft_state": NODE_DOWN}
        return status_of(self.raft)

    def go_on_alone(self, name: int) -> None:
        """Be the only member from now on, by that name: the cluster agreed on this because the
        others cannot be reached."""
        there, confirmed = self.mirror.messages, self.own in self.in_sync
        text = "it had all when it was in sync last" if confirmed else "it was not in sync"
        self.say("warning", f"goes on with the {there} messages that are here: {text}")
        self.end_master()
        self.raft_post.close(self.id)
        self.is_ticking = False  # no more: the post has forgotten it
        self.raft.go_on_alone(name, term_of_promotion(name))
        self.own = name
        self.members_known = None
        self.look_at_mirrors()
        self.look_at_members()
        self.raft_post.open(self.id, name, self, self.nodes)
        self.schedule()

    # -- the members

    def look_at_members(self) -> None:
        """Note on which nodes the members are, and which new ones are out of reach."""
        configuration = self.raft.configuration
        if configuration is self.members_known:
            return
        self.members_known = configuration
        update_nodes(self.nodes, self.changes.nodes, self.raft, self.raft_post)

    # -- time

    def pass_tick(self) -> bool:
        """Let a tick pass for the member. Returns whether it has, or may have, consequences."""
        raft = self.raft
        tick_fit(raft, self.raft_post.cluster)
        self.look_in_ticks -= 1
        if raft.is_leader and self.look_in_ticks <= 0:
            self.look_in_ticks = LOOK_TICKS
            return True
        is_at_rest = raft.is_quiet and not self.awaits_mirrors
        return raft.has_work or is_at_rest or raft.is_leader != self.has_led

    @property
    def awaits_mirrors(self) -> bool:
        """Tell whether this master has reachable mirrors that are not in sync: they may join after
        some time."""
        raft = self.raft
        voting = self._mirrors.intersection(raft.configuration.voters)
        return self.served_term > 0 and bool(voting.difference(self.in_sync, raft.member.lost))

    def look_at_ticks(self) -> None:
        """Have ticks while the member waits for something. A new member that has received nothing
        yet only waits for messages."""
        is_added = bool(self.raft.configuration.voters)
        is_ticking = is_added and (not self.raft.is_quiet or self.awaits_mirrors)
        if is_ticking != self.is_ticking:
            self.is_ticking = is_ticking
            if is_ticking:
                self.raft_post.tick(self.id, self.pass_tick)
            else:
                self.raft_post.rest(self.id)

    # -- its end

    def stop(self, why: str) -> None:
        """Fall silent, because this member cannot keep its promises."""
        self.say("error", f"its member here stops: {why}")
        self.raft.resign()
        self.end_master()
        self.close()

    def close(self) -> None:
        """Take no further part in the group."""
        self.is_over = True
        self.raft_post.close(self.id)
        self.services.memory_used(-self.accounted)
        self.accounted = 0

    def forget(self, *, is_deleted: bool) -> None:
        """Have the member and its files forgotten: the queue is deleted, or has left this node."""
        if self.is_over:
            return
        self.moved()
        if is_deleted:
            self.master = None  # it ends by itself
        self.end_master()
        self.ask_post.close(self.id, is_deleted=is_deleted)
        self.close()
        self.last_number = self.raft.member.next_number
        self.log.forget(self.last_number)

    def faulted(self, error: Exception) -> None:
        self.say("error", f"its member here has had a fault: {traceback_text(error)}")
        if not self.is_over:
            self.stop("after a fault, until a restart")
