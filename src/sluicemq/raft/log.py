"""A member's log: its entries in memory, and how far they are committed and durable.

    ... snapshot.index | first entry ... commit ... durable ... last |     (durable may be < commit)

Each entry remembers the append that wrote it last. A synced append only vouches for entries that
still remember it, or an earlier one: not for an index that has been overwritten since.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicemq.raft.configuration import Configuration, decoded
from sluicemq.raft.entry import CONFIGURATION, NOOP, LogEntry, version_of
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.raft.standing import Standing


class RaftLog:
    """A log that begins with the entries found on the disk. The caller numbers appends upwards."""

    def __init__(self, snapshot: LogSnapshot, entries: Iterable[LogEntry] = ()) -> None:
        self.snapshot = snapshot
        self.last_index = snapshot.index
        """The index of the last entry; of the snapshot when there is none."""
        self.entries: list[LogEntry] = []
        """The entries above the snapshot, without a gap."""
        self.numbers: list[int] = []
        """For each entry, the append that wrote it last; 0 if it was found on the disk."""
        self.snapshot_number = 0
        """The append by which a snapshot replaced the log; 0 if it was found or taken here."""
        self.synced_number = 0
        """The last append that is durable, with all before it."""
        self.configurations = Standing(snapshot.index, snapshot.configuration)
        self.versions = Standing(snapshot.index, snapshot.version)
        self.commit = snapshot.index
        for entry in entries:
            self.append(entry, 0)
        self.durable = self.last_index
        """Entries up to here are on the disk as they are in memory."""
        self.given = self.last_index
        """Entries up to here were handed to the storage."""
        self.truncate_from = 0
        """The index from which the storage has to truncate before it gets more; 0: none."""

    @property
    def last_term(self) -> int:
        """The term of the last entry, or of the snapshot."""
        return self.entries[-1].term if self.entries else self.snapshot.term

    @property
    def configuration(self) -> Configuration:
        """The newest configuration in the log, which counts whether it is committed or not."""
        return self.configurations.current

    def term_at(self, index: int) -> int:
        """The term of an entry in the log, or of the snapshot's last one."""
        return self.snapshot.term if index == self.snapshot.index else self.entry_at(index).term

    def entry_at(self, index: int) -> LogEntry:
        """The entry at an index above the snapshot."""
        assert self.snapshot.index < index <= self.last_index, index
        return self.entries[index - self.snapshot.index - 1]

    def number_at(self, index: int) -> int:
        """The append whose sync makes everything up to this index durable."""
        if index <= self.durable:
            return 0
        if index <= self.snapshot.index:
            return self.snapshot_number
        return self.numbers[index - self.snapshot.index - 1]

    def matches(self, index: int, term: int) -> bool:
        """Whether the log has that entry. Entries in the snapshot are committed and never compared:
        the leader has them, too."""
        if index <= self.snapshot.index:
            return True
        return index <= self.last_index and self.term_at(index) == term

    def is_covered_by(self, last_index: int, last_term: int) -> bool:
        """Whether a log with that end has at least all entries of this one that may be
        committed.
        """
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def agreement_before(self, index: int, term: int) -> int:
        """The last place at or before `index` whose term here is at most `term`: behind it this log
        differs from one with `term` at `index`. Below the snapshot nothing is known."""
        index = min(index, self.last_index)
        while index >= self.snapshot.index and self.term_at(index) > term:
            index -= 1
        return index

    def between(self, start: int, entries_max: int, bytes_max: int) -> list[LogEntry]:
        """At most so many entries from `start` on; at least one, if there is one."""
        offset = start - self.snapshot.index - 1
        found = self.entries[offset : offset + entries_max]
        size_bytes = 0
        for n, entry in enumerate(found):
            size_bytes += entry.size_bytes
            if size_bytes > bytes_max and n:
                return found[:n]
        return found

    def append(self, entry: LogEntry, number: int) -> None:
        """Append an entry; the append of that number writes it."""
        assert entry.index == self.last_index + 1, "a log has no gap"
        assert entry.term >= self.last_term, "terms grow along a log"
        if entry.kind == CONFIGURATION:
            configuration = decoded(bytes(entry.data))
            known = self.configuration
            if known.voters:
                assert configuration.is_one_step_from(known), "members change one by one"
                assert configuration.has_no_former(known), "the id of a member is given once"
            self.configurations.append(entry.index, configuration)
        elif entry.kind == NOOP:
            version = version_of(entry)
            assert version >= self.versions.current, "machine versions never go back"
            self.versions.append(entry.index, version)
        self.entries.append(entry)
        self.numbers.append(number)
        self.last_index += 1

    def merge(self, entries: list[LogEntry], number: int) -> int:
        """Append a leader's entries, which follow a matching one. Entries that are here already
        stay; this log is cut off at the first that differs. Returns their last index; 0 without
        entries."""
        for n, entry in enumerate(entries):
            if not self.matches(entry.index, entry.term):
                if entry.index <= self.last_index:
                    self.truncate(entry.index)
                for new in entries[n:]:
                    self.append(new, number)
                break
        return entries[-1].index if entries else 0

    def truncate(self, start: int) -> None:
        """Cut off everything from `start` on, where a leader's log differs."""
        assert start > self.commit, "what is committed is never truncated"
        assert start <= self.last_index, "there must be something to truncate"
        kept = start - self.snapshot.index - 1
        del self.entries[kept:], self.numbers[kept:]
        self.last_index = start - 1
        self.configurations.truncate(start)
        self.versions.truncate(start)
        self.durable = min(self.durable, start - 1)
        if start <= self.given:
            self.truncate_from = min(start, self.truncate_from or start)
            self.given = start - 1

    def commit_to(self, index: int) -> None:
        """Commit everything up to this index; a lower index says nothing new."""
        assert index <= self.last_index, "what is committed cannot be missing: was the log lost?"
        self.commit = max(self.commit, index)

    def synced(self, number: int) -> None:
        """Note that all appends up to this number are durable."""
        assert number >= self.synced_number, "syncs are told in order"
        self.synced_number = number
        if self.snapshot_number <= number:
            self.durable = max(self.durable, self.snapshot.index)
        above = self.durable - self.snapshot.index
        if above >= 0:
            while above < len(self.numbers) and self.numbers[above] <= number:
                above += 1
            self.durable = self.snapshot.index + above

    def take_unwritten(self) -> tuple[int, list[LogEntry]]:
        """The storage's next work: truncate from an index on (0: nothing), then append."""
        if self.given == self.last_index and not self.truncate_from:
            return 0, []
        truncate_from, self.truncate_from = self.truncate_from, 0
        unwritten = self.entries[self.given - self.snapshot.index :]
        self.given = self.last_index
        assert not truncate_from or not unwritten or unwritten[0].index == truncate_from
        return truncate_from, unwritten

    def snapshot_at(self, index: int, size_bytes: int, live_upto: int = 0) -> LogSnapshot:
        """The metadata of a snapshot after the entry at `index`, which is committed."""
        assert self.snapshot.index < index <= self.commit
        assert live_upto <= index, "what is behind a snapshot is needed anyway"
        return LogSnapshot(
            index,
            self.term_at(index),
            self.configurations.at(index),
            self.versions.at(index),
            size_bytes,
            live_upto,
        )

    def compact(self, snapshot: LogSnapshot) -> None:
        """Let the snapshot, which is durable, replace the entries up to its index."""
        index = snapshot.index
        assert index <= min(self.commit, self.durable), "the log still needs what is not durable"
        assert self.term_at(index) == snapshot.term
        gone = index - self.snapshot.index
        assert gone > 0
        del self.entries[:gone], self.numbers[:gone]
        self.configurations.compact(index)
        self.versions.compact(index)
        self.snapshot = snapshot
        self.snapshot_number = 0

    def install(self, snapshot: LogSnapshot, number: int) -> None:
        """Replace the whole log, which lags behind it, by a leader's snapshot."""
        assert snapshot.index > self.commit, "what is committed is never replaced"
        assert not self.matches(snapshot.index, snapshot.term), "what is there is kept"
        self.durable = min(self.durable, self.commit)
        self.entries = []
        self.numbers = []
        self.snapshot = snapshot
        self.last_index = snapshot.index
        self.snapshot_number = number
        self.configurations = Standing(snapshot.index, snapshot.configuration)
        self.versions = Standing(snapshot.index, snapshot.version)
        self.commit = snapshot.index
        self.given = snapshot.index
        self.truncate_from = 0
