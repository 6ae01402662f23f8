"""The description of a Raft segment in checkpoints and the journal. Little-endian:

number u64 | file id 16 | length u64 | first u64 | last u64 | entries u32 | 0 u32
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.storage.parsing import cut, demand

if TYPE_CHECKING:
    from collections.abc import Iterable

SEGMENT: Final = Struct("<Q16sQQQI4x")


class RaftSegment(NamedTuple):
    """A segment file of a group. The first `length` bytes are durable and have `entries` entries,
    the first and the last of them with the indexes `first` and `last`. Those above the group's
    snapshot have no gap."""

    number: int
    file_id: bytes
    length: int
    first: int
    last: int
    entries: int


def encode_segments(segments: Iterable[RaftSegment]) -> bytes:
    """Return the bytes of segments, one behind the other."""
    return b"".join(SEGMENT.pack(*segment) for segment in segments)


def decode_segments(data: memoryview, at: int, count: int) -> tuple[tuple[RaftSegment, ...], int]:
    """Return `count` segments at data[at:], and where they end. Raises ValueError when they are
    missing."""
    raw = cut(data, at, SEGMENT.size * count)
    found = (*(RaftSegment(*each) for each in SEGMENT.iter_unpack(raw)),)
    demand(all(0 < each.first <= each.last for each in found), "segments of a raft group")
    return found, at + len(raw)
