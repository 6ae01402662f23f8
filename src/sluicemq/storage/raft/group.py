"""One Raft group's log on this node's disk: partly in the journal, partly in segments.

    ... snapshot | in segments ... top | held: in the journal ... last

Records change it in the order of the journal: when a group of the journal is closed, and again at a
start. A start may read records older than its checkpoint, because states in a checkpoint are newer
than the oldest journal file that stays; such a record changes nothing, or a later one undoes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sluicemq.compiling import mypyc_attr
from sluicemq.limits import (
    RAFT_SEGMENT_BYTES,
    RAFT_UNCOMMITTED_BYTES,
    RAFT_UNCOMMITTED_ENTRIES,
)
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.codec import (
    NO_FILE,
    RaftCommit,
    RaftEntries,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
)
from sluicemq.storage.raft.live_indexes import NOTHING_LIVE, LiveIndexes
from sluicemq.storage.raft.segment import RaftSegment
from sluicemq.storage.raft.segment_file import RaftSegmentWrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.storage.raft.live_places import Trimming

UNBORN = LogSnapshot(0, 0, Configuration())
"""The state of a group whose founding members are unknown."""


@mypyc_attr(acyclic=True)
class HeldEntry:
    """An entry that is not in a segment: the append of that number has put it in the journal's file
    `file`. Both are 0 for an entry of an earlier life, which the checkpoint has."""

    __slots__ = ("append", "entry", "file")

    def __init__(self, entry: LogEntry, file: int, append: int) -> None:
        self.entry = entry
        self.file = file
        self.append = append


class RaftGroup:
    """This node's part of one group's log."""

    __slots__ = (
        "closed",
        "commit",
        "held",
        "id",
        "is_amnesiac",
        "is_born",
        "joined",
        "last_index",
        "live",
        "next_segment",
        "segments",
        "snapshot",
        "snapshot_content",
        "snapshot_file",
        "synced",
        "term",
        "vote",
    )

    is_vital: ClassVar[bool] = True
    """A fault in here ends the node: see RaftStorage."""

    def __init__(self, group_id: int) -> None:
        self.id = group_id
        self.is_born = False
        """True when its founding members are known. Otherwise the group has lost something."""
        self.joined = 0
        """The member that this is, if it was added to a group; 0: it was born with the group. A
        leader's snapshot may be older than that, and not name it."""
        self.is_amnesiac = False
        """True when it has lost, or may have lost, a vote or an acknowledged entry. The member must
        say nothing any more."""
        self.term = 0
        self.vote = 0
        self.snapshot = UNBORN
        self.snapshot_file = NO_FILE
        self.snapshot_content: bytes | None = None
        """The content of the snapshot; None if it has none, or it is in a file."""
        self.live = NOTHING_LIVE
        """Indexes up to the snapshot's whose entries are still needed."""
        self.segments: tuple[RaftSegment, ...] = ()
        self.next_segment = 1
        self.closed = 0
        """The number of a segment to which nothing is added any more; 0 without one."""
        self.held: dict[int, HeldEntry] = {}
        """The entries that are in no segment, by their indexes."""
        self.last_index = 0
        self.commit = 0
        """Everything up to this index is known to be committed."""
        self.synced = 0
        """The last append that is durable, with all before it."""

    @property
    def top(self) -> int:
        """Return the last index that is in a segment; 0 without any."""
        return self.segments[-1].last if self.segments else 0

    def is_live(self, index: int) -> bool:
        """Tell whether the entry at an index is still needed."""
        return index > self.snapshot.index or index in self.live

    @property
    def snapshot_record(self) -> RaftSnapshot:
        """Return the record of the snapshot."""
        return RaftSnapshot(
            self.id,
            self.snapshot,
            self.snapshot_file,
            self.live.ranges,
            content=self.snapshot_content,
        )

    # records of the journal

    def demand(self, record: RaftRecord) -> None:
        """Assert that a record follows the present state: another one would lose something
        committed."""
        if isinstance(record, RaftEntries):
            assert record.entries[0].index == self.last_index + 1, "a log has no gap"
        elif isinstance(record, RaftTruncation):
            floor = max(self.commit, self.top, self.snapshot.index)
            assert record.start > floor, "what is committed is never truncated"
            assert record.start <= self.last_index, "there must be something to truncate"
        elif isinstance(record, TermAndVote):
            assert record.term > self.term or (
                record.term == self.term and self.vote in (0, record.vote)
            ), "one vote a term, and terms never go back"
        elif isinstance(record, RaftSnapshot) and self.is_born:
            assert record.snapshot.index > self.snapshot.index, "snapshots never go back"
            assert record.is_installed or record.snapshot.index <= self.commit, (
                "what is not committed is in no snapshot"
            )

    def apply(self, record: RaftRecord, file: int = 0, append: int = 0) -> None:
        """Apply a record, which the append of that number puts into the journal's file `file`."""
        if isinstance(record, RaftEntries):
            for entry in record.entries:
                if entry.index > self.top and self.is_live(entry.index):
                    self.held[entry.index] = HeldEntry(entry, file, append)
            self.last_index = max(record.entries[-1].index, self.snapshot.index, self.top)
        elif isinstance(record, RaftTruncation):
            self._truncate(record.start)
        elif isinstance(record, TermAndVote):
            self.term, self.vote = max((self.term, self.vote), (record.term, record.vote))
        elif isinstance(record, RaftSnapshot):
            self._snapshot(record)
        elif isinstance(record, RaftCommit):
            self.committed(record.upto)

    def _truncate(self, start: int) -> None:
        """Forget held entries from an index on; entries in a segment are committed, and stay."""
        self.held = {index: each for index, each in self.held.items() if index < start}
        self.last_index = min(self.last_index, max(start - 1, self.snapshot.index, self.top))

    def _snapshot(self, record: RaftSnapshot) -> None:
        snapshot = record.snapshot
        is_newer = snapshot.index > self.snapshot.index or not self.is_born
        if record.is_installed:
            self.held = {}
            if is_newer:
                self.segments = record.segments
                numbers = (segment.number for segment in record.segments)
                self.next_segment = max(self.next_segment, 1 + max(numbers, default=0))
            self.last_index = max(snapshot.index, self.snapshot.index, self.top)
        if not is_newer:
            return
        first = snapshot.configuration
        if not self.is_born and not first.voters and len(first.learners) == 1:
            self.joined = first.learners[0]
        self.is_born = True
        self.snapshot = snapshot
        self.snapshot_file = record.file_id
        self.snapshot_content = record.content
        self.live = LiveIndexes(record.live) if record.live else NOTHING_LIVE
        self.commit = max(self.commit, snapshot.index)
        self.last_index = max(self.last_index, snapshot.index)
        self.held = {index: each for index, each in self.held.items() if self.is_live(index)}
        self.segments = (*(each for each in self.segments if self.needs(each)),)

    def needs(self, segment: RaftSegment) -> bool:
        """Tell whether a segment may have an entry that is still needed."""
        return segment.last > self.snapshot.index or self.live.has_any(segment.first, segment.last)

    def was_synced(self, append: int) -> None:
        """Note that all appends up to this one are durable. That does not count for entries that a
        later append has replaced."""
        assert append >= self.synced, "syncs are told in order"
        self.synced = append

    def committed(self, index: int) -> None:
        """Note that everything up to an index is committed; a lower one changes nothing."""
        self.commit = max(self.commit, index)

    # to segments

    def has_held_before(self, file: int) -> bool:
        """Tell whether the first entry that is in no segment is in an earlier file of the
        journal."""
        first = next(iter(self.held.values()), None)
        return first is not None and first.file < file

    def settled(self, cut: int) -> list[LogEntry]:
        """Return the committed entries held from before the journal's file `cut`, in order: they
        must go to a segment before that part of the journal is deleted."""
        found = [
            each.entry
            for index, each in self.held.items()
            if each.file < cut and index <= self.commit and each.append <= self.synced
        ]
        return sorted(found, key=lambda entry: entry.index)

    def flush(
        self,
        cut: int,
        strand: int,
        new_file_id: Callable[[], bytes],
        entries_max: int,
        trimming: Trimming | None = None,
    ) -> RaftSegmentWrite | None:
        """Move settled entries to segments of at most `entries_max` entries, and return the job
        that makes them durable there; None without any. Entries up to the snapshot are trimmed if
        `trimming` is given. The state counts on the job from now on."""
        entries = self.settled(cut)
        trimmed: set[int] = set()
        if trimming is not None:
            entries = self._trimmed(entries, trimming, trimmed)
        if not entries:
            return None
        job = RaftSegmentWrite(self.id, strand)
        while entries:
            segment = self._segment_with_room(new_file_id, entries_max)
            count = self._fitting(segment, entries, entries_max)
            others = (each for each in self.segments if each.number != segment.number)
            self.segments = (*others, job.add(segment, entries[:count], trimmed))
            del entries[:count]
        self.held = {index: each for index, each in self.held.items() if index > self.top}
        return job

    def _trimmed(
        self, entries: list[LogEntry], trimming: Trimming, trimmed: set[int]
    ) -> list[LogEntry]:
        """Return the needed parts of entries, and add the indexes of the trimmed ones to `trimmed`.
        Entries without a needed part are forgotten."""
        found: list[LogEntry] = []
        for entry in entries:
            left = trimming.trimmed(entry) if entry.index <= self.snapshot.index else entry
            if left is None:
                del self.held[entry.index]
                continue
            if left is not entry:
                trimmed.add(entry.index)
            found.append(left)
        return found

    def _segment_with_room(self, new_file_id: Callable[[], bytes], entries_max: int) -> RaftSegment:
        newest = self.segments[-1] if self.segments else None
        if newest is not None and newest.number != self.closed:
            has_entries_left = newest.entries < entries_max
            if has_entries_left and newest.length < RAFT_SEGMENT_BYTES:
                return newest
        self.next_segment += 1
        return RaftSegment(self.next_segment - 1, new_file_id(), 0, 0, 0, 0)

    def _fitting(self, segment: RaftSegment, entries: list[LogEntry], entries_max: int) -> int:
        room = RAFT_SEGMENT_BYTES - segment.length
        count = 0
        for entry in entries[: entries_max - segment.entries]:
            if room <= 0:
                break
            room -= entry.size_bytes
            count += 1
        return max(count, 1)

    def carried(self, cut: int) -> list[LogEntry]:
        """Return the unsettled entries held from before the journal's file `cut`, in order: a
        checkpoint must carry them; the uncommitted entries of a group are bounded."""
        found = sorted(
            (each for each in self.held.values() if each.file < cut),
            key=lambda each: each.entry.index,
        )
        own = [each.entry for each in found if each.append and each.entry.kind == DATA]
        assert len(own) <= RAFT_UNCOMMITTED_ENTRIES, "a leader proposes no more"
        assert sum(len(each.data) for each in own[:-1]) <= RAFT_UNCOMMITTED_BYTES, (
            "a leader proposes no more"
        )
        return [each.entry for each in found]

    # at a start

    def close_gaps(self, logged: list[LogEntry]) -> Durable:
        """Return the state that a member finds on its disk, once everything was applied. `logged`
        are the entries of its segments above the snapshot. Entries behind a gap were lost with
        those in it."""
        entries: list[LogEntry] = []
        found = {entry.index: entry for entry in logged}
        found |= {index: each.entry for index, each in self.held.items()}
        index = self.snapshot.index + 1
        while index in found:
            entries.append(found[index])
            index += 1
        if not self.is_born or any(each > index for each in found):
            self.is_amnesiac = True
        self.held = {each: held for each, held in self.held.items() if each < index}
        self.last_index = index - 1
        return Durable(self.term, self.vote, self.snapshot, entries)
