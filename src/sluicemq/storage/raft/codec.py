"""The journal's records of Raft groups: entries of a log, truncations, terms and votes, snapshots.
All numbers are little-endian.

    raft entries     7 u32 | count u32 | group u64 | first u64 | terms, u64 each | lengths, u32 each
                     | kinds, u8 each | data of all, one after the other
    raft truncation  8 u32 | 0 u32 | group u64 | start u64
    term and vote    9 u32 | 0 u32 | group u64 | term u64 | vote u64
    raft snapshot    10 u32 | flags u32 (1: installed, 2: with segments, 4: with content)
                     | group u64 | index u64
                     | term u64 | machine version u64 | size u64 | file id 16 | live ranges u32
                     | configuration length u32 | live ranges: first u64, last u64 each
                     | configuration | with segments: count u32, segments, as in `segment`
                     | with content: so many bytes as the size says
    raft group gone  11 u32 | 0 u32 | group u64
    raft commit      12 u32 | 0 u32 | group u64 | index u64

The entries of one record have consecutive indexes. A snapshot at index 0 founds a group.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from sluicemq.compiling import mypyc_attr
from sluicemq.raft.configuration import decoded
from sluicemq.raft.entry import CONFIGURATION, DATA, NOOP, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.parsing import cut, demand
from sluicemq.storage.raft.segment import RaftSegment, decode_segments, encode_segments

RAFT_ENTRIES: Final = 7
RAFT_TRUNCATION: Final = 8
TERM_AND_VOTE: Final = 9
RAFT_SNAPSHOT: Final = 10
RAFT_GROUP_GONE: Final = 11
RAFT_COMMIT: Final = 12

KINDS: Final = (DATA, NOOP, CONFIGURATION)
"""An entry's kind in a file is its place here, from 1 on."""

ENTRIES_MAX: Final = 1 << 16
"""The most entries of one record, and ranges of a snapshot: far beyond any append."""
INDEX_MAX: Final = (1 << 63) - 1
NO_FILE: Final = bytes(16)
"""Replaces a file's id for a snapshot without content, or with content in its record."""
INSTALLED: Final = 1
"""The flag of a snapshot that replaces the whole log."""
WITH_SEGMENTS: Final = 2
"""The flag of such a snapshot that needs entries, which came with it."""
WITH_CONTENT: Final = 4
"""The flag of a snapshot whose content is in the record."""

ENTRIES_HEAD: Final = Struct("<IIQQ")
ONE_ENTRY: Final = Struct("<QIB")
"""What is between that and the data if there is one entry, as mostly: term, length and kind."""
TRUNCATION: Final = Struct("<IIQQ")
VOTE: Final = Struct("<IIQQQ")
SNAPSHOT: Final = Struct("<IIQQQQQ16sII")
LIVE: Final = Struct("<QQ")
GONE: Final = Struct("<IIQ")
COMMIT: Final = Struct("<IIQQ")
COUNT: Final = Struct("<I")


@mypyc_attr(acyclic=True)
class RaftEntries:
    """Entries with consecutive indexes that were appended to a group's log."""

    __slots__ = ("entries", "group")

    def __init__(self, group: int, entries: list[LogEntry]) -> None:
        self.group = group
        self.entries = entries

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RaftEntries)
            and other.group == self.group
            and other.entries == self.entries
        )

    def __hash__(self) -> int:
        return hash((self.group, len(self.entries)))

    def __repr__(self) -> str:
        return f"RaftEntries({self.group}, {self.entries})"


class RaftTruncation(NamedTuple):
    """A group's log is truncated from the index `start` on."""

    group: int
    start: int


class TermAndVote(NamedTuple):
    """The term of this node's member of a group, and its vote in that term; 0 is none."""

    group: int
    term: int
    vote: int


class RaftSnapshot(NamedTuple):
    """A snapshot replaces the beginning of a group's log from now on. Its content is `content`, or,
    if that is None, in the file with the id `file_id`; NO_FILE without either. `live` are the
    ranges of indexes up to the snapshot's whose entries are still needed. A snapshot that is
    `is_installed` came from a leader and replaces the whole log; `segments` have the entries that
    it needs."""

    group: int
    snapshot: LogSnapshot
    file_id: bytes = NO_FILE
    live: tuple[range, ...] = ()
    is_installed: bool = False
    segments: tuple[RaftSegment, ...] = ()
    content: bytes | None = None


