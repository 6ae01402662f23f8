"""Goal: a batch is acknowledged when its commit is in the checkpoint, not before, and not as late
as the next trigger; so a query that is stopped gets nothing again that it had committed.

Method: queries with an hour between triggers, on a real broker; the two ways to know of a commit,
each alone. The broker is asked by means of a full prefetch: one more message leaves the queue when
those of the batch are acknowledged.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent
from pyspark.sql.streaming.query import StreamingQuery

from sluicemq.errors import Refused
from sluicemq.spark.commits import CommitLog, CommitSigns, Offset, listener_of, tell_committed
from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.driver_lines import LineServer
from sluicemq.spark.listener import LISTENS, CommitListener, QueryRun, listen
from sluicemq.spark.options import Options
from sluicemq.spark.stream_planner import START, StreamPlanner
from spark.amqp_messages import Broker, Files, numbered, numbers, running, streaming
from support.thorough import thorough

pytestmark = pytest.mark.spark

ROWS = 100
FAR = {"processingTime": "1 hour"}
WAIT_S = 240.0
WAYS = "listener", "checkpoint"


class Way:
    """One of the ways to know, and no other."""

    def __init__(self, spark: SparkSession, way: str, folder: Path) -> None:
        # A session that was cloned has no listener.
        self.spark = spark.newSession()
        # Patient with its first trigger, for there is no second one.
        self.options: dict[str, Any] = {"prefetch": ROWS, "pollTimeout": 30_000}
        if way == "listener":
            listen(self.spark)
        else:
            self.spark.conf.set(LISTENS, "false")
            self.options["checkpointLocation"] = folder / "checkpoint"

    def read(self, amqp: Broker, queue: str) -> DataFrame:
        return streaming(self.spark, amqp, queue, **self.options)


def await_commit(folder: Path, batch: int, query: StreamingQuery) -> None:
    """Until the batch's file is there."""
    path = folder / "checkpoint" / "commits" / str(batch)
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"batch {batch} is not committed"
        time.sleep(0.01)


@pytest.mark.parametrize("way", thorough(WAYS[:1], WAYS))
def test_a_committed_batch_does_not_wait_for_the_next_trigger(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path, way: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(ROWS))
    way_of = Way(spark, way, tmp_path)
    files = Files(way_of.spark, tmp_path)
    frame = way_of.read(amqp, name)
    with running(files.start(frame, **FAR)) as query:
        await_commit(tmp_path, 0, query)
        amqp.publish(name, numbered(1, first=ROWS))
        assert amqp.ready(name, 0) == 0
    assert amqp.ready(name, 1) == 1
    files.run(frame)
    assert numbers(files.rows()) == list(range(ROWS + 1))
    assert numbers(files.rows().where("redelivered")) == [ROWS]
    assert amqp.ready(name, 0) == 0


@pytest.mark.parametrize("way", thorough(WAYS[1:], WAYS))
def test_a_query_stopped_at_once_has_acknowledged_what_it_committed(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path, way: str
) -> None:
    amqp.declare(name)
    way_of = Way(spark, way, tmp_path)
    files = Files(way_of.spark, tmp_path)
    frame = way_of.read(amqp, name)
    for batch in range(2):
        amqp.publish(name, numbered(ROWS, first=batch * ROWS))
        query = files.start(frame, **FAR)
        await_commit(tmp_path, batch, query)
        query.stop()
    files.run(frame)
    assert numbers(files.rows()) == list(range(2 * ROWS))
    assert amqp.ready(name, 0) == 0


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_acknowledged_before_it_is_committed(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path, way: str
) -> None:
    """The batch is planned, its rows are read and written: and yet it is not in the checkpoint."""
    amqp.declare(name)
    amqp.publish(name, numbered(ROWS))
    way_of = Way(spark, way, tmp_path)
    written, gate = tmp_path / "written", tmp_path / "gate"

    def write(frame: DataFrame, _number: int) -> None:
        assert frame.count() == ROWS
        written.touch()
        while not gate.exists():
            time.sleep(0.02)

    writer = way_of.read(amqp, name).writeStream.foreachBatch(write).trigger(**FAR)
    checkpoint = str(tmp_path / "checkpoint")
    with running(writer.option("checkpointLocation", checkpoint).start()) as query:
        deadline = time.monotonic() + WAIT_S
        while not written.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        amqp.publish(name, numbered(1))
        time.sleep(1.0)
        assert amqp.ready(name) == 1
        gate.touch()
        await_commit(tmp_path, 0, query)
        assert amqp.ready(name, 0) == 0


