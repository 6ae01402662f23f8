"""Goal: nothing is handed to a clogged socket, channels hear of what was handed over and of no
more, and a connection whose peer does not read is not read either. Method: a fake Net that says no.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import HEARTBEAT_FRAME, LARGE_BYTES
from sluicemq.chain.writer import DeliveriesFlushed, Frames, HangUp, Writer
from sluicemq.flow.gate import Gate, GateKeeper
from sluicemq.kernel.actor import Actor, Scheduler, Share
from sluicemq.kernel.socket_messages import Writable
from sluicemq.limits import WRITE_BYTES
from support.fakes import FakeClock, FakeNet, drain

BACKLOG = 1000


class Channel(Actor):
    """As far as a writer knows it."""

    gone = False
    untold = 0


class Bench:
    """A writer on connection 7 with two channels."""

    def __init__(self, notify_cost: int = 1) -> None:
        self.scheduler = Scheduler()
        self.net = FakeNet()
        self.gate = Gate(GateKeeper(FakeClock()), "writer backlog")
        self.writer = Writer(self.scheduler, self.net, 7, self.gate, BACKLOG, notify_cost)
        self.channels: list[Any] = [Channel(Scheduler()), Channel(Scheduler())]

    def post(self, *messages: object) -> None:
        """One turn."""
        for message in messages:
            if isinstance(message, Frames):
                self.writer.take(message)
            else:
                self.writer.post(message)
        while self.scheduler.run(1):
            pass

    def flushed(self, channel: int = 0) -> list[int]:
        messages = drain(self.channels[channel])
        assert all(isinstance(message, DeliveriesFlushed) for message in messages)
        return [message.cost for message in messages]  # type: ignore[attr-defined]


def test_one_turn_is_one_write() -> None:
    bench = Bench()
    a, b = bench.channels
    bench.post(Frames([b"1"]), Frames([b"2"], a, 10), Frames([b"3"], b, 20), Frames([b"4"], a, 1))
    assert bench.net.written == [b"1234"]
    assert (bench.flushed(0), bench.flushed(1)) == ([11], [20])
    assert (bench.writer.sent_bytes, bench.writer.sent_writes) == (4, 1)


class SharingBench(Bench):
    """The same for a writer with a share, in which `other` is a member, too."""

    def __init__(self) -> None:
        super().__init__()
        share = Share(self.scheduler)
        self.breaks = 0
        self.other = Actor(self.scheduler, share)
        self.writer = Writer(
            self.scheduler, self.net, 7, self.gate, BACKLOG, 1, share, broken=self.broken
        )

    def broken(self) -> None:
        self.breaks += 1


def test_no_turn_is_waited_for_when_nobody_else_of_the_share_has_one_before() -> None:
    bench = SharingBench()
    bench.writer.take(Frames([b"1"], bench.channels[0], 10))
    assert (bench.net.written, bench.flushed(), bench.scheduler.is_busy) == ([b"1"], [10], False)
    bench.other.schedule()
    bench.writer.take(Frames([b"2"]))
    bench.writer.take(Frames([b"3"]))
    assert bench.net.written == [b"1"]
    bench.post()
    assert bench.net.written == [b"1", b"23"]
    assert (bench.writer.sent_bytes, bench.writer.pending_bytes) == (3, 0)


def test_what_is_written_at_once_fills_the_socket_too() -> None:
    bench = SharingBench()
    bench.net.full = True
    bench.writer.take(Frames([b"1"]))
    bench.writer.take(Frames([b"2"]))
    bench.post()
    assert bench.net.written == [b"1"]
    bench.net.full = False
    bench.post(Writable())
    assert bench.net.written == [b"1", b"2"]


def test_fault_in_what_is_written_at_once_is_the_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = SharingBench()
    faults: list[tuple[Actor, Exception]] = []
    bench.scheduler.witness = lambda *fault: faults.append(fault)
    error = ValueError("a mistake")

    def write(*_: object) -> bool:
        raise error

    monkeypatch.setattr(bench.net, "write", write)
    bench.writer.take(Frames([b"1"]))
    assert (faults, bench.breaks, bench.writer.has_failed) == ([(bench.writer, error)], 1, True)


def test_channel_hears_when_it_is_worth_a_turn() -> None:
    bench = Bench(notify_cost=10)
    a, b = bench.channels
    bench.post(Frames([b"1"], a, 9), Frames([b"2"], b, 10))
    assert (bench.flushed(0), bench.flushed(1)) == ([], [10])
    bench.post(Frames([b"3"], a, 3))
    assert bench.flushed(0) == [12]


def test_channel_that_is_gone_hears_of_little_too() -> None:
    bench = Bench(notify_cost=10)
    a, _ = bench.channels
    bench.post(Frames([b"1"], a, 7))
    a.gone = True
    bench.post(Frames([b"2"], a, 1), Frames([b"close-ok"]))
    assert bench.flushed() == [8]


def test_large_writes_are_cut_between_frames() -> None:
    bench = Bench()
    half = bytes(WRITE_BYTES // 2)
    bench.post(*[Frames([half], bench.channels[0], 1) for _ in range(5)])
    assert bench.net.written == [half] * 5
    assert bench.writer.sent_writes == 3
    assert bench.flushed() == [2, 2, 1]


def test_what_comes_at_once_is_written_in_portions() -> None:
    """Nothing more is written once the socket is full, and the last portion has the cost."""
    bench = Bench()
    half = bytes(WRITE_BYTES // 2)
    bench.net.full = True
    bench.post(Frames([half] * 5, bench.channels[0], 10))
    assert bench.net.written == [half] * 2
    assert bench.flushed() == []
    bench.net.full = False
    bench.post(Writable())
    assert bench.net.written == [half] * 5
    assert bench.flushed() == [10]


def test_what_is_large_is_not_copied() -> None:
    bench = Bench()
    large = bytes(LARGE_BYTES)
    bench.post(Frames([b"1"]), Frames([b"2"]), Frames([large]), Frames([b"3"]))
    assert bench.net.written == [b"12", large, b"3"]
    assert bench.net.written[1] is large
    assert bench.writer.sent_writes == 1


def test_clogged_socket_gets_nothing_until_it_is_writable() -> None:
    bench = Bench()
    bench.net.full = True
    bench.post(Frames([b"1"], bench.channels[0], 1))
    assert bench.flushed() == [1], "it was handed over, though the socket says: no more"
    bench.post(Frames([b"2"], bench.channels[0], 1))
    bench.post(Frames([b"3"], bench.channels[0], 1))
    assert bench.net.written == [b"1"]
    assert bench.flushed() == []
    bench.post(Writable())
    assert bench.net.written == [b"1", b"23"]
    assert bench.flushed() == [2]


def test_backlog_shuts_the_gate_until_all_of_it_is_written() -> None:
    bench = Bench()
    bench.net.full = True
    bench.post(Frames([b"1"]))
    bench.post(Frames([bytes(BACKLOG)]))
    assert not bench.gate.is_shut
    bench.post(Frames([b"1"]))
    assert bench.gate.is_shut
    bench.post(Writable())
    assert bench.gate.is_shut, "the socket has taken it and is clogged again"
    assert bench.writer.pending_bytes == 0
    bench.net.full = False
    bench.post(Writable())
    assert not bench.gate.is_shut


def test_hanging_up_writes_everything_first_clogged_or_not() -> None:
    bench = Bench()
    bench.net.full = True
    bench.post(Frames([b"1"]))
    bench.post(Frames([b"2"]))
    bench.post(Frames([b"3"]), HangUp(500))
    assert b"".join(bench.net.written) == b"123"
    assert bench.net.closed == [(7, 500)]
    bench.post(Frames([b"4"]), HangUp(500))
    assert b"".join(bench.net.written) == b"123"
    assert bench.net.closed == [(7, 500)]


def test_lost_connection_keeps_nothing_and_is_not_closed_again() -> None:
    bench = Bench()
    bench.net.full = True
    bench.post(Frames([b"1"]))
    bench.post(Frames([b"2"]))
    bench.writer.connection_lost()
    assert bench.writer.pending_bytes == 0
    bench.post(Writable(), Frames([b"3"]), HangUp(500))
    assert bench.net.written == [b"1"]
    assert bench.net.closed == []


def test_anything_else_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Bench().writer.receive("what?")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("frames"), st.integers(0, 1), st.integers(1, 400)),
        st.tuples(st.just("clog"), st.just(0), st.just(0)),
        st.tuples(st.just("drain"), st.just(0), st.just(0)),
    )
)


@given(steps)
def test_order_and_cost_are_kept_whatever_the_socket_does(
    schedule: list[tuple[str, int, int]],
) -> None:
    bench = Bench()
    sent = b""
    costs = [0, 0]
    for number, (what, channel, size) in enumerate(schedule):
        if what == "frames":
            data = bytes((number % 256,)) * size
            sent += data
            costs[channel] += size
            bench.post(Frames([data], bench.channels[channel], size))
        else:
            bench.net.full = what == "clog"
            bench.post(Writable())
        written = b"".join(bench.net.written)
        assert sent.startswith(written)
        assert len(sent) - len(written) == bench.writer.pending_bytes
        if bench.writer.pending_bytes > BACKLOG:
            assert bench.gate.is_shut
    bench.net.full = False
    bench.post(Writable())
    assert b"".join(bench.net.written) == sent
    assert [sum(bench.flushed(0)), sum(bench.flushed(1))] == costs
    assert not bench.gate.is_shut


class Stumbling(Writer):
    """Fails at what the socket says."""

    def receive(self, message: object) -> None:
        assert not isinstance(message, Writable)
        super().receive(message)


def test_after_a_fault_at_the_sockets_word_it_is_still_known_that_there_is_room() -> None:
    bench = Bench()
    said = Frames([m.ConnectionClose(541, "INTERNAL_ERROR", 0, 0).frame(0)])

    def end() -> None:
        writer.take(said)

    writer = Stumbling(bench.scheduler, bench.net, 7, bench.gate, BACKLOG, broken=end)
    bench.writer = writer
    bench.net.full = True
    bench.post(Frames([b"1"]))
    bench.post(Frames([b"2"]))
    assert bench.net.written == [b"1"]
    bench.net.full = False
    bench.post(Writable())
    assert bench.net.written == [b"1", *said.pieces]


def test_after_a_fault_only_the_end_of_the_connection_is_written() -> None:
    """A frame that was lost may be what another one refers to."""
    bench = Bench()
    bench.writer.has_failed = True
    close = m.ConnectionClose(541, "INTERNAL_ERROR", 0, 0).frame(0)
    lost = [m.ConnectionUnblocked().frame(0), m.ChannelOpenOk().frame(1), HEARTBEAT_FRAME]
    for frame in (*lost, close, m.ConnectionCloseOk().frame(0)):
        bench.post(Frames([frame]))
    assert b"".join(bench.net.written) == close + m.ConnectionCloseOk().frame(0)
