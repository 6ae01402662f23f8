"""Goal: an acknowledgement settles what was delivered over its link, and nothing else. Method: a
queue and a stream live twice, so that numbers of runs come again; what a channel still holds of the
first life is settled in the second one.
"""

from __future__ import annotations

import pytest

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.actor import Actor
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import (
    ACK,
    REJECT,
    REQUEUE,
    Consume,
    Down,
    Get,
    Publish,
    Settle,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Consumed, Deliver, Effect, Got
from sluicemq.queues.stream.cache import ChunkCache
from sluicemq.queues.stream.machine import Stream
from sluicemq.storage.stream_log import StreamLog
from support.batches import batch_of
from support.fakes import FakeClock, bystander
from support.files import DictFiles

from .indices import new_index

Machine = ClassicQueue | Stream

FILES = DictFiles()
QUEUE = bystander()
"""A machine does not keep the actor whose state it is."""


def consumer_of(channel: Actor) -> Consumer:
    """With a prefetch, and room for all that comes."""
    window = Outflow(GateKeeper(FakeClock()), "deliveries", LinkSpec(100, 1))
    arguments = {"x-stream-offset": "first"}
    return Consumer(channel, "c", False, False, 0, Prefetch(9), Limiter(), window, arguments)


def life(term: int) -> ClassicQueue:
    """Of a queue with two messages."""
    machine = ClassicQueue("queue 'q'", True, QUEUE, new_index(), 4096, term=term)
    batch = batch_of([b"one", b"two"], b"\0\1q")
    machine.apply(Publish(batch, Link(bystander()), 1, False), [])
    return machine


def life_of_stream(term: int) -> Stream:
    """Of a stream with two messages."""
    log = StreamLog(1, lambda: b"i" * 16)
    machine = Stream("stream 's'", log, ChunkCache(10**6, lambda _: None), term)
    content = b"\2\0\1\0\0\0\x0e\0\x3c\0\0" + bytes(8) + b"\0\0\xce"
    batch = batch_of([content] * 2, b"\0\1s", persistent=True)
    machine.apply(Publish(batch, Link(bystander()), 1, False), [])
    job = machine.commit()
    assert job is not None
    job.run(FILES)
    machine.committed(job, [])
    return machine


def delivered(machine: Machine, channel: Actor) -> tuple[Settle, Consumer]:
    """The channel consumes: how it would acknowledge what it gets."""
    effects: list[Effect] = []
    consumer = consumer_of(channel)
    machine.apply(Consume(consumer), effects)
    machine.serve(effects)
    if isinstance(machine, Stream):
        for job in machine.next_reads():
            job.run(FILES)
            machine.was_read(job)
        machine.serve(effects)
    (link,) = [each.link for each in effects if isinstance(each, Consumed)]
    (deliver,) = [each for each in effects if isinstance(each, Deliver)]
    assert len(deliver.contents) == 2
    return Settle(link, [(deliver.run, 0, 2)], ACK), consumer


@pytest.mark.parametrize("begin", [life, life_of_stream])
@pytest.mark.parametrize("outcome", [ACK, REQUEUE, REJECT])
def test_what_was_delivered_in_another_life_settles_nothing(begin: type, outcome: int) -> None:
    old, _ = delivered(begin(1), bystander())
    machine = begin(2)
    mine, consumer = delivered(machine, bystander())
    assert mine.parts == old.parts, "or the test shows nothing"
    effects: list[Effect] = []
    machine.apply(Settle(old.link, old.parts, outcome), effects)
    assert effects == []
    assert (machine.depth.unacked, consumer.prefetch.unacked) == (2, 2)
    machine.apply(mine, effects)
    assert (machine.depth.unacked, consumer.prefetch.unacked) == (0, 0)


@pytest.mark.parametrize("begin", [life, life_of_stream])
def test_what_came_over_a_link_that_has_ended_settles_nothing(begin: type) -> None:
    """The channel is there again, as one that was cut off would be."""
    machine, channel = begin(1), bystander()
    old, _ = delivered(machine, channel)
    machine.apply(Down(channel), [])
    mine, consumer = delivered(machine, channel)
    assert mine.link != old.link
    machine.apply(Settle(old.link, mine.parts, ACK), [])
    assert (machine.depth.unacked, consumer.prefetch.unacked) == (2, 2)


def test_what_was_got_is_settled_over_the_link_of_its_channel_only() -> None:
    machine, channel = life(3), bystander()
    effects: list[Effect] = []
    machine.apply(Get(channel, False), effects)
    (got,) = [each for each in effects if isinstance(each, Got)]
    assert got.link == machine.link_to(channel) != machine.link_to(bystander())
    assert got.link is not None
    machine.apply(Settle(machine.link_to(bystander()), [(got.run, 0, 1)], ACK), [])
    machine.apply(Settle(machine.own_link, [(got.run, 0, 1)], ACK), [])
    assert machine.depth.unacked == 1
    machine.apply(Settle(got.link, [(got.run, 0, 1)], ACK), [])
    assert machine.depth.unacked == 0


def test_what_nobody_acknowledges_has_no_link() -> None:
    machine = life(1)
    effects: list[Effect] = []
    machine.apply(Get(bystander(), True), effects)
    (got,) = [each for each in effects if isinstance(each, Got)]
    assert (got.run, got.link, machine.links) == (0, None, {})


def test_a_link_is_forgotten_with_its_channel() -> None:
    machine, channel = life(1), bystander()
    delivered(machine, channel)
    assert [*machine.links] == [channel]
    machine.apply(Down(channel), [])
    assert (machine.links, machine.unacked_runs_of, machine.unacked_runs) == ({}, {}, {})
