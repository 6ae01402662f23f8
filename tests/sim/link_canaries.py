"""Bugs to be planted in the links between nodes: each breaks one of their promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from sluicemq.cluster import frame, node_file
from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.cluster_port import DATA, PeerMessage
from sluicemq.cluster.connection import LinkConnection
from sluicemq.cluster.founding import ClusterFounding, FoundedCluster, KeepCluster
from sluicemq.cluster.frame import FrameDecoder
from sluicemq.cluster.members import Roster
from sluicemq.cluster.node_file import NodeRecord, encode_node_file
from sluicemq.cluster.node_link import NodeLink
from sluicemq.cluster.node_path import PATH, UNFINISHED
from sluicemq.cluster.outbox import LinkOutbox
from sluicemq.cluster.peer import OtherNode
from sluicemq.kernel.disk import Files

LinkPlant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, LinkPlant]] = {}


def canary(plant: LinkPlant) -> LinkPlant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def an_old_link_goes_on(patch: pytest.MonkeyPatch) -> None:
    """What still comes over connections of a link that is over is handed over."""

    def hand_over(self: LinkConnection, decoder: FrameDecoder) -> None:
        while self.link is not None and (message := decoder.next()) is not None:
            self.link.took(self, message)

    patch.setattr(LinkConnection, "_hand_over", hand_over)
    patch.setattr(LinkConnection, "end", lambda *_: None)


@canary
def messages_before_both_are_open(patch: pytest.MonkeyPatch) -> None:
    """What comes is handed over before the link is up."""
    original = NodeLink.took

    def took(self: NodeLink, connection: LinkConnection, message: PeerMessage) -> None:
        if not self.is_up and message.frame_type in self.handlers:
            self.handlers[message.frame_type].post(message)
        else:
            original(self, connection, message)

    patch.setattr(NodeLink, "wants", lambda *_: True)
    patch.setattr(NodeLink, "took", took)


@canary
def a_wiped_member_is_taken_in(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the data directory is the one that was."""
    patch.setattr(Roster, "not_the_member", lambda *_: "")


@canary
def who_was_met_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A link opens before it is kept who the other node is."""

    original = NodeCluster.is_kept

    def is_kept(self: NodeCluster, node: int) -> bool:
        original(self, node)
        return True

    patch.setattr(NodeCluster, "is_kept", is_kept)


@canary
def silence_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    """Only a closed socket ends a link."""
    patch.setattr(OtherNode, "_look_for_silence", lambda *_: None)


@canary
def an_end_is_not_told(patch: pytest.MonkeyPatch) -> None:
    """A link that a newer one replaces is dropped without a word."""
    original = OtherNode.admit

    def admit(self: OtherNode, connection: LinkConnection, other: Any) -> None:
        if self.link is not None and other.connection is not DATA:
            self.link.is_over = True
            self.link = None
        original(self, connection, other)

    patch.setattr(OtherNode, "admit", admit)


@canary
def damage_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    """Checksums are not compared."""

    def checked(self: FrameDecoder, _: Any, at: int, end: int) -> bytes:
        return bytes(self._data[at + frame.HEAD_BYTES : end])

    patch.setattr(FrameDecoder, "_checked", checked)


@canary
def nothing_bounds_what_waits(patch: pytest.MonkeyPatch) -> None:
    """Neither gates nor bounds: what is sent waits, however much it is."""
    patch.setattr(OtherNode, "look_at_gates", lambda *_: None)
    original = NodeCluster.__init__

    def begin(self: NodeCluster, *args: Any) -> None:
        *before, bounds = args
        original(self, *before, type(bounds)(queue_bytes=1 << 40))

    patch.setattr(NodeCluster, "__init__", begin)


@canary
def a_gate_stays_shut(patch: pytest.MonkeyPatch) -> None:
    """What was held up by a link that has ended is held up for ever."""
    original = OtherNode.link_over

    def link_over(self: OtherNode, link: NodeLink, reason: str) -> None:
        gates, self.gates = self.gates, []
        original(self, link, reason)
        self.gates = gates

    patch.setattr(OtherNode, "link_over", link_over)
    patch.setattr(OtherNode, "look_at_gates", lambda self: [gate.shut() for gate in self.gates])


@canary
def a_contact_counts_from_when_it_was_heard(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat counts as answered when anything comes."""
    original = NodeLink._took_heartbeat

    def took_heartbeat(self: NodeLink, payload: bytes) -> None:
        original(self, payload)
        self.contact_ns = self.clock.now_ns()

    patch.setattr(NodeLink, "_took_heartbeat", took_heartbeat)


@canary
def a_frame_is_written_twice(patch: pytest.MonkeyPatch) -> None:
    """Now and then what is written is written again."""
    original = LinkOutbox.take

    def take(self: LinkOutbox, size: int) -> list[bytes]:
        pieces = original(self, size)
        return pieces * 2 if sum(map(len, pieces)) % 97 == 0 else pieces

    patch.setattr(LinkOutbox, "take", take)


@canary
def control_overtakes_itself(patch: pytest.MonkeyPatch) -> None:
    """What is to be sent goes before what waits."""

    def put(self: LinkOutbox, message: PeerMessage) -> None:
        self._messages.insert(1 if self._frames else 0, message)
        self.waiting_bytes += 400 + len(message.payload)

    patch.setattr(LinkOutbox, "put", put)


@canary
def one_connection_ends_alone(patch: pytest.MonkeyPatch) -> None:
    """A link goes on when one of its connections is lost."""

    def lost(self: NodeLink, connection: LinkConnection, reason: str) -> None:
        if connection.kind is not DATA:
            self.end(reason)

    patch.setattr(NodeLink, "lost", lost)


@canary
def a_suspicion_stays(patch: pytest.MonkeyPatch) -> None:
    """Nobody is trusted again."""
    patch.setattr(OtherNode, "link_heard", lambda *_: None)


@canary
def a_life_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The file of a node is replaced before its new content is durable."""

    def replace(files: Files, record: NodeRecord) -> None:
        files.delete(UNFINISHED)
        files.write(UNFINISHED, 0, encode_node_file(record))
        files.rename(UNFINISHED, PATH)

    patch.setattr(node_file, "replace_node_file", replace)


@canary
def two_found(patch: pytest.MonkeyPatch) -> None:
    """A node that hears only one other founds with it alone, whichever it is."""
    original = ClusterFounding._look

    def look(self: ClusterFounding) -> list[Any]:
        effects = original(self)
        if self.founded is None and self.greetings:
            members = [self.own] * len(self.nodes)
            for each in self.greetings.values():
                members[each.member.node - 1] = each.member
            self.founded = FoundedCluster(self.new_id, self.nodes, members)
            effects.append(KeepCluster(self.founded))
        return effects

    patch.setattr(ClusterFounding, "_look", look)
