"""Each class by a run that is plainly of it, and the edges between classes."""

from __future__ import annotations

import pytest

from sluicemq.spark.pipeline.classify import RULES, SWING_CV, StepSeries, classify
from sluicemq.spark.pipeline.results import StepClass

SECONDS = 12
EVEN = [1000.0 + second % 2 for second in range(SECONDS)]
LOW = [5.0] * SECONDS
NO_BACKLOG = [10.0] * SECONDS


def of(
    published: list[float],
    delivered: list[float],
    backlog: list[float] | None = None,
    p95_ms: list[float | None] | None = None,
    best_before: float = 0.0,
) -> tuple[StepClass, int]:
    """Class and scale."""
    verdict = classify(
        StepSeries(
            published,
            delivered,
            NO_BACKLOG if backlog is None else backlog,
            list(LOW) if p95_ms is None else p95_ms,
            best_before,
        )
    )
    assert verdict.reason
    return verdict.step_class, verdict.scale


def test_even_rates_and_low_latency_are_steady() -> None:
    assert of(EVEN, EVEN) == (StepClass.STEADY, 3)


def test_an_old_backlog_makes_a_steady_step_a_4() -> None:
    assert of(EVEN, EVEN, p95_ms=[2500.0] * SECONDS) == (StepClass.STEADY, 4)


def test_a_rate_that_falls_over_has_collapsed() -> None:
    falling = [1000.0] * 6 + [600.0, 300.0] + [100.0] * 4
    assert of(EVEN, falling) == (StepClass.COLLAPSED, 1)


def test_publishers_that_are_stopped_for_good_have_collapsed() -> None:
    stopped = [1000.0] * 7 + [0.0] * 5
    assert of(stopped, EVEN) == (StepClass.COLLAPSED, 1)


def stalled(seconds: int, at: int, stall: int) -> tuple[StepClass, int]:
    """The class of a step in which everything stands still from second `at` on."""
    rates = [0.0 if at <= second < at + stall else 1000.0 for second in range(seconds)]
    return of(rates, rates, [10.0] * seconds, [5.0] * seconds)


@pytest.mark.parametrize("seconds", [9, 12, 30])
def test_a_stall_is_swinging_wherever_it_is(seconds: int) -> None:
    for at in range(seconds - 2):
        assert stalled(seconds, at, 3) == (StepClass.SWINGING, 2), at


@pytest.mark.parametrize("seconds", [9, 12, 30])
@pytest.mark.parametrize("stall", [4, 5, 7])
def test_a_longer_stall_is_swinging_if_the_step_gets_over_it(seconds: int, stall: int) -> None:
    for at in range(seconds - stall):
        assert stalled(seconds, at, stall) == (StepClass.SWINGING, 2), at


def test_a_stall_without_an_end_has_collapsed() -> None:
    assert stalled(12, 8, 4) == (StepClass.COLLAPSED, 1)


def test_far_below_an_earlier_step_is_a_collapse() -> None:
    assert of([200.0] * 8, [200.0] * 8, best_before=1000.0) == (StepClass.COLLAPSED, 1)
    assert of([300.0] * 8, [300.0] * 8, best_before=1000.0) == (StepClass.STEADY, 3)


def test_nothing_delivered_is_a_collapse() -> None:
    assert of(EVEN, [0.0] * SECONDS) == (StepClass.COLLAPSED, 1)
    assert of([], []) == (StepClass.COLLAPSED, 1)


def test_large_swings_of_throughput_are_swinging() -> None:
    swing = [1500.0, 500.0] * (SECONDS // 2)
    assert of(EVEN, swing) == (StepClass.SWINGING, 2)
    assert of(swing, EVEN) == (StepClass.SWINGING, 2)


def test_small_swings_are_steady() -> None:
    small = [1000.0 * (1 + SWING_CV * 0.9), 1000.0 * (1 - SWING_CV * 0.9)] * (SECONDS // 2)
    assert of(EVEN, small) == (StepClass.STEADY, 3)


def test_a_growing_backlog_is_growing() -> None:
    backlog = [200.0 * second for second in range(SECONDS)]
    growing = [800.0] * SECONDS
    assert of(EVEN, growing, backlog, [100.0 * x for x in range(SECONDS)]) == (
        StepClass.BACKLOG_GROWING,
        4,
    )


def test_a_backlog_that_hardly_grows_is_steady() -> None:
    backlog = [10.0 + second for second in range(SECONDS)]
    assert of(EVEN, EVEN, backlog) == (StepClass.STEADY, 3)


def test_a_shrinking_backlog_is_steady() -> None:
    backlog = [5000.0 - 300 * second for second in range(SECONDS)]
    assert of(EVEN, EVEN, backlog) == (StepClass.STEADY, 3)


def test_latency_that_jumps_is_swinging() -> None:
    jumps: list[float | None] = [50.0, 3000.0] * (SECONDS // 2)
    assert of(EVEN, EVEN, p95_ms=jumps) == (StepClass.SWINGING, 2)


def test_fast_latency_may_jump() -> None:
    jumps: list[float | None] = [1.0, 80.0] * (SECONDS // 2)
    assert of(EVEN, EVEN, p95_ms=jumps) == (StepClass.STEADY, 3)


def test_one_second_is_enough_for_a_class() -> None:
    assert of([900.0], [900.0], [0.0], [3.0]) == (StepClass.STEADY, 3)


def test_every_class_is_defined_in_the_table() -> None:
    assert {name for name, _, _ in RULES} == {str(one) for one in StepClass}
