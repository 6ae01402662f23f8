"""A broker's resolved address, with the TLS that authenticates the broker."""

from __future__ import annotations

import socket
from typing import Any

from sluicemq.client.address import NO_FILES, Address
from sluicemq.client.tls import TlsFiles, TlsStream


class ResolvedAddress:
    """A broker's address, resolved once, for any number of connections.

    Raises OSError when the host's name cannot be resolved and `Refused` when a TLS file is
    unusable. `tls` overrides the files of the address itself.
    """

    __slots__ = ("_context", "address", "socket_addresses")

    def __init__(self, address: Address, tls: TlsFiles = NO_FILES) -> None:
        self.address = address
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        self.socket_addresses: list[tuple[socket.AddressFamily, tuple[Any, ...]]] = [
            (each[0], each[4]) for each in found
        ]
        """The socket addresses of the host's name, in the order in which they are tried."""
        files = address.tls if tls == NO_FILES else tls
        self._context = files.context() if address.secure else None

    def tls_stream(self) -> TlsStream | None:
        """Return the TLS of one new connection; None for a connection without TLS."""
        if self._context is None:
            return None
        return TlsStream(self._context, self.address.server_name or self.address.host)
