"""The two ends of a connection, as far as its socket knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Peer:
    """The ends of a connection: the peer (`peer_host`, `peer_port`) and the address on this node
    that it has connected to (`host`, `port`). Hosts are numeric addresses."""

    __slots__ = ("certificate_name", "host", "peer_host", "peer_port", "port", "tls")

    def __init__(self, peer_host: str, peer_port: int, host: str, port: int) -> None:
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.host = host
        self.port = port
        self.certificate_name = ""
        """The user whom a verified client certificate names."""
        self.tls: Mapping[str, str] | None = None
        """What TLS has agreed on, by RabbitMQ's names; None without TLS."""

    @property
    def is_near(self) -> bool:
        """Tell whether the peer is on this machine, at a loopback address."""
        return is_loopback(self.peer_host)

    @property
    def vouched_name(self) -> str | None:
        """Return the user named in the peer's certificate, "" when it has none; None
        without TLS."""
        return None if self.tls is None else self.certificate_name


def is_loopback(address: str) -> bool:
    """Tell whether a numeric address never leaves the machine."""
    return address.startswith("127.") or address == "::1"