def test_a_stop_waits_for_a_driver_that_is_slow_to_say_what_was_committed(
    spark: SparkSession,
    amqp: Broker,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is said of the batch before the query is, and that takes the driver seconds."""
    tell = CommitListener.onQueryTerminated

    def tell_late(self: CommitListener, event: QueryTerminatedEvent) -> None:
        time.sleep(3.0)
        tell(self, event)

    monkeypatch.setattr(CommitListener, "onQueryProgress", lambda *_: None)
    monkeypatch.setattr(CommitListener, "onQueryTerminated", tell_late)
    amqp.declare(name)
    amqp.publish(name, numbered(ROWS))
    way_of = Way(spark, "listener", tmp_path)
    query = Files(way_of.spark, tmp_path).start(way_of.read(amqp, name), **FAR)
    await_commit(tmp_path, 0, query)
    query.stop()
    await_no_consumer(amqp, name)
    assert amqp.ready(name) == 0


def await_no_consumer(amqp: Broker, name: str) -> None:
    """Until whoever had messages has acknowledged them or given them back."""
    deadline = time.monotonic() + WAIT_S
    with amqp.admin() as client:
        while (counts := client.count_queue(name)) is None or counts.consumers:
            assert time.monotonic() < deadline, "the planner is still there"
            time.sleep(0.05)


def planned(amqp: Broker, name: str, **more: object) -> tuple[StreamPlanner, Offset]:
    """A session with a batch that is out."""
    amqp.declare(name)
    amqp.publish(name, numbered(ROWS))
    given = {"uri": amqp.url, "queue": name, "pollTimeout": "30000"}
    options = Options.parse(given | {key: str(value) for key, value in more.items()}, "source")
    session = StreamPlanner(options)
    start, end, count = dict(START), dict(START), 0
    while count < ROWS:
        end = session.plan(end, ROWS)
        count = end["pos"][name]
    assert start != end
    return session, end


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_session_that_ends_asks_the_driver(amqp: Broker, name: str, is_committed: bool) -> None:
    """This process stands for the driver's Python, and its parent for the JVM."""
    session, end = planned(amqp, name)
    asked: list[str] = []

    def last_word(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question["session"])
        return {"offsets": [json.dumps(each) for each in (END, end)[: 1 + is_committed]]}

    path = listener_of(os.getppid(), name[-8:])
    LineServer(path, last_word)
    try:
        session.close()
    finally:
        os.unlink(path)
    assert asked == [session.id]
    await_no_consumer(amqp, name)
    assert amqp.ready(name) == (0 if is_committed else ROWS)


def test_a_session_that_ends_looks_at_the_checkpoint_itself(
    amqp: Broker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was seen before: Spark ends a planner when its query runs no more."""
    monkeypatch.setattr("sluicemq.spark.commits.LOOK_S", 1000.0)
    monkeypatch.setattr("sluicemq.spark.stream_planner.WATCH_S", 1000.0)
    session, end = planned(amqp, name, checkpointLocation=tmp_path)
    checkpoint(tmp_path, ["v1", "{}", json.dumps(end)])
    session.close()
    await_no_consumer(amqp, name)
    assert amqp.ready(name) == 0


@pytest.mark.parametrize("is_of_this_run", [True, False])
def test_a_listener_waits_for_the_end_of_the_run_that_planned_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_of_this_run: bool
) -> None:
    """A query that has begun again has the offsets of the run before, and does not end."""
    monkeypatch.setattr("sluicemq.spark.listener.LAST_WORD_S", 0.5)
    lines = ["v1", "{}", json.dumps(END)]
    place = checkpoint(tmp_path, lines)
    listener = CommitListener(spark)
    listener._runs["this"] = QueryRun(place, [] if is_of_this_run else lines)
    listener._runs["new"] = QueryRun(place + "/new", [])
    (tmp_path / "new").mkdir()
    said = listener.last_word({"session": SESSION})
    assert said == {"offsets": lines if is_of_this_run else []}


def test_what_was_said_while_nobody_listened_is_heard_at_the_end(amqp: Broker, name: str) -> None:
    session, end = planned(amqp, name)
    session._closing.set()
    session._signs.interrupt()
    assert session._watching is not None
    session._watching.join(WAIT_S)
    tell_committed(end | {"pos": {}})
    tell_committed(end)
    session.close()
    await_no_consumer(amqp, name)
    assert amqp.ready(name) == 0


def test_who_registers_the_source_listens(spark: SparkSession) -> None:
    spark.dataSource.register(AmqpDataSource)
    assert spark.conf.get(LISTENS) == "true"


SESSION = "0123456789abcdef0123456789abcdef"
END = {"session": SESSION, "pos": {"orders": 7}, "serial": 3}


def checkpoint(folder: Path, lines: list[str], *, commits: tuple[str, ...] = ("4",)) -> str:
    for log in ("offsets", "commits"):
        (folder / log).mkdir(exist_ok=True)
    (folder / "offsets" / "4").write_text("\n".join(lines))
    for commit in commits:
        (folder / "commits" / commit).write_text("v1\n{}")
    return str(folder)


@pytest.mark.parametrize(
    "lines",
    [
        ["v1", '{"batchWatermarkMs":0}', "-", json.dumps(END)],
        ["v2", json.dumps({"sources": {"0": json.dumps(END)}})],
    ],
)
def test_the_offset_of_the_last_commit_is_found_once(tmp_path: Path, lines: list[str]) -> None:
    log = CommitLog(checkpoint(tmp_path, lines))
    assert log.committed(SESSION) == END
    assert log.committed(SESSION) is None


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, ["v1", "{}", json.dumps(END)])
    assert CommitLog(f"file:{place}").committed(SESSION) == END
    assert CommitLog(f"file://{place}").committed(SESSION) == END


@pytest.mark.parametrize("commits", [(), (".4.crc", ".4.0123.tmp")])
def test_a_batch_without_its_commit_is_none(tmp_path: Path, commits: tuple[str, ...]) -> None:
    place = checkpoint(tmp_path, ["v1", "{}", json.dumps(END)], commits=commits)
    assert CommitLog(place).committed(SESSION) is None


def test_another_session_and_no_checkpoint_say_nothing(tmp_path: Path) -> None:
    assert CommitLog(str(tmp_path / "none")).committed(SESSION) is None
    other = END | {"session": "f" * 32}
    place = checkpoint(tmp_path, ["v1", "{}", json.dumps(other)])
    assert CommitLog(place).committed(SESSION) is None


def test_what_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, [])
    offsets = tmp_path / "offsets" / "4"
    offsets.unlink()
    log = CommitLog(place)
    assert log.committed(SESSION) is None
    offsets.write_text(json.dumps(END))
    assert log.committed(SESSION) == END


def test_a_file_system_nobody_knows_is_refused() -> None:
    with pytest.raises(Refused, match="checkpointLocation = 'tape://1/x': cannot be read"):
        CommitLog("tape://1/x")


@pytest.mark.parametrize("end", [END, json.dumps(END)])
def test_a_session_hears_of_its_own_commits_only(end: Any) -> None:
    signs = CommitSigns(SESSION, "")
    try:
        for stray in ({"n": 1}, None, "no JSON", END | {"session": "../x"}, 7):
            tell_committed(stray)  # type: ignore[arg-type]
        assert signs.wait(0.01, is_looking=True) is None
        tell_committed(end)
        assert signs.wait(10, is_looking=True) == END
    finally:
        signs.close()
    tell_committed(end)  # nobody listens


def test_a_client_of_spark_connect_is_told_what_works(caplog: pytest.LogCaptureFixture) -> None:
    """And not what its session cannot do; the client has no server here, and needs none."""
    connect = pytest.importorskip("pyspark.sql.connect.session", reason="no pyspark[connect]")
    listen(object.__new__(connect.SparkSession))
    (told,) = caplog.records
    assert "Spark Connect: give the source the query's checkpointLocation too" in told.getMessage()
