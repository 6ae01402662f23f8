"""Which machine a queue has, for who checks types: one of the type that the queue is of.

It is not compiled: what stands behind a test of TYPE_CHECKING would be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sluicemq.queues.machine import QueueMachine, QueueView

    M_co = TypeVar("M_co", bound=QueueView, default=QueueView, covariant=True)
    L_co = TypeVar("L_co", bound=QueueMachine, default=QueueMachine, covariant=True)
else:  # which has no defaults in the oldest Python that will do
    from typing import TypeVar

    M_co = TypeVar("M_co", covariant=True)
    L_co = TypeVar("L_co", covariant=True)
