"""Goal: what docs/spark-languages.md shows works. Method: its pieces are taken out of it and run on
a real broker: those in SQL in a session that is there, and with `make thorough` all of them by the
programs they are for, each in a process of its own.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark.amqp_messages import Broker, numbered
from support import broker
from support.thorough import only_thorough

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-languages.md"
HOME = Path(pyspark.__file__).parent
CONNECT = ("grpc", "grpc_status", "pandas", "zstandard", "google.protobuf")
"""What pyspark[connect] is made of."""
RUN_S = 1200


@pytest.fixture(autouse=True)
def queues(amqp: Broker) -> None:
    amqp.declare("lang.orders")
    amqp.declare("lang.copy")


def pieces(language: str, url: str, folder: Path) -> list[str]:
    """Those in one language, at home here."""
    text = PAGE.read_text(encoding="utf-8")
    text = text.replace("AMQP_URL", url).replace("/data/lang", str(folder))
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def run(folder: Path, *command: str) -> str:
    """What a program prints; it must succeed."""
    environment = broker.ENVIRONMENT | {
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def spark_program(name: str) -> list[str]:
    """One of Spark's own, on one core; without a folder for a Hive metastore."""
    settings = {"spark.ui.enabled": "false", "spark.sql.catalogImplementation": "in-memory"}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    return [str(HOME / "bin" / name), "--master", "local[1]", *conf]


def has(module: str) -> bool:
    """Can it be imported?"""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package
        return False


def counted(printed: str) -> list[str]:
    """How many rows a piece says it saw."""
    return re.findall(r"ready \d+|streamed \d+", printed)


def test_sql_reads_and_writes_by_temporary_views(
    spark: SparkSession, amqp: Broker, tmp_path: Path
) -> None:
    amqp.publish("lang.orders", numbered(10))
    views = "".join(pieces("sql", amqp.url, tmp_path))
    shown: list[tuple[object, ...]] = []
    try:
        for statement in filter(None, map(str.strip, views.split(";"))):
            shown += map(tuple, spark.sql(statement).collect())
    finally:
        for view in ("orders", "outgoing"):
            spark.catalog.dropTempView(view)
    assert shown == [("0", None)]
    has_copied(amqp)


@only_thorough
def test_spark_sql_reads_and_writes_by_temporary_views(amqp: Broker, tmp_path: Path) -> None:
    amqp.publish("lang.orders", numbered(10))
    script = tmp_path / "orders.sql"
    script.write_text("\n".join(pieces("sql", amqp.url, tmp_path)))
    printed = run(tmp_path, *spark_program("spark-sql"), "-f", str(script))
    assert "0\tNULL\n" in printed
    has_copied(amqp)


def has_copied(amqp: Broker) -> None:
    """The orders are there still, and copies of them."""
    assert sorted(int(body) for _, body in amqp.take("lang.copy", 10)) == list(range(10))
    assert amqp.ready("lang.orders", 10) == 10


@only_thorough
def test_scala_reads_writes_and_streams(amqp: Broker, tmp_path: Path) -> None:
    (piece,) = pieces("scala", amqp.url, tmp_path)
    script = tmp_path / "piece.scala"
    script.write_text(f"{piece}\nSystem.exit(0)\n")
    printed = run(tmp_path, *spark_program("spark-shell"), "-i", str(script))
    assert counted(printed) == ["ready 10", "streamed 10"]


@only_thorough
def test_spark_connect_reads_writes_and_streams(amqp: Broker, tmp_path: Path) -> None:
    missing = [module for module in CONNECT if not has(module)]
    if missing:
        pytest.skip(f"Spark Connect is NOT tested: no {', '.join(missing)} (pyspark[connect])")
    (piece,) = pieces("python", amqp.url, tmp_path)
    # A server of its own, which pyspark starts.
    script = tmp_path / "piece.py"
    script.write_text(piece.replace("sc://localhost", "local[1]"))
    printed = run(tmp_path, sys.executable, str(script))
    assert counted(printed) == ["ready 10", "streamed 10"]
