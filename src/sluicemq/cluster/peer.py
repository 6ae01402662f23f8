"""Another node, as this one sees it: its link, or the attempts to set one up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.cluster.cluster_port import (
    CONTROL,
    DATA,
    NodeDown,
    NodeStanding,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
)
from sluicemq.cluster.connection import LinkConnection
from sluicemq.cluster.connection_port import ConnectionKeeper, ConnectionWorld
from sluicemq.cluster.handshake import DialerHandshake
from sluicemq.cluster.introduction import NONCE_BYTES, Introduction
from sluicemq.cluster.node_link import LinkKeeper, NodeLink
from sluicemq.flow.gate import Gate
from sluicemq.limits import (
    LINK_RETRY_MAX_MS,
    LINK_RETRY_MIN_MS,
    LINK_SETUP_NS,
    LINK_SILENCE_NS,
    LINK_STALLED_MS,
    LINK_STEADY_NS,
)

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import FrameType, PeerConnection
    from sluicemq.cluster.introduction import NodeCard
    from sluicemq.cluster.members import Member, Roster
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


class ClusterShell(ConnectionWorld):
    """The cluster as a peer sees it: the parts that all peers share."""

    roster: Roster
    secret: bytes
    handlers: dict[FrameType, Actor]
    connections: dict[LinkConnection, None]
    """Connections whose sockets exist, or are being set up."""

    def tell(self, message: object) -> None:
        """Post a message to all followers of the cluster."""
        raise NotImplementedError

    def met(self, card: NodeCard) -> None:
        """Note a member's proven identity."""
        raise NotImplementedError

    def is_kept(self, node: int) -> bool:
        """Tell whether that node's last identity is durably kept. If not, its peer's `remembered`
        is called later."""
        raise NotImplementedError


