"""Goal: a broker that has no patience with acknowledgements (`consumer_timeout`), or is away for a
while, ends no query; what comes twice because of it is flagged.

Method: brokers of our own with a timeout of two seconds, under queries whose triggers and batches
are longer; brokers that end and start again on their port.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicemq.client.session import BrokerError, ClosedByBrokerError
from sluicemq.spark import consumer_threads
from sluicemq.spark.commits import Offset
from sluicemq.spark.connecting import AmqpError, Outage, is_overdue, is_transient
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.options import Options
from sluicemq.spark.stream_planner import START, PlannedChunk, StreamPlanner
from spark.amqp_messages import Broker, Files, numbered, numbers, running, streaming
from spark.kill_parts import BrokerProcess
from support import broker
from support.waiting import await_truth

pytestmark = pytest.mark.spark

TIMEOUT_S = 2.0
AT_ONCE_S = 10.0
WAIT_S = 240.0
OVERDUE = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used:"
    " 1800000 ms. This timeout value can be configured, see consumers doc guide to learn more"
)


@pytest.fixture
def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker that waits TIMEOUT_S for acknowledgements."""
    yield from with_timeout(request, tmp_path, TIMEOUT_S)


@pytest.fixture
def less_impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker that waits longer than it takes to acknowledge at once on a busy machine."""
    yield from with_timeout(request, tmp_path, AT_ONCE_S)


def with_timeout(
    request: pytest.FixtureRequest, tmp_path: Path, timeout_s: float
) -> Iterator[Broker]:
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    folder = tmp_path / "broker"
    folder.mkdir()
    with broker.serving(folder, f"consumer_timeout={timeout_s * 1000:.0f}") as target:
        yield Broker(target.url)


def session(url: str, queue: str, **more: object) -> StreamPlanner:
    given = {"uri": url, "queue": queue} | {name: str(value) for name, value in more.items()}
    return StreamPlanner(Options.parse(given, "source"))


def rows(reader: StreamPlanner, start: Offset, end: Offset) -> int:
    return sum(count for _, count in reader.batch(start, end))


def plan(reader: StreamPlanner, start: Offset, rows_max: int = 2**40) -> Offset:
    """The next batch that is not empty."""
    deadline = time.monotonic() + WAIT_S
    while (end := reader.plan(start, rows_max)) == start:
        assert time.monotonic() < deadline
    return end


def test_what_waits_for_a_far_trigger_goes_back_and_comes_then(
    less_impatient: Broker, name: str
) -> None:
    """Nobody is connected between, so that the messages are there for others."""
    less_impatient.declare(name)
    less_impatient.publish(name, numbered(30))
    reader = session(less_impatient.url, name)
    try:
        end = plan(reader, dict(START), 10)
        reader.confirm(end)
        await_truth(lambda: less_impatient.ready(name) == 20)
        time.sleep(TIMEOUT_S)
        assert less_impatient.ready(name) == 20
        later = plan(reader, end)
        assert rows(reader, end, later) == 20
        reader.confirm(later)
    finally:
        reader.close()
    assert less_impatient.ready(name, 0) == 0


def test_a_full_consumer_does_not_hold_what_nobody_takes(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not read its socket, and so would not see that the broker has closed the channel."""
    monkeypatch.setattr(consumer_threads, "FULL_S", 0.5)
    amqp.declare(name)
    amqp.publish(name, numbered(100, size=1000))
    reader = session(amqp.url, name, maxBytesPerBatch=10_000, prefetch=50)
    try:
        reader.open()
        assert amqp.ready(name, 50) == 50
        assert amqp.ready(name, 100) == 100
        start, read = dict(START), 0
        while read < 100:
            end = plan(reader, start)
            read += rows(reader, start, end)
            reader.confirm(end)
            start = end
    finally:
        reader.close()
    assert amqp.ready(name, 0) == 0


def test_a_chunk_larger_than_halved_batches_is_taken_all_the_same(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(100))
    reader = session(amqp.url, name)
    try:
        reader.open()
        assert amqp.ready(name, 0) == 0
        end = plan(reader, dict(START), 7)
        assert rows(reader, dict(START), end) >= 7
    finally:
        reader.close()


def test_the_first_trigger_waits_for_the_connection(amqp: Broker, name: str) -> None:
    """There may be no second one for an hour."""
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    reader = session(amqp.url, name, pollTimeout=1000)
    try:
        assert rows(reader, dict(START), reader.plan(dict(START), 100)) == 10
    finally:
        reader.close()


