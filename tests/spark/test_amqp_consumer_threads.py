"""Goal: what bounds a consumer holds, whatever comes, and nothing is lost or stands in the wrong
order because of it.

Method: consumers on a real broker, with no Spark around them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from sluicemq.client.consuming import Subscription
from sluicemq.client.messages import BasicProperties, body_of
from sluicemq.spark import consumer_threads
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.commits import Offset
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.options import Options
from sluicemq.spark.queue_stream import split, without_rows
from sluicemq.spark.schema import Decoder
from sluicemq.spark.stream_planner import START, StreamPlanner
from sluicemq.spark.transfer import fetch

from .amqp_messages import Broker, numbered

KIB = 1024
WAIT_S = 240.0
LONGEST_POLL_S = 60
"""As much as `pollTimeout` may be."""
A_READ = 256 * KIB
"""More than one read of the socket brings."""


def options(amqp: Broker, queue: str, **more: object) -> Options:
    given = {"uri": amqp.url, "queue": queue} | {name: str(value) for name, value in more.items()}
    return Options.parse(given, "source")


def until(wanted: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_S
    while not wanted():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def bodies_of(chunks: list[GatheredChunk]) -> list[bytes]:
    return [body_of(each) for chunk in chunks for _, each in chunk.messages()]


def take_all(consumer: ConsumerThread, count: int) -> list[bytes]:
    """Take and acknowledge until there are so many."""
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        taken = consumer.take(2**40, 2**40)
        found += bodies_of(taken)
        consumer.acknowledge(consumer.taken)
        time.sleep(0.001 if taken else 0.01)
    return found


def test_a_consumer_reads_no_more_than_its_bytes(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    sent = numbered(400, size=10 * KIB)
    amqp.publish(name, sent)
    consumer = ConsumerThread(options(amqp, name), name, name, threading.Condition(), 500 * KIB)
    try:
        assert until(lambda: consumer.waiting_bytes() >= 500 * KIB)
        time.sleep(0.7)  # longer than it sleeps by itself
        held = consumer.waiting_bytes()
        assert held <= 500 * KIB + A_READ
        time.sleep(0.7)
        assert consumer.waiting_bytes() == held
        assert take_all(consumer, len(sent)) == sent
    finally:
        consumer.stop()
    assert amqp.ready(name, 0) == 0


def test_a_body_above_the_bound_comes_all_the_same(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    sent = numbered(5, size=700 * KIB)
    amqp.publish(name, sent)
    consumer = ConsumerThread(options(amqp, name), name, name, threading.Condition(), 100 * KIB)
    try:
        assert take_all(consumer, len(sent)) == sent
    finally:
        consumer.stop()


@pytest.mark.parametrize("prefetch", [65_535, 65_536, 70_001])
def test_a_prefetch_of_any_size_is_never_exceeded(amqp: Broker, name: str, prefetch: int) -> None:
    """basic.qos has 16 bits for it: above them several consumers share one channel, in order."""
    amqp.declare(name)
    sent = numbered(prefetch + 500)
    amqp.publish(name, sent)
    consumer = ConsumerThread(
        options(amqp, name, prefetch=prefetch), name, name, threading.Condition(), 2**40
    )
    try:
        assert until(lambda: consumer.waiting_rows() >= prefetch)
        assert amqp.ready(name, 500) == 500
        assert consumer.waiting_rows() == prefetch
        got = take_all(consumer, len(sent))
    finally:
        consumer.stop()
    assert sorted(got) == sorted(sent)
    assert got[:prefetch] == sent[:prefetch]
    assert amqp.ready(name, 0) == 0


def test_a_consumer_that_stops_has_written_what_was_acknowledged(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ends next, so the end waits for that, on a slow machine longer than else."""
    monkeypatch.setattr(consumer_threads, "STOP_S", 0.01)
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    consumer = ConsumerThread(options(amqp, name), name, name, threading.Condition(), 2**40)
    assert until(lambda: consumer.waiting_rows() == 10)
    consumer.take(2**40, 2**40)
    gate = threading.Event()
    write = ConsumerThread._write_acks

    def write_late(self: ConsumerThread, subscription: Subscription) -> None:
        assert gate.wait(WAIT_S)
        write(self, subscription)

    monkeypatch.setattr(ConsumerThread, "_write_acks", write_late)
    consumer.acknowledge(consumer.taken)
    threading.Timer(1.0, gate.set).start()
    consumer.stop()
    assert gate.is_set()
    assert not consumer._unwritten
    assert amqp.ready(name, 0) == 0


