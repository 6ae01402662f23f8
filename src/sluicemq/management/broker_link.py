"""Sends commands to the broker over its control socket, on connections that stay open.

At most LINKS_MAX commands are under way at a time; further ones wait. A broker that restarts is
found again, because its port determines the path of the socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any, Final

from sluicemq.host.control_path import sockets_to_try
from sluicemq.management.api_error import BrokerAway, BrokerRefused

LINKS_MAX: Final = 8
ANSWER_SECONDS: Final = 60.0
"""How long a page of an answer may take: changes wait for the disk."""

LINE_BYTES_MAX: Final = 256 << 20
"""The largest line of an answer: the broker sends all its definitions in one."""

PEER: Final = struct.Struct("3i")


class BrokerConnection:
    """One open connection to the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def pid(self) -> int:
        """The id of the process at the other end."""
        plain = self.writer.get_extra_info("socket")
        peer = plain.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        return int(PEER.unpack(peer)[0])

    async def line(self) -> dict[str, Any]:
        """Return the broker's next line. Raises BrokerAway when there is none."""
        line = await asyncio.wait_for(self.reader.readline(), ANSWER_SECONDS)
        if not line.endswith(b"\n"):
            raise BrokerAway("the broker has closed the connection")
        found: dict[str, Any] = json.loads(line)
        return found


class BrokerLink:
    """Sends commands to the broker on `port`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.idle: list[BrokerConnection] = []
        self.room = asyncio.Semaphore(LINKS_MAX)
        self.pid = 0
        """The process id of the broker at the last connection; 0 before the first."""

    async def ask(self, command: str, /, **arguments: object) -> list[Any]:
        """Return the rows of an answer, all of its pages. Raises BrokerRefused with the broker's
        words, and BrokerAway when it does not answer."""
        rows: list[Any] = []
        async for page in self.pages(command, **arguments):
            rows += page
        return rows

    async def pages(self, command: str, /, **arguments: object) -> AsyncIterator[list[Any]]:
        """Yield the pages of an answer as they come; raises as `ask` does."""
        request = json.dumps({"command": command, "arguments": arguments}).encode() + b"\n"
        async with self.room:
            connection = await self.connection()
            is_whole = False
            try:
                connection.writer.write(request)
                answer = await connection.line()
                while answer.get("more"):
                    yield answer["rows"]
                    answer = await connection.line()
                is_whole = True
            except (OSError, ValueError, TimeoutError) as error:
                raise BrokerAway(str(error) or "the broker does not answer in time") from error
            finally:
                if is_whole:
                    self.idle.append(connection)
                else:
                    connection.writer.close()
        if not answer["ok"]:
            raise BrokerRefused(answer["error"], answer.get("code", 70))
        yield answer["rows"]

    async def connection(self) -> BrokerConnection:
        """Return an open connection that nobody uses. Raises BrokerAway when there is none."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.reader.at_eof():
                return connection
            connection.writer.close()
        for path in sockets_to_try(self.port, os.environ, os.getuid()):
            try:
                streams = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
            except OSError:
                continue
            connection = BrokerConnection(*streams)
            self.pid = connection.pid
            return connection
        raise BrokerAway(f"no SluiceMQ broker of this user answers on port {self.port}")
