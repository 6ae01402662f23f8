"""The schema of AMQP messages in Spark, and the decoding of runs of raw contents into its columns.

Columns that a user did not ask for (by a schema of their own, or includeProperties) are not made.
While the messages of a chunk are alike there is no Python loop over them: their contents are in one
buffer, bodies are slices of it as a matrix, and equal properties are decoded once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sluicemq.client.messages import (
    PROPERTIES,
    BasicProperties,
    FieldValue,
    Malformed,
    Table,
    Timestamp,
)
from sluicemq.errors import Refused
from sluicemq.spark.chunks import Scratch
from sluicemq.spark.raw_contents import (
    OFFSET_HEADER,
    ContentRun,
    Numbers,
    Octets,
    RawContents,
)

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
Headers = list[tuple[str, str | None]]

PROPERTY_NAMES: Final = frozenset(PROPERTY_TYPES) | {name for name, _ in PROPERTIES}
TIMESTAMP_MAX_S: Final = 253_402_300_799
"""The end of the year 9999, the last Spark can show. Later ones (some clients send milliseconds)
are null."""

DECODED_KEPT: Final = 4096


def columns_of(include_properties: bool) -> str:
    """Return the schema of messages in Spark's DDL, with or without the columns of the basic
    properties."""
    columns = ENVELOPE + (PROPERTY_COLUMNS if include_properties else ())
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def check_schema(schema: StructType) -> None:
    """Raise `Refused` when the schema has a column that messages do not have, or one of another
    type."""
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
    """Makes record batches of one schema. `is_stream` tells that the messages come from a stream,
    and carry their offset in a header. The constructor raises `Refused` for a schema that messages
    cannot have."""

    def __init__(self, schema: StructType, is_stream: bool = False) -> None:
        check_schema(schema)
        self._is_stream = is_stream
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._names = tuple(self.schema.names)
        self.scratch = Scratch()
        """Memory for a caller that decodes chunk after chunk."""
        self._wants_properties = not (PROPERTY_NAMES | {"offset"}).isdisjoint(self._names)

    def decode(
        self, queue: str, runs: Sequence[ContentRun], sizes: Numbers, data: Octets
    ) -> pa.RecordBatch:
        """Return a row for each message of `runs`, which follow one another in `data`. `sizes`, in
        octets, are those of contents without a stride."""
        contents = RawContents(runs, sizes, data)
        count = len(contents)
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

    def _properties(self, contents: RawContents) -> dict[str, pa.Array]:
        made: dict[str, pa.Array] = {}
        offsets = contents.take_offsets() if self._is_stream else None
        kinds, indices = contents.properties()
        if offsets is not None:
            made["offset"] = pa.array(offsets, pa.int64())
        elif "offset" in self._names:
            made["offset"] = pa.nulls(len(contents), pa.int64())
        decoded = [decode_properties(raw) for raw in kinds]
        for name in self._names:
            if name in PROPERTY_NAMES:
                kind = self.schema.field(name).type
                values = column(name, decoded)
                if name == "headers" and self._is_stream:
                    values = [without_offset(each) for each in values]
                made[name] = fill(pa.array(values, kind), indices, len(contents))
        return made


def column(name: str, decoded: Sequence[BasicProperties]) -> list[Any]:
    """Return the property `name` of each message as a value for Arrow; None where it is missing.
    Timestamps become microseconds, and None after the year 9999."""
    values = [getattr(each, name) for each in decoded]
    if name == "headers":
        return [None if each is None else header_items(each) for each in values]
    if name == "timestamp":
        return [
            None if each is None or each > TIMESTAMP_MAX_S else each * 1_000_000 for each in values
        ]
    return values if name in PROPERTY_TYPES else list(map(tidy, values))


def header_items(headers: Table) -> Headers:
    """Return the headers' keys and values as text, in order."""
    return [(tidy(key), header_text(value)) for key, value in headers.items()]


def without_offset(headers: Headers | None) -> Headers | None:
    """Return the headers without the stream offset, which has a column of its own; None stays
    None."""
    return headers and [each for each in headers if each[0] != OFFSET_HEADER]


def fill(values: pa.Array, indices: pa.Array | None, count: int) -> pa.Array:
    """Return the values at these indices. With None for indices, return the first value `count`
    times."""
    if indices is not None:
        return values.take(indices)
    return pa.repeat(values[0], count) if values.null_count == 0 else pa.nulls(count, values.type)


def spread(values: Sequence[Any], runs: Sequence[ContentRun], kind: pa.DataType) -> pa.Array:
    """Return a column of type `kind`, with each run's value once for each of its messages."""
    total = sum(run.count for run in runs)
    if len(set(values)) == 1:
        return pa.repeat(pa.scalar(values[0], kind), total)
    which = np.repeat(np.arange(len(runs)), [run.count for run in runs])
    return pa.array(values, kind).take(pa.array(which))


@lru_cache(maxsize=DECODED_KEPT)
def decode_properties(raw: bytes) -> BasicProperties:
    """Decode a message's properties; malformed ones count as none."""
    try:
        return BasicProperties.decode(raw)
    except Malformed:
        return BasicProperties()


def tidy(value: Any) -> Any:
    """Return a text that is valid for Arrow: octets in it that are not UTF-8 become replacement
    characters. Any other value is returned as it is."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def header_text(value: FieldValue) -> str | None:
    """Return a header's value as text: nested values as JSON, timestamps in seconds, None as
    None."""
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
