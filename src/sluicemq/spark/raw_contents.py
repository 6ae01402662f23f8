"""Raw contents that stand in one buffer, taken apart by column: bodies, properties, offsets.

Nothing is done a message in Python, but for bodies of more than one frame: where parts begin and
end is reckoned for all messages at once.
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
"""Octets of a frame besides its payload; the last of them ends it."""
SIZE_AT: Final = 3
"""Where a frame's size stands, 32 bits."""

OFFSET_HEADER: Final = "x-stream-offset"
OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
"""As it stands in a headers table, before the octets of the offset."""
OFFSET_SIZE: Final = 8


@dataclass(slots=True)
class Run:
    """Consecutive messages that came with the same words. `first` is a delivery tag.

    With a `stride`, each stands in so many octets as it came, and its content begins after `skip`
    of them; without, only the contents are there, and their sizes are said elsewhere.
    """

    exchange: str
    routing_key: str
    redelivered: bool
    first: int
    count: int
    stride: int = 0
    skip: int = 0

    def extend(self, after: Run) -> bool:
        """Take in the run that came next, if it is of the same kind."""
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
    """The contents of `runs` in `data`; `sizes`, in octets, are of those without a stride."""

    def __init__(self, runs: Sequence[Run], sizes: Numbers, data: Octets) -> None:
        self.data = data
        self.starts, self._ends = bounds(runs, sizes)
        self.heads = self.starts + OVERHEAD + self._numbers(self.starts + SIZE_AT)
        """Where header frames end, and body frames begin unless there are none. `starts` is where
        the contents begin."""
        self._properties: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def bodies(self) -> pa.Array:
        """The bodies, without their frames."""
        heads, ends = self.heads, self._ends
        empty = heads == ends
        body_sizes = self._numbers(np.where(empty, self.starts, heads) + SIZE_AT)
        if (empty | (body_sizes == ends - heads - OVERHEAD)).all():
            return self.parts(heads + np.where(empty, 0, FRAME_HEAD), ends - ~empty)
        view = memoryview(self.data)
        cuts = zip(self.starts.tolist(), ends.tolist(), strict=True)
        return pa.array([body_of(bytes(view[start:end])) for start, end in cuts], pa.binary())

    def take_offsets(self) -> Numbers:
        """The stream offsets. They are blanked out, so that the properties of messages that differ
        in nothing else are equal."""
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
        """The different encoded properties, and which each message has (None: all the one)."""
        found = self._raw_properties().dictionary_encode()
        kinds = found.dictionary.to_pylist()
        return kinds, found.indices if len(kinds) > 1 else None

    def _raw_properties(self) -> pa.Array:
        if self._properties is None:
            self._properties = self.parts(self.starts + PROPERTIES_AT, self.heads - 1)
        return self._properties

    def parts(self, lows: Numbers, highs: Numbers) -> pa.Array:
        """A copy of these slices. Arrow sees the data as slices and gaps in turn, and takes every
        other."""
        edges = np.column_stack((lows, highs)).ravel().astype(np.int32)
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        both = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(edges), 2)))

    def _numbers(self, places: Numbers) -> Numbers:
        """The 32 bits at each of these places."""
        count = len(self.data) - 3
        everywhere = np.ndarray((count,), ">u4", self.data, strides=(1,))
        found: Numbers = everywhere[places].astype(np.int64)
        return found


def bounds(runs: Sequence[Run], sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Where each content begins and ends."""
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
    """Where the offset stands in the octets of each of these encoded properties; in the first it is
    at `at`, and mostly in all of them."""
    lows = np.frombuffer(raws.buffers()[1], np.int32)[: len(raws)].astype(np.int64)
    octets = np.frombuffer(raws.buffers()[2], np.uint8)
    names = lows[:, None] + np.arange(at - len(OFFSET_FIELD), at)
    if names[-1, -1] + OFFSET_SIZE < len(octets):
        found = octets[names]
        # Where a name stands there may stand another behind it: only equal sizes are sure.
        sizes = np.diff(np.append(lows, len(octets)))
        if (sizes == sizes[0]).all() and (found == found[0]).all():
            return lows + at
    return lows + np.array([find_offset(each) for each in raws.to_pylist()], np.int64)


def find_offset(properties: bytes) -> int:
    """Where the offset stands in encoded properties. Brokers append it, so the last place that
    looks like it is it."""
    at = properties.rfind(OFFSET_FIELD)
    if at < 0:
        raise Malformed(f"a message of a stream has no header {OFFSET_HEADER}")
    return at + len(OFFSET_FIELD)


def has_offset(content: bytes) -> bool:
    """Does the content carry what a stream's messages carry?"""
    return OFFSET_FIELD in properties_of(content)


def offset_of(content: bytes) -> int:
    """The stream offset of one content."""
    at = PROPERTIES_AT + find_offset(properties_of(content))
    return int.from_bytes(content[at : at + OFFSET_SIZE])
