"""Makes the seconds and steps: small tables, in plain Python.

Throughput, backlog and waiting come from the exact counters, latencies from the histograms, balance
between clients and queues from these too (a sample is as good for shares).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sluicemq.lab.measurements import RunInfo, StepInfo
from sluicemq.spark.pipeline.classify import StepSeries, classify
from sluicemq.spark.pipeline.ingest import RawRun, without_damaged
from sluicemq.spark.pipeline.latency_histograms import KINDS, NS, build_histograms
from sluicemq.spark.pipeline.percentiles import (
    NS_PER_MS,
    distributions,
    heat_cells,
    latencies_by_key,
    queue_points,
)
from sluicemq.spark.pipeline.results import (
    Balance,
    CrossCheck,
    DistributionPoint,
    HeatCell,
    Imbalance,
    Latencies,
    NodeSecond,
    QueuePoint,
    QueueShare,
    Second,
    Step,
)
from sluicemq.spark.pipeline.spread import imbalance, mean, slope, variation

Row = Mapping[str, Any]

SAMPLE_TOLERANCE: Final = 0.02
"""Counters and a sample of rows may differ by this share before the report tells it; where every
message has its row they must be equal."""

COUNTED: Final = ("intended", "written", "confirmed", "delivered", "acked")
LEVELS: Final = ("unconfirmed", "unacked", "blocked_ns")


@dataclass(frozen=True, slots=True)
class SmallTables:
    """Spark's tables for one run. Nothing in here grows with the number of messages."""

    counters: list[Row]
    """A row for each second."""
    latencies: dict[tuple[str, int], Latencies]
    """The latencies, by (level, key)."""
    shares: list[Row]
    """A row a table, step, warm-up or not, and client or queue: messages, sum of latencies."""
    broker: dict[int, Row]
    """The samples of the broker, by second."""
    distribution: list[DistributionPoint] = field(default_factory=list)
    heat: list[HeatCell] = field(default_factory=list)
    queue_distribution: list[QueuePoint] = field(default_factory=list)
    damaged: Mapping[Path, str] = field(default_factory=dict)
    """The error of each file that was left out."""

    def recorded(self, table: str, what: str) -> int:
        """Return how many "rows" a raw table has, or how many "messages" they stand for, as `what`
        says."""
        return sum(x[what] for x in self.shares if x["kind"] == table and x["by_client"])


def collect(raw: RawRun) -> SmallTables:
    """Scan the raw rows and add them up, without damaged files. Raises `Refused` when nothing is
    left of a table then."""
    try:
        histograms = build_histograms(raw.messages, raw.info).toArrow()
    except Exception:
        rest = without_damaged(raw)
        if rest is None:
            raise
        return collect(rest)
    broker = [] if raw.broker is None else raw.broker.to_pylist()
    return SmallTables(
        counters=counters_per_second(raw.counters),
        latencies=latencies_by_key(histograms),
        shares=shares(histograms),
        broker={row["second"]: row for row in broker},
        distribution=distributions(histograms),
        heat=heat_cells(histograms),
        queue_distribution=queue_points(histograms),
        damaged=raw.damaged,
    )


def counters_per_second(counters: pa.Table) -> list[Row]:
    """Return the counters of all workers together, a row for each second from 0 on."""
    return _sums(counters.filter(pc.field("second") >= 0), ["second"], COUNTED + LEVELS)


def shares(histograms: pa.Table) -> list[Row]:
    """Return the part of each client and each queue in each step, with separate rows for its
    warm-up and after it."""
    rows = histograms.filter(pc.is_in(histograms["kind"], pa.array(KINDS)))
    added = ("rows", "messages", "response_sum_ns")
    return [
        {**row, "by_client": who == "client"}
        for who in ("client", "queue")
        for row in _sums(rows, ["kind", "step", "warm", who], added)
    ]


def _sums(table: pa.Table, keys: list[str], columns: Sequence[str]) -> list[Row]:
    """Return a row for each combination of the keys, with the sums of the columns."""
    sums = table.group_by(keys).aggregate([(name, "sum") for name in columns])
    return list(sums.rename_columns([*keys, *columns]).to_pylist())


