"""A violated rule of Raft."""

from __future__ import annotations


class RuleBroken(AssertionError):
    """The simulation has found a broken rule."""


def rule(holds: bool, broken: str) -> None:
    """Raise RuleBroken with that sentence unless the rule holds."""
    if not holds:
        raise RuleBroken(broken)
