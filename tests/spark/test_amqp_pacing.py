"""Goal: batches follow the flow and what options say of it: none smaller than wanted before its
time, no more rows a second than allowed, and none waits for more while few come.

Method: the rules with a clock of the test's; a session on a real broker, with no Spark around it.
"""

from __future__ import annotations

import time

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from sluicemq.errors import Refused
from sluicemq.spark.commits import Offset
from sluicemq.spark.option_conflicts import check_batch
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED, Pace
from sluicemq.spark.stream_planner import START, StreamPlanner
from sluicemq.spark.stream_reader import StreamMicroBatchReader
from spark.amqp_messages import Broker, numbered

MANY = 2**40
PATIENCE_S = 240.0
LONGEST_POLL_S = 60
"""As much as `pollTimeout` may be."""


def options(queue: str = "q", uri: str = "", **more: object) -> Options:
    given = {"queue": queue} | {name: str(value) for name, value in more.items()}
    return Options.parse(given | ({"uri": uri} if uri else {}), "source")


def plan_until(session: StreamPlanner, start: Offset, seconds: float = PATIENCE_S) -> Offset:
    """Plan as Spark does, until there is a batch or the time is over."""
    deadline = time.monotonic() + seconds
    while (end := session.plan(start, MANY)) == start and time.monotonic() < deadline:
        pass
    return end


def test_a_batch_has_the_least_number_of_rows_or_waits_for_its_delay() -> None:
    pace = Pace(options(minMessagesPerTrigger=100, maxTriggerDelay=60_000), 10.0)
    assert not pace.enough(99, 69.9)
    assert pace.enough(100, 10.0)
    assert pace.enough(1, 70.0)
    pace.planned(1, 70.0)
    assert not pace.enough(99, 129.9)
    assert pace.enough(1, 130.0)


def test_without_options_any_row_is_a_batch_of_any_size() -> None:
    pace = Pace(options(), 0.0)
    assert pace.enough(1, 0.0)
    assert pace.room(0.0) == ROWS_UNLIMITED


def test_rows_are_allowed_as_time_passes() -> None:
    pace = Pace(options(maxRowsPerSecond=100), 0.0)
    assert pace.room(0.0) == 100
    pace.planned(100, 0.0)
    assert pace.room(0.005) == 0
    assert pace.room(0.25) == 25
    pace.planned(1025, 0.25)  # a chunk that is not cut
    assert pace.room(10.2) == 0
    assert pace.room(11.0) > 0


def test_triggers_far_apart_have_the_rows_of_the_time_between() -> None:
    pace = Pace(options(maxRowsPerSecond=100), 0.0)
    pace.trigger(60.0)
    assert pace.room(60.0) == 6000
    assert pace.room(60.0) == 6000
    pace.planned(6000, 60.0)
    for quarter in range(4 * 60, 4 * 90):  # nothing comes for half a minute
        pace.trigger(quarter / 4)
        pace.room(quarter / 4)
    assert pace.room(90.0) == 100, "what was not used is not saved up"


def test_few_rows_do_not_wait_for_more(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    session = StreamPlanner(options(name, amqp.url, pollTimeout=1000 * LONGEST_POLL_S))
    try:
        session.open()
        amqp.publish(name, numbered(10))
        began = time.monotonic()
        end = session.plan(dict(START), MANY)
        assert end["pos"][name] > 0
        assert time.monotonic() - began < LONGEST_POLL_S
    finally:
        session.close()


def test_a_batch_waits_for_the_least_number_of_rows(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    session = StreamPlanner(options(name, amqp.url, minMessagesPerTrigger=50))
    try:
        amqp.publish(name, numbered(49))
        deadline = time.monotonic() + PATIENCE_S
        while session.gathered()["pos"] != {name: 49}:
            assert session.plan(dict(START), MANY) == START
            assert time.monotonic() < deadline, session.gathered()
        assert plan_until(session, dict(START), 0.5) == START
        amqp.publish(name, numbered(1))
        assert plan_until(session, dict(START))["pos"] == {name: 50}
    finally:
        session.close()


def test_a_batch_comes_when_its_delay_is_over_or_no_more_can_be_held(
    amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    least = {"minMessagesPerTrigger": 50}
    session = StreamPlanner(options(name, amqp.url, **least, maxTriggerDelay=300))
    try:
        assert plan_until(session, dict(START))["pos"] == {name: 10}
    finally:
        session.close()
    session = StreamPlanner(options(name, amqp.url, **least, maxBytesPerBatch=5))
    try:
        assert plan_until(session, dict(START))["pos"][name] > 0
    finally:
        session.close()


def test_a_finite_read_keeps_to_the_rate_and_waits_for_no_least_number(
    amqp: Broker, name: str
) -> None:
    queues = [amqp.declare(name), amqp.declare(f"{name}-2")]
    for queue in queues:
        amqp.publish(queue, numbered(301))
    given = {"queues": ",".join(queues), "uri": amqp.url}
    began = time.monotonic()
    paced = given | {"maxRowsPerSecond": "200", "minMessagesPerTrigger": "200"}
    session = StreamPlanner(Options.parse(paced, "source"))
    try:
        session.limit_to_available()
        at: Offset = dict(START)
        while (end := session.plan(at, MANY)) != at:
            at = end
        assert list(at["pos"].values()) == [301, 301]
        # 200 were allowed at once; before the last chunk was, those before it had to be.
        assert time.monotonic() - began > 0.5
    finally:
        session.close()


def test_streams_heed_them_too(amqp: Broker, name: str) -> None:
    amqp.declare(name, x_queue_type="stream")
    amqp.publish(name, numbered(30))
    given = options(name, amqp.url, queueType="stream", minMessagesPerTrigger=40)
    reader = StreamMicroBatchReader(given, StructType())
    limit = ReadMaxRows(MANY)
    start = reader.initialOffset()
    assert reader.latestOffset(start, limit) == start == {name: 0}
    amqp.publish(name, numbered(10))
    assert reader.latestOffset(start, limit) == {name: 40}
    given = options(name, amqp.url, queueType="stream", maxRowsPerSecond=25)
    reader = StreamMicroBatchReader(given, StructType())
    reader.prepareForTriggerAvailableNow()
    ends = [reader.latestOffset({name: 0}, limit)]
    while ends[-1][name] < 40:
        ends.append(reader.latestOffset(dict(ends[-1]), limit))
    assert ends[0] == {name: 25}
    assert len(ends) > 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"minMessagesPerTrigger": 100_001}, "must not be above maxMessagesPerBatch .100000."),
        ({"minMessagesPerTrigger": 11, "maxMessagesPerBatch": 10}, "above maxMessagesPerBatch"),
        (
            {"minMessagesPerTrigger": 11, "prefetch": 10},
            r"must not be above prefetch x queues x consumersPerQueue \(10\)",
        ),
        ({"maxTriggerDelay": 5}, "maxTriggerDelay = 5: needs minMessagesPerTrigger"),
        ({"minOffsetsPerTrigger": 5}, "minOffsetsPerTrigger: .* there is minMessagesPerTrigger"),
    ],
)
def test_what_can_never_be_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(Refused, match=words):
        options(**given)


def test_batch_reads_have_no_pace() -> None:
    for name in ("minMessagesPerTrigger", "maxRowsPerSecond"):
        with pytest.raises(Refused, match=f"{name} = 5: is for streaming reads"):
            check_batch(options(**{name: 5}))
