"""Writes rows as Parquet, off the load loop: gathers typed columns, which one thread writes.

Clients keep their rows in `array`s while they can change (a confirm is still to come); finished
rows are moved to the recorder's columns with C-level copies, and a full chunk goes to the writer
thread, where pyarrow compresses and writes it without holding the interpreter. At most
`PARTS_WAITING_MAX` chunks wait: a disk that cannot keep up slows the load, it does not fill memory.
"""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicemq.errors import SluiceError
from sluicemq.lab.measurements import TABLES

NEVER: Final = -1
"""In a column of times: it did not happen. It becomes null in the file."""

ROWS_PER_PART: Final = 200_000
"""Rows of one file: about 4 MB compressed, some seconds of load."""

PARTS_WAITING_MAX: Final = 4

_TYPECODES: Final[dict[pa.DataType, str]] = {
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.bool_(): "b",
}

Columns: TypeAlias = "dict[str, array[int]]"


class RecorderError(SluiceError):
    """Measurements could not be written."""


class Recorder:
    """Gathers the rows of one table, and writes them as Parquet files from a thread."""

    def __init__(self, directory: Path, table: str, writer_name: str) -> None:
        self._schema: pa.Schema = TABLES[table]
        self._folder = directory / table
        self._folder.mkdir(parents=True, exist_ok=True)
        self._writer_name = writer_name
        self._parts = 0
        self.rows = 0
        self.columns = self._new_columns()
        self._waiting: queue.Queue[Columns | None] = queue.Queue(PARTS_WAITING_MAX)
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"write-{table}", daemon=True)
        self._thread.start()

    def _new_columns(self) -> Columns:
        return {name: array(_TYPECODES[kind]) for name, kind in _fields(self._schema)}

    def added(self, rows: int) -> None:
        """Note that every column grew by `rows`."""
        self.rows += rows
        if self.rows >= ROWS_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Hand the gathered rows to the writer thread. Raises RecorderError when writing has failed
        before."""
        self.check()
        if self.rows:
            self._waiting.put(self.columns)
            self.columns = self._new_columns()
            self.rows = 0

    def check(self) -> None:
        """Raise RecorderError if the writer thread has failed."""
        if self._failure is not None:
            raise RecorderError(f"cannot write measurements: {self._failure}")

    def close(self) -> None:
        """Write the remaining rows. Raises RecorderError when not everything could be written."""
        if self.rows:
            self._waiting.put(self.columns)
        self._waiting.put(None)
        self._thread.join()
        self.check()

    def _run(self) -> None:
        try:
            while (columns := self._waiting.get()) is not None:
                name = f"part-{self._writer_name}-{self._parts:05d}.parquet"
                pq.write_table(to_table(columns, self._schema), self._folder / name)
                self._parts += 1
        except (OSError, pa.ArrowException) as failure:  # `check` reports it
            self._failure = failure
            while self._waiting.get() is not None:
                pass


def to_table(columns: Columns, schema: pa.Schema) -> pa.Table:
    """Return the arrays as a table of the schema, without copying the whole numbers."""
    return pa.table(
        [_to_arrow(columns[field.name], field) for field in schema],
        schema=schema,
    )


def _to_arrow(values: array[int], field: pa.Field) -> pa.Array:
    kind = pa.int8() if field.type == pa.bool_() else field.type
    column = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if field.type == pa.bool_():
        return column.cast(pa.bool_())
    if field.nullable:
        return pc.if_else(pc.equal(column, NEVER), pa.scalar(None, kind), column)
    return column


def write_rows(directory: Path, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a small table, given row by row, as one part."""
    folder = directory / table
    folder.mkdir(parents=True, exist_ok=True)
    schema = TABLES[table]
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "part-00000.parquet")


def _fields(schema: pa.Schema) -> Iterable[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in schema)
