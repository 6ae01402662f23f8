"""Where workers run: processes on this machine, or whatever else keeps this interface.

An engine starts the workers of a plan and gives a connection to each; what is said over it is the
same everywhere (`messages.py`). Workers elsewhere have clocks of their own (`clocks.py`), and send
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
    """Do the workers read the conductor's own monotonic clock?"""

    def start(self, plan: RunPlan) -> Iterator[WorkerHandle]:
        """Start all workers, consumers first; yields each as soon as there is a connection to it.
        Raises Refused when there is no place for them."""
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
