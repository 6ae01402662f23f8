"""The encoding of a Raft group in a checkpoint. All numbers are little-endian.

    flags u32 (1: amnesiac, 2: born, 4: with commit, 8: joined) | 0 u32 | term u64 | vote u64
    | next segment u64 | segments u32 | carried u32 | snapshot, as in `codec` | segments
    | carried: raft entries, as in `codec`
    | with commit: index up to which entries are committed u64 | joined: its member u64

    segment   as in `segment`

Carried entries are in journal files before the checkpoint but in no segment, because they were not
known to be committed when the checkpoint was made.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt
from sluicemq.storage.parsing import demand
from sluicemq.storage.raft.codec import (
    ENTRIES_MAX,
    RaftEntries,
    decode_raft_entries,
    decode_raft_snapshot,
    encode_raft_entries,
    encoded_snapshot,
)
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.live_indexes import NOTHING_LIVE, LiveIndexes
from sluicemq.storage.raft.segment import decode_segments, encode_segments

if TYPE_CHECKING:
    from sluicemq.raft.entry import LogEntry

AMNESIAC: Final = 1
BORN: Final = 2
WITH_COMMIT: Final = 4
JOINED: Final = 8

GROUP_HEAD: Final = Struct("<IIQQQII")
COMMIT: Final = Struct("<Q")
MEMBER: Final = Struct("<Q")


def encode_raft_group(group: RaftGroup, cut_file: int) -> bytes:
    """Return a group for a checkpoint; the journal counts from the file `cut_file` on."""
    carried = runs_without_gaps(group.carried(cut_file))
    is_behind = max(group.snapshot.index, group.top) < group.commit
    flags = AMNESIAC * group.is_amnesiac | BORN * group.is_born | WITH_COMMIT * is_behind
    flags |= JOINED * bool(group.joined)
    counts = len(group.segments), len(carried)
    head = GROUP_HEAD.pack(flags, 0, group.term, group.vote, group.next_segment, *counts)
    parts = [head, encoded_snapshot(group.snapshot_record)]
    parts.append(encode_segments(group.segments))
    for run in carried:
        encode_raft_entries(parts, group.id, run)
    if is_behind:
        parts.append(COMMIT.pack(group.commit))
    if group.joined:
        parts.append(MEMBER.pack(group.joined))
    return b"".join(parts)


def runs_without_gaps(entries: list[LogEntry]) -> list[list[LogEntry]]:
    """Cut entries that are in order into runs with consecutive indexes, none too long for a
    record."""
    runs: list[list[LogEntry]] = []
    for entry in entries:
        if runs and len(runs[-1]) < ENTRIES_MAX and entry.index == runs[-1][-1].index + 1:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return runs


def decode_raft_group(data: bytes) -> RaftGroup:
    """Return the group in these bytes of `encode_raft_group`. Raises Corrupt for anything else."""
    try:
        return parse_raft_group(memoryview(data))
    except (struct.error, ValueError) as error:
        raise Corrupt(f"a raft group does not parse: {error}") from None


def parse_raft_group(data: memoryview) -> RaftGroup:
    """Return the group in these bytes. Raises ValueError or struct.error for anything else."""
    flags, zero, term, vote, next_segment, segments, carried = GROUP_HEAD.unpack_from(data)
    known = AMNESIAC | BORN | WITH_COMMIT | JOINED
    demand(flags <= known and zero == 0, "flags of a raft group")
    record, at = decode_raft_snapshot(data, GROUP_HEAD.size)
    group = RaftGroup(record.group)
    group.segments, at = decode_segments(data, at, segments)
    group.is_amnesiac = bool(flags & AMNESIAC)
    group.is_born = bool(flags & BORN)
    group.term, group.vote = term, vote
    group.snapshot, group.snapshot_file = record.snapshot, record.file_id
    group.snapshot_content = record.content
    group.live = LiveIndexes(record.live) if record.live else NOTHING_LIVE
    group.next_segment = next_segment
    group.last_index = max(group.snapshot.index, group.top)
    group.commit = group.last_index
    for _ in range(carried):
        entries, at = decode_raft_entries(data, at)
        demand(entries.group == group.id, "carried entries of a raft group")
        group.apply(RaftEntries(group.id, entries.entries))
    if flags & WITH_COMMIT:
        group.committed(*COMMIT.unpack_from(data, at))
        at += COMMIT.size
    if flags & JOINED:
        (group.joined,) = MEMBER.unpack_from(data, at)
        at += MEMBER.size
    demand(at == len(data), "end of a raft group")
    return group