class RaftGroupGone(NamedTuple):
    """This node has no member of the group any more, for ever."""

    group: int


class RaftCommit(NamedTuple):
    """All entries of a group's log up to an index are committed, and durable here."""

    group: int
    upto: int


RaftRecord = RaftEntries | RaftTruncation | TermAndVote | RaftSnapshot | RaftGroupGone | RaftCommit


def encode_raft_entries(parts: list[bytes], group: int, entries: list[LogEntry]) -> None:
    """Append one or more entries with consecutive indexes to `parts`."""
    count = len(entries)
    first = entries[0].index
    assert 0 < count <= ENTRIES_MAX
    assert entries[-1].index == first + count - 1, "a log has no gap"
    parts.append(ENTRIES_HEAD.pack(RAFT_ENTRIES, count, group, first))
    if count == 1:
        [entry] = entries
        raw = bytes(entry.data)
        parts += (ONE_ENTRY.pack(entry.term, len(raw), KINDS.index(entry.kind) + 1), raw)
        return
    terms = [entry.term for entry in entries]
    data = [bytes(entry.data) for entry in entries]
    lengths = map(len, data)
    parts.append(struct.pack(f"<{count}Q{count}I", *terms, *lengths))
    parts.append(bytes([KINDS.index(entry.kind) + 1 for entry in entries]))
    parts.extend(data)


def encode_raft_record(parts: list[bytes], record: RaftRecord) -> None:
    """Append any record of a Raft group to `parts`."""
    if isinstance(record, RaftEntries):
        encode_raft_entries(parts, record.group, record.entries)
    elif isinstance(record, RaftTruncation):
        parts.append(TRUNCATION.pack(RAFT_TRUNCATION, 0, *record))
    elif isinstance(record, TermAndVote):
        parts.append(VOTE.pack(TERM_AND_VOTE, 0, *record))
    elif isinstance(record, RaftSnapshot):
        parts.append(encoded_snapshot(record))
    elif isinstance(record, RaftCommit):
        parts.append(COMMIT.pack(RAFT_COMMIT, 0, *record))
    else:
        parts.append(GONE.pack(RAFT_GROUP_GONE, 0, record.group))


def encoded_snapshot(record: RaftSnapshot) -> bytes:
    """Return a snapshot's record, as in the journal and in a checkpoint."""
    snapshot = record.snapshot
    members = snapshot.configuration.encoded()
    content = record.content
    assert len(record.live) <= ENTRIES_MAX
    assert content is None or (len(content), record.file_id) == (snapshot.size_bytes, NO_FILE), (
        "the content of a snapshot is whole, and in one place"
    )
    head = SNAPSHOT.pack(
        RAFT_SNAPSHOT,
        INSTALLED * record.is_installed
        | WITH_SEGMENTS * bool(record.segments)
        | WITH_CONTENT * (content is not None),
        record.group,
        snapshot.index,
        snapshot.term,
        snapshot.version,
        snapshot.size_bytes,
        record.file_id,
        len(record.live),
        len(members),
    )
    ends = [end for each in record.live for end in (each.start, each.stop - 1)]
    data = head + struct.pack(f"<{len(ends)}Q", *ends) + members
    if record.segments:
        data += COUNT.pack(len(record.segments)) + encode_segments(record.segments)
    return data if content is None else data + content


def decode_raft_entries(data: memoryview, at: int) -> tuple[RaftEntries, int]:
    """Return the entries at data[at:], and where they end. Raises ValueError or struct.error for
    anything else."""
    kind, count, group, first = ENTRIES_HEAD.unpack_from(data, at)
    demand(kind == RAFT_ENTRIES and 0 < count <= ENTRIES_MAX, "number of raft entries")
    demand(0 < first <= INDEX_MAX, "index of raft entries")
    at += ENTRIES_HEAD.size
    if count == 1:
        term, length, kind = ONE_ENTRY.unpack_from(data, at)
        demand(0 < kind <= len(KINDS), "kind of a raft entry")
        at += ONE_ENTRY.size
        raw = bytes(cut(data, at, length))
        return RaftEntries(group, [LogEntry(first, term, KINDS[kind - 1], raw)]), at + length
    numbers = struct.unpack_from(f"<{count}Q{count}I", data, at)
    at += 12 * count
    kinds = cut(data, at, count)
    demand(min(kinds) > 0 and max(kinds) <= len(KINDS), "kind of a raft entry")
    at += count
    ends = [at, *accumulate(numbers[count:], initial=at)][1:]
    cut(data, at, ends[-1] - at)
    entries = [
        LogEntry(first + n, numbers[n], KINDS[kinds[n] - 1], bytes(data[ends[n] : ends[n + 1]]))
        for n in range(count)
    ]
    return RaftEntries(group, entries), ends[-1]


