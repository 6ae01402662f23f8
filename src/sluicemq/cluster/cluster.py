"""The cluster as this node sees it: links to all other nodes, the actors that follow them, and the
port to which the others connect.

    NodeCluster            the port that all others here know; beats each LINK_BEAT_MS for all nodes
      OtherNode            one of them: attempts to connect, gates
        NodeLink           one link, from its first connection to the end of one of them
          LinkConnection   one of its two sockets: handshake, frames, what waits to be sent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.cluster_port import ASK, ClusterPort, NodeStanding, NodeUp
from sluicemq.cluster.connection import LinkConnection
from sluicemq.cluster.connection_port import ConnectionKeeper
from sluicemq.cluster.handshake import AcceptorHandshake
from sluicemq.cluster.inquiry import Interview, NodeDesk
from sluicemq.cluster.introduction import NONCE_BYTES, Introduction
from sluicemq.cluster.members import MemberBook, Roster
from sluicemq.cluster.peer import ClusterShell, OtherNode
from sluicemq.cluster.strangers import Strangers
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.kernel.disk import DiskJob
from sluicemq.kernel.socket_owner import Acceptor
from sluicemq.limits import (
    CLOCK_OFF_MS,
    INTERVIEWS_MAX,
    LINK_BEAT_MS,
    LINK_PAUSE_NS,
    LINK_STALLED_MS,
    LONELY_AGAIN_NS,
    LONELY_NS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.cluster.cluster_port import FrameType
    from sluicemq.cluster.introduction import NodeCard
    from sluicemq.cluster.members import Member
    from sluicemq.flow.gate import Gate, GateKeeper
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.endpoints import Peer as Endpoints
    from sluicemq.kernel.world import World

BEAT_NS: Final = LINK_BEAT_MS * 1_000_000


class BeatDue(NamedTuple):
    """A timer's message that it is time for heartbeats, at `due_ns` of the node's clock."""

    due_ns: int


class NodeCluster(Actor, ClusterPort, ClusterShell, ConnectionKeeper[LinkConnection], Acceptor):
    """The links of the node with that card to the other members, with which it shares a secret."""

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        card: NodeCard,
        secret: bytes,
        members: Iterable[Member],
        book: MemberBook | None = None,
        bounds: LinkBounds | None = None,
    ) -> None:
        super().__init__(scheduler)
        self.world = world
        self.secret = secret
        self.bounds = bounds or LinkBounds()
        self.node = card.node
        self.incarnation = card.incarnation
        self.roster = Roster(card, members)
        self.book = book or MemberBook()
        self.peers = {each.number: OtherNode(self, each) for each in self.roster.members.values()}
        self.handlers: dict[FrameType, Actor] = {}
        self.connections: dict[LinkConnection, None] = {}
        self.followers: dict[Actor, None] = {}
        self.strangers = Strangers(world)
        self._unkept: dict[int, int] = {}
        """The incarnations in which members were met that are not in the book, by node."""
        self._writing: dict[int, int] = {}
        """Those of them that are being written to the book."""
        self.is_over = False
        """True when this node has left its links and wants no others."""
        self.desk: NodeDesk | None = None
        """Who answers nodes without a link; None: they are sent away."""
        self.interviews: dict[Interview, None] = {}
        self.stalled_ms: Callable[[], int] = lambda: 0
        """Tells for how long this node's disk has had work and finished none."""
        self._passed_ms = 0
        """What it has told last; `_paused_ms` of that this node itself did not move."""
        self._paused_ms = 0
        self.may_lead = True
        self.on_lonely: Callable[[], None] = lambda: None
        """Called every so often when there are no links to a majority for a while, or not `is_led`.
        """
        self.is_led: Callable[[], bool] = lambda: True
        """Tells whether this node knows who leads the definitions. Somebody may that has joined
        meanwhile, and that this node has to connect to, without knowing it."""
        self._lonely_at_ns = world.clock.now_ns() + LONELY_NS
        """When that is, unless there are some before."""
        self._node_functions: list[Callable[[int], object]] = []
        """Called with each node that joins."""

    def listen(self, host: str, port: int) -> int:
        """Let other nodes connect to that address. Returns the port. Raises Refused when the node
        cannot listen on it."""
        return self.world.net.listen(self, host, port)

    def start_links(self) -> None:
        """Connect to the other nodes from now on."""
        self._beat_later()

    def leave(self, sentence: str) -> None:
        """End all links in order, with this sentence as the reason, and begin no others."""
        self.is_over = True
        for peer in self.peers.values():
            if peer.link is not None:
                peer.link.leave(sentence)

    @property
    def is_left(self) -> bool:
        """Tell whether all connections are closed after `leave`."""
        return self.is_over and not self.connections

    # -- time

    def receive(self, message: object) -> None:
        if isinstance(message, BeatDue):
            self._beat(message.due_ns)
        elif isinstance(message, DiskJob):
            self._book_written(message)
        else:
            raise AssertionError(f"the cluster got {message!r}")

    def _beat_later(self) -> None:
        now_ns = self.world.clock.now_ns()
        self.world.clock.call_after(LINK_BEAT_MS, self, BeatDue(now_ns + BEAT_NS))

    def _beat(self, due_ns: int) -> None:
        now_ns = self.world.clock.now_ns()
        late_ns = now_ns - due_ns
        stalled_ms = self._stalled_for_ms(late_ns)
        if not self.is_over:
            for peer in self.peers.values():
                peer.beat(now_ns, late_ns if late_ns > LINK_PAUSE_NS else 0, stalled_ms)
        self._look_whether_fit(stalled_ms)
        for connection in [*self.connections]:
            connection.look(now_ns)
        for interview in [*self.interviews]:
            interview.look(now_ns)
            if interview.is_over:
                del self.interviews[interview]
        self._look_for_company(now_ns)
        if not self.is_left:
            self._beat_later()

    def _stalled_for_ms(self, late_ns: int) -> int:
        """Return for how long the disk has had the same work, without the time in which this node
        itself stood still, `late_ns` of it just now."""
        passed_ms = self.stalled_ms()
        if passed_ms < self._passed_ms:
            self._paused_ms = 0  # that is another piece of work
        if late_ns > LINK_PAUSE_NS:
            self._paused_ms += late_ns // 1_000_000
        self._passed_ms = passed_ms
        return max(0, passed_ms - self._paused_ms)

    def _look_whether_fit(self, stalled_ms: int) -> None:
        """Check whether the members of this node may lead: its disk makes progress, and its clock
        is close to those of the others."""
        unfit = ""
        if stalled_ms >= LINK_STALLED_MS:
            unfit = "its disk finishes nothing"
        ahead = [peer.up.clock_ahead_ms for peer in self.peers.values() if peer.up is not None]
        fast = sum(each < -CLOCK_OFF_MS for each in ahead)
        slow = sum(each > CLOCK_OFF_MS for each in ahead)
        if 2 * max(fast, slow) > len(self.peers) + 1:
            way = "ahead of" if fast > slow else "behind"
            unfit = f"its clock is {way} those of the others by more than {CLOCK_OFF_MS // 1000} s"
        if bool(unfit) == self.may_lead:
            text = f"this node leads no queue: {unfit}" if unfit else "this node may lead again"
            self.world.log.write("warning" if unfit else "info", text)
        self.may_lead = not unfit

    def _look_for_company(self, now_ns: int) -> None:
        up = sum(peer.up is not None for peer in self.peers.values())
        has_company = 2 * (up + 1) > len(self.peers) + 1
        if self.is_over or (has_company and self.is_led()):
            self._lonely_at_ns = now_ns + LONELY_NS
        elif now_ns >= self._lonely_at_ns:
            self._lonely_at_ns = now_ns + LONELY_AGAIN_NS
            self.on_lonely()

    # -- who belongs to it

    def add_member(self, member: Member) -> None:
        """Add a node to the cluster; nothing changes if it is known."""
        if member.number == self.node or member.number in self.peers:
            return
        self.roster.members[member.number] = member
        self.peers[member.number] = OtherNode(self, member)
        for function in self._node_functions:
            function(member.number)

    def remove_member(self, node: int, home: bytes, sentence: str) -> None:
        """Remove the node with that number and mark of its data directory from the cluster; when it
        connects it is told that sentence."""
        self.roster.removed[home] = sentence
        peer = self.peers.pop(node, None)
        if peer is None:
            return
        if peer.link is not None:
            peer.link.end(sentence, sentence)
        del self.roster.members[node]
        self._unkept.pop(node, None)

    # -- who connects

    def admits(self, address: str) -> bool:
        return not self.is_over and self.strangers.enter(address)

    def accept(self, connection: int, peer: Endpoints) -> LinkConnection:
        handshake = AcceptorHandshake(self.secret, self.world.dice.token(NONCE_BYTES))
        address = f"{peer.peer_host}:{peer.peer_port}"
        accepted = LinkConnection(self, self, handshake, address)
        accepted.number = connection
        self.connections[accepted] = None
        self.strangers.came(accepted, peer.peer_host)
        return accepted

    def gave_up(self, address: str) -> None:
        self.strangers.leave(address)

    def introduced(self, connection: LinkConnection, other: Introduction) -> None:
        self.strangers.known(connection)
        if other.connection is ASK:
            self._interview(connection, other)
            return
        refusal = self.roster.refusal(other)
        if not refusal:
            peer = self.peers[other.card.node]
            refusal = peer.refusal(other)
            if not refusal and not self.is_over:
                peer.admit(connection, other)
                return
        connection.refuse(refusal or "this node leaves")

    def _interview(self, connection: LinkConnection, other: Introduction) -> None:
        """Handle the question of a node that has no link."""
        own = self.roster.own
        if self.desk is None or self.is_over or len(self.interviews) >= INTERVIEWS_MAX:
            connection.refuse("this node answers no questions now")
            return
        interview = Interview(self.world.clock, own, other.card, self.desk)
        self.interviews[interview] = None
        interview.attach(connection)
        connection.accept(Introduction(own, ASK, other.link, other.card.node))

    def failed(self, connection: LinkConnection, reason: str) -> None:
        self.strangers.log(connection.address, reason)

    def gone(self, connection: LinkConnection) -> None:
        self.strangers.known(connection)
        self.connections.pop(connection, None)

    # -- what is kept

    def join(self, cluster: str) -> None:
        """Note that this node belongs to that cluster from now on, whose members the book knows. A
        link to any other node ends."""
        roster = self.roster
        roster.own = roster.own._replace(cluster=cluster)
        self.book.recall(roster.members.values())
        for peer in self.peers.values():
            link = peer.link
            if link is None or link.card is None:
                continue
            refusal = roster.not_the_member(peer.member, link.card)
            if refusal:
                link.end(f"it is refused: {refusal}", refusal)
            else:
                self.met(link.card)
        if self._unkept and not self._writing:
            self._write_book()

    def met(self, card: NodeCard) -> None:
        if self.roster.meet(card):
            self._unkept[card.node] = card.incarnation

    def is_kept(self, node: int) -> bool:
        if node in self._unkept and not self._writing:
            self._write_book()
        return node not in self._unkept

    def _write_book(self) -> None:
        self._writing = dict(self._unkept)
        if not self.book.write(self.roster.members.values(), self):
            self._unkept.clear()
            self._writing = {}

    def _book_written(self, job: DiskJob) -> None:
        written, self._writing = self._writing, {}
        if job.failure is not None:
            self.world.log.write("error", f"cannot store which nodes were met: {job.failure}")
        for node, incarnation in written.items():
            if job.failure is None and self._unkept.get(node) == incarnation:
                del self._unkept[node]
        if self._unkept and job.failure is None:
            self._write_book()
        for node in written:
            if node not in self._unkept and node in self.peers:
                self.peers[node].remembered()

    # -- the port

    def handle(self, frame_type: FrameType, handler: Actor) -> None:
        self.handlers[frame_type] = handler

    def follow(self, follower: Actor) -> None:
        self.followers[follower] = None
        for peer in self.peers.values():
            if peer.up is not None:
                follower.post(NodeUp(*peer.up.other[:2], peer.member.name))

    def unfollow(self, follower: Actor) -> None:
        self.followers.pop(follower, None)

    def tell(self, message: object) -> None:
        for follower in self.followers:
            follower.post(message)

    def send(
        self,
        node: int,
        frame_type: FrameType,
        payload: bytes,
        source_serial: int = 0,
        target: ActorAddress = NOBODY,
        flags: int = 0,
    ) -> bool:
        peer = self.peers.get(node)
        link = None if peer is None else peer.up
        if peer is None or link is None or not link.takes:
            return False
        if target == NOBODY:
            target = link.other
        elif target[:2] != link.other[:2]:
            return False
        waiting = link.waiting_bytes
        if waiting > self.bounds.queue_bytes < link.behind_first_bytes:
            waits = f"{waiting} bytes wait to be sent to"
            link.end(f"{waits} it", f"{waits} this node")
            return False
        link.send(frame_type, payload, source_serial, target, flags)
        peer.look_at_gates()
        return True

    def end_link(self, node: int, sentence: str) -> None:
        peer = self.peers.get(node)
        if peer is not None and peer.link is not None:
            peer.link.end(sentence, sentence)

    def feed(self, node: int, keeper: GateKeeper) -> Gate:
        return self.peers[node].feed(keeper)

    def feed_no_more(self, node: int, gate: Gate) -> None:
        if node in self.peers:
            self.peers[node].gates.remove(gate)
        gate.open()

    def grant(self, target: ActorAddress, amount: int) -> bool:
        peer = self.peers.get(target.node)
        link = None if peer is None else peer.up
        if link is None or not link.takes or target[:2] != link.other[:2]:
            return False
        link.grant(target.serial, amount)
        return True

    def standing(self, node: int) -> NodeStanding:
        peer = self.peers.get(node)
        return NodeStanding.DOWN if peer is None else peer.standing

    def name_of(self, node: int) -> str:
        if node == self.node:
            return self.roster.own.name
        member = self.roster.members.get(node)
        return (member.name if member is not None else "") or f"node {node}"

    def incarnation_of(self, node: int) -> int:
        member = self.roster.members.get(node)
        return 0 if member is None else member.incarnation

    def contact_ns(self, node: int) -> int | None:
        peer = self.peers.get(node)
        link = None if peer is None else peer.up
        return None if link is None else link.contact_ns

    def up_ns(self, node: int) -> int | None:
        peer = self.peers.get(node)
        link = None if peer is None else peer.up
        return None if link is None else link.up_ns

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*sorted([self.node, *self.peers]),)

    def each_node(self, function: Callable[[int], object]) -> None:
        super().each_node(function)
        self._node_functions.append(function)
