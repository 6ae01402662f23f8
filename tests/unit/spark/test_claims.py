"""The claims: complete, and each judged by runs that plainly hold it, better it or break it."""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.spark.pipeline.claims import evaluate
from sluicemq.spark.pipeline.post_claims import CLAIMS
from sluicemq.spark.pipeline.results import ClaimResult, Outcome, RunResult, Step, StepClass

from .records import make_run, make_step

POST = {1: "abcd", 2: "abcde", 3: "ab", 4: "abcd", 5: "abcde", 6: "ab", 7: "abcd"}
"""The post's claims: scenario, letters."""

HOLDS, BETTER, FAILS, UNTESTED = Outcome.HOLDS, Outcome.BETTER, Outcome.FAILS, Outcome.UNTESTED


def found(claim: str, *runs: RunResult) -> ClaimResult:
    """What these runs say about one claim."""
    return next(result for result in evaluate(CLAIMS, runs) if result.claim == claim)


def without(step: Step, **info: Any) -> RunResult:
    """A run without confirms."""
    return make_run([step], label="no confirms", confirms=False, **info)


def limited(*steps: Step, **info: Any) -> RunResult:
    """A run with confirms."""
    return make_run(list(steps), **info)


GROWING = make_step(
    None, 900, delivered_per_s=700, step_class=StepClass.BACKLOG_GROWING, latency_ms=9000
)
COLLAPSED = make_step(None, 300, step_class=StepClass.COLLAPSED, latency_ms=9000)
GOOD = make_step(None, 1000)


def growing_at(limit: int, percent: int) -> Step:
    """A step whose consumers fall behind."""
    return make_step(
        limit,
        1000,
        percent=percent,
        delivered_per_s=800,
        step_class=StepClass.BACKLOG_GROWING,
        latency_ms=4000,
    )


def test_all_claims_of_the_post_are_in_the_table_in_order() -> None:
    wanted = [f"{number}.{letter}" for number, letters in POST.items() for letter in letters]
    assert [claim.id for claim in CLAIMS] == wanted


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_without_runs_a_claim_is_not_tested_and_says_what_it_needs(claim: Any) -> None:
    result = found(claim.id)
    assert result.outcome is UNTESTED
    assert result.evidence.startswith("needs ")


def test_another_queue_type_does_not_test_a_claim_but_is_mentioned() -> None:
    result = found("1.a", without(GOOD))
    assert result.outcome is UNTESTED
    assert result.evidence == "needs a run of scenario 1 without confirms on mirrored queues"
    assert result.elsewhere.startswith("On classic queues it would be better: 1,000/s in")


def test_the_wrong_mode_does_not_test_a_claim() -> None:
    result = found("1.a", limited(make_step(10), queue_type="mirrored"))
    assert (result.outcome, result.elsewhere) == (UNTESTED, "")


