"""Goal: the cookbook can be copied from, and who makes a table in SQL is told what works instead.

Method: its pieces are run one after the other, on a real broker; what stands under one must be what
it prints. The run tries those before LATER, which have one of each kind: batches, SQL and a stream.
Tables are made and read.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.amqp_messages import Broker
from spark.http_api import Server
from support.broker import Target
from support.thorough import thorough

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COOKBOOK = Path(__file__).resolve().parents[2] / "docs" / "spark-cookbook.md"
PIECE = re.compile(r"^```(python|sql)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
MANAGEMENT = "http://localhost:15672"
"""Of RabbitMQ; here somebody else answers for it."""

URI = "amqp://guest:guest@localhost:5672/"
LATER = "## Two queries on one queue compete"
QUEUES = "shop.orders", "shop.copy", "shop.mail", "shop.history", "shop.totals"


def pieces() -> Iterator[tuple[int, str, str, str]]:
    """Line, language, code and what it prints."""
    text = COOKBOOK.read_text(encoding="utf-8")
    tried, later, _ = text.partition(LATER)
    assert later
    for found in PIECE.finditer(thorough(tried, text)):
        language, code, printed = found.groups()
        yield text.count("\n", 0, found.start()) + 2, language, code, printed or ""


def test_whatever_is_fenced_is_a_piece() -> None:
    text = COOKBOOK.read_text(encoding="utf-8")
    found = PIECE.findall(text)
    assert len(found) == text.count("```") // 2 - sum(bool(printed) for *_, printed in found)


def run_sql(spark: SparkSession, statements: str) -> None:
    """The rows of those that have some are shown."""
    for statement in filter(None, map(str.strip, statements.split(";"))):
        frame = spark.sql(statement)
        if frame.columns:
            frame.show()


def test_every_piece_prints_what_it_says(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    target: Target,
    amqp: Broker,
    tmp_path: Path,
) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    known: dict[str, Any] = {}
    api = Server(*QUEUES)
    request.addfinalizer(api.stop)
    api.start()
    for line, language, code, printed in pieces():
        here = code.replace(URI, amqp.url).replace("/data/shop", str(tmp_path))
        here = here.replace(MANAGEMENT, api.url)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            try:
                if language == "sql":
                    run_sql(spark, here)
                else:
                    exec(compile("\n" * (line - 1) + here, str(COOKBOOK), "exec"), known)
            except Exception as error:
                raise AssertionError(f"{COOKBOOK.name}:{line}: {error}") from error
        assert output.getvalue().strip() == printed.strip(), f"{COOKBOOK.name}:{line}"
    with amqp.admin() as admin:
        for queue in QUEUES:
            admin.delete_queue(queue)


def test_tables_are_answered_with_what_works(spark: SparkSession, amqp: Broker, name: str) -> None:
    source = f"USING amqp OPTIONS (uri '{amqp.url}', queue '{amqp.declare(name)}')"
    words = "There are no tables of it.*CREATE TEMPORARY VIEW"
    with pytest.raises(Exception, match=words):
        spark.sql(f"CREATE TABLE orders {source}")
    spark.sql(f"CREATE TABLE orders (body BINARY) {source}")  # Spark asks nobody
    try:
        with pytest.raises(Exception, match=words):
            spark.sql("SELECT * FROM orders").collect()
    finally:
        spark.sql("DROP TABLE orders")
