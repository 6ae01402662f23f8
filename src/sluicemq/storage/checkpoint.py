"""Checkpoints: what is durable at some moment, and where. Each is one file with one record.

    payload         flags u8 (1: clean) | 0 u8 | 0 u16 | queues u32 | journal first u64
                    | next message id u64 | next queue id u64 | node id 16
                    | segment entry count u32 | definitions length u32 | definitions (JSON)
                    | queue states | streams u32 | 0 u32 | streams
                    | raft groups u32 | 0 u32 | raft groups
    queue state     id u64 | next position u64 | delivered u64 | size u64 | segments u32 | marks u32
                    | segments | marks
    segment         number u64 | length u64 | file id 16 | bits length u32 | bits
    mark            next position u64 | delivered u64 | size u64, for each priority above 0 in use
    stream          queue u64 | first u64 | last u64 | end u64 | size u64, as in `entries`
    raft group      length u32 | 0 u32 | so many bytes, as in `raft/group_state.py`

All numbers are little-endian; bits are as `bits` encodes them. A file is written under another
name, made durable, and renamed: under its own name it is whole, unless the disk has damaged it. For
that case the previous one is kept.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt, Refused
from sluicemq.storage.bits import decode_bits, encode_bits
from sluicemq.storage.entries import StreamFiles
from sluicemq.storage.positions import Mark
from sluicemq.storage.records import (
    CHECKPOINT,
    FILE_HEADER_SIZE,
    FILE_ID_SIZE,
    FORMAT,
    FileHeader,
    decode_header,
    encode_record,
    read_record,
)

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

DIRECTORY: Final = "checkpoint"
SUFFIX: Final = ".ckp"
UNFINISHED: Final = ".tmp"
KEPT: Final = 2

CLEAN: Final = 1

HEAD: Final = Struct("<BBHIQQQ16sII")
QUEUE: Final = Struct("<QQQQII")
NO_STREAMS_FORMAT: Final = 2
"""Up to this format a checkpoint has no streams."""
NO_GROUPS_FORMAT: Final = 3
"""Up to this format a checkpoint has no Raft groups."""
QUEUE_1: Final = Struct("<QQQQI")
"""A queue in format 1, without marks."""
MARK: Final = Struct("<QQQ")
SEGMENT: Final = Struct("<QQ16sI")
STREAMS: Final = Struct("<II")
STREAM: Final = Struct("<QQQQQ")
GROUPS: Final = Struct("<II")
GROUP_LENGTH: Final = Struct("<II")
U64: Final = Struct("<Q")

NAME: Final = re.compile(r"(\d{1,19})\.ckp")


class SegmentState:
    """A segment file of a queue in a checkpoint. The first `length` bytes are durable. Bit i of
    `live` says that the segment's position i is in them, and not acknowledged."""

    __slots__ = ("file_id", "length", "live", "number")

    def __init__(self, number: int, length: int, file_id: bytes, live: int) -> None:
        assert len(file_id) == FILE_ID_SIZE
        self.number = number
        self.length = length
        self.file_id = file_id
        self.live = live


class QueueState:
    """A durable queue in a checkpoint. `next_position` and `delivered` are as in Mark
    (`positions.py`); `marks` are those of priorities above 0. `size` is for users: the bytes of the
    live persistent messages; what the journal adds or removes is estimated."""

    __slots__ = ("delivered", "id", "marks", "next_position", "segments", "size")

    def __init__(
        self,
        id: int,  # noqa: A002
        next_position: int,
        delivered: int,
        segments: list[SegmentState],
        size: int = 0,
        marks: Sequence[Mark] = (),
    ) -> None:
        self.id = id
        self.next_position = next_position
        self.delivered = delivered
        self.segments = segments
        self.size = size
        self.marks = [*marks]


class Checkpoint:
    """What is durable at some moment.

    Journal files before the number `journal_first` are no longer needed. `clean` says that nothing
    was written after it, because the broker stopped in order. `segment_entry_count` is the number
    of positions of a segment: without it the numbers and bits of all segments mean nothing, so the
    configured value counts for a new data directory only. `streams` has the files of each stream,
    `groups` every Raft group, encoded; `format` is that of the file it was read from.
    """

    __slots__ = (
        "clean",
        "definitions",
        "format",
        "groups",
        "journal_first",
        "next_message_id",
        "next_queue_id",
        "node_id",
        "number",
        "queues",
        "segment_entry_count",
        "streams",
    )

    def __init__(
        self,
        number: int,
        clean: bool,
        journal_first: int,
        next_message_id: int,
        next_queue_id: int,
        node_id: bytes,
        definitions: bytes,
        queues: list[QueueState],
        segment_entry_count: int,
        streams: Sequence[StreamFiles] = (),
        groups: Sequence[bytes] = (),
        format: int = FORMAT,  # noqa: A002
    ) -> None:
        assert len(node_id) == FILE_ID_SIZE
        self.number = number
        self.clean = clean
        self.journal_first = journal_first
        self.next_message_id = next_message_id
        self.next_queue_id = next_queue_id
        self.node_id = node_id
        self.definitions = definitions
        self.queues = queues
        self.segment_entry_count = segment_entry_count
        self.streams = [*streams]
        self.groups = [*groups]
        self.format = format


