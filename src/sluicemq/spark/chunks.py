"""Chunks of messages, which the driver's side gathers from a queue and executors fetch.

On the socket a chunk is a line of JSON and two blocks:

    {"queue": .., "rows": n, "ragged": k, "octets": m,
     "runs": [[exchange, key, redelivered, first tag, count, stride, skip]..]}          (one line)
    k sizes of the contents without a stride, 32 bits each, in the machine's order
    m octets, the messages of all runs one after the other (`raw_contents.ContentRun`)
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from io import BufferedReader
from typing import Any, Final

import numpy as np

from sluicemq.client.consuming import Deliveries
from sluicemq.spark.message_ids import message_ids
from sluicemq.spark.raw_contents import ContentRun, Numbers, Octets, RawContents, bounds

SIZE_TYPE: Final = "I"
Message = tuple[ContentRun, bytes]
"""A message: a run of one, and its content."""

LINE_MAX_BYTES: Final = 64 * 1024 * 1024


class GatheredChunk:
    """Holds consecutive messages of one consumer, in the order they came.

    `generation` numbers the consumer's connections, because a delivery tag is valid only on its own
    connection.
    """

    __slots__ = ("_parts", "_sizes", "bytes", "generation", "queue", "rejected", "rows", "runs")

    def __init__(self, queue: str, generation: int) -> None:
        self.queue = queue
        self.generation = generation
        self.rows = 0
        self.bytes = 0
        """The sum of the contents' sizes."""
        self.runs: list[ContentRun] = []
        self.rejected: Sequence[int] = ()
        """Rows that become dead letters when the others are acknowledged."""
        self._sizes = array(SIZE_TYPE)
        self._parts: list[bytes | memoryview] = []

    def add(self, event: Deliveries, low: int, high: int) -> None:
        """Append the messages of a run from index `low` up to, not including, `high`."""
        count = high - low
        run = ContentRun(
            event.exchange, event.routing_key, event.redelivered, event.tags[low], count
        )
        stride = event.stride
        if not stride:
            self._append(run, event.contents[low:high])
            return
        run.stride, run.skip = stride, event.skip
        self._parts.append(event.messages[low * stride : high * stride])
        self.bytes += count * (stride - event.skip)
        self._extend(run)

    def _append(self, run: ContentRun, contents: list[bytes]) -> None:
        sizes = array(SIZE_TYPE, map(len, contents))
        self._parts += contents
        self._sizes += sizes
        self.bytes += sum(sizes)
        self._extend(run)

    def _extend(self, run: ContentRun) -> None:
        self.rows += run.count
        if not (self.runs and self.runs[-1].extend(run)):
            self.runs.append(run)

    def copy(self) -> GatheredChunk:
        """Return a chunk with the present messages of this one; later additions do not show in
        it."""
        made = GatheredChunk(self.queue, self.generation)
        made.rows, made.bytes = self.rows, self.bytes
        made.runs = [replace(run) for run in self.runs]
        made._sizes = self._sizes[:]
        made._parts = self._parts[:]
        return made

    @classmethod
    def of(cls, queue: str, messages: Sequence[Message]) -> GatheredChunk:
        """Return a chunk made of single messages, which may each have an exchange and routing key
        of their own."""
        made = cls(queue, 0)
        for run, content in messages:
            made._append(run, [content])
        return made

    def ids(self, scratch: Scratch) -> list[str | None]:
        """Return the message id of each message, in order; None for a message without one.
        `scratch` is overwritten."""
        got = self.fetched(scratch)
        return message_ids(RawContents(got.runs, got.sizes, got.data))

    def messages(self) -> Iterator[Message]:
        """Iterate over the messages, each with a run of its own and a copy of its content."""
        return self.fetched(Scratch()).messages()

    def head(self) -> bytes:
        """Return the line of JSON that precedes the chunk's blocks on a socket."""
        said = {
            "queue": self.queue,
            "rows": self.rows,
            "ragged": len(self._sizes),
            "octets": sum(map(len, self._parts)),
            "runs": [astuple(run) for run in self.runs],
        }
        return json.dumps(said).encode() + b"\n"

    def blocks(self) -> list[Octets]:
        """Return the octets that follow the line of JSON on a socket: the sizes of contents without
        a stride, then the messages."""
        return [memoryview(self._sizes).cast("B"), *self._parts]

    def fetched(self, scratch: Scratch) -> FetchedChunk:
        """Return the chunk in the form in which an executor gets it. Its data are in `scratch`, and
        valid until that is used again."""
        sizes = np.frombuffer(self._sizes, np.uint32).astype(np.int64)
        data = scratch.room(sum(map(len, self._parts)))
        at = 0
        for part in self._parts:
            data[at : at + len(part)] = part
            at += len(part)
        return FetchedChunk(self.queue, self.runs, sizes, data)


class Scratch:
    """Lends the same memory to one chunk after another, because fresh memory costs more than the
    work in it."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def room(self, size: int) -> memoryview:
        """Return a view of `size` octets, valid until the next call."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]


class FetchedChunk:
    """A chunk in the form an executor decodes: `runs` describe the messages in `data`; `sizes`, in
    octets, are those of contents without a stride."""

    __slots__ = ("data", "queue", "runs", "sizes")

    def __init__(self, queue: str, runs: list[ContentRun], sizes: Numbers, data: Octets) -> None:
        self.queue = queue
        self.runs = runs
        self.sizes = sizes
        self.data = data

    def messages(self) -> Iterator[Message]:
        """Iterate over the messages, each with a run of its own. The contents are copies, and stay
        good when `data` is overwritten."""
        starts, ends = bounds(self.runs, self.sizes)
        contents = zip(starts.tolist(), ends.tolist(), strict=True)
        for run in self.runs:
            for tag in range(run.first, run.first + run.count):
                start, end = next(contents)
                one = ContentRun(run.exchange, run.routing_key, run.redelivered, tag, 1)
                yield one, bytes(self.data[start:end])


class ChunkReader:
    """Reads chunks from a stream. Each chunk is valid only until the next one is read."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._scratch = Scratch()

    def read(self) -> FetchedChunk:
        """Return the next chunk. Raises EOFError when the other side has closed the connection, as
        it does when it no longer has the chunk."""
        line = self._stream.readline(LINE_MAX_BYTES)
        if not line.endswith(b"\n"):
            raise EOFError
        said: dict[str, Any] = json.loads(line)
        runs = [ContentRun(*run) for run in said["runs"]]
        ragged: int = said["ragged"]
        sizes = np.frombuffer(self._stream.read(4 * ragged), np.uint32).astype(np.int64)
        octets: int = said["octets"]
        data = self._scratch.room(octets)
        if len(sizes) < ragged or self._stream.readinto(data) < octets:
            raise EOFError
        return FetchedChunk(said["queue"], runs, sizes, data)
