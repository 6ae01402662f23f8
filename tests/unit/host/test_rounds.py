"""Goal: actors have rounds when they have something to do, each bounded in time, once each.

Method: a scheduler with actors that count their turns, beside an event loop, sockets and a disk
that only note what they are asked for; the clock goes on when an actor has a turn.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from sluicemq.host import rounds as module
from sluicemq.host.rounds import ROUND_NS, Rounds
from sluicemq.kernel.actor import Actor, Scheduler

TURN_NS = 500_000


class Worker(Actor):
    """Has a number of turns to take."""

    def __init__(self, bench: Bench, turns: int) -> None:
        super().__init__(bench.scheduler)
        self.bench = bench
        self.left = turns

    def receive(self, message: object) -> None:
        """Nothing but a turn is wanted."""

    def ask_while_left(self) -> None:
        if self.left:
            self.schedule()

    def turn_ended(self) -> None:
        self.bench.now_ns += TURN_NS
        self.left -= 1
        self.ask_while_left()


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.loop: Any = Mock()
        self.disk: Any = Mock()
        self.net: Any = Mock()
        self.net.poller.is_looking = False
        self.collector: Any = Mock(rounds=0)
        self.scheduler = Scheduler()
        self.scheduler.now_ns = lambda: self.now_ns
        monkeypatch.setattr(module, "perf_counter_ns", lambda: self.now_ns)
        self.rounds = Rounds(self.loop, self.scheduler, self.net, self.disk, self.collector)
        self.scheduler.wake = self.rounds.wake

    def scheduled(self) -> int:
        """How many rounds the event loop was asked for."""
        return int(self.loop.call_soon.call_count)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_sockets_are_looked_at_when_a_rounds_time_is_over(bench: Bench) -> None:
    worker = Worker(bench, 1000)
    worker.schedule()
    assert bench.scheduled() == 1
    bench.rounds.begin()
    assert ROUND_NS <= bench.now_ns < ROUND_NS + TURN_NS
    assert bench.collector.rounds == 1
    assert bench.scheduled() == 2, "the rest of the work is forgotten"
    assert bench.disk.post_done.call_count > 1, "finished disk jobs wait for the end of the round"
    bench.net.next_round.assert_called_once_with()


def test_what_a_finished_disk_job_brings_is_done_in_the_same_round(bench: Bench) -> None:
    first, second = Worker(bench, 1), Worker(bench, 1)
    first.schedule()
    bench.disk.post_done.side_effect = second.ask_while_left
    bench.rounds.begin()
    assert not second.left
    assert bench.scheduled() == 1, "a round for nobody is on its way"


def test_what_sockets_bring_is_done_behind_the_look_without_the_event_loop(bench: Bench) -> None:
    worker = Worker(bench, 1)
    bench.net.poller.is_looking = True
    worker.schedule()
    bench.net.poller.is_looking = False
    bench.rounds.looked()
    assert not worker.left
    assert bench.scheduled() == 0


def test_a_look_leaves_the_work_to_a_round_that_is_scheduled(bench: Bench) -> None:
    worker = Worker(bench, 1)
    worker.schedule()
    bench.rounds.looked()
    assert worker.left, "what came first was overtaken"
    bench.rounds.begin()
    bench.rounds.looked()
    assert not worker.left
    assert bench.collector.rounds == 1, "a round for nobody"
