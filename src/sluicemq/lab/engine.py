"""Engines start the workers of a run, as processes on this machine or elsewhere.

An engine starts the workers of a plan and gives a connection to each; the messages on it are the
same everywhere (`messages.py`). Workers elsewhere have their own clocks (`clocks.py`), and send
their files over the connection when they are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from sluicemq.lab.plan import RunPlan
from sluicemq.lab.process import WorkerHandle, WorkerProcess

ROLES: Final = ("consumer", "publisher")


class Engine:
    """Starts the workers of a run, wherever they are."""

    name: ClassVar[str]
    shares_clock: ClassVar[bool]
    """Whether the workers read the conductor's own monotonic clock."""

    def start(self, plan: RunPlan) -> Iterator[WorkerHandle]:
        """Start all workers, consumers first; yields each as soon as there is a connection to it.
        Raises Refused when they cannot be placed."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean up after the last worker has ended."""


class Processes(Engine):
    """Runs each worker as a process on this machine."""

    name = "processes"
    shares_clock = True

    def start(self, plan: RunPlan) -> Iterator[WorkerHandle]:
        for role in ROLES:
            for index in range(plan.workers):
                yield WorkerProcess(plan, role, index)
