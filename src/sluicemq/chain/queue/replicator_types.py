"""The replicator's type for each type of queue, for type checkers.

It is not compiled: the compiler would leave out what stands behind a test of TYPE_CHECKING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    from sluicemq.replication.replicator import Replicator

    R_co = TypeVar("R_co", bound=Replicator[Any, Any], default=Replicator[Any, Any], covariant=True)
else:  # TypeVar has no defaults in the oldest supported Python
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
