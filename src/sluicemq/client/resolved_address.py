"""A broker's address, resolved, with the TLS that makes sure of who answers there."""

from __future__ import annotations

import socket
from typing import Any

from sluicemq.client.address import NO_FILES, Address
from sluicemq.client.tls import TlsFiles, TlsStream


class ResolvedAddress:
    """A broker's address, resolved once, for any number of connections.

    Raises OSError when the host's name cannot be resolved and `Refused` when a file of TLS cannot
    be used. `tls` goes before the files of the address itself.
    """

    __slots__ = ("_context", "address", "socket_addresses")

    def __init__(self, address: Address, tls: TlsFiles = NO_FILES) -> None:
        self.address = address
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        self.socket_addresses: list[tuple[socket.AddressFamily, tuple[Any, ...]]] = [
            (each[0], each[4]) for each in found
        ]
        """The socket addresses that the host's name stands for, in the order in which they are to
        be tried."""
        files = address.tls if tls == NO_FILES else tls
        self._context = files.context() if address.secure else None

    def tls_stream(self) -> TlsStream | None:
        """Return the TLS of one new connection; None when the broker is talked to in the clear."""
        if self._context is None:
            return None
        return TlsStream(self._context, self.address.server_name or self.address.host)
