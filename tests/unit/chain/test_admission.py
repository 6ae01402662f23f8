"""Goal: places are counted rightly whatever comes and goes; timers fire once, in time, or never.
Method: hypothesis against plain lists.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.connection.admission import Admission
from sluicemq.chain.connection.deadlines import GRAIN_MS, Deadlines
from sluicemq.kernel.actor import Actor, Scheduler
from support.fakes import FakeClock


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("in", "out", "login", "logout"))))
)
def test_no_address_and_all_together_get_no_more_than_their_places(
    steps: list[tuple[str, str]],
) -> None:
    admission = Admission(5, 3)
    held: Counter[str] = Counter()
    open_now = 0
    for address, step in steps:
        if step == "in":
            free = held.total() < 5 and held[address] < 3
            assert admission.enter(address) is free
            held[address] += free
        elif step == "logout":
            if open_now:
                admission.log_out()
                open_now -= 1
        elif held[address]:
            held[address] -= 1
            if step == "out":
                admission.leave(address)
            else:
                admission.log_in(address)
                open_now += 1
        assert admission.half_open == held.total()
        assert admission.by_address == {a: n for a, n in held.items() if n}
        assert admission.logged_in == open_now


class RunningClock(FakeClock):
    """One whose timers fire."""

    def advance_ms(self) -> None:
        self.time_ns += 10**6
        due = [timer for timer in self.timers if timer[0] <= self.time_ns]
        self.timers = [timer for timer in self.timers if timer[0] > self.time_ns]
        for _, actor, message in due:
            actor.post(message)


class Listener(Actor):
    """Keeps what it hears, with the time."""

    def __init__(self, scheduler: Scheduler, clock: Any) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.heard: list[tuple[int, object]] = []

    def receive(self, message: object) -> None:
        self.heard.append((self.clock.now_ns() // 1_000_000, message))


STEP = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 3), st.integers(1, 5000)),
    st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("wait"), st.just(0), st.integers(1, 2000)),
)


@given(st.lists(STEP, max_size=40))
def test_a_timer_fires_once_at_its_time_unless_it_was_replaced(
    steps: list[tuple[str, int, int]],
) -> None:
    scheduler, clock = Scheduler(), RunningClock()
    deadlines = Deadlines(scheduler, clock)
    listeners: Any = [Listener(scheduler, clock) for _ in range(4)]
    due: dict[int, tuple[int, int]] = {}
    expected: list[list[tuple[int, int]]] = [[] for _ in listeners]

    def now_ms() -> int:
        return int(clock.now_ns() // 1_000_000)

    def advance(delay_ms: int) -> None:
        for _ in range(delay_ms):
            clock.advance_ms()
            while scheduler.run(100):
                pass
            for who in [who for who, (at, _) in due.items() if at <= now_ms()]:
                expected[who].append(due.pop(who))

    for number, (step, who, amount) in enumerate(steps):
        if step == "set":
            deadlines.set(listeners[who], amount, number)
            due[who] = (-(-(now_ms() + amount) // GRAIN_MS) * GRAIN_MS, number)
        elif step == "cancel":
            deadlines.cancel(listeners[who])
            due.pop(who, None)
        else:
            advance(amount)
    advance(5100)
    assert [listener.heard for listener in listeners] == expected
    assert not deadlines.of
    assert not deadlines.slots
