"""The broker's end of the control socket: JSON lines for `sluicemq ctl`."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sluicemq.errors import Refused
from sluicemq.host.control_path import socket_to_bind
from sluicemq.manage.views import rows

if TYPE_CHECKING:
    from pathlib import Path

    from sluicemq.node import Node

REQUEST_BYTES_MAX = 1 << 16


class ControlServer:
    """Answers one question a line. Whoever can reach the socket is its owner (see control_path)."""

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port
        self.path: Path
        self.server: asyncio.Server

    async def start(self) -> None:
        """Listen; a socket file left by a broker that was killed is replaced."""
        self.path = socket_to_bind(self.port, os.environ, os.getuid())
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.server = await asyncio.start_unix_server(
            self.serve, path=self.path, limit=REQUEST_BYTES_MAX
        )

    async def stop(self) -> None:
        """Stop listening and take the socket file away."""
        self.server.close()
        with suppress(FileNotFoundError):
            self.path.unlink()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client of the control socket."""
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                writer.write(json.dumps(self.answer(line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    def answer(self, line: bytes) -> dict[str, Any]:
        """What is asked for, or why not."""
        try:
            request = json.loads(line)
            found = rows(self.node, str(request["command"]), dict(request.get("arguments", {})))
        except Refused as error:
            return {"ok": False, "error": str(error)}
        except (ValueError, KeyError, TypeError):
            return {"ok": False, "error": 'a request is {"command": ..., "arguments": {...}}'}
        return {"ok": True, "rows": found}
