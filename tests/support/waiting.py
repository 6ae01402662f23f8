"""Waiting for what must come, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 240.0
LOOK_S = 0.02

Found = TypeVar("Found")


def await_truth(look: Callable[[], Found], every_s: float = LOOK_S) -> Found:
    """Look again and again until there is something; what was found. `AssertionError` when nothing
    has come in PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"{look} saw nothing in {PATIENCE_S:g} s"
        time.sleep(every_s)
    return found
