"""The one schema of AMQP messages in Spark, and how runs of raw contents become its columns.

Columns that a user did not ask for (by a schema of their own, or includeProperties) are not made.
Nothing is done a message in Python while the messages of a chunk are alike: their contents stand in
one buffer, bodies are cut out of it by slices of it as a matrix, and equal properties are decoded
once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sluicemq.client.messages import (
    PROPERTIES,
    PROPERTIES_AT,
    BasicProperties,
    FieldValue,
    Malformed,
    Timestamp,
    body_of,
    frame_end,
)
from sluicemq.errors import Refused

ENVELOPE: Final = (
    ("body", "binary"),
    ("exchange", "string"),
    ("routing_key", "string"),
    ("redelivered", "boolean"),
    ("delivery_tag", "bigint"),
    ("offset", "bigint"),
    ("queue", "string"),
)
PROPERTY_TYPES: Final = {
    "headers": "map<string,string>",
    "delivery_mode": "int",
    "priority": "int",
    "timestamp": "timestamp",
}
PROPERTY_COLUMNS: Final = tuple(
    (name, PROPERTY_TYPES.get(name, "string")) for name, _ in PROPERTIES
)
OFFSET_HEADER: Final = "x-stream-offset"
OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
"""As it stands in a headers table, before the eight octets of the offset."""

TIMESTAMP_MAX_S: Final = 253_402_300_799
"""The end of the year 9999, the last Spark can show. Later ones (some clients send milliseconds)
are null."""

DECODED_KEPT: Final = 4096


def columns_of(include_properties: bool) -> str:
    """The schema as DDL."""
    columns = ENVELOPE + (PROPERTY_COLUMNS if include_properties else ())
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages that came with the same words. `first` is a delivery tag."""

    exchange: str
    routing_key: str
    redelivered: bool
    first: int
    count: int


def check_schema(schema: StructType) -> None:
    """`Refused` for a column that messages have not, or not in that type."""
    known = dict(ENVELOPE + PROPERTY_COLUMNS)
    for each in schema.fields:
        kind = known.get(each.name)
        if kind is None:
            raise Refused(f"schema: messages have no column {each.name!r}")
        if each.dataType.simpleString() != kind:
            raise Refused(
                f"schema: column {each.name!r} is {kind}, not {each.dataType.simpleString()}"
            )


class Decoder:
    """Makes record batches of one schema. `is_stream`: messages have their offset in a header."""

    def __init__(self, schema: StructType, is_stream: bool = False) -> None:
        check_schema(schema)
        self._is_stream = is_stream
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._names = tuple(self.schema.names)
        properties = {name for name, _ in PROPERTIES} | {"offset"}
        self._wants_properties = not properties.isdisjoint(self._names)

    def decode(
        self, queue: str, runs: Sequence[Run], sizes: np.ndarray[Any, Any], data: bytes
    ) -> pa.RecordBatch:
        """The rows of `runs`: contents of those sizes, one after the other in `data`."""
        count = len(sizes)
        contents = Contents(sizes, data)
        made: dict[str, pa.Array] = {"queue": pa.repeat(queue, count)}
        makers: dict[str, Callable[[], pa.Array]] = {
            "body": contents.bodies,
            "exchange": lambda: spread([run.exchange for run in runs], runs, pa.string()),
            "routing_key": lambda: spread([run.routing_key for run in runs], runs, pa.string()),
            "redelivered": lambda: spread([run.redelivered for run in runs], runs, pa.bool_()),
            "delivery_tag": lambda: pa.array(
                np.concatenate([np.arange(r.first, r.first + r.count) for r in runs]), pa.int64()
            ),
        }
        for name in self._names:
            if name in makers:
                made[name] = makers[name]()
        if self._wants_properties:
            made |= self._properties(contents)
        return pa.RecordBatch.from_arrays([made[name] for name in self._names], schema=self.schema)

    def _properties(self, contents: Contents) -> dict[str, pa.Array]:
        made: dict[str, pa.Array] = {}
        offsets = contents.take_offsets() if self._is_stream else None
        kinds, indices = contents.properties()
        decoded = [decode_properties(raw, self._is_stream) for raw in kinds]
        if offsets is not None:
            made["offset"] = pa.array(offsets, pa.int64())
        elif "offset" in self._names:
            made["offset"] = pa.nulls(len(contents), pa.int64())
        for name in self._names:
            if name in decoded[0] and name not in made:
                column = self.schema.field(name).type
                values = pa.array([each[name] for each in decoded], column)
                if indices is None:
                    value = values[0]
                    made[name] = (
                        pa.repeat(value, len(contents))
                        if value.is_valid
                        else pa.nulls(len(contents), column)
                    )
                else:
                    made[name] = values.take(indices)
        return made


def spread(values: Sequence[Any], runs: Sequence[Run], kind: pa.DataType) -> pa.Array:
    """A column of a value a run."""
    total = sum(run.count for run in runs)
    if len(set(values)) == 1:
        return pa.repeat(pa.scalar(values[0], kind), total)
    which = np.repeat(np.arange(len(runs)), [run.count for run in runs])
    return pa.array(values, kind).take(pa.array(which))