@pytest.mark.parametrize(
    ("claim", "run", "outcome"),
    [
        ("1.a", without(make_step(None, latency_ms=300), queue_type="mirrored"), HOLDS),
        ("1.a", without(GOOD, queue_type="mirrored"), BETTER),
        ("1.a", without(make_step(None, 900), queue_type="mirrored"), FAILS),
        ("1.b", limited(make_step(10), make_step(20, 980), queue_type="mirrored"), HOLDS),
        ("1.b", limited(make_step(10, 700), make_step(20), queue_type="mirrored"), FAILS),
        ("1.c", without(make_step(None, latency_ms=700), queue_type="quorum"), FAILS),
        (
            "1.d",
            limited(make_step(10, 900), make_step(20, latency_ms=200), queue_type="quorum"),
            HOLDS,
        ),
        ("1.d", limited(make_step(10), make_step(20), queue_type="quorum"), BETTER),
        ("1.d", limited(make_step(10, 500), make_step(20), queue_type="quorum"), FAILS),
        ("2.a", without(GROWING, queue_type="mirrored", scenario=2), HOLDS),
        ("2.a", without(GOOD, queue_type="mirrored", scenario=2), BETTER),
        ("2.a", without(COLLAPSED, queue_type="mirrored", scenario=2), FAILS),
        (
            "2.b",
            limited(make_step(10), make_step(20, latency_ms=99), queue_type="mirrored", scenario=2),
            HOLDS,
        ),
        ("2.b", limited(make_step(10), make_step(9), queue_type="mirrored", scenario=2), BETTER),
        (
            "2.b",
            limited(make_step(10, 500), make_step(20), queue_type="mirrored", scenario=2),
            FAILS,
        ),
        ("2.d", without(GOOD, queue_type="quorum", scenario=2), HOLDS),
        (
            "2.d",
            without(make_step(None, blocked_share=0.1), queue_type="quorum", scenario=2),
            FAILS,
        ),
        (
            "2.e",
            limited(
                make_step(10, 800, percent=10),
                make_step(99, percent=100),
                queue_type="quorum",
                scenario=2,
            ),
            HOLDS,
        ),
        (
            "2.e",
            limited(
                make_step(10, percent=10),
                make_step(99, percent=100),
                queue_type="quorum",
                scenario=2,
            ),
            BETTER,
        ),
        (
            "2.e",
            limited(make_step(99, 500, percent=100), queue_type="quorum", scenario=2),
            FAILS,
        ),
        ("3.a", limited(make_step(2, delivered_cv=0.05), make_step(3), scenario=3), HOLDS),
        ("3.a", limited(make_step(2), make_step(3), scenario=3), BETTER),
        ("3.a", limited(make_step(2, 800), make_step(3), scenario=3), FAILS),
        ("4.a", without(COLLAPSED, queue_type="mirrored", scenario=4), HOLDS),
        ("4.a", without(GOOD, queue_type="mirrored", scenario=4), BETTER),
        ("4.a", without(GROWING, queue_type="mirrored", scenario=4), FAILS),
        ("4.b", limited(make_step(3), make_step(6), queue_type="mirrored", scenario=4), HOLDS),
        (
            "4.b",
            limited(make_step(3, 800), make_step(6), queue_type="mirrored", scenario=4),
            FAILS,
        ),
        (
            "4.c",
            without(
                make_step(None, delivered_per_s=700, step_class=StepClass.BACKLOG_GROWING),
                queue_type="quorum",
                scenario=4,
            ),
            HOLDS,
        ),
        ("4.c", without(GOOD, queue_type="quorum", scenario=4), BETTER),
        (
            "4.d",
            limited(
                make_step(60, percent=100),
                growing_at(120, 200),
                queue_type="quorum",
                scenario=4,
            ),
            HOLDS,
        ),
        (
            "4.d",
            limited(
                make_step(60, percent=100),
                make_step(120, percent=200),
                queue_type="quorum",
                scenario=4,
            ),
            BETTER,
        ),
        (
            "4.d",
            limited(growing_at(60, 100), growing_at(120, 200), queue_type="quorum", scenario=4),
            FAILS,
        ),
        ("5.a", without(COLLAPSED, scenario=5), HOLDS),
        ("5.a", without(GROWING, scenario=5), BETTER),
        (
            "5.c",
            limited(
                make_step(2, 500, percent=2),
                make_step(20, 1000, percent=20),
                growing_at(100, 100),
                queue_type="quorum",
                scenario=5,
            ),
            HOLDS,
        ),
        (
            "5.d",
            limited(make_step(2, unconfirmed_max=40), make_step(5, unconfirmed_max=90), scenario=5),
            HOLDS,
        ),
        (
            "5.d",
            limited(
                make_step(2, unconfirmed_max=40), make_step(500, unconfirmed_max=90), scenario=5
            ),
            BETTER,
        ),
        ("7.c", limited(make_step(10, percent=1), make_step(20, percent=2)), HOLDS),
        ("7.c", limited(make_step(10, 500, percent=1), make_step(200, percent=20)), FAILS),
        ("7.c", limited(make_step(10, step_class=StepClass.SWINGING)), FAILS),
        ("7.c", limited(make_step(10, 400, percent=1), make_step(20, 490, percent=2)), UNTESTED),
    ],
)
def test_a_claim_judged_by_one_run(claim: str, run: RunResult, outcome: Outcome) -> None:
    assert found(claim, run).outcome is outcome


def with_peak(rate: float, **info: Any) -> RunResult:
    """A run with confirms whose best step carries `rate`."""
    return limited(make_step(10, rate), label=f"{rate}", **info)


def test_the_multiple_flag_is_judged_by_two_runs() -> None:
    wide = make_step(10, 1000, delivered_per_s=800)
    narrow = make_step(10, 1000, delivered_per_s=900)
    kind: dict[str, Any] = {"queue_type": "mirrored", "scenario": 2}
    single = limited(wide, **kind)
    assert found("2.c", single).outcome is UNTESTED
    assert found("2.c", single, limited(narrow, ack_interval=5, **kind)).outcome is HOLDS
    assert found("2.c", single, limited(wide, ack_interval=5, **kind)).outcome is FAILS
    even = [limited(make_step(10), ack_interval=x, **kind) for x in (1, 5)]
    assert found("2.c", *even).outcome is BETTER
    emptied = make_step(10, published_per_s=500.0, delivered_per_s=900.0)
    assert found("2.c", single, limited(emptied, ack_interval=5, **kind)).outcome is FAILS


@pytest.mark.parametrize(("multiple_rate", "outcome"), [(700, HOLDS), (600, FAILS), (400, FAILS)])
def test_a_claim_with_two_halves_is_as_good_as_the_worse_one(
    multiple_rate: float, outcome: Outcome
) -> None:
    """Mirrored queues of scenario 4 are stable at their lowest limit, and carry more by multiple
    acks."""
    facts = {"queue_type": "mirrored", "scenario": 4}
    single = limited(make_step(3, 600), make_step(6, 600, number=1), **facts)
    several = limited(make_step(3, multiple_rate), ack_interval=2, **facts)
    assert found("4.b", single).outcome is HOLDS
    both = found("4.b", single, several)
    assert both.outcome is outcome
    assert f"600/s with single acks, {multiple_rate}/s with multiple" in both.evidence


