"""What a connection sees of the broker: who may enter which virtual host, and who is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.channel.channel_directory import ChannelDirectory
from sluicemq.chain.channel.channel_port import ChannelPort
from sluicemq.chain.services import Services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.access.access import Access
    from sluicemq.chain.connection.admission import Admission
    from sluicemq.chain.connection.deadlines import Deadlines
    from sluicemq.chain.queue.namespace_port import NamespacePort


class BrokerPort(Services, ChannelDirectory[ChannelPort]):
    """A broker, as its connections see it; `vhosts` are by name."""

    access: Access
    admission: Admission
    deadlines: Deadlines
    vhosts: Mapping[str, NamespacePort]

    def forget_connection(self, connection: int) -> None:
        """Forget the connection of that number, which has come to its end; a second call does
        nothing."""
        raise NotImplementedError
