"""The TLS by which a client and its broker authenticate each other."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

from sluicemq.errors import Refused

RECORD_BYTES: Final = 16_384
"""Largest plaintext of one TLS record."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM form; None for no such file. Without a `cafile` the system's authorities count.
    With `verify` False the client accepts every broker without checking its certificate or host
    name."""

    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a context for client sockets. Raises Refused with the file's name when a file is
        unusable."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        elif self.cafile is None:
            made.load_default_certs()
        if self.cafile is not None:
            try:
                made.load_verify_locations(self.cafile)
            except OSError as error:
                raise Refused(f"cafile = {self.cafile!r} cannot be used: {error}") from error
        if self.certfile is not None:
            try:
                made.load_cert_chain(self.certfile, self.keyfile)
            except OSError as error:
                files = f"certfile = {self.certfile!r}, keyfile = {self.keyfile!r}"
                raise Refused(f"{files} cannot be used: {error}") from error
        return made


class TlsStream:
    """A client's TLS without a socket, for callers with their own loop. Its methods raise
    ssl.SSLError."""

    __slots__ = ("_incoming", "_object", "_outgoing", "_ready", "_waiting")

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._ready = False
        self._waiting = b""
        """Bytes to send once the handshake is done."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the socket, and return them decrypted. `to_write` may have something
        afterwards."""
        self._incoming.write(data)
        if not self._ready:
            self._shake_hands()
        parts = []
        while self._ready:
            try:
                part = self._object.read(RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            if not part:
                break
            parts.append(part)
        return b"".join(parts)

    def send(self, data: bytes | memoryview) -> bytes:
        """Return the bytes to write to the socket for `data`, which waits in here until the
        handshake is done."""
        if not self._ready:
            self._waiting += data
            return self.to_write()
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]
        return self.to_write()

    def to_write(self) -> bytes:
        """Return bytes for the socket, perhaps none; each is returned once."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        self._ready = True
        waiting, self._waiting = self._waiting, b""
        if waiting:
            self._outgoing.write(self.send(waiting))
