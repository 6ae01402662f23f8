"""What is known of the consumers of a queue, whatever its type.

It is not compiled: what stands behind a test of TYPE_CHECKING would be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sluicemq.queues.consumers import Consumer


class ConsumerTable(Protocol):
    """The consumers of a queue, for people. `single_active`: one gets everything, the others wait
    for it to go."""

    single_active: bool

    @property
    def count(self) -> int:
        """Return the number of all consumers, also of those that are not active."""
        raise NotImplementedError

    def all(self) -> list[Consumer]:
        """Return all consumers, those first who are served first."""
        raise NotImplementedError


if TYPE_CHECKING:
    T_co = TypeVar("T_co", bound=ConsumerTable, default=ConsumerTable, covariant=True)
else:  # which has no defaults in the oldest Python that will do
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
