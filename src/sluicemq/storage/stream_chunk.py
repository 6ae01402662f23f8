"""A chunk: consecutive messages of a stream, with one envelope; the unit of its log.

A chunk is a record of type CHUNK; its sequence is the offset of its first message. The payload:

    group u64 | timestamp u64 | count u32 | size u32 | channel u16 | envelope length u16 | 0 u32
              | envelope | sizes u32 x count, only when size is 0 | contents

`group` is the first offset of all chunks written for one sync, including this one: by it a reader
tells a cut-off write from damage (`stream_segment.py`). `timestamp` is the wall clock in
milliseconds of that write, and never goes back. `size` is the length of every content, 0 when they
differ. Address, contents and channel are those of a run (`entries.py`).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.stream_offsets import Packed
from sluicemq.errors import Corrupt
from sluicemq.model.traits import message_traits
from sluicemq.storage.records import CHUNK, record_in_pieces

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits
    from sluicemq.storage.records import Record

CHUNK_HEAD: Final = Struct("<QQIIHHI")


class ChunkHead:
    """A chunk without its contents; `end` is the offset behind its last message."""

    __slots__ = ("count", "first", "group", "timestamp_ms")

    def __init__(self, first: int, count: int, group: int, timestamp_ms: int) -> None:
        self.first = first
        self.count = count
        self.group = group
        self.timestamp_ms = timestamp_ms

    @property
    def end(self) -> int:
        return self.first + self.count


class StreamChunk(ChunkHead):
    """A chunk with its contents, which are raw frames as they came: they are `packed`, or a list,
    `loose`."""

    __slots__ = ("loose", "packed", "traits")

    def __init__(
        self,
        first: int,
        group: int,
        timestamp_ms: int,
        traits: MessageTraits,
        loose: list[bytes],
        packed: Packed | None = None,
    ) -> None:
        super().__init__(first, len(loose) if packed is None else packed.count, group, timestamp_ms)
        self.traits = traits
        self.loose = loose
        self.packed = packed

    @property
    def contents(self) -> list[bytes]:
        """Return the contents as they came."""
        return self.loose if self.packed is None else self.packed.cut()

    def encode(self, file_id: bytes, position: int) -> list[bytes]:
        """Return the record for exactly this position of this file, in pieces."""
        contents = self.contents
        traits = self.traits
        sizes = [len(content) for content in contents]
        same_size = sizes.count(sizes[0]) == len(sizes)
        head = CHUNK_HEAD.pack(
            self.group,
            self.timestamp_ms,
            self.count,
            sizes[0] if same_size else 0,
            traits.channel_number,
            len(traits.envelope),
            0,
        )
        parts = [head, traits.envelope]
        if not same_size:
            parts.append(Struct(f"<{len(sizes)}I").pack(*sizes))
        parts += contents
        return record_in_pieces(file_id, position, CHUNK, self.first, parts)


def decode_head(record: Record) -> ChunkHead:
    """Return the head of the chunk in a valid record of type CHUNK. Raises Corrupt when it makes no
    sense."""
    if len(record.payload) < CHUNK_HEAD.size:
        raise Corrupt("a chunk without a head")
    group, timestamp_ms, count, *_ = CHUNK_HEAD.unpack_from(record.payload)
    if not count or group > record.sequence:
        raise Corrupt("a chunk without messages, or in front of its group")
    return ChunkHead(record.sequence, count, group, timestamp_ms)


def decode_chunk(record: Record) -> StreamChunk:
    """Return the chunk in a valid record of type CHUNK. Raises Corrupt when it makes no sense."""
    return decode_contents(record, decode_head(record))


def decode_contents(record: Record, head: ChunkHead) -> StreamChunk:
    """Return the chunk in a valid record of type CHUNK, whose head was read. Raises Corrupt when it
    makes no sense."""
    payload = record.payload
    *_, size, channel_number, length, zero = CHUNK_HEAD.unpack_from(payload)
    envelope = bytes(payload[CHUNK_HEAD.size : CHUNK_HEAD.size + length])
    at = CHUNK_HEAD.size + length
    traits = message_traits(envelope, channel_number, True)
    if size:
        if zero or at + size * head.count != len(payload):
            raise Corrupt("the contents of a chunk do not fill it")
        packed = Packed(payload, at, size, head.count)
        return StreamChunk(head.first, head.group, head.timestamp_ms, traits, [], packed)
    layout = Struct(f"<{head.count}I")
    if len(payload) < at + layout.size:
        raise Corrupt("the sizes of a chunk are cut")
    ends = list(accumulate(layout.unpack_from(payload, at), initial=at + layout.size))
    if zero or ends[-1] != len(payload):
        raise Corrupt("the contents of a chunk do not fill it")
    raw = bytes(payload)
    contents = [raw[start:end] for start, end in pairwise(ends)]
    return StreamChunk(head.first, head.group, head.timestamp_ms, traits, contents)
