"""The sockets of one node: clients use those of `sim/net.py`, other nodes those of
`sim/cluster/net.py`, where ways can be cut. A connection's number tells its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.kernel.world import Net
from sluicemq.sim.net import AMQP_PORT

if TYPE_CHECKING:
    from sluicemq.kernel.socket_owner import Acceptor, SocketOwner
    from sluicemq.sim.cluster.net import PipeNet
    from sluicemq.sim.net import SimNet

LINKS_FROM: Final = 1 << 20
"""Connections to other nodes have higher numbers."""


class NodeNet(Net):
    """Both kinds of sockets of one node, in one life of its process."""

    def __init__(self, clients: SimNet, links: PipeNet) -> None:
        self.clients = clients
        self.links = links
        links.last = LINKS_FROM

    def _of(self, connection: int) -> Net:
        return self.links if connection > LINKS_FROM else self.clients

    def listen(self, acceptor: Acceptor, host: str, port: int, tls: bool = False) -> int:
        net: Net = self.clients if port == AMQP_PORT else self.links
        return net.listen(acceptor, host, port, tls)

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        return self.links.connect(owner, host, port)

    def write(self, connection: int, data: bytes) -> bool:
        return self._of(connection).write(connection, data)

    def unsent_bytes(self, connection: int) -> int:
        return self._of(connection).unsent_bytes(connection)

    def taken(self, connection: int, pulls: bool) -> bool:
        return self._of(connection).taken(connection, pulls)

    def rest(self, connection: int) -> None:
        self._of(connection).rest(connection)

    def pull(self, connection: int, size_max: int) -> bytes:
        return self._of(connection).pull(connection, size_max)

    def pause_reading(self, connection: int) -> None:
        self._of(connection).pause_reading(connection)

    def resume_reading(self, connection: int) -> None:
        self._of(connection).resume_reading(connection)

    def close(self, connection: int, linger_ms: int = 0) -> None:
        self._of(connection).close(connection, linger_ms)
