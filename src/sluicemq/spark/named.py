"""Names by content that do not depend on the partitions rows are in.

    orders = named(orders, "orders of 2026-11-22")
    orders.write.format("amqp").option("deduplication", "column")

The sink's own names by content say the partition, for equal rows may stand in several. Here equal
rows are brought together first, by a shuffle, so that they can be counted in the whole batch: a
batch has the same names however it is planned.
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
from sluicemq.spark.naming import EqualCounter, digest, names_of
from sluicemq.spark.sink import place_in_query, task_context


def named(frame: DataFrame, write: str = "") -> DataFrame:
    """The frame with a column `deduplication_id`, and without what messages have only when they
    were read. Rows that are changed after it keep the names they had.

    `write` stands in the names for what is written: the same when it is written again, another one
    for other rows, so that of `foreachBatch` has the number of the batch in it. A streaming query
    has its id and the number of the batch there itself. `Refused` when it is missing, or too much.
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

    # It counts, so Spark must neither repeat it nor move it before the shuffle.
    naming = arrow_udf(name, StringType(), ArrowUDFType.SCALAR_ITER).asNondeterministic()
    columns = [f.col(f"`{each}`") for each in rows.columns]
    return together.withColumn(DEDUPLICATION_COLUMN, naming(f.struct(*columns)))


def hashable(field: StructField) -> Column:
    """Spark hashes no maps, for their entries have no order."""
    column = f.col(f"`{field.name}`")
    return f.array_sort(f.map_entries(column)) if isinstance(field.dataType, MapType) else column


def names_in(write: str, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The names of the rows of a partition in which equal ones are together; a batch is an array of
    structs."""
    scope = write or "{}/{}".format(*place_in_query(task_context()))
    counter = EqualCounter()
    for batch in batches:
        rows = zip(*map(canonical, batch.flatten()), strict=True)
        digests = [digest(repr(row).encode()) for row in rows]
        names = names_of(digests, counter) if digests else ()
        yield pa.array([f"{scope}/{each.tobytes().decode()}" for each in names], pa.string())


def canonical(column: pa.Array) -> list[object]:
    """Values of which equal ones look alike."""
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else sorted(value) for value in values]
    return values  # type: ignore[no-any-return]
