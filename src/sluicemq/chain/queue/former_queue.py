"""What stands for a queue on a node that gets a member of it.

It is not compiled, for it is the second base of a class in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import Queue

if TYPE_CHECKING:
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.queue import PublishLink


class FormerQueue(Queue):
    """The former stand-in for a queue on a node that now has a member of it: channels that used it
    still do."""

    def link_of(self, sender: FlowActor) -> PublishLink | None:
        """Return the link over which the sender publishes through it; None when it does not."""
        raise NotImplementedError
