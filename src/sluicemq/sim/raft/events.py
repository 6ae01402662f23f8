"""What happens, in the order of virtual time. Every choice comes from one seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from zlib import crc32


class Events:
    """A queue of things to do; times are in virtual milliseconds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.happened = 0
        self.digest = 0
        """Of everything that was noted: the same seed gives the same."""
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.queued = 0
        self.notes: list[str] = []
        """The last things that happened, for people."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do it so much later; what is due at the same time is done as it came."""
        self.queued += 1
        heapq.heappush(self.queue, (self.now_ms + delay_ms, self.queued, action))

    def step(self) -> None:
        """Do what is due next."""
        self.now_ms, _, action = heapq.heappop(self.queue)
        self.happened += 1
        action()

    def go_on(self, count: int) -> None:
        """Do what is due until so many things have happened."""
        queue, take = self.queue, heapq.heappop
        while self.happened < count:
            self.now_ms, _, action = take(queue)
            self.happened += 1
            action()

    def between(self, low: float, high: float) -> float:
        """A number between these two, by chance."""
        return low + (high - low) * self.random.random()

    def chance(self, probability: float) -> bool:
        """True as often as that says."""
        return self.random.random() < probability

    def note(self, line: str) -> None:
        """Remember that this has happened."""
        stamped = f"{self.now_ms:10.2f}  {line}"
        self.digest = crc32(stamped.encode(), self.digest)
        self.notes.append(stamped)
        if len(self.notes) > 2000:
            del self.notes[:1000]
