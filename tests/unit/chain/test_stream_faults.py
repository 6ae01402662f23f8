"""Goal: a fault in a stream stops that stream and nothing else; it goes on at the offset behind
what was confirmed; after a second fault in a minute it stays down, with its clients told.

Method: a whole node; the machine of one stream is made to raise.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.store.group_commit import CommitDue
from sluicemq.limits import CRASH_WINDOW_NS
from sluicemq.storage.fsck import Check

from .client import Broker, Client

STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4096}
COUNT = 12


class Mistake(Exception):
    """One of ours."""


def mistaken(*_: Any) -> None:
    raise Mistake


class Bench(Broker):
    """A stream "s" of several files, confirmed; and a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.ended: list[None] = []
        self.node.broken = lambda: self.ended.append(None)
        self.world.log.write = lambda _, text: self.said.append(text)  # type: ignore[method-assign]
        self.publisher = self.client()
        self.publisher.call(1, m.QueueDeclare(queue="s", durable=True, arguments=STREAM))
        self.publisher.call(1, m.QueueDeclare(queue="other", durable=True))
        self.publisher.call(1, m.ConfirmSelect())
        for number in range(0, COUNT, 2):
            self.publish(number, number + 1)
        assert self.answers() == (COUNT, [])
        assert len(self.stream.log.segments) > 1
        self.consumer = self.client()

    def client(self) -> Client:
        client = self.connect()
        client.open(1)
        return client

    @property
    def stream(self) -> StreamShell:
        stream = self.node.broker.vhosts["/"].queues["s"]
        assert isinstance(stream, StreamShell)
        return stream

    def publish(self, *numbers: int) -> None:
        self.publisher.publish(1, "s", *(str(n).encode().ljust(900) for n in numbers))
        self.settle()

    def settle(self) -> None:
        """What waits a little is done."""
        timers = self.world.clock.timers
        for timer in [timer for timer in timers if isinstance(timer[2], CommitDue)]:
            timers.remove(timer)
            timer[1].post(timer[2])
        self.wait()

    def answers(self) -> tuple[int, list[int]]:
        """The highest tag that was confirmed, and those that were refused, since the last time."""
        highest = 0
        refused: list[int] = []
        for event in self.publisher.events():
            if isinstance(event, Acks):
                highest = max(highest, *event.tags)
            elif isinstance(event, MethodFrame) and isinstance(event.method, m.BasicAck):
                highest = max(highest, event.method.delivery_tag)
            elif isinstance(event, MethodFrame) and isinstance(event.method, m.BasicNack):
                refused.append(event.method.delivery_tag)
        return highest, refused

    def consume(self) -> None:
        self.consumer.send(
            1,
            m.BasicQos(prefetch_count=100),
            m.BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}),
        )

    def read(self) -> tuple[int, list[str]]:
        """How many were delivered, and the names of what else has come."""
        events = self.consumer.events()
        count = sum(len(each.contents) for each in events if isinstance(each, Deliveries))
        return count, [e.method.NAME for e in events if isinstance(e, MethodFrame)]

    def break_down(self) -> None:
        """The stream has a fault, now."""
        self.stream.machine.serve = mistaken  # type: ignore[method-assign]
        self.stream.schedule()
        self.run()
        self.settle()

    def state(self) -> str:
        return self.stream.state(self.world.clock.now_ns())


def test_it_goes_on_behind_what_was_confirmed() -> None:
    bench = Bench()
    bench.consume()
    assert bench.read()[0] == COUNT
    before = bench.stream
    bench.break_down()
    assert bench.ended == []
    assert bench.stream is not before
    assert bench.state() == "running"
    assert bench.read() == (0, ["basic.cancel"])
    assert f"queue 's' in vhost '/' goes on at offset {COUNT}" in bench.said
    bench.consumer.send(1, m.BasicAck(delivery_tag=COUNT, multiple=True))
    bench.publish(COUNT, COUNT + 1)
    assert bench.answers() == (COUNT + 2, [])
    bench.consume()
    assert bench.read()[0] == COUNT + 2
    bench.consumer.lose()
    bench.publisher.lose()
    bench.node.broker.stream_cache.forget(bench.stream.id)
    assert bench.node.broker.accounted_bytes == 0


def test_what_is_under_way_is_refused_not_confirmed() -> None:
    bench = Bench()
    bench.stream.machine.commit = mistaken  # type: ignore[method-assign]
    bench.publish(COUNT)
    assert bench.answers() == (0, [COUNT + 1])
    bench.publish(COUNT)
    assert bench.answers() == (COUNT + 2, [])
    assert bench.stream.log.next_offset == COUNT + 1


def test_a_group_that_is_on_its_way_is_refused_and_read_back() -> None:
    bench = Bench()
    bench.publisher.post_bytes(m.BasicPublish(exchange="", routing_key="s").frame(1))
    raw = b"\x02\x00\x01\x00\x00\x00\x0e\x00<" + bytes(4 + 8) + b"\xce"
    bench.publisher.post_bytes(raw)
    bench.node.run(1000)
    assert bench.stream.log.job is not None
    bench.stream.machine.serve = mistaken  # type: ignore[method-assign]
    bench.stream.schedule()
    bench.node.run(1000)
    bench.run()
    bench.settle()
    assert bench.answers() == (0, [COUNT + 1])
    assert bench.stream.log.next_offset == COUNT + 1
    bench.consume()
    assert bench.read()[0] == COUNT + 1


def test_after_a_second_fault_it_stays_down_and_says_so() -> None:
    bench = Bench()
    bench.break_down()
    bench.break_down()
    assert bench.state() == "crashed"
    bench.publish(COUNT)
    assert bench.answers() == (0, [COUNT + 1])
    bench.consume()
    assert bench.read() == (0, ["basic.qos-ok", "channel.close"])
    bench.publisher.publish(1, "other", b"x")
    bench.wait()
    assert bench.answers() == (COUNT + 2, [])


def test_a_fault_much_later_is_a_first_one_again() -> None:
    bench = Bench()
    bench.break_down()
    bench.world.clock.time_ns += CRASH_WINDOW_NS
    bench.break_down()
    assert bench.state() == "running"


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_restart_finds_all_of_it(times: int, in_order: bool) -> None:
    bench = Bench()
    for _ in range(times):
        bench.break_down()
    if in_order:
        bench.stop()
        assert bench.node.storage_closed
    files = bench.world.disk.files if in_order else bench.world.disk.files.crash()
    assert Check(files).run().findings == []
    again = Broker(files=files)
    stream = again.node.broker.vhosts["/"].queues["s"]
    assert stream.machine.depth.ready == COUNT


@pytest.mark.parametrize("times", [1, 2])
def test_it_can_be_deleted(times: int) -> None:
    bench = Bench()
    for _ in range(times):
        bench.break_down()
    bench.publisher.send(1, m.QueueDelete(queue="s"))
    methods = [e.method for e in bench.publisher.events() if isinstance(e, MethodFrame)]
    assert isinstance(methods[-1], m.QueueDeleteOk)
    bench.stop()
    assert bench.node.storage_closed
    assert not [path for path in bench.world.disk.files.files if path.startswith("streams/")]
    again = Broker(files=bench.world.disk.files)
    assert [*again.node.broker.vhosts["/"].queues] == ["other"]
