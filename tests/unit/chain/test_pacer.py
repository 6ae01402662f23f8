"""Goal: publishers are held while queues with quick consumers lag behind, a little of each tick is
always theirs, and nobody waits for the sake of consumers that are slow themselves. Method: queues'
totals by hand, the clock by hand.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.pacer import (
    EPOCH_NS,
    HELD_MS,
    LAG_BYTES,
    LAG_MIN,
    OTHERS_NS,
    SPARING_TICKS,
    UNDER_WAY_MIN,
    LagChanged,
    Pacer,
    QueuePace,
)
from sluicemq.kernel.actor import Actor, Scheduler
from support.fakes import FakeClock


class Publisher(Actor):
    """Counts its turns."""

    is_patient = True

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.turns = 0

    def turn_ended(self) -> None:
        self.turns += 1


def pacer() -> tuple[Scheduler, FakeClock, Pacer]:
    scheduler, clock = Scheduler(), FakeClock()
    return scheduler, clock, Pacer(scheduler, clock)


def test_publishers_are_held_above_the_limit_and_let_go_below_half_of_it() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note(pace, LAG_MIN, 0, LAG_MIN)
    assert not scheduler.is_held
    own.note(pace, LAG_MIN + 1, 0, LAG_MIN + 1)
    assert scheduler.is_held
    own.note(pace, LAG_MIN + 1, LAG_MIN // 2, LAG_MIN // 2 + 1)
    assert scheduler.is_held
    own.note(pace, LAG_MIN + 1, LAG_MIN // 2 + 1, LAG_MIN // 2)
    assert not scheduler.is_held
    assert own.held_count == 1


def test_publishers_of_few_large_messages_are_held_above_a_limit_of_bytes() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note(pace, 8, 0, 8, LAG_BYTES)
    assert not scheduler.is_held
    own.note(pace, 10, 1, 9, LAG_BYTES + 9)
    assert scheduler.is_held
    own.note(pace, 10, 4, 6, LAG_BYTES // 2 + 6)
    assert scheduler.is_held
    own.note(pace, 12, 9, 3, LAG_BYTES // 2)
    assert not scheduler.is_held
    assert (own.lag, own.lag_bytes) == (3, LAG_BYTES // 2)
    own.note(pace, 12, 12, 0)
    assert (own.lag, own.lag_bytes) == (0, 0)


def test_a_held_publisher_gets_its_turn_at_the_next_tick() -> None:
    scheduler, clock, own = pacer()
    publisher = Publisher(scheduler)
    own.note(QueuePace(), 2 * LAG_MIN, 0, 2 * LAG_MIN)
    publisher.schedule()
    assert not scheduler.run(10)
    assert publisher.turns == 0
    assert scheduler.is_busy
    [(due_ns, actor, message)] = clock.timers
    assert due_ns == clock.time_ns + HELD_MS * 10**6
    actor.post(message)
    scheduler.run(10)
    assert publisher.turns == 1


def test_messages_without_consumers_are_no_lag() -> None:
    scheduler, _, own = pacer()
    own.note(QueuePace(), 10 * LAG_MIN, 0, 0)
    assert not scheduler.is_held


def test_a_queue_is_let_out_of_the_count_when_its_consumers_leave() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note(pace, 2 * LAG_MIN, 0, 2 * LAG_MIN)
    assert scheduler.is_held
    own.note(pace, 2 * LAG_MIN, 0, 0)
    assert not scheduler.is_held
    assert own.lag == 0


def test_slow_consumers_hold_up_nobody_after_an_epoch() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note(pace, 8 * LAG_MIN, LAG_MIN, 7 * LAG_MIN)
    assert scheduler.is_held
    own.look(own.epoch_since_ns + EPOCH_NS)
    own.note(pace, 8 * LAG_MIN + 1, LAG_MIN, 7 * LAG_MIN + 1)
    assert not scheduler.is_held


def test_a_queue_that_is_silent_does_not_lag_for_ever() -> None:
    scheduler, _, own = pacer()
    own.note(QueuePace(), 2 * LAG_MIN, LAG_MIN // 2, 2 * LAG_MIN)
    assert scheduler.is_held
    own.look(own.epoch_since_ns + EPOCH_NS)
    own.look(own.epoch_since_ns + EPOCH_NS)
    assert not scheduler.is_held


def tick(scheduler: Scheduler, clock: FakeClock) -> None:
    """Let the time of one tick pass, and have everybody's turns."""
    due_ns, actor, message = clock.timers.pop()
    clock.time_ns = due_ns
    actor.post(message)
    scheduler.run(100)