class Contents:
    """Contents in one buffer: where the parts of each begin and end."""

    def __init__(self, sizes: np.ndarray[Any, Any], data: bytes) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._starts = self._ends - sizes
        self._sizes = sizes
        heads = self._starts + 8 + self._number(self._starts + 3)
        """Where the header frames end."""
        self._heads = heads
        empty = heads == self._ends
        body_sizes = self._number(np.where(empty, self._starts, heads) + 3)
        whole = empty | (body_sizes == self._ends - heads - 8)
        self._is_simple = bool(whole.all())
        self._lows = np.where(empty, heads, heads + 7)
        self._highs = np.where(empty, heads, self._ends - 1)
        head_sizes = heads - self._starts
        self._head_size = int(head_sizes[0]) if (head_sizes == head_sizes[0]).all() else 0
        """When they are all of one size."""
        self._stride = int(sizes[0]) if self._head_size and (sizes == sizes[0]).all() else 0

    def __len__(self) -> int:
        return len(self._sizes)

    def bodies(self) -> pa.Array:
        """The bodies, without their frames."""
        count = len(self)
        if not self._is_simple:
            cuts = zip(self._starts.tolist(), self._ends.tolist(), strict=True)
            return pa.array([body_of(self._data[a:b]) for a, b in cuts], pa.binary())
        if self._stride:
            low, high = int(self._lows[0]), int(self._highs[0])
            cut = np.ascontiguousarray(self._bytes.reshape(count, self._stride)[:, low:high])
            offsets = np.arange(0, (count + 1) * (high - low), max(high - low, 1), dtype=np.int32)
            if high == low:
                offsets = np.zeros(count + 1, np.int32)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(cut)]
            return pa.Array.from_buffers(pa.binary(), count, buffers)
        data = self._data
        cuts = zip(self._lows.tolist(), self._highs.tolist(), strict=True)
        return pa.array([data[a:b] for a, b in cuts], pa.binary())

    def take_offsets(self) -> np.ndarray[Any, Any]:
        """The stream offsets. They are blanked out of the buffer, so that the properties of
        messages that differ in nothing else are equal."""
        self._bytes = self._bytes.copy()
        data = self._data
        stride = self._stride
        if stride:
            at = find_offset(data, 0, int(self._heads[0]))
            rows = self._bytes.reshape(len(self), stride)
            names = rows[:, at - len(OFFSET_FIELD) : at]
            if (names == names[0]).all():
                found = rows[:, at : at + 8].copy().view(">i8").ravel()
                rows[:, at : at + 8] = 0
                self._data = self._bytes.tobytes()
                return found.astype(np.int64)
        cuts = zip(self._starts.tolist(), self._heads.tolist(), strict=True)
        places = np.array([find_offset(data, start, end) for start, end in cuts])[:, None]
        octets = places + np.arange(8)
        found = self._bytes[octets].view(">i8").ravel().astype(np.int64)
        self._bytes[octets] = 0
        self._data = self._bytes.tobytes()
        return found

    def properties(self) -> tuple[list[bytes], pa.Array | None]:
        """The different encoded properties, and which each message has (None: all the one)."""
        size = self._head_size
        if size:
            if self._stride:
                rows = self._bytes.reshape(len(self), self._stride)[:, PROPERTIES_AT : size - 1]
            else:
                places = self._starts[:, None] + np.arange(PROPERTIES_AT, size - 1)
                rows = self._bytes[places]
            if (rows == rows[0]).all():
                return [rows[0].tobytes()], None
        data = self._data
        cuts = zip(self._starts.tolist(), self._heads.tolist(), strict=True)
        raw = pa.array([data[a + PROPERTIES_AT : b - 1] for a, b in cuts], pa.binary())
        found = raw.dictionary_encode()
        return found.dictionary.to_pylist(), found.indices

    def _number(self, places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The 32 bits at each of these places."""
        octets = self._bytes[places[:, None] + np.arange(4)].astype(np.int64)
        found: np.ndarray[Any, Any] = octets @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
        return found


@lru_cache(maxsize=DECODED_KEPT)
def decode_properties(raw: bytes, is_stream: bool = False) -> dict[str, Any]:
    """By column. Properties that cannot be read are null. The offset of a stream's message is not
    among its headers."""
    try:
        properties = BasicProperties.decode(raw)
    except Malformed:
        properties = BasicProperties()
    row: dict[str, Any] = {name: tidy(getattr(properties, name)) for name, _ in PROPERTIES}
    headers = properties.headers
    headers = dict(headers) if (headers := properties.headers) is not None else None
    if headers is not None:
        if is_stream:
            headers.pop(OFFSET_HEADER, None)
        row["headers"] = [(tidy(key), header_text(value)) for key, value in headers.items()]
    seconds = properties.timestamp
    row["timestamp"] = None if seconds is None or seconds > TIMESTAMP_MAX_S else seconds * 1_000_000
    return row


def tidy(value: Any) -> Any:
    """Text that Arrow takes: octets that are no UTF-8 become replacement characters."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def header_text(value: FieldValue) -> str | None:
    """A header's value as text: plain where it is plain, JSON where it is nested."""
    if value is None or isinstance(value, str):
        return tidy(value)  # type: ignore[no-any-return]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, (dict, list)):
        return tidy(json.dumps(value, default=header_text, ensure_ascii=False))  # type: ignore[no-any-return]
    return str(value)


def find_offset(data: bytes, start: int, end: int) -> int:
    """Where the offset stands in the content header from `start` to `end`. Brokers append it, so
    the last place that looks like it is it."""
    at = data.rfind(OFFSET_FIELD, start, end)
    if at < 0:
        raise Malformed(f"a message of a stream has no header {OFFSET_HEADER}")
    return at + len(OFFSET_FIELD)


def offset_of(content: bytes) -> int:
    """The stream offset of one content."""
    at = find_offset(content, 0, frame_end(content, 0))
    return int.from_bytes(content[at : at + 8])
