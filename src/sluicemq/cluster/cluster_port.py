"""What other parts of this node see of the cluster: they send messages to a node, have messages of
some types posted to an actor of theirs, and learn which nodes are up.

    cluster.handle(RAFT_DATA, actor)        actor <- PeerMessage, in the order they were sent in
    cluster.send(node, RAFT_DATA, payload)  False: that node is not up, and nothing was sent
    cluster.follow(actor)                   actor <- NodeUp, NodeSuspected, NodeTrusted, NodeDown
    cluster.feed(node, actor's keeper)      a gate, shut while too much waits for that node
    cluster.grant(address, amount)          who handles GRANTS there <- PeerGrant, sums of them

Two nodes that are up have a *link*: while it lasts, everything sent over it arrives, once and in
order for each of its two connections. When it ends, both get NodeDown; messages on their way may
have arrived or not, and none arrives later. A node that is up again has a new link, and perhaps a
new incarnation.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.kernel.address import NOBODY, ActorAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.flow.gate import Gate, GateKeeper
    from sluicemq.kernel.actor import Actor


class PeerConnection(Enum):
    """The two connections of a link, and one beside it."""

    CONTROL = 1
    """Short messages that somebody waits for: nothing large is ever before them."""
    DATA = 2
    """What has bodies in it."""
    ASK = 3
    """A question and its answer, of a node that has no link (inquiry.py)."""

    __hash__ = object.__hash__
    """As of any object, and so in C: else it would be that of its name, in Python."""


CONTROL: Final = PeerConnection.CONTROL
DATA: Final = PeerConnection.DATA
ASK: Final = PeerConnection.ASK


STOPS: Final = "this node stops"
"""What a node says when it leaves its links because it is stopped in order."""


class FrameType(NamedTuple):
    """The type of a message between nodes. A number is never given another meaning."""

    number: int
    name: str
    connection: PeerConnection | None
    """Over which connection it goes; None: over each of them."""


OPEN: Final = FrameType(1, "open", None)
GOODBYE: Final = FrameType(2, "goodbye", None)
HEARTBEAT: Final = FrameType(3, "heartbeat", CONTROL)
GRANTS: Final = FrameType(4, "grants", CONTROL)
RAFT_CONTROL: Final = FrameType(16, "raft control", CONTROL)
RAFT_DATA: Final = FrameType(17, "raft data", DATA)
DEFINITIONS: Final = FrameType(18, "definitions", CONTROL)
FOUNDING: Final = FrameType(19, "founding", CONTROL)
NODE_NOTICE: Final = FrameType(20, "node notice", CONTROL)
QUESTION: Final = FrameType(21, "question", ASK)
ANSWER: Final = FrameType(22, "answer", ASK)
NODE_COMMAND: Final = FrameType(23, "node command", DATA)
QUEUE_ASKS: Final = FrameType(32, "queue asks", DATA)
QUEUE_ANSWERS: Final = FrameType(33, "queue answers", DATA)
REPLIES: Final = FrameType(34, "replies", DATA)
QUORUM_ASK: Final = FrameType(48, "quorum ask", DATA)
QUORUM_LEADERS: Final = FrameType(49, "quorum leaders", CONTROL)
QUORUM_STATUS: Final = FrameType(50, "quorum status", CONTROL)

FRAME_TYPES: Final = {
    each.number: each
    for each in (
        *(OPEN, GOODBYE, HEARTBEAT, GRANTS),
        *(RAFT_CONTROL, RAFT_DATA, DEFINITIONS, FOUNDING, NODE_NOTICE),
        *(QUESTION, ANSWER, NODE_COMMAND),
        *(QUEUE_ASKS, QUEUE_ANSWERS, REPLIES),
        *(QUORUM_ASK, QUORUM_LEADERS, QUORUM_STATUS),
    )
}
"""All types of this version of the protocol, by number. The first four are the link's own."""


class PeerMessage:
    """Posted to the handler of messages of that type. `source` and `target` are actors' addresses;
    with serial 0 they are those of the nodes themselves. Both nodes are in their present
    incarnations. `flags` are the type's own."""

    __slots__ = ("flags", "frame_type", "payload", "source", "target")

    def __init__(
        self,
        frame_type: FrameType,
        source: ActorAddress,
        target: ActorAddress,
        payload: bytes,
        flags: int = 0,
    ) -> None:
        self.frame_type = frame_type
        self.source = source
        self.target = target
        self.payload = payload
        self.flags = flags


