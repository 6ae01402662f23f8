"""The results of the pipeline, as plain data: a run's seconds, steps, knee; the claims; checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from sluicemq.lab.measurements import RunInfo


@dataclass(frozen=True, slots=True)
class Percentiles:
    """One kind of latency over some time, in ms. A percentile is None when nothing was measured."""

    messages: int = 0
    never: int = 0
    """The number of messages without an end: they were not confirmed."""
    negative: int = 0
    p50_ms: float | None = None
    p75_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


NO_LATENCY: Final = Percentiles()


@dataclass(frozen=True, slots=True)
class Latencies:
    """The four kinds of latency. Service counts from the write of a message, response from its
    intended time."""

    confirm_service: Percentiles = NO_LATENCY
    confirm_response: Percentiles = NO_LATENCY
    end_to_end_service: Percentiles = NO_LATENCY
    end_to_end_response: Percentiles = NO_LATENCY


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The figures of [second, second + 1) of a run, all clients together. Rates are exact
    counts."""

    second: int
    step: int | None
    """The step it belongs to; None: it is between or after the steps (the drain)."""
    measured: bool
    """True when it is wholly inside its step and after the warm-up: the step's figures use these
    seconds."""
    intended_per_s: int
    published_per_s: int
    confirmed_per_s: int
    delivered_per_s: int
    acked_per_s: int
    backlog: int
    """The messages published and not yet delivered, at the end of the second."""
    unconfirmed: int
    unacked: int
    blocked_share: float
    """The share of the publishers' time between connection.blocked and connection.unblocked."""
    messages_ready: int | None
    broker_cpu_cores: float | None
    broker_rss_bytes: int | None
    latencies: Latencies


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSecond:
    """A sample of one node of the target in [second, second + 1) of a run. A figure is None when it
    is not known."""

    second: int
    node: str
    cpu_cores: float | None
    rss_bytes: int | None
    flow_connections: int | None
    """The connections that flow control held up."""
    leaders: int | None
    """The number of the scenario's queues that had their leader, or their messages, there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionPoint:
    """A point of the distribution of one kind of latency: `share` of the messages after warm-up
    took at most `latency_ms`."""

    step: int | None
    """The step; None: all steps."""
    kind: str
    share: float
    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePoint:
    """A point of the distribution of one queue's end-to-end response latency in one step: `share`
    of its messages after warm-up took at most `latency_ms`."""

    step: int
    queue: int
    share: float
    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """The messages delivered in one second with an end-to-end response latency in [`from_ms`,
    `to_ms`)."""

    second: int
    from_ms: float
    to_ms: float
    messages: int


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Tells how unevenly something is spread over `count` clients or queues. `max_over_mean` is 1
    and `cv` is 0 when all are alike; None when they are not defined."""

    count: int
    mean: float
    max_over_mean: float | None
    cv: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """A step's imbalance between clients and between queues; idle ones count, but for
    `queue_latency`."""

    publishers: Imbalance
    """The imbalance between publishers, by messages published."""
    queues: Imbalance
    """The imbalance between queues, by messages delivered."""
    consumers: Imbalance
    """The imbalance between consumers, by messages delivered."""
    queue_latency: Imbalance
    """The imbalance between queues, by their mean end-to-end response latency in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """The share of one queue in one step, of the messages after warm-up that have a row."""

    step: int
    queue: int
    messages: int
    mean_ms: float
    """The mean end-to-end response latency of these messages."""


class StepClass(StrEnum):
    """The classes of how a broker took a step; `classify` decides between them."""

    STEADY = "steady"
    SWINGING = "swinging"
    BACKLOG_GROWING = "backlog growing"
    COLLAPSED = "collapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The figures of one step, over its measured seconds (`measured_s` of them)."""

    step: int
    in_flight_limit: int | None
    in_flight_percent: float | None
    start_s: float
    end_s: float
    warm_s: float
    measured_s: int
    warm_up_included: bool
    """The step was too short to leave its warm-up out."""
    target_per_s: float
    intended: int
    abandoned: int
    """Intended messages that were never written, because their publisher was held up until the step
    ended."""
    published_per_s: float
    confirmed_per_s: float
    delivered_per_s: float
    published_cv: float | None
    delivered_cv: float | None
    latency_cv: float | None
    """The coefficient of variation of the seconds' p95 end-to-end response latency."""
    backlog_first: int
    backlog_last: int
    backlog_max: int
    backlog_slope_per_s: float
    messages_ready_max: int | None
    unconfirmed_max: int
    unacked_max: int
    blocked_share: float
    broker_cpu_us_per_message: float | None
    broker_rss_max_bytes: int | None
    latencies: Latencies
    imbalance: Balance
    step_class: StepClass
    scale: int
    """The post's scale: 1 collapse, 2 swings, 3 ingress limited, 4 backlog absorbed."""
    class_reason: str

    @property
    def sustained_per_s(self) -> float:
        """The messages per second both published and delivered: the lower of both rates."""
        return min(self.published_per_s, self.delivered_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The recommended in-flight limit and its evidence, with a prefetch and an ack interval."""

    in_flight_limit: int
    in_flight_percent: float | None
    step: int
    sustained_per_s: float
    peak_per_s: float
    peak_limit: int
    p99_ms: float | None
    """The 99th percentile of the end-to-end response latency at the knee."""
    largest_limit: int
    largest_p99_ms: float | None
    reason: str
    caveat: str
    prefetch: int
    prefetch_reason: str
    ack_interval: int
    ack_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """The same number, found in two independent ways."""

    name: str
    exact: int
    from_rows: int
    agrees: bool

    @property
    def difference(self) -> float:
        """The difference between both ways, as a share of the exact figure."""
        return abs(self.from_rows - self.exact) / max(self.exact, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """All results about one run."""

    label: str
    directory: Path
    info: RunInfo
    seconds: list[Second]
    steps: list[Step]
    latencies: Latencies
    """Over all steps, without warm-up."""
    distribution: list[DistributionPoint]
    """All kinds of latency, of each step and of all of them."""
    heat: list[HeatCell]
    """The distribution of latencies in each second."""
    queues: list[QueueShare]
    """By step, then by queue."""
    queue_distribution: list[QueuePoint]
    """Of each queue in each step, in the same order."""
    knee: Knee | None
    no_knee_reason: str
    checks: list[CrossCheck]
    damaged: list[str]
    """The name and the error of each file that cannot be read and was left out."""
    raw_rows: int
    nodes: list[NodeSecond] = field(default_factory=list)
    """The target's nodes, second by second; empty when they were not sampled."""

    @property
    def target_per_s(self) -> float:
        """The messages per second of the scenario, all publishers together."""
        return self.info["publishers"] * self.info["rate_per_publisher"]

    @property
    def limited_steps(self) -> list[Step]:
        """The steps with an in-flight limit, smallest limit first."""
        limited = [step for step in self.steps if step.in_flight_limit is not None]
        return sorted(limited, key=lambda step: step.in_flight_limit or 0)


class Outcome(StrEnum):
    """What the runs show about a claim."""

    HOLDS = "holds"
    BETTER = "better"
    FAILS = "does not hold"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A claim of the post, and what the runs show about it."""

    claim: str
    text: str
    outcome: Outcome
    evidence: str
    """The figures for the outcome; for a claim not tested: what is missing."""
    elsewhere: str
    """For a claim not tested: what a run of the same mode on another queue type shows."""
    machine: str = ""
    """How the post's larger cluster matters for it; empty: it does not."""
    others: str = ""
    """The figures of other runs that fit and are more favourable; empty: there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatistics:
    """The settings and the cost of the pipeline itself."""

    raw_rows: int
    session_seconds: float
    """Seconds that Spark took to start; 0 when a session was running."""
    stage_seconds: float
    """Seconds of reading, scanning, aggregating and classing, without the session's start and the
    drawing."""
    rows_per_s: float
    master: str
    memory: str
    spark_version: str
    percentile_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """All runs, all claims and the cost of the pipeline: the content of a report."""

    runs: list[RunResult]
    claims: list[ClaimResult]
    pipeline: PipelineStatistics

    @property
    def recommended(self) -> RunResult | None:
        """The run whose knee carries most; None when no run has a knee."""
        with_knee = [run for run in self.runs if run.knee is not None]
        return max(with_knee, key=_knee_rate, default=None)


def _knee_rate(run: RunResult) -> float:
    return run.knee.sustained_per_s if run.knee is not None else 0.0
