"""Goal: consumers in processes of their own lose nothing when one of these dies, and do not outlive
their planner.

Method: the streaming reader on a real broker, driven as Spark drives it, without Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, BooleanType, StructField, StructType

from sluicemq.client.messages import BasicProperties
from sluicemq.errors import SluiceError
from sluicemq.spark import remote_groups
from sluicemq.spark.commits import Offset
from sluicemq.spark.consumer_assignment import ConsumerAssignment
from sluicemq.spark.gatherer_start import (
    GathererCall,
    ask_planner,
    connect_to_planner,
    start_on_executor,
)
from sluicemq.spark.options import Options
from sluicemq.spark.own_folder import own_folder
from sluicemq.spark.planner_link import BEAT_S
from sluicemq.spark.queue_stream import QueueStreamReader
from sluicemq.spark.remote_groups import RemoteGroup
from sluicemq.spark.transfer import Endpoint

from .amqp_messages import Broker, numbered
from .kill_parts import command_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = StructType([StructField("body", BinaryType()), StructField("redelivered", BooleanType())])
ROWS = 1000
WAIT_S = 240.0
GATHERER = "sluicemq.spark.gatherer"


class Query:
    """A reader, asked as Spark asks it."""

    def __init__(self, amqp: Broker, queues: list[str], **more: object) -> None:
        given = {"uri": amqp.url, "queues": ",".join(queues)}
        options = Options.parse(given | {k: str(v) for k, v in more.items()}, "source")
        self.reader = QueueStreamReader(options, SCHEMA)
        self.start = self.reader.initialOffset()
        self.rows: list[tuple[int, bool]] = []

    def plan(self) -> Offset:
        """The end of the next batch that has rows."""
        deadline = time.monotonic() + WAIT_S
        while (end := self.reader.latestOffset(self.start, ReadMaxRows(ROWS))) == self.start:
            assert time.monotonic() < deadline, "there is no batch"
        return end

    def read(self, end: Offset) -> None:
        """The batch that ends there."""
        for partition in self.reader.partitions(self.start, end):
            for batch in self.reader.read(partition):
                self.rows += [(int(row["body"]), row["redelivered"]) for row in batch.to_pylist()]
        self.start = end

    def read_all(self, count: int, again: Iterable[int] = ()) -> None:
        """Batches until that many different numbers have come, and those of `again` flagged, and
        the last batch is acknowledged."""
        while len({number for number, _ in self.rows}) < count or not {
            number for number, redelivered in self.rows if redelivered
        }.issuperset(again):
            self.read(self.plan())
        self.reader.commit(self.start)

    @property
    def assignment(self) -> ConsumerAssignment:
        session = self.reader._planner
        assert session is not None
        return session._assignment

    def unflagged_twice(self) -> list[int]:
        fresh = Counter(number for number, redelivered in self.rows if not redelivered)
        return [number for number, count in fresh.items() if count > 1]


def fill(amqp: Broker, name: str, queues: int, each: int) -> list[str]:
    names = [amqp.declare(f"{name}-{number}") for number in range(queues)]
    for number, queue in enumerate(names):
        amqp.publish(queue, numbered(each, number * each))
    return names


def test_a_process_that_is_killed_loses_nothing(amqp: Broker, name: str) -> None:
    """In the middle of a batch: what it had reads as empty there, and comes again, flagged."""
    queues = fill(amqp, name, queues=5, each=600)
    query = Query(amqp, queues)
    try:
        query.read(query.plan())
        children = list(query.assignment._children.values())
        assert 2 <= len(children) <= len(query.assignment.consumers) == 5
        assert all(isinstance(group, RemoteGroup) for group in query.assignment.groups)
        end = query.plan()
        children[0].kill()
        children[0].wait()
        query.read(end)
        query.read_all(3000)
        assert len(query.assignment._children) == len(children), "another one has taken its place"
        assert query.unflagged_twice() == []
        assert sorted({number for number, _ in query.rows}) == list(range(3000))
        assert [amqp.ready(queue, 0) for queue in queues] == [0] * 5
    finally:
        query.reader.stop()
    assert all(child.poll() is not None for child in children)


def test_exactly_once_does_not_go_on_without_what_is_lost(
    amqp: Broker, name: str, tmp_path: Path
) -> None:
    """A batch must have its rows: the query fails, and the next run of it reads them."""
    amqp.declare(name)
    ids = [BasicProperties(delivery_mode=2, message_id=str(number)) for number in range(500)]
    amqp.publish(name, numbered(500), ids)
    options = {"exactlyOnce": "true", "ledger": tmp_path / "ledger", "consumersPerQueue": 2}
    query = Query(amqp, [name], **options)
    again = Query(amqp, [name], **options)
    try:
        end = query.plan()
        for child in query.assignment._children.values():
            child.kill()
            child.wait()
        with pytest.raises(SluiceError, match="is gone"):
            query.read(end)
        query.reader.stop()
        again.rows = []
        again.read(end)
        again.read_all(500)
        assert sorted(number for number, _ in again.rows) == list(range(500))
    finally:
        query.reader.stop()
        again.reader.stop()


VICTIM = """
import sys, time
from sluicemq.spark.stream_planner import START, StreamPlanner
from sluicemq.spark.options import Options
from sluicemq.spark.own_folder import own_folder
session = StreamPlanner(Options.parse({"uri": sys.argv[1], "queues": sys.argv[2]}, "source"))
while session.plan(dict(START), 10)["serial"] == 0:
    pass
