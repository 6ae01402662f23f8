"""The files that `sluicemq lab watch` reads: a small Parquet file for each second of a run.

A file gets its name only when it is whole, so a reader of the directory never sees half of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sluicemq.lab.measurements import LIVE
from sluicemq.lab.messages import SecondPassed

FOLDER: Final = "live"


class LiveRows:
    """Gathers the rows of the seconds that are not complete yet."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def add(self, message: SecondPassed) -> None:
        """Add what a worker has reported of one second."""
        rows = self._rows.setdefault(message.row["second"], [])
        rows.append(
            {name: message.row[name] for name in LIVE.names if name != "latencies_ns"}
            | {"latencies_ns": message.latencies_ns}
        )

    def write(self, second: int) -> None:
        """Write the rows of a second that all workers have reported."""
        rows = self._rows.pop(second)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"part-{second:06d}.parquet"
        unfinished = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_pylist(rows, LIVE), unfinished)
        unfinished.rename(path)
