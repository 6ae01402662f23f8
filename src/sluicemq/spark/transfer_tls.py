"""TLS between tasks, planner and gathering processes (`transferTls`): a certificate for each
process, known by its hash.

A process that hands out chunks makes a key and a certificate when it starts; the key never leaves
it. The certificate's hash goes with its address (`transfer.Endpoint`). A process that connects
checks the certificate before it sends its token, so names, authorities and clocks do not matter,
and no one between them can read or take part.
"""

from __future__ import annotations

import hashlib
import io
import os
import socket
import ssl
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Final, NamedTuple, Self, cast

from sluicemq.errors import Refused
from sluicemq.spark.raw_contents import Octets

RECEIVE_BYTES: Final = 256 * 1024
SEND_BYTES: Final = 256 * 1024
"""The octets that are encrypted at a time, and then sent."""

NAME: Final = "SluiceMQ transfer"
VALID: Final = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


class Impostor(OSError):
    """Tells that the process that answers is not the gathering process, because it has another
    certificate or no TLS."""


class Identity(NamedTuple):
    """A process's own certificate: the TLS context for its server's sockets, and the certificate's
    SHA-256 in hexadecimal."""

    context: ssl.SSLContext
    fingerprint: str


def make_identity() -> Identity:
    """Make a new key and certificate. Raises `Refused` without the package `cryptography`."""
    try:
        from cryptography import x509  # noqa: PLC0415 - who wants no TLS need not have it
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise Refused(
            "transferTls = true: needs the package cryptography, on executors too if these gather"
            f" (pip install 'sluicemq[spark]'): {error}"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = builder.not_valid_before(VALID[0]).not_valid_after(VALID[1])
    signed = certificate.sign(key, hashes.SHA256())
    pem = signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    load(context, pem)
    return Identity(context, fingerprint_of(signed.public_bytes(serialization.Encoding.DER)))


def load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a certificate and its key into the context, through a file that is only in memory,
    because `ssl` takes nothing but files."""
    with os.fdopen(os.memfd_create("identity"), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


def fingerprint_of(certificate: bytes | None) -> str:
    """Return the SHA-256 of a certificate in DER form, in hexadecimal; of no octets for None."""
    return hashlib.sha256(certificate or b"").hexdigest()


@cache
def asking_context() -> ssl.SSLContext:
    """Return the TLS context for connecting. It takes any certificate, whose fingerprint must then
    be compared."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


class TlsSocket:
    """A connected socket under TLS, with the methods of `socket.socket` that are used here. One
    thread may send while another one receives, which `ssl.SSLSocket` does not allow.

    The end of a connection is not signed, so the data that is sent must tell where it ends.
    """

    def __init__(self, peer: socket.socket, context: ssl.SSLContext, *, is_server: bool) -> None:
        """Shakes hands. OSError: the other side does not, or is gone."""
        self._peer = peer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._working = threading.Lock()
        """Guards OpenSSL's state; never held while waiting for the network."""
        self._sending = threading.Lock()
        """Keeps records in order."""
        self._shake_hands()

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the other side's certificate, in hexadecimal."""
        return fingerprint_of(self._object.getpeercert(binary_form=True))

    def sendall(self, data: Octets) -> None:
        """Encrypt and send all octets of `data`. Raises OSError when the other side is gone."""
        rest = memoryview(data)
        with self._sending:
            while rest:
                part, rest = rest[:SEND_BYTES], rest[SEND_BYTES:]
                with self._working:
                    while part:
                        part = part[self._object.write(part) :]
                    sealed = self._outgoing.read()
                self._peer.sendall(sealed)

    def sendmsg(self, parts: Iterable[Octets]) -> int:
        """Encrypt and send all parts, in order; returns how many octets they have together."""
        data = b"".join(parts)
        self.sendall(data)
        return len(data)

    def recv_into(self, buffer: memoryview) -> int:
        """Wait for the first octet, then read the available ones that fit. Returns how many octets
        these were; 0 at the end."""
        while True:
            with self._working:
                count = self._read(buffer)
            if count is not None:
                return count
            data = self._peer.recv(RECEIVE_BYTES)
            if not data:
                return 0
            with self._working:
                self._incoming.write(data)

    def makefile(self, mode: str, buffering: int = io.DEFAULT_BUFFER_SIZE) -> io.BufferedReader:
        """Return a buffered stream that reads from the socket; `mode` must be "rb"."""
        assert mode == "rb"
        return io.BufferedReader(TlsSocketStream(self), buffering)

    def settimeout(self, seconds: float | None) -> None:
        self._peer.settimeout(seconds)

    def getsockname(self) -> tuple[str, int]:
        host, port = self._peer.getsockname()[:2]
        return host, port

    def shutdown(self, how: int) -> None:
        self._peer.shutdown(how)

    def close(self) -> None:
        self._peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, buffer: memoryview) -> int | None:
        """Decrypt into the buffer, and return how many octets; None when more must arrive first."""
        count = 0
        try:
            while count < len(buffer):  # a record each; typeshed has no number as the result
                count += cast("int", self._object.read(len(buffer), buffer[count:]))
        except ssl.SSLWantReadError:
            return count or None
        except ssl.SSLZeroReturnError:
            pass
        return count

    def _shake_hands(self) -> None:
        while True:
            try:
                self._object.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                is_done = False
            finally:  # an alert, after a failure
                self._peer.sendall(self._outgoing.read())
            if is_done:
                return
            data = self._peer.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the connection ends in the TLS handshake")
            self._incoming.write(data)


class TlsSocketStream(io.RawIOBase):
    """A raw stream that reads from a `TlsSocket`, which stays open when the stream is closed."""

    def __init__(self, peer: TlsSocket) -> None:
        self._peer = peer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return self._peer.recv_into(memoryview(buffer))


def ask_under_tls(peer: socket.socket, fingerprint: str) -> TlsSocket:
    """Begin TLS on a connection to the process with this certificate. Raises `Impostor` when the
    peer has another one, or does not begin TLS."""
    host, port = peer.getpeername()[:2]
    try:
        made = TlsSocket(peer, asking_context(), is_server=False)
    except (ssl.SSLError, ConnectionError) as error:
        raise Impostor(
            f"transferTls = true: {host}:{port} does not begin TLS as the process that gathers"
            f" does: {error}"
        ) from error
    if made.fingerprint != fingerprint:
        raise Impostor(
            f"transferTls = true: {host}:{port} has another certificate than the process that"
            f" gathers (SHA-256 {made.fingerprint[:16]}.., not {fingerprint[:16]}..): somebody"
            " stands between, or in its place"
        )
    return made