def checkpoint_path(number: int) -> str:
    """Return the path of the checkpoint with that number."""
    return f"{DIRECTORY}/{number:08d}{SUFFIX}"


def encode_queue_state(state: QueueState) -> bytes:
    """Return the encoding of one queue for a checkpoint; it may be kept until the queue changes."""
    counts = len(state.segments), len(state.marks)
    head = (state.id, state.next_position, state.delivered, state.size, *counts)
    parts = [QUEUE.pack(*head)]
    for segment in state.segments:
        bits = encode_bits(segment.live)
        parts.append(SEGMENT.pack(segment.number, segment.length, segment.file_id, len(bits)))
        parts.append(bits)
    parts += [MARK.pack(*mark) for mark in state.marks]
    return b"".join(parts)


def encode_checkpoint(checkpoint: Checkpoint, states: Sequence[bytes] | None = None) -> bytes:
    """Return the bytes of a checkpoint's file. `states`, when not None, has the encoded queues, and
    replaces `checkpoint.queues`."""
    if states is None:
        states = [encode_queue_state(state) for state in checkpoint.queues]
    file_id = file_id_of(checkpoint)
    head = HEAD.pack(
        CLEAN * checkpoint.clean,
        0,
        0,
        len(states),
        checkpoint.journal_first,
        checkpoint.next_message_id,
        checkpoint.next_queue_id,
        checkpoint.node_id,
        checkpoint.segment_entry_count,
        len(checkpoint.definitions),
    )
    number = checkpoint.number
    parts = [head, checkpoint.definitions, *states, STREAMS.pack(len(checkpoint.streams), 0)]
    parts += [STREAM.pack(*stream) for stream in checkpoint.streams]
    parts.append(GROUPS.pack(len(checkpoint.groups), 0))
    for group in checkpoint.groups:
        parts += (GROUP_LENGTH.pack(len(group), 0), group)
    header = FileHeader("checkpoint", file_id, number).encode()
    return header + encode_record(file_id, FILE_HEADER_SIZE, CHECKPOINT, number, parts)


