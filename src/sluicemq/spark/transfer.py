"""How gathered chunks come to executors: a small server beside the driver, guarded by a token.

A request is one line, `{"token": .., "chunks": [..]}`; the answer is those chunks (`chunks.py`).
Whoever does not know the token, or asks for what is not there, gets nothing and is hung up on. The
token travels in Spark's own task descriptions.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import IO, Final, cast

from sluicemq.spark.chunks import Chunk, Fetched, read_chunk

REQUEST_MAX_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 60.0
"""For a peer that does not read, or does not ask."""

BUFFER_BYTES: Final = 1024 * 1024


class ChunkServer:
    """Chunks by number; `offer` and `withdraw` are for the planner's thread."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_hex(16)
        self._chunks: dict[int, Chunk] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server((host, 0), family=family)
        self.address: tuple[str, int] = (host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="amqp chunks", daemon=True).start()

    def offer(self, chunk: Chunk) -> int:
        """Give a chunk its number."""
        self._next += 1
        self._chunks[self._next] = chunk
        self._numbers[id(chunk)] = self._next
        return self._next

    def withdraw(self, chunks: Iterable[Chunk]) -> None:
        """Forget chunks."""
        for chunk in chunks:
            number = self._numbers.pop(id(chunk), None)
            if number is not None:
                del self._chunks[number]

    def close(self) -> None:
        """Answer no more."""
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
                with peer.makefile("rb") as stream:
                    asked = json.loads(stream.readline(REQUEST_MAX_BYTES))
                if not hmac.compare_digest(str(asked["token"]), self.token):
                    return
                for number in asked["chunks"]:
                    chunk = self._chunks[number]
                    sizes, data = chunk.blocks()
                    peer.sendall(chunk.head())
                    peer.sendall(sizes)
                    peer.sendall(data)
            except (OSError, ValueError, KeyError, TypeError):
                return


def fetch(address: tuple[str, int], token: str, chunks: list[int]) -> Iterator[Fetched]:
    """Those chunks. OSError: the driver's side cannot be reached; EOFError: it has them no more."""
    with socket.create_connection(address, PATIENCE_S) as peer:
        peer.sendall(json.dumps({"token": token, "chunks": chunks}).encode() + b"\n")
        with peer.makefile("rb", BUFFER_BYTES) as stream:
            for _ in chunks:
                yield read_chunk(cast("IO[bytes]", stream))
