"""What the conductor and its workers say to each other over their pipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sluicemq.lab.verification import DeliveredReport, PublishedReport

# conductor to worker


@dataclass(slots=True)
class Start:
    """The run begins when the worker's monotonic clock shows `origin_ns`."""

    origin_ns: int


@dataclass(slots=True)
class Stop:
    """End the schedule now: the user has seen enough."""


@dataclass(slots=True)
class Finish:
    """Close the connections, write out the rows, report."""


@dataclass(slots=True)
class Ask:
    """What does your clock show?"""


# worker to conductor


@dataclass(slots=True)
class Clock:
    """The worker's monotonic clock."""

    monotonic_ns: int


@dataclass(slots=True)
class Piece:
    """The next part of a file of measurements, from a worker that runs elsewhere."""

    table: str
    name: str
    data: bytes


@dataclass(slots=True)
class Ready:
    """All connections are open and set up."""


@dataclass(slots=True)
class Second:
    """A second has passed."""

    row: dict[str, Any]
    """A row of the counters table."""
    latencies_ns: list[int] = field(default_factory=list)
    """Of some of the messages delivered in it, from intended to delivered; for the live view."""


@dataclass(slots=True)
class Settled:
    """The schedule is over and the broker has taken everything: this many messages must arrive."""

    promised: int


@dataclass(slots=True)
class Arrived:
    """While draining: different messages that arrived so far."""

    messages: int


@dataclass(slots=True)
class StepTotals:
    """What the schedule of one step asked for, and what of it was never written."""

    intended: int = 0
    abandoned: int = 0


@dataclass(slots=True)
class Failed:
    """The worker could not go on; a `Report` with what it has follows."""

    reason: str


@dataclass(slots=True)
class Report:
    """The last message of a worker."""

    published: PublishedReport | None = None
    delivered: DeliveredReport | None = None
    steps: dict[int, StepTotals] = field(default_factory=dict)
    cpu_ns: int = 0
    """CPU time of the worker from Start to Finish."""
