"""Makes AMQP messages of rows: the meaning of columns, and the frames for record batches.

When rows differ only in body and sequence, their frames are made in one matrix, a row for each
message, out of a stencil: constant octets are broadcast, the others written as columns. Names by
content do not depend on the cut of rows into batches, or on their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from sluicemq.client.messages import (
    END,
    END_OCTET,
    OVERHEAD,
    BasicProperties,
    FieldValue,
    Messages,
    Table,
    content,
    frame_end,
    publish_frame,
)
from sluicemq.errors import Refused
from sluicemq.spark.options import Options
from sluicemq.spark.row_names import NAME_SIZE, EqualCounter, digest, names_of
from sluicemq.spark.schema import PROPERTY_COLUMNS

BODY_NAMES: Final = ("body", "value")
SOURCE_ONLY: Final = ("redelivered", "delivery_tag", "offset", "queue")
"""Columns of messages from a source that are not written."""

DEDUPLICATION_COLUMN: Final = "deduplication_id"
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
QUERY_HEADER: Final = "x-spark-query-id"
BATCH_HEADER: Final = "x-spark-batch-id"
PARTITION_HEADER: Final = "x-spark-partition"
SEQUENCE_HEADER: Final = "x-spark-sequence"

SEQUENCE_MARK: Final = 0x5E90_E95E_90
"""Stands for the sequence number while a stencil is made, and is found again by its eight
octets."""
SEQUENCE_SIZE: Final = 8
NAME_MARK: Final = "?" * NAME_SIZE
"""Stands for the name by content while a stencil is made."""
BODY_SIZE_AT: Final = 11
"""The offset of the body's size in a content's header frame."""
STENCILS_KEPT: Final = 512
STENCIL_USES_MIN: Final = 4
"""The number of rows that a stencil must serve to be worth making."""


Array: TypeAlias = "np.ndarray[Any, Any]"

Head: TypeAlias = "tuple[Any, ...]"
"""The values of a row besides its body, as a key: exchange, routing key, deduplication id,
properties."""


class WriterTask:
    """Says which task writes a message: the query, the number of the batch and the partition. A
    retry of the task has the same values; a batch that runs again may have its rows in other
    partitions."""

    __slots__ = ("batch", "partition", "query")

    def __init__(self, query: str, batch: int, partition: int) -> None:
        self.query = query
        self.batch = batch
        self.partition = partition


class Columns:
    """Says which columns of a DataFrame become which part of a message. The constructor raises
    `Refused` for columns that are missing, mean nothing or have the wrong type."""

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
        if DEDUPLICATION_COLUMN in names and not wants_id:
            raise Refused(
                f"columns: there is {DEDUPLICATION_COLUMN}, and deduplication ="
                f" {options.deduplication!r} makes no use of it; say column, or drop it"
            )
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
    """Makes the frames for the rows of one task, which are numbered from 0 in the order they
    come."""

    def __init__(
        self, options: Options, columns: Columns, task: WriterTask, frame_max: int
    ) -> None:
        self._options = options
        self._columns = columns
        self._task = task
        self._frame_max = frame_max
        self._body_max = frame_max - OVERHEAD
        """The largest body that fits into one frame."""
        self._stencil = lru_cache(STENCILS_KEPT)(self._make_stencil)
        self._key = lru_cache(STENCILS_KEPT)(self._make_key)
        self._counter = EqualCounter()
        self.rows = 0

    def encode(self, batch: pa.RecordBatch) -> Messages:
        """Return a message for each row of a batch that has one row at least. Raises `Refused` for
        a row without the deduplication id it needs."""
        first = self.rows
        self._check_names(batch)
        self.rows += batch.num_rows
        bodies = self._bodies(batch)
        octets, sizes = binary_parts(bodies)
        groups = self._groups(batch)
        names = self._names(groups, bodies)
        size = int(sizes[0])
        if len(groups) == 1 and 0 < size <= self._body_max and (sizes == size).all():
            (head,) = groups
            stencil = self._stencil(head)
            if stencil is not None:
                return stencil.fill(first, octets.reshape(-1, size), names)
        return Messages.of(self._uneven(first, groups, bodies.to_pylist(), sizes, names))

    def _uneven(
        self,
        first: int,
        groups: Mapping[Head, Sequence[int]],
        bodies: Sequence[bytes],
        sizes: Array,
        names: Array,
    ) -> list[bytes]:
        """Return the messages of rows of any sizes and heads."""
        made = [b""] * len(bodies)
        is_one_frame = ((sizes > 0) & (sizes <= self._body_max)).tolist()
        for head, members in groups.items():
            stencil = self._stencil(head) if len(members) >= STENCIL_USES_MIN else None
            prefixes: Iterable[bytes] = repeat(b"")
            if stencil is not None:
                chosen = np.array(members)
                prefixes = stencil.prefixes(first + chosen, sizes[chosen], names[chosen])
            for index, prefix in zip(members, prefixes, strict=False):
                if prefix and is_one_frame[index]:
                    made[index] = b"".join((prefix, bodies[index], END_OCTET))
                else:
                    name = names[index].tobytes().decode()
                    made[index] = self._plain(head, first + index, bodies[index], name)
        return made

    def _check_names(self, batch: pa.RecordBatch) -> None:
        """Raise `Refused` for a row without a name when a column names rows: a queue would take the
        first such row and drop the others."""
        column = self._columns.deduplication
        if column is not None and batch.column(column).null_count:
            from pyarrow import compute as pc  # noqa: PLC0415 (start-up time)

            nulls = pc.indices_nonzero(batch.column(column).is_null())
            raise Refused(
                f"deduplication = 'column': {column} is null in row {self.rows + nulls[0].as_py()}"
                f" of partition {self._task.partition}"
            )

    def _names(self, groups: Mapping[Head, Sequence[int]], bodies: pa.BinaryArray) -> Array:
        """Return the names by content, a row of octets for each row; without octets if there are
        none."""
        if self._options.deduplication != "content":
            return np.empty((len(bodies), 0), np.uint8)
        octets = bodies.to_pylist()
        digests = [b""] * len(octets)
        for head, members in groups.items():
            key = self._key(head)
            for index in members:
                digests[index] = digest(octets[index], key)
        return names_of(digests, self._counter)

    def _make_key(self, head: Head) -> bytes:
        """Return the part of a head in the digests of its rows. A map's entries have no order."""
        exchange, routing_key, _, *_ = head
        properties = self._properties(head)
        if properties.headers:
            properties.headers = dict(sorted(properties.headers.items()))
        return digest(publish_frame(exchange, routing_key, False) + properties.encode())

    def _bodies(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        column = batch.column(self._columns.body)
        if pa.types.is_string(column.type):
            column = column.view(pa.binary())  # a cast would copy
        elif not pa.types.is_binary(column.type):
            column = column.cast(pa.binary())
        return column.fill_null(b"") if column.null_count else column

    def _groups(self, batch: pa.RecordBatch) -> Mapping[Head, Sequence[int]]:
        """Return the row numbers by head: rows with the same head differ only in their bodies."""
        columns = self._columns
        names = [columns.exchange, columns.routing_key, columns.deduplication, *columns.properties]
        if all(is_constant(batch.column(name)) for name in names if name is not None):
            return {self._heads(batch.slice(0, 1))[0]: range(batch.num_rows)}
        groups: dict[Head, list[int]] = defaultdict(list)
        for index, head in enumerate(self._heads(batch)):
            groups[head].append(index)
        return groups

    def _heads(self, batch: pa.RecordBatch) -> Sequence[Head]:
        """Return the head of each row."""
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

    def _make_stencil(self, head: Head) -> Stencil | None:
        """Return the stencil for a head; None when the sequence number's place is ambiguous."""
        whole = self._plain(head, SEQUENCE_MARK, b"\0", NAME_MARK)
        before_body = whole[: -len(b"\0" + END_OCTET)]
        name = NAME_MARK.encode() if self._options.deduplication == "content" else b""
        octets = SEQUENCE_MARK.to_bytes(SEQUENCE_SIZE) if self._has_sequence else b""
        if any(mark and before_body.count(mark) != 1 for mark in (name, octets)):
            return None
        name_at = before_body.index(name) if name else None
        return Stencil(before_body, name_at, before_body.index(octets) if octets else None)

    @property
    def _has_sequence(self) -> bool:
        return self._options.place_headers or self._options.mandatory

    def _properties(self, head: Head) -> BasicProperties:
        """Return the properties from the row's own columns."""
        given = dict(zip(self._columns.properties, head[3:], strict=True))
        properties = BasicProperties(**{n: property_value(n, v) for n, v in given.items()})
        if properties.delivery_mode is None and self._options.persistent:
            properties.delivery_mode = 2
        return properties

    def _plain(self, head: Head, row: int, body: bytes, name: str) -> bytes:
        """Return the frames of one message, without a stencil; `name` is its name by content."""
        exchange, routing_key, deduplication_id, *_ = head
        properties = self._properties(head)
        headers = self._headers(row, deduplication_id, name)
        if headers:
            properties.headers = (properties.headers or {}) | headers
        method = publish_frame(exchange, routing_key, self._options.mandatory)
        return method + content(properties.encode(), body, self._frame_max)

    def _headers(self, row: int, deduplication_id: str, name: str) -> Table:
        task, options = self._task, self._options
        headers: dict[str, FieldValue] = {}
        if options.deduplication == "content":
            # Equal rows may be in several partitions, each of which counts them for itself.
            whole = f"{task.query}/{task.batch}/{task.partition}/{name}"
            headers[DEDUPLICATION_HEADER] = whole
        elif options.deduplication == "column":
            headers[DEDUPLICATION_HEADER] = deduplication_id
        if options.place_headers:
            headers[QUERY_HEADER] = task.query
            headers[BATCH_HEADER] = task.batch
            headers[PARTITION_HEADER] = task.partition
        if self._has_sequence:
            headers[SEQUENCE_HEADER] = row
        return headers


class Stencil:
    """Keeps the octets that precede the body in messages with one head, and the places of the
    differing parts: the name by content, the sequence number and the body's size."""

    __slots__ = ("_before_body", "_name_at", "_sequence_at", "_size_at")

    def __init__(self, before_body: bytes, name_at: int | None, sequence_at: int | None) -> None:
        self._before_body = np.frombuffer(before_body, np.uint8)
        self._name_at = name_at
        self._sequence_at = sequence_at
        self._size_at = frame_end(before_body, 0) + BODY_SIZE_AT

    def fill(self, first: int, bodies: Array, names: Array) -> Messages:
        """Return the messages of the rows from number `first` on. `bodies` and `names` are matrices
        with a row of octets for each message."""
        count, size = bodies.shape
        body_at = len(self._before_body)
        frames = np.empty((count, body_at + size + 1), np.uint8)
        rows = np.arange(first, first + count)
        self._write(frames[:, :body_at], rows, np.array([size]), names)
        frames[:, body_at:-1] = bodies
        frames[:, -1] = END
        return Messages(frames.reshape(-1).data, range(0, frames.size + 1, frames.shape[1]))

    def prefixes(self, rows: Array, sizes: Array, names: Array) -> Iterator[bytes]:
        """Yield the octets that precede the body for each of these row numbers. `sizes` are those
        of the bodies, in octets; `names` has a row of octets for each message."""
        size = len(self._before_body)
        made = np.empty((len(rows), size), np.uint8)
        self._write(made, rows, sizes, names)
        octets = made.tobytes()
        return (octets[at : at + size] for at in range(0, len(octets), size))

    def _write(self, into: Array, rows: Array, sizes: Array, names: Array) -> None:
        """Write a prefix into the matrix for each of `rows`; `sizes` are of one row or of all."""
        into[:] = self._before_body
        if self._name_at is not None:
            into[:, self._name_at : self._name_at + NAME_SIZE] = names
        if self._sequence_at is not None:
            into[:, self._sequence_at : self._sequence_at + SEQUENCE_SIZE] = octets_of(rows, ">i8")
        into[:, self._size_at : self._size_at + 8] = octets_of(sizes, ">u8")
        into[:, -4:] = octets_of(sizes, ">u4")


def octets_of(numbers: Array, kind: str) -> Array:
    """Return a matrix with the octets of each number in a row, in the layout `kind` of numpy."""
    return numbers.astype(kind).view(np.uint8).reshape(len(numbers), -1)


def binary_parts(column: pa.BinaryArray) -> tuple[Array, Array]:
    """Return the octets of all values, end to end, and the size of each in octets. The column must
    have no nulls."""
    _, offsets, data = column.buffers()
    start = column.offset * 4
    bounds = np.frombuffer(offsets, np.int32, len(column) + 1, start)
    octets = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return octets, np.diff(bounds)


def is_constant(column: pa.Array) -> bool:
    """Return whether all values are equal, or all are null. May be False for equal values, as with
    maps."""
    if column.null_count or pa.types.is_map(column.type):
        return bool(column.null_count == len(column))
    from pyarrow import compute as pc  # noqa: PLC0415 (start-up time of all that does not write)

    return bool(pc.all(pc.equal(column, column[0])).as_py())


def property_value(name: str, value: Any) -> Any:
    """Return a column's value as the property `name` has it in AMQP; None for null. Timestamps
    become seconds, taken as UTC when they name no zone."""
    if value is None:
        return None
    if name == "headers":
        return dict(value)
    if name == "timestamp":
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    return value
