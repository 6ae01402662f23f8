"""Rewrites segments of a Raft group to the entries that a snapshot still needs.

    old segments, less than half needed ---job---> one new segment

The group counts on the new one once it is durable. The old files stay until no usable checkpoint
refers to them. If the owner has said which messages of the entries are needed, entries are trimmed
to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt, DiskFailed, SluiceError
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import RAFT_SEGMENT_BYTES
from sluicemq.storage.raft.offsets import learn_offsets
from sluicemq.storage.raft.reading import placed, records_at
from sluicemq.storage.raft.segment import RaftSegment
from sluicemq.storage.raft.segment_file import (
    RaftSegmentWrite,
    decode_raft_entry,
    raft_segment_path,
)
from sluicemq.storage.records import FILE_HEADER_SIZE, RAFT_TRIMMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.live_indexes import LiveIndexes
    from sluicemq.storage.raft.live_places import Trimming
    from sluicemq.storage.raft.offsets import EntryOffsets

WRITE_BYTES: Final = 8 << 20
"""Bytes written at once: so much of a new segment is in memory."""
CLOSE_BYTES: Final = 1 << 20
"""A shorter segment is added to, however little of it is needed."""


class RaftRewrite(DiskJob):
    """Writes the entries of `old` segments of a group that are in `live` into a new segment,
    durably, trimmed if `trimming` is given. `made` is that segment afterwards; None when some entry
    could not be read, or there is none. `offsets` has the known places of entries in the old ones,
    by the numbers of the segments."""

    def __init__(
        self,
        group: int,
        strand: int,
        old: tuple[RaftSegment, ...],
        live: LiveIndexes,
        new: RaftSegment,
        trimming: Trimming | None,
        offsets: Mapping[int, EntryOffsets],
    ) -> None:
        self.group = group
        self.strand = strand
        self.old = old
        self.live = live
        self.new = new
        self.trimming = trimming
        self.offsets = {each.number: offsets.get(each.number) for each in old}
        self.written: list[RaftSegmentWrite] = []
        """The job that made the new segment."""
        self.made: RaftSegment | None = None
        self.problem = ""
        """The reason why nothing was made."""
        self.is_damaged = False
        """True when the reason is damage in an old segment."""

    def run(self, files: Files) -> None:
        self.written = []
        made = self.new
        pending: list[LogEntry] = []
        trimmed: set[int] = set()
        size = 0
        for entry, is_trimmed in self._entries(files):
            pending.append(entry)
            size += len(entry.data)
            if is_trimmed:
                trimmed.add(entry.index)
            if size > WRITE_BYTES:
                made = self._write(files, made, pending, trimmed)
                pending, size = [], 0
        if self.problem:
            return
        if pending:
            made = self._write(files, made, pending, trimmed)
        self.made = made if self.written else None

    def _write(
        self, files: Files, made: RaftSegment, entries: list[LogEntry], trimmed: set[int]
    ) -> RaftSegment:
        """Add entries to the new segment, and return it with them."""
        write = RaftSegmentWrite(self.group, self.strand)
        made = write.add(made, entries, trimmed)
        write.run(files)
        self.written.append(write)
        return made

    def _entries(self, files: Files) -> Iterator[tuple[LogEntry, bool]]:
        """Yield the needed entries of the old segments, and whether each is trimmed. Ends at the
        first problem. Raises DiskFailed only for what the caller does."""
        for segment in self.old:
            path = raft_segment_path(self.group, segment.number)
            read = self._needed(files, segment)
            while True:
                try:
                    found = next(read, None)
                except (SluiceError, DiskFailed) as error:
                    self.is_damaged = isinstance(error, Corrupt)
                    self.problem = f"{path}: {error}"
                    return
                if found is None:
                    break
                yield found

    def _needed(self, files: Files, segment: RaftSegment) -> Iterator[tuple[LogEntry, bool]]:
        """Yield the needed entries of one segment. Raises Corrupt when it is damaged, SluiceError
        when an entry cannot be trimmed, and DiskFailed."""
        offsets = self.offsets[segment.number]
        if offsets is None or offsets.begin != FILE_HEADER_SIZE:
            offsets, damage = learn_offsets(files, self.group, segment)
            if damage or offsets is None:
                raise Corrupt(damage or "has no entry")
        trimming = self.trimming
        places = [*placed((index for index in offsets.indexes if index in self.live), offsets)]
        for index, record in records_at(files, self.group, segment, places):
            if record is None:
                raise Corrupt(f"entry {index} is damaged")
            entry = decode_raft_entry(record)
            if trimming is None:
                yield entry, record.type == RAFT_TRIMMED
                continue
            left = trimming.trimmed(entry)
            if left is not None:
                yield left, left is not entry or record.type == RAFT_TRIMMED

    @property
    def old_paths(self) -> list[str]:
        """Return the paths of the files that are superfluous once the new one counts."""
        return [raft_segment_path(self.group, segment.number) for segment in self.old]


def needed_in(group: RaftGroup, segment: RaftSegment, trimming: Trimming | None) -> int:
    """Return roughly how many bytes of a segment are needed, whose entries are all up to the
    snapshot's."""
    if trimming is not None:
        return int(trimming.guess(segment) * trimming.factors.get(segment.number, 1))
    count = min(group.live.count(segment.first, segment.last), segment.entries)
    return segment.length * count // segment.entries


