"""Transfers gathered chunks to executors: a small server beside the driver, guarded by a token.

A request is one line, `{"token": .., "chunks": [..]}`; the answer is those chunks (`chunks.py`).
The server closes connections without the token, or that ask for chunks it does not have. The token
travels in Spark's own task descriptions, and with TLS (`transfer_tls.py`) the certificate's hash
with it. `consumer_assignment.py` answers all other requests to the planner's server.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from sluicemq.spark.chunks import ChunkReader, FetchedChunk, GatheredChunk
from sluicemq.spark.raw_contents import Octets
from sluicemq.spark.transfer_tls import TlsSocket, ask_under_tls, make_identity

REQUEST_MAX_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 60.0
"""Seconds to wait for a peer's request or answer."""

BUFFER_BYTES: Final = 64 * 1024

PARTS_AT_ONCE: Final = 512
"""Buffers in one system call; Linux takes 1024."""

Peer = socket.socket | TlsSocket


class Endpoint(NamedTuple):
    """The address of a process that hands out chunks. Each request must contain `token`.
    `certificate` is the SHA-256 of the process's certificate, in hexadecimal; empty when it has no
    TLS."""

    host: str
    port: int
    token: str
    certificate: str


class ChunkServer:
    """Hands out chunks by number, at the address `bind` (empty: `host`), which others reach as
    `host`; port 0 takes any free port. Only one thread at a time may call `offer` and `withdraw`.
    The constructor raises OSError when it cannot listen."""

    def __init__(self, host: str, bind: str = "", port: int = 0, *, has_tls: bool = False) -> None:
        self._identity = make_identity() if has_tls else None
        self.answer: Callable[[dict[str, Any], Peer], None] | None = None
        """Answers requests for anything but chunks."""
        self._chunks: dict[int, GatheredChunk] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        bind = bind or host
        family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server((bind, port), family=family)
        port = self._listener.getsockname()[1]
        certificate = "" if self._identity is None else self._identity.fingerprint
        self.endpoint = Endpoint(host, port, secrets.token_hex(16), certificate)
        threading.Thread(target=self._accept, name="amqp chunks", daemon=True).start()

    def offer(self, chunk: GatheredChunk) -> int:
        """Make the chunk available, and return the number by which it is fetched."""
        self._next += 1
        self._chunks[self._next] = chunk
        self._numbers[id(chunk)] = self._next
        return self._next

    def chunk(self, number: int) -> GatheredChunk:
        """Return the chunk with that number; raises KeyError when there is none."""
        return self._chunks[number]

    def withdraw(self, chunks: Iterable[GatheredChunk]) -> None:
        """Forget these chunks, which can then no longer be fetched. Unknown ones are ignored."""
        for chunk in chunks:
            number = self._numbers.pop(id(chunk), None)
            if number is not None:
                del self._chunks[number]

    def close(self) -> None:
        """Forget all chunks and stop listening."""
        self._chunks.clear()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            peer.settimeout(PATIENCE_S)
            try:
                if self._identity is None:
                    self._talk(peer)
                else:
                    self._talk(TlsSocket(peer, self._identity.context, is_server=True))
            except (OSError, ValueError, KeyError, TypeError):
                return

    def _talk(self, peer: Peer) -> None:
        with peer.makefile("rb") as stream:
            asked = json.loads(stream.readline(REQUEST_MAX_BYTES))
        if not hmac.compare_digest(str(asked["token"]), self.endpoint.token):
            return
        if self.answer is not None and "chunks" not in asked:
            self.answer(asked, peer)
            return
        # A task waits while its sink does, whose broker may be away. A task whose machine is gone
        # leaves TCP without an answer, which ends this, too.
        peer.settimeout(None)
        for number in asked["chunks"]:
            chunk = self._chunks[number]
            send_all(peer, [chunk.head(), *chunk.blocks()])


def send_all(peer: Peer, parts: list[Octets]) -> None:
    """Send all parts, in order, to the peer. Raises OSError when it is gone."""
    rest: deque[memoryview] = deque(memoryview(part) for part in parts)
    while rest:
        sent = peer.sendmsg(list(islice(rest, PARTS_AT_ONCE)))
        while rest and sent >= len(rest[0]):
            sent -= len(rest.popleft())
        if sent:
            rest[0] = rest[0][sent:]


def reach(endpoint: Endpoint, patience_s: float) -> Peer:
    """Connect to the process at that address, under TLS if it has a certificate, with `patience_s`
    seconds for each step. Raises OSError when no process answers, `Impostor` when another one does.
    """
    peer = socket.create_connection((endpoint.host, endpoint.port), patience_s)
    if not endpoint.certificate:
        return peer
    try:
        return ask_under_tls(peer, endpoint.certificate)
    except OSError:
        peer.close()
        raise


def fetch(endpoint: Endpoint, chunks: list[int]) -> Iterator[FetchedChunk]:
    """Yield the chunks with these numbers, in order; each is valid until the next one is fetched.
    Raises OSError when the process cannot be reached, EOFError when it no longer has a chunk."""
    with reach(endpoint, PATIENCE_S) as peer:
        peer.sendall(json.dumps({"token": endpoint.token, "chunks": chunks}).encode() + b"\n")
        with peer.makefile("rb", BUFFER_BYTES) as stream:
            reader = ChunkReader(cast("BufferedReader", stream))
            for _ in chunks:
                yield reader.read()
