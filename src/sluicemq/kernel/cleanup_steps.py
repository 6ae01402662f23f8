"""The end of something whose own code has failed, in steps that do not depend on one another.

An orderly end cannot be relied on any more, so each step goes by what it finds, and may be
repeated. A step that fails itself is logged and skipped: a second fault costs only what that step
would have done, and never leads to a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor

Step = Callable[[], object]


def take(actor: Actor, steps: Iterable[Step]) -> None:
    """Take each of the steps, even when others fail; their faults count as those of `actor`."""
    for step in steps:
        try:
            step()
        except Exception as error:
            actor.scheduler.witness(actor, error)