def file_id_of(checkpoint: Checkpoint) -> bytes:
    """Return the id of a checkpoint's file, made of the node's id and the number: it need not be
    random because each file is written once."""
    return checkpoint.node_id[:8] + U64.pack(checkpoint.number)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint in the bytes of a whole file. Raises Corrupt when it is not whole,
    Refused when a newer version wrote it."""
    header = decode_header(data, "checkpoint")
    record = read_record(data, FILE_HEADER_SIZE, header.file_id)
    if record is None:
        raise Corrupt("the record is damaged: its CRC is wrong")
    if record.type != CHECKPOINT or record.sequence != header.number or record.end != len(data):
        raise Corrupt("there is something else than one checkpoint in the file")
    payload = record.payload.tobytes()
    try:
        fields = HEAD.unpack_from(payload)
        flags, zero, zeroes, count, journal, message, queue, node_id, entry_count, size = fields
        definitions, at = cut(payload, HEAD.size, size)
        queues: list[QueueState] = []
        for _ in range(count):
            state, at = decode_queue_state(payload, at, header.format)
            queues.append(state)
        streams, at = decode_streams(payload, at, header.format)
        groups, at = decode_groups(payload, at, header.format)
    except struct.error as error:
        raise Corrupt(f"the record does not parse: {error}") from None
    if at != len(payload) or flags > CLEAN or zero or zeroes or not entry_count:
        raise Corrupt("the record does not parse: fields that no version writes")
    clean = bool(flags)
    return Checkpoint(
        header.number,
        clean,
        journal,
        message,
        queue,
        node_id,
        definitions,
        queues,
        entry_count,
        streams,
        groups,
        header.format,
    )


def decode_streams(data: bytes, at: int, version: int) -> tuple[list[StreamFiles], int]:
    """Return the streams at data[at:] of a file of format `version`, and where they end. Raises
    Corrupt or struct.error when they are not whole."""
    if version <= NO_STREAMS_FORMAT:
        return [], at
    count, zero = STREAMS.unpack_from(data, at)
    raw, at = cut(data, at + STREAMS.size, STREAM.size * count)
    if zero:
        raise Corrupt("the record does not parse: fields that no version writes")
    return [StreamFiles(*each) for each in STREAM.iter_unpack(raw)], at


def decode_groups(data: bytes, at: int, version: int) -> tuple[list[bytes], int]:
    """Return the encoded Raft groups at data[at:] of a file of format `version`, and where they
    end. Raises Corrupt or struct.error when they are not whole."""
    groups: list[bytes] = []
    if version <= NO_GROUPS_FORMAT:
        return groups, at
    count, zero = GROUPS.unpack_from(data, at)
    at += GROUPS.size
    for _ in range(count):
        length, zeroes = GROUP_LENGTH.unpack_from(data, at)
        zero |= zeroes
        group, at = cut(data, at + GROUP_LENGTH.size, length)
        groups.append(group)
    if zero:
        raise Corrupt("the record does not parse: fields that no version writes")
    return groups, at


def decode_queue_state(data: bytes, at: int, version: int) -> tuple[QueueState, int]:
    """Return the queue at data[at:] of a file of format `version`, and where it ends. Raises
    Corrupt or struct.error when it is not whole."""
    head = QUEUE_1 if version == 1 else QUEUE
    fields = head.unpack_from(data, at)
    number, next_position, delivered, total, count = fields[:5]
    mark_count = sum(fields[5:])
    at += head.size
    segments: list[SegmentState] = []
    for _ in range(count):
        segment, length, file_id, size = SEGMENT.unpack_from(data, at)
        bits, at = cut(data, at + SEGMENT.size, size)
        segments.append(SegmentState(segment, length, file_id, decode_bits(bits)))
    raw, at = cut(data, at, MARK.size * mark_count)
    marks = [Mark(*mark) for mark in MARK.iter_unpack(raw)]
    return QueueState(number, next_position, delivered, segments, total, marks), at


def cut(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return data[at:at + size], and where it ends. Raises Corrupt when the data ends before
    that."""
    if len(data) - at < size:
        raise Corrupt(f"{size} bytes at {at} of a record of {len(data)}")
    return data[at : at + size], at + size


def write_checkpoint(
    files: Files, checkpoint: Checkpoint, states: Sequence[bytes] | None = None
) -> None:
    """Make this checkpoint the current one; then delete all except it and the one before. After
    DiskFailed either this one or the one before is current. `states` is as in encode_checkpoint."""
    path = checkpoint_path(checkpoint.number)
    unfinished = path + UNFINISHED
    files.make_directory(DIRECTORY)
    files.delete(unfinished)
    files.write(unfinished, 0, encode_checkpoint(checkpoint, states))
    files.sync(unfinished)
    files.rename(unfinished, path)
    files.sync_directory(DIRECTORY)
    names = files_in(files)
    kept = [name for _, name in numbered(names)[:KEPT]]
    old = [name for name in names if name not in kept and is_ours(name)]
    for name in old:
        files.delete(f"{DIRECTORY}/{name}")
    if old:
        files.sync_directory(DIRECTORY)


def files_in(files: Files) -> list[str]:
    """Return the names of the files in the checkpoints' directory, without directories, because no
    broker made these."""
    names = files.names(DIRECTORY)
    return [name for name in names if not files.is_directory(f"{DIRECTORY}/{name}")]


def numbered(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the names of checkpoints among these, with their numbers, newest first."""
    found = [(int(match[1]), name) for name in names if (match := NAME.fullmatch(name))]
    return sorted(found, reverse=True)


def is_ours(name: str) -> bool:
    """Tell whether a name is that of a checkpoint, finished or not."""
    return NAME.fullmatch(name.removesuffix(UNFINISHED)) is not None


def read_newest(files: Files) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest valid checkpoint, and what is wrong with newer ones. None and no problems
    means a new directory, None and problems one that has lost its state. Raises Refused when a
    newer version wrote one: an older one would undo what that version has done."""
    problems: list[str] = []
    for number, name in numbered(files_in(files)):
        path = f"{DIRECTORY}/{name}"
        try:
            checkpoint = decode_checkpoint(files.read(path, 0, files.size(path)))
            if checkpoint.number != number:
                raise Corrupt(f"it is checkpoint {checkpoint.number}")
        except Corrupt as error:
            problems.append(f"{path}: {error}")
            continue
        except Refused as refused:
            raise Refused(f"{path}: {refused}") from None
        return checkpoint, problems
    return None, problems
