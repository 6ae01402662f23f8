"""A member of a mirrored queue's group with its log in a real storage: bodies are read from it, and
needed parts of entries stay in it, and are sent to laggards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluicemq.queues.mirrored.command_codec import runs_of, trimmed
from sluicemq.sim.raft.live_register import NeedyRegister
from sluicemq.sim.raft.mirrored_member import MirroredMember, MirrorRegister
from sluicemq.sim.raft.promise import rule
from sluicemq.sim.raft.stored_disk import StoredDisk
from sluicemq.sim.raft.stored_member import StoredMember
from sluicemq.storage.raft.live_places import LivePlaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.sim.raft.disk import RaftDisk


class StoredMirrorRegister(MirrorRegister, NeedyRegister):
    """A mirror that names what it needs of the log."""

    @property
    def live(self) -> frozenset[int]:
        return frozenset(index for index, _ in self.mirror.live())

    def places(self, entries: dict[int, bytes]) -> LivePlaces:
        found = LivePlaces()
        for index, places in self.mirror.live():
            found.add(index, places, len(self.trim(entries[index], places)))
        return found

    @staticmethod
    def trim(data: bytes, places: Sequence[range]) -> bytes:
        return trimmed(data, places)


class MirrorDisk(StoredDisk):
    """A disk on which entries shrink as messages leave: checks look at what is left when they read
    it."""

    needed_of: Callable[[bytes], bytes] = staticmethod(lambda _: b"")


class StoredMirror(MirroredMember, StoredMember):
    """A mirror that reads bodies from its own log."""

    disk_type: Callable[[], RaftDisk] = MirrorDisk
    register_type = StoredMirrorRegister
    register: StoredMirrorRegister
    disk: StoredDisk

    def entries(self, indexes: list[int]) -> list[bytes]:
        """Read entries from this member's own log, which must have everything that is in the queue.
        Entries on the way to a segment, or to the disk, are in the storage's RAM."""
        found = self.node.has_of(indexes)
        needed = dict(self.register.mirror.live())
        read: list[bytes] = []
        for index in indexes:
            agreed = self.checkers.entries[index]
            data = found.get(index)
            is_there = index in found or index > self.disk.platter.last_index
            rule(is_there, f"entry {index} is missing at {self.name}, and its messages are not")
            rule(index in needed, f"entry {index} has messages, and {self.name} does not name it")
            if data is not None:
                places = needed[index]
                same = bodies_in(trimmed(data, places)) == bodies_in(trimmed(agreed, places))
                rule(same, f"{self.name} has read other messages than entry {index} has")
            read.append(agreed if data is None else data)
        return read


def bodies_in(data: bytes) -> dict[int, bytes]:
    """Return the contents of an entry by position."""
    return {
        position: content
        for _, run in runs_of(data)
        for position, content in zip(run.positions, run.contents or (), strict=True)
    }
