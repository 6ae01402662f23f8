"""Goal: a worker's clock is known as well as is said. Method: a worker in a thread whose clock is
wrong by a known amount, over a real connection; and one whose answers take chosen times.
"""

from __future__ import annotations

import threading
import time
from multiprocessing.connection import Connection, Pipe

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.lab.clocks import QUESTIONS, NoAnswer, estimate
from sluicemq.lab.messages import Arrived, AskClock, ClockReading


class Slow:
    """A worker whose clock is `skew_ns` ahead. `ways` are the times of a question and its answer,
    in ns, over and over."""

    def __init__(self, skew_ns: int, ways: list[tuple[int, int]]) -> None:
        self.skew_ns = skew_ns
        self.ways = ways
        self.here_ns = 10**12
        self.asked = 0
        self.answer: ClockReading

    def send(self, message: object) -> None:
        assert isinstance(message, AskClock)
        there, back = self.ways[self.asked % len(self.ways)]
        self.asked += 1
        self.answer = ClockReading(self.here_ns + there + self.skew_ns)
        self.here_ns += there + back

    def poll(self, _: float) -> bool:
        return True

    def recv(self) -> ClockReading:
        return self.answer


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=30),
)
def test_offset_is_right_within_its_error(skew_ns: int, ways: list[tuple[int, int]]) -> None:
    worker = Slow(skew_ns, ways)
    found = estimate(worker, print, lambda: worker.here_ns)  # type: ignore[arg-type]
    assert abs(found.offset_ns - skew_ns) <= found.error_ns + 1
    quickest = min(sum(way) for way in ways[:QUESTIONS])
    assert found.error_ns == (quickest + 1) // 2


def serve(pipe: Connection, skew_ns: int, chatter: bool) -> None:
    for number in range(QUESTIONS):
        assert isinstance(pipe.recv(), AskClock)
        if chatter:
            pipe.send(Arrived(number))
        pipe.send(ClockReading(time.monotonic_ns() + skew_ns))


def test_what_a_worker_says_besides_is_not_lost() -> None:
    ours, theirs = Pipe()
    thread = threading.Thread(target=serve, args=(theirs, 5_000_000_000, True))
    thread.start()
    others: list[object] = []
    found = estimate(ours, others.append)
    thread.join()
    assert others == [Arrived(number) for number in range(QUESTIONS)]
    assert abs(found.offset_ns - 5_000_000_000) <= found.error_ns


def test_a_worker_that_is_gone_has_no_clock() -> None:
    ours, theirs = Pipe()
    theirs.close()
    with pytest.raises(NoAnswer):
        estimate(ours, print)
