"""Orders from a queue, revenue a minute and shop, to Parquet and back to an exchange.

    sluicemq serve                                   # in another terminal; or any AMQP broker
    python examples/orders.py [AMQP_URL [FOLDER]]    # guest at 127.0.0.1, folder out/orders

It makes the queues `orders` and `revenue` and the exchange `revenue` where they are missing, and,
in a new folder, ten minutes' worth of orders, each with an id and a body such as

    {"shop": "north", "amount": 12.5, "at": "2026-01-31T12:00:07Z"}

It takes what is in the queue, prints the revenue and ends. Run again it goes on where it was; a
trigger `processingTime` in place of `availableNow` would have it stay.

What makes it safe to kill at any moment: orders are acknowledged when their batch is in the
checkpoint. A batch that was cut off runs again with the same orders, and an order that was made or
sent twice counts once (`exactlyOnce`). The batch's Parquet folder is overwritten, and its messages
have the names they had (`deduplication_id`: a minute and shop has one row in the life of the
query), by which a queue with x-message-deduplication takes each once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sluicemq.client.blocking import connect
from sluicemq.spark.data_source import AmqpDataSource

URL = "amqp://guest:guest@127.0.0.1:5672/"
FOLDER = "out/orders"
ORDER = "shop string, amount double, at timestamp"
SHOPS = "north", "east", "south"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Half the time to warm up, a third of the speed when warm: not for a job that stays."""
BEGIN = 1_769_860_800
"""Noon of the 31st of January 2026, in seconds since 1970."""


def declare(url: str) -> None:
    """Queues and exchange, where they are missing."""
    with connect(url) as client:
        client.declare_exchange("revenue", "topic")
        for queue, arguments in (("orders", {}), ("revenue", {"x-message-deduplication": True})):
            if client.count_queue(queue) is None:
                client.declare_queue(queue, arguments=arguments)
        client.bind_queue("revenue", "revenue", "revenue.#")


def make_orders(spark: SparkSession, url: str, count: int) -> None:
    """An order a second; one task, so that they stand in the queue in that order."""
    number = f.col("id")
    shop = f.element_at(f.array(*map(f.lit, SHOPS)), (number % len(SHOPS) + 1).cast("int"))
    order = f.struct(
        shop.alias("shop"),
        (number % 40 / 2).alias("amount"),
        f.timestamp_seconds(number + BEGIN).alias("at"),
    )
    orders = spark.range(0, count, numPartitions=1).select(
        f.to_json(order).alias("body"), f.concat(f.lit("order-"), "id").alias("message_id")
    )
    writer = orders.write.format("amqp").mode("append").option("uri", url)
    writer.option("routingKey", "orders").save()


def revenue(orders: DataFrame) -> DataFrame:
    """A row a minute and shop, once the minute is over; orders may be two minutes late."""
    order = f.from_json(f.col("body").cast("string"), ORDER)
    return (
        orders.select(order.alias("order"))
        .select("order.*")
        .withWatermark("at", "2 minutes")
        .groupBy(f.window("at", "1 minute").alias("minute"), "shop")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("revenue"))
        .select(f.col("minute.start").alias("minute"), "shop", "orders", "revenue")
    )


def start_spark() -> SparkSession:
    """A session with as many partitions behind a shuffle as there are cores; Spark's 200 would cost
    a second or more of each micro-batch."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the PATH's python3
    spark = (
        SparkSession.builder.appName("orders")
        .config("spark.sql.shuffle.partitions", os.cpu_count() or 1)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", QUICK_JVM)
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(AmqpDataSource)
    return spark


def main(url: str = URL, folder: str = FOLDER, count: int = 600) -> None:
    """Make `count` orders in a new folder; run the query until the queue has been read."""
    spark = start_spark()
    declare(url)
    if not Path(folder, "checkpoint").exists():
        make_orders(spark, url, count)

    orders = (
        spark.readStream.format("amqp")
        .option("uri", url)
        .option("queue", "orders")
        .option("maxMessagesPerBatch", 150)  # so small only to have several batches
        .option("exactlyOnce", "true")
        .option("ledger", f"{folder}/ledger")
        .load()
    )

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        batch.write.mode("overwrite").parquet(f"{folder}/revenue/batch={number}")
        messages = batch.select(
            f.to_json(f.struct("*")).alias("body"),
            f.concat(f.lit("revenue."), "shop").alias("routing_key"),
            f.lit("application/json").alias("content_type"),
            f.concat_ws("/", "shop", f.unix_timestamp("minute")).alias("deduplication_id"),
        )
        (
            messages.write.format("amqp")
            .mode("append")
            .option("uri", url)
            .option("exchange", "revenue")
            .option("deduplication", "column")
            .save()
        )
        batch.unpersist()

    query = (
        revenue(orders)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.parquet(f"{folder}/revenue").orderBy("minute", "shop").show(100)


if __name__ == "__main__":
    main(*sys.argv[1:])
