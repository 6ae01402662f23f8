"""Entries: the contents of a group of the journal and of a block of a segment.

They follow one another without padding; the record around them has the length and the crc. All
numbers are little-endian.

    run             1 u8 | flags u8 | channel u16 | count u32 | queue u64 | first u64 | first id u64
                    | step u32 | id step u32 | size u32 | envelope length u16 | 0 u16
                    | expires: expiry u64 | envelope | mixed: sizes, u32 each | embedded: contents
    ack             2 u32 | n u32 | queue u64 | first, u64 each | step, u32 each | count, u32 each
    delivered       3 u32 | 0 u32 | queue u64 | position u64
    definition      4 u32 | length u32 | JSON
    queue deleted   5 u32 | 0 u32 | queue u64
    stream files    6 u32 | 0 u32 | queue u64 | first u64 | last u64 | end u64 | size u64
    of Raft groups  7 to 12, see raft/codec.py

Flags of a run: 1 same size, 2 persistent, 4 embedded, 8 expires. `size` is the size of each content
when all have the same, else 0. No Python statement runs for single messages in either direction:
contents are joined and cut in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate, chain
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt
from sluicemq.model.traits import message_traits
from sluicemq.storage.parsing import cut, demand
from sluicemq.storage.raft.codec import (
    RAFT_COMMIT,
    RAFT_ENTRIES,
    RAFT_GROUP_GONE,
    RAFT_SNAPSHOT,
    RAFT_TRUNCATION,
    TERM_AND_VOTE,
    RaftRecord,
    decode_raft_commit,
    decode_raft_entries,
    decode_raft_group_gone,
    decode_raft_snapshot,
    decode_raft_truncation,
    decode_term_and_vote,
)

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits

RUN: Final = 1
ACK: Final = 2
DELIVERED: Final = 3
DEFINITION: Final = 4
QUEUE_DELETED: Final = 5
STREAM_FILES: Final = 6

SAME_SIZE: Final = 1
PERSISTENT: Final = 2
EMBEDDED: Final = 4
EXPIRES: Final = 8

COUNT_MAX: Final = 1 << 20
"""The most messages of a run and ranges of an ack: far beyond any batch, and small enough for a
reader to hold."""

U64_MAX: Final = (1 << 64) - 1

RUN_HEAD: Final = Struct("<BBHIQQQIIIHH")
EXPIRY: Final = Struct("<Q")
ACK_HEAD: Final = Struct("<IIQ")
ONE_RANGE: Final = Struct("<IIQQII")
"""An ack of one range, which nearly all are where messages come alone."""
DELIVERED_ENTRY: Final = Struct("<IIQQ")
DEFINITION_HEAD: Final = Struct("<II")
QUEUE_DELETED_ENTRY: Final = Struct("<IIQ")
STREAM_FILES_ENTRY: Final = Struct("<IIQQQQQ")
RANGE_SIZE: Final = 16


class Run:
    """Messages of one queue that came in one batch, at positions `first`, `first` + `step`, …

    `contents` is None when the bodies are in the message store, under the ids `first_id`,
    `first_id` + `id_step`, …; embedded ones have a `first_id` of 0. `sizes` has the bytes of each
    content, also when all are the same (`same_size`). All `traits` except the `copies` are on the
    disk. `expiry` is the time at which the messages expire, in milliseconds since the epoch; 0
    means never.
    """

    __slots__ = (
        "contents",
        "count",
        "expiry",
        "first",
        "first_id",
        "id_step",
        "queue",
        "same_size",
        "sizes",
        "step",
        "traits",
    )

    def __init__(
        self,
        queue: int,
        first: int,
        step: int,
        count: int,
        traits: MessageTraits,
        same_size: bool,
        contents: list[bytes] | None,
        sizes: list[int],
        first_id: int = 0,
        id_step: int = 1,
        expiry: int = 0,
    ) -> None:
        self.queue = queue
        self.first = first
        self.step = step
        self.count = count
        self.traits = traits
        self.same_size = same_size
        self.contents = contents
        self.sizes = sizes
        self.first_id = first_id
        self.id_step = id_step
        self.expiry = expiry

    @property
    def positions(self) -> range:
        """Return the positions of the messages in the queue."""
        return range(self.first, self.first + self.step * self.count, self.step)

    @property
    def ids(self) -> range:
        """Return the ids of the messages in the message store; an empty range when they are
        embedded."""
        if self.contents is not None:
            return range(0)
        return range(self.first_id, self.first_id + self.id_step * self.count, self.id_step)

    def part(self, start: int, end: int) -> Run:
        """Return a run of the messages from `start` to before `end`, counted from 0."""
        assert 0 <= start < end <= self.count
        return Run(
            self.queue,
            self.first + self.step * start,
            self.step,
            end - start,
            self.traits,
            self.same_size,
            None if self.contents is None else self.contents[start:end],
            self.sizes[start:end],
            self.first_id + self.id_step * start if self.first_id else 0,
            self.id_step,
            self.expiry,
        )


class Ack(NamedTuple):
    """The messages of a queue at these positions have left it for good."""

    queue: int
    ranges: list[range]


class Delivered(NamedTuple):
    """All messages of a queue below `position`, in its row, were delivered at least once."""

    queue: int
    position: int


class Definition(NamedTuple):
    """A change of the definitions by clients, as JSON."""

    change: bytes


class QueueDeleted(NamedTuple):
    """A queue and all its messages are deleted."""

    queue: int


class StreamFiles(NamedTuple):
    """The files that a stream must have: those that begin with the offsets `first` to `last`, with
    all messages from `first` to before `end`. The newest file has at least `size` bytes."""

    queue: int
    first: int
    last: int
    end: int
    size: int

    def after(self, other: StreamFiles) -> StreamFiles:
        """Return what holds after this and `other` for one stream, in either order: each number
        only grows."""
        newest = max(self, other, key=lambda each: (each.last, each.size))
        first, end = max(self.first, other.first), max(self.end, other.end)
        return StreamFiles(self.queue, first, newest.last, end, newest.size)


Entry = Run | Ack | Delivered | Definition | QueueDeleted | StreamFiles | RaftRecord


def encode_run(parts: list[bytes], run: Run) -> int:
    """Append a run to `parts`, and return the number of bytes appended."""
    count, sizes, contents, traits = run.count, run.sizes, run.contents, run.traits
    envelope = traits.envelope
    assert 0 < count <= COUNT_MAX
    assert len(sizes) == count
    assert (contents is None) == (run.first_id > 0)
    flags = (
        SAME_SIZE * run.same_size
        | PERSISTENT * traits.persistent
        | EMBEDDED * (contents is not None)
    )
    if run.expiry:
        flags |= EXPIRES
    size = sizes[0] if run.same_size else 0
    head = RUN_HEAD.pack(
        RUN,
        flags,
        traits.channel_number,
        count,
        run.queue,
        run.first,
        run.first_id,
        run.step,
        run.id_step,
        size,
        len(envelope),
        0,
    )
    if run.expiry:
        head += EXPIRY.pack(run.expiry)
    parts.append(head + envelope)
    total = len(head) + len(envelope)
    if not run.same_size:
        parts.append(struct.pack(f"<{count}I", *sizes))
        total += 4 * count
    if contents is not None:
        assert len(contents) == count
        parts.extend(contents)
        total += size * count if run.same_size else sum(sizes)
    return total


def encode_ack(parts: list[bytes], queue: int, ranges: list[range]) -> int:
    """Append the acknowledged positions, as ascending ranges, to `parts`, and return the number of
    bytes appended."""
    if len(ranges) == 1 and ranges[0]:
        only = ranges[0]
        parts.append(ONE_RANGE.pack(ACK, 1, queue, only.start, only.step, len(only)))
        return ONE_RANGE.size
    ranges = [each for each in ranges if each]
    count = len(ranges)
    assert count <= COUNT_MAX
    firsts = [each.start for each in ranges]
    steps = [each.step for each in ranges]
    counts = [len(each) for each in ranges]
    body = struct.pack(f"<{count}Q{2 * count}I", *firsts, *steps, *counts)
    parts.append(ACK_HEAD.pack(ACK, count, queue) + body)
    return ACK_HEAD.size + len(body)


def encode_deliver(parts: list[bytes], queue: int, delivered: int) -> int:
    """Append to `parts` that positions below `delivered` were delivered, and return the number of
    bytes appended."""
    parts.append(DELIVERED_ENTRY.pack(DELIVERED, 0, queue, delivered))
    return DELIVERED_ENTRY.size


def encode_definition(parts: list[bytes], change: bytes) -> int:
    """Append a change of the definitions, as JSON, to `parts`, and return the number of bytes
    appended."""
    parts.append(DEFINITION_HEAD.pack(DEFINITION, len(change)))
    parts.append(change)
    return DEFINITION_HEAD.size + len(change)


def encode_queue_deleted(parts: list[bytes], queue: int) -> int:
    """Append to `parts` that a queue is deleted, and return the number of bytes appended."""
    parts.append(QUEUE_DELETED_ENTRY.pack(QUEUE_DELETED, 0, queue))
    return QUEUE_DELETED_ENTRY.size


def encode_stream_files(parts: list[bytes], files: StreamFiles) -> None:
    """Append to `parts` which files a stream must have."""
    parts.append(STREAM_FILES_ENTRY.pack(STREAM_FILES, 0, *files))


def decode_entries(payload: bytes | memoryview) -> list[Entry]:
    """Return all entries of a payload in order. Raises Corrupt for anything else: behind a good crc
    that is a bug of the writer, or a newer version wrote it."""
    data = memoryview(payload)
    entries: list[Entry] = []
    at = 0
    try:
        while at < len(data):
            entry, at = DECODERS[data[at]](data, at)
            entries.append(entry)
    except KeyError:
        raise Corrupt(f"entry of an unknown type {data[at]} at byte {at}") from None
    except (struct.error, ValueError) as error:
        raise Corrupt(f"entry that does not parse at byte {at}: {error}") from None
    return entries


def decode_run(data: memoryview, at: int, has_bodies: bool = True) -> tuple[Run, int]:
    """Return the run at data[at:], and where it ends; without its contents unless `has_bodies`.
    Raises ValueError or struct.error for anything else."""
    fields = RUN_HEAD.unpack_from(data, at)
    _, flags, channel_number, count, queue, first, first_id, step, id_step, size, length, zero = (
        fields
    )
    same_size, embedded = bool(flags & SAME_SIZE), bool(flags & EMBEDDED)
    demand(flags < 16 and zero == 0 and 0 < count <= COUNT_MAX and step > 0, "numbers of a run")
    demand(
        embedded == (first_id == 0) and (same_size or size == 0) and id_step > 0, "kind of a run"
    )
    demand(first + step * count <= U64_MAX, "positions of a run")
    at += RUN_HEAD.size
    expiry = 0
    if flags & EXPIRES:
        (expiry,) = EXPIRY.unpack_from(data, at)
        demand(expiry > 0, "expiry of a run")
        at += EXPIRY.size
    envelope = cut(data, at, length).tobytes()
    at += length
    if same_size:
        sizes = [size] * count
        total = size * count
    else:
        sizes = list(struct.unpack_from(f"<{count}I", data, at))
        total = sum(sizes)
        at += 4 * count
    contents = None
    if embedded:
        body = cut(data, at, total)
        if has_bodies:
            contents = (
                cut_same_size(body, size, count)
                if same_size
                else cut_mixed_sizes(body.tobytes(), sizes)
            )
        at += total
    run = Run(
        queue,
        first,
        step,
        count,
        message_traits(envelope, channel_number, bool(flags & PERSISTENT)),
        same_size,
        contents,
        sizes,
        first_id,
        id_step,
        expiry,
    )
    return run, at


def cut_same_size(body: memoryview, size: int, count: int) -> list[bytes]:
    """Return the contents of a run, each `size` bytes long."""
    if size == 0:
        return [b""] * count
    return list(chain.from_iterable(struct.iter_unpack(f"{size}s", body)))


def cut_mixed_sizes(body: bytes, sizes: list[int]) -> list[bytes]:
    """Return the contents of a run with these sizes in bytes."""
    ends = list(accumulate(sizes))
    return list(map(body.__getitem__, map(slice, [0, *ends[:-1]], ends)))


def decode_ack(data: memoryview, at: int) -> tuple[Ack, int]:
    """Return the ack at data[at:], and where it ends. Raises ValueError or struct.error for
    anything else."""
    kind, count, queue = ACK_HEAD.unpack_from(data, at)
    demand(kind == ACK and count <= COUNT_MAX, "ranges of an ack")
    at += ACK_HEAD.size
    numbers = struct.unpack_from(f"<{count}Q{2 * count}I", data, at)
    demand(0 not in numbers[count:], "a range of an ack")
    columns = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    ranges = [range(first, first + step * n, step) for first, step, n in zip(*columns, strict=True)]
    return Ack(queue, ranges), at + RANGE_SIZE * count


def decode_delivered(data: memoryview, at: int) -> tuple[Delivered, int]:
    """Return the delivered entry at data[at:], and where it ends. Raises ValueError or struct.error
    for anything else."""
    kind, zero, queue, position = DELIVERED_ENTRY.unpack_from(data, at)
    demand(kind == DELIVERED and zero == 0, "delivered entry")
    return Delivered(queue, position), at + DELIVERED_ENTRY.size


def decode_definition(data: memoryview, at: int) -> tuple[Definition, int]:
    """Return the definition at data[at:], and where it ends. Raises ValueError or struct.error for
    anything else."""
    kind, length = DEFINITION_HEAD.unpack_from(data, at)
    demand(kind == DEFINITION, "definition")
    at += DEFINITION_HEAD.size
    return Definition(cut(data, at, length).tobytes()), at + length


def decode_queue_deleted(data: memoryview, at: int) -> tuple[QueueDeleted, int]:
    """Return the queue deleted entry at data[at:], and where it ends. Raises ValueError or
    struct.error for anything else."""
    kind, zero, queue = QUEUE_DELETED_ENTRY.unpack_from(data, at)
    demand(kind == QUEUE_DELETED and zero == 0, "queue deleted entry")
    return QueueDeleted(queue), at + QUEUE_DELETED_ENTRY.size


def decode_stream_files(data: memoryview, at: int) -> tuple[StreamFiles, int]:
    """Return the stream files entry at data[at:], and where it ends. Raises ValueError or
    struct.error for anything else."""
    kind, zero, *fields = STREAM_FILES_ENTRY.unpack_from(data, at)
    demand(kind == STREAM_FILES and zero == 0, "numbers of a stream's files")
    return StreamFiles(*fields), at + STREAM_FILES_ENTRY.size


DECODERS: Final[dict[int, Callable[[memoryview, int], tuple[Entry, int]]]] = {
    RUN: decode_run,
    ACK: decode_ack,
    DELIVERED: decode_delivered,
    DEFINITION: decode_definition,
    QUEUE_DELETED: decode_queue_deleted,
    STREAM_FILES: decode_stream_files,
    RAFT_ENTRIES: decode_raft_entries,
    RAFT_TRUNCATION: decode_raft_truncation,
    TERM_AND_VOTE: decode_term_and_vote,
    RAFT_SNAPSHOT: decode_raft_snapshot,
    RAFT_GROUP_GONE: decode_raft_group_gone,
    RAFT_COMMIT: decode_raft_commit,
}
