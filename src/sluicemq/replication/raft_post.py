"""members of Raft groups ---messages---> RAFT POST ---frames---> the posts of other nodes

Each node of a cluster has one. Messages of one turn to a node go in few frames: all short ones in
one, with the heartbeats of all groups in one section. Messages that arrive are posted to the owners
of members, which also learn which other members can be reached.

Members tolerate lost messages. So none waits for a node that is not up; if a node reads slowly
appends wait up to a bound, and those beyond it are dropped: their leader sends them again, or a
snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.cluster.cluster_port import (
    RAFT_CONTROL,
    RAFT_DATA,
    NodeDown,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerMessage,
)
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.actor import Actor
from sluicemq.limits import RAFT_EARLY_MAX, RAFT_FRAME_BYTES, RAFT_POST_BYTES, RAFT_TICK_MS
from sluicemq.raft.messages import AppendEntries
from sluicemq.replication.raft_wire import (
    ROWS,
    BrokenRaftFrame,
    decode_raft_messages,
    encode_body,
    encode_raft_messages,
    encode_runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.flow.gate import Gate
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Clock, Log
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.replication.raft_wire import GroupMessage

EARLY_TICKS: Final = 10
"""Early messages are dropped after so many ticks, or up to twice that."""


class MemberReach(NamedTuple):
    """Posted to the owner of a member: another member of its group can, or cannot, be
    reached now.
    """

    group: int
    name: int
    is_reached: bool


class RaftTick:
    """Posted to the owner of a member: a tick has passed for the member, and has consequences."""

    __slots__ = ()


class PostTick:
    """A timer's message to the post."""

    __slots__ = ()


class PostedMember:
    """A member on this node, with the name `name` in its group. `nodes` is the node of each member;
    the owner updates it when members join or leave."""

    __slots__ = ("name", "nodes", "owner")

    def __init__(self, name: int, owner: Actor, nodes: Mapping[int, int]) -> None:
        self.name = name
        self.owner = owner
        self.nodes = nodes


def tick_fit(raft: Raft, cluster: ClusterPort) -> None:
    """Let a tick pass for a member, if its node may lead. Otherwise it stops leading, for another
    to lead, and does not stand for election."""
    if cluster.may_lead:
        raft.tick()
    elif raft.is_leader:
        raft.resign()


class NodeMail(GateKeeper):
    """Messages to one node, whose gate tells the post when it opens again."""

    __slots__ = ("data", "data_bytes", "gate", "is_reached", "is_up", "lost_ns", "post", "short")

    def __init__(self, clock: Clock, post: RaftPost, node: int) -> None:
        super().__init__(clock)
        self.post = post
        self.is_up = False
        """There is a link to the node, which may be suspected."""
        self.is_reached = False
        """There is a link to the node, and it is not suspected."""
        self.lost_ns = clock.now_ns()
        """Since when it has been out of reach."""
        self.short: list[GroupMessage] = []
        self.data: list[list[bytes]] = []
        """Messages with bodies, each encoded, in parts: their entries may have been dropped when it
        is sent. `data_bytes` is the size of all."""
        self.data_bytes = 0
        self.gate: Gate = post.cluster.feed(node, self)

    def flow_resumed(self) -> None:
        self.post.schedule()

    def link_ended(self) -> None:
        """Drop waiting messages, because they would not arrive."""
        self.is_up = False
        self.short.clear()
        self.data.clear()
        self.data_bytes = 0


