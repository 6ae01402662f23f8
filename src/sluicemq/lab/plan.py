"""One run of a scenario: the table's row scaled to a machine, with the run's own options.

Scaling multiplies the rate and the figures that are counted in seconds of it (in-flight limits,
prefetch, ack interval), each of which stays at least 1; publishers, queues and consumers stay as
they are. So a limit is the same number of seconds' worth of messages at any scale; what that leaves
unlike the original is in docs/claims.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluicemq.amqp.types import Table
from sluicemq.errors import Refused
from sluicemq.lab.scenarios import Limit, Scenario
from sluicemq.lab.stamp import STAMP

NS: Final = 1_000_000_000

PREFETCH_MAX: Final = 65_535
"""The largest prefetch: basic.qos has 16 bits for it."""

ACK_PERCENT: Final = 10
"""Ack interval of a run with the multiple flag, as a percentage of the prefetch."""

WARM_PERCENT: Final = 20
WARM_NS_MAX: Final = 5 * NS
"""The first part of every step is warm-up: a fifth of it, at most five seconds."""

QUEUE_TYPES: Final = ("classic", "mirrored", "quorum")

LABEL_MAX: Final = 60
"""The most characters of a run's label: it stands in legends and in the titles of columns."""

MIRRORED_PREFIX: Final = "ha-"
"""The prefix of mirrored queues' names, for a policy of the broker: clients cannot ask for
mirrors."""


