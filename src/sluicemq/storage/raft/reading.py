"""Reads entries of segments by their indexes, while a node runs.

    RaftReads.job(group, indexes) ---RaftEntriesRead---> the caller, who submits it

A job keeps its findings in its parts: the places of entries, and damaged segments. `RaftReads`
takes them from there at the next call.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.raft.offsets import EntryOffsets, learn_offsets
from sluicemq.storage.raft.segment_file import (
    ENTRY_HEAD,
    ENTRY_TYPES,
    decode_raft_entry,
    raft_directory,
    raft_segment_path,
)
from sluicemq.storage.records import FILE_HEADER_SIZE, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.segment import RaftSegment
    from sluicemq.storage.raft.segment_file import RaftSegmentWrite
    from sluicemq.storage.records import Record

SPAN_BYTES: Final = 1 << 20
"""The most bytes of several entries read at once."""
GAP_BYTES: Final = 16 * 1024
"""Shorter gaps between two entries are read along: another read would cost more."""

Place = tuple[int, int, int]
"""An entry's index, the offset where it begins, and where it ends."""


class SegmentPart:
    """Entries of one segment of a group to be read: those at `places`, and those with the indexes
    `unknown`, whose places must be learned; they are in the first bytes of the file, which
    `segment` describes. `wanted` are the indexes of both."""

    __slots__ = (
        "damage",
        "is_done",
        "is_gone",
        "learned",
        "places",
        "segment",
        "unknown",
        "wanted",
    )

    def __init__(self, segment: RaftSegment) -> None:
        self.segment = segment
        self.wanted: list[int] = []
        self.places: list[Place] = []
        self.unknown: list[int] = []
        self.learned: EntryOffsets | None = None
        """The places of the entries of `segment`, once known."""
        self.damage = ""
        """What is wrong with the file."""
        self.is_gone = False
        """The file no longer existed."""
        self.is_done = False

    def read(self, files: Files, group: int) -> Iterator[tuple[int, bytes]]:
        """Yield the indexes and data of the readable entries. Raises DiskFailed, and Refused when a
        newer version wrote the file."""
        for index, record in self.records(files, group):
            yield index, bytes(record.payload[ENTRY_HEAD.size :])

    def records(self, files: Files, group: int) -> Iterator[tuple[int, Record]]:
        """Yield the indexes and records of the readable entries, ascending. Raises DiskFailed, and
        Refused when a newer version wrote the file."""
        if files.size(raft_segment_path(group, self.segment.number)) < 0:
            self.is_gone = True
            return
        if self.unknown:
            self.learned, self.damage = learn_offsets(files, group, self.segment)
            if self.learned is not None:
                self.places += placed(self.unknown, self.learned)
        for index, record in records_at(files, group, self.segment, self.places):
            if record is None:
                self.damage = self.damage or f"entry {index} is damaged"
            else:
                yield index, record


def placed(indexes: Iterable[int], offsets: EntryOffsets) -> Iterator[Place]:
    """Yield the known places of these entries."""
    for index in indexes:
        place = offsets.find(index)
        if place is not None:
            yield index, *place


def records_at(
    files: Files, group: int, segment: RaftSegment, places: list[Place]
) -> Iterator[tuple[int, Record | None]]:
    """Yield the indexes and records of entries of a segment; a record is None when damaged. Raises
    DiskFailed."""
    path = raft_segment_path(group, segment.number)
    for span in spans(places):
        start = span[0][1]
        data = files.read(path, start, span[-1][2] - start)
        for index, at, _ in span:
            record = read_record(data, at - start, segment.file_id, start)
            if record is None or record.type not in ENTRY_TYPES or record.sequence != index:
                yield index, None
            else:
                yield index, record


def spans(places: list[Place]) -> list[list[Place]]:
    """Return entries of a file in groups, each of which is read at once."""
    found: list[list[Place]] = []
    start = end = 0
    for place in sorted(places):
        _, at, stop = place
        if found and at - end <= GAP_BYTES and stop - start <= SPAN_BYTES:
            found[-1].append(place)
        else:
            found.append([place])
            start = at
        end = stop
    return found