class RaftPost(Actor):
    """The post of this node, which `cluster` links to the others."""

    def __init__(self, scheduler: Scheduler, clock: Clock, log: Log, cluster: ClusterPort) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.log = log
        self.cluster = cluster
        self.members: dict[int, PostedMember] = {}
        """The members on this node, by group."""
        self.ticking: dict[int, Callable[[], bool]] = {}
        """The groups whose members have ticks, each with the function that lets one pass."""
        self.ticks = 0
        self.is_awake = False
        """A PostTick is on its way."""
        self.early: dict[int, list[tuple[int, RaftMessage]]] = {}
        """Short messages for groups that are not here yet, with the nodes that they came from;
        older ones are in `stale`."""
        self.stale: dict[int, list[tuple[int, RaftMessage]]] = {}
        self.early_count = 0
        self.mail: dict[int, NodeMail] = {}
        self.witness: Callable[[int, list[RaftMessage]], None] | None = None
        """Called with the messages of a group's member before they are sent; None: there is no
        observer."""
        self.data_bytes_max = RAFT_POST_BYTES
        """What waits for a node that reads slowly; appends beyond it are dropped."""
        self.dropped = 0
        """Messages that were not sent, because their node was not up or read too slowly."""
        self.strays = 0
        """Messages for no member here, or not from their sender's node."""
        cluster.each_node(self._know)
        cluster.handle(RAFT_CONTROL, self)
        cluster.handle(RAFT_DATA, self)
        cluster.follow(self)

    def _know(self, node: int) -> None:
        self.mail[node] = NodeMail(self.clock, self, node)

    # -- the owners of members

    def open(self, group: int, name: int, owner: Actor, nodes: Mapping[int, int]) -> None:
        """Post to `owner` from now on the messages to the member `name` of a group, and which other
        members can be reached; `nodes` is the node of each member. Unreachable ones are reported at
        once."""
        assert group not in self.members, "a node has one member of a group"
        assert nodes[name] == self.cluster.node
        self.members[group] = PostedMember(name, owner, nodes)
        for other, node in nodes.items():
            if other != name and not self._is_reached(node):
                owner.post(MemberReach(group, other, is_reached=False))
        for source, message in [*self.stale.pop(group, ()), *self.early.pop(group, ())]:
            self._hand_on(group, message, source)

    def tick(self, group: int, pass_tick: Callable[[], bool]) -> None:
        """Call `pass_tick` each RAFT_TICK_MS, until `rest`: it lets a tick pass for that group's
        member, and tells whether that has consequences. If so the owner gets a RaftTick. Most ticks
        have none, and thousands of groups have ticks."""
        self.ticking[group] = pass_tick
        self._stay_awake()

    def rest(self, group: int) -> None:
        """Stop the ticks of a group, because it is quiet."""
        self.ticking.pop(group, None)

    def lost_ns(self, node: int) -> int | None:
        """Return since when a node has been out of reach, by this node's clock; None if it is not,
        or is this node."""
        mail = self.mail.get(node)
        return None if mail is None or mail.is_reached else mail.lost_ns

    def close(self, group: int) -> None:
        """Forget the member of a group: messages for it are dropped."""
        self.members.pop(group, None)
        self.rest(group)

    def send(self, group: int, messages: list[RaftMessage]) -> None:
        """Send messages of a group's member to others, at the end of the turn."""
        if self.witness is not None:
            self.witness(group, messages)
        nodes = self.members[group].nodes
        entries: list[LogEntry] = []
        runs: list[bytes] = []
        for message in messages:
            mail = self.mail.get(nodes.get(message.to, 0))
            if mail is None or not mail.is_up:
                self.dropped += 1
            elif type(message) in ROWS:
                mail.short.append((group, message))
            elif mail.data_bytes < self.data_bytes_max:
                if isinstance(message, AppendEntries) and not are_same(message.entries, entries):
                    entries = message.entries
                    runs = encode_runs(group, entries)
                encoded = encode_body(group, message, runs)
                mail.data.append(encoded)
                mail.data_bytes += sum(map(len, encoded))
            else:
                self.dropped += 1
        self.schedule()

    def _is_reached(self, node: int) -> bool:
        return node in self.mail and self.mail[node].is_reached

    # -- the other nodes

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self._hand_out(message)
        elif isinstance(message, NodeUp | NodeTrusted):
            self.mail[message.node].is_up = True
            self._reach(message.node, is_reached=True)
        elif isinstance(message, NodeSuspected):
            self._reach(message.node, is_reached=False)
        elif isinstance(message, NodeDown):
            self.mail[message.node].link_ended()
            self._reach(message.node, is_reached=False)
        elif isinstance(message, PostTick):
            self._tick()
        else:
            raise AssertionError(f"the Raft post got {message!r}")

    def _hand_out(self, frame: PeerMessage) -> None:
        node = frame.source.node
        try:
            messages = decode_raft_messages(frame.payload)
        except BrokenRaftFrame as error:
            self.log.write("error", f"node {node} has sent {error}: its link is set up again")
            self.cluster.end_link(node, str(error))
            return
        self.spend(len(messages))
        for group, message in messages:
            if group in self.members:
                self._hand_on(group, message, node)
            elif type(message) in ROWS and self.early_count < RAFT_EARLY_MAX:
                self.early.setdefault(group, []).append((node, message))
                self.early_count += 1
                self._stay_awake()
            else:
                self.strays += 1

    def _hand_on(self, group: int, message: RaftMessage, node: int) -> None:
        member = self.members[group]
        if is_from(member, message, node):
            member.owner.post(message)
        else:
            self.strays += 1

    # -- time

    def _stay_awake(self) -> None:
        if not self.is_awake:
            self.is_awake = True
            self.clock.call_after(RAFT_TICK_MS, self, PostTick())

    def _tick(self) -> None:
        """Let time pass for members that have ticks, and for early messages."""
        self.is_awake = False
        self.spend(len(self.ticking))
        for group, pass_tick in [*self.ticking.items()]:
            let_pass(self.members[group].owner, pass_tick)
        self.ticks += 1
        if self.ticks % EARLY_TICKS == 0:
            self.strays += sum(map(len, self.stale.values()))
            self.stale, self.early = self.early, {}
            self.early_count = sum(map(len, self.stale.values()))
        if self.ticking or self.early or self.stale:
            self._stay_awake()

    def _reach(self, node: int, is_reached: bool) -> None:
        mail = self.mail[node]
        if mail.is_reached == is_reached:
            return
        mail.is_reached = is_reached
        if not is_reached:
            mail.lost_ns = self.clock.now_ns()
        for group, member in self.members.items():
            for name, where in member.nodes.items():
                if where == node:
                    member.owner.post(MemberReach(group, name, is_reached))

    def turn_ended(self) -> None:
        for node, mail in self.mail.items():
            if mail.short:
                short, mail.short = mail.short, []
                short.sort(key=lambda each: ROWS[type(each[1])][0])  # so few sections are enough
                self.cluster.send(node, RAFT_CONTROL, encode_raft_messages(short))
            if mail.data and not mail.gates_shut:
                self.cluster.send(node, RAFT_DATA, next_frame(mail))
                if mail.data:
                    self.schedule()


def let_pass(owner: Actor, pass_tick: Callable[[], bool]) -> None:
    """Let a tick pass for the member of `owner`, which bears any fault in it."""
    try:
        is_due = pass_tick()
    except Exception as error:
        owner.scheduler.contain(owner, error)
    else:
        if is_due:
            owner.post(RaftTick())


def are_same(some: list[LogEntry], others: list[LogEntry]) -> bool:
    """Tell whether these entries of one log, without gaps, are the same objects."""
    if not some or len(some) != len(others):
        return len(some) == len(others)
    return some[0] is others[0] and some[-1] is others[-1]


def next_frame(mail: NodeMail) -> bytes:
    """Take the messages of the next frame: at least one, and no more than a frame should have."""
    parts: list[bytes] = []
    size = count = 0
    for message in mail.data:
        more = sum(map(len, message))
        if count and size + more > RAFT_FRAME_BYTES:
            break
        parts += message
        size += more
        count += 1
    del mail.data[:count]
    mail.data_bytes -= size
    return b"".join(parts)


def is_from(member: PostedMember, message: RaftMessage, node: int) -> bool:
    """Tell whether a message is for this member, and comes from its sender's node."""
    return message.to == member.name and member.nodes.get(message.sender) == node
