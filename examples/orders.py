"""Orders from a queue, revenue a minute and shop, to Parquet and back to an exchange.

    python examples/orders.py AMQP_URL FOLDER

Needs the exchange `revenue` and the queue `orders`; its messages have an id, and a body such as

    {"shop": "north", "amount": 12.5, "at": "2026-01-31T12:00:07Z"}

Takes what is in the queue now and ends; run it again, or change the trigger to processingTime, to
go on.

What makes it safe to kill at any moment: orders are acknowledged when their batch is in the
checkpoint. A batch that was cut off runs again with the same orders (`exactlyOnce`). Its Parquet
folder is overwritten, and its messages have the names they had (`deduplication_id`: a minute and
shop has one row in the life of the query), by which a queue with x-message-deduplication takes each
once.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sluicemq.spark.data_source import AmqpDataSource

ORDER = "shop string, amount double, at timestamp"


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


def main(url: str, folder: str) -> None:
    """Run the query until the queue has been read."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the PATH's python3
    spark = SparkSession.builder.appName("orders").getOrCreate()
    spark.dataSource.register(AmqpDataSource)

    orders = (
        spark.readStream.format("amqp")
        .option("uri", url)
        .option("queue", "orders")
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


if __name__ == "__main__":
    main(*sys.argv[1:])
