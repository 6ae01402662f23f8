"""Goal: a fault in a queue leaves nothing behind that holds up others: no room of a connection, no
share of a channel's limit, no job that is said to wait for space.

Method: a whole node; the machine of one queue, or what it uses, is made to raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Deliveries
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue import classic, poison_messages, refused_messages
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.store.messages import Flush, TryAgain
from sluicemq.flow.alarm import DISK
from sluicemq.flow.prefetch import Limiter
from sluicemq.storage.queue_index import IndexWrite

from .client import PERSISTENT, Client
from .test_crash_recovery import Bench, Mistake

EVERYTHING = 1 << 62


def mistaken(*_: Any) -> None:
    raise Mistake


class Limited(Bench):
    """A client that consumes from "q" and from "other" with a limit over both of two."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer.lose()
        self.publisher.call(1, m.QueuePurge(queue="q"))
        self.both = self.client()
        self.both.send(
            1,
            m.BasicQos(prefetch_count=2, global_=True),
            m.BasicConsume(queue="q", consumer_tag="q"),
            m.BasicConsume(queue="other", consumer_tag="other"),
        )
        self.both.events()
        self.settled = 0

    @property
    def limiter(self) -> Limiter:
        [*_, reader] = self.node.broker.connections.values()
        return reader.channels[1].consuming.limiter

    def publish(self, queue: str, *bodies: bytes) -> None:
        self.publisher.publish(1, queue, *bodies, raw=PERSISTENT)
        self.wait()

    def gets_from_other(self) -> int:
        """How many messages, one after the other acknowledged, of three."""
        self.publish("other", b"1", b"2", b"3")
        count = 0
        while tags := deliveries(self.both):
            count += len(tags)
            self.both.send(1, m.BasicAck(delivery_tag=tags[-1], multiple=True))
        return count


def deliveries(client: Client) -> list[int]:
    """The tags of what has come."""
    found = [event for event in client.events() if isinstance(event, Deliveries)]
    return [tag for event in found for tag in event.tags]


def fire(bench: Bench) -> None:
    """It is time to try again."""
    timers = bench.world.clock.timers
    for each in [timer for timer in timers if isinstance(timer[2], TryAgain)]:
        timers.remove(each)
        each[1].post(each[2])


def test_what_was_dealt_out_and_not_told_counts_for_no_limit() -> None:
    bench = Limited()
    serve = bench.queue.machine.serve

    def serve_and_fail(effects: list[Any]) -> None:
        serve(effects)
        if effects:
            raise Mistake

    bench.queue.machine.serve = serve_and_fail  # type: ignore[method-assign]
    bench.publish("q", b"1", b"2")
    assert bench.state() == "running"
    assert bench.limiter.unacked == 0
    assert bench.gets_from_other() == 3


