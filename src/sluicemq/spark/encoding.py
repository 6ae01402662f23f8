"""Rows to AMQP messages: which columns mean what, and frames out of record batches.

While rows are alike in everything but body and sequence, a message is one `struct.pack`: what is
constant stands before, between and after what changes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from datetime import UTC
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from sluicemq.client.messages import (
    BasicProperties,
    FieldValue,
    Table,
    content,
    publish_frame,
)
from sluicemq.errors import Refused
from sluicemq.spark.options import Options
from sluicemq.spark.schema import PROPERTY_COLUMNS

BODY_NAMES: Final = ("body", "value")
SOURCE_ONLY: Final = ("redelivered", "delivery_tag", "offset", "queue")
"""Columns of messages that were read; nothing to write."""

DEDUPLICATION_COLUMN: Final = "deduplication_id"
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
QUERY_HEADER: Final = "x-spark-query-id"
BATCH_HEADER: Final = "x-spark-batch-id"
PARTITION_HEADER: Final = "x-spark-partition"
SEQUENCE_HEADER: Final = "x-spark-sequence"

SEQUENCE_MARK: Final = 0x5E90_E95E_90
"""Stands for the sequence while a stencil is made; what is sought is its eight octets, and its
twelve digits in the deduplication header."""
SEQUENCE: Final = struct.Struct(">q")
DIGITS: Final = b"%012d"
STENCILS_KEPT: Final = 512
STENCIL_USES_MIN: Final = 4
"""Rows a stencil must serve to be worth making."""


class Place:
    """Where a message comes from: the same for a retry of the same task."""

    __slots__ = ("batch", "partition", "query")

    def __init__(self, query: str, batch: int, partition: int) -> None:
        self.query = query
        self.batch = batch
        self.partition = partition


class Columns:
    """Which columns of a frame are used; `Refused` for those that mean nothing."""

    def __init__(self, options: Options, schema: StructType) -> None:
        names = schema.names
        bodies = [name for name in BODY_NAMES if name in names]
        if len(bodies) != 1:
            raise Refused("columns: one named body (or value) is needed, binary or string")
        self.body = bodies[0]
        if not isinstance(schema[self.body].dataType, (BinaryType, StringType)):
            kind = schema[self.body].dataType.simpleString()
            raise Refused(f"columns: {self.body!r} must be binary or string, not {kind}")
        self.properties = [name for name, _ in PROPERTY_COLUMNS if name in names]
        kinds = dict(PROPERTY_COLUMNS)
        for name in self.properties:
            kind = schema[name].dataType.simpleString()
            if kind != kinds[name] and not isinstance(schema[name].dataType, MapType):
                raise Refused(f"columns: {name!r} must be {kinds[name]}, not {kind}")
        self.exchange = "exchange" if "exchange" in names and not options.exchange else None
        self.routing_key = (
            "routing_key" if "routing_key" in names and not options.routing_key else None
        )
        if not self.routing_key and not options.routing_key:
            raise Refused("routingKey: is missing; give it, or a column routing_key")
        wants_id = options.deduplication == "column"
        if wants_id and DEDUPLICATION_COLUMN not in names:
            raise Refused(f"deduplication = 'column': there is no column {DEDUPLICATION_COLUMN!r}")
        self.deduplication = DEDUPLICATION_COLUMN if wants_id else None
        known = {
            self.body,
            *self.properties,
            *SOURCE_ONLY,
            "exchange",
            "routing_key",
            DEDUPLICATION_COLUMN,
        }
        unknown = [name for name in names if name not in known]
        if unknown:
            raise Refused(
                f"columns: {', '.join(unknown)} mean nothing to AMQP; drop them, or put them into"
                " headers or body"
            )


class Encoder:
    """Frames for the rows of one task. Rows are numbered from 0 in the order they come."""

    def __init__(self, options: Options, columns: Columns, place: Place, frame_max: int) -> None:
        self._options = options
        self._columns = columns
        self._place = place
        self._frame_max = frame_max
        self._stencil = lru_cache(STENCILS_KEPT)(self._make_stencil)
        self.rows = 0

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        """A message a row."""
        first, count = self.rows, batch.num_rows
        self.rows += count
        bodies = self._bodies(batch)
        heads = self._heads(batch)
        different = set(heads)
        if len(different) == 1 and len(set(map(len, bodies))) == 1:
            stencil = self._stencil(heads[0], len(bodies[0]))
            if stencil is not None:
                return stencil.fill(first, bodies)
        is_worth_it = len(different) * STENCIL_USES_MIN <= count
        made: list[bytes] = []
        for row, (head, body) in enumerate(zip(heads, bodies, strict=True), first):
            stencil = self._stencil(head, len(body)) if is_worth_it else None
            made += stencil.fill(row, (body,)) if stencil else (self._plain(head, row, body),)
        return made

    def _bodies(self, batch: pa.RecordBatch) -> list[bytes]:
        column = batch.column(self._columns.body)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.binary())
        if column.null_count:
            column = column.fill_null(b"")
        bodies: list[bytes] = column.to_pylist()
        return bodies

    def _heads(self, batch: pa.RecordBatch) -> Sequence[tuple[Any, ...]]:
        """What a row says besides its body, as a key: exchange, routing key, deduplication id,
        properties."""
        columns = self._columns
        count = batch.num_rows
        parts: list[Iterable[Any]] = [
            self._texts(batch, columns.exchange, self._options.exchange),
            self._texts(batch, columns.routing_key, self._options.routing_key),
            self._texts(batch, columns.deduplication, ""),
        ]
        for name in columns.properties:
            column = batch.column(name)
            if column.null_count == count:
                parts.append(repeat(None, count))
                continue
            values = column.to_pylist()
            if name == "headers":
                values = [None if v is None else tuple(v) for v in values]
            parts.append(values)
        return list(zip(*parts, strict=True))

    @staticmethod
    def _texts(batch: pa.RecordBatch, column: str | None, constant: str) -> Iterable[str]:
        if column is None:
            return repeat(constant, batch.num_rows)
        values = batch.column(column)
        return values.fill_null("").to_pylist() if values.null_count else values.to_pylist()  # type: ignore[no-any-return]

    def _make_stencil(self, head: tuple[Any, ...], size: int) -> Stencil | None:
        """None: the message needs more than one frame, or the sequence stands in it as text."""
        if size + 8 > self._frame_max or not size:
            return None
        whole = self._plain(head, SEQUENCE_MARK, b"\0" * size)
        before_body = whole[: len(whole) - size - 1]
        gaps = []
        if self._options.deduplication == "position":
            gaps.append(DIGITS % SEQUENCE_MARK)
        if self._has_sequence:
            gaps.append(SEQUENCE.pack(SEQUENCE_MARK))
        if any(before_body.count(gap) != 1 for gap in gaps):
            return None
        return Stencil(before_body, gaps, size)

    @property
    def _has_sequence(self) -> bool:
        return self._options.idempotency_headers or self._options.mandatory

    def _plain(self, head: tuple[Any, ...], row: int, body: bytes) -> bytes:
        """The frames of one message, made with no haste."""
        exchange, routing_key, deduplication_id, *values = head
        given = dict(zip(self._columns.properties, values, strict=True))
        properties = BasicProperties(**{n: property_value(n, v) for n, v in given.items()})
        if properties.delivery_mode is None and self._options.persistent:
            properties.delivery_mode = 2
        headers = self._headers(row, deduplication_id)
        if headers:
            properties.headers = (properties.headers or {}) | headers
        method = publish_frame(exchange, routing_key, self._options.mandatory)
        return method + content(properties.encode(), body, self._frame_max)

    def _headers(self, row: int, deduplication_id: str) -> Table:
        place, options = self._place, self._options
        headers: dict[str, FieldValue] = {}
        if options.deduplication == "position":
            position = f"{place.query}/{place.batch}/{place.partition}/{row:012d}"
            headers[DEDUPLICATION_HEADER] = position
        elif options.deduplication == "column":
            headers[DEDUPLICATION_HEADER] = deduplication_id
        if options.idempotency_headers:
            headers[QUERY_HEADER] = place.query
            headers[BATCH_HEADER] = place.batch
            headers[PARTITION_HEADER] = place.partition
        if self._has_sequence:
            headers[SEQUENCE_HEADER] = row
        return headers


class Stencil:
    """A message with gaps: the sequence (as digits, as eight octets, both, or not at all) and the
    body at the end."""

    __slots__ = ("_columns", "_packer")

    def __init__(self, before_body: bytes, gaps: Sequence[bytes], size: int) -> None:
        form = ">"
        self._columns: list[bytes | int] = []
        """What goes into each place of the packer: octets that are constant, or the length of a
        gap."""
        for gap in gaps:
            before, _, before_body = before_body.partition(gap)
            form += f"{len(before)}s" + ("q" if len(gap) == SEQUENCE.size else f"{len(gap)}s")
            self._columns += (before, len(gap))
        self._columns.append(before_body)
        self._packer = struct.Struct(f"{form}{len(before_body)}s{size}sB")

    def fill(self, first: int, bodies: Sequence[bytes]) -> list[bytes]:
        """The messages of rows from `first` on."""
        rows = range(first, first + len(bodies))
        columns: list[Iterable[Any]] = [
            repeat(part) if isinstance(part, bytes) else gap_values(part, rows)
            for part in self._columns
        ]
        return list(map(self._packer.pack, *columns, bodies, repeat(0xCE)))


def gap_values(size: int, rows: range) -> Iterable[Any]:
    """The sequence of each row, as a gap of that size has it."""
    return rows if size == SEQUENCE.size else map(DIGITS.__mod__, rows)


def property_value(name: str, value: Any) -> Any:
    """A column's value as AMQP has it."""
    if value is None:
        return None
    if name == "headers":
        return dict(value)
    if name == "timestamp":
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    return value
