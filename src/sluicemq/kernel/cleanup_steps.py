"""The end of something whose own code has failed: steps of which each stands alone.

Ending in order cannot be counted on any more, so each step goes by what it finds, and may be taken
again. A step that fails itself is logged and passed over: a second fault costs what that step was
about, and never goes in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor

Step = Callable[[], object]


def take(actor: Actor, steps: Iterable[Step]) -> None:
    """Take each of the steps, whatever becomes of the others; their faults are those of `actor`."""
    for step in steps:
        try:
            step()
        except Exception as error:
            actor.scheduler.witness(actor, error)