@pytest.mark.parametrize("where", ["remove", "credit", "forget_run"])
def test_what_was_settled_as_the_fault_came_counts_for_no_limit(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whether it was credited before the fault or not, it is credited once."""
    bench = Limited()
    faults: list[Exception] = []
    bench.node.scheduler.witness = lambda _, error: faults.append(error)
    bench.publish("q", b"1", b"2")
    tags = deliveries(bench.both)
    machine = bench.queue.machine
    original = getattr(machine, where)

    def once(*_: Any) -> None:
        monkeypatch.setattr(machine, where, original)
        raise Mistake

    monkeypatch.setattr(machine, where, once)
    bench.both.send(1, m.BasicAck(delivery_tag=tags[-1], multiple=True))
    bench.wait()
    assert [type(each) for each in faults] == [Mistake]
    assert bench.limiter.unacked == 0
    assert bench.gets_from_other() == 3


def test_a_delivery_that_could_not_be_made_takes_no_room_on_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    client = bench.client()
    limited = {"x-delivery-limit": 20}
    client.call(1, m.QueueDeclare(queue="limited", durable=True, arguments=limited))
    client.call(1, m.BasicConsume(queue="limited", consumer_tag="c"))
    original = classic.counted

    def counted(contents: list[bytes], envelope: bytes, counts: list[int]) -> list[bytes]:
        if any(b"poison" in each for each in contents):
            raise Mistake
        return original(contents, envelope, counts)

    monkeypatch.setattr(classic, "counted", counted)
    monkeypatch.setattr(poison_messages, "counted", counted)
    bench.publisher.publish(1, "limited", b"poison" * 2000, raw=PERSISTENT)
    bench.wait()
    assert len(deliveries(client)) == 1
    [*_, reader] = bench.node.broker.connections.values()
    client.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=True))
    bench.wait()
    assert any("queue 'limited' in vhost '/' has crashed" in text for text in bench.said)
    assert reader.window.spent == 0


def test_what_was_dealt_out_to_an_exchange_that_delays_is_let_go_quietly() -> None:
    bench = Bench()
    client = bench.client()
    faults: list[Exception] = []
    bench.node.scheduler.witness = lambda _, error: faults.append(error)
    kind = {"x-delayed-type": "direct"}
    client.call(1, m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=kind))
    [holding] = bench.node.broker.vhosts["/"].queues.holding.values()
    serve = holding.machine.serve

    def serve_and_fail(effects: list[Any]) -> None:
        serve(effects)
        if effects:
            raise Mistake

    holding.machine.serve = serve_and_fail  # type: ignore[method-assign]
    raw = BasicProperties(delivery_mode=2, headers={"x-delay": 10}).encode()
    head = m.BasicPublish(exchange="x", routing_key="k").frame(1)
    client.send_bytes(head + content_frames(1, raw, b"later", 131072))
    bench.wait()
    assert [type(each) for each in faults] == [Mistake]


def test_a_write_that_is_tried_again_as_the_fault_comes_waits_for_no_space() -> None:
    bench = Bench()
    bench.node.broker.store.ballast.size = 0  # which would wait for space, too
    files = bench.world.disk.files
    files.fail = lambda what, path: "ENOSPC" if what == "write" and "queues/" in path else None
    bench.queue.post(Flush(EVERYTHING))
    bench.run()
    assert [type(job) for job in bench.node.broker.no_space] == [IndexWrite]
    fire(bench)
    while bench.node.run(1000):
        pass
    assert [type(job) for job, _ in bench.world.disk.jobs] == [IndexWrite]
    files.fail = None
    bench.queue.machine.serve = mistaken  # type: ignore[method-assign]
    bench.queue.schedule()
    bench.wait()
    assert bench.state() == "running"
    assert bench.node.broker.no_space == {}
    assert DISK not in bench.node.broker.alarms.reasons


def test_one_that_is_deleted_while_it_is_down_is_not_read_back() -> None:
    bench = Bench()
    bench.node.broker.store.ballast.size = 0  # which would wait for space, too
    bench.break_down()
    bench.publisher.publish(1, "q", b"more", raw=PERSISTENT)
    bench.wait()
    files = bench.world.disk.files
    files.fail = lambda what, path: "ENOSPC" if what == "write" and "queues/" in path else None
    bench.break_down()
    bench.wait()
    assert bench.state() == "crashed"
    assert len(bench.node.broker.no_space) == 1
    directory = bench.queue.machine.backing.index.directory
    bench.publisher.send(1, m.QueueDelete(queue="q"))
    bench.wait()
    files.fail = None
    fire(bench)
    bench.wait()
    assert bench.node.broker.no_space == {}
    assert not files.is_directory(directory)


def test_a_batch_that_cannot_be_looked_at_after_the_fault_ends_no_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    monkeypatch.setattr(ClassicShell, "take_in", mistaken)
    monkeypatch.setattr(refused_messages, "digests", mistaken)
    bench.publisher.publish(1, "q", b"x", raw=PERSISTENT)
    bench.wait()
    assert not bench.node.scheduler.is_broken
    assert bench.state() == "running"


def test_long_work_ends_with_the_fault() -> None:
    """What a queue that has crashed was at is not gone on with, in what is there of it."""
    bench = Bench()
    queue = bench.queue
    done: list[int] = []

    def work() -> Iterator[int]:
        for piece in range(100):
            done.append(piece)
            yield queue.scheduler.turn_work

    queue.begin(work())
    queue.vhost.crashed(queue, Mistake())
    before = len(done)
    bench.run()
    assert before < 100
    assert len(done) == before
