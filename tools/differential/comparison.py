"""Runs scripts on two brokers at once, finds where they go apart, and shrinks what does."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

from side import FINAL, Address, Side

from scripts import Step

PATIENCE_SECONDS = 1.5
HURRIED_SECONDS = 0.05
RUNS_TO_BE_SURE = 2


@dataclass
class Difference:
    """Where a script went apart: the step, and what ours and RabbitMQ's client saw."""

    script: list[Step]
    number: int
    ours: object
    theirs: object

    @property
    def kind(self) -> str:
        """Short; differences of one kind are most often one fault."""
        what = self.script[self.number][0]
        if isinstance(self.ours, tuple) and isinstance(self.theirs, tuple):
            parts = zip(self.ours, self.theirs, ("events", "counts"), strict=True)
            return f"{what}: {' and '.join(name for a, b, name in parts if a != b)}"
        return what

    def text(self) -> str:
        lines = [f"  {what} {given}" for what, given in self.script[: self.number + 1]]
        return "\n".join([*lines, f"  ours:     {self.ours}", f"  RabbitMQ: {self.theirs}"])


class Comparison:
    """Runs scripts on two brokers, each with names of its own."""

    def __init__(self, brokers: Sequence[Sequence[Address]], vhost: str = "/") -> None:
        self.brokers = brokers
        self.vhost = vhost
        self.prefixes = (f"{random.SystemRandom().randrange(1 << 32):08x}.{n}" for n in count())

    def run(self, script: list[Step]) -> Difference | None:
        """Where the brokers go apart."""
        prefix = next(self.prefixes)
        with ExitStack() as stack:
            sides = [Side(addresses, self.vhost, prefix) for addresses in self.brokers]
            for side in sides:
                stack.callback(side.close)
            for number, step in enumerate(script):
                for side in sides:
                    side.do(step)
                if sides[0].hurried:
                    time.sleep(HURRIED_SECONDS)
                views = self.agree(sides)
                if views[0] != views[1]:
                    words = [named_back(view, prefix) for view in views]
                    return Difference(script, number, *words)
        return None

    def agree(self, sides: Sequence[Side]) -> list[Any]:
        """What both see, when it has become the same or patience is over."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            views = [side.view() for side in sides]
            answers = [[event for event in events if event[0] in FINAL] for events, _ in views]
            same = views[0] == views[1]
            if same or answers[0] != answers[1] or time.monotonic() > deadline:
                return views
            time.sleep(0.01)

    def surely(self, script: list[Step]) -> Difference | None:
        """A difference that is there each time."""
        found = None
        for _ in range(RUNS_TO_BE_SURE):
            found = self.run(script)
            if found is None:
                return None
        return found

    def shrunk(self, found: Difference) -> Difference:
        """With as few steps as possible."""
        script = found.script[: found.number + 1]
        size = len(script) // 2
        while size:
            start = 0
            while start < len(script):
                shorter = script[:start] + script[start + size :]
                again = self.run(shorter) if shorter else None
                if again is not None and again.kind == found.kind:
                    found, script = again, shorter[: again.number + 1]
                else:
                    start += size
            size //= 2
        return found


def named_back(value: Any, prefix: str) -> Any:
    """With `@` for the prefix, so that it reads like the script."""
    if isinstance(value, tuple):
        return tuple(named_back(each, prefix) for each in value)
    if isinstance(value, dict):
        return {key: named_back(each, prefix) for key, each in value.items()}
    if isinstance(value, list):
        return [named_back(each, prefix) for each in value]
    return value.replace(prefix, "@") if isinstance(value, str) else value
