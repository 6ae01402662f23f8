"""The user of the links on one simulated node: it sends numbered messages to the others, and checks
the messages and events it gets.

A message names the link over which it was sent, and its number on that connection. So the receiver
can tell whether it belongs to this link, came once, in order, without a gap, and unchanged.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from sluicemq.cluster.cluster_port import (
    GRANTS,
    RAFT_CONTROL,
    RAFT_DATA,
    NodeDown,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerGrant,
    PeerMessage,
)
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import ActorAddress
from sluicemq.sim.cluster.promise import keeps

if TYPE_CHECKING:
    from random import Random

    from sluicemq.cluster.cluster import NodeCluster
    from sluicemq.cluster.cluster_port import FrameType
    from sluicemq.flow.gate import Gate

STAMP: Final = Struct("<IIIQQI")
"""Sender, its life, the receiver's life, link, number, crc32 of the filling."""
TYPES: Final = (RAFT_CONTROL, RAFT_DATA)
FILLING: Final = bytes(range(256)) * 4096
Epoch = tuple[int, int, int]
"""The life of the sender, the life of the receiver, and the number of the link."""


class TalkerSession:
    """The messages from one node since its link came up."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.epoch: Epoch | None = None
        self.next = dict.fromkeys(TYPES, 0)
        self.is_suspected = False


class Talker(Actor):
    """Sends and checks messages. `seen` has the epochs of earlier sessions by node, also of earlier
    lives."""

    def __init__(
        self, cluster: NodeCluster, random: Random, figures: dict[str, int], is_rude: bool
    ) -> None:
        super().__init__(cluster.scheduler)
        self.cluster = cluster
        self.random = random
        self.figures = figures
        self.is_rude = is_rude
        """True when it ignores its gates."""
        self.sessions: dict[int, TalkerSession] = {}
        self.seen: dict[int, set[Epoch]] = {}
        self.sent: dict[tuple[int, Epoch, FrameType], int] = {}
        self.granted: dict[int, int] = {}
        """Grants from each node since its link came up."""
        self.gates: dict[int, Gate] = {}
        for frame_type in (*TYPES, GRANTS):
            cluster.handle(frame_type, self)
        cluster.follow(self)
        for node in cluster.peers:
            self.gates[node] = cluster.feed(node, GateKeeper(cluster.world.clock))

    def count(self, what: str) -> None:
        """Count an event of that kind."""
        self.figures[what] = self.figures.get(what, 0) + 1

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self.came(message)
        elif isinstance(message, NodeUp):
            keeps(message.node not in self.sessions, f"{message} while it is up")
            self.sessions[message.node] = TalkerSession(message.incarnation)
            self.count("ups")
        elif isinstance(message, NodeDown):
            session = self.sessions.pop(message.node, None)
            keeps(session is not None, f"{message} while it is down")
            assert session is not None
            keeps(session.incarnation == message.incarnation, f"{message}: another life was up")
            if session.epoch is not None:
                self.seen.setdefault(message.node, set()).add(session.epoch)
            is_full = message.reason.endswith("wait to be sent to it")
            keeps(self.is_rude or not is_full, f"heeding its gate, {message}")
            self.count("floods" if is_full else "downs")
        elif isinstance(message, NodeSuspected | NodeTrusted):
            self.suspects(message)
        elif isinstance(message, PeerGrant):
            keeps(message.source in self.sessions, f"{message} of a node that is down")
            self.count("grants")
        else:
            raise AssertionError(f"a talker got {message!r}")

    def suspects(self, message: NodeSuspected | NodeTrusted) -> None:
        """Note that a node is suspected, or no longer."""
        session = self.sessions.get(message.node)
        keeps(session is not None, f"{message} while it is down")
        assert session is not None
        is_now = isinstance(message, NodeSuspected)
        keeps(session.is_suspected != is_now, f"{message} twice")
        session.is_suspected = is_now
        self.count("suspicions")

    def came(self, message: PeerMessage) -> None:
        """Check a message that has arrived."""
        node = message.source.node
        session = self.sessions.get(node)
        keeps(session is not None, "a message came while it is down, of node", node)
        assert session is not None
        stamp, filling = message.payload[: STAMP.size], message.payload[STAMP.size :]
        sender, life, to_life, link, number, crc = STAMP.unpack(stamp)
        keeps(crc == crc32(filling), "a message was changed on its way, of node", node)
        keeps(sender == node, "a message of node", sender, "came as one of node", node)
        keeps(to_life == self.cluster.incarnation, "a message for another life came")
        keeps(life == session.incarnation, "life", life, "sent it, up is", session.incarnation)
        epoch = (life, to_life, link)
        keeps(epoch not in self.seen.get(node, ()), "of a link that is over:", epoch, "to", node)
        session.epoch = session.epoch or epoch
        keeps(session.epoch == epoch, epoch, "among messages of", session.epoch)
        expected = session.next[message.frame_type]
        keeps(number == expected, message.frame_type, number, "of", node, "not", expected)
        session.next[message.frame_type] = number + 1
        self.count("received")

    def talk(self) -> None:
        """Send messages to each node that is up, as far as the gates allow."""
        for node, peer in self.cluster.peers.items():
            link = peer.up if peer.up is not None and peer.up.takes else None
            for _ in range(self.random.randrange(4)):
                if self.gates[node].is_shut and not self.is_rude:
                    self.count("held up")
                    break
                frame_type = self.random.choice(TYPES)
                size = self.size(frame_type)
                if link is None or peer.up is not link:
                    keeps(
                        (peer.up is not None and peer.up.takes)
                        or not self.cluster.send(node, frame_type, b""),
                        f"something was sent to node {node}, which is down",
                    )
                    break
                self.say(node, frame_type, size, link.number, link.other)
            if link is not None and peer.up is link:
                self.cluster.grant(link.other._replace(serial=1 + self.random.randrange(3)), 5)

    def size(self, frame_type: FrameType) -> int:
        """Choose the size of the next message: few are larger than a frame."""
        if frame_type is RAFT_DATA and self.random.randrange(60) == 0:
            return self.random.randrange(len(FILLING))
        return self.random.choice((0, 10, 300, 5000))

    def say(
        self, node: int, frame_type: FrameType, size: int, link: int, other: ActorAddress
    ) -> None:
        """Send a message of that size."""
        epoch = (self.cluster.incarnation, other.incarnation, link)
        key = (node, epoch, frame_type)
        number = self.sent.get(key, 0)
        filling = FILLING[:size]
        stamp = STAMP.pack(self.cluster.node, *epoch, number, crc32(filling))
        if self.cluster.send(node, frame_type, stamp + filling):
            self.sent[key] = number + 1
            self.count("sent")