class Stumble:
    """Has the only consumer of a session stumble once, while rows are waited for."""

    def __init__(
        self,
        reader: StreamPlanner,
        monkeypatch: pytest.MonkeyPatch,
        stumble: Callable[[ConsumerThread], None],
    ) -> None:
        self.stumbled = threading.Event()
        waiting = threading.Event()
        serve, wait = ConsumerThread._serve, StreamPlanner._wait_for_rows

        def serve_or_stumble(consumer: ConsumerThread) -> None:
            waiting.wait(WAIT_S)
            if not self.stumbled.is_set():
                self.stumbled.set()
                stumble(consumer)
            serve(consumer)

        def tell_and_wait(session: StreamPlanner) -> bool:
            waiting.set()
            assert self.stumbled.wait(WAIT_S)
            return wait(session)

        monkeypatch.setattr(ConsumerThread, "_serve", serve_or_stumble)
        monkeypatch.setattr(StreamPlanner, "_wait_for_rows", tell_and_wait)
        reader.limit_to_available()


def test_a_consumer_that_is_parked_while_it_is_waited_for_goes_on(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Trigger.AvailableNow there is no next trigger before what was counted has come."""

    def overdue(_consumer: ConsumerThread) -> None:
        raise ClosedByBrokerError(1, 406, OVERDUE)

    amqp.declare(name)
    amqp.publish(name, numbered(10))
    reader = session(amqp.url, name, timeout=2000)
    Stumble(reader, monkeypatch, overdue)
    try:
        assert rows(reader, dict(START), reader.plan(dict(START), 100)) == 10
    finally:
        reader.close()


def test_a_consumer_that_ends_says_why(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: nobody waits for it."""

    def fail(_consumer: ConsumerThread) -> None:
        raise ZeroDivisionError("a fault of ours")

    amqp.declare(name)
    amqp.publish(name, numbered(10))
    reader = session(amqp.url, name)
    Stumble(reader, monkeypatch, fail)
    try:
        with pytest.raises(AmqpError, match=f"queue '{name}': .*a fault of ours"):
            reader.plan(dict(START), 100)
    finally:
        reader.close()


def test_what_goes_back_as_it_is_taken_is_waited_for(
    amqp: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query over what is available does not end because there was nothing this time."""
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    reader = session(amqp.url, name)
    reader.limit_to_available()
    take, calls = StreamPlanner._take, []

    def lose_and_take(self: StreamPlanner, rows_max: int) -> list[PlannedChunk]:
        calls.append(rows_max)
        if len(calls) == 1:
            (consumer,) = self._assignment.consumers
            assert isinstance(consumer, ConsumerThread)
            assert consumer._subscription is not None
            consumer._subscription.wire.sever()
            deadline = time.monotonic() + WAIT_S
            while consumer.waiting_rows():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        return take(self, rows_max)

    monkeypatch.setattr(StreamPlanner, "_take", lose_and_take)
    try:
        assert rows(reader, dict(START), reader.plan(dict(START), 100)) == 10
        assert len(calls) > 1
    finally:
        reader.close()


def test_batches_that_take_too_long_become_smaller_until_they_get_on(
    impatient: Broker, name: str
) -> None:
    """A row takes so long that the broker waits for fifty, and the first batch has 200."""
    impatient.declare(name)
    impatient.publish(name, numbered(200))
    reader = session(impatient.url, name)
    sizes: list[int] = []
    start = dict(START)
    deadline = time.monotonic() + WAIT_S
    try:
        while sum(sizes) < 200 or impatient.ready(name) or sizes[-1]:
            assert time.monotonic() < deadline, sizes
            end = reader.plan(start, 2**40)
            sizes.append(rows(reader, start, end))
            time.sleep(sizes[-1] * TIMEOUT_S / 50)
            reader.confirm(end)
            start = end
    finally:
        reader.close()
    assert sizes[:2] == [200, 100]
    assert impatient.ready(name, 0) == 0


def test_a_query_outlives_a_batch_that_takes_too_long(
    spark: SparkSession, impatient: Broker, name: str, tmp_path: Path
) -> None:
    impatient.declare(name)
    impatient.publish(name, numbered(100))
    seen: list[tuple[int, bool]] = []

    def work(frame: DataFrame, number: int) -> None:
        found = frame.selectExpr("int(string(body)) as n", "redelivered").collect()
        deadline = time.monotonic() + WAIT_S
        while number == 0 and impatient.ready(name) < 100:
            assert time.monotonic() < deadline
        seen.extend((row.n, row.redelivered) for row in found)

    writer = streaming(spark, impatient, name).writeStream.foreachBatch(work)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with running(writer.start()) as query:
        deadline = time.monotonic() + WAIT_S
        while {n for n, redelivered in seen if redelivered} != set(range(100)):
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert sorted(n for n, redelivered in seen if not redelivered) == list(range(100))


def test_a_broker_that_comes_back_is_gone_on_with(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    process = BrokerProcess("sluicemq", tmp_path)
    process.start()
    files = Files(spark, tmp_path)
    try:
        amqp = Broker(process.url)
        with amqp.admin() as admin:
            admin.declare_queue(name)
        amqp.publish(name, numbered(10))
        frame = streaming(spark, amqp, name, retryBackoff="50")
        with running(files.start(frame, processingTime="100 milliseconds")) as query:
            query.processAllAvailable()
            process.kill()
            time.sleep(2.0)
            assert query.isActive, query.exception()
            process.start()
            amqp.publish(name, numbered(10, first=10))
            deadline = time.monotonic() + WAIT_S
            while files.rows().select("body").distinct().count() < 20:
                assert query.isActive, query.exception()
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        process.kill()
    assert sorted(set(numbers(files.rows()))) == list(range(20))
    assert files.rows().where("not redelivered").count() <= 20


def test_where_a_batch_could_end_says_which_broker_is_away() -> None:
    reader = session("amqp://127.0.0.1:1/", "q", retryBackoff=1, timeout=1000)
    try:
        assert reader.plan(dict(START), 10) == START
        found = reader.gathered()
        assert found["away_s"]["q"] >= 0.0
    finally:
        reader.close()


# The budget


def outage(**options: object) -> Outage:
    given = {name: str(value) for name, value in options.items()}
    return Outage(Options.parse({"queue": "q"} | given, "source"), "queue 'q'")


def test_an_outage_has_five_minutes() -> None:
    assert Options(queues=("q",)).reconnect_for_ms == 5 * 60 * 1000


def test_the_budget_is_of_time_and_not_of_tries() -> None:
    away = outage(reconnectFor=60_000, retryBackoff=1)
    waits = [away.failed(BrokerError("refused")) for _ in range(1000)]
    assert max(waits) == 5.0
    assert away.attempts == 1000


def test_the_last_try_is_at_the_end_of_the_budget() -> None:
    away = outage(reconnectFor=50, retryBackoff=60_000)
    wait_s = away.failed(BrokerError("refused"))
    assert 0.0 < wait_s < 0.051  # the clock and the budget are floats
    time.sleep(wait_s)
    with pytest.raises(AmqpError, match=r"queue 'q': refused \(tried 2 times in 0\.\d s"):
        away.failed(BrokerError("refused"))


def test_without_a_budget_nothing_is_tried_again() -> None:
    with pytest.raises(AmqpError, match=r"queue 'q', row 7: refused$"):
        outage(reconnectFor=0).failed(BrokerError("refused"), where=", row 7")


def test_each_outage_has_its_own_budget_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    away = outage(reconnectFor=60_000)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            away.failed(BrokerError("refused"))
            away.failed(BrokerError("refused"))
            away.over()
            assert away.seconds == 0.0
    began = "queue 'q': refused; tried again for 60 s (reconnectFor)"
    told = [record.getMessage() for record in caplog.records]
    assert told[::2] == [began, began]
    assert all("there again after" in line for line in told[1::2])


@pytest.mark.parametrize(
    ("code", "text", "transient", "overdue"),
    [
        (320, "CONNECTION_FORCED - broker forced connection closure", True, False),
        (404, "NOT_FOUND - no queue 'q' in vhost '/'", False, False),
        (404, "NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor", False, False),
        (
            404,
            "NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or"
            " inaccessible",
            True,
            False,
        ),
        (530, "NOT_ALLOWED - vhost '/' is down", True, False),
        (406, "PRECONDITION_FAILED - unknown delivery tag 7", False, False),
        (406, OVERDUE, False, True),
    ],
)
def test_what_the_broker_says_is_told_apart(
    code: int, text: str, transient: bool, overdue: bool
) -> None:
    error = ClosedByBrokerError(1, code, text)
    assert (is_transient(error), is_overdue(error)) == (transient, overdue)