class RaftEntriesRead(DiskJob):
    """Reads entries of a group. `found` has their data by index. `problem` says for users what is
    wrong with unreadable ones, "" when nothing is. `has_failed` means that the disk has failed,
    which may read them another time. `is_stale` means that a segment was rewritten or removed
    meanwhile, so that entries not in `found` must be requested again."""

    def __init__(self, group: int, parts: list[SegmentPart]) -> None:
        self.group = group
        self.parts = parts
        self.problem = ""
        self.found: dict[int, bytes] = {}
        self.has_failed = False
        self.is_stale = False

    def run(self, files: Files) -> None:
        for part in self.parts:
            path = raft_segment_path(self.group, part.segment.number)
            try:
                self.found.update(part.read(files, self.group))
            except DiskFailed as failure:
                self.problem = self.problem or f"{path} cannot be read ({failure.code})"
                self.has_failed = True
            self.is_stale |= part.is_gone
            problem = part.damage
            if not part.is_gone and (missing := {*part.wanted}.difference(self.found)):
                problem = problem or f"entry {min(missing)} is not in there"
            if problem:
                self.problem = self.problem or f"{path}: {problem}"
            part.is_done = True


class RaftLiveRead(DiskJob):
    """Reads entries that a snapshot needs, for a member that lacks them: those of `parts`, which
    are in segments, then those `held` in memory, until they have `bytes_max` together; at least
    one. `entries` has them, ascending, and is complete behind `after` up to `upto`; if that is not
    above `after` nothing could be read: then `problem` says for users what is wrong, or the read
    must be repeated."""

    def __init__(
        self, group: RaftGroup, after: int, parts: list[SegmentPart], held: list[LogEntry], end: int
    ) -> None:
        self.group = group.id
        self.snapshot_index = group.snapshot.index
        self.after = after
        self.parts = parts
        self.held = held
        self.end = end
        """All needed entries up to here are requested."""
        self.bytes_max = 0
        self.entries: list[LogEntry] = []
        self.upto = after
        self.is_cut = False
        """An entry could not be read, so that those behind it are missing."""
        self.problem = ""

    def run(self, files: Files) -> None:
        self.entries = []
        self.upto = self.after
        size = 0
        for entry in self._all(files):
            size += entry.size_bytes
            if self.entries and size > self.bytes_max:
                break
            self.entries.append(entry)
            self.upto = entry.index
        else:
            self.upto = self.upto if self.is_cut else self.end
        for part in self.parts:
            part.is_done = True

    def _all(self, files: Files) -> Iterator[LogEntry]:
        """Yield all entries, up to the first unreadable one."""
        self.is_cut = True
        for part in self.parts:
            path = raft_segment_path(self.group, part.segment.number)
            try:
                for _, record in part.records(files, self.group):
                    if part.damage:
                        break
                    yield decode_raft_entry(record)
            except DiskFailed as failure:
                self.problem = f"{path} cannot be read ({failure.code})"
                return
            if part.damage:
                self.problem = f"{path}: {part.damage}"
            if part.damage or part.is_gone:
                return
        self.is_cut = False
        yield from self.held


