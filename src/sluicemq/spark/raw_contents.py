"""Takes apart the raw contents in one buffer, by column: bodies, properties, offsets.

There is no Python loop over messages, except for bodies of more than one frame: the bounds of parts
are computed for all messages at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sluicemq.client.messages import PROPERTIES_AT, Malformed, body_of, properties_of

Octets = bytes | bytearray | memoryview
Numbers = np.ndarray[Any, Any]

FRAME_HEAD: Final = 7
OVERHEAD: Final = 8
"""Octets of a frame besides its payload; the last of them ends the frame."""
SIZE_AT: Final = 3
"""The offset of a frame's size, which has 32 bits."""

OFFSET_HEADER: Final = "x-stream-offset"
OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
"""The field in a headers table, before the octets of the offset."""
OFFSET_SIZE: Final = 8


@dataclass(slots=True)
class ContentRun:
    """Consecutive messages with the same exchange, routing key and redelivered flag. `first` is the
    delivery tag of the first one.

    With a `stride` above 0 each message takes that many octets, and its content begins after `skip`
    of them. With 0 there are only the contents, and their sizes are kept elsewhere.
    """

    exchange: str
    routing_key: str
    redelivered: bool
    first: int
    count: int
    stride: int = 0
    skip: int = 0

    def extend(self, after: ContentRun) -> bool:
        """Take in the run that follows, and return True; False, with nothing changed, when it does
        not continue this one."""
        if (
            after.first != self.first + self.count
            or after.stride != self.stride
            or after.skip != self.skip
            or after.redelivered != self.redelivered
            or after.routing_key != self.routing_key
            or after.exchange != self.exchange
        ):
            return False
        self.count += after.count
        return True


class RawContents:
    """Takes apart the contents of the messages of `runs`, which follow one another in `data`.
    `sizes`, in octets, are those of contents without a stride."""

    def __init__(self, runs: Sequence[ContentRun], sizes: Numbers, data: Octets) -> None:
        self.data = data
        self.starts, self._ends = bounds(runs, sizes)
        self.heads = self.starts + OVERHEAD + self._numbers(self.starts + SIZE_AT)
        """The places where header frames end, and body frames begin if there are any. `starts` has
        the places where the contents begin."""
        self._properties: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def bodies(self) -> pa.Array:
        """Return the bodies as an Arrow array, without the heads and ends of their frames."""
        heads, ends = self.heads, self._ends
        empty = heads == ends
        body_sizes = self._numbers(np.where(empty, self.starts, heads) + SIZE_AT)
        if (empty | (body_sizes == ends - heads - OVERHEAD)).all():
            return self.parts(heads + np.where(empty, 0, FRAME_HEAD), ends - ~empty)
        view = memoryview(self.data)
        cuts = zip(self.starts.tolist(), ends.tolist(), strict=True)
        return pa.array([body_of(bytes(view[start:end])) for start, end in cuts], pa.binary())

    def take_offsets(self) -> Numbers:
        """Return the stream offsets, and blank them out in the properties, so that properties that
        differ in nothing else are equal. Raises `Malformed` when a message has none."""
        raws = self._raw_properties()
        places = places_of(raws, find_offset(raws[0].as_py()))
        octets = np.array(np.frombuffer(raws.buffers()[2], np.uint8))
        at = places[:, None] + np.arange(OFFSET_SIZE)
        found = octets[at].view(">i8").ravel().astype(np.int64)
        octets[at] = 0
        buffers = [*raws.buffers()[:2], pa.py_buffer(octets)]
        self._properties = pa.Array.from_buffers(raws.type, len(raws), buffers)
        return found

    def properties(self) -> tuple[list[bytes], pa.Array | None]:
        """Return the distinct encoded properties, and for each message the index of its own; None
        when all have the same."""
        found = self._raw_properties().dictionary_encode()
        kinds = found.dictionary.to_pylist()
        return kinds, found.indices if len(kinds) > 1 else None

    def _raw_properties(self) -> pa.Array:
        if self._properties is None:
            self._properties = self.parts(self.starts + PROPERTIES_AT, self.heads - 1)
        return self._properties

    def parts(self, lows: Numbers, highs: Numbers) -> pa.Array:
        """Return a copy of the slices of the data from `lows` up to, not including, `highs`, as a
        binary Arrow array."""
        edges = np.column_stack((lows, highs)).ravel().astype(np.int32)
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        both = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(edges), 2)))

    def _numbers(self, places: Numbers) -> Numbers:
        """Return the 32-bit number at each of these places."""
        count = len(self.data) - 3
        everywhere = np.ndarray((count,), ">u4", self.data, strides=(1,))
        found: Numbers = everywhere[places].astype(np.int64)
        return found


def bounds(runs: Sequence[ContentRun], sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Return where each content begins and ends in the data of the runs. `sizes`, in octets, are
    those of contents without a stride."""
    starts: list[Numbers] = []
    ends: list[Numbers] = []
    at = done = 0
    for run in runs:
        if run.stride:
            places = at + run.stride * np.arange(run.count + 1, dtype=np.int64)
            starts.append(places[:-1] + run.skip)
            ends.append(places[1:])
        else:
            some = sizes[done : done + run.count]
            done += run.count
            ends.append(at + np.cumsum(some, dtype=np.int64))
            starts.append(ends[-1] - some)
        at = int(ends[-1][-1])
    return np.concatenate(starts), np.concatenate(ends)


def places_of(raws: pa.Array, at: int) -> Numbers:
    """Return the place of the stream offset in each of these encoded properties. In the first it is
    at `at`; others of a different shape are searched. Raises `Malformed` when one has no offset."""
    lows = np.frombuffer(raws.buffers()[1], np.int32)[: len(raws)].astype(np.int64)
    octets = np.frombuffer(raws.buffers()[2], np.uint8)
    names = lows[:, None] + np.arange(at - len(OFFSET_FIELD), at)
    if names[-1, -1] + OFFSET_SIZE < len(octets):
        found = octets[names]
        # Another header's name may contain the same octets: only equal sizes are sure.
        sizes = np.diff(np.append(lows, len(octets)))
        if (sizes == sizes[0]).all() and (found == found[0]).all():
            return lows + at
    return lows + np.array([find_offset(each) for each in raws.to_pylist()], np.int64)


def find_offset(properties: bytes) -> int:
    """Return the place of the stream offset in encoded properties: the last that looks like it,
    because brokers append it. Raises `Malformed` when there is none."""
    at = properties.rfind(OFFSET_FIELD)
    if at < 0:
        raise Malformed(f"a message of a stream has no header {OFFSET_HEADER}")
    return at + len(OFFSET_FIELD)


def has_offset(content: bytes) -> bool:
    """Return whether the content carries a stream offset, as all messages of streams do."""
    return OFFSET_FIELD in properties_of(content)


def offset_of(content: bytes) -> int:
    """Return the stream offset of one content; raises `Malformed` when it has none."""
    at = PROPERTIES_AT + find_offset(properties_of(content))
    return int.from_bytes(content[at : at + OFFSET_SIZE])
