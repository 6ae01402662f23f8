"""Chunks: what the driver side gathers of a queue and an executor fetches, as raw contents.

On the socket a chunk is a line of JSON and two blocks:

    {"queue": .., "rows": n, "bytes": m, "skip": [row..],
     "runs": [[exchange, key, redelivered, first tag, count]..]}                        (one line)
    n sizes of contents, 32 bits each, in the machine's order
    m octets, the contents one after the other
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import IO, Any, Final

import numpy as np

from sluicemq.spark.schema import Run

SIZE_TYPE: Final = "I"
LINE_MAX_BYTES: Final = 64 * 1024 * 1024


class Chunk:
    """Messages of one lane, in order; sealed when it is handed out.

    `generation` numbers the lane's connections: delivery tags mean something on their own one only.
    """

    __slots__ = (
        "_contents",
        "_data",
        "_sizes",
        "bytes",
        "generation",
        "queue",
        "rows",
        "runs",
        "skip",
    )

    def __init__(self, queue: str, generation: int) -> None:
        self.queue = queue
        self.generation = generation
        self.rows = 0
        self.bytes = 0
        self.runs: list[Run] = []
        self.skip: list[int] = []
        """Rows that the executor drops: they have come before."""
        self._sizes = array(SIZE_TYPE)
        self._contents: list[bytes] = []
        self._data = b""

    def add(self, run: Run, contents: list[bytes]) -> None:
        """One more run."""
        sizes = array(SIZE_TYPE, map(len, contents))
        self.runs.append(run)
        self.rows += run.count
        self.bytes += sum(sizes)
        self._sizes += sizes
        self._contents += contents

    def seal(self) -> None:
        """Nothing comes any more."""
        self._data = b"".join(self._contents)
        self._contents.clear()

    def copy(self) -> Chunk:
        """What is in it now, sealed."""
        made = Chunk(self.queue, self.generation)
        made.rows, made.bytes = self.rows, self.bytes
        made.runs = list(self.runs)
        made._sizes = self._sizes[:]
        made._contents = list(self._contents)
        made.seal()
        return made

    @property
    def contents(self) -> Iterator[bytes]:
        """One by one, of a sealed chunk."""
        end = 0
        for size in self._sizes:
            start, end = end, end + size
            yield self._data[start:end]

    def head(self) -> bytes:
        """The line of JSON."""
        runs = [[r.exchange, r.routing_key, r.redelivered, r.first, r.count] for r in self.runs]
        said = {
            "queue": self.queue,
            "rows": self.rows,
            "bytes": self.bytes,
            "skip": self.skip,
            "runs": runs,
        }
        return json.dumps(said).encode() + b"\n"

    def blocks(self) -> tuple[memoryview, bytes]:
        """Sizes and contents."""
        return memoryview(self._sizes).cast("B"), self._data


class Fetched:
    """A chunk as an executor has it."""

    __slots__ = ("data", "queue", "runs", "sizes", "skip")

    def __init__(
        self,
        queue: str,
        skip: list[int],
        runs: list[Run],
        sizes: np.ndarray[Any, Any],
        data: bytes,
    ) -> None:
        self.queue = queue
        self.skip = skip
        self.runs = runs
        self.sizes = sizes
        self.data = data


def read_chunk(stream: IO[bytes]) -> Fetched:
    """The next chunk; EOFError when the other side went away, or has it no more."""
    line = stream.readline(LINE_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise EOFError
    said = json.loads(line)
    runs = [Run(*run) for run in said["runs"]]
    sizes = np.frombuffer(_exactly(stream, 4 * said["rows"]), np.uint32).astype(np.int64)
    return Fetched(said["queue"], said["skip"], runs, sizes, _exactly(stream, said["bytes"]))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
