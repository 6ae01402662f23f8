"""Live updates: a WebSocket that sends a page the answers to some GETs of the API, at most once a
second, and only those that have changed.

The page sends {"watch": ["overview", ...]}. It gets only what its user may see. The socket is
closed when the session has ended, or the page does not read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from sluicemq.management.api_error import ApiError, BrokerAway, BrokerRefused
from sluicemq.management.call import as_json
from sluicemq.management.sign_in import SignIn, Visitor

SOCKETS_MAX: Final = 100
WATCHED_MAX: Final = 4
MESSAGE_BYTES_MAX: Final = 4096
INTERVAL_S: Final = 1.0
SEND_SECONDS: Final = 20.0
CLOSE_REFUSED: Final = 4401
CLOSE_TOO_MANY: Final = 1013

Fetch = Callable[[Visitor, str], Awaitable[Any]]


class LiveUpdates:
    """Serves all live sockets. `fetch` answers one GET of the API for a user."""

    def __init__(self, sign_in: SignIn, fetch: Fetch) -> None:
        self.sign_in = sign_in
        self.fetch = fetch
        self.count = 0

    async def serve(self, socket: WebSocket) -> None:
        """Serve one page until it closes the socket, its session ends, or it stops reading."""
        await socket.accept()
        if self.count >= SOCKETS_MAX:
            await socket.close(CLOSE_TOO_MANY)
            return
        if not is_own_origin(socket) or self.sign_in.of_session(socket) is None:
            await socket.close(CLOSE_REFUSED)
            return
        self.count += 1
        watch: list[str] = []
        telling = asyncio.create_task(self.tell(socket, watch))
        try:
            while True:
                watch[:] = watched(await socket.receive_text())
        except (WebSocketDisconnect, ValueError, KeyError, RuntimeError):
            return  # the page has gone, or sends something that our page does not
        finally:
            self.count -= 1
            telling.cancel()

    async def tell(self, socket: WebSocket, watch: list[str]) -> None:
        """Send a page the answers that it watches, while it is logged in."""
        told: dict[str, str] = {}
        try:
            while True:
                for path in [*watch]:
                    look = await self.look(socket, path)
                    text = as_json({"path": path, **look}).decode()
                    if told.get(path) != text:
                        told = {each: told[each] for each in watch if each in told} | {path: text}
                        await asyncio.wait_for(socket.send_text(text), SEND_SECONDS)
                await asyncio.sleep(INTERVAL_S if watch else INTERVAL_S / 10)
        except (ApiError, TimeoutError, RuntimeError, WebSocketDisconnect):
            await close_quietly(socket)

    async def look(self, socket: WebSocket, path: str) -> dict[str, Any]:
        """Return the answer to one GET, or the error. Raises ApiError when the session is over."""
        try:
            visitor = await self.sign_in.visitor(socket)
        except (BrokerAway, BrokerRefused) as error:
            return {"error": str(error)}
        try:
            return {"answer": await self.fetch(visitor, path)}
        except (ApiError, BrokerAway, BrokerRefused) as error:
            return {"error": str(error)}


async def close_quietly(socket: WebSocket) -> None:
    """Close a socket that may be closed already."""
    try:
        await socket.close(CLOSE_REFUSED)
    except (RuntimeError, WebSocketDisconnect):
        return


def watched(text: str) -> list[str]:
    """Return the paths that a page wants to watch. Raises ValueError for an invalid request."""
    if len(text) > MESSAGE_BYTES_MAX:
        raise ValueError("too long")
    paths = json.loads(text)["watch"]
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("no list of paths")
    return paths[:WATCHED_MAX]


def is_own_origin(socket: WebSocket) -> bool:
    """Tell whether our own page asks: other sites can have browsers open sockets here."""
    origin = socket.headers.get("origin", "")
    return origin.partition("://")[2] == socket.headers.get("host", "")
