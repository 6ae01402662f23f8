"""Counters of file I/O since the start, by RabbitMQ's names: operations, bytes, time.

Every thread counts in a table of its own, so that counting takes no lock and loses nothing;
`totals` adds the tables up. Its times are in microseconds.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import Final

NAMES: Final = (
    "io_read_count",
    "io_read_bytes",
    "io_read_time",
    "io_write_count",
    "io_write_bytes",
    "io_write_time",
    "io_sync_count",
    "io_sync_time",
    "io_seek_count",
    "io_seek_time",
    "io_reopen_count",
    "io_file_handle_open_attempt_count",
    "io_file_handle_open_attempt_time",
)
(
    READ,
    READ_BYTES,
    READ_NS,
    WRITE,
    WRITE_BYTES,
    WRITE_NS,
    SYNC,
    SYNC_NS,
    SEEK,
    SEEK_NS,
    REOPEN,
    OPEN,
    OPEN_NS,
) = range(len(NAMES))

now_ns = perf_counter_ns


class IoCounters(threading.local):
    """Counts file I/O by thread: `counters.here[READ] += 1` counts in the calling thread. `SEEK_NS`
    stays 0: reads and writes name their offset, so there are no seeks."""

    tables: list[list[int]]
    """Of all threads, those that ended too. (Made in `IoCounters.made`, shared by all.)"""

    def __init__(self, tables: list[list[int]]) -> None:
        # threading.local calls this once in every thread that uses the object.
        self.here = [0] * len(NAMES)
        self.tables = tables
        tables.append(self.here)

    def totals(self) -> dict[str, int]:
        """Return the counters by name, summed over all threads; another thread may be in the middle
        of counting."""
        sums = [sum(column) for column in zip(*self.tables, strict=True)]
        return {
            name: value // 1000 if name.endswith("_time") else value
            for name, value in zip(NAMES, sums, strict=True)
        }
