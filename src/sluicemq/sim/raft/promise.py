"""A rule of Raft that did not hold."""

from __future__ import annotations


class RuleBroken(AssertionError):
    """The simulation has found what must never be."""


def rule(holds: bool, broken: str) -> None:
    """Raise RuleBroken with that sentence unless the rule holds."""
    if not holds:
        raise RuleBroken(broken)
