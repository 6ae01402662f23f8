"""Finds how far a worker's monotonic clock is from the conductor's.

The conductor asks, the worker answers with its clock. The error is at most half of the time between
question and answer, so the quickest answer of several counts (Cristian 1989). The offset before a
run tells each worker when to begin; the offset after it shows how far the clocks have drifted
apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from sluicemq.lab.messages import AskClock, ClockReading

QUESTIONS: Final = 25
ANSWER_TIMEOUT_S: Final = 5.0


class NoAnswer(Exception):
    """The worker does not answer when asked for its clock."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The distance of a worker's clock from the conductor's: `offset_ns` is the worker's clock less
    the conductor's, with an error of at most `error_ns`."""

    offset_ns: int
    error_ns: int


def estimate(
    pipe: Connection,
    others: Callable[[object], None],
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Offset:
    """Ask the worker at the other end for its clock, and return the best estimate. Other messages
    that it sends meanwhile go to `others`. Raises NoAnswer."""
    best: Offset | None = None
    for _ in range(QUESTIONS):
        asked_ns = now_ns()
        theirs_ns = _ask(pipe, others)
        took_ns = now_ns() - asked_ns
        found = Offset(theirs_ns - asked_ns - took_ns // 2, (took_ns + 1) // 2)
        if best is None or found.error_ns < best.error_ns:
            best = found
    assert best is not None
    return best


def _ask(pipe: Connection, others: Callable[[object], None]) -> int:
    try:
        pipe.send(AskClock())
        while pipe.poll(ANSWER_TIMEOUT_S):
            message = pipe.recv()
            if isinstance(message, ClockReading):
                return message.monotonic_ns
            others(message)
    except (EOFError, OSError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error
    raise NoAnswer(f"no answer within {ANSWER_TIMEOUT_S:g} s")
