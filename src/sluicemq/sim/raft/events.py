"""The events of a run in the order of virtual time. Every choice comes from one seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from zlib import crc32


class Events:
    """A queue of actions; times are in virtual milliseconds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.happened = 0
        self.digest = 0
        """The digest of all notes: equal for equal seeds."""
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.queued = 0
        self.notes: list[str] = []
        """The last events, for users."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do an action so much later; actions due at the same time happen in the order of their
        planning."""
        self.queued += 1
        heapq.heappush(self.queue, (self.now_ms + delay_ms, self.queued, action))

    def step(self) -> None:
        """Do the next action that is due."""
        self.now_ms, _, action = heapq.heappop(self.queue)
        self.happened += 1
        action()

    def go_on(self, count: int) -> None:
        """Do this many of the next actions."""
        queue, take = self.queue, heapq.heappop
        while self.happened < count:
            self.now_ms, _, action = take(queue)
            self.happened += 1
            action()

    def between(self, low: float, high: float) -> float:
        """Return a random number between these two."""
        return low + (high - low) * self.random.random()

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.random.random() < probability

    def note(self, line: str) -> None:
        """Note an event in the trace."""
        stamped = f"{self.now_ms:10.2f}  {line}"
        self.digest = crc32(stamped.encode(), self.digest)
        self.notes.append(stamped)
        if len(self.notes) > 2000:
            del self.notes[:1000]