def test_where_both_meet_the_target_the_multiple_flag_has_nothing_to_gain() -> None:
    at_once = [make_step(20, 990, percent=1), make_step(2000, 1000, percent=100, number=1)]
    runs = [limited(*at_once, queue_type="quorum", scenario=2, ack_interval=x) for x in (1, 2)]
    assert found("2.e", *runs).outcome is BETTER


def test_quorum_and_mirrored_are_judged_side_by_side() -> None:
    quorum, mirrored = with_peak(900, queue_type="quorum"), with_peak(700, queue_type="mirrored")
    assert found("7.a", quorum, mirrored).outcome is HOLDS
    assert found("7.a", with_peak(600, queue_type="quorum"), mirrored).outcome is FAILS


def test_creeping_latency_needs_both_types() -> None:
    slow = limited(make_step(2, latency_ms=900), queue_type="mirrored", scenario=3)
    quick = limited(make_step(2, latency_ms=90), queue_type="quorum", scenario=3)
    assert found("3.b", slow, quick).outcome is HOLDS
    assert found("3.b", slow).outcome is UNTESTED


def test_few_and_many_publishers_are_compared() -> None:
    few = without(GOOD)
    many = without(COLLAPSED, scenario=5)
    helped = limited(make_step(10), scenario=5)
    assert found("7.b", few, many, helped).outcome is HOLDS
    assert found("7.b", few, without(GOOD, scenario=5), helped).outcome is BETTER
    assert found("7.b", few, without(GOOD, scenario=5), many, helped).outcome is HOLDS
    assert found("7.b", few, helped).outcome is UNTESTED
    assert found("7.d", with_peak(900, scenario=2), with_peak(500, scenario=5)).outcome is HOLDS
    assert found("7.d", with_peak(400, scenario=2), with_peak(500, scenario=5)).outcome is FAILS


def test_memory_with_and_without_a_bound_is_compared() -> None:
    bounded = limited(
        make_step(10),
        queue_type="quorum",
        scenario=5,
        queue_arguments={"x-max-in-memory-length": 0},
    )
    spiking = limited(
        make_step(10, broker_rss_max_bytes=900 << 20), queue_type="quorum", scenario=5
    )
    alike = limited(make_step(10), queue_type="quorum", scenario=5)
    assert found("5.e", bounded, spiking).outcome is HOLDS
    assert found("5.e", bounded, alike).outcome is BETTER
    assert found("5.e", bounded).outcome is UNTESTED


def test_the_least_favourable_of_several_fitting_runs_counts() -> None:
    result = found("5.a", without(COLLAPSED, scenario=5), without(GROWING, scenario=5))
    assert result.outcome is HOLDS
    assert "collapsed" in result.evidence
    assert "collapsed" not in result.others
    assert "backlog growing" in result.others


def with_profile(profile: str, *, rss: int = 90 << 20, **changes: Any) -> RunResult:
    """A run of scenario 5 with confirms on quorum queues, by nodes of a profile."""
    step = make_step(10, broker_rss_max_bytes=rss, **changes)
    return limited(step, queue_type="quorum", scenario=5, profile=profile, label=profile)


def test_the_single_segment_writer_is_judged_by_memory_and_swings() -> None:
    new = with_profile("rabbitmq-3.8.4")
    swinging = with_profile("rabbitmq-3.8.3", step_class=StepClass.SWINGING)
    assert found("6.a", with_profile("rabbitmq-3.8.3", rss=200 << 20), new).outcome is HOLDS
    assert found("6.a", swinging, new).outcome is HOLDS
    assert found("6.a", with_profile("rabbitmq-3.8.3"), new).outcome is BETTER
    assert found("6.a", with_profile("rabbitmq-3.8.3", rss=110 << 20), new).outcome is FAILS
    assert found("6.a", new).outcome is UNTESTED
    result = found("6.a", swinging, new)
    assert result.evidence == (
        "rabbitmq-3.8.3 90 MiB at most, swings or collapses; "
        "rabbitmq-3.8.4 90 MiB at most, every step acceptable"
    )
    assert "90,000/s" in result.machine


def test_smaller_batches_are_judged_by_how_much_deliveries_vary() -> None:
    def both(before: float, after: float) -> Outcome:
        old = with_profile("rabbitmq-3.8.3", delivered_cv=before)
        new = with_profile("rabbitmq-3.8.4", delivered_cv=after)
        return found("6.b", new, old).outcome

    assert both(0.3, 0.1) is HOLDS
    assert both(0.1, 0.3) is FAILS
    assert both(0.01, 0.015) is BETTER


def test_runs_with_another_profile_count_for_claims_about_profiles_only() -> None:
    usual = limited(make_step(10, percent=1), scenario=5, queue_type="quorum", profile="adaptive")
    old = with_profile("rabbitmq-3.8.3", step_class=StepClass.SWINGING)
    assert found("7.c", usual, old).outcome is HOLDS
    assert found("7.c", old).outcome is FAILS