def wasteful(
    group: RaftGroup, entries_max: int, top: int, trimming: Trimming | None = None
) -> tuple[RaftSegment, ...]:
    """Return the first adjacent segments, less than half of each of which is needed, that fit into
    one of `entries_max` entries; empty without any. Entries behind the index `top` may not be
    durable yet."""
    found: list[RaftSegment] = []
    total = size = 0
    for segment in group.segments:
        count = min(group.live.count(segment.first, segment.last), segment.entries)
        needed = needed_in(group, segment, trimming)
        is_settled = segment.last <= min(group.snapshot.index, top)
        is_wasteful = is_settled and 2 * needed < segment.length
        fits = total + count <= entries_max and size + needed <= RAFT_SEGMENT_BYTES
        if is_wasteful and (fits or not found):
            found.append(segment)
            total += count
            size += needed
        elif found:
            break
    return (*found,)


def close_if_wasteful(group: RaftGroup, trimming: Trimming | None) -> None:
    """Close the newest segment when less than half of it is needed, counting entries behind the
    snapshot as needed: otherwise it would only be rewritten once full."""
    newest = group.segments[-1] if group.segments else None
    if newest is None or newest.last <= group.snapshot.index:
        return
    behind = newest.last - max(newest.first - 1, group.snapshot.index)
    fresh = newest.length * min(behind, newest.entries) // newest.entries
    needed = needed_in(group, newest, trimming) + fresh
    if newest.length >= CLOSE_BYTES and 2 * needed < newest.length:
        group.closed = newest.number


def begin_rewrite(
    group: RaftGroup,
    strand: int,
    old: tuple[RaftSegment, ...],
    file_id: bytes,
    trimming: Trimming | None,
    offsets: Mapping[int, EntryOffsets],
) -> RaftRewrite:
    """Return the job that rewrites these segments of a group, to which nothing is added
    any more.
    """
    new = RaftSegment(group.next_segment, file_id, 0, 0, 0, 0)
    group.next_segment += 1
    if group.segments[-1] in old:
        group.closed = group.segments[-1].number
    return RaftRewrite(group.id, strand, old, group.live, new, trimming, offsets)


def end_rewrite(group: RaftGroup, job: RaftRewrite) -> bool:
    """Count on a rewritten segment in place of the old ones, and tell whether that was possible: it
    is not when some of these have gone meanwhile."""
    segments = group.segments
    if job.problem or not {*job.old} <= {*segments}:
        return False
    at = segments.index(job.old[0])
    assert segments[at : at + len(job.old)] == job.old, "segments stay beside one another"
    made = () if job.made is None else (job.made,)
    group.segments = (*segments[:at], *made, *segments[at + len(job.old) :])
    return True