class PeerGrant(NamedTuple):
    """Posted to the handler of grants: an actor on the node `source` grants the actor `target` of
    this node `amount`."""

    source: int
    target: ActorAddress
    amount: int


class NodeUp(NamedTuple):
    """Posted to followers: there is a link to that node. NodeDown comes before the next one."""

    node: int
    incarnation: int
    name: str


class NodeSuspected(NamedTuple):
    """Posted to followers: a node was silent for longer than usual; its link is there."""

    node: int
    incarnation: int


class NodeTrusted(NamedTuple):
    """Posted to followers: a suspected node was heard of again."""

    node: int
    incarnation: int


class NodeDown(NamedTuple):
    """Posted to followers: the link to that node has ended, for that reason."""

    node: int
    incarnation: int
    reason: str


class NodeStanding(Enum):
    """What this node thinks of another one."""

    UP = "up"
    SUSPECTED = "suspected"
    DOWN = "down"


class ClusterPort:
    """The cluster, as its users on this node see it."""

    node: int
    """The number of this node."""
    incarnation: int
    """The life that this node is in."""
    may_lead: bool = True
    """Whether members of Raft groups on this node may lead: its disk moves, and its time of day is
    about that of most nodes."""

    def handle(self, frame_type: FrameType, handler: Actor) -> None:
        """Post messages of that type to `handler` from now on, each as a PeerMessage, or as
        PeerGrants when it is GRANTS. Call it before the first link: without a handler a type ends
        the link that it comes over."""
        raise NotImplementedError

    def follow(self, follower: Actor) -> None:
        """Post to `follower` from now on which nodes come up, are suspected, trusted or go down;
        first a NodeUp for each that is up. If a handler follows too, a node's messages come between
        its NodeUp and its NodeDown."""
        raise NotImplementedError

    def unfollow(self, follower: Actor) -> None:
        """Post no more about nodes to `follower`."""
        raise NotImplementedError

    def send(
        self,
        node: int,
        frame_type: FrameType,
        payload: bytes,
        source_serial: int = 0,
        target: ActorAddress = NOBODY,
        flags: int = 0,
    ) -> bool:
        """Send a message to that node, over the connection that is the type's. Returns False, and
        sends nothing, when it is not up, or when `target` is an actor of another life of it. With
        NOBODY it is for the node itself. `source_serial` names an actor of this node, 0 none. Heed
        the gate (`feed`): when far too much waits, sending more ends the link."""
        raise NotImplementedError

    def end_link(self, node: int, sentence: str) -> None:
        """End the link to that node, if there is one, because its messages cannot be read, and tell
        it why. There may be another one soon."""
        raise NotImplementedError

    def feed(self, node: int, keeper: GateKeeper) -> Gate:
        """Return a gate of that keeper, which is shut while more than enough waits to be sent to
        that node, and is open when the node is not up. Give it back with `feed_no_more`."""
        raise NotImplementedError

    def feed_no_more(self, node: int, gate: Gate) -> None:
        """Open a gate for the last time, and forget it."""
        raise NotImplementedError

    def grant(self, target: ActorAddress, amount: int) -> bool:
        """Grant credit to an actor of another node. Grants to one actor until the next write are
        summed up. Returns False, and grants nothing, when that life of the node is not up."""
        raise NotImplementedError

    def standing(self, node: int) -> NodeStanding:
        """Return the standing of that node; DOWN, too, when it is unknown."""
        raise NotImplementedError

    def name_of(self, node: int) -> str:
        """Return the name of that node, for users; its number while the name is unknown."""
        raise NotImplementedError

    def incarnation_of(self, node: int) -> int:
        """Return the incarnation in which that node is up, or was last up; 0 when it never was."""
        raise NotImplementedError

    def contact_ns(self, node: int) -> int | None:
        """Return when this node, by its own clock, sent the last heartbeat that the other one has
        answered over the present link; None when there is none. A lease counts from there."""
        raise NotImplementedError

    def up_ns(self, node: int) -> int | None:
        """Return since when there is the present link to that node, by this node's own clock; None
        when there is none."""
        raise NotImplementedError

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return the numbers of all known nodes, including this one's, in order."""
        raise NotImplementedError

    def each_node(self, function: Callable[[int], object]) -> None:
        """Call the function with each other node now, and with each that joins later, before there
        is a link to it."""
        for node in self.nodes:
            if node != self.node:
                function(node)
