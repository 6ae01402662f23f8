"""The post of a node, as the stand-ins of channels see it.

It is not compiled: a compiled class has one compiled base, and the post is an actor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.chain.remote.sections import BrokenSection
    from sluicemq.kernel.address import ActorAddress


class PostPort:
    """The post between this node's queues and the channels of other nodes."""

    def ended(self, address: ActorAddress) -> None:
        """Forget what stands for the channel at that address, which is gone."""
        raise NotImplementedError

    def broken(self, node: int, error: BrokenSection) -> None:
        """End the link to a node that has sent something unreadable."""
        raise NotImplementedError
