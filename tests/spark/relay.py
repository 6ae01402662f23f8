"""A socket between two others that passes everything on and keeps a copy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

Address = tuple[str, int]


class Relay:
    """From `address`, where it listens, to `target`."""

    def __init__(self, target: Address, at: Address = ("127.0.0.1", 0)) -> None:
        self.target = target
        self._heard: list[bytes] = []
        self._listener = socket.create_server(at)
        self.address: Address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def heard(self) -> bytes:
        """All that went either way so far, in pieces as it came."""
        return b"".join(self._heard)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self.target)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._heard.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def relaying(target: Address, at: Address = ("127.0.0.1", 0)) -> Iterator[Relay]:
    """One for a while."""
    relay = Relay(target, at)
    try:
        yield relay
    finally:
        relay.close()
