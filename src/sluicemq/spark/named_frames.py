"""Gives rows names by content that do not depend on their partitions.

    orders = named(orders, "orders of 2026-11-22")
    orders.write.format("amqp").option("deduplication", "column")

The sink's own names by content contain the partition, because equal rows may be in several. Here a
shuffle first brings equal rows together, so that they can be counted in the whole batch: a batch
has the same names however it is planned.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.types import MapType, StringType, StructField

from sluicemq.errors import Refused
from sluicemq.spark.encoding import DEDUPLICATION_COLUMN, SOURCE_ONLY
from sluicemq.spark.row_names import EqualCounter, digest, names_of
from sluicemq.spark.sink import place_in_query, task_context


def named(frame: DataFrame, write: str = "") -> DataFrame:
    """Return the frame with a column `deduplication_id`, and without the columns that only messages
    from a source have. Rows that are changed afterwards keep their names.

    `write` identifies the write, and is a part of the names: give the same when rows are written
    again, and another one for other rows; in `foreachBatch` include the number of the batch. Leave
    it empty for a streaming query, whose id and batch number are in the names already. Raises
    `Refused` when it is missing, or given for a streaming query.
    """
    if frame.isStreaming == bool(write):
        raise Refused(
            "write: is for batch writes; a streaming query has its own"
            if write
            else "write: is missing; say what is written, the same whenever it runs again"
        )
    rows = frame.drop(DEDUPLICATION_COLUMN, *SOURCE_ONLY)
    together = rows.repartition(f.xxhash64(*[hashable(field) for field in rows.schema.fields]))

    def name(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return names_in(write, batches)

    # The function counts, so Spark must neither repeat it nor move it before the shuffle.
    naming = arrow_udf(name, StringType(), ArrowUDFType.SCALAR_ITER).asNondeterministic()
    columns = [f.col(f"`{each}`") for each in rows.columns]
    return together.withColumn(DEDUPLICATION_COLUMN, naming(f.struct(*columns)))


def hashable(field: StructField) -> Column:
    """Return the field as a column that Spark can hash: a map, which it cannot, becomes a sorted
    array of entries."""
    column = f.col(f"`{field.name}`")
    return f.array_sort(f.map_entries(column)) if isinstance(field.dataType, MapType) else column


def names_in(write: str, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Yield the names of the rows of one partition, an array of texts for each array of structs.
    Equal rows must all be in the same partition."""
    scope = write or "{}/{}".format(*place_in_query(task_context()))
    counter = EqualCounter()
    for batch in batches:
        rows = zip(*map(canonical, batch.flatten()), strict=True)
        digests = [digest(repr(row).encode()) for row in rows]
        names = names_of(digests, counter) if digests else ()
        yield pa.array([f"{scope}/{each.tobytes().decode()}" for each in names], pa.string())


def canonical(column: pa.Array) -> list[object]:
    """Return the column's values so that equal ones have the same representation: maps become
    sorted lists of entries."""
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else sorted(value) for value in values]
    return values  # type: ignore[no-any-return]
