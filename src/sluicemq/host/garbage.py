"""Decides when Python searches for cyclic garbage, because the whole process stands still
meanwhile.

Reference counts free the broker's own objects: connections, channels and queues leave no cycles. So
a search through all objects finds next to nothing, and with a hundred thousand queues it stops the
broker for half a second. Python searches young objects as they come, which is short. All objects
are searched

    when that is cheap    by what it took last time and what has come since
    when nobody notices   the node is idle
    when memory is short  an unknown cycle must not keep an alarm up
"""

from __future__ import annotations

import gc
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

YOUNG: Final = 10_000
"""The number of new objects after which Python searches its youngest; a search takes 2 ms."""
YOUNG_LOOKS: Final = 2
"""The number of such searches after which Python also searches the objects that they left, which
takes 5 ms; those left then are old. (With its default, 10, that took 25 ms.)"""
NEVER: Final = 1 << 30
"""A number of searches that is never reached, so that Python does not search old objects by
itself."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two decisions whether to search all objects."""
DUE: Final = 20
"""The number of times that objects must have become old before all may be searched."""
CHEAP_SECONDS: Final = 0.02
"""A search that takes fewer seconds disturbs no one."""
IDLE_ROUNDS: Final = 10
"""The most rounds of the actors between two decisions on an idle node, whose own timers make a
few."""
GROWN: Final = 4
"""When memory is short, one object in this many must be new: else every search would cost the same
and find nothing."""


def leave_old_ones() -> None:
    """Limit Python's own collections to young objects from now on."""
    gc.set_threshold(YOUNG, YOUNG_LOOKS, NEVER)


class Collector:
    """Decides when to search all objects for garbage. Times are in seconds."""

    def __init__(
        self,
        is_short: Callable[[], bool],
        now: Callable[[], float] = perf_counter,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        self.is_short = is_short
        """Tells whether memory is so short that a search may take its time."""
        self.now = now
        self.collect = collect
        self.rounds = 0
        """Rounds of the actors since the last decision, counted by the host that runs them."""
        self.began = 0.0
        self.whole = 0.0
        """Seconds that the last search of all objects took."""
        self.grown = 0.0
        """Seconds that the searches took of objects that have become old since then."""
        self.times = 0
        """How often objects have become old since then."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take over from Python the decision when to collect all objects."""
        gc.callbacks.append(self.noticed)
        self.again(loop)

    def again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look now, and again at regular times."""
        self.look()
        loop.call_later(LOOK_SECONDS, self.again, loop)

    def noticed(self, phase: Literal["start", "stop"], info: Mapping[str, int]) -> None:
        """Note that Python begins or has ended a collection; this is a callback of `gc`."""
        generation = info["generation"]
        if phase == "start":
            self.began = self.now()
        elif generation == 1:
            self.grown += self.now() - self.began
            self.times += 1
        elif generation == 2:
            self.whole = self.now() - self.began
            self.grown = 0.0
            self.times = 0

    def look(self) -> None:
        """Collect garbage among all objects if it is time."""
        is_idle = self.rounds <= IDLE_ROUNDS
        self.rounds = 0
        if self.times >= DUE and (self.is_cheap or is_idle or self.is_wanted):
            self.collect()

    @property
    def is_cheap(self) -> bool:
        """Whether a collection would be too short to matter. Objects that are gone since the last
        one still count."""
        return self.whole + self.grown <= CHEAP_SECONDS

    @property
    def is_wanted(self) -> bool:
        """Whether memory is short and enough objects have become old since the last collection to
        make another one worth its time."""
        return self.is_short() and self.grown * GROWN >= self.whole
