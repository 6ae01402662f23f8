"""Goal: the worked example does what it says, and the pieces of the reference page can be copied.
Method: the example is run on a real broker, on orders of the test's own; the pieces are run as they
stand there, but for where the broker is.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluicemq.client.messages import BasicProperties
from spark.amqp_messages import Broker
from support.thorough import only_thorough

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "orders.py"
PAGE = ROOT / "docs" / "spark-amqp.md"
URI = "amqp://guest:guest@localhost:5672/"


def ids(first: int, count: int) -> list[BasicProperties]:
    return [BasicProperties(message_id=f"order-{n}") for n in range(first, first + count)]


def order(shop: str, amount: float, at: str) -> bytes:
    return json.dumps({"shop": shop, "amount": amount, "at": f"2026-01-31T{at}Z"}).encode()


@only_thorough
def test_orders_become_revenue_in_files_and_messages(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    assert spark is not None, "the example takes the session that runs"
    with amqp.admin() as admin:
        admin.delete_queue("orders")
        admin.declare_exchange("revenue", "topic")
    amqp.declare("orders")
    amqp.declare("revenue", x_message_deduplication=True)
    amqp.declare(name)
    with amqp.admin() as admin:
        admin.bind_queue(name, "revenue", "revenue.#")
    main = runpy.run_path(str(EXAMPLE))["main"]
    early = [
        order("north", 10, "12:00:01"),
        order("north", 5, "12:00:59"),
        order("south", 1, "12:00:30"),
    ]
    amqp.publish(
        "orders", [*early, order("south", 2, "12:01:00"), order("north", 1, "12:09:00")], ids(0, 5)
    )
    main(amqp.url, str(tmp_path), 0)
    amqp.publish(
        "orders", [order("north", 7, "12:00:00"), order("north", 1, "12:20:00")], ids(5, 2)
    )
    main(amqp.url, str(tmp_path), 0)
    rows = spark.read.parquet(str(tmp_path / "revenue")).collect()
    found = sorted(
        (row.minute.strftime("%H:%M"), row.shop, row.orders, row.revenue) for row in rows
    )
    assert found == [
        ("12:00", "north", 2, 15.0),
        ("12:00", "south", 1, 1.0),
        ("12:01", "south", 1, 2.0),
        ("12:09", "north", 1, 1.0),
    ]
    taken = amqp.take(name, 4)
    assert sorted(json.loads(body)["revenue"] for _, body in taken) == [1.0, 1.0, 2.0, 15.0]
    assert {properties.content_type for properties, _ in taken} == {"application/json"}
    assert amqp.ready("orders", 0) == 0


def test_the_pieces_of_the_reference_page_run(spark: SparkSession, amqp: Broker, name: str) -> None:
    """What they make is not started: many tests start queries like theirs."""
    amqp.declare(name)
    first, second = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    known: dict[str, Any] = {"spark": spark}
    exec(first.replace(URI, amqp.url).replace('"queue", "orders"', f'"queue", "{name}"'), known)
    assert known["orders"].isStreaming
    assert {"body", "message_id", "redelivered"} <= {*known["orders"].columns}
    exec(second, known)
