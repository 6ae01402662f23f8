"""The replicator of a mirrored queue: it applies committed entries to this node's mirror. The
master proposes its entries itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.entry_kind import EntryKind
from sluicemq.chain.queue.group.member_log import pieces_in, wrapped
from sluicemq.chain.queue.group.shared_log import SharedLog
from sluicemq.chain.queue.group.snapshot_taker import SnapshotTaker
from sluicemq.queues.mirrored.commands import MirrorCommand, MirrorEffect
from sluicemq.queues.mirrored.entry_content import (
    MirrorCodec,
    MirrorContent,
    content_of,
    trimmed_entry,
)
from sluicemq.queues.mirrored.snapshot import MACHINE_VERSION
from sluicemq.raft.messages import AppendEntries
from sluicemq.replication.majority import Majority

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.kernel.world import Clock
    from sluicemq.queues.mirrored.mirror import Mirror
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.replication.state_owner import StateOwner

CODEC: Final = MirrorCodec()
MIRROR_ENTRIES: Final = EntryKind(content=content_of, trim=trimmed_entry, version=MACHINE_VERSION)


SNAPSHOT_ENTRIES: Final = 1024
"""Entries behind the last snapshot for which a member takes another one: until then each is some
kilobytes of RAM in every member, of each queue. A snapshot of a short queue costs as much as two or
three entries."""
SNAPSHOT_BYTES: Final = 4 << 20
"""The same in bytes."""


class MirrorReplicator(Majority[MirrorCommand, MirrorEffect]):
    """Applies committed entries to a mirror."""

    __slots__ = ("_shared_log", "ram_bytes")

    def __init__(
        self,
        mirror: Mirror,
        effects: list[MirrorEffect],
        owner: StateOwner[MirrorCommand],
        raft: Raft,
        log: SharedLog,
        clock: Clock,
    ) -> None:
        super().__init__(mirror, effects, owner, raft, log, CODEC, clock)
        self._shared_log = log
        self.ram_bytes = 0
        """The bytes of applied entries that stay in RAM because no segment has them yet."""

    def propose_commands(self, commands: list[MirrorCommand]) -> tuple[int, int]:
        """Propose an entry as the leader, which must take proposals. Returns its index and its
        bytes."""
        content = CODEC.encode(commands, self._clock.wall_ms())
        index = self.raft.propose(content)
        assert index, "a leader that takes proposals has taken one"
        return index, len(content)

    def step(self, message: RaftMessage) -> None:
        """Take in another member's message; the consequences follow at the end of the turn."""
        if isinstance(message, AppendEntries):
            message.entries = wrapped(message.entries, MIRROR_ENTRIES)
        self.raft.step(message)

    def turn_ended(self) -> None:
        """Do the member's work, if there is any."""
        if self.raft.has_work:
            self.pump()

    def committed(self, entry: LogEntry) -> None:
        super().committed(entry)
        self._keep(entry)

    def replay(self, entry: LogEntry) -> None:
        super().replay(entry)
        self._keep(entry)

    def _keep(self, entry: LogEntry) -> None:
        content = entry.data
        assert isinstance(content, MirrorContent), "entries are wrapped when they come"
        content.was_written()
        self.ram_bytes += content.size

    def let_go(self, top: int) -> None:
        """Drop the bytes of entries up to an index, which are on the disk. Entries found at the
        start may be on the disk and not applied yet: they stay."""
        top = min(top, self.raft.applied)
        for entry in self.raft.member.log.entries:
            if entry.index > top:
                break
            if isinstance(entry.data, MirrorContent):
                entry.data.let_go()

    def recount(self, held: Iterable[LogEntry]) -> None:
        """Count the entries in RAM anew: those of these entries that were applied."""
        applied = self.raft.applied
        self.ram_bytes = sum(len(entry.data) for entry in held if entry.index <= applied)

    def installed(self, snapshot: LogSnapshot) -> None:
        owner = self._owner()
        assert isinstance(owner, SnapshotTaker), "a member among several without its owner"
        owner.overtaken()
        self.machine.restore(pieces_in(self._shared_log.take_incoming()))
        self.ram_bytes = 0
        owner.put_in()
