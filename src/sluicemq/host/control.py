"""The broker's end of the control socket: where `sluicemq ctl` connects."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sluicemq.errors import Refused
from sluicemq.host.control_path import socket_to_bind
from sluicemq.limits import CONTROL_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sluicemq.host.control_session import BeginCommand, BegunCommand, ControlSession
    from sluicemq.manage.task import Action, Reply
    from sluicemq.node import Node


async def answers(path: Path) -> bool:
    """Tell whether a broker listens on the socket file; a file that a killed broker has left does
    not answer."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


def all_commands() -> Mapping[str, Action]:
    """Return the actions by command name: those of `sluicemq ctl`, and those that the management
    process uses."""
    from sluicemq.manage.actions import ACTIONS  # noqa: PLC0415 (when somebody asks)
    from sluicemq.manage.gateway import GATEWAY  # noqa: PLC0415

    return {**ACTIONS, **GATEWAY}


def commands_of(
    node: Node, commands: Callable[[], Mapping[str, Action]] = all_commands
) -> BeginCommand:
    """Return a function that begins the commands of that node that `commands` then returns."""

    def begin(command: str, arguments: Mapping[str, Any], reply: Reply) -> BegunCommand:
        from sluicemq.manage.task import start  # noqa: PLC0415 (when somebody asks)

        return start(node, commands(), command, arguments, reply)

    return begin


class ControlServer:
    """Answers one request a line on the control socket, by calling `begin`. Only the socket's owner
    can reach it (see control_path)."""

    def __init__(self, begin: BeginCommand, port: int) -> None:
        self.begin = begin
        self.port = port
        self.path: Path
        self.server: asyncio.Server
        self.session: ControlSession | None = None
        """Answers clients; None before the first one comes."""

    async def start(self) -> None:
        """Listen, in place of a socket file that a killed broker has left. Raises Refused while
        another broker answers there: it has the same port, at another address."""
        path = socket_to_bind(self.port, os.environ, os.getuid())
        if await answers(path):
            raise Refused(
                f"another broker of this user uses port {self.port}, at another address, and the"
                f" control socket {path}: give one of them another port, or another"
                " XDG_RUNTIME_DIR, which `sluicemq ctl` needs then, too"
            )
        self.path = path
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.server = await asyncio.start_unix_server(
            self.serve, path=self.path, limit=CONTROL_REQUEST_BYTES
        )

    async def stop(self) -> None:
        """Stop listening and remove the socket file."""
        self.server.close()
        with suppress(FileNotFoundError):
            self.path.unlink()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client of the control socket until it hangs up."""
        if self.session is None:
            from sluicemq.host.control_session import ControlSession  # noqa: PLC0415 (as above)

            self.session = ControlSession(self.begin)
        await self.session.serve(reader, writer)
