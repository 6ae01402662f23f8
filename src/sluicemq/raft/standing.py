"""Values that hold from some index of the log on: configurations, machine versions."""

from __future__ import annotations

from typing import Generic, TypeVar

Held = TypeVar("Held")


class Standing(Generic[Held]):
    """Values with the indexes from which they hold. The newest holds as soon as its entry is in the
    log, and until the entry is truncated."""

    __slots__ = ("since",)

    def __init__(self, index: int, value: Held) -> None:
        self.since: list[tuple[int, Held]] = [(index, value)]
        """Values by index, never empty; the first is the snapshot's."""

    @property
    def current(self) -> Held:
        """The value at the end of the log."""
        return self.since[-1][1]

    @property
    def current_index(self) -> int:
        """The index from which the current value holds."""
        return self.since[-1][0]

    def at(self, index: int) -> Held:
        """The value after the entry at `index`, which is not below the snapshot."""
        return next(value for since, value in reversed(self.since) if since <= index)

    def append(self, index: int, value: Held) -> None:
        """Let another value hold from this entry on, the last of the log."""
        assert index > self.current_index
        self.since.append((index, value))

    def truncate(self, start: int) -> None:
        """Drop the values of entries from `start` on, which are gone."""
        while self.current_index >= start:
            self.since.pop()
        assert self.since, "what the snapshot says cannot be undone"

    def compact(self, index: int) -> None:
        """Drop the values that a snapshot up to `index` replaces."""
        value = self.at(index)
        self.since = [(index, value), *((i, held) for i, held in self.since if i > index)]
