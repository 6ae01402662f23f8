"""The broker's end of the control socket: JSON lines for `sluicemq ctl`."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused
from sluicemq.host.control_path import socket_to_bind
from sluicemq.limits import CONTROL_REQUEST_BYTES, CONTROL_ROWS, CONTROL_TASKS_MAX
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.command import LATER, USAGE
from sluicemq.manage.task import Answer, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sluicemq.node import Node


LOOK_SECONDS: Final = 1.0
"""How often to look whether a client that waits for an answer is still there."""


def parts(answer: Answer) -> Iterator[bytes]:
    """The answer as a line of JSON. A long one is made part by part: others wait meanwhile."""
    rows = answer.rows
    if len(rows) <= CONTROL_ROWS:
        yield json.dumps(answer.as_json()).encode() + b"\n"
        return
    before = b'{"ok": true, "rows": ['
    for first in range(0, len(rows), CONTROL_ROWS):
        yield before + json.dumps(rows[first : first + CONTROL_ROWS])[1:-1].encode()
        before = b", "
    yield b"]}\n"


async def answers(path: Path) -> bool:
    """Does anybody listen there? A file that a killed broker has left does not."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


class ControlServer:
    """Answers one question a line. Whoever can reach the socket is its owner (see control_path)."""

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port
        self.path: Path
        self.server: asyncio.Server
        self.tasks = 0
        """Commands that have not been answered."""

    async def start(self) -> None:
        """Listen; a socket file left by a broker that was killed is replaced. Refused while another
        broker answers there: it has the same port, at another address."""
        path = socket_to_bind(self.port, os.environ, os.getuid())
        if await answers(path):
            raise Refused(
                f"another broker of this user has port {self.port}, at another address, and its"
                f" control socket {path}: give one of them another port, or another"
                " XDG_RUNTIME_DIR, which `sluicemq ctl` must then see too"
            )
        self.path = path
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.server = await asyncio.start_unix_server(
            self.serve, path=self.path, limit=CONTROL_REQUEST_BYTES
        )

    async def stop(self) -> None:
        """Stop listening and take the socket file away."""
        self.server.close()
        with suppress(FileNotFoundError):
            self.path.unlink()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client of the control socket."""
        with suppress(ConnectionError):
            while line := await self.line(reader):
                answer = await self.answer(line, reader)
                for part in parts(answer):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)  # the broker's turn
        writer.close()

    async def line(self, reader: asyncio.StreamReader) -> bytes:
        """The next request; of one that is too long, something that is none."""
        try:
            return await reader.readline()
        except ValueError:
            return b"too long"

    async def answer(self, line: bytes, reader: asyncio.StreamReader) -> Answer:
        """What is asked for, or why not; of a change, when it is durable.

        On a full disk that is when there is space again. Who has gone by then is not waited for.
        """
        if self.tasks >= CONTROL_TASKS_MAX:
            return Answer((), "too many commands wait for the disk already", LATER)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            request = json.loads(line)
            command, arguments = str(request["command"]), dict(request.get("arguments", {}))
        except (ValueError, KeyError, TypeError, RecursionError):
            return Answer((), 'a request is {"command": ..., "arguments": {...}}', USAGE)

        def reply(answer: Answer) -> None:
            if not answered.done():  # it is, when the broker stops meanwhile
                answered.set_result(answer)

        self.tasks += 1
        try:
            start(self.node, ACTIONS, command, arguments, reply)
            while not answered.done():
                await asyncio.wait((answered,), timeout=LOOK_SECONDS)
                if reader.at_eof() and not answered.done():
                    raise ConnectionAbortedError
            return answered.result()
        finally:
            self.tasks -= 1
