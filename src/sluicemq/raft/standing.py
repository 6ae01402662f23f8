"""What holds from some index of the log on: configurations, machine versions."""

from __future__ import annotations

from typing import Generic, TypeVar

Held = TypeVar("Held")


class Standing(Generic[Held]):
    """Values with the indexes from which they hold. The newest holds as soon as its entry is in the
    log, and no longer when the entry is truncated."""

    __slots__ = ("since",)

    def __init__(self, index: int, value: Held) -> None:
        self.since: list[tuple[int, Held]] = [(index, value)]
        """By index, never empty; the first is what the snapshot says."""

    @property
    def current(self) -> Held:
        """What holds at the end of the log."""
        return self.since[-1][1]

    @property
    def current_index(self) -> int:
        """From where on that holds."""
        return self.since[-1][0]

    def at(self, index: int) -> Held:
        """What held after the entry at `index`, which is not below the snapshot."""
        return next(value for since, value in reversed(self.since) if since <= index)

    def append(self, index: int, value: Held) -> None:
        """From this entry, the last of the log, another value holds."""
        assert index > self.current_index
        self.since.append((index, value))

    def truncate(self, start: int) -> None:
        """The entries from `start` on are gone, and what they said with them."""
        while self.current_index >= start:
            self.since.pop()
        assert self.since, "what the snapshot says cannot be undone"

    def compact(self, index: int) -> None:
        """A snapshot stands for what is up to `index`."""
        value = self.at(index)
        self.since = [(index, value), *((i, held) for i, held in self.since if i > index)]
