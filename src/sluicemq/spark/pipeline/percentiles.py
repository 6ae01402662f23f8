"""Computes percentiles and distributions from the latency histograms, which are merged upward,
second to step to run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from math import ceil
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sluicemq.spark.pipeline.latency_histograms import (
    KINDS,
    NEGATIVE,
    NEVER,
    QUEUE_KIND,
    lowest_of,
    value_of,
)
from sluicemq.spark.pipeline.results import (
    DistributionPoint,
    HeatCell,
    Latencies,
    Percentiles,
    QueuePoint,
)

QUANTILES: Final = {"p50_ms": 0.50, "p75_ms": 0.75, "p95_ms": 0.95, "p99_ms": 0.99}

LATENCY_KINDS: Final = tuple(kind for kinds in KINDS.values() for kind in kinds)

POINTS_PER_DECADE: Final = 8
"""The points of a distribution while the rest above them shrinks to a tenth."""

QUEUE_POINTS_PER_DECADE: Final = 4
"""The same for the distribution of one queue: there may be hundreds of them."""

HEAT_BUCKETS: Final = 16
"""The buckets that are one cell of a heat map: four cells for each power of two."""

NS_PER_MS: Final = 1e6

Bucket = tuple[int, int, int | None]
"""The bucket's number, its messages, and the largest latency of them (none for NEVER), in ns."""


def latencies_by_key(histograms: pa.Table) -> dict[tuple[str, int], Latencies]:
    """Return the latencies by level and number: of each "second", each "step", and the "run"
    (number 0).

    Steps and the run leave out the warm-up, seconds do not.
    """
    rows = histograms.filter(pc.is_in(histograms["kind"], pa.array(LATENCY_KINDS)))
    warm = rows.filter(rows["warm"])
    levels = {
        "second": (rows, rows["second"]),
        "step": (warm, warm["step"]),
        "run": (warm, pa.repeat(0, warm.num_rows)),
    }
    found: dict[tuple[str, int], dict[str, Percentiles]] = {}
    for level, (parts, keys) in levels.items():
        for key, kind, histogram in merge(parts, keys):
            found.setdefault((level, key), {})[kind] = percentiles(histogram)
    return {key: Latencies(**kinds) for key, kinds in found.items()}


def distributions(histograms: pa.Table) -> list[DistributionPoint]:
    """Return points of the distribution of each kind of latency, in each step and in all of them,
    without warm-up."""
    rows = histograms.filter(pc.is_in(histograms["kind"], pa.array(LATENCY_KINDS)))
    warm = rows.filter(rows["warm"])
    of_steps = merge(warm, warm["step"])
    of_run = ((None, kind, found) for _, kind, found in merge(warm, pa.repeat(0, warm.num_rows)))
    return [
        DistributionPoint(step=step, kind=kind, share=share, latency_ms=latency_ms)
        for merged in (of_steps, of_run)
        for step, kind, histogram in merged
        for share, latency_ms in distribution(histogram)
    ]


def queue_points(histograms: pa.Table) -> list[QueuePoint]:
    """Return points of the distribution of each queue's end-to-end response latency in each step,
    without warm-up."""
    rows = histograms.filter(pc.field("kind") == QUEUE_KIND)
    found = []
    for step in sorted(pc.unique(rows["step"]).to_pylist()):
        own = rows.filter(pc.field("step") == step)
        for queue, _, histogram in merge(own, own["queue"]):
            points = distribution(histogram, QUEUE_POINTS_PER_DECADE)
            found += [
                QueuePoint(step=step, queue=queue, share=share, latency_ms=latency_ms)
                for share, latency_ms in points
            ]
    return found


def heat_cells(histograms: pa.Table) -> list[HeatCell]:
    """Return how many messages were delivered in each second with which end-to-end response
    latency."""
    rows = histograms.filter(
        (pc.field("kind") == "end_to_end_response") & (pc.field("bucket") >= 0)
    )
    cells = pc.divide(rows["bucket"], HEAT_BUCKETS)
    merged = (
        rows.select(["second", "messages"])
        .append_column("cell", cells)
        .group_by(["second", "cell"])
        .aggregate([("messages", "sum")])
        .sort_by([("second", "ascending"), ("cell", "ascending")])
    )
    columns = (merged[name].to_pylist() for name in ("second", "cell", "messages_sum"))
    return [
        HeatCell(
            second=second,
            from_ms=lowest_of(cell * HEAT_BUCKETS) / NS_PER_MS,
            to_ms=lowest_of((cell + 1) * HEAT_BUCKETS) / NS_PER_MS,
            messages=messages,
        )
        for second, cell, messages in zip(*columns, strict=True)
    ]


def merge(parts: pa.Table, keys: pa.Array) -> Iterator[tuple[int, str, list[Bucket]]]:
    """Add up the histograms that have the same key and kind, and yield each with its buckets in
    order. `keys` has a value for each row of `parts`."""
    by = ["key", "kind", "bucket"]
    merged = (
        parts.select(["kind", "bucket", "messages", "max_ns"])
        .append_column("key", keys)
        .group_by(by)
        .aggregate([("messages", "sum"), ("max_ns", "max")])
        .sort_by([(name, "ascending") for name in by])
    )
    columns = (merged[name].to_pylist() for name in (*by, "messages_sum", "max_ns_max"))
    for (key, kind), rows in groupby(zip(*columns, strict=True), itemgetter(0, 1)):
        yield key, kind, [(bucket, messages, most) for _, _, bucket, messages, most in rows]


def distribution(
    histogram: Sequence[Bucket], per_decade: int = POINTS_PER_DECADE
) -> Iterator[tuple[float, float]]:
    """Yield shares of the messages that have a latency, each with the latency in ms that it does
    not exceed, by nearest rank: from the smallest on, in `per_decade` steps that shrink the rest
    above to a tenth while it has a message, and last the largest latency, which is exact."""
    known = [row for row in histogram if row[0] >= 0]
    if not known:
        return
    up_to = list(accumulate(messages for _, messages, _ in known))
    largest = max(most for _, _, most in known if most is not None)
    position = 0
    while (rarity := 10 ** (position / per_decade)) < up_to[-1]:
        share = 1 - 1 / rarity
        bucket, _, _ = known[bisect_left(up_to, max(ceil(up_to[-1] * share), 1))]
        yield share, min(value_of(bucket), largest) / NS_PER_MS
        position += 1
    yield 1.0, largest / NS_PER_MS


def percentiles(histogram: Sequence[Bucket]) -> Percentiles:
    """Return the percentiles of a histogram by nearest rank, over the messages that have a latency,
    in ms; None where no message has one."""
    known = [row for row in histogram if row[0] >= 0]
    up_to = list(accumulate(messages for _, messages, _ in known))
    values = {}
    if known:
        largest = max(most for _, _, most in known if most is not None)
        for name, quantile in QUANTILES.items():
            bucket, _, _ = known[bisect_left(up_to, ceil(up_to[-1] * quantile))]
            # The middle of the last bucket can be above the largest value in it.
            values[name] = min(value_of(bucket), largest) / NS_PER_MS
        values["max_ms"] = largest / NS_PER_MS
    return Percentiles(
        messages=up_to[-1] if up_to else 0,
        never=_messages_in(NEVER, histogram),
        negative=_messages_in(NEGATIVE, histogram),
        **values,
    )


def _messages_in(wanted: int, histogram: Sequence[Bucket]) -> int:
    return sum(messages for bucket, messages, _ in histogram if bucket == wanted)