def test_a_batch_waits_while_messages_keep_coming(amqp: Broker, name: str) -> None:
    """The first trigger of a query is no batch of the first few messages."""
    amqp.declare(name)
    amqp.publish(name, numbered(20_000))
    session = StreamPlanner(options(amqp, name, pollTimeout=1000 * LONGEST_POLL_S))
    try:
        began = time.monotonic()
        end = session.plan(dict(START), 2**40)
        assert time.monotonic() - began < LONGEST_POLL_S
        assert end["pos"][name] > 2_000, "the first few messages; all, unless the machine is slow"
    finally:
        session.close()
    assert amqp.ready(name, 20_000) == 20_000


@pytest.mark.parametrize("consumers", [1, 2])
def test_a_replayed_batch_has_its_rows_in_their_places(
    amqp: Broker, name: str, tmp_path: Path, consumers: int
) -> None:
    """The sink's names say the partition. Meanwhile more has come, and comes first to some."""
    amqp.declare(name)
    sent = [b"%d" % (n % 8500) for n in range(20_000)]
    ids = [BasicProperties(message_id=each.decode()) for each in sent]
    more = {"exactlyOnce": True, "ledger": tmp_path / "ledger", "consumersPerQueue": consumers}
    given = options(amqp, name, **more)
    first = StreamPlanner(given)
    for low in range(0, 9000, 300):
        amqp.publish(name, sent[low : low + 300], ids[low : low + 300])
    first.open()
    assert until(lambda: any(first.gathered()["pos"].values()))
    time.sleep(0.5)
    end = first.plan(dict(START), 10_000)
    before = by_task(first, end)
    first.close()
    amqp.publish(name, sent[9000:], ids[9000:])
    second = StreamPlanner(given)
    try:
        assert by_task(second, end) == before
        assert sum(map(len, before)) == 8500
    finally:
        second.close()


def test_a_batch_that_is_given_back_late_is_found_behind_what_came_first(
    amqp: Broker, name: str, tmp_path: Path
) -> None:
    """The session before is still there when the next one has all it may have unacknowledged."""
    amqp.declare(name)
    sent = [b"%d" % n for n in range(6000)]
    amqp.publish(name, sent, [BasicProperties(message_id=each.decode()) for each in sent])
    more = {"exactlyOnce": True, "ledger": tmp_path / "ledger", "prefetch": 2000}
    given = options(amqp, name, maxMessagesPerBatch=1000, timeout=60_000, **more)
    first = StreamPlanner(given)
    first.open()
    assert until(lambda: any(first.gathered()["pos"].values()))
    end = first.plan(dict(START), 1000)
    before = by_task(first, end)
    second = StreamPlanner(given)
    second.open()
    assert until(lambda: any(second.gathered()["pos"].values()))
    later = threading.Timer(1.0, first.close)
    later.start()
    try:
        assert by_task(second, end) == before
    finally:
        later.join()
        second.close()


def by_task(session: StreamPlanner, end: Offset) -> list[list[bytes]]:
    """What each of two tasks gets of the first batch."""
    found = []
    for pieces in split(session.batch(dict(START), end), 2):
        rows = []
        for piece in pieces:
            (got,) = fetch(piece.endpoint, [piece.number])
            decoder = Decoder(StructType([StructField("body", BinaryType())]))
            batch = decoder.decode(got.queue, got.runs, got.sizes, got.data)
            rows += without_rows(batch, piece.skip).column("body").to_pylist()
        found.append(rows)
    return found