def decode_raft_truncation(data: memoryview, at: int) -> tuple[RaftTruncation, int]:
    """Return the truncation at data[at:], and where it ends. Raises ValueError or struct.error for
    anything else."""
    kind, zero, group, start = TRUNCATION.unpack_from(data, at)
    demand(kind == RAFT_TRUNCATION and zero == 0 and start > 0, "raft truncation")
    return RaftTruncation(group, start), at + TRUNCATION.size


def decode_term_and_vote(data: memoryview, at: int) -> tuple[TermAndVote, int]:
    """Return the term and vote at data[at:], and where they end. Raises ValueError or struct.error
    for anything else."""
    kind, zero, group, term, vote = VOTE.unpack_from(data, at)
    demand(kind == TERM_AND_VOTE and zero == 0, "term and vote")
    return TermAndVote(group, term, vote), at + VOTE.size


def decode_raft_snapshot(data: memoryview, at: int) -> tuple[RaftSnapshot, int]:
    """Return the snapshot at data[at:], and where it ends. Raises ValueError or struct.error for
    anything else."""
    kind, flags, group, index, term, version, size, file_id, count, length = SNAPSHOT.unpack_from(
        data, at
    )
    is_known = flags & ~WITH_CONTENT in (0, INSTALLED, INSTALLED | WITH_SEGMENTS)
    demand(kind == RAFT_SNAPSHOT and is_known and count <= ENTRIES_MAX, "raft snapshot")
    at += SNAPSHOT.size
    raw = cut(data, at, LIVE.size * count)
    live = [range(first, last + 1) for first, last in LIVE.iter_unpack(raw)]
    ends = [0, *(each for some in live for each in (some.start, some.stop - 1))]
    demand(
        index <= INDEX_MAX
        and all(0 < some.start < some.stop <= index + 1 for some in live)
        and ends == sorted(ends),
        "live entries of a raft snapshot",
    )
    at += len(raw)
    try:
        configuration = decoded(bytes(cut(data, at, length)))
    except AssertionError:
        raise ValueError("wrong members of a raft snapshot") from None
    at += length
    segments: tuple[RaftSegment, ...] = ()
    if flags & WITH_SEGMENTS:
        (count,) = COUNT.unpack_from(data, at)
        demand(0 < count <= ENTRIES_MAX, "segments of a raft snapshot")
        segments, at = decode_segments(data, at + COUNT.size, count)
    content = None
    if flags & WITH_CONTENT:
        demand(file_id == NO_FILE, "content of a raft snapshot")
        content = bytes(cut(data, at, size))
        at += size
    snapshot = LogSnapshot(index, term, configuration, version, size, ends[-1])
    is_installed = bool(flags & INSTALLED)
    return RaftSnapshot(group, snapshot, file_id, (*live,), is_installed, segments, content), at


def decode_raft_group_gone(data: memoryview, at: int) -> tuple[RaftGroupGone, int]:
    """Return the record at data[at:] that a group is gone, and where it ends. Raises ValueError or
    struct.error for anything else."""
    kind, zero, group = GONE.unpack_from(data, at)
    demand(kind == RAFT_GROUP_GONE and zero == 0, "raft group gone")
    return RaftGroupGone(group), at + GONE.size


def decode_raft_commit(data: memoryview, at: int) -> tuple[RaftCommit, int]:
    """Return the commit at data[at:], and where it ends. Raises ValueError or struct.error for
    anything else."""
    kind, zero, group, index = COMMIT.unpack_from(data, at)
    demand(kind == RAFT_COMMIT and zero == 0 and index <= INDEX_MAX, "raft commit")
    return RaftCommit(group, index), at + COMMIT.size
