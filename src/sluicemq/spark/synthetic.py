"""Writes run directories without a broker, for tests, benchmarks and sample reports.

The broker is a fluid queue. Publishers share a schedule; they write at `publish_rate`, so that lag
behind the schedule grows when that is below the target. Deliveries follow a capacity given for each
second: message k leaves when the work done, C(t), reaches

    v(k) = max(C(written(k)), v(k-1)) + 1

plus a latency drawn from a log-normal distribution. The same seed gives the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sluicemq.lab.measurements import (
    BROKER,
    COUNTERS,
    DELIVERED,
    PUBLISHED,
    STEP_OUTSIDE,
    RunInfo,
    StepInfo,
    write_run_info,
)

NS: Final = 1_000_000_000
PART_ROWS: Final = 2_000_000
LATENCY_SIGMA: Final = 0.4
BROKER_RSS: Final = 90 << 20

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """Says how one step of a synthetic run goes. Rates are in messages per second, latencies are
    medians in milliseconds."""

    seconds: int
    limit: int | None = None
    percent: int | None = None
    publish_rate: float
    capacity: Sequence[float] = ()
    """Messages that the broker can deliver, for each second; the last applies from there on. Empty:
    no limit."""
    latency_ms: float = 1.0
    confirm_ms: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """Says how a whole synthetic run goes. `target_rate` is that of all publishers together, in
    messages per second."""

    steps: Sequence[StepShape]
    target_rate: float
    publishers: int = 20
    queues: int = 10
    consumers: int = 20
    confirms: bool = True
    ack_interval: int = 1
    queue_type: str = "classic"
    scenario: int = 1
    sample_every: int = 1
    warm_share: float = 0.2
    drain_s: int = 2
    lost: int = 0
    """Messages at the end that are never delivered."""
    unconfirmed: int = 0
    """Messages at the start that are never confirmed."""
    seed: int = 1
    claims: Sequence[str] = ("1.a", "1.b", "1.c", "1.d", "7.c")


@dataclass(slots=True)
class _Messages:
    """The values of all messages, in the order they were written."""

    step: npt.NDArray[np.int16]
    intended: Times
    written: Times
    confirmed: Times
    delivered: Times
    acked: Times


def write_synthetic_run(directory: Path, shape: RunShape) -> RunInfo:
    """Write a run of that shape into the directory, as the lab would; returns what run.json
    says."""
    messages = _simulate(shape)
    directory.mkdir(parents=True, exist_ok=True)
    _write_published(directory, shape, messages)
    _write_delivered(directory, shape, messages)
    _write_counters(directory, shape, messages)
    _write_broker(directory, shape, messages)
    info = _run_info(shape, messages)
    write_run_info(directory, info)
    return info


def _simulate(shape: RunShape) -> _Messages:
    dice = np.random.default_rng(shape.seed)
    parts: list[tuple[Times, ...]] = []
    start = 0
    for number, step in enumerate(shape.steps):
        count = round(step.publish_rate * step.seconds)
        position = np.arange(count, dtype=np.float64)
        intended = (start + position * NS / shape.target_rate).astype(np.int64)
        written = (start + position * NS / step.publish_rate).astype(np.int64)
        written = np.maximum(written, intended) + dice.integers(1_000, 50_000, count)
        latency = _latency(dice, step.latency_ms, count)
        confirm = _latency(dice, step.confirm_ms, count)
        parts.append((np.full(count, number), intended, written, latency, confirm))
        start += step.seconds * NS
    step_of, intended, written, latency, confirm = (
        np.concatenate(x) for x in zip(*parts, strict=True)
    )
    delivered = _leave(shape, written) + latency
    return _Messages(
        step_of.astype(np.int16),
        intended,
        written,
        written + confirm,
        delivered,
        delivered + 100_000,
    )


def _latency(dice: np.random.Generator, median_ms: float, count: int) -> Times:
    return dice.lognormal(np.log(median_ms * 1e6), LATENCY_SIGMA, count).astype(np.int64)


def _leave(shape: RunShape, written: Times) -> Times:
    """Return when each message leaves the broker."""
    unlimited = 1e9
    per_second: list[float] = []
    for step in shape.steps:
        given = list(step.capacity) or [unlimited]
        per_second += [given[min(second, len(given) - 1)] for second in range(step.seconds)]
    per_second += [unlimited]
    done = np.concatenate([[0.0], np.cumsum(per_second)])
    times = np.arange(len(done), dtype=np.float64) * NS
    count = np.arange(len(written), dtype=np.float64)
    reached = np.maximum.accumulate(np.interp(written, times, done) - count) + count + 1
    return np.maximum(np.interp(reached, done, times).astype(np.int64), written)


def _clients(shape: RunShape, count: int) -> npt.NDArray[np.int32]:
    """Return the publisher of each message. They take turns; publisher i writes to queue i,
    consumer i reads it, all modulo their number."""
    return (np.arange(count) % shape.publishers).astype(np.int32)


def _write_table(folder: Path, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    for part, start in enumerate(range(0, max(table.num_rows, 1), PART_ROWS)):
        pq.write_table(table.slice(start, PART_ROWS), folder / f"part-{part}.parquet")


def _sampled(shape: RunShape, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Return every message's number at its publisher, and which messages have a row."""
    seq = np.arange(count) // shape.publishers
    return seq, np.flatnonzero(seq % shape.sample_every == 0)


