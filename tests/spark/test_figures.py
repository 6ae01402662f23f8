"""The pipeline's figures against an exact computation of the same raw rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sluicemq.spark.pipeline.build import analyse_run
from sluicemq.spark.pipeline.ingest import open_run
from sluicemq.spark.pipeline.results import RunResult
from sluicemq.spark.synthetic import RunShape, StepShape, write_synthetic_run

from .oracle import assert_percentiles, read

pytestmark = pytest.mark.spark

NS = 1_000_000_000
STEPS = (
    StepShape(seconds=4, limit=1, percent=1, publish_rate=700, latency_ms=2),
    StepShape(seconds=5, limit=5, percent=5, publish_rate=1000, latency_ms=8),
    StepShape(seconds=4, limit=50, percent=50, publish_rate=1000, latency_ms=300, confirm_ms=90),
)


def analyse(spark: SparkSession, directory: Path, shape: RunShape) -> RunResult:
    """Write a run and analyse it."""
    write_synthetic_run(directory, shape)
    return analyse_run(open_run(spark, directory), "test")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def run(spark: SparkSession, directory: Path) -> RunResult:
    """Every message has a row; 30 were never confirmed, 7 never delivered."""
    shape = RunShape(
        steps=STEPS, target_rate=1000, publishers=7, queues=3, consumers=5, unconfirmed=30, lost=7
    )
    return analyse(spark, directory, shape)


def test_percentiles_of_steps_are_within_1_percent(run: RunResult, directory: Path) -> None:
    published, delivered = read(directory, "published"), read(directory, "delivered")
    for step, info in zip(run.steps, run.info["steps"], strict=True):
        for table, kind, end in (
            (published, "confirm", "confirmed_ns"),
            (delivered, "end_to_end", "delivered_ns"),
        ):
            mine = (table["step"] == step.step) & (table["written_ns"] >= info["warm_ns"])
            for name, start in (("service", "written_ns"), ("response", "intended_ns")):
                assert_percentiles(
                    getattr(step.latencies, f"{kind}_{name}"),
                    (table[end] - table[start])[mine],
                    table["weight"][mine],
                )


def test_percentiles_of_seconds_are_within_1_percent(run: RunResult, directory: Path) -> None:
    delivered = read(directory, "delivered")
    second_of = delivered["delivered_ns"] // NS
    for number in np.unique(second_of).astype(int):
        mine = second_of == number
        latency = (delivered["delivered_ns"] - delivered["intended_ns"])[mine]
        found = run.seconds[number].latencies.end_to_end_response
        assert_percentiles(found, latency, delivered["weight"][mine])


def test_percentiles_of_the_run_are_those_of_all_steps(run: RunResult, directory: Path) -> None:
    delivered = read(directory, "delivered")
    warm = np.array([step["warm_ns"] for step in run.info["steps"]])
    mine = delivered["written_ns"] >= warm[delivered["step"].astype(int)]
    latency = (delivered["delivered_ns"] - delivered["written_ns"])[mine]
    assert_percentiles(run.latencies.end_to_end_service, latency, delivered["weight"][mine])


def test_throughput_of_seconds_is_exact(run: RunResult, directory: Path) -> None:
    written = np.bincount((read(directory, "published")["written_ns"] // NS).astype(int))
    delivered = np.bincount((read(directory, "delivered")["delivered_ns"] // NS).astype(int))
    rates = [(second.published_per_s, second.delivered_per_s) for second in run.seconds]
    assert [rate for rate, _ in rates][: len(written)] == written.tolist()
    assert [rate for _, rate in rates][: len(delivered)] == delivered.tolist()
    ahead = np.cumsum([came - went for came, went in rates])
    assert [second.backlog for second in run.seconds] == ahead.tolist()


def test_throughput_of_a_step_is_that_of_its_measured_seconds(run: RunResult) -> None:
    assert [step.measured_s for step in run.steps] == [3, 4, 3]
    assert [round(step.published_per_s) for step in run.steps] == [700, 1000, 1000]
    assert [step.abandoned for step in run.steps] == [1200, 0, 0]
    for step in run.steps:
        mine = [x.delivered_per_s for x in run.seconds if x.step == step.step and x.measured]
        assert step.delivered_per_s == pytest.approx(np.mean(mine))
        assert step.delivered_cv == pytest.approx(np.std(mine) / np.mean(mine))


def test_balance_is_that_of_the_raw_rows(run: RunResult, directory: Path) -> None:
    published, delivered = read(directory, "published"), read(directory, "delivered")
    for step, info in zip(run.steps, run.info["steps"], strict=True):
        for found, table, who, count in (
            (step.imbalance.publishers, published, "publisher", 7),
            (step.imbalance.queues, delivered, "queue", 3),
            (step.imbalance.consumers, delivered, "consumer", 5),
        ):
            mine = (table["step"] == step.step) & (table["written_ns"] >= info["warm_ns"])
            shares = np.bincount(table[who][mine].astype(int), minlength=count)
            assert found.count == count
            assert found.max_over_mean == pytest.approx(shares.max() / shares.mean())
            assert found.cv == pytest.approx(shares.std() / shares.mean())


def test_queue_latency_is_the_mean_of_each_queue(run: RunResult, directory: Path) -> None:
    delivered = read(directory, "delivered")
    latency = delivered["delivered_ns"] - delivered["intended_ns"]
    warm = run.info["steps"][2]["warm_ns"]
    mine = (delivered["step"] == 2) & (delivered["written_ns"] >= warm)
    means = [latency[mine & (delivered["queue"] == queue)].mean() for queue in range(3)]
    found = run.steps[2].imbalance.queue_latency
    assert found.mean == pytest.approx(np.mean(means))
    assert found.max_over_mean == pytest.approx(max(means) / np.mean(means))


def test_what_was_never_delivered_stays_in_the_backlog(run: RunResult) -> None:
    assert run.seconds[-1].backlog == 7
    assert run.info["verification"]["lost"] == 7


def test_what_was_never_confirmed_is_counted_and_has_no_latency(run: RunResult) -> None:
    """The 30 are the first ones, all within the first warm-up; with it they are 30."""
    assert sum(x.latencies.confirm_service.never for x in run.seconds) == 30
    assert run.latencies.confirm_service.never == 0
    assert run.latencies.confirm_service.negative == 0


def test_counters_and_rows_agree(run: RunResult) -> None:
    assert [(check.name, check.agrees) for check in run.checks] == [
        ("published", True),
        ("delivered", True),
    ]
    assert all(check.exact == check.from_rows for check in run.checks)
    published, delivered = (check.exact for check in run.checks)
    assert run.raw_rows == published + delivered


def test_the_knee_is_found(run: RunResult) -> None:
    assert run.knee is not None
    assert run.knee.in_flight_limit == 5


def test_broker_figures_come_from_outside(run: RunResult) -> None:
    assert run.steps[1].broker_cpu_us_per_message == pytest.approx(20, rel=0.05)
    assert run.steps[1].broker_rss_max_bytes is not None
    assert run.steps[2].messages_ready_max is not None


def test_a_sample_gives_the_same_figures(spark: SparkSession, tmp_path: Path) -> None:
    shape = RunShape(steps=STEPS, target_rate=1000, publishers=5, sample_every=4)
    run = analyse(spark, tmp_path, shape)
    published = read(tmp_path, "published")
    assert set(published["weight"]) == {4}
    assert run.raw_rows < 0.3 * (run.checks[0].exact + run.checks[1].exact)
    assert all(check.agrees for check in run.checks)
    info = run.info["steps"][1]
    mine = (published["step"] == 1) & (published["written_ns"] >= info["warm_ns"])
    latency = (published["confirmed_ns"] - published["written_ns"])[mine]
    found = run.steps[1].latencies.confirm_service
    assert_percentiles(found, latency, published["weight"][mine])


def test_without_confirms_there_is_no_confirm_latency(spark: SparkSession, tmp_path: Path) -> None:
    shape = RunShape(
        steps=[StepShape(seconds=3, publish_rate=500)], target_rate=500, confirms=False
    )
    run = analyse(spark, tmp_path, shape)
    assert run.knee is None
    assert run.steps[0].latencies.confirm_service.p99_ms is None
    assert run.steps[0].latencies.confirm_service.max_ms is None
    assert run.steps[0].latencies.end_to_end_service.p99_ms is not None


def test_steps_of_one_second(spark: SparkSession, tmp_path: Path) -> None:
    steps = [
        StepShape(seconds=1, limit=limit, percent=limit, publish_rate=rate)
        for limit, rate in ((1, 200), (2, 400))
    ]
    run = analyse(spark, tmp_path, RunShape(steps=steps, target_rate=400))
    assert [step.measured_s for step in run.steps] == [1, 1]
    assert all(step.warm_up_included for step in run.steps)
    assert [round(step.published_per_s, -1) for step in run.steps] == [200, 400]
    assert run.knee is not None
    assert run.knee.in_flight_limit == 2


def test_each_class_is_recognised(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: the four classes from raw rows. Method: one run, a step each, capacity as needed."""
    shapes = {
        "steady": StepShape(seconds=10, publish_rate=800),
        "swinging": StepShape(seconds=12, publish_rate=800, capacity=[400, 1300] * 6),
        "backlog growing": StepShape(seconds=10, publish_rate=800, capacity=[700]),
        "collapsed": StepShape(seconds=12, publish_rate=800, capacity=[1000] * 6 + [50]),
    }
    run = analyse(spark, tmp_path, RunShape(steps=list(shapes.values()), target_rate=800))
    assert [str(step.step_class) for step in run.steps] == list(shapes)
    assert [step.scale for step in run.steps] == [3, 2, 4, 1]