def test_publishers_are_held_while_much_is_under_way_and_let_go_when_it_is_agreed_on() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note_under_way(pace, UNDER_WAY_MIN, UNDER_WAY_MIN)
    assert not scheduler.is_held
    own.note_under_way(pace, UNDER_WAY_MIN + 1, UNDER_WAY_MIN + 1)
    assert scheduler.is_held
    own.note_under_way(pace, UNDER_WAY_MIN + 1, UNDER_WAY_MIN // 2 + 1)
    assert scheduler.is_held
    own.note_under_way(pace, UNDER_WAY_MIN + 1, UNDER_WAY_MIN // 2)
    assert not scheduler.is_held
    assert (own.agreed, own.under_way) == (UNDER_WAY_MIN // 2 + 1, UNDER_WAY_MIN // 2)


def test_a_held_publisher_gets_a_turn_at_times_while_nothing_falls() -> None:
    scheduler, clock, own = pacer()
    publisher, pace = Publisher(scheduler), QueuePace()
    own.note_under_way(pace, 2 * UNDER_WAY_MIN, 2 * UNDER_WAY_MIN)
    turns = []
    for more in range(1, 2 * SPARING_TICKS + 1):
        own.note_under_way(pace, 2 * UNDER_WAY_MIN + more, 2 * UNDER_WAY_MIN)
        publisher.schedule()
        tick(scheduler, clock)
        turns.append(publisher.turns)
    assert turns == [0] * (SPARING_TICKS - 1) + [1] * SPARING_TICKS + [2]


def test_intake_goes_on_when_under_way_falls_by_half_of_what_is_agreed_on() -> None:
    scheduler, clock, own = pacer()
    publisher, pace = Publisher(scheduler), QueuePace()
    own.note_under_way(pace, 2 * UNDER_WAY_MIN, 2 * UNDER_WAY_MIN)
    own.note_under_way(pace, 2 * UNDER_WAY_MIN + 50, 2 * UNDER_WAY_MIN - 50)
    publisher.schedule()
    tick(scheduler, clock)
    assert publisher.turns == 1


def test_a_queue_that_agrees_on_nothing_holds_up_nobody_after_an_epoch() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note_under_way(pace, 2 * UNDER_WAY_MIN, 2 * UNDER_WAY_MIN)
    assert scheduler.is_held
    own.look(own.epoch_since_ns + EPOCH_NS)
    own.note_under_way(pace, 2 * UNDER_WAY_MIN + 1, 2 * UNDER_WAY_MIN + 1)
    assert not scheduler.is_held
    own.look(own.epoch_since_ns + EPOCH_NS)
    own.note_under_way(pace, 2 * UNDER_WAY_MIN + 1, 2 * UNDER_WAY_MIN)
    own.look(own.epoch_since_ns + EPOCH_NS)
    own.note_under_way(pace, 2 * UNDER_WAY_MIN + 1, 2 * UNDER_WAY_MIN)
    assert scheduler.is_held


def test_a_log_that_agrees_on_much_may_have_much_under_way() -> None:
    scheduler, _, own = pacer()
    pace = QueuePace()
    own.note_under_way(pace, 40 * UNDER_WAY_MIN, 0)
    own.look(own.epoch_since_ns + EPOCH_NS)
    assert own.under_way_limit == 10 * UNDER_WAY_MIN
    own.note_under_way(pace, 50 * UNDER_WAY_MIN, 10 * UNDER_WAY_MIN)
    assert not scheduler.is_held


class Follower(Actor):
    """Is told of lags."""

    def receive(self, message: object) -> None:
        raise AssertionError("nobody gives it turns")


def test_followers_are_told_of_lags_of_this_node_alone() -> None:
    scheduler, _, own = pacer()
    follower, pace = Follower(scheduler), QueuePace()
    own.followers.append(follower)
    own.note_other(2, lags=True)
    assert scheduler.is_held
    assert follower.inbox == []
    own.note(pace, 2 * LAG_MIN, 0, 2 * LAG_MIN)
    own.note(pace, 3 * LAG_MIN, 0, 3 * LAG_MIN)
    assert own.lags
    own.note(pace, 3 * LAG_MIN, 3 * LAG_MIN, 0)
    assert not own.lags
    assert [type(each) for each in follower.inbox] == [LagChanged, LagChanged]
    assert scheduler.is_held


def test_publishers_are_held_for_another_node_until_it_says_otherwise_or_nothing() -> None:
    scheduler, clock, own = pacer()
    publisher = Publisher(scheduler)
    own.note_other(2, lags=True)
    own.note_other(3, lags=True)
    own.note_other(2, lags=False)
    publisher.schedule()
    for _ in range(SPARING_TICKS):
        assert publisher.turns == 0
        tick(scheduler, clock)
    assert publisher.turns == 1
    own.note_other(3, lags=False)
    assert not scheduler.is_held
    own.note_other(3, lags=True)
    for _ in range(OTHERS_NS // (HELD_MS * 10**6)):
        assert scheduler.is_held
        tick(scheduler, clock)
    assert not scheduler.is_held


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 999), st.integers(0, 999)), max_size=80)
)
def test_the_sum_is_that_of_the_queues(turns: list[tuple[int, int, int]]) -> None:
    scheduler, _, own = pacer()
    paces = [QueuePace() for _ in range(4)]
    waiting = [0] * 4
    for number, (which, taken, dealt) in enumerate(turns):
        pace = paces[which]
        dealt = min(dealt, waiting[which] + taken)
        waiting[which] += taken - dealt
        own.note(pace, pace.taken + taken, pace.dealt + dealt, waiting[which])
        if number % 10 == 9:
            own.look(own.epoch_since_ns + EPOCH_NS)
        assert own.lag == sum(each.lag for each in paces)
        assert all(each.lag <= count for each, count in zip(paces, waiting, strict=True))
        assert own.is_held == scheduler.is_held
