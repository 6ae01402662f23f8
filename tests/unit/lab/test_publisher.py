"""Goal: an open schedule, an in-flight limit, and rows that tell the truth.

Method: a publisher is driven by made-up times; what it writes is read back from the wire bytes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import ProtocolHeader, Publishes
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_body, content_header
from sluicemq.amqp.properties import BasicProperties
from sluicemq.lab.publisher import MeasuredPublisher, StrayConfirmError
from sluicemq.lab.publisher_worker import due_slots, make_envelope
from sluicemq.lab.recorder import Recorder
from sluicemq.lab.stamp import MAGIC, STAMP
from sluicemq.lab.verification import NACKED, PENDING, PROMISED

PERIOD = 1000
QUEUE = 4
NUMBER = 9


def publisher(
    confirms: bool = True, limit: int | None = None, phase_ns: int = 0
) -> MeasuredPublisher:
    envelope = make_envelope(1, "lab-1-4", 64, 4096)
    made = MeasuredPublisher(NUMBER, QUEUE, envelope, PERIOD, phase_ns, confirms)
    made.begin_step(0, limit, 0, 100 * PERIOD)
    return made


def rows(recorder: Recorder, directory: Path) -> list[dict[str, object]]:
    recorder.close()
    return [
        row
        for part in sorted((directory / "published").glob("*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]


def test_a_message_is_due_at_its_time_whatever_the_broker_does() -> None:
    one = publisher(phase_ns=300)
    assert one.allowance(299) <= 0
    assert one.allowance(300) == 1
    assert one.allowance(300 + 5 * PERIOD) == 6
    one.write(2, 5 * PERIOD)
    assert one.allowance(300 + 5 * PERIOD) == 4


def test_a_publisher_held_up_catches_up_with_the_intended_times_kept(tmp_path: Path) -> None:
    one = publisher()
    one.write(1, 10)
    late = 7 * PERIOD
    one.write(one.allowance(late), late)
    recorder = Recorder(tmp_path, "published", "test")
    one.take_rows(recorder, 1, everything=True)
    found = rows(recorder, tmp_path)
    assert [row["intended_ns"] for row in found] == [k * PERIOD for k in range(8)]
    assert [row["written_ns"] for row in found] == [10] + [late] * 7
    assert [row["confirmed_ns"] for row in found] == [None] * 8


def test_the_in_flight_limit_holds_a_publisher_up_until_a_confirm() -> None:
    one = publisher(limit=3)
    assert one.allowance(50 * PERIOD) == 3
    one.write(3, 50 * PERIOD)
    assert one.allowance(50 * PERIOD) <= 0
    one.confirm_each([1, 2], 51 * PERIOD)
    assert one.allowance(51 * PERIOD) == 2
    assert one.unconfirmed == 1


def test_what_a_step_leaves_unwritten_is_abandoned_and_counted() -> None:
    one = publisher(limit=10)
    one.write(10, 20 * PERIOD)
    one.begin_step(1, None, 100 * PERIOD, 150 * PERIOD)
    assert (one.intended, one.abandoned) == (100, 90)
    assert one.allowance(100 * PERIOD) == 1
    assert one.intended_until(101 * PERIOD) == 102
    one.write(2, 101 * PERIOD)
    one.end_schedule(110 * PERIOD)
    assert (one.intended, one.abandoned) == (111, 99)
    assert one.allowance(120 * PERIOD) <= 0


def test_a_phase_beyond_the_step_asks_for_nothing() -> None:
    one = MeasuredPublisher(0, 0, make_envelope(1, "q", 64, 4096), 10 * PERIOD, 9 * PERIOD, True)
    one.begin_step(0, None, 0, 5 * PERIOD)
    assert one.allowance(5 * PERIOD) <= 0
    one.end_schedule(5 * PERIOD)
    assert (one.intended, one.abandoned) == (0, 0)


@pytest.mark.parametrize("body_bytes", [40, 64, 1024, 10_000])
@pytest.mark.parametrize("count", [1, 3])
def test_the_wire_bytes_are_publishes_with_stamps(body_bytes: int, count: int) -> None:
    """Bodies above frame_max are cut into several frames."""
    one = MeasuredPublisher(
        NUMBER, QUEUE, make_envelope(1, "lab-1-4", body_bytes, 4096), PERIOD, 0, True
    )
    one.begin_step(2, None, 0, 10 * PERIOD)
    broker = AmqpConnection(SERVER)
    broker.receive_data(PROTOCOL_HEADER + one.write(count, 777))
    assert isinstance(broker.next_event(), ProtocolHeader)
    contents: list[bytes] = []
    while (event := broker.next_event()) is not None:
        assert isinstance(event, Publishes)
        assert event.method.routing_key == "lab-1-4"
        contents += event.contents
    assert len(contents) == count
    for seq, content in enumerate(contents):
        body = content_body(content)
        assert len(body) == body_bytes
        stamp = (MAGIC, NUMBER, seq, seq * PERIOD, 777, 2, QUEUE, 0)
        assert STAMP.unpack_from(body) == stamp
        properties = BasicProperties.decode(content_header(content).properties)
        assert properties == BasicProperties(delivery_mode=2)


def test_confirms_in_any_order_and_multiple_are_recorded_by_message(tmp_path: Path) -> None:
    one = publisher()
    one.write(8, 0)
    one.confirm_each([3, 2], 11)
    one.settle(5, multiple=False, outcome=NACKED, now_ns=12)
    one.settle(6, multiple=True, outcome=PROMISED, now_ns=13)
    assert one.promises == bytes([PROMISED] * 4 + [NACKED] + [PROMISED] + [PENDING] * 2)
    assert (one.confirmed, one.nacked, one.unconfirmed) == (5, 1, 2)
    recorder = Recorder(tmp_path, "published", "test")
    one.take_rows(recorder, 1, everything=False)
    assert recorder.rows == 6
    one.settle(0, multiple=True, outcome=PROMISED, now_ns=20)
    one.take_rows(recorder, 1, everything=False)
    found = rows(recorder, tmp_path)
    assert [row["seq"] for row in found] == list(range(8))
    assert [row["confirmed_ns"] for row in found] == [13, 11, 11, 13, None, 13, 20, 20]
    assert [row["nacked"] for row in found] == [False] * 4 + [True] + [False] * 3
    assert {(row["publisher"], row["queue"], row["step"]) for row in found} == {(9, 4, 0)}


@pytest.mark.parametrize("tags", [[4], [1, 1], [0]])
def test_a_confirm_nobody_waits_for_is_an_error(tags: list[int]) -> None:
    one = publisher()
    one.write(3, 0)
    with pytest.raises(StrayConfirmError, match="publisher 9"):
        one.confirm_each(tags, 5)


def test_a_multiple_confirm_beyond_what_was_published_is_an_error() -> None:
    one = publisher()
    one.write(3, 0)
    one.confirm_each([2], 1)
    for tag in (4, 9):
        with pytest.raises(StrayConfirmError):
            one.settle(tag, multiple=True, outcome=PROMISED, now_ns=5)


@pytest.mark.parametrize("flush_every", [1, 7, 100])
def test_sampling_takes_every_kth_message_whenever_rows_are_taken(
    tmp_path: Path, flush_every: int
) -> None:
    one = publisher(confirms=False)
    recorder = Recorder(tmp_path, "published", "test")
    for seq in range(50):
        one.write(1, seq)
        if seq % flush_every == 0:
            one.take_rows(recorder, 3, everything=False)
    one.take_rows(recorder, 3, everything=True)
    found = rows(recorder, tmp_path)
    assert [row["seq"] for row in found] == list(range(0, 50, 3))
    assert [row["written_ns"] for row in found] == list(range(0, 50, 3))
    assert {row["weight"] for row in found} == {3}


@pytest.mark.parametrize("publishers", [1, 3, 20, 500])
@pytest.mark.parametrize("period_ns", [7, 1000, 33_333_333])
def test_turns_come_round_at_their_times(publishers: int, period_ns: int) -> None:
    """A turn is due from its time on and not before; the next one is where it is said to be."""
    for elapsed in (0, 1, period_ns - 1, period_ns, period_ns * 5 // 2, period_ns * 10 + 3):
        due, next_ns = due_slots(elapsed, period_ns, publishers)
        came = sum(
            k * period_ns + i * period_ns // publishers <= elapsed
            for k in range(12)
            for i in range(publishers)
        )
        assert due == came
        assert next_ns > elapsed
        assert due_slots(next_ns, period_ns, publishers)[0] > due
