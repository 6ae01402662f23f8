"""The stand-in of a queue, as the post sees it.

It is not compiled, for it is the second base of stand-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.chain.remote.sections import QueueFigures
    from sluicemq.metadata.events import DeclaredQueue


class HomeFollower(Actor):
    """The stand-in of a queue whose home is one of `homes`."""

    homes: tuple[int, ...]
    declared: DeclaredQueue

    def told(self, figures: QueueFigures) -> None:
        """Note the figures that its home tells, for users."""
        raise NotImplementedError
