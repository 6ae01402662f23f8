"""Goal: clock, dice, memory and log keep their promises (kernel/world.py) on the machine, in the
simulation and as fakes.

Method: the same steps on each; a driver lets time pass, really or not.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

from sluicemq.host.clock import HostClock, HostDice
from sluicemq.host.log import HostLog
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.memory import HostMemory
from sluicemq.kernel.world import Clock, Dice, Log, Memory
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.world import EPOCH_MS, SimClock, SimDice, SimLog, SimMemory
from support.fakes import FakeClock, FakeDice, FakeMemory, bystander, drain

MS_NS = 10**6


class Times:
    """A clock and how to let its time pass: `wait_for` ends when the condition holds."""

    def __init__(self, clock: Clock, step: Callable[[], None], starts_at_ms: int) -> None:
        self.clock = clock
        self.step = step
        self.starts_at_ms = starts_at_ms
        """What the wall says now, about."""

    def wait_for(self, condition: Callable[[], bool]) -> None:
        for _ in range(100_000):
            if condition():
                return
            self.step()
        raise AssertionError("it did not happen")


@pytest.fixture(params=["asyncio", "broker", "sim", "fake"])
def times(request: pytest.FixtureRequest) -> Iterator[Times]:
    if request.param == "sim":
        timeline = Timeline()
        yield Times(SimClock(timeline), timeline.step, EPOCH_MS)
        return
    if request.param == "fake":
        fake = FakeClock()
        yield Times(fake, lambda: fake.advance(1), fake.time_ns // MS_NS)
        return
    loop = BrokerLoop() if request.param == "broker" else asyncio.new_event_loop()
    turn = asyncio.sleep
    yield Times(
        HostClock(loop),
        lambda: loop.run_until_complete(turn(0.001)),
        time.time_ns() // MS_NS,
    )
    loop.close()


def test_time_does_not_go_back(times: Times) -> None:
    clock, actor = times.clock, bystander()
    before_ns, before_ms = clock.now_ns(), clock.wall_ms()
    assert abs(before_ms - times.starts_at_ms) < 60_000
    clock.call_after(5, actor, "later")
    times.wait_for(lambda: bool(actor.inbox))
    assert clock.now_ns() - before_ns >= 4 * MS_NS
    assert clock.wall_ms() >= before_ms


def test_a_timer_comes_once_and_not_before_its_time(times: Times) -> None:
    clock, actor = times.clock, bystander()
    began_ns = clock.now_ns()
    clock.call_after(20, actor, "due")
    clock.call_after(40, actor, "end")
    assert actor.inbox == []
    times.wait_for(lambda: bool(actor.inbox))
    # A loop may round what is due in its favour, by its clock's resolution.
    assert clock.now_ns() - began_ns >= 19 * MS_NS
    times.wait_for(lambda: len(actor.inbox) > 1)
    assert drain(actor) == ["due", "end"]


def test_timers_come_in_the_order_in_which_they_are_due(times: Times) -> None:
    clock, actor = times.clock, bystander()
    delays = [30, 10, 50, 20, 40]
    for delay_ms in delays:
        clock.call_after(delay_ms, actor, delay_ms)
    times.wait_for(lambda: len(actor.inbox) == len(delays))
    assert drain(actor) == sorted(delays)


def test_a_timer_without_a_delay_comes_as_a_message_too(times: Times) -> None:
    clock, actor, other = times.clock, bystander(), bystander()
    clock.call_after(0, actor, "at once")
    assert actor.inbox == []
    times.wait_for(lambda: bool(actor.inbox))
    assert (drain(actor), other.inbox) == (["at once"], [])


DICE: dict[str, Callable[[], Dice]] = {
    "host": HostDice,
    "sim": lambda: SimDice(Random(1)),
    "fake": FakeDice,
}


@pytest.fixture(params=DICE)
def dice(request: pytest.FixtureRequest) -> Dice:
    return DICE[request.param]()


def test_a_throw_is_below_its_limit(dice: Dice) -> None:
    for limit in (1, 2, 6, 1 << 40):
        for _ in range(100):
            assert 0 <= dice.below(limit) < limit


def test_tokens_have_their_size_and_none_comes_twice(dice: Dice) -> None:
    tokens = [dice.token(16) for _ in range(1000)]
    assert {len(token) for token in tokens} == {16}
    assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("name", ["host", "sim"])
def test_every_side_is_thrown(name: str) -> None:
    dice = DICE[name]()
    assert {dice.below(6) for _ in range(1000)} == set(range(6))


def test_the_simulations_dice_are_as_the_seed_says() -> None:
    throws = [(dice.below(1000), dice.token(8)) for dice in (DICE["sim"](), DICE["sim"]())]
    assert throws[0] == throws[1]


MEMORIES: dict[str, Callable[[], Memory]] = {
    "host": HostMemory,
    "sim": lambda: SimMemory(1 << 30),
    "fake": FakeMemory,
}


@pytest.mark.parametrize("make", MEMORIES.values(), ids=MEMORIES)
def test_what_is_resident_fits_into_the_total(make: Callable[[], Memory]) -> None:
    memory = make()
    total_bytes = memory.total_bytes()
    assert total_bytes >= 1 << 20
    assert 0 <= memory.resident_bytes() <= total_bytes
    memory.trim()
    assert 0 <= memory.resident_bytes() <= total_bytes
    assert memory.total_bytes() == total_bytes


def test_what_the_process_takes_shows_in_its_memory() -> None:
    memory = HostMemory()
    before = memory.resident_bytes()
    taken = bytearray(b"x" * (64 << 20))
    assert memory.resident_bytes() - before > 32 << 20
    del taken


LOGS: dict[str, Callable[[], Log]] = {"host": HostLog, "sim": SimLog, "silent": Log}


@pytest.mark.parametrize("level", ["info", "warning", "error"])
@pytest.mark.parametrize("make", LOGS.values(), ids=LOGS)
def test_whatever_is_written_no_log_fails(
    make: Callable[[], Log], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make()
    for text in ("a line", "", "a\nbreak\x1b[31m", "\udc80 no text"):
        log.write(level, text)

    class Gone:
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", Gone())
    log.write(level, "unheard")


def test_a_line_of_the_log_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    HostLog().write("warning", "first\nsecond\r\x1b[31mthird")
    (line,) = capsys.readouterr().err.splitlines()
    assert "[warning] first" in line
    assert "\x1b" not in line


def test_the_simulation_keeps_the_errors_only() -> None:
    log = SimLog()
    log.write("warning", "one")
    log.write("error", "two")
    assert log.errors == ["two"]
