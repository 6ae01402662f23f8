"""How often Python looks for garbage in the processes of tests."""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 50_000
"""So many new objects are looked through at once; with Python's 700 a simulation takes a tenth
longer."""


def collect_seldom() -> None:
    """Look for garbage behind all there is, and among many objects at a time."""
    gc.freeze()
    gc.set_threshold(YOUNG)
    gc.enable()
