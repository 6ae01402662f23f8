"""proposers ---changes---> AGREEMENT of a cluster ---proposals---> the leader's, in one log
what is agreed on, on every node: apply, tell those who follow, answer who has asked here

The leader makes one entry of all proposals of a turn. Each node applies the entries in their order,
in pieces, and comes to the same verdicts; so who has proposed hears its verdict from its own node,
and nobody has to send one. An answer waits a little until the other nodes are as far
(spread.py).

What is declared here that is exclusive or not durable belongs to this life of this node, and goes
with it. A node that starts says so first (NodeStarted); when that is applied, everything before it
is too, and the node is ready for clients.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sluicemq.chain.definitions.group_members import follow_nodes
from sluicemq.chain.definitions.home_choice import home_for
from sluicemq.chain.definitions.member import DefinitionsMember, FoundMember, newborn
from sluicemq.chain.definitions.mirror_placement import mirrored
from sluicemq.chain.definitions.own_proposals import NEVER_NS, OwnProposals
from sluicemq.chain.definitions.placement import placed
from sluicemq.chain.definitions.spread import NS_A_MS, Spread
from sluicemq.cluster.cluster_port import (
    DEFINITIONS,
    NodeDown,
    NodeStanding,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerMessage,
)
from sluicemq.errors import Corrupt, SluiceError
from sluicemq.kernel.actor import Actor
from sluicemq.limits import (
    GATHERED_PROPOSALS_BYTES,
    NODE_DOWN_MS,
    PROPOSAL_WAIT_MS,
    PROPOSALS_BYTES,
    PROPOSALS_MAX,
    PROPOSE_AGAIN_MS,
    RAFT_TICK_MS,
)
from sluicemq.metadata.agreement import Agreed, Agreement, NoAgreement
from sluicemq.metadata.changes import (
    Bootstrap,
    DeclareExchange,
    DeclareQueue,
    Life,
    LifeOver,
    NodeStarted,
    Together,
)
from sluicemq.metadata.proposals import Proposal, decide, decode_proposals
from sluicemq.metadata.replacing import replace_state
from sluicemq.metadata.restoring import restored_from_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sluicemq.chain.definitions.member import DueEntry
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.metadata.changes import Change
    from sluicemq.replication.raft_post import RaftPost

SAY_PROPOSALS: Final = 1
SAY_APPLIED: Final = 2
"""The first byte of a frame says what it has."""
INDEX_BYTES: Final = 8
FORGETFUL: Final = (
    "this node may have forgotten what it has said of definitions, so it takes part in no decision"
    " and gets no definitions; replace it: stop it, run forget_cluster_node {name} on another node,"
    " and start it with a new data directory that joins"
)
CURRENT_MS: Final = 500
"""A node that has applied all that was agreed on counts as current for so long. It is less than
SPREAD_WAIT_MS, for which who declares something waits for a node that is up and behind."""
SNAPSHOT_PIECES_A_TURN: Final = 4
SNAPSHOT_PIECE_WORK: Final = 100
PROPOSAL_WORK: Final = 40
"""Units of work that one proposal costs, with what follows from it here."""


class LookAtTime:
    """A timer's message to the agreement: check which proposals have waited for too long."""

    __slots__ = ()


class LookAtNode:
    """A timer's message to the agreement: a while ago this node was not up."""

    __slots__ = ("node",)

    def __init__(self, node: int) -> None:
        self.node = node


class SnapshotMaking:
    """A snapshot of the state after the entry at the index `at`, of which some pieces are made."""

    def __init__(self, at: int, pieces: Iterator[bytes]) -> None:
        self.at = at
        self.pieces = pieces
        self.found: list[bytes] = []


