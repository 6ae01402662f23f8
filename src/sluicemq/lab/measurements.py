"""The raw measurements in a run directory: the contract between the lab and the pipeline.

    DIR/run.json                   one object: `RunInfo`
    DIR/published/part-*.parquet   a row a message (or a sample of them): what its publisher saw
    DIR/delivered/part-*.parquet   a row a delivery (or a sample of them): what its consumer saw
    DIR/counters/part-*.parquet    a row a worker and second: exact counts, never sampled
    DIR/broker/part-*.parquet      a row a second: the broker from outside, all its nodes together
    DIR/nodes/part-*.parquet       a row a node and second, where nodes can be looked at
    DIR/live/part-*.parquet        a row a worker and second as it passes, for `sluicemq lab watch`

All times are whole nanoseconds since the start of the run, on one monotonic clock; they can be
negative for what happened before it (setting up). Service latency counts from `written_ns`,
response latency from `intended_ns`: the difference is the time a publisher was held up.

Sampling: with `sample_every` k > 1 only messages with `seq % k == 0` have rows, each standing for
`weight` = k messages. The same messages are chosen on both sides, so the two tables join on
(publisher, seq).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import pyarrow as pa

STEP_OUTSIDE: Final = -1
"""The `step` of counter rows outside all steps: the drain at the end."""

PUBLISHED: Final = pa.schema(
    [
        pa.field("publisher", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("queue", pa.int32(), nullable=False),
        # the step the message was intended in
        pa.field("step", pa.int16(), nullable=False),
        pa.field("intended_ns", pa.int64(), nullable=False),
        # handed to the socket
        pa.field("written_ns", pa.int64(), nullable=False),
        # null: confirms are off, or none came
        pa.field("confirmed_ns", pa.int64()),
        pa.field("nacked", pa.bool_(), nullable=False),
        pa.field("weight", pa.int32(), nullable=False),
    ]
)

DELIVERED: Final = pa.schema(
    [
        pa.field("publisher", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("queue", pa.int32(), nullable=False),
        pa.field("consumer", pa.int32(), nullable=False),
        pa.field("step", pa.int16(), nullable=False),
        pa.field("intended_ns", pa.int64(), nullable=False),
        pa.field("written_ns", pa.int64(), nullable=False),
        # read from the socket
        pa.field("delivered_ns", pa.int64(), nullable=False),
        # the ack that covers it was written; null: automatic acks, or none was sent
        pa.field("acked_ns", pa.int64()),
        pa.field("redelivered", pa.bool_(), nullable=False),
        pa.field("weight", pa.int32(), nullable=False),
    ]
)

COUNTERS: Final = pa.schema(
    [
        # 'publisher' or 'consumer'
        pa.field("role", pa.string(), nullable=False),
        # the worker's number within its role
        pa.field("index", pa.int32(), nullable=False),
        # whole seconds since the run began: the row covers [second, second + 1)
        pa.field("second", pa.int32(), nullable=False),
        pa.field("step", pa.int16(), nullable=False),
        # counts of this second alone
        pa.field("intended", pa.int64(), nullable=False),
        pa.field("written", pa.int64(), nullable=False),
        pa.field("confirmed", pa.int64(), nullable=False),
        pa.field("delivered", pa.int64(), nullable=False),
        pa.field("acked", pa.int64(), nullable=False),
        # levels at the end of the second
        pa.field("unconfirmed", pa.int32(), nullable=False),
        pa.field("unacked", pa.int32(), nullable=False),
        # time between connection.blocked and unblocked, summed over the worker's connections
        pa.field("blocked_ns", pa.int64(), nullable=False),
    ]
)

BROKER: Final = pa.schema(
    [
        pa.field("second", pa.int32(), nullable=False),
        # CPU time and memory of the broker's processes, summed over its nodes; CPU time since the
        # run began; null: not all of the processes are known
        pa.field("cpu_ns", pa.int64()),
        pa.field("rss_bytes", pa.int64()),
        # summed over the scenario's queues, by passive declare; null: no answer came in this second
        pa.field("messages_ready", pa.int64()),
    ]
)

NODES: Final = pa.schema(
    [
        pa.field("second", pa.int32(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        # CPU time its process used since the run began; null: its process is not known
        pa.field("cpu_ns", pa.int64()),
        pa.field("rss_bytes", pa.int64()),
        # connections in the state `flow`; null: the node was not asked, or did not answer, in this
        # second
        pa.field("flow_connections", pa.int32()),
        # the number of the scenario's queues whose leader, or messages, are on this node
        pa.field("leaders", pa.int32()),
    ]
)

LIVE: Final = pa.schema(
    [
        pa.field("role", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("second", pa.int32(), nullable=False),
        pa.field("step", pa.int16(), nullable=False),
        pa.field("written", pa.int64(), nullable=False),
        pa.field("confirmed", pa.int64(), nullable=False),
        pa.field("delivered", pa.int64(), nullable=False),
        pa.field("unconfirmed", pa.int32(), nullable=False),
        # from intended to delivered, of a sample of the second's messages
        pa.field("latencies_ns", pa.list_(pa.int64()), nullable=False),
    ]
)
"""Not a measurement, but the live view during a run."""

TABLES: Final = {
    "published": PUBLISHED,
    "delivered": DELIVERED,
    "counters": COUNTERS,
    "broker": BROKER,
    "nodes": NODES,
}


class StepInfo(TypedDict):
    """One step of a run: an in-flight limit and the time it was in force."""

    step: int
    in_flight_limit: int | None
    in_flight_percent: int | None
    start_ns: int
    end_ns: int
    # a point in time like start_ns: messages intended before it are warm-up
    warm_ns: int
    # messages the schedule asked for, and those of them that were never written, because their
    # publisher was held up until the step's end
    intended: int
    abandoned: int


class Verification(TypedDict):
    """Exact counts over all messages of the run, sampled or not."""

    published: int
    confirmed: int
    nacked: int
    returned: int
    # written, but neither confirmed nor nacked (where confirms are off: the broker did not answer
    # the publisher's channel.close) when the drain timeout ended
    unsettled: int
    # deliveries, all of them
    delivered: int
    redelivered: int
    # promised (confirmed, or settled where confirms are off) and never delivered, and not in a
    # queue any more either
    lost: int
    # promised, not delivered, but still in the queues when the drain timeout ended
    left_in_queues: int
    # promised and not delivered, and the broker could not be asked
    unaccounted: int
    # delivered again without the redelivered flag
    duplicates: int
    # behind a later message of the same publisher at the same consumer, not flagged redelivered
    out_of_order: int
    # deliveries that no publisher of this run wrote
    foreign: int
    # False: the drain timeout ended before everything promised was delivered
    drained: bool


class LoadMachine(TypedDict):
    """The machine that the load ran on: cores, and RAM in bytes."""

    cores: int
    ram: int


class WorkerCost(TypedDict):
    """The CPU time of one worker process of the load client, which shows whether it was the
    bottleneck."""

    role: str
    index: int
    cpu_ns: int
    # from the start of the run until its connections were closed
    wall_ns: int


class WorkerClock(TypedDict):
    """The clock of a worker that has its own: its times are corrected by `offset_ns`."""

    role: str
    index: int
    host: str
    # the worker's monotonic clock less the conductor's, before the run
    offset_ns: int
    # the largest possible error of that
    error_ns: int
    # by how much the offset had changed after the run; null: the worker could not be asked
    drift_ns: int | None


class RunInfo(TypedDict):
    """The content of a run directory's run.json."""

    scenario: int
    name: str
    target: list[str]
    product: str
    version: str
    queue_type: str
    queue_arguments: dict[str, Any]
    durable: bool
    persistent: bool
    confirms: bool
    ack_interval: int
    scale: float
    publishers: int
    queues: int
    consumers: int
    rate_per_publisher: float
    # the table's own rate, so that both can be stated
    rate_unscaled: int
    prefetch: int
    body_bytes: int
    workers: int
    worker_costs: NotRequired[list[WorkerCost]]
    # the engine that ran the workers: "processes" or "spark"
    engine: NotRequired[str]
    # those of the target, where they could be asked
    nodes: NotRequired[list[str]]
    # the flow profile of nodes that the lab has started; null: it was the target's own
    profile: NotRequired[str | None]
    # the clocks of workers on other machines; none: all workers read one clock
    clocks: NotRequired[list[WorkerClock]]
    steps: list[StepInfo]
    sample_every: int
    drain_timeout_s: float
    started_at: str
    machine: LoadMachine
    verification: Verification
    claims: list[str]
    # the name of the run in reports; empty or missing: its settings
    label: NotRequired[str]
    # why the run ended early; null when it ran to its end
    stopped: str | None


def write_run_info(directory: Path, info: RunInfo) -> None:
    """Write `info` as run.json into a run directory."""
    (directory / "run.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def read_run_info(directory: Path) -> RunInfo:
    """Read run.json of a run directory. Raises OSError when there is none."""
    info: RunInfo = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    return info