class OtherNode(ConnectionKeeper[LinkConnection], LinkKeeper):
    """Node number `member.number`. The node with the lower number connects to the other one."""

    def __init__(self, shell: ClusterShell, member: Member) -> None:
        self.shell = shell
        self.member = member
        self.node = member.number
        self.connects = shell.roster.own.node < member.number
        self.link: NodeLink | None = None
        """The link, which may still be set up; None: there is none."""
        self.gates: list[Gate] = []
        self.is_full = False
        """So much waits for the node that the gates are shut."""
        self._links = 0
        """The number of the last link, begun by this node, or by the other one in its present
        life."""
        self._retry_at_ns = 0
        self._retry_ms = LINK_RETRY_MIN_MS
        self._complaint = ""
        """The logged reason why there is no link, which is not repeated."""

    @property
    def up(self) -> NodeLink | None:
        """Return the link if it is up."""
        link = self.link
        return link if link is not None and link.is_up else None

    @property
    def standing(self) -> NodeStanding:
        """Return whether the node is up, suspected or down."""
        link = self.up
        if link is None:
            return NodeStanding.DOWN
        return NodeStanding.SUSPECTED if link.is_suspected else NodeStanding.UP

    # -- time

    def beat(self, now_ns: int, pause_ns: int, stalled_ms: int) -> None:
        """Do what is due; this node itself stood still for `pause_ns` before, and its disk has had
        work for `stalled_ms` and finished none."""
        link = self.link
        if link is None:
            if self.connects and now_ns >= self._retry_at_ns:
                self._dial()
        elif not link.is_up:
            if now_ns >= link.until_ns:
                link.end(f"no link came about in {LINK_SETUP_NS // 10**9} s")
        else:
            link.detector.forgive(pause_ns)
            if link.takes:
                link.beat(stalled_ms)
            self._look_for_silence(link, now_ns)

    def _look_for_silence(self, link: NodeLink, now_ns: int) -> None:
        if link.detector.silent_ns(now_ns) >= LINK_SILENCE_NS:
            link.end(f"nothing was heard of it for {LINK_SILENCE_NS // 10**9} s")
        elif not link.is_suspected and (
            link.stalled_ms >= LINK_STALLED_MS or link.detector.is_suspect(now_ns)
        ):
            link.is_suspected = True
            if link.stalled_ms >= LINK_STALLED_MS:
                text = f"the disk of {self.member} has finished nothing"
                text = f"{text} for {link.stalled_ms // 1000} s: it is suspected"
                self.shell.world.log.write("warning", text)
            self.shell.tell(NodeSuspected(*link.other[:2]))

    # -- links that this node begins

    def _dial(self) -> None:
        link = self._begin(self._links + 1)
        self._connect(link, CONTROL)

    def _begin(self, number: int) -> NodeLink:
        shell = self.shell
        self._links = number
        self.link = NodeLink(self, shell.world.clock, shell.handlers, shell.roster.own, number)
        return self.link

    def _connect(self, link: NodeLink, kind: PeerConnection) -> None:
        shell, member = self.shell, self.member
        own = Introduction(shell.roster.own, kind, link.number, self.node)
        handshake = DialerHandshake(shell.secret, shell.world.dice.token(NONCE_BYTES), own)
        address = f"{member.host}:{member.port}"
        connection = LinkConnection(shell, self, handshake, address)
        link.attach(connection, kind)
        shell.connections[connection] = None
        connection.number = shell.world.net.connect(connection, member.host, member.port)

    def introduced(self, connection: LinkConnection, other: Introduction) -> None:
        link = self.link
        if link is None or connection.link is not link:
            connection.end()
            return
        if connection is link.connections[CONTROL]:
            link.meet(other.card)
        refusal = self.shell.roster.refusal(other) or self._not_as_dialed(link, connection, other)
        if refusal:
            link.end(f"it is refused: {refusal}", refusal)
        elif connection is link.connections[CONTROL]:
            self.shell.met(other.card)
            self._connect(link, DATA)
        else:
            self._both_there(link)

    def _not_as_dialed(
        self, link: NodeLink, connection: LinkConnection, other: Introduction
    ) -> str:
        """Return how the answer differs from the request; "" if it does not."""
        if other.card.node != self.node:
            return f"it is {other.card}, and node {self.node} was looked for at its address"
        control = link.connections[CONTROL]
        kind = CONTROL if connection is control else DATA
        if (other.connection, other.link) != (kind, link.number):
            return "it answers for another connection than it was asked for"
        first = control.handshake.other
        if first is not None and not first.card.is_same_life(other.card):
            return "another node has answered on its control connection"
        return ""

    # -- links that the other node begins

    def refusal(self, other: Introduction) -> str:
        """Return why a connection of this node, whose identity is proven, is refused; "" if it is
        not."""
        if self.connects:
            return "of two nodes the one with the lower number connects to the other one"
        if other.connection is CONTROL:
            is_same_life = self.member.incarnation == other.card.incarnation
            if is_same_life and other.link <= self._links:
                return "it has begun a newer link since"
            return ""
        link = self.link
        is_link = link is not None and link.number == other.link and not link.is_up
        if not is_link or link is None or DATA in link.connections:
            return "the link that it belongs to is over"
        first = link.connections[CONTROL].handshake.other
        if first is None or not first.card.is_same_life(other.card):
            return "the link that it belongs to is another node's"
        return ""

    def admit(self, connection: LinkConnection, other: Introduction) -> None:
        """Accept a connection of this node that is not refused."""
        own = Introduction(self.shell.roster.own, other.connection, other.link, self.node)
        if other.connection is CONTROL:
            if self.link is not None:
                self.link.end("it has begun another link", "a newer link has begun")
            link = self._begin(other.link)
            link.meet(other.card)
        else:
            assert self.link is not None
            link = self.link
        link.attach(connection, other.connection)
        connection.accept(own)
        if other.connection is DATA:
            self._both_there(link)
        else:
            self.shell.met(other.card)

    def _both_there(self, link: NodeLink) -> None:
        assert link.is_complete
        if self.shell.is_kept(self.node):
            link.open()

    def remembered(self) -> None:
        """Go on, because the node's identity is kept now."""
        if self.link is not None and self.link.is_complete:
            self.link.open()

    # -- events of a link

    def link_up(self, link: NodeLink) -> None:
        self._complaint = ""
        text = f"{self.member} is up: life {link.other.incarnation}, link {link.number}"
        self.shell.world.log.write("info", text)
        self.shell.tell(NodeUp(*link.other[:2], self.member.name))

    def link_heard(self, link: NodeLink) -> None:
        if not link.is_suspected or link.stalled_ms >= LINK_STALLED_MS:
            return
        if not link.detector.is_suspect(self.shell.world.clock.now_ns()):
            link.is_suspected = False
            self.shell.tell(NodeTrusted(*link.other[:2]))

    def link_over(self, link: NodeLink, reason: str) -> None:
        assert self.link is link, "an older link ends again"
        self.link = None
        self._plan_retry(link)
        self._open_gates()
        if link.is_up:
            self.shell.world.log.write("warning", f"{self.member} is down: {reason}")
            self.shell.tell(NodeDown(*link.other[:2], reason))
        elif reason != self._complaint:
            self._complaint = reason
            address = f"{self.member.host}:{self.member.port}"
            text = f"there is no link to {self.member} at {address}: {reason}"
            self.shell.world.log.write("warning", text)
        if not self.shell.roster.own.cluster:
            self.member.forget()

    def _plan_retry(self, link: NodeLink) -> None:
        now_ns = self.shell.world.clock.now_ns()
        if link.is_up and now_ns - link.up_ns >= LINK_STEADY_NS:
            self._retry_ms = LINK_RETRY_MIN_MS
        less_ms = self.shell.world.dice.below(self._retry_ms // 2 + 1)
        self._retry_at_ns = now_ns + (self._retry_ms - less_ms) * 1_000_000
        self._retry_ms = min(self._retry_ms * 2, LINK_RETRY_MAX_MS)

    def failed(self, connection: LinkConnection, reason: str) -> None:
        raise AssertionError("a connection that this node has begun belongs to a link")

    def gone(self, connection: LinkConnection) -> None:
        self.shell.connections.pop(connection, None)

    # -- gates

    def link_drained(self, link: NodeLink) -> None:
        self.look_at_gates()

    def look_at_gates(self) -> None:
        """Shut the gates of this node's senders when too much waits for it, or open them."""
        link = self.up
        waiting = 0 if link is None else link.waiting_bytes
        if waiting >= self.shell.bounds.gate_shut_bytes and not self.is_full:
            self.is_full = True
            for gate in self.gates:
                gate.shut()
        elif waiting <= self.shell.bounds.gate_open_bytes and self.is_full:
            self._open_gates()

    def _open_gates(self) -> None:
        self.is_full = False
        for gate in self.gates:
            gate.open()

    def feed(self, keeper: GateKeeper) -> Gate:
        """Return a new gate for a sender to the node."""
        gate = Gate(keeper, f"node {self.node}")
        self.gates.append(gate)
        if self.is_full:
            gate.shut()
        return gate
