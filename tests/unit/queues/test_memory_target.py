"""Goal: queues together keep what they may, each the same seconds' worth, and idle ones nothing.

Method: rates against the arithmetic of exponential averages; the duration against its definition,
that what is kept for it adds up to the goal, over random loads.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.queues.classic.memory_target import (
    HALF_LIFE_NS,
    QueueLoad,
    Rates,
    bytes_each_s,
    desired_duration,
    target_count,
)

SECOND_NS = 10**9

rates = st.one_of(st.just(0.0), st.floats(0.01, 1e6))
queue_loads = st.builds(
    lambda rate, messages, size: QueueLoad(rate, messages, messages * size),
    rates,
    st.integers(0, 10**7),
    st.integers(97, 10**6),
)
many_loads = st.lists(queue_loads, max_size=8)


def test_a_steady_flow_is_what_the_rates_come_to() -> None:
    flow = Rates()
    for second in range(60):
        flow.update(second * SECOND_NS)
        flow.published += 1000
        flow.ack_in += 500
    flow.update(60 * SECOND_NS)
    assert flow.published_rate == pytest.approx(1000, rel=1e-3)
    assert flow.ack_in_rate == pytest.approx(500, rel=1e-3)
    assert (flow.delivered_rate, flow.ack_out_rate) == (0, 0)
    assert flow.sum() == pytest.approx(1500, rel=1e-3)


def test_a_rate_halves_in_its_half_life_and_an_idle_queue_comes_to_zero() -> None:
    flow = Rates()
    flow.delivered = 1000
    flow.update(0)
    before = flow.sum()
    flow.update(HALF_LIFE_NS)
    assert flow.sum() == pytest.approx(before / 2)
    flow.update(100 * HALF_LIFE_NS)
    assert flow.delivered_rate > 0
    assert flow.sum() == 0


def test_what_came_before_the_first_update_counts_about_as_if_it_had_been_spread() -> None:
    flow = Rates()
    flow.published = 2500
    flow.update(77 * SECOND_NS)
    usual = Rates()
    usual.update(0)
    usual.published = 2500
    usual.update(5 * SECOND_NS // 2)
    assert flow.sum() == pytest.approx(usual.sum(), rel=0.2)


@given(st.integers(1, 20), st.integers(0, 10**6))
def test_how_often_rates_are_updated_does_not_matter_to_a_steady_flow(
    times: int, each: int
) -> None:
    often, once = Rates(), Rates()
    often.update(0)
    once.update(0)
    for step in range(1, times + 1):
        often.ack_out = each
        often.update(step * SECOND_NS)
    once.ack_out = each * times
    once.update(times * SECOND_NS)
    assert often.sum() == pytest.approx(once.sum(), rel=1e-9)


def test_two_updates_at_one_moment_lose_nothing() -> None:
    flow = Rates()
    flow.update(SECOND_NS)
    flow.published = 100
    flow.update(SECOND_NS)
    flow.update(SECOND_NS)
    assert flow.published_rate == pytest.approx(100 * math.log(2) / 5)


def test_target_count_is_duration_times_rate_and_none_for_infinity() -> None:
    assert target_count(math.inf, 0) is None
    assert target_count(math.inf, 5) is None
    assert target_count(1e300, 1e300) is None
    assert target_count(2.5, 3) == 7
    assert target_count(0, 1e6) == 0
    assert target_count(1e9, 0) == 0


@given(many_loads, st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1))
def test_there_is_no_bound_below_the_goal_and_none_under_a_disk_alarm(
    loads: list[QueueLoad], accounted: int, limit: int, ratio: float
) -> None:
    assert desired_duration(loads, accounted, limit, ratio, True) == math.inf
    duration = desired_duration(loads, accounted, limit, ratio, False)
    assert duration >= 0
    if accounted < ratio * limit:
        assert duration == math.inf
    else:
        assert math.isfinite(duration)


def kept(load: QueueLoad, duration: float) -> float:
    """Bytes that stay in RAM of a queue told `duration`."""
    if not load.messages or not load.rate:
        return 0
    return min(load.bytes, duration * bytes_each_s(load))


@given(many_loads, st.integers(1, 10**12), st.floats(0.1, 1))
def test_what_is_kept_adds_up_to_the_goal(loads: list[QueueLoad], limit: int, ratio: float) -> None:
    held = sum(load.bytes for load in loads)
    duration = desired_duration(loads, held, limit, ratio, False)
    if math.isinf(duration):
        assert held < ratio * limit
        return
    moving = sum(load.bytes for load in loads if load.rate)
    wanted = min(moving, ratio * limit)
    assert sum(kept(load, duration) for load in loads) == pytest.approx(wanted, rel=1e-6)


@given(many_loads, st.integers(1, 10**12), st.integers(0, 10**12), st.floats(0.1, 1))
def test_what_is_accounted_elsewhere_leaves_the_queues_less(
    loads: list[QueueLoad], limit: int, elsewhere: int, ratio: float
) -> None:
    held = sum(load.bytes for load in loads)
    less = desired_duration(loads, held + elsewhere, limit, ratio, False)
    assert less <= desired_duration(loads, held, limit, ratio, False)
    if math.isfinite(less):
        room = max(0, ratio * limit - elsewhere)
        assert sum(kept(load, less) for load in loads) <= room * (1 + 1e-6) + 1e-6


@given(many_loads, st.integers(1, 10**12), st.integers(1, 10**12))
def test_more_memory_never_means_less_time(loads: list[QueueLoad], limit: int, other: int) -> None:
    held = sum(load.bytes for load in loads)
    low, high = sorted((limit, other))
    less = desired_duration(loads, held, low, 0.5, False)
    assert less <= desired_duration(loads, held, high, 0.5, False) * (1 + 1e-9)


def test_two_backlogs_share_by_their_rates_and_an_idle_one_keeps_nothing() -> None:
    fast = QueueLoad(300, 10_000, 10_000_000)
    slow = QueueLoad(100, 10_000, 10_000_000)
    idle = QueueLoad(0, 10_000, 10_000_000)
    duration = desired_duration([idle, slow, fast], 30_000_000, 20_000_000, 0.5, False)
    assert duration == pytest.approx(25)
    counts = [target_count(duration, load.rate) for load in (idle, slow, fast)]
    assert counts == [0, 2500, 7500]


def test_a_busy_queue_that_is_nearly_empty_leaves_the_room_to_the_backlog() -> None:
    """By their rates alone the backlog would keep a hundredth of what is free, and be paged out
    to there each time memory reaches the goal."""
    busy = QueueLoad(99_000, 10, 10_000)
    backlog = QueueLoad(1_000, 11_000, 11_000_000)
    duration = desired_duration([busy, backlog], 11_010_000, 20_000_000, 0.5, False)
    assert target_count(duration, backlog.rate) == 9990


def test_when_all_are_idle_nobody_keeps_anything() -> None:
    assert desired_duration([QueueLoad(0, 10, 1000)], 1000, 1000, 0.5, False) == 0
    assert desired_duration([], 1000, 1000, 0.5, False) == 0
