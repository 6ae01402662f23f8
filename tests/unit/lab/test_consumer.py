"""Goal: the right acks at the right time, and rows that match them. Method: made-up deliveries."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_frames
from sluicemq.amqp.methods import BasicAck
from sluicemq.amqp.properties import BasicProperties
from sluicemq.lab.consumer import MeasuredConsumer
from sluicemq.lab.consumer_worker import stamp_offsets
from sluicemq.lab.recorder import Recorder
from sluicemq.lab.stamp import MAGIC, STAMP
from sluicemq.lab.verification import Inspector

PUBLISHER = 5


def content(seq: int, properties: BasicProperties | None = None) -> bytes:
    body = STAMP.pack(MAGIC, PUBLISHER, seq, seq * 10, seq * 10 + 1, 1, 3, 0) + b"." * 24
    return content_frames(1, (properties or BasicProperties()).encode(), body, 4096)


def consumer(ack_interval: int = 1, sample_every: int = 1) -> MeasuredConsumer:
    return MeasuredConsumer(2, 3, ack_interval, sample_every, Inspector([PUBLISHER], 100))


def receive(one: MeasuredConsumer, seqs: range, now_ns: int) -> bytes:
    contents = [content(seq) for seq in seqs]
    acks = one.acks_due(1, len(contents))
    one.record(contents, stamp_offsets(contents), [0] * len(contents), now_ns)
    one.record_acks(now_ns + 1)
    return acks


def acks_in(frames: bytes) -> list[tuple[int, bool]]:
    broker = AmqpConnection(SERVER)
    broker.receive_data(PROTOCOL_HEADER + frames)
    found: list[tuple[int, bool]] = []
    while (event := broker.next_event()) is not None:
        if isinstance(event, Acks):
            found += [(tag, False) for tag in event.tags]
        elif isinstance(event, MethodFrame):
            assert isinstance(event.method, BasicAck)
            found.append((event.method.delivery_tag, event.method.multiple))
    return found


def rows(one: MeasuredConsumer, directory: Path) -> list[dict[str, object]]:
    recorder = Recorder(directory, "delivered", "test")
    one.take_rows(recorder, everything=True)
    recorder.close()
    parts = sorted((directory / "delivered").glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (0, [[], [], []]),
        (1, [[(1, False)], [(2, False), (3, False)], [(n, False) for n in range(4, 11)]]),
        (3, [[], [(3, True)], [(6, True), (9, True)]]),
    ],
)
def test_acks_come_at_the_interval(interval: int, expected: list[list[tuple[int, bool]]]) -> None:
    one = consumer(interval)
    runs = (range(1), range(1, 3), range(3, 10))
    assert [acks_in(receive(one, run, 100)) for run in runs] == expected
    left = [(10, True)] if interval == 3 else []
    assert one.unacked == len(left)
    assert acks_in(one.acks_left(1)) == left
    one.record_acks(200)
    assert one.unacked == 0


def test_rows_say_when_the_ack_that_covers_them_was_written(tmp_path: Path) -> None:
    one = consumer(ack_interval=3)
    receive(one, range(2), 100)
    receive(one, range(2, 4), 200)
    found = rows(one, tmp_path)
    assert [row["acked_ns"] for row in found] == [201, 201, 201, None]
    assert [row["delivered_ns"] for row in found] == [100, 100, 200, 200]
    assert [row["seq"] for row in found] == [0, 1, 2, 3]
    assert [row["intended_ns"] for row in found] == [0, 10, 20, 30]
    assert [row["written_ns"] for row in found] == [1, 11, 21, 31]
    same = {(row["publisher"], row["queue"], row["consumer"], row["step"]) for row in found}
    assert same == {(5, 3, 2, 1)}


def test_rows_wait_for_their_ack_before_they_are_taken(tmp_path: Path) -> None:
    one = consumer(ack_interval=4)
    recorder = Recorder(tmp_path, "delivered", "test")
    receive(one, range(6), 100)
    one.take_rows(recorder, everything=False)
    assert recorder.rows == 4
    receive(one, range(6, 8), 200)
    one.take_rows(recorder, everything=False)
    assert recorder.rows == 8
    recorder.close()


def test_automatic_acks_leave_the_time_empty(tmp_path: Path) -> None:
    one = consumer(ack_interval=0)
    receive(one, range(3), 100)
    assert [row["acked_ns"] for row in rows(one, tmp_path)] == [None] * 3


@pytest.mark.parametrize("interval", [1, 4])
def test_a_sample_has_every_kth_message_and_its_own_ack_time(tmp_path: Path, interval: int) -> None:
    one = consumer(interval, sample_every=3)
    for start in range(0, 20, 2):
        receive(one, range(start, start + 2), 100 * start)
    found = rows(one, tmp_path)
    assert [row["seq"] for row in found] == list(range(0, 20, 3))
    assert {row["weight"] for row in found} == {3}
    covered = [-(-(seq + 1) // interval) * interval - 1 for seq in range(0, 20, 3)]
    acked = [100 * (seq - seq % 2) + 1 if seq < 20 else None for seq in covered]
    assert [row["acked_ns"] for row in found] == acked


def test_stamps_are_found_behind_headers_of_any_length() -> None:
    """A redelivered message of a quorum queue has one header more than the others."""
    contents = [
        content(0),
        content(1, BasicProperties(headers={"x-delivery-count": 1})),
        content(2, BasicProperties(delivery_mode=2)),
    ]
    offsets = stamp_offsets(contents)
    seqs = [STAMP.unpack_from(c, at)[2] for c, at in zip(contents, offsets, strict=True)]
    assert seqs == [0, 1, 2]


def test_live_latencies_are_from_intended_to_delivered() -> None:
    one = consumer()
    receive(one, range(4), 1000)
    receive(one, range(4, 8), 2000)
    assert one.latencies_ns(1500, 100) == [1960, 1950, 1940, 1930]
    assert len(one.latencies_ns(0, 4)) == 4
