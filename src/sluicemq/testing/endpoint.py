"""Where a broker under test is reached: its port, its URLs, and its control socket."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sluicemq.cli.control_client import answer
from sluicemq.errors import Refused
from sluicemq.host.control_path import sockets_to_try

if TYPE_CHECKING:
    from sluicemq.cli.control_client import Row

ANSWER_SECONDS: Final = 60.0
"""How long the broker may take to do what a test asks of it."""


class BrokerFailed(Refused):
    """The broker under test could not start, has died, or is not running."""


class BrokerEndpoint:
    """A broker, as others reach it."""

    def __init__(self) -> None:
        self.port = 0
        """The port that clients connect to; 0 before the start. It stays the same."""

    @property
    def url(self) -> str:
        """Return the URL that clients connect to, with user, password and the virtual host `/`."""
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        """Return the URL of a virtual host, with user and password."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{quote(vhost, safe='')}"

    def ask(self, command: str, **arguments: Any) -> list[Row]:
        """Run a command of `sluicemq ctl`, and return its rows: `ask("list_queues",
        columns=["name"])`. Raises Refused with the broker's words."""
        for path in sockets_to_try(self.port, os.environ, os.getuid()):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(ANSWER_SECONDS)
                with suppress(FileNotFoundError, ConnectionRefusedError):
                    connection.connect(str(path))
                    return answer(connection, self.port, command, arguments)
        raise BrokerFailed("the broker is not running")
