"""What the load client of the lab costs: own CPU time a message, without sockets.

    python bench/lab_client.py

Publishing: the schedule, encoding, the rows, and the confirms that come back one by one. Consuming:
decoding, acks, verification, rows. By how many messages a socket has at a time, the best of five
runs each, of the loop's thread alone (Parquet is compressed in another).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from history import keep

from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.amqp.methods import BasicAck, BasicDeliver, BasicPublish, ConnectionUnblocked
from sluicemq.lab.consumer import MeasuredConsumer
from sluicemq.lab.consumer_worker import stamp_offsets
from sluicemq.lab.publisher import MeasuredPublisher
from sluicemq.lab.publisher_worker import make_envelope
from sluicemq.lab.recorder import Recorder
from sluicemq.lab.verification import PROMISED, Inspector

MESSAGES: Final = 19_200
QUEUE: Final = "lab-1-0"
BODY_BYTES: Final = 1024
PERIOD_NS: Final = 1000
TAKE_EVERY: Final = 2000
"""Rows are moved to the recorder about every two seconds of one publisher."""


def client_connection() -> AmqpConnection:
    """A codec that is past the opening."""
    connection = AmqpConnection(CLIENT)
    connection.receive_data(ConnectionUnblocked().frame(0))
    assert isinstance(connection.next_event(), MethodFrame)
    return connection


def publisher(confirms: bool) -> MeasuredPublisher:
    """One whose messages are all due."""
    envelope = make_envelope(1, QUEUE, BODY_BYTES, 131_072)
    made = MeasuredPublisher(0, 0, envelope, PERIOD_NS, 0, confirms)
    made.begin_step(0, None, 0, 1 << 60)
    return made


def publish_all(recorder: Recorder, confirms: Sequence[bytes], batch: int) -> None:
    """Write everything, a batch at a time, each confirmed before the next."""
    one = publisher(confirms=True)
    connection = client_connection()
    for number, frames in enumerate(confirms):
        now_ns = (number + 1) * batch * PERIOD_NS
        one.write(min(one.allowance(now_ns), batch), now_ns)
        connection.receive_data(frames)
        while (event := connection.next_event()) is not None:
            if isinstance(event, Acks):
                one.confirm_each(event.tags, now_ns)
            elif isinstance(event, MethodFrame) and isinstance(event.method, BasicAck):
                one.settle(event.method.delivery_tag, event.method.multiple, PROMISED, now_ns)
        if number * batch % TAKE_EVERY < batch:
            one.take_rows(recorder, 1, everything=False)
    assert one.confirmed == MESSAGES


def consume_all(recorder: Recorder, reads: Sequence[bytes], batch: int) -> None:
    """Take everything, one read of the socket at a time."""
    inspector = Inspector([0], MESSAGES)
    one = MeasuredConsumer(0, 0, 1, 1, inspector)
    connection = client_connection()
    for number, data in enumerate(reads):
        connection.receive_data(data)
        while (event := connection.next_event()) is not None:
            assert isinstance(event, Deliveries)
            contents = event.contents
            one.acks_due(1, len(contents))
            one.record(contents, stamp_offsets(contents), [0] * len(contents), number)
            one.record_acks(number)
        if number * batch % TAKE_EVERY < batch:
            one.take_rows(recorder, everything=False)
    assert (inspector.arrived, inspector.duplicates, inspector.out_of_order) == (MESSAGES, 0, 0)


def deliveries() -> list[bytes]:
    """Every message as the broker would deliver it."""
    source = publisher(confirms=False)
    skip = len(BasicPublish("", QUEUE).frame(1))
    return [
        BasicDeliver("amq.ctag-0123456789abcdefghijkl", tag, False, "", QUEUE).frame(1)
        + source.write(1, tag)[skip:]
        for tag in range(1, MESSAGES + 1)
    ]


def joined(frames: Sequence[bytes], batch: int) -> list[bytes]:
    """As reads of `batch` messages."""
    return [b"".join(frames[at : at + batch]) for at in range(0, len(frames), batch)]


def microseconds(work: Callable[[Recorder], None], table: str) -> float:
    """A message, the best of five."""
    best = float("inf")
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(Path(folder), table, "bench")
            began = time.thread_time()
            work(recorder)
            best = min(best, time.thread_time() - began)
            recorder.close()
    return best / MESSAGES * 1e6


def main() -> None:
    """Print the table."""
    delivered = deliveries()
    confirms = [BasicAck(tag).frame(1) for tag in range(1, MESSAGES + 1)]
    print("own CPU time of the load client, us a message")
    print("at a time  publish and confirm  deliver, ack, check, record")
    for batch in (64, 16, 4, 1):
        acks, reads = joined(confirms, batch), joined(delivered, batch)
        publishing = microseconds(partial(publish_all, confirms=acks, batch=batch), "published")
        consuming = microseconds(partial(consume_all, reads=reads, batch=batch), "delivered")
        keep("lab_client", f"{batch} at a time", publishing_us=publishing, consuming_us=consuming)
        print(f"{batch:>9}  {publishing:>19.2f}  {consuming:>27.2f}")


if __name__ == "__main__":
    main()
