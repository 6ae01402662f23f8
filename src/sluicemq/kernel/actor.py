"""An actor: an inbox, bounded turns, and one hook at the end of a turn where batching happens."""

from __future__ import annotations

from collections import deque
from typing import Final

TURN_MAX: Final = 64
"""Inbox messages handled in one turn; the rest waits for the next, so that no actor starves."""


class Scheduler:
    """The node's own run queue: whoever has something in its inbox, in order of arrival.

    `wake` is called when the queue goes from empty to non-empty; the World sets it and calls
    `run` soon after. Everything runs to completion in there; nothing else runs actors.
    """

    def __init__(self) -> None:
        self.ready: deque[Actor] = deque()
        self.awake = False
        self.turn_max = TURN_MAX

    def wake(self) -> None:
        """Set by the World (host: `loop.call_soon`; sim: an event)."""

    def run(self, turns_max: int) -> bool:
        """Run at most `turns_max` turns. True when work is left."""
        ready = self.ready
        while ready and turns_max:
            turns_max -= 1
            ready.popleft().run_turn()
        self.awake = bool(ready)
        return self.awake


class Actor:
    """Base of everything that has an inbox. Only the scheduler calls `run_turn`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.inbox: list[object] = []
        self.scheduled = False

    def post(self, message: object) -> None:
        """Put `message` into the inbox; it is handled in a later turn, in order."""
        self.inbox.append(message)
        if not self.scheduled:
            self.schedule()

    def schedule(self) -> None:
        """Ask for a turn, even with an empty inbox."""
        if not self.scheduled:
            self.scheduled = True
            scheduler = self.scheduler
            scheduler.ready.append(self)
            if not scheduler.awake:
                scheduler.awake = True
                scheduler.wake()

    def run_turn(self) -> None:
        """Handle what is in the inbox now (at most TURN_MAX), then `turn_ended`."""
        self.scheduled = False
        batch = self.inbox
        turn_max = self.scheduler.turn_max
        if len(batch) > turn_max:
            self.inbox = batch[turn_max:]
            del batch[turn_max:]
            self.schedule()
        else:
            self.inbox = []
        receive = self.receive
        for message in batch:
            receive(message)
        self.turn_ended()

    def receive(self, message: object) -> None:
        """Handle one message; runs to completion."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """The only place where anything is batched or flushed."""
