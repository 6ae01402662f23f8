"""The offsets of a segment's entries in its file: four bytes of memory for each entry, and eight
more in a rewritten segment, whose indexes have gaps.

A node knows the offsets of entries written in its present life, and learns the others at the first
read, from the heads of the records alone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt
from sluicemq.storage.raft.segment_file import (
    ENTRY_TYPES,
    NOT_THE_FILE,
    is_segment,
    raft_segment_path,
)
from sluicemq.storage.records import (
    ALIGNMENT,
    FILE_HEADER_SIZE,
    RECORD_HEAD_SIZE,
    read_head,
    scan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.kernel.disk import Files
    from sluicemq.storage.raft.segment import RaftSegment

WINDOW_BYTES: Final = 64 * 1024
"""Bytes read at once to find many small records."""
HEAD_BYTES: Final = 4096
"""The same where records are larger than this: only their heads."""


class EntryOffsets:
    """The places of entries in one segment file: those with these `indexes`, ascending, at these
    `offsets`; the last of them ends at `end`. The bytes between them are damaged, if there are any.
    """

    __slots__ = ("end", "indexes", "starts")

    def __init__(self, indexes: Sequence[int], offsets: Sequence[int], end: int) -> None:
        assert len(indexes) == len(offsets) > 0
        self.indexes = compact(indexes)
        self.starts = array("I", [offset // ALIGNMENT for offset in offsets])
        """The offsets; records begin at multiples of ALIGNMENT."""
        self.end = end

    @property
    def begin(self) -> int:
        """Return the offset of the first entry."""
        return self.starts[0] * ALIGNMENT

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, index: int) -> tuple[int, int] | None:
        """Return where the entry with that index begins, and where it ends at the latest; None when
        unknown."""
        indexes = self.indexes
        if isinstance(indexes, range):
            if index not in indexes:
                return None
            at = index - indexes.start
        else:
            at = bisect_left(indexes, index)
            if at == len(indexes) or indexes[at] != index:
                return None
        starts = self.starts
        end = starts[at + 1] * ALIGNMENT if at + 1 < len(starts) else self.end
        return starts[at] * ALIGNMENT, end

    def add(self, more: EntryOffsets) -> None:
        """Add the offsets of entries that begin where these end."""
        assert self.end == more.begin, "entries are one behind the other"
        self.indexes = compact([*self.indexes, *more.indexes])
        self.starts += more.starts
        self.end = more.end


def compact(indexes: Sequence[int]) -> range | array[int]:
    """Return ascending indexes as a range when they have no gap."""
    if indexes[-1] - indexes[0] == len(indexes) - 1:
        return range(indexes[0], indexes[-1] + 1)
    return array("Q", indexes)


def learn_offsets(
    files: Files, group: int, segment: RaftSegment
) -> tuple[EntryOffsets | None, str]:
    """Return the offsets of the entries of a segment, as far as they can be found, and what is
    wrong with it, "" when nothing is. None without any entry. Raises DiskFailed, and Refused when a
    newer version wrote the file."""
    path = raft_segment_path(group, segment.number)
    try:
        if not is_segment(files.read(path, 0, FILE_HEADER_SIZE), group, segment):
            raise Corrupt(NOT_THE_FILE)
        return offsets_by_heads(files, group, segment), ""
    except Corrupt as error:
        data = files.read(path, 0, segment.length)
        sound = [each for each in scan(data, segment.file_id).records if each.type in ENTRY_TYPES]
        if not sound:
            return None, str(error)
        found = [each.sequence for each in sound], [each.offset for each in sound]
        return EntryOffsets(*found, segment.length), str(error)


def offsets_by_heads(files: Files, group: int, segment: RaftSegment) -> EntryOffsets:
    """Return the offsets of all entries of a segment, by the heads of their records alone. Raises
    Corrupt when one of them is damaged, and DiskFailed."""
    path = raft_segment_path(group, segment.number)
    window = HEAD_BYTES if segment.length > HEAD_BYTES * segment.entries else WINDOW_BYTES
    at = base = FILE_HEADER_SIZE
    data = b""
    indexes = array("Q")
    offsets: list[int] = []
    while at < segment.length:
        if at + RECORD_HEAD_SIZE > base + len(data):
            data, base = files.read(path, at, window), at
        head = read_head(data, at - base, segment.file_id, at)
        if head is None or head.type not in ENTRY_TYPES:
            raise Corrupt(f"the record at {at} is damaged")
        indexes.append(head.sequence)
        offsets.append(at)
        at += head.size
    if at != segment.length or len(offsets) != segment.entries:
        raise Corrupt(f"has {len(offsets)} of {segment.entries} entries")
    return EntryOffsets(indexes, offsets, at)