@dataclass(frozen=True, slots=True)
class LoadStep:
    """An in-flight limit and when it is in force, in nanoseconds since the start of the run."""

    number: int
    limit: Limit | None
    start_ns: int
    end_ns: int

    @property
    def warm_ns(self) -> int:
        """The time at which the warm-up of this step ends."""
        length = self.end_ns - self.start_ns
        return self.start_ns + min(length * WARM_PERCENT // 100, WARM_NS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The settings of one run. Raises Refused when they cannot be run."""

    scenario: Scenario
    targets: tuple[str, ...]
    directory: Path
    queue_type: str = "classic"
    queue_arguments: Table = field(default_factory=dict)
    confirms: bool = True
    ack_interval: int = 1
    """The number of messages that one basic.ack covers; 0: automatic acks."""
    scale: float = 1.0
    step_seconds: int = 20
    chosen_limits: tuple[Limit, ...] | None = None
    """In-flight limits, already scaled, that are used in place of the scenario's."""
    body_bytes: int = 1024
    workers: int = 1
    """The number of worker processes for publishers, and as many for consumers."""
    broker_pids: tuple[int, ...] = ()
    """The processes of the target's nodes, in the order of `targets`; none: they are not known."""
    profile: str | None = None
    """The flow profile that the nodes were started with; None: the lab has not started them."""
    record_rate: int = 20_000
    """Messages a second above which only every k-th is recorded."""
    drain_timeout_s: float = 30.0
    label: str = ""
    """The name of the run in reports; empty: its settings."""

    def __post_init__(self) -> None:
        _require(len(self.targets) >= 1, "a run needs a target")
        _require(
            len(self.broker_pids) in (0, len(self.targets)),
            f"--broker-pid: {len(self.broker_pids)} processes for {len(self.targets)} targets; "
            "give one for each --target, in the same order, or none",
        )
        _require(self.queue_type in QUEUE_TYPES, f"queue type {self.queue_type!r} is not one of "
                 + ", ".join(QUEUE_TYPES))  # fmt: skip
        _require(self.scale > 0, f"scale must be above 0, not {self.scale:g}")
        _require(self.step_seconds >= 1, "a step lasts at least 1 second")
        _require(self.body_bytes >= STAMP.size, f"a body has at least {STAMP.size} bytes")
        _require(self.ack_interval >= 0, "the ack interval cannot be negative")
        _require(
            self.ack_interval <= self.prefetch,
            f"an ack interval of {self.ack_interval} never comes with a prefetch of "
            f"{self.prefetch}",
        )
        _require(
            self.prefetch <= PREFETCH_MAX,
            f"scale {self.scale:g} gives a prefetch of {self.prefetch}; AMQP allows {PREFETCH_MAX}",
        )
        _require(self.workers >= 1, "a run needs at least 1 worker for each role")
        _require(
            self.workers <= self.scenario.queues,
            f"{self.workers} workers cannot share {self.scenario.queues} queues",
        )
        _require(self.record_rate >= 1, "the record rate is at least 1")
        _require(self.drain_timeout_s >= 0, "the drain timeout cannot be negative")
        _require(
            len(self.label) <= LABEL_MAX and self.label.isprintable(),
            f"a label has at most {LABEL_MAX} characters, all of which can be printed",
        )

    @property
    def rate(self) -> float:
        """Return the messages per second of one publisher."""
        return self.scenario.rate * self.scale

    @property
    def total_rate(self) -> float:
        """Return the messages per second of all publishers."""
        return self.rate * self.scenario.publishers

    @property
    def period_ns(self) -> int:
        """Return the nanoseconds between two messages of one publisher."""
        return round(NS / self.rate)

    @property
    def prefetch(self) -> int:
        """Return the prefetch of a consumer: what one publisher sends in one second."""
        return at_least_one(self.rate)

    @property
    def sample_every(self) -> int:
        """Return the sampling interval: one message in so many is recorded."""
        return max(1, -int(-self.total_rate // self.record_rate))

    @property
    def limits(self) -> tuple[Limit | None, ...]:
        """Return the in-flight limit of each step, in order; None is a step without confirms."""
        if not self.confirms:
            return (None,)
        if self.chosen_limits is not None:
            return self.chosen_limits
        return tuple(
            Limit(limit.percent, at_least_one(limit.messages * self.scale))
            for limit in self.scenario.limits
        )

    @property
    def steps(self) -> tuple[LoadStep, ...]:
        """Return the schedule: the steps follow one another without a gap."""
        length = self.step_seconds * NS
        return tuple(
            LoadStep(number, limit, number * length, (number + 1) * length)
            for number, limit in enumerate(self.limits)
        )

    @property
    def seqs_max(self) -> int:
        """Return a number of messages that no publisher exceeds."""
        per_step = -(-self.step_seconds * NS // self.period_ns)
        return per_step * len(self.limits)

    @property
    def queue_names(self) -> tuple[str, ...]:
        """Return the scenario's queues; publisher i and consumer i use queue i modulo their
        number."""
        prefix = MIRRORED_PREFIX if self.queue_type == "mirrored" else ""
        number = self.scenario.number
        return tuple(f"{prefix}lab-{number}-{index}" for index in range(self.scenario.queues))

    @property
    def declare_arguments(self) -> Table:
        """Return the arguments with which queues are declared."""
        if self.queue_type == "quorum":
            return {"x-queue-type": "quorum", **self.queue_arguments}
        return dict(self.queue_arguments)

    def clients_of(self, clients: int, worker: int) -> tuple[int, ...]:
        """Return the numbers of those of `clients` that this worker runs. All clients of one queue
        are in one worker, so that each worker can check its queues alone."""
        queues = self.scenario.queues
        return tuple(i for i in range(clients) if i % queues % self.workers == worker)


def at_least_one(count: float) -> int:
    """Round to a whole number of at least 1; scaling down never takes a limit away."""
    return max(1, round(count))


def ack_interval_multiple(scenario: Scenario, scale: float) -> int:
    """Return after how many deliveries a consumer acknowledges when it uses the multiple flag."""
    return at_least_one(at_least_one(scenario.rate * scale) * ACK_PERCENT / 100)


def choose_limits(scenario: Scenario, scale: float, text: str) -> tuple[Limit, ...]:
    """Parse the in-flight limits that a user gave: "10,50" in messages, "1%,5%" of the rate. A
    percentage that the scenario has means the scenario's figure. Raises Refused."""
    rate = scenario.rate * scale
    table = {limit.percent: limit.messages * scale for limit in scenario.limits}
    chosen = []
    for word in (word.strip() for word in text.split(",")):
        number = word.removesuffix("%")
        if not number.isdecimal() or int(number) < 1:
            raise Refused(f"a step is a number of messages or a percentage, not {word!r}")
        if word.endswith("%"):
            percent = int(number)
            messages = at_least_one(table.get(percent, rate * percent / 100))
        else:
            messages = int(number)
            percent = at_least_one(messages * 100 / rate)
        chosen.append(Limit(percent, messages))
    return tuple(chosen)


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise Refused(text)