def _write_published(directory: Path, shape: RunShape, messages: _Messages) -> None:
    count = len(messages.written)
    seq, chosen = _sampled(shape, count)
    publisher = _clients(shape, count)[chosen]
    never = chosen < shape.unconfirmed if shape.confirms else np.full(len(chosen), True)
    columns = {
        "publisher": publisher,
        "seq": seq[chosen],
        "queue": (publisher % shape.queues).astype(np.int32),
        "step": messages.step[chosen],
        "intended_ns": messages.intended[chosen],
        "written_ns": messages.written[chosen],
        "confirmed_ns": pa.array(messages.confirmed[chosen], mask=never),
        "nacked": np.zeros(len(chosen), bool),
        "weight": np.full(len(chosen), shape.sample_every, np.int32),
    }
    _write_table(directory / "published", pa.table(columns, schema=PUBLISHED))


def _write_delivered(directory: Path, shape: RunShape, messages: _Messages) -> None:
    count = len(messages.written) - shape.lost
    seq, chosen = _sampled(shape, count)
    publisher = _clients(shape, count)[chosen]
    columns = {
        "publisher": publisher,
        "seq": seq[chosen],
        "queue": (publisher % shape.queues).astype(np.int32),
        "consumer": (publisher % shape.consumers).astype(np.int32),
        "step": messages.step[chosen],
        "intended_ns": messages.intended[chosen],
        "written_ns": messages.written[chosen],
        "delivered_ns": messages.delivered[chosen],
        "acked_ns": messages.acked[chosen],
        "redelivered": np.zeros(len(chosen), bool),
        "weight": np.full(len(chosen), shape.sample_every, np.int32),
    }
    _write_table(directory / "delivered", pa.table(columns, schema=DELIVERED))