print(*[child.pid for child in session._assignment._children.values()], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_do_not_outlive_their_planner(amqp: Broker, name: str, number: int) -> None:
    queues = fill(amqp, name, queues=2, each=100)
    command = [sys.executable, "-c", VICTIM, amqp.url, ",".join(queues)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        assert victim.stdout is not None
        children = [int(pid) for pid in victim.stdout.readline().split()]
        assert len(children) == 2
        assert all(GATHERER in command_of(pid) for pid in children)
        victim.send_signal(number)
        victim.wait()
        assert [amqp.ready(queue, 100) for queue in queues] == [100, 100]
        deadline = time.monotonic() + WAIT_S
        while any(GATHERER in command_of(pid) for pid in children):
            assert time.monotonic() < deadline, "they are still there"
            time.sleep(0.02)
    finally:
        victim.kill()
        victim.wait()


def test_one_that_stands_by_takes_over(amqp: Broker, name: str) -> None:
    """Two processes came, one shall gather: the other does when that one is gone."""
    queues = fill(amqp, name, queues=2, each=1500)
    query = Query(amqp, queues, gather="executors", gatherers=1)
    try:
        end = query.plan()
        (partition,) = query.reader.partitions(query.start, end)
        call: GathererCall = partition.call  # type: ignore[attr-defined]
        start_on_executor(call)
        query.read(end)
        start_on_executor(replace(call, session=uuid.uuid4().hex))  # as if it were elsewhere
        query.read(query.plan())
        ask_planner(call.planner, are_there=2, within_s=WAIT_S)
        (group,) = query.assignment.groups
        assert isinstance(group, RemoteGroup)
        unacknowledged = [number for number, _ in query.rows]
        group.abandon()
        query.read_all(3000, again=unacknowledged)
        (successor,) = query.assignment.groups
        assert successor is not group
        assert query.unflagged_twice() == []
    finally:
        query.reader.stop()
    assert [amqp.ready(queue, 0) for queue in queues] == [0, 0]


class Mute(threading.Thread):
    """A process that gathers, which says that it has its consumers, and that they have nothing; but
    nothing by itself, nor that it lives."""

    def __init__(self, call: GathererCall) -> None:
        super().__init__(daemon=True)
        self.link, *_ = connect_to_planner(call)
        self.link.send({"token": call.planner.token, "join": Endpoint("127.0.0.1", 1, "", "")})

    def run(self) -> None:
        consumers: list[str] = []
        nothing = [0, 0, 0, True, True, False, 0, 0, 0, 0, None, None, False]
        while (asked := self.link.receive()) is not None:
            if asked["ask"] == "open":
                consumers += [consumer for _, consumer in asked["planned"]]
            if asked["ask"] != "beat":
                self.link.send({"n": asked["n"], "state": dict.fromkeys(consumers, nothing)})


def test_what_was_counted_is_waited_for_until_who_says_nothing_is_lost(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much shorter `timeout` is: what it had comes from another one then."""
    monkeypatch.setattr(remote_groups, "LEASE_S", BEAT_S + 3.0)
    queues = fill(amqp, name, queues=1, each=1500)
    query = Query(amqp, queues, gather="executors", gatherers=1, timeout=3000)
    try:
        query.reader.prepareForTriggerAvailableNow()
        end = query.plan()
        (partition,) = query.reader.partitions(query.start, end)
        call: GathererCall = partition.call  # type: ignore[attr-defined]
        Mute(call).start()
        ask_planner(call.planner, are_there=1, within_s=WAIT_S)
        start_on_executor(call)
        query.read(end)
        ask_planner(call.planner, are_there=2, within_s=WAIT_S)
        query.read_all(1500)
        assert query.reader.latestOffset(query.start, ReadMaxRows(ROWS)) == query.start
    finally:
        query.reader.stop()
    assert amqp.ready(queues[0], 0) == 0


def test_an_executor_gathers_once_and_joins(amqp: Broker, name: str) -> None:
    """This process stands for its Python workers: tasks that come at once start one process."""
    queues = fill(amqp, name, queues=3, each=200)
    query = Query(amqp, queues, gather="executors", gatherers=1)
    try:
        end = query.plan()
        assert (end["pos"], end["called"]) == ({}, 1)
        (partition,) = query.reader.partitions(query.start, end)
        call: GathererCall = partition.call  # type: ignore[attr-defined]
        threads = [threading.Thread(target=start_on_executor, args=(call,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        query.read(end)
        query.read_all(600)
        (group,) = query.assignment.groups
        assert sorted(consumer.queue for consumer in group.consumers) == queues
        assert query.assignment._children == {}
        assert query.unflagged_twice() == []
        pattern = f"gather-{call.session[:16]}-*"
        assert len(list(own_folder().glob(pattern))) == 1
    finally:
        query.reader.stop()
    assert [amqp.ready(queue, 0) for queue in queues] == [0, 0, 0]
    deadline = time.monotonic() + WAIT_S
    while list(own_folder().glob(pattern)):
        assert time.monotonic() < deadline, "the file of its lock is still there"
        time.sleep(0.02)
