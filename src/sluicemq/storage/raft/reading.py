"""Reading entries of segments by their indexes, while a node runs.

    RaftReads.job(group, indexes) ---RaftEntriesRead---> whoever asks, who has it run

What a job finds out on the way it leaves in its parts: where entries are, which segments are
damaged. `RaftReads` takes that from there when it is asked again.
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
"""What is read at once of more than one entry is at most so long."""
GAP_BYTES: Final = 16 * 1024
"""What is not wanted between two entries is read along when it is shorter: another read would cost
more."""

Place = tuple[int, int, int]
"""Of an entry: its index, the offset where it begins, and where it ends."""


class SegmentPart:
    """Entries of one segment of a group that somebody wants to have read: those at `places`, and
    those with the indexes `unknown`, whose places have to be learned; they are in the first bytes
    of the file, which `segment` describes. `wanted` are the indexes of both."""

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
        """Where the entries of `segment` are, when that was found out."""
        self.damage = ""
        """What is wrong with the file."""
        self.is_gone = False
        """The file was not there any more."""
        self.is_done = False

    def read(self, files: Files, group: int) -> Iterator[tuple[int, bytes]]:
        """Yield the entries' indexes and data, as far as they can be read. Raises DiskFailed, and
        Refused when a newer version wrote the file."""
        for index, record in self.records(files, group):
            yield index, bytes(record.payload[ENTRY_HEAD.size :])

    def records(self, files: Files, group: int) -> Iterator[tuple[int, Record]]:
        """Yield the entries' indexes and records, ascending, as far as they can be read. Raises
        DiskFailed, and Refused when a newer version wrote the file."""
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
    """Yield the places of those of the entries that are known."""
    for index in indexes:
        place = offsets.find(index)
        if place is not None:
            yield index, *place


def records_at(
    files: Files, group: int, segment: RaftSegment, places: list[Place]
) -> Iterator[tuple[int, Record | None]]:
    """Yield the records of entries of a segment with their indexes, None for what is damaged.
    Raises DiskFailed."""
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
    """Return entries of a file in rows, each of which is read at once."""
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
    """Reads entries of a group. `found` has their data by index. `problem` says for people what is
    wrong with what could not be read, "" when nothing is. `has_failed`: that is the disk, which may
    read it another time. `is_stale`: a segment was rewritten or removed meanwhile, so that entries
    which are not in `found` have to be asked for again."""

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
    """Reads entries that a snapshot needs, for who lacks them: those of `parts`, which are in
    segments, then those `held` in memory, until they have `bytes_max` together; at least one.
    `entries` has them, ascending. All that is needed behind `after` and up to `upto` is in there;
    where that is not above `after` nothing could be read: then `problem` says for people what is
    wrong, or it has to be asked for again."""

    def __init__(
        self, group: RaftGroup, after: int, parts: list[SegmentPart], held: list[LogEntry], end: int
    ) -> None:
        self.group = group.id
        self.snapshot_index = group.snapshot.index
        self.after = after
        self.parts = parts
        self.held = held
        self.end = end
        """All that is needed up to here is asked for."""
        self.bytes_max = 0
        self.entries: list[LogEntry] = []
        self.upto = after
        self.is_cut = False
        """Something could not be read, so that what is behind it is missing."""
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
        """Yield all of them, up to what cannot be read."""
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
    """Where entries of all groups are, as far as that is known, and what reading them has shown."""

    def __init__(self) -> None:
        self.offsets: dict[int, dict[int, EntryOffsets]] = {}
        """By group and number of the segment: of its last entries those whose places are known."""
        self.asked: dict[int, list[SegmentPart]] = {}
        """By group, what somebody reads of which there may be news."""
        self.tops: dict[int, int] = {}
        """Of each group that has written any in this life, up to where its entries in segments are
        durable."""

    def begun(self, group: RaftGroup) -> None:
        """Note that entries of a group are about to be written to segments: up to what it has there
        now they are durable."""
        self.tops.setdefault(group.id, group.top)

    def written(self, group_id: int, job: RaftSegmentWrite) -> None:
        """Note where a job writes entries of a group."""
        note_places(self.offsets.setdefault(group_id, {}), job)

    def put_in(self, group: RaftGroup, places: dict[int, EntryOffsets]) -> None:
        """Note the places of the entries that came with a snapshot, now that they are durable."""
        self.offsets.setdefault(group.id, {}).update(places)
        self.tops[group.id] = group.top
        self.prune(group)

    def live(
        self, group: RaftGroup, after: int, count_max: int, bytes_max: int
    ) -> RaftLiveRead | None:
        """Return the job that reads the first `count_max` entries behind an index that the group's
        snapshot needs, or fewer of them that have `bytes_max`; None when they are only on their way
        to a segment."""
        top = self.tops.get(group.id, group.top)
        first = islice(group.live.behind(after), count_max)
        indexes = [*takewhile(lambda index: index <= top or index > group.top, first)]
        if not indexes:
            return None
        parts = self._parts(group, [index for index in indexes if index <= top])
        held = [group.held[index].entry for index in indexes if index in group.held]
        job = RaftLiveRead(group, after, parts, held, indexes[-1])
        job.bytes_max = bytes_max
        return job

    def job(self, group: RaftGroup, indexes: list[int]) -> RaftEntriesRead | None:
        """Return the job that reads these entries, as far as they are in segments, durably; None
        when none of them is."""
        parts = self._parts(group, indexes)
        return RaftEntriesRead(group.id, parts) if parts else None

    def _parts(self, group: RaftGroup, indexes: list[int]) -> list[SegmentPart]:
        """Return the parts of segments that have these entries, as far as there are any."""
        top = self.tops.get(group.id, group.top)
        known = self.offsets.get(group.id, {})
        parts: list[SegmentPart] = []
        rest = iter(group.segments)
        segment = next(rest, None)
        for index in sorted(indexes):
            while segment is not None and segment.last < index:
                segment = next(rest, None)
            if segment is None or index > top:
                break
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
        return parts

    def news(self, group: RaftGroup) -> list[str]:
        """Take in what jobs that are done have found out, and return what is wrong with segments of
        the group that still count; each text begins with a path."""
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
        """Forget segments that the group does not have any more."""
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
    """Add the places where a job writes entries to those that are known, by their segments."""
    for number, indexes, offsets, end in job.offsets:
        more = EntryOffsets(indexes, offsets, end)
        if number in known:
            known[number].add(more)
        else:
            known[number] = more


def unlearned(segment: RaftSegment, offsets: EntryOffsets | None) -> RaftSegment | None:
    """Return the part of a segment in which the places of entries are not known, as a segment; None
    when all are. `offsets` are those that are known, at the end of it."""
    if offsets is None:
        return segment
    if offsets.begin == FILE_HEADER_SIZE:
        return None
    count = segment.entries - len(offsets)
    return segment._replace(length=offsets.begin, last=offsets.indexes[0] - 1, entries=count)


def join(
    known: dict[int, EntryOffsets], number: int, learned: EntryOffsets, segment: RaftSegment
) -> None:
    """Put what was learned of the beginning of a segment before what was known already."""
    offsets = known.get(number)
    if learned.end != (segment.length if offsets is None else offsets.begin):
        return  # somebody else has learned it meanwhile
    if offsets is not None:
        learned.add(offsets)
    known[number] = learned