def _write_counters(directory: Path, shape: RunShape, messages: _Messages) -> None:
    """Write a row for each client and second, publishers first."""
    kept = len(messages.written) - shape.lost
    last = max(messages.delivered[:kept].max(initial=0), messages.written.max(initial=0))
    seconds = max(sum(step.seconds for step in shape.steps) + shape.drain_s, int(last // NS) + 1)
    client = _clients(shape, len(messages.written))

    def per_second(times: Times, clients: int) -> npt.NDArray[np.int64]:
        who = client[: len(times)] % clients
        cell = who * seconds + np.minimum(times // NS, seconds - 1)
        return np.bincount(cell, minlength=clients * seconds).reshape(clients, seconds)

    intended = per_second(messages.intended, shape.publishers)
    written = per_second(messages.written, shape.publishers)
    confirmed = np.zeros_like(written)
    if shape.confirms:
        confirmed = per_second(messages.confirmed, shape.publishers)
    delivered = per_second(messages.delivered[:kept], shape.consumers)
    acked = per_second(messages.acked[:kept], shape.consumers)
    unconfirmed = np.cumsum(written - confirmed, axis=1) if shape.confirms else confirmed
    nothing = np.zeros_like(delivered)
    publisher_rows = _counter_columns(
        shape, "publisher", (intended, written, confirmed, confirmed * 0, confirmed * 0),
        unconfirmed, confirmed * 0,
    )  # fmt: skip
    consumer_rows = _counter_columns(
        shape, "consumer", (nothing, nothing, nothing, delivered, acked),
        nothing, np.cumsum(delivered - acked, axis=1),
    )  # fmt: skip
    tables = [pa.table(columns, schema=COUNTERS) for columns in (publisher_rows, consumer_rows)]
    _write_table(directory / "counters", pa.concat_tables(tables))


def _counter_columns(
    shape: RunShape,
    role: str,
    counts: Sequence[npt.NDArray[np.int64]],
    unconfirmed: npt.NDArray[np.int64],
    unacked: npt.NDArray[np.int64],
) -> dict[str, Any]:
    clients, seconds = counts[0].shape
    steps = [number for number, step in enumerate(shape.steps) for _ in range(step.seconds)]
    steps += [STEP_OUTSIDE] * (seconds - len(steps))
    names = ("intended", "written", "confirmed", "delivered", "acked")
    return {
        "role": [role] * (clients * seconds),
        "index": np.repeat(np.arange(clients, dtype=np.int32), seconds),
        "second": np.tile(np.arange(seconds, dtype=np.int32), clients),
        "step": np.tile(np.array(steps, np.int16), clients),
        **{name: values.ravel() for name, values in zip(names, counts, strict=True)},
        "unconfirmed": unconfirmed.ravel().astype(np.int32),
        "unacked": unacked.ravel().astype(np.int32),
        "blocked_ns": np.zeros(clients * seconds, np.int64),
    }


def _write_broker(directory: Path, shape: RunShape, messages: _Messages) -> None:
    """Write the broker's figures: 20 us of CPU a delivery, and memory for the backlog."""
    kept = len(messages.written) - shape.lost
    seconds = np.arange(sum(step.seconds for step in shape.steps) + shape.drain_s)
    ends = (seconds + 1) * NS
    delivered = np.searchsorted(np.sort(messages.delivered[:kept]), ends)
    ready = np.searchsorted(messages.written, ends) - delivered
    columns = {
        "second": seconds.astype(np.int32),
        "cpu_ns": delivered * 20_000,
        "rss_bytes": BROKER_RSS + ready * 1200,
        "messages_ready": ready,
    }
    _write_table(directory / "broker", pa.table(columns, schema=BROKER))


def _run_info(shape: RunShape, messages: _Messages) -> RunInfo:
    count = len(messages.written)
    rate = shape.target_rate / shape.publishers
    confirmed = count - shape.unconfirmed if shape.confirms else 0
    return RunInfo(
        scenario=shape.scenario,
        name="synthetic",
        target=["amqp://127.0.0.1:5672/"],
        product="Synthetic",
        version="1",
        queue_type=shape.queue_type,
        queue_arguments={},
        durable=True,
        persistent=True,
        confirms=shape.confirms,
        ack_interval=shape.ack_interval,
        scale=1.0,
        publishers=shape.publishers,
        queues=shape.queues,
        consumers=shape.consumers,
        rate_per_publisher=rate,
        rate_unscaled=round(rate),
        prefetch=max(1, round(rate)),
        body_bytes=1024,
        workers=1,
        steps=_step_infos(shape, messages),
        sample_every=shape.sample_every,
        drain_timeout_s=30.0,
        started_at="2026-01-01T00:00:00+00:00",
        machine={"cores": 2, "ram": 8 << 30},
        verification={
            "published": count,
            "confirmed": confirmed,
            "nacked": 0,
            "returned": 0,
            "unsettled": shape.unconfirmed if shape.confirms else 0,
            "delivered": count - shape.lost,
            "redelivered": 0,
            "lost": shape.lost,
            "left_in_queues": 0,
            "unaccounted": 0,
            "duplicates": 0,
            "out_of_order": 0,
            "foreign": 0,
            "drained": True,
        },
        claims=list(shape.claims),
        stopped=None,
    )


def _step_infos(shape: RunShape, messages: _Messages) -> list[StepInfo]:
    infos: list[StepInfo] = []
    start = 0
    for number, step in enumerate(shape.steps):
        end = start + step.seconds * NS
        intended = round(shape.target_rate * step.seconds)
        infos.append(
            StepInfo(
                step=number,
                in_flight_limit=step.limit,
                in_flight_percent=step.percent,
                start_ns=start,
                end_ns=end,
                warm_ns=start + round(step.seconds * shape.warm_share * NS),
                intended=intended,
                abandoned=intended - int((messages.step == number).sum()),
            )
        )
        start = end
    return infos
