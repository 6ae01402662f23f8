"""A message as exchanges see it; and whether one of them looked at its content.

A route that was found by keys alone is good for every message published with them. A route that
depends on the content is good for messages with the same properties, one chosen at random for a
single message. So a cache of routes looks at `read_content` and `by_chance` after asking for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.amqp.properties import NO_PROPERTIES, BasicProperties


class TakesLong(Exception):
    """A `hasty` message has so many bindings on its way that it has to be routed in pieces."""


def no_chance(_: int) -> int:
    """Return 0, for tests and tools without random numbers."""
    return 0


class Message:
    """A message to be routed. `keys` is the routing key, then those of the headers CC and BCC;
    `properties` are raw."""

    __slots__ = (
        "_below",
        "_decoded",
        "by_chance",
        "is_hasty",
        "keys",
        "raw",
        "read_content",
        "work",
    )

    def __init__(
        self,
        keys: tuple[str, ...],
        properties: bytes = NO_PROPERTIES,
        below: Callable[[int], int] = no_chance,
    ) -> None:
        self.keys: Final = keys
        self.read_content = False
        self.by_chance = False
        self.is_hasty = False
        """Is its way to be found at once, or else in pieces (`TakesLong`)?"""
        self.work = 0
        """What was looked at, one by one, to find its way: bindings of headers exchanges with which
        it was compared; where exchanges send it, unless the first sends it to a single queue."""
        self.raw: Final = properties
        self._below = below
        self._decoded: BasicProperties | None = None

    @property
    def properties(self) -> BasicProperties:
        """Return the decoded properties. Raises Malformed when the headers are not a
        valid table."""
        self.read_content = True
        if self._decoded is None:
            self._decoded = BasicProperties.decode(self.raw)
        return self._decoded

    def below(self, limit: int) -> int:
        """Return a random number, 0 <= n < limit."""
        self.by_chance = True
        return self._below(limit)
