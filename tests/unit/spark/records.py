"""Results made up for tests: a step, a second or a run with the few values a test is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline.claims import evaluate
from sluicemq.spark.pipeline.knee import find_knee
from sluicemq.spark.pipeline.post_claims import CLAIMS
from sluicemq.spark.pipeline.results import (
    Analysis,
    Balance,
    CrossCheck,
    DistributionPoint,
    HeatCell,
    Imbalance,
    Latencies,
    NodeSecond,
    Percentiles,
    PipelineStatistics,
    QueuePoint,
    QueueShare,
    RunResult,
    Second,
    Step,
    StepClass,
)

EVEN = Imbalance(10, 100.0, 1.0, 0.0)
SCALES = {
    StepClass.STEADY: 3,
    StepClass.SWINGING: 2,
    StepClass.BACKLOG_GROWING: 4,
    StepClass.COLLAPSED: 1,
}


def make_percentiles(middle_ms: float) -> Percentiles:
    """p99 is twice the median, the maximum three times."""
    return Percentiles(
        1000, 0, 0, middle_ms, 1.2 * middle_ms, 1.5 * middle_ms, 2 * middle_ms, 3 * middle_ms
    )


def make_latencies(middle_ms: float) -> Latencies:
    """All four kinds alike."""
    return Latencies(*[make_percentiles(middle_ms)] * 4)


def make_step(
    limit: int | None = None,
    rate: float = 1000.0,
    *,
    number: int = 0,
    percent: float | None = None,
    latency_ms: float = 5.0,
    step_class: StepClass = StepClass.STEADY,
    **changes: Any,
) -> Step:
    """Ten seconds, of 1000/s wanted."""
    step = Step(
        step=number,
        in_flight_limit=limit,
        in_flight_percent=percent,
        start_s=10.0 * number,
        end_s=10.0 * number + 10,
        warm_s=10.0 * number + 2,
        measured_s=8,
        warm_up_included=False,
        target_per_s=1000.0,
        intended=10_000,
        abandoned=0,
        published_per_s=rate,
        confirmed_per_s=rate,
        delivered_per_s=rate,
        published_cv=0.001,
        delivered_cv=0.002,
        latency_cv=0.1,
        backlog_first=0,
        backlog_last=0,
        backlog_max=10,
        backlog_slope_per_s=0.0,
        messages_ready_max=3,
        unconfirmed_max=20,
        unacked_max=10,
        blocked_share=0.0,
        broker_cpu_us_per_message=12.0,
        broker_rss_max_bytes=90 << 20,
        latencies=make_latencies(latency_ms),
        imbalance=Balance(EVEN, EVEN, EVEN, EVEN),
        step_class=step_class,
        scale=SCALES[step_class],
        class_reason="as the test says",
    )
    return replace(step, **changes)


def make_second(number: int, step: int | None, rate: int = 1000) -> Second:
    """A second of a healthy run."""
    return Second(
        second=number,
        step=step,
        measured=True,
        intended_per_s=rate,
        published_per_s=rate,
        confirmed_per_s=rate,
        delivered_per_s=rate,
        acked_per_s=rate,
        backlog=3,
        unconfirmed=20,
        unacked=10,
        blocked_share=0.0,
        messages_ready=2,
        broker_cpu_cores=0.2 if number else None,
        broker_rss_bytes=90 << 20,
        latencies=make_latencies(5.0),
    )


def make_nodes(number: int) -> list[NodeSecond]:
    """What was seen of three nodes in a second; the first has more to do."""
    return [
        NodeSecond(
            second=number,
            node=f"n{node}",
            cpu_cores=0.3 / node,
            rss_bytes=90 << 20,
            flow_connections=node - 1,
            leaders=4 if node == 1 else 3,
        )
        for node in (1, 2, 3)
    ]


def make_info(**changes: Any) -> RunInfo:
    """A run of scenario 1 with confirms on classic queues."""
    info = RunInfo(
        scenario=1,
        name="few-fast",
        target=["amqp://guest:secret@127.0.0.1:5672/"],
        product="SluiceMQ",
        version="0.1.0",
        queue_type="classic",
        queue_arguments={},
        durable=True,
        persistent=True,
        confirms=True,
        ack_interval=1,
        scale=0.05,
        publishers=20,
        queues=10,
        consumers=20,
        rate_per_publisher=50.0,
        rate_unscaled=1000,
        prefetch=50,
        body_bytes=1024,
        workers=1,
        steps=[],
        sample_every=1,
        drain_timeout_s=30.0,
        started_at="2026-01-02T03:04:05+00:00",
        machine={"cores": 2, "ram": 8 << 30},
        verification={
            "published": 60_000,
            "confirmed": 60_000,
            "nacked": 0,
            "returned": 0,
            "unsettled": 0,
            "delivered": 60_000,
            "redelivered": 0,
            "lost": 0,
            "left_in_queues": 0,
            "unaccounted": 0,
            "duplicates": 0,
            "out_of_order": 0,
            "foreign": 0,
            "drained": True,
        },
        claims=["1.a", "1.b", "1.c", "1.d", "7.c"],
        stopped=None,
    )
    return RunInfo(**{**info, **changes})  # type: ignore[typeddict-item]


def make_run(steps: list[Step], label: str = "confirms", **info: Any) -> RunResult:
    """A run of these steps, its knee found."""
    run = RunResult(
        label=label,
        directory=Path("out") / label,
        info=make_info(**info),
        seconds=[make_second(x, x // 10) for x in range(10 * len(steps))],
        steps=steps,
        latencies=make_latencies(5.0),
        distribution=[
            DistributionPoint(step=step, kind=kind, share=share, latency_ms=5.0 / (1.01 - share))
            for step in (*(x.step for x in steps), None)
            for kind in ("end_to_end_service", "end_to_end_response")
            for share in (0.0, 0.5, 0.9, 0.99, 1.0)
        ],
        heat=[
            HeatCell(second=second, from_ms=low, to_ms=2 * low, messages=messages)
            for second in range(10 * len(steps))
            for low, messages in ((4.0, 900), (8.0, 90), (64.0, 10))
        ],
        queues=[
            QueueShare(step=step.step, queue=queue, messages=800, mean_ms=5.0 + queue)
            for step in steps
            for queue in range(3)
        ],
        queue_distribution=[
            QueuePoint(
                step=step.step,
                queue=queue,
                share=1 - 10 ** (-place / 4),
                latency_ms=(5.0 + queue) * 1.3**place,
            )
            for step in steps
            for queue in range(3)
            for place in range(12)
        ],
        knee=None,
        no_knee_reason="",
        checks=[
            CrossCheck(name="published", exact=60_000, from_rows=60_000, agrees=True),
            CrossCheck(name="delivered", exact=60_000, from_rows=60_000, agrees=True),
        ],
        damaged=[],
        raw_rows=120_000,
        nodes=[each for x in range(10 * len(steps)) for each in make_nodes(x)],
    )
    knee, reason = find_knee(run.info, run.limited_steps)
    return replace(run, knee=knee, no_knee_reason=reason)


def make_analysis(*runs: RunResult) -> Analysis:
    """What the pipeline would give for these runs."""
    return Analysis(
        runs=list(runs),
        claims=evaluate(CLAIMS, runs),
        pipeline=PipelineStatistics(
            raw_rows=240_000,
            session_seconds=3.0,
            stage_seconds=2.0,
            rows_per_s=120_000.0,
            master="local[2]",
            memory="2g",
            spark_version="4.1.0",
            percentile_error=1 / 256,
        ),
    )
