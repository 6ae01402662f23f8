"""Goal: a fault in a queue stops that queue and nothing else; it goes on from the disk with all
that was confirmed; after a second fault in a minute it stays down, with its clients told.

Method: a whole node; the machine of one queue is made to raise.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.store.messages import TryAgain
from sluicemq.errors import DiskFailed
from sluicemq.limits import CRASH_WINDOW_NS
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.queues.commands import ACK, Settle
from sluicemq.storage.queue_recovery import QueueRecovery

from .client import PERSISTENT, Broker, Client


class Mistake(Exception):
    """One of ours."""


class Bench(Broker):
    """A queue `q` with five persistent messages, that were confirmed, two of them at a consumer,
    and one transient; and another queue."""

    def __init__(self, durable: bool = True) -> None:
        super().__init__()
        self.said: list[str] = []
        self.world.log.write = lambda _, text: self.said.append(text)  # type: ignore[method-assign]
        self.publisher = self.client()
        self.publisher.call(1, m.QueueDeclare(queue="q", durable=durable))
        self.publisher.call(1, m.QueueDeclare(queue="other", durable=True))
        self.publisher.call(1, m.ConfirmSelect())
        self.publisher.publish(1, "q", *(b"%d" % n for n in range(5)), raw=PERSISTENT)
        self.publisher.publish(1, "q", b"transient")
        self.wait()
        assert {nack for nack, _ in self.answers()} == {False}
        self.consumer = self.client()
        self.consumer.send(
            1, m.BasicQos(prefetch_count=2), m.BasicConsume(queue="q", consumer_tag="c")
        )
        self.consumer.events()

    def client(self) -> Client:
        client = self.connect()
        client.open(1)
        return client

    @property
    def queue(self) -> ClassicShell:
        queue = self.node.broker.vhosts["/"].queues["q"]
        assert isinstance(queue, ClassicShell)
        return queue

    def break_down(self) -> None:
        """The queue has a fault, now."""

        def mistaken(*_: Any) -> None:
            raise Mistake

        self.queue.machine.serve = mistaken  # type: ignore[method-assign]
        self.queue.schedule()
        self.run()

    def answers(self) -> list[tuple[bool, int]]:
        """What the publisher hears: (is it a nack, tag)."""
        answers: list[tuple[bool, int]] = []
        for event in self.publisher.events():
            if isinstance(event, Acks):
                answers += [(False, tag) for tag in event.tags]
            elif isinstance(event, MethodFrame):
                method = event.method
                if isinstance(method, m.BasicAck | m.BasicNack):
                    answers.append((isinstance(method, m.BasicNack), method.delivery_tag))
        return answers

    def told(self, client: Client, *some: Any) -> list[Any]:
        """The methods that come back."""
        client.send(1, *some)
        return [e.method for e in client.events() if isinstance(e, MethodFrame)]

    def state(self) -> str:
        return self.queue.state(self.world.clock.now_ns())


def test_it_goes_on_with_what_was_confirmed() -> None:
    bench = Bench()
    before = bench.queue
    bench.break_down()
    assert bench.queue is not before
    assert bench.state() == "running"
    depth = bench.queue.machine.depth
    assert (depth.ready, depth.unacked, depth.consumers) == (5, 0, 0)
    assert any("has crashed" in text for text in bench.said)
    assert any("goes on with 5 messages" in text for text in bench.said)
    told = [e.method for e in bench.consumer.events() if isinstance(e, MethodFrame)]
    assert told == [m.BasicCancel(consumer_tag="c", nowait=True)]
    bench.publisher.publish(1, "q", b"after", raw=PERSISTENT)
    bench.wait()
    assert bench.answers() == [(False, 7)]
    assert bench.queue.machine.depth.ready == 6
    bench.consumer.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    bench.consumer.send(1, m.BasicConsume(queue="q", consumer_tag="again"))
    assert bench.queue.machine.depth.unacked == 2
    bench.consumer.lose()
    assert bench.queue.machine.depth.ready == 6
    accounted = sum(queue.machine.depth.footprint for queue in bench.node.broker.all_queues())
    assert bench.node.broker.accounted_bytes == accounted


def test_what_was_dealt_out_and_not_told_takes_no_room_on_its_connection() -> None:
    bench = Bench()
    for _ in range(3):
        bench.consumer.send(1, m.BasicAck(delivery_tag=0, multiple=True))
        bench.consumer.events()
    assert bench.queue.machine.depth.unacked == 0
    readers = bench.node.broker.connections.values()
    assert [reader.window.spent for reader in readers] == [0, 0]
    serve = bench.queue.machine.serve

    def serve_and_fail(effects: list[Any]) -> None:
        serve(effects)
        assert effects
        raise Mistake

    bench.queue.machine.serve = serve_and_fail  # type: ignore[method-assign]
    bench.publisher.publish(1, "q", b"dealt out", b"too")
    bench.wait()
    assert any("has crashed" in text for text in bench.said)
    assert [reader.window.spent for reader in readers] == [0, 0]


def test_what_is_under_way_is_refused_not_confirmed() -> None:
    bench = Bench()
    bench.publisher.post_bytes(b"")

    def mistaken(*_: Any) -> None:
        raise Mistake

    bench.queue.machine.publish = mistaken  # type: ignore[method-assign]
    bench.publisher.publish(1, "q", b"lost", raw=PERSISTENT)
    bench.wait()
    assert bench.answers() == [(True, 7)]
    bench.publisher.publish(1, "q", b"kept", raw=PERSISTENT)
    bench.wait()
    assert bench.answers() == [(False, 8)]
    assert bench.queue.machine.depth.ready == 6


def test_an_acknowledgement_with_which_the_fault_came_is_not_taken_twice() -> None:
    bench = Bench()
    queue = bench.queue
    settle = queue.machine.settle
    faults: list[Exception] = []
    bench.node.scheduler.witness = lambda _, error: faults.append(error)

    def mistaken(*arguments: Any) -> None:
        queue.machine.settle = settle  # type: ignore[method-assign]
        settle(*arguments)
        raise Mistake

    queue.machine.settle = mistaken  # type: ignore[method-assign]
    bench.consumer.send(1, m.BasicAck(delivery_tag=1))
    bench.wait()
    assert [type(error) for error in faults] == [Mistake]
    assert bench.state() == "running"


def test_after_a_second_fault_it_stays_down_and_says_so() -> None:
    bench = Bench()
    bench.break_down()
    bench.break_down()
    assert bench.state() == "crashed"
    bench.publisher.publish(1, "q", b"refused", raw=PERSISTENT)
    bench.wait()
    assert bench.answers() == [(True, 7)]
    (closed,) = bench.told(bench.consumer, m.BasicGet(queue="q"))[-1:]
    assert isinstance(closed, m.ChannelClose)
    text = "NOT_FOUND - queue 'q' in vhost '/' has crashed and failed to restart"
    assert (closed.reply_code, closed.reply_text) == (404, text)
    bench.publisher.publish(1, "other", b"x", raw=PERSISTENT)
    bench.wait()
    assert bench.answers() == [(False, 8)]
    assert [row["state"] for row in bench.begin("list_queues", columns=["name", "state"])[0].rows]


def test_a_fault_much_later_is_a_first_one_again() -> None:
    bench = Bench()
    bench.break_down()
    bench.world.clock.time_ns += CRASH_WINDOW_NS
    bench.break_down()
    assert bench.state() == "running"
    assert bench.queue.machine.depth.ready == 5


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_restart_finds_all_of_it(times: int, in_order: bool) -> None:
    bench = Bench()
    for _ in range(times):
        bench.break_down()
    if in_order:
        bench.stop()
        assert bench.node.storage_closed
    again = Broker(files=bench.world.disk.files)
    queue = again.node.broker.vhosts["/"].queues["q"]
    assert queue.machine.depth.ready == 5


def test_one_that_is_down_can_be_deleted() -> None:
    bench = Bench()
    bench.break_down()
    bench.break_down()
    told = bench.told(bench.publisher, m.QueueDelete(queue="q"))
    assert isinstance(told[-1], m.QueueDeleteOk)
    assert "q" not in bench.node.broker.vhosts["/"].queues
    bench.stop()
    assert bench.node.storage_closed
    again = Broker(files=bench.world.disk.files)
    assert [*again.node.broker.vhosts["/"].queues] == ["other"]


def test_a_transient_queue_begins_empty() -> None:
    bench = Bench(durable=False)
    bench.break_down()
    assert bench.state() == "running"
    assert bench.queue.machine.depth.ready == 0
    bench.publisher.publish(1, "q", b"x")
    assert bench.queue.machine.depth.ready == 1


def test_who_deletes_one_that_cannot_be_read_back_is_answered() -> None:
    bench = Bench()
    bench.world.disk.jobs.clear()

    def mistaken(*_: Any) -> None:
        raise Mistake

    bench.queue.machine.serve = mistaken  # type: ignore[method-assign]
    bench.queue.schedule()
    bench.node.run(1)
    bench.publisher.post_bytes(m.QueueDelete(queue="q").frame(1))
    bench.node.run(1000)
    bench.node.broker.store.fail_storage("EIO")
    bench.queue.post(Agreed(NoAgreement("EIO")))
    bench.run()
    told = [e.method for e in bench.publisher.events() if isinstance(e, MethodFrame)]
    assert isinstance(told[-1], m.ChannelClose)


def test_who_deletes_one_is_answered_when_the_storage_fails_while_the_disk_is_full() -> None:
    """It is not tried for ever to read it back."""
    bench = Bench()
    clock = bench.world.clock

    def full(self: QueueRecovery, _: Any) -> None:
        raise DiskFailed("write", f"queues/{self.queue_id}", "ENOSPC")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueueRecovery, "read", full)
        bench.break_down()
        bench.publisher.post_bytes(m.QueueDelete(queue="q").frame(1))
        bench.run()
        bench.publisher.events()
        bench.node.broker.store.fail_storage("EIO")
        bench.run()
        for timer in [each for each in clock.timers if isinstance(each[2], TryAgain)]:
            clock.timers.remove(timer)
            timer[1].post(timer[2])
        bench.run()
    told = [e.method for e in bench.publisher.events() if isinstance(e, MethodFrame)]
    assert isinstance(told[-1], m.ChannelClose)
    assert bench.node.broker.no_space == {}
    assert not [each for each in clock.timers if isinstance(each[2], TryAgain)]


def test_an_acknowledgement_of_before_settles_nothing_of_what_is_there_now() -> None:
    """Its run has a number that the queue, read back, gives again."""
    bench = Bench()
    before = bench.queue
    (link,) = before.machine.links.values()
    bench.break_down()
    other = bench.client()
    other.send(1, m.BasicQos(prefetch_count=2), m.BasicConsume(queue="q", consumer_tag="d"))
    machine = bench.queue.machine
    assert machine.depth.unacked == 2
    (number,) = machine.unacked_runs
    assert link.number == machine.unacked_runs[number].link.number, "or the test shows nothing"
    bench.queue.post(Settle(link, [(number, 0, 2)], ACK))
    bench.consumer.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    bench.run()
    assert (machine.depth.unacked, machine.depth.ready) == (2, 3)
    assert not [e for e in bench.consumer.events() if isinstance(e, MethodFrame)][1:]
    other.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    assert (machine.depth.unacked, machine.depth.ready) == (2, 1)
