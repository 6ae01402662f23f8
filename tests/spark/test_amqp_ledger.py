"""Goal: a ledger keeps what Spark knows, belongs to one query and to its latest run, and lies
wherever Spark can have a checkpoint.

Method: ledgers in a directory, with no Spark around; a query whose ledger only Hadoop can open.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicemq.client.messages import BasicProperties
from sluicemq.errors import Refused
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.driver_files import DriverFiles
from sluicemq.spark.ledger import OWNER, Ledger, Part
from sluicemq.spark.listener import listen
from spark.amqp_messages import Broker, Files, numbered, numbers, streaming


def ledger_of(folder: Path, session: str, serial: int = 0, owner: str = "") -> Ledger:
    """As a session opens it."""
    ledger = Ledger(str(folder), 4, session)
    ledger.align(serial, owner)
    return ledger


def record(ledger: Ledger, *serials: int) -> None:
    for serial in serials:
        ledger.record(serial, [Part("q", 3, [f"{serial}a", f"{serial}b"])])


def test_a_ledger_keeps_what_spark_knows(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "one")
    record(ledger, 1, 2, 3, 4)
    again = Ledger(str(tmp_path), 4, "two")
    names = [f"{serial}a" for serial in (1, 2, 3, 4)]
    assert again.repeats("q", names, set()) == [2, 3]
    assert again.repeats("other", ["4a"], set()) == []
    again.align(3, ledger.id)
    assert (again.repeats("q", ["4a"], set()), again.batch(4)) == ([], None)
    assert Ledger(str(tmp_path), 4, "three").batch(3) == [Part("q", 3, ["3a", "3b"])]


def test_one_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"ledger = .*cannot be used"):
        Ledger(str(tmp_path / "file"), 1, "s")


def test_one_that_only_spark_can_open_needs_a_driver_that_does() -> None:
    with pytest.raises(Refused, match=r"ledger = 's3a://b/l': only Spark .*register"):
        Ledger("s3a://b/l", 1, "s")


def test_a_url_of_this_machine_is_a_directory(tmp_path: Path) -> None:
    ledger = Ledger(f"file://{tmp_path}/ledger", 4, "s")
    ledger.align(0, "")
    record(ledger, 1)
    assert (tmp_path / "ledger" / OWNER).exists()


def test_another_query_is_refused(tmp_path: Path) -> None:
    """A new one, and one that has a ledger elsewhere; what is in it stays."""
    ledger = ledger_of(tmp_path, "one")
    record(ledger, 1)
    ledger.settle()
    for owner in ("", "another"):
        with pytest.raises(Refused, match=r"ledger = .*: belongs to another query"):
            ledger_of(tmp_path, "two", 0, owner)
    record(ledger, 2)
    assert Ledger(str(tmp_path), 4, "three").batch(2) is not None


def test_the_same_query_goes_on_and_its_run_before_does_not(tmp_path: Path) -> None:
    first = ledger_of(tmp_path, "one")
    record(first, 1)
    first.settle()
    second = ledger_of(tmp_path, "two", 1, first.id)
    assert second.id == first.id
    with pytest.raises(AmqpError, match="another run of this one, has taken it"):
        record(first, 2)
    record(second, 2)
    first.settle()
    assert json.loads((tmp_path / OWNER).read_text())["session"] == "two"


def test_a_start_that_was_cut_off_leaves_it_to_the_next(tmp_path: Path) -> None:
    """Killed before Spark had written down the first batch, so nobody knows of it."""
    first = ledger_of(tmp_path, "one")
    record(first, 1)
    second = ledger_of(tmp_path, "two")
    assert second.batch(1) is None
    with pytest.raises(AmqpError, match="has taken it"):
        record(first, 2)


def test_one_of_an_earlier_version_becomes_its_querys(tmp_path: Path) -> None:
    record(ledger_of(tmp_path, "one"), 1, 2)
    (tmp_path / OWNER).unlink()
    found = ledger_of(tmp_path, "two", 2, "")
    assert found.batch(2) is not None
    assert ledger_of(tmp_path, "three", 2, found.id).id == found.id


@pytest.mark.spark
def test_one_that_only_hadoop_can_open_outlives_the_query(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    """A mount table has it, which is in Spark's configuration and nowhere else."""
    amqp.declare(name)
    ids = [BasicProperties(message_id=f"m{n}") for n in range(100)]
    amqp.publish(name, numbered(60), ids[:60])
    (tmp_path / "mounted").mkdir()
    mount = f"fs.viewfs.mounttable.{name}.link./ledgers"
    spark.conf.set(mount, f"file://{tmp_path}/mounted")
    try:
        session = spark.newSession()
        listen(session)
        files = Files(session, tmp_path)
        options = {"exactlyOnce": "true", "ledger": f"viewfs://{name}/ledgers/orders"}
        frame = streaming(session, amqp, name, **options)
        files.run(frame)
        amqp.publish(name, numbered(100), ids)
        files.run(frame)
    finally:
        spark.conf.unset(mount)
    assert numbers(files.rows()) == list(range(100))
    assert amqp.ready(name, 0) == 0
    names = [path.name for path in (tmp_path / "mounted" / "orders").iterdir()]
    assert OWNER in names
    assert not [each for each in names if each.endswith("json.tmp")]


@pytest.mark.spark
def test_the_driver_says_why_it_cannot(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(spark.newSession())
    java: object = spark
    pid = java._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[attr-defined]
    monkeypatch.setattr("sluicemq.spark.driver_lines.parent_of", lambda _: pid)
    with pytest.raises(OSError, match='No FileSystem for scheme "nowhere"'):
        DriverFiles("nowhere://x/y").names()
