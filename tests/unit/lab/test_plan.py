"""Goal: a scaled run keeps the scenario's shape. Method: the table and the arithmetic, by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.lab.plan import NS, RunPlan, ack_interval_multiple, choose_limits
from sluicemq.lab.scenarios import SCENARIOS, Limit, Scenario, scenario_named


def plan(scenario: str = "1", **options: Any) -> RunPlan:
    options.setdefault("targets", ("amqp://127.0.0.1",))
    return RunPlan(scenario=scenario_named(scenario), directory=Path("unused"), **options)


def test_the_table_has_the_posts_totals() -> None:
    totals = [scenario.publishers * scenario.rate for scenario in SCENARIOS]
    assert totals == [20_000, 40_000, 15_000, 30_000, 100_000]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_limit_is_about_its_percentage_of_the_rate(scenario: Scenario) -> None:
    """The post rounds loosely: it calls 12 of 30 half."""
    for limit in scenario.limits:
        assert abs(limit.messages * 100 / scenario.rate - limit.percent) <= 10


def test_limits_rise_and_scenarios_are_found_by_number_and_name() -> None:
    for scenario in SCENARIOS:
        messages = [limit.messages for limit in scenario.limits]
        assert messages == sorted(set(messages))
        assert scenario_named(str(scenario.number)) is scenario_named(scenario.name)
    with pytest.raises(Refused, match="unknown scenario '6'; there are 1 "):
        scenario_named("6")


def test_unscaled_the_figures_are_the_tables() -> None:
    whole = plan("2")
    assert (whole.rate, whole.total_rate, whole.prefetch) == (2000, 40_000, 2000)
    assert whole.limits == scenario_named("2").limits
    assert ack_interval_multiple(whole.scenario, 1.0) == 200
    assert whole.sample_every == 2


def test_scaling_multiplies_the_rate_and_what_follows_from_it_and_clamps_to_one() -> None:
    small = plan("3", scale=0.1)
    assert small.rate == pytest.approx(3)
    assert small.prefetch == 3
    assert [limit.messages for limit in small.limits if limit] == [1, 1, 1, 1, 3, 6]
    assert [limit.percent for limit in small.limits if limit] == [6, 10, 20, 50, 100, 200]
    assert ack_interval_multiple(small.scenario, 0.1) == 1
    assert len(small.queue_names) == 100


@given(st.sampled_from(SCENARIOS), st.floats(0.001, 20))
def test_every_scale_gives_limits_of_at_least_one_and_rising(
    scenario: Scenario, scale: float
) -> None:
    scaled = plan(str(scenario.number), scale=scale)
    messages = [limit.messages for limit in scaled.limits if limit]
    assert messages[0] >= 1
    assert messages == sorted(messages)
    assert scaled.period_ns * scaled.rate == pytest.approx(NS, rel=1e-4)


def test_without_confirms_there_is_one_step_without_a_limit() -> None:
    (step,) = plan(confirms=False, step_seconds=7).steps
    assert step.limit is None
    assert (step.start_ns, step.end_ns) == (0, 7 * NS)


def test_steps_follow_one_another_and_warm_up_for_a_fifth() -> None:
    steps = plan(step_seconds=10).steps
    assert [step.start_ns for step in steps[1:]] == [step.end_ns for step in steps[:-1]]
    assert steps[1].warm_ns == 12 * NS
    assert plan(step_seconds=100).steps[0].warm_ns == 5 * NS


def test_chosen_limits_are_messages_or_percentages_of_the_table() -> None:
    scenario = scenario_named("3")
    assert choose_limits(scenario, 1.0, "6%, 15,300%") == (
        Limit(6, 2),
        Limit(50, 15),
        Limit(300, 90),
    )
    for wrong in ("", "0", "1.5", "x%", "10,,20"):
        with pytest.raises(Refused, match="a step is a number"):
            choose_limits(scenario, 1.0, wrong)


def test_seqs_max_is_never_below_what_the_schedule_asks_for() -> None:
    for scenario in SCENARIOS:
        whole = plan(str(scenario.number), step_seconds=3)
        assert whole.seqs_max >= 3 * scenario.rate * len(scenario.limits)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_share_the_clients_and_never_part_a_queue(workers: int) -> None:
    shared = plan("3", workers=workers)
    seen: dict[int, int] = {}
    everyone: list[int] = []
    for worker in range(workers):
        for client in shared.clients_of(500, worker):
            everyone.append(client)
            assert seen.setdefault(client % 100, worker) == worker
    assert sorted(everyone) == list(range(500))


def test_queue_types_make_names_and_arguments() -> None:
    assert plan(queue_type="mirrored").queue_names[3] == "ha-lab-1-3"
    quorum = plan(queue_type="quorum", queue_arguments={"x-max-in-memory-length": 0})
    assert quorum.queue_names[3] == "lab-1-3"
    assert quorum.declare_arguments == {"x-queue-type": "quorum", "x-max-in-memory-length": 0}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scale": 0}, "scale must be above 0"),
        ({"scale": 100}, "gives a prefetch of 100000; AMQP allows 65535"),
        ({"body_bytes": 39}, "a body has at least 40 bytes"),
        ({"queue_type": "lazy"}, "queue type 'lazy' is not one of classic, mirrored, quorum"),
        ({"step_seconds": 0}, "a step lasts at least 1 second"),
        ({"ack_interval": 1001}, "an ack interval of 1001 never comes"),
        ({"ack_interval": -1}, "cannot be negative"),
        ({"targets": ()}, "a run needs a target"),
        ({"workers": 11}, "11 workers cannot share 10 queues"),
        ({"drain_timeout_s": -1}, "cannot be negative"),
        ({"label": "x" * 61}, "a label has at most 60 characters"),
        ({"label": "two\nlines"}, "all of which can be printed"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Refused, match=text):
        plan(**options)