class RaftReads:
    """The known places of entries of all groups, and the findings of reads."""

    def __init__(self) -> None:
        self.offsets: dict[int, dict[int, EntryOffsets]] = {}
        """By group and number of the segment: the last entries whose places are known."""
        self.asked: dict[int, list[SegmentPart]] = {}
        """By group, reads under way that may have findings."""
        self.tops: dict[int, int] = {}
        """By group that has written to segments in this life, the last durable entry in
        segments.
        """

    def begun(self, group: RaftGroup) -> None:
        """Note that entries of a group are about to be written to segments: those already in them
        are durable."""
        self.tops.setdefault(group.id, group.top)

    def written(self, group_id: int, job: RaftSegmentWrite) -> None:
        """Note the places to which a job writes entries of a group."""
        note_places(self.offsets.setdefault(group_id, {}), job)

    def put_in(self, group: RaftGroup, places: dict[int, EntryOffsets]) -> None:
        """Note the places of the entries that came with a snapshot, because they are
        durable now.
        """
        self.offsets.setdefault(group.id, {}).update(places)
        self.tops[group.id] = group.top
        self.prune(group)

    def live(
        self, group: RaftGroup, after: int, count_max: int, bytes_max: int
    ) -> RaftLiveRead | None:
        """Return the job that reads the first `count_max` entries behind an index that the group's
        snapshot needs, or fewer of them that have `bytes_max`; None when they are still on the way
        to a segment."""
        top = self.tops.get(group.id, group.top)
        first = islice(group.live.behind(after), count_max)
        indexes = [*takewhile(lambda index: index <= top or index > group.top, first)]
        if not indexes:
            return None
        parts, _ = self._parts(group, [index for index in indexes if index <= top])
        held = [group.held[index].entry for index in indexes if index in group.held]
        job = RaftLiveRead(group, after, parts, held, indexes[-1])
        job.bytes_max = bytes_max
        return job

    def job(self, group: RaftGroup, indexes: list[int]) -> RaftEntriesRead | None:
        """Return the job that reads those of these entries that are durable in segments; None
        without any. Those before all entries of the next segment are there no longer: that is a
        problem of who asks, and none of the segment, which may not even be written yet."""
        parts, absent = self._parts(group, indexes)
        if not (parts or absent):
            return None
        job = RaftEntriesRead(group.id, parts)
        if absent:
            job.problem = f"{raft_directory(group.id)}: entry {absent[0]} is in no segment"
        return job

    def _parts(self, group: RaftGroup, indexes: list[int]) -> tuple[list[SegmentPart], list[int]]:
        """Return the parts of segments that have these entries, and the entries that are not in the
        segment where they would be."""
        top = self.tops.get(group.id, group.top)
        known = self.offsets.get(group.id, {})
        parts: list[SegmentPart] = []
        absent: list[int] = []
        rest = iter(group.segments)
        segment = next(rest, None)
        for index in sorted(indexes):
            while segment is not None and segment.last < index:
                segment = next(rest, None)
            if segment is None or index > top:
                break
            if index < segment.first:
                absent.append(index)
                continue
            offsets = known.get(segment.number)
            place = None if offsets is None else offsets.find(index)
            unknown = unlearned(segment, offsets)
            if not parts or parts[-1].segment.number != segment.number:
                parts.append(SegmentPart(unknown or segment))
            parts[-1].wanted.append(index)
            if place is not None:
                parts[-1].places.append((index, *place))
            elif unknown is not None:
                parts[-1].unknown.append(index)
        if parts:
            self.asked.setdefault(group.id, []).extend(parts)
        return parts, absent

    def news(self, group: RaftGroup) -> list[str]:
        """Take the findings of finished jobs, and return what is wrong with segments of the group
        that still count; each text begins with a path."""
        asked = self.asked.pop(group.id, [])
        self.prune(group)
        segments = {segment.number: segment for segment in group.segments}
        known = self.offsets.setdefault(group.id, {})
        found: list[str] = []
        for part in asked:
            number = part.segment.number
            if not part.is_done:
                self.asked.setdefault(group.id, []).append(part)
            elif number in segments:
                if part.learned is not None:
                    join(known, number, part.learned, segments[number])
                problem = part.damage or "is missing" * part.is_gone
                if problem:
                    found.append(f"{raft_segment_path(group.id, number)}: {problem}")
        return found

    def prune(self, group: RaftGroup) -> None:
        """Forget segments that the group no longer has."""
        numbers = {segment.number for segment in group.segments}
        known = self.offsets.get(group.id, {})
        for number in [*known]:
            if number not in numbers:
                del known[number]

    def forget(self, group_id: int) -> None:
        """Forget a group that is gone."""
        for known in (self.offsets, self.asked, self.tops):
            known.pop(group_id, None)


def note_places(known: dict[int, EntryOffsets], job: RaftSegmentWrite) -> None:
    """Add the places to which a job writes entries to the known ones, by their segments."""
    for number, indexes, offsets, end in job.offsets:
        more = EntryOffsets(indexes, offsets, end)
        if number in known:
            known[number].add(more)
        else:
            known[number] = more


def unlearned(segment: RaftSegment, offsets: EntryOffsets | None) -> RaftSegment | None:
    """Return the part of a segment in which the places of entries are unknown, as a segment; None
    without one. `offsets` are the known ones, at its end."""
    if offsets is None:
        return segment
    if offsets.begin == FILE_HEADER_SIZE:
        return None
    count = segment.entries - len(offsets)
    return segment._replace(length=offsets.begin, last=offsets.indexes[0] - 1, entries=count)


def join(
    known: dict[int, EntryOffsets], number: int, learned: EntryOffsets, segment: RaftSegment
) -> None:
    """Put the learned places of the beginning of a segment before the known ones."""
    offsets = known.get(number)
    if learned.end != (segment.length if offsets is None else offsets.begin):
        return  # another job has learned it meanwhile
    if offsets is not None:
        learned.add(offsets)
    known[number] = learned
