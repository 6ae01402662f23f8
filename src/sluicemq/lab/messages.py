"""What the conductor and its workers say to each other over their pipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sluicemq.lab.verification import DeliveredReport, PublishedReport

# conductor to worker


@dataclass(slots=True)
class StartRun:
    """Tells a worker that the run begins when its monotonic clock shows `origin_ns`."""

    origin_ns: int


@dataclass(slots=True)
class Stop:
    """Tells a worker to end the schedule now: the user has seen enough."""


@dataclass(slots=True)
class Finish:
    """Tells a worker to close its connections, write out its rows and report."""


@dataclass(slots=True)
class AskClock:
    """Asks a worker what its clock shows."""


# worker to conductor


@dataclass(slots=True)
class ClockReading:
    """The answer to `AskClock`: nanoseconds of the worker's monotonic clock."""

    monotonic_ns: int


@dataclass(slots=True)
class FilePiece:
    """The next part of a file of measurements, from a worker on another machine."""

    table: str
    name: str
    data: bytes


@dataclass(slots=True)
class Ready:
    """A worker has opened and set up all its connections."""


@dataclass(slots=True)
class SecondPassed:
    """Carries a worker's counters of one second that has passed."""

    row: dict[str, Any]
    """The second as a row of the counters table."""
    latencies_ns: list[int] = field(default_factory=list)
    """Latencies of some of the messages that were delivered in the second, from intended to
    delivered; for the live view."""


@dataclass(slots=True)
class Settled:
    """Tells that a publisher worker's schedule is over and the broker has taken everything: this
    many messages must arrive."""

    promised: int


@dataclass(slots=True)
class Arrived:
    """Tells, while draining, how many different messages have arrived at a consumer worker so
    far."""

    messages: int


@dataclass(slots=True)
class StepTotals:
    """How many messages the schedule of one step asked for, and how many were never written."""

    intended: int = 0
    abandoned: int = 0


@dataclass(slots=True)
class Failed:
    """Tells that the worker could not go on; a `WorkerReport` with its results so far follows."""

    reason: str


@dataclass(slots=True)
class WorkerReport:
    """The last message of a worker."""

    published: PublishedReport | None = None
    delivered: DeliveredReport | None = None
    steps: dict[int, StepTotals] = field(default_factory=dict)
    cpu_ns: int = 0
    """CPU time of the worker from Start to Finish."""