class ClusterAgreement(Actor, Agreement):
    """The agreement of a node in a cluster. `found` is what a start has found of its member of the
    group, None if it had none: then it begins with the cluster. The state is as `found` says."""

    applies_at_once = False

    def __init__(self, store: MessageStore, post: RaftPost, found: FoundMember | None) -> None:
        services = store.services
        Actor.__init__(self, services.scheduler)
        Agreement.__init__(self, services.definitions)
        self.store = store
        self.post_office = post
        self.cluster = post.cluster
        self.clock = services.world.clock
        self.log = services.world.log
        self.life = services.life
        self.found = found
        self.first_changes: Callable[[], tuple[Change, ...]] = tuple
        """Makes what a cluster begins with, where nothing is declared yet; set by the node."""
        self.member: DefinitionsMember | None = None
        """None until this node belongs to the cluster."""
        self.own = OwnProposals(self.life)
        self.spread = Spread(self.clock)
        self.gathered: deque[bytes] = deque()
        """At the leader, proposals that are in no entry yet; `gathered_bytes` is their size."""
        self.gathered_bytes = 0
        self.undecided: deque[Proposal] = deque()
        """The rest of the entry that is being applied."""
        self.followed = (0, 0)
        """The node that leads and its term, as they were when something was last said to it."""
        self.said_ns = 0
        """When something was decided or said last, of what this node proposes."""
        self.leaderless_ns = self.clock.now_ns()
        """Since when no leader is known; 0: one is."""
        self.told_applied = 0
        """What the other nodes know of how far this one is."""
        self.snapshot: SnapshotMaking | None = None
        """The one that is being made."""
        self.is_ready = False
        self._waiting: list[Callable[[], None]] = []
        """Who waits for this node to be ready."""
        self.current_ns: int | None = None
        """When the last check began that has shown that this node was current; None: none has."""
        self.is_checking = False
        self._unsure: list[Callable[[], None]] = []
        """Who waits for the next check."""
        self.looks = False
        """A LookAtTime is on its way."""
        self.down: dict[int, LookAtNode] = {}
        """The look that will be had at each node that is not up."""
        self.own.add(NodeStarted(self.life), self._started)
        self.cluster.handle(DEFINITIONS, self)
        self.cluster.follow(self)

    # -- its life

    def begin(self, nodes: Iterable[int]) -> None:
        """Take part from now on: this node is a member of the cluster, which these
        nodes founded.
        """
        found = self.found or newborn(nodes)
        self.found = None
        self.member = DefinitionsMember(self.store, self.post_office, self, found)
        if found.is_amnesiac:
            name = self.cluster.name_of(self.life.node)
            self.log.write("error", FORGETFUL.format(name=name))
        for node in self.cluster.nodes:
            if node != self.life.node and self.cluster.standing(node) is NodeStanding.DOWN:
                self._watch(node)
        self.schedule()

    def _started(self, refusal: SluiceError | None) -> None:
        """Be ready, for all that was declared is here; of a cluster in which nothing is declared
        the beginning comes first."""
        if refusal is not None:
            self.log.write("error", str(refusal))
            raise refusal
        state = self.state
        changes = () if state.users or state.vhosts or state.permissions else self.first_changes()
        if changes:
            self.own.add(Bootstrap(changes), lambda _: self._be_ready())
            self.schedule()
        else:
            self._be_ready()

    def _be_ready(self) -> None:
        self.is_ready = True
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()

    @property
    def is_idle(self) -> bool:
        """Tell whether no proposal of this node waits to be decided."""
        return not len(self.own)

    @property
    def is_led(self) -> bool:
        """Tell whether this node knows who leads; before it is a member it need not."""
        return self.member is None or self.member.leader_node > 0

    def hand_over(self) -> None:
        """Have another node lead in place of this one, if this one leads and another can."""
        if self.member is not None:
            self.member.hand_over()
            self.schedule()

    @property
    def has_heir(self) -> bool:
        """Tell whether this node leads, and another one could."""
        return self.member is not None and self.member.raft.best_heir() > 0

    def end(self) -> None:
        """Send and write nothing any more, because this node stops."""
        if self.member is not None:
            self.member.is_over = True

    def when_ready(self, function: Callable[[], None]) -> None:
        if self.is_ready:
            function()
        else:
            self._waiting.append(function)

    @property
    def is_current(self) -> bool:  # type: ignore[override]
        """Tell whether this node had all that was agreed on CURRENT_MS ago, or later."""
        now_ns, checked_ns = self.clock.now_ns(), self.current_ns
        return checked_ns is not None and now_ns - checked_ns <= CURRENT_MS * NS_A_MS

    def when_current(self, function: Callable[[], None]) -> None:
        if self.is_current:
            function()
            return
        self._unsure.append(function)
        self._check()

    def _check(self) -> None:
        """Propose something that changes nothing: when it is applied, everything is that was agreed
        on before. One check is under way at a time."""
        if self.is_checking:
            return
        self.is_checking = True
        unsure, self._unsure = self._unsure, []
        nothing = LifeOver(Life(self.life.node, 0))
        self.own.add(nothing, partial(self._checked, self.clock.now_ns(), unsure))
        self.schedule()

    def _checked(self, began_ns: int, unsure: list[Callable[[], None]], _: object) -> None:
        self.is_checking = False
        self.current_ns = began_ns
        if self._unsure:
            self._check()
        for function in unsure:
            function()

    # -- changes are proposed

    def check_ready(self, change: Change) -> None:
        if self.store.storage_failed:
            raise NoAgreement(self.store.storage_failed)
        waited_ns = self.clock.now_ns() - self.leaderless_ns
        if self.leaderless_ns and waited_ns >= PROPOSAL_WAIT_MS * NS_A_MS:
            raise NoAgreement(self.problem())
        if self.own.awaited >= PROPOSALS_MAX:
            raise NoAgreement(f"{PROPOSALS_MAX} changes of definitions wait to be agreed on")

    def propose(self, change: Change, proposer: Actor | None = None) -> bool:
        change = self.belonging(change)
        if proposer is None:
            self.own.add(change)
        else:
            self.check_ready(change)
            until_ns = self.clock.now_ns() + PROPOSAL_WAIT_MS * NS_A_MS
            self.own.add(change, lambda refusal: proposer.post(Agreed(refusal)), until_ns)
        self.schedule()
        return False

    def belonging(self, change: Change) -> Change:
        """Return the change with the life and the home of what it declares, where these are not
        named."""
        if isinstance(change, DeclareQueue):
            home = change.home or self.home_for(change)
            life = change.life if change.definition.durable else self.life_of(home)
            change = replace(change, life=life, home=home)
            nodes = self.placeable()
            change = placed(change, self.life.node, nodes, self.state.next_queue_id)
            return mirrored(change, self.state, nodes, self.cluster.name_of)
        if isinstance(change, DeclareExchange) and not change.definition.durable:
            return replace(change, life=self.life)
        if isinstance(change, Together):
            return Together(tuple(map(self.belonging, change.changes)))
        return change

    def placeable(self) -> list[int]:
        """Return the nodes on which a queue may have members: all except those that have joined and
        have not started yet."""
        state = self.state
        added, started = state.nodes.added, state.incarnations
        return [node for node in self.cluster.nodes if node not in added or node in started]

    def life_of(self, node: int) -> Life:
        """Return the present life of a node, as agreed on."""
        if node == self.life.node:
            return self.life
        return Life(node, self.state.incarnations.get(node, 0))

    def home_for(self, change: DeclareQueue) -> int:
        """Return the node that a queue about to be declared should live on."""
        dice = self.store.services.world.dice
        changes = self.own.changes()
        return home_for(change.definition, self.state, self.cluster, changes, dice.below)

    def problem(self) -> str:
        """Return why nothing is agreed on, for users."""
        others = [node for node in self.cluster.nodes if node != self.life.node]
        is_down = {node: self.cluster.standing(node) is NodeStanding.DOWN for node in others}
        down = [f"node {node}" for node in others if is_down[node]]
        count = len(others) + 1
        if not down:
            return f"the {count} nodes have not agreed on it in {PROPOSAL_WAIT_MS // 1000} seconds"
        text = f"a majority of the {count} nodes would have to agree on it"
        left = f"{count - len(down)} of {count} are up"
        return f"{text}: {', '.join(down)} cannot be reached, and {left}"

    # -- the inbox

    def receive(self, message: object) -> None:
        member = self.member
        if isinstance(message, PeerMessage):
            self._heard(message.source.node, message.payload)
        elif isinstance(message, LookAtTime):
            self.looks = False
            self._look_at_time()
        elif isinstance(message, NodeUp):
            self.spread.node_up(message.node)
            self.down.pop(message.node, None)
            self._tell_applied(message.node)
            if message.node == self.followed[0]:
                self.own.say_again()
        elif isinstance(message, NodeDown):
            self.spread.node_down(message.node)
            self._watch(message.node)
        elif isinstance(message, NodeSuspected):
            self.spread.node_suspected(message.node)
        elif isinstance(message, NodeTrusted):
            self.spread.node_trusted(message.node)
        elif isinstance(message, LookAtNode):
            self._look_at_node(message)
        else:
            assert member is not None, f"a member that is not there gets {message!r}"
            taken = member.receive(message)
            assert taken, f"the agreement got {message!r}"

    def _heard(self, node: int, payload: bytes) -> None:
        """Handle a message of another node; a malformed one ends the link to it."""
        kind, content = payload[:1], payload[1:]
        if kind == bytes([SAY_APPLIED]) and len(content) == INDEX_BYTES:
            self.spread.node_applied(node, int.from_bytes(content, "little"))
            return
        try:
            if kind != bytes([SAY_PROPOSALS]):
                raise Corrupt(f"a message of kind {kind.hex()}")
            proposals = decode_proposals(content)
        except Corrupt as error:
            self.log.write("error", f"node {node} has sent {error}: its link is set up again")
            self.cluster.end_link(node, str(error))
            return
        self.spend(PROPOSAL_WORK * len(proposals))
        if self.member is not None and self.member.leader_node == self.life.node:
            self._gather(content)

    # -- the end of a turn

    def turn_ended(self) -> None:
        """Say what is proposed, do what the member wants done, and apply what is agreed on."""
        member = self.member
        if member is None or member.is_over:
            return
        self._say_proposals(member)
        self._make_entries(member)
        follow_nodes(member.raft, self.state.nodes, self.state.incarnations)
        member.pump()
        self._apply_due(member)
        self.spread.release()
        if not self.undecided:
            if member.applied > self.told_applied:
                self.told_applied = member.applied
                for node in self.spread.applied:
                    self._tell_applied(node)
            if member.is_snapshot_due and self.snapshot is None:
                self.snapshot = SnapshotMaking(member.applied, self.state.snapshot_pieces())
        if self.snapshot is not None:
            self._make_snapshot(member, self.snapshot)
        if self.undecided or member.has_due or self.snapshot is not None:
            self.schedule()
        self._look_later()

    def _make_snapshot(self, member: DefinitionsMember, snapshot: SnapshotMaking) -> None:
        """Make some pieces of a snapshot; with the last one the member has it, unless a leader's
        has come meanwhile that is as new."""
        for _ in range(SNAPSHOT_PIECES_A_TURN):
            piece = next(snapshot.pieces, None)
            if piece is None:
                self.snapshot = None
                member.take_snapshot(snapshot.at, b"".join(snapshot.found))
                return
            snapshot.found.append(piece)
            self.spend(SNAPSHOT_PIECE_WORK)

    def _say_proposals(self, member: DefinitionsMember) -> None:
        """Send this node's proposals to the leader, all of them again when it is another one."""
        followed = member.leader_node, member.term
        if followed != self.followed:
            self.followed = followed
            self.leaderless_ns = 0 if followed[0] else self.leaderless_ns or self.clock.now_ns()
            self.own.say_again()
        if not followed[0]:
            return
        said = self.own.to_say()
        if not said:
            return
        self.said_ns = self.clock.now_ns()
        content = b"".join(said)
        if followed[0] == self.life.node:
            self._gather(content)
        else:
            self.cluster.send(followed[0], DEFINITIONS, bytes([SAY_PROPOSALS]) + content)

    def _gather(self, content: bytes) -> None:
        """Keep proposals for the next entry. Dropped ones are proposed again."""
        if self.gathered_bytes < GATHERED_PROPOSALS_BYTES:
            self.gathered.append(content)
            self.gathered_bytes += len(content)

    def _make_entries(self, member: DefinitionsMember) -> None:
        if member.leader_node != self.life.node and self.gathered:
            self.gathered.clear()
            self.gathered_bytes = 0
        while self.gathered and member.takes_proposals:
            some = [self.gathered.popleft()]
            size = len(some[0])
            while self.gathered and size + len(self.gathered[0]) <= PROPOSALS_BYTES:
                some.append(self.gathered.popleft())
                size += len(some[-1])
            self.gathered_bytes -= size
            member.propose(b"".join(some))

    # -- what is agreed on

    def _apply_due(self, member: DefinitionsMember) -> None:
        """Apply committed entries, as far as the turn's work goes: at least one proposal."""
        is_first = True
        while is_first or self.scheduler.work > 0:
            if self.undecided:
                self._decide(self.undecided.popleft())
                self.spend(PROPOSAL_WORK)
                is_first = False
                continue
            entry = member.next_due()
            if entry is None:
                return
            if entry.is_snapshot:
                self._install(entry)
            else:
                self.undecided.extend(decode_proposals(entry.data))

    def _decide(self, proposal: Proposal) -> None:
        """Apply one proposal, tell the followers, and answer the proposer if it is on this node."""
        verdict = decide(self.state, proposal)
        if verdict is not None and verdict.applied is not None and verdict.applied.events:
            self.tell(verdict.applied.events)
        if proposal.life != self.life:
            return
        own = self.own.decided(proposal.number)
        if own is None or own.tell is None:
            return
        self.said_ns = self.clock.now_ns()
        refusal = None if verdict is None else verdict.refusal
        if own.until_ns == NEVER_NS or refusal is not None:
            own.tell(refusal)
        else:
            assert self.member is not None
            self.spread.when_applied(self.member.applied, partial(own.tell, None))

    def _install(self, entry: DueEntry) -> None:
        """Become the state in a leader's snapshot. This node's proposals in it were decided, and
        nobody here knows how."""
        self.log.write("info", f"got the definitions as of entry {entry.at} from the leader")
        self.tell(replace_state(self.state, restored_from_snapshot(entry.data)))
        if self.state.incarnations.get(self.life.node) != self.life.incarnation:
            return
        upto = self.state.proposed[self.life.node]
        for number in [number for number in self.own.said if number <= upto]:
            own = self.own.decided(number)
            if own is not None and own.tell is not None:
                is_awaited = own.until_ns != NEVER_NS
                text = "this node lags too far behind the others to know what the answer was"
                own.tell(NoAgreement(text) if is_awaited else None)

    def _tell_applied(self, node: int) -> None:
        if self.told_applied:
            content = self.told_applied.to_bytes(INDEX_BYTES, "little")
            self.cluster.send(node, DEFINITIONS, bytes([SAY_APPLIED]) + content)

    # -- time

    def _look_later(self) -> None:
        if not self.looks and (self.own or self.spread.waiting):
            self.looks = True
            self.clock.call_after(RAFT_TICK_MS, self, LookAtTime())

    def _look_at_time(self) -> None:
        """Answer proposers that have waited for too long, and repeat proposals that may have been
        lost."""
        now_ns = self.clock.now_ns()
        reason = self.store.storage_failed
        for each in self.own.expired(NEVER_NS - 1 if reason else now_ns):
            tell, each.tell = each.tell, None
            assert tell is not None, "who waits can be told"
            tell(NoAgreement(reason or self.problem()))
        if self.own.said and now_ns - self.said_ns >= PROPOSE_AGAIN_MS * NS_A_MS:
            self.own.say_again()

    def _watch(self, node: int) -> None:
        look = self.down[node] = LookAtNode(node)
        self.clock.call_after(NODE_DOWN_MS, self, look)

    def _look_at_node(self, look: LookAtNode) -> None:
        """Have what belongs to the life of a node removed that has not been up for long. The leader
        says so; whoever it is then has looked, too."""
        node = look.node
        if self.down.get(node) is not look:
            return
        incarnation = self.state.incarnations.get(node, 0)
        is_leader = self.followed[0] == self.life.node
        if is_leader and self.state.has_temporary(node, incarnation):
            text = f"node {node} has been down for {NODE_DOWN_MS // 1000} s: what is exclusive or"
            self.log.write("warning", f"{text} not durable there is removed")
            self.own.add(LifeOver(Life(node, incarnation)))
        self._watch(node)
