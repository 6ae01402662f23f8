"""Which replicator a queue has, for who checks types: one of the type that the queue is of.

It is not compiled: what stands behind a test of TYPE_CHECKING would be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    from sluicemq.replication.replicator import Replicator

    R_co = TypeVar("R_co", bound=Replicator[Any, Any], default=Replicator[Any, Any], covariant=True)
else:  # which has no defaults in the oldest Python that will do
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
