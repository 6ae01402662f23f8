"""Goal: a channel ends when a delivery has been out for too long, and only then; what costs nothing
a message is still late by two looks at most.
Method: marks beside a list of delivery times; a node whose clock and timers the test moves.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.chain.channel.consumer_timeouts import LOOK_MS_MAX, LookAtOldest, Marks
from sluicemq.config import ChannelConfig, Config

from .client import Broker, Client

MS = 1_000_000


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=60), st.integers(2, 9))
def test_overdue_is_found_between_the_timeout_and_one_look_later(
    steps: list[tuple[int, int]], timeout: int
) -> None:
    """Each millisecond a look: so many are delivered, then so many acknowledged, oldest first."""
    marks = Marks()
    out: list[tuple[int, int]] = []
    next_tag = 1
    for now, (delivered, acknowledged) in enumerate(steps):
        out += [(tag, now) for tag in range(next_tag, next_tag + delivered)]
        next_tag += delivered
        out = out[acknowledged:]
        if not out:
            continue  # nobody looks
        found = marks.look(out[0][0], next_tag, LookAtOldest(now * MS, timeout))
        age = now - out[0][1]
        if found:
            assert age >= timeout
        else:
            assert age <= timeout
        assert len(marks.marks) <= timeout + 2
        if found:
            return


def consuming(timeout_ms: int) -> tuple[Broker, Client]:
    broker = Broker(Config(channel=ChannelConfig(consumer_timeout=timeout_ms)))
    client = broker.connect()
    client.open(1, 2)
    client.call(1, m.QueueDeclare(queue="q"))
    return broker, client


def pass_time(broker: Broker, ms: int) -> None:
    """Let the timeouts' timers go off when they are due."""
    clock = broker.world.clock
    timeouts = broker.node.timeouts
    end_ns = clock.time_ns + ms * MS
    while True:
        due = [timer for timer in clock.timers if timer[1] is timeouts and timer[0] <= end_ns]
        if not due:
            break
        clock.timers.remove(due[0])
        clock.time_ns = due[0][0]
        timeouts.post(due[0][2])
        broker.run()
    clock.time_ns = end_ns


def test_a_delivery_that_is_out_too_long_closes_the_channel() -> None:
    broker, client = consuming(1000)
    client.publish(2, "q", b"1", b"2")
    client.send(1, m.BasicConsume(queue="q"))
    client.events()
    pass_time(broker, 900)
    assert client.events() == []
    pass_time(broker, 700)
    (close,) = client.call(1)
    assert isinstance(close, m.ChannelClose)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used:"
        " 1000 ms. This timeout value can be configured, see consumers doc guide to learn more",
    )
    assert (close.failed_class_id, close.failed_method_id) == (0, 0)
    depth = broker.node.broker.vhosts["/"].queues["q"].machine.depth
    assert (depth.ready, depth.unacked) == (2, 0)
    pass_time(broker, 5000)
    assert client.events() == []


@pytest.mark.parametrize("timeout_ms", [0, 1000])
def test_those_that_acknowledge_in_time_live(timeout_ms: int) -> None:
    """Busy without a pause, so that something is always out."""
    broker, client = consuming(timeout_ms)
    client.send(1, m.BasicConsume(queue="q"))
    for number in range(40):
        client.publish(2, "q", b"x")
        if number > 2:
            client.send(1, m.BasicAck(delivery_tag=number - 2))
        pass_time(broker, 100)
    pass_time(broker, 700)
    assert client.reader.channels[1].consuming.unacked.count == 3
    assert not client.reader.channels[1].closing


def test_a_message_taken_by_get_is_looked_at_too() -> None:
    broker, client = consuming(1000)
    client.publish(2, "q", b"1")
    client.send(1, m.BasicGet(queue="q"))
    client.events()
    pass_time(broker, 3000)
    (close,) = client.call(1)
    assert isinstance(close, m.ChannelClose)
    assert client.call(2, m.ChannelFlow(active=True)) == [m.ChannelFlowOk(active=True)]


def test_without_a_timeout_there_is_no_timer() -> None:
    broker, _ = consuming(0)
    timeouts = broker.node.timeouts
    assert [timer for timer in broker.world.clock.timers if timer[1] is timeouts] == []


def test_the_default_looks_once_a_minute() -> None:
    assert Broker().node.timeouts.interval_ms == LOOK_MS_MAX == 60_000
    assert Config().channel.consumer_timeout == 30 * 60 * 1000


def test_channels_with_nothing_out_are_left_alone() -> None:
    broker, client = consuming(1000)
    client.publish(2, "q", b"1")
    pass_time(broker, 5000)
    assert not client.reader.channels[1].consuming.marks.marks
