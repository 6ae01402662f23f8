"""What a channel sees of all others. It is not compiled: a compiled class may have only one
compiled base, and a broker has two (chain/connection/broker_port.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.model.traits import MessageTraits


C_co = TypeVar("C_co", covariant=True)


class ChannelDirectory(Generic[C_co]):
    """The directory of all channels that are open on this node; one of them is a C_co."""

    def find_channel(self, connection: int, number: int) -> C_co | None:
        """Return the channel of that number on the connection of that number; None when there is
        none."""
        raise NotImplementedError

    def reply_elsewhere(self, address: str, contents: list[bytes], traits: MessageTraits) -> bool:
        """Send contents with these traits to the channel of another node that receives replies at
        that address, without any promise. Returns False when that node is not up, or reads slowly,
        or there is none."""
        raise NotImplementedError

    def is_reply_node_up(self, address: str) -> bool:
        """Tell whether an address belongs to another node that is up, in its present life."""
        raise NotImplementedError

    def all_channels(self) -> Iterator[C_co]:
        """Yield the channels of all connections of this node."""
        raise NotImplementedError
