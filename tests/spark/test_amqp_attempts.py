"""Goal: tasks that run again, or twice at a time, neither lose nor double what is promised once.

Method: executors at addresses of their own; `cluster_job.py` runs there, scenarios with a first
attempt that fails in the middle, or with one that stalls there until Spark speculates.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark.cluster_job import ROWS, Outcome
from spark.cluster_scenarios import ways_of
from support.broker import Target
from support.thorough import only_thorough

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def outcomes(cluster_jobs: Path) -> dict[str, Outcome]:
    """What came of each scenario."""
    found = json.loads((cluster_jobs / "attempts" / "outcomes.json").read_text())
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def outcome_of(outcomes: dict[str, Outcome], name: str) -> Outcome:
    """There must have been a second attempt."""
    outcome = outcomes[name]
    assert not outcome.error
    assert max(outcome.attempts) > 0
    return outcome


@pytest.mark.parametrize("name", ways_of("source", "stream_source"))
def test_a_streaming_read_gives_each_row_once(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcome_of(outcomes, name)
    assert outcome.numbers == list(range(ROWS))
    assert (outcome.redelivered, outcome.left) == (0, 0)


@only_thorough
@pytest.mark.parametrize("name", ways_of("batch_never"))
def test_a_batch_read_of_a_queue_gives_each_row_once(
    outcomes: dict[str, Outcome], name: str
) -> None:
    """A second attempt waits until the first has read, or is gone."""
    outcome = outcome_of(outcomes, name)
    assert (outcome.numbers, outcome.left) == (list(range(ROWS)), ROWS)


@only_thorough
def test_a_batch_read_that_empties_the_queue_does_so_at_most_once(
    outcomes: dict[str, Outcome],
) -> None:
    """A second attempt after the first has read all finds nothing, and says so. The first may have
    been lost before it read anything, with an executor that a busy machine has kept waiting."""
    stalls, fails = outcomes["batch_on_read-stalls"], outcomes["batch_on_read-fails"]
    assert (stalls.error, stalls.numbers, stalls.left) == ("", list(range(ROWS)), 0)
    if 0 in fails.attempts:
        assert "has 0 messages for a task that runs again" in fails.error
    else:
        assert (fails.error, fails.numbers, fails.left) == ("", list(range(ROWS)), 0)


@only_thorough
@pytest.mark.parametrize("name", ways_of("sink_at_least_once"))
def test_a_write_loses_nothing(outcomes: dict[str, Outcome], name: str) -> None:
    """How much the attempt that was cut off had written is a matter of time."""
    outcome = outcome_of(outcomes, name)
    assert set(outcome.numbers) == set(range(ROWS))


@pytest.mark.parametrize("name", ways_of("sink_once", "stream_to_sink_once"))
def test_a_queue_that_deduplicates_has_each_row_once(
    target: Target, outcomes: dict[str, Outcome], name: str
) -> None:
    if not target.is_own:
        pytest.skip("RabbitMQ deduplicates with a plug-in only; runs without --broker-url")
    assert outcome_of(outcomes, name).numbers == list(range(ROWS))


def test_an_address_that_is_not_the_drivers_is_named(outcomes: dict[str, Outcome]) -> None:
    assert "transferHost = '203.0.113.7': cannot listen there" in outcomes["unreachable"].error
    assert outcomes["unreachable"].left == 1