def measured_range(step: StepInfo) -> tuple[range, bool]:
    """Return the seconds for a step's figures, and whether they include its warm-up.

    They lie wholly between the warm-up and the end. A step too short for that is taken whole: all
    seconds whose middle lies in it.
    """
    inside = range(-(-step["warm_ns"] // NS), step["end_ns"] // NS)
    if inside:
        return inside, False
    return range(_middle(step["start_ns"]), _middle(step["end_ns"])), True


def _middle(time_ns: int) -> int:
    return -(-(time_ns - NS // 2) // NS)


def step_of_second(second: int, steps: Iterable[StepInfo]) -> int | None:
    """Return the number of the step that the middle of `second` lies in; None when it lies in
    none."""
    middle = second * NS + NS // 2
    return next((x["step"] for x in steps if x["start_ns"] <= middle < x["end_ns"]), None)


def make_seconds(info: RunInfo, tables: SmallTables) -> list[Second]:
    """Return every second of the run, from 0 to the last with a counter; gaps are filled with 0.

    The levels (unconfirmed, unacked) of a missing second are 0 as well: no worker was there.
    """
    by_second = {row["second"]: row for row in tables.counters}
    if not by_second:
        return []
    numbers = range(max(by_second) + 1)
    nothing = dict.fromkeys(COUNTED + LEVELS, 0)
    rows = [by_second.get(number, nothing) for number in numbers]
    written = accumulate(row["written"] for row in rows)
    delivered = accumulate(row["delivered"] for row in rows)
    measured = {second for step in info["steps"] for second in measured_range(step)[0]}
    return [
        Second(
            second=number,
            step=step_of_second(number, info["steps"]),
            measured=number in measured,
            intended_per_s=row["intended"],
            published_per_s=row["written"],
            confirmed_per_s=row["confirmed"],
            delivered_per_s=row["delivered"],
            acked_per_s=row["acked"],
            # Workers on several machines have clocks that differ a little.
            backlog=max(came - went, 0),
            unconfirmed=row["unconfirmed"],
            unacked=row["unacked"],
            blocked_share=row["blocked_ns"] / (info["publishers"] * NS),
            messages_ready=tables.broker.get(number, {}).get("messages_ready"),
            broker_cpu_cores=_cpu_cores(tables.broker, number),
            broker_rss_bytes=tables.broker.get(number, {}).get("rss_bytes"),
            latencies=tables.latencies.get(("second", number), Latencies()),
        )
        for number, row, came, went in zip(numbers, rows, written, delivered, strict=True)
    ]


def _cpu_cores(broker: Mapping[int, Row], second: int) -> float | None:
    """Return the CPU seconds that the broker used in one second."""
    now, before = (broker.get(at, {}).get("cpu_ns") for at in (second, second - 1))
    return None if now is None or before is None else (now - before) / NS


def make_node_seconds(nodes: pa.Table | None) -> list[NodeSecond]:
    """Return the samples of each node, in the order of the seconds."""
    rows = [] if nodes is None else nodes.to_pylist()
    cpu_ns = {(row["node"], row["second"]): row["cpu_ns"] for row in rows}

    def cores(node: str, second: int) -> float | None:
        now, before = cpu_ns[node, second], cpu_ns.get((node, second - 1))
        return None if now is None or before is None else (now - before) / NS

    return [
        NodeSecond(
            second=row["second"],
            node=row["node"],
            cpu_cores=cores(row["node"], row["second"]),
            rss_bytes=row["rss_bytes"],
            flow_connections=row["flow_connections"],
            leaders=row["leaders"],
        )
        for row in rows
    ]


def make_steps(info: RunInfo, tables: SmallTables, seconds: list[Second]) -> list[Step]:
    """Return every step of the run with its figures and its class."""
    steps: list[Step] = []
    for step in info["steps"]:
        best = max((earlier.delivered_per_s for earlier in steps), default=0.0)
        steps.append(_make_step(info, step, tables, seconds, best))
    return steps


def _make_step(
    info: RunInfo, step: StepInfo, tables: SmallTables, seconds: list[Second], best_before: float
) -> Step:
    numbers, warm_up_included = measured_range(step)
    within = [second for second in seconds if second.second in numbers]
    latencies = tables.latencies.get(("step", step["step"]), Latencies())
    published = [float(second.published_per_s) for second in within]
    delivered = [float(second.delivered_per_s) for second in within]
    backlog = [float(second.backlog) for second in within]
    p95 = [second.latencies.end_to_end_response.p95_ms for second in within]
    service = [second.latencies.end_to_end_service.p95_ms for second in within]
    verdict = classify(StepSeries(published, delivered, backlog, service, best_before))
    return Step(
        step=step["step"],
        in_flight_limit=step["in_flight_limit"],
        in_flight_percent=step["in_flight_percent"],
        start_s=step["start_ns"] / NS,
        end_s=step["end_ns"] / NS,
        warm_s=step["warm_ns"] / NS,
        measured_s=len(within),
        warm_up_included=warm_up_included,
        target_per_s=info["publishers"] * info["rate_per_publisher"],
        intended=step["intended"],
        abandoned=step["abandoned"],
        published_per_s=mean(published),
        confirmed_per_s=mean([float(second.confirmed_per_s) for second in within]),
        delivered_per_s=mean(delivered),
        published_cv=variation(published),
        delivered_cv=variation(delivered),
        latency_cv=variation([value for value in p95 if value is not None]),
        backlog_first=within[0].backlog if within else 0,
        backlog_last=within[-1].backlog if within else 0,
        backlog_max=max((second.backlog for second in within), default=0),
        backlog_slope_per_s=slope(backlog),
        messages_ready_max=_largest(second.messages_ready for second in within),
        unconfirmed_max=max((second.unconfirmed for second in within), default=0),
        unacked_max=max((second.unacked for second in within), default=0),
        blocked_share=mean([second.blocked_share for second in within]),
        broker_cpu_us_per_message=_cpu_per_message(within),
        broker_rss_max_bytes=_largest(second.broker_rss_bytes for second in within),
        latencies=latencies,
        imbalance=_balance(info, step["step"], tables.shares),
        step_class=verdict.step_class,
        scale=verdict.scale,
        class_reason=verdict.reason,
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _cpu_per_message(within: Iterable[Second]) -> float | None:
    known = [second for second in within if second.broker_cpu_cores is not None]
    messages = sum(second.delivered_per_s for second in known)
    cpu_s = sum(second.broker_cpu_cores or 0.0 for second in known)
    return cpu_s / messages * 1e6 if messages else None


def _balance(info: RunInfo, step: int, rows: list[Row]) -> Balance:
    mine = [row for row in rows if row["step"] == step and row["warm"]]
    queues = _chosen(mine, "delivered", by_client=False)
    return Balance(
        publishers=_among(_chosen(mine, "published", by_client=True), info["publishers"]),
        queues=_among(queues, info["queues"]),
        consumers=_among(_chosen(mine, "delivered", by_client=True), info["consumers"]),
        queue_latency=imbalance([row["response_sum_ns"] / row["messages"] for row in queues]),
    )


def queue_figures(rows: Iterable[Row]) -> list[QueueShare]:
    """Return the figures of each queue in each step, from the result of `shares`."""
    found = [
        QueueShare(
            step=row["step"],
            queue=row["queue"],
            messages=row["messages"],
            mean_ms=row["response_sum_ns"] / row["messages"] / NS_PER_MS,
        )
        for row in _chosen(rows, "delivered", by_client=False)
        if row["warm"]
    ]
    return sorted(found, key=lambda one: (one.step, one.queue))


def _chosen(rows: Iterable[Row], kind: str, *, by_client: bool) -> list[Row]:
    return [row for row in rows if row["kind"] == kind and row["by_client"] == by_client]


def _among(rows: list[Row], count: int) -> Imbalance:
    """Return the imbalance among `count` clients or queues; those without a row count as 0."""
    return imbalance([float(row["messages"]) for row in rows] + [0.0] * (count - len(rows)))


def cross_check(info: RunInfo, tables: SmallTables) -> list[CrossCheck]:
    """Compare the messages that the clients counted in the whole run, the drain too, with those
    that the recorded rows stand for."""
    found = info["verification"]
    exact = {"published": found["published"], "delivered": found["delivered"]}
    tolerance = SAMPLE_TOLERANCE if info["sample_every"] > 1 else 0.0
    checks = []
    for name, counted in exact.items():
        recorded = tables.recorded(name, "messages")
        agrees = abs(recorded - counted) <= tolerance * counted
        checks.append(CrossCheck(name=name, exact=counted, from_rows=recorded, agrees=agrees))
    return checks
