"""Write Spark's classes to an archive that the JVMs of the tests map instead of loading each class
from its jar: a start then takes half the CPU time. Run by `make test`.

    python tools/archive_classes.py .venv/spark.jsa

A small job uses what the tests use; its JVM writes the archive when it ends (class data sharing,
-XX:ArchiveClassesAtExit). A JVM that does not fit the archive runs without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
ROWS = 100


class Counting(SimpleDataSourceStreamReader):
    """Gives ROWS numbers once."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(each,) for each in range(start["next"], ROWS)]), {"next": ROWS}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(each,) for each in range(start["next"], end["next"])])


class Numbers(DataSource):
    """A data source in Python."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: object) -> object:
        raise NotImplementedError

    def simpleStreamReader(self, schema: object) -> Counting:  # noqa: N802
        return Counting()


def use(spark: SparkSession, folder: Path) -> None:
    """A little of everything: tables, SQL, functions in Python, Parquet, streams."""
    spark.udf.register("twice", lambda number: 2 * number, "int")
    some = spark.createDataFrame(
        [(each, str(each % 7)) for each in range(ROWS)], "id int, k string"
    )
    some.write.partitionBy("k").parquet(f"{folder}/table")
    table = spark.read.parquet(f"{folder}/table")
    table.createOrReplaceTempView("some")
    spark.sql(
        "select k, count(*), percentile_approx(id, 0.5), sum(twice(id)) over_all,"
        " max(id) from some group by k order by k"
    ).collect()
    table.join(some.dropDuplicates(["k"]), "k").repartition(2).toPandas()
    table.select("id").mapInArrow(lambda batches: batches, "id int").count()

    def keep(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").json(f"{folder}/lines")

    spark.dataSource.register(Numbers)
    stream = spark.readStream.format("numbers").load()
    stream.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", f"{folder}/checkpoint"
    ).foreachBatch(keep).start().awaitTermination()


def main(archive: Path) -> None:
    """Run the job and wait for the JVM to have written the archive."""
    unfinished = archive.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"{JAVA} -XX:ArchiveClassesAtExit={unfinished}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    jvm = spark.sparkContext._gateway.proc
    with tempfile.TemporaryDirectory() as folder:
        use(spark, Path(folder))
        spark.stop()
    jvm.stdin.close()
    jvm.wait()
    unfinished.rename(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
