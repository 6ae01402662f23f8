"""A member's disk: records become durable by a sync, in order. A crash keeps some of the first
other records, and tears the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.messages import LivePiece, SnapshotPiece
from sluicemq.raft.ready import RaftReady
from sluicemq.raft.snapshot import LogSnapshot


@dataclass(frozen=True, slots=True)
class State:
    """A member's term and its vote."""

    term: int
    vote: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """The log is truncated from this index on."""

    start: int


@dataclass(frozen=True, slots=True)
class Install:
    """The snapshot made of the pieces before this record replaces the log."""

    snapshot: LogSnapshot


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot of the member's own machine."""

    snapshot: LogSnapshot
    content: bytes
    live: frozenset[int] = frozenset()
    """The entries up to its index that it needs."""


Record = State | Truncate | Install | TakenSnapshot | SnapshotPiece | LivePiece | LogEntry


@dataclass(slots=True)
class Platter:
    """The content of the disk after a crash."""

    term: int = 0
    vote: int = 0
    snapshot: LogSnapshot = field(default_factory=lambda: LogSnapshot(0, 0, Configuration()))
    content: bytes = b""
    entries: list[LogEntry] = field(default_factory=list)
    live: dict[int, LogEntry] = field(default_factory=dict)
    """The entries that the snapshot needs of those up to its index."""
    staged: bytes = b""
    staged_live: dict[int, LogEntry] = field(default_factory=dict)

    def copy(self) -> Platter:
        """Return another disk with the same content. Entries never change, so both have them."""
        return replace(
            self, entries=[*self.entries], live={**self.live}, staged_live={**self.staged_live}
        )

    def write(self, record: Record) -> None:
        """Add one record to the content."""
        if isinstance(record, LogEntry):
            assert record.index == self.last_index + 1, "the disk's log has no gap"
            self.entries.append(record)
        elif isinstance(record, State):
            self.term, self.vote = record.term, record.vote
        elif isinstance(record, Truncate):
            del self.entries[record.start - self.snapshot.index - 1 :]
        elif isinstance(record, SnapshotPiece):
            assert record.offset in (0, len(self.staged))
            self.staged = self.staged[: record.offset] + record.content
        elif isinstance(record, LivePiece):
            self.staged_live = self.staged_live if record.after else {}
            self.staged_live |= {entry.index: entry for entry in record.entries}
        elif isinstance(record, Install):
            assert len(self.staged) == record.snapshot.size_bytes, "a snapshot is whole"
            self.snapshot, self.content, self.entries = record.snapshot, self.staged, []
            upto = record.snapshot.live_upto
            self.live = {at: each for at, each in self.staged_live.items() if at <= upto}
            self.staged_live = {}
        elif record.snapshot.index > self.snapshot.index:
            gone = self.entries[: record.snapshot.index - self.snapshot.index]
            known = {**self.live, **{entry.index: entry for entry in gone}}
            self.live = {at: each for at, each in known.items() if at in record.live}
            del self.entries[: len(gone)]
            self.snapshot, self.content = record.snapshot, record.content

    @property
    def last_index(self) -> int:
        """Return the index of the last entry on the disk."""
        return self.snapshot.index + len(self.entries)

    def has(self, index: int, term: int) -> bool:
        """Tell whether that entry is here, or a snapshot that replaces it."""
        if index <= self.snapshot.index:
            return True
        return index <= self.last_index and (
            self.entries[index - self.snapshot.index - 1].term == term
        )

    def durable(self) -> Durable:
        """Return the state that a member finds when it starts."""
        return Durable(self.term, self.vote, self.snapshot, [*self.entries])


class RaftDisk:
    """A disk that does one sync at a time; records that come meanwhile are in the next one."""

    def __init__(self) -> None:
        self.platter = Platter()
        self.waiting: list[tuple[int, Record]] = []
        """Records with the number of their append, 0 for none."""
        self.syncing = 0
        """The number of these records in the present sync; 0 without one."""

    def write(self, ready: RaftReady) -> None:
        """Hand over everything that a RaftReady wants written, in its order."""
        records: list[Record] = [*ready.pieces]
        if ready.state is not None:
            records.insert(0, State(*ready.state))
        if ready.install is not None:
            records.append(Install(ready.install))
        if ready.truncate_from:
            records.append(Truncate(ready.truncate_from))
        self.waiting += ((ready.number, record) for record in (*records, *ready.entries))

    def begin_sync(self) -> bool:
        """Begin a sync, if anything needs it and none is under way."""
        if self.syncing or not self.waiting:
            return False
        self.syncing = len(self.waiting)
        return True

    def end_sync(self) -> tuple[int, list[LogSnapshot]]:
        """End the sync: return the number of the last append, and the member's own snapshots."""
        records, self.waiting = self.waiting[: self.syncing], self.waiting[self.syncing :]
        self.syncing = 0
        for _, record in records:
            self.platter.write(record)
        taken = [record.snapshot for _, record in records if isinstance(record, TakenSnapshot)]
        return max(number for number, _ in records), taken

    def crash(self, random: Random) -> int:
        """Lose unsynced records, except perhaps some of the first; return how many were lost."""
        kept = random.choice([0, random.randint(0, len(self.waiting)), len(self.waiting)])
        for _, record in self.waiting[:kept]:
            self.platter.write(record)
        lost = len(self.waiting) - kept
        self.waiting = []
        self.syncing = 0
        self.platter.staged = b""
        self.platter.staged_live = {}
        return lost
