"""Sends a command to a running broker over its control socket: one JSON line there, one JSON line
back for each page of the answer.

{"command": "list_queues", "arguments": {"columns": ["name", "messages"]}}
{"ok": true, "rows": [{"name": "orders", "messages": 12}]}      or
{"ok": false, "error": "there is no virtual host /other", "code": 65}

A page that others follow also has "more": true.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

from sluicemq.errors import Refused
from sluicemq.host.control_path import runtime_dirs, socket_name, sockets_to_try
from sluicemq.manage.command import LATER, SOFTWARE, UNAVAILABLE, CommandRefused

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest answer in bytes: a broker with a million queues stays well below it, so anything
larger does not come from our broker."""

Row = dict[str, Any]


class Unavailable(Refused):
    """No broker listens on the control socket, or it cannot be reached."""

    exit_code = UNAVAILABLE


class TimedOut(Refused):
    """The broker did not answer in time; it may still carry out the command."""

    exit_code = LATER


def ask(
    port: int,
    command: str,
    arguments: Mapping[str, object],
    timeout_s: float,
    of_health: bool = False,
) -> list[Row]:
    """Return the rows that the broker on `port` answers. Raises Refused with the broker's own
    words, Unavailable or TimedOut. Every answer has been through the broker's scheduler. With
    `of_health` a late answer raises Unavailable."""
    with _connected(port, timeout_s) as connection:
        try:
            return answer(connection, port, command, arguments)
        except TimeoutError:
            late = f"did not answer within {timeout_s:g} s"
            if of_health:
                text = f"the broker on port {port} is not well: it accepts connections, but {late}"
                raise Unavailable(text) from None
            raise TimedOut(f"the broker on port {port} {late}") from None
        except OSError as error:
            raise Unavailable(
                f"the broker on port {port} broke the connection off: {error.strerror}"
            ) from error


def answer(
    connection: socket.socket, port: int, command: str, arguments: Mapping[str, object]
) -> list[Row]:
    """Send a command to the broker on `port` over a connection to its control socket, and return
    the rows of its answer. Raises Refused with the broker's own words, and OSError when the
    connection breaks, or exceeds its timeout."""
    request = json.dumps({"command": command, "arguments": arguments}).encode() + b"\n"
    connection.sendall(request)
    rows: list[Row] = []
    more = True
    with connection.makefile("rb") as lines:
        while more:
            page, more = _page(port, lines.readline(ANSWER_BYTES_MAX))
            rows += page
    return rows


def _connected(port: int, timeout_s: float) -> socket.socket:
    for path in sockets_to_try(port, os.environ, os.getuid()):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            continue
        return connection
    places = ", ".join(str(p / socket_name(port)) for p in runtime_dirs(os.environ, os.getuid()))
    raise Unavailable(
        f"no SluiceMQ broker of this user answers on port {port} (looked for {places}).\n"
        f"Start one with `sluicemq serve --port {port}`, or name another port with --port"
        " or SLUICEMQ_PORT."
    )


def _page(port: int, line: bytes) -> tuple[list[Row], bool]:
    try:
        answer = json.loads(line)
        if answer["ok"]:
            rows: list[Row] = answer["rows"]
            return rows, "more" in answer
        error, code = str(answer["error"]), int(answer.get("code", SOFTWARE))
    except (ValueError, KeyError, TypeError):
        raise Unavailable(
            f"what answers on port {port} is not a SluiceMQ of this version"
        ) from None
    raise CommandRefused(error, code)
