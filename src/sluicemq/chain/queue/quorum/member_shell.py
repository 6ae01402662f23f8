"""A quorum queue as one of several members: where the others are, and how members join and leave
(member_changes.py).

    added      no channel uses it: channels go on using the stand-in for a remote queue, until this
               member has caught up and is a voter
    serving    channels of this node use it
    gone       it has left its group: it stops and forgets the queue (departure.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.chain.queue.group.member_changes import MemberChanges, update_nodes
from sluicemq.chain.queue.group.member_messages import (
    HandOver,
    LeadFrom,
    MemberGone,
    MembersDue,
)
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.limits import RAFT_LOST_MS
from sluicemq.queues import commands as c
from sluicemq.queues.quorum import commands as q

if TYPE_CHECKING:
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.former_queue import FormerQueue
    from sluicemq.chain.queue.queue import PublishLink
    from sluicemq.chain.queue.quorum.shared_replicator import SharedReplicator
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.queues.quorum.commands import FifoCommand
    from sluicemq.raft.configuration import Configuration
    from sluicemq.raft.raft import Raft
    from sluicemq.replication.ask_post import AskPost
    from sluicemq.replication.raft_post import RaftPost


MS: Final = 1_000_000
LISTEN_TICKS: Final = 10
"""Ticks between two looks of a leader at the nodes that use its queue."""
LISTENERS_MAX: Final = 1000
"""The most addresses that it examines."""


class LostTooLong(NamedTuple):
    """Tells a leader to check whether a node has been out of reach for so long that its channels
    are gone."""

    node: int


class Undeclared(NamedTuple):
    """Tells a queue that it is not declared any more: the members that agreed on its deletion did
    not have to wait for this one."""


class MemberShell(QuorumShell):
    """The shell around the state of a quorum queue, as a member of its group. `raft` is this node's
    member."""

    row_replicator: SharedReplicator
    """Its `replicator`, with its own type."""

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
        assert services.raft_post is not None and services.ask_post is not None
        self.raft_post: RaftPost = services.raft_post
        self.ask_post: AskPost = services.ask_post
        self.raft = raft
        self.led_term = 0
        """The term in which this member leads, as far as effects are real; 0: it does not."""
        self.nodes: dict[int, int] = {}
        """The node of each member, as of the configuration `members_known`."""
        self.members_known: Configuration | None = None
        self.changes = MemberChanges(services, vhost.name, definition.name, queue_id, raft)
        self.is_serving = True
        """Channels use it. A new member does not serve them before it has caught up."""
        self.listening: dict[int, None] = {}
        """Nodes on which somebody uses the queue, as this leader knows; the members of all others
        may hear a little later of what is agreed on."""
        self.asking_nodes: dict[int, None] = {}
        """Nodes that have sent requests since the last look."""
        self.look_in_ticks = 0
        """Ticks until the next look."""
        self.led_since_ns = 0
        """When this member was last elected."""
        self.swept_term = 0
        """The term in which this leader has cleaned up after nodes without a member."""
        self.sweep_index = 0
        """It does so when its log is applied up to here; 0: that index is not known yet."""
        self.former: FormerQueue | None = None
        """The queue's stand-in here from before this node had a member, which channels that use it
        go on using."""
        super().__init__(vhost, definition, queue_id, raft, content, is_born=is_born, term=term)

    def lead(self, command: FifoCommand) -> None:
        """Propose a command that only the leader is responsible for."""
        raise NotImplementedError

    def take_part(self) -> None:
        """Receive messages of other members, and news of the leader, from now on."""
        self.raft_post.close(self.id)
        self.look_at_members()
        self.raft_post.open(self.id, self.raft.member.name, self, self.nodes)
        self.ask_post.open(self.id, self)

    def learn(self) -> None:
        """Begin as a member that serves no channels until it has caught up and is a voter."""
        self.is_serving = False
        self.take_part()
        self.schedule()

    def look_if_caught_up(self) -> None:
        """Begin to serve channels if this member is a voter now, and knows it."""
        member = self.raft.member
        log = member.log
        at = min(self.raft.applied, log.last_index)
        if not self.raft.is_amnesiac and member.name in log.configurations.at(at).voters:
            self.is_serving = True
            life = self.services.life
            self.submit(q.NodeRestarted(life.node, life.incarnation))
            self.vhost.caught_up(self)

    def link_from(self, sender: FlowActor) -> PublishLink:
        """Make a new link for a publisher. One with messages under way through the queue's former
        stand-in goes on publishing there, so that its messages stay in order."""
        link = None if self.former is None else self.former.link_of(sender)
        return super().link_from(sender) if link is None else link

    # -- messages about members

    def heard_of_members(self, message: object) -> bool:
        """Handle a message about members. Returns whether it was one."""
        if isinstance(message, MembersDue):
            self.members_due()
        elif isinstance(message, LeadFrom):
            self.changes.lead_from(message.node)
        elif isinstance(message, HandOver):
            self.changes.hand_over()
        elif isinstance(message, MemberGone):
            self.vhost.departs(self)
        else:
            return False
        return True

    def members_due(self) -> None:
        """Follow the declared members. A leader announces itself again, because it ignored rows of
        a node whose member it had not heard of."""
        self.members_known = None
        self.swept_term = self.sweep_index = 0
        if self.led_term and not self.machine.deleted:
            self.ask_post.leads(self.id, self.led_term)
            self.look_at_changes()

    def look_at_changes(self) -> None:
        """Take the next step towards the declared members, and clean up after nodes that have no
        member any more."""
        self.changes.look()
        if self.raft.is_settled and self.swept_term != self.led_term:
            self.sweep()

    def sweep(self) -> None:
        """Take the channels of nodes without a member for gone, once all their requests are
        settled: rows in no entry yet are dropped, and the log is applied up to its present end."""
        self.look_at_members()
        nodes = {*self.nodes.values()}
        if not self.sweep_index:
            self.row_replicator.keep_rows_of(nodes)
            self.sweep_index = self.raft.member.log.last_index
        if self.raft.applied < self.sweep_index:
            return
        self.swept_term = self.led_term
        for address in self.fifo.addresses():
            if address.node not in nodes:
                self.lead(q.AddressDown(address, is_lost=True))

    @property
    def has_to_look(self) -> bool:
        """Tell whether a leader has to check what may have changed with time."""
        is_swept = self.swept_term == self.led_term
        return self.look_in_ticks <= 0 or not (self.changes.is_done and is_swept)

    def look_with_time(self) -> None:
        """Check, as the leader, what may have changed with time."""
        self.look_at_changes()
        if self.look_in_ticks <= 0:
            self.look_who_listens()

    # -- members whose nodes wait for commits

    def begin_listening(self) -> None:
        """Assume, as a new leader, that all nodes use the queue, until the first look."""
        self.listening = dict.fromkeys(self.nodes.values())
        self.asking_nodes = {}
        self.look_in_ticks = LISTEN_TICKS

    def look_who_listens(self) -> None:
        """Find the nodes that use the queue: those of all addresses, and those with requests since
        the last look. With very many addresses all nodes count."""
        self.look_in_ticks = LISTEN_TICKS
        listening, self.asking_nodes = self.asking_nodes, {}
        fifo = self.fifo
        if len(fifo.enqueuers.members) + len(fifo.consumers.members) > LISTENERS_MAX:
            listening = dict.fromkeys(self.nodes.values())
        else:
            listening |= dict.fromkeys(address.node for address in fifo.addresses())
        if listening != self.listening:
            self.listening = listening
            self.let_others_wait()

    def node_asks(self, node: int) -> None:
        """Let the member of a node that has made a request hear of commits at once."""
        self.asking_nodes[node] = None
        if node not in self.listening:
            self.listening[node] = None
            self.let_others_wait()

    def let_others_wait(self) -> None:
        """Let the members of nodes that do not use the queue hear of commits later."""
        listening = self.listening
        self.raft.let_wait([name for name, node in self.nodes.items() if node not in listening])

    # -- nodes that cannot be reached

    def watch_lost(self, node: int) -> None:
        """Check later whether a node that is out of reach now has been so for too long."""
        lost_ns = self.lost_ns(node)
        if self.led_term and lost_ns:
            left_ms = RAFT_LOST_MS - (self.clock.now_ns() - lost_ns) // MS
            self.clock.call_after(max(0, left_ms), self, LostTooLong(node))

    def lost_ns(self, node: int) -> int:
        """Return since when this leader cannot reach a node; 0 if it can. The time counts from its
        election at the earliest: until then the node may have held a lease by the former leader."""
        lost_ns = self.raft_post.lost_ns(node)
        return 0 if lost_ns is None else max(lost_ns, self.led_since_ns)

    def look_lost(self, node: int) -> None:
        """Take a node's channels for gone if it has been out of reach for too long."""
        lost_ns = self.lost_ns(node)
        if not self.led_term or not lost_ns:
            return
        if self.clock.now_ns() - lost_ns < RAFT_LOST_MS * MS:
            return  # it was back meanwhile, and is watched anew
        for address in self.fifo.addresses():
            if address.node == node:
                self.lead(q.AddressDown(address, is_lost=True))

    # -- the members

    def look_at_members(self) -> None:
        """Note on which nodes the members are, and which new ones are out of reach."""
        configuration = self.raft.configuration
        if configuration is self.members_known:
            return
        self.members_known = configuration
        update_nodes(self.nodes, self.changes.nodes, self.raft, self.raft_post)
        self.let_others_wait()
