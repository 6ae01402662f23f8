"""The knee: the smallest limit within 5 % of the peak, among steps one may recommend."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.spark.pipeline.knee import find_knee, recommend_ack_interval, recommend_prefetch
from sluicemq.spark.pipeline.results import Step, StepClass

from .records import make_info, make_run, make_step

LIMITS = (10, 20, 50, 100)


def steps_of(*rates: float) -> list[Step]:
    """A step a rate, limits growing."""
    return [
        make_step(limit, rate, number=number, percent=limit / 10)
        for number, (limit, rate) in enumerate(zip(LIMITS, rates, strict=False))
    ]


def test_the_knee_is_the_smallest_limit_within_5_percent_of_the_peak() -> None:
    knee = make_run(steps_of(600, 960, 990, 1000)).knee
    assert knee is not None
    assert knee.in_flight_limit == 20
    assert knee.peak_limit == 100
    assert knee.peak_per_s == 1000
    assert "96\u00a0%" in knee.reason


@given(st.lists(st.floats(min_value=1, max_value=1e6), min_size=1, max_size=4))
def test_no_smaller_limit_would_do(rates: list[float]) -> None:
    run = make_run(steps_of(*rates))
    assert run.knee is not None
    assert run.knee.sustained_per_s >= 0.95 * max(rates)
    smaller = [x for x in run.steps if (x.in_flight_limit or 0) < run.knee.in_flight_limit]
    assert all(step.sustained_per_s < 0.95 * max(rates) for step in smaller)


def test_what_goes_in_but_not_out_does_not_count() -> None:
    steps = steps_of(910, 950)
    steps.append(
        make_step(50, 1000, number=2, delivered_per_s=400, step_class=StepClass.BACKLOG_GROWING)
    )
    knee, _ = find_knee(make_info(), steps)
    assert knee is not None
    assert knee.in_flight_limit == 10


def test_steps_that_swing_or_collapse_are_passed_over() -> None:
    steps = [make_step(10, 1000, step_class=StepClass.SWINGING), *steps_of(0, 950)[1:]]
    knee, _ = find_knee(make_info(), steps)
    assert knee is not None
    assert knee.in_flight_limit == 20
    assert "10 (swinging)" in knee.caveat


def test_the_smallest_limit_tried_is_said_to_be_that() -> None:
    knee = make_run(steps_of(1000, 1000)).knee
    assert knee is not None
    assert "smallest limit tried" in knee.caveat


def test_a_quicker_limit_is_mentioned() -> None:
    steps = [make_step(10, 990, latency_ms=90), make_step(20, 1000, latency_ms=9)]
    knee = make_run(steps).knee
    assert knee is not None
    assert knee.in_flight_limit == 10
    assert "a limit of 20 has less latency" in knee.caveat
    assert "every limit reached the wanted rate" in knee.caveat


def test_a_limit_passed_over_is_not_said_to_have_reached_the_rate() -> None:
    steps = [make_step(10, 400, step_class=StepClass.SWINGING), *steps_of(0, 1000, 1000)[1:]]
    knee, _ = find_knee(make_info(), steps)
    assert knee is not None
    assert "every limit not passed over reached the wanted rate" in knee.caveat


def test_a_run_that_ended_early_recommends_nothing() -> None:
    knee, reason = find_knee(make_info(stopped="interrupted"), steps_of(1000, 1000))
    assert knee is None
    assert reason == "the run ended early (interrupted), with limits untried"


def test_there_is_no_knee_without_limits() -> None:
    run = make_run([make_step(None)], confirms=False)
    assert run.knee is None
    assert run.no_knee_reason == "confirms were off"


def test_there_is_no_knee_when_nothing_is_sound() -> None:
    assert find_knee(make_info(), [make_step(10, step_class=StepClass.COLLAPSED)])[0] is None
    assert find_knee(make_info(), [make_step(10, 0.0)])[0] is None


def test_prefetch_is_kept_unless_it_was_used_up() -> None:
    info = make_info(prefetch=50, consumers=20)
    assert "nobody" in recommend_prefetch(info, make_step(10, unacked_max=20))[1]
    assert "used up" in recommend_prefetch(info, make_step(10, unacked_max=1000))[1]
    assert "automatic" in recommend_prefetch(make_info(ack_interval=0), make_step(10))[1]


def test_ack_interval_is_the_tested_one_or_a_tenth_of_the_prefetch() -> None:
    assert recommend_ack_interval(make_info(ack_interval=7), 50)[0] == 7
    assert recommend_ack_interval(make_info(ack_interval=1), 50)[0] == 5
    assert recommend_ack_interval(make_info(ack_interval=0), 3)[0] == 1
