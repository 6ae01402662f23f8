"""The management process: binds its sockets, and serves until a signal.

It bounds what HTTP clients can make it hold: the connections, the time for a request's head, and
the time in which a client has to read an answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sluicemq.errors import Refused
from sluicemq.management.app import ManagementApp
from sluicemq.management.desk import Desk

if TYPE_CHECKING:
    from sluicemq.config import Config

CONNECTIONS_MAX: Final = 512
"""Connections of HTTP at a time; further ones are closed at once."""

HEAD_SECONDS: Final = 10.0
"""The most seconds for the head of a request, from connecting or from its first byte."""

STALLED_SECONDS: Final = 20.0
"""The most seconds for which the socket of a reader may be full before it is disconnected."""

KEEP_ALIVE_SECONDS: Final = 30
HEAD_BYTES_MAX: Final = 64 << 10
STOP_SECONDS: Final = 3
BACKLOG: Final = 128


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which is cut off when its client is too slow."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
        else:
            self.arm(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take bytes: the head of a request has to arrive in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.disarm()
        elif self.timer is None:
            self.arm(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, now that it is closed."""
        self.disarm()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client some time to read, now that its socket is full."""
        super().pause_writing()
        self.arm(STALLED_SECONDS)

    def resume_writing(self) -> None:
        """Stop the timer, because the client has read enough."""
        self.disarm()
        super().resume_writing()

    def arm(self, seconds: float) -> None:
        """Cut the connection off in so many seconds, unless it is disarmed before."""
        self.disarm()
        self.timer = asyncio.get_running_loop().call_later(seconds, self.cut_off)

    def disarm(self) -> None:
        """Stop the timer that would cut the connection off."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cut_off(self) -> None:
        """Close the connection at once, unless it belongs to a WebSocket now."""
        if self.transport.get_protocol() is self:
            self.transport.abort()


class QuietServer(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals, because the process handles them for all its servers."""
        yield


def bound(host: str, port: int, option: str) -> socket.socket:
    """Return a listening socket. Raises Refused, which names `option`, when that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Refused(f"{option} = {port}: cannot listen at {host}: {error.strerror}") from error
    made.setblocking(False)
    return made


class ManagementServer:
    """The servers of one process, one for each socket."""

    def __init__(self, config: Config, broker_port: int) -> None:
        self.config = config
        self.desk = Desk(config, broker_port)
        self.app = ManagementApp(self.desk)
        self.servers: list[tuple[QuietServer, socket.socket]] = []

    def listen(self) -> list[str]:
        """Bind all sockets and return the URLs. Raises Refused when that fails."""
        own, metrics = self.config.management, self.config.prometheus
        self.add(bound(own.host, own.port, "management.tcp.port"), "http")
        if own.ssl_port is not None:
            host = own.ssl_host or own.host
            self.add(bound(host, own.ssl_port, "management.ssl.port"), "https")
        if metrics.port is not None:
            listening = bound(metrics.host, metrics.port, "prometheus.tcp.port")
            self.add(listening, "http/prometheus")
        return [
            f"{protocol.partition('/')[0]}://{host}:{port}"
            for protocol, host, port in self.desk.listeners
        ]

    def add(self, listening: socket.socket, protocol: str) -> None:
        """Serve requests at a socket: all, or only those for metrics."""
        host, port = listening.getsockname()[:2]
        self.desk.listeners.append((protocol, host, port))
        more: dict[str, Any] = {}
        if protocol == "https":
            own = self.config.management
            more = {
                "ssl_certfile": own.certfile,
                "ssl_keyfile": own.keyfile,
                "ssl_keyfile_password": own.password,
            }
        config = uvicorn.Config(
            self.app.metrics_only if protocol == "http/prometheus" else self.app,
            interface="asgi3",
            http=BoundedProtocol,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            **more,
        )
        try:
            config.load()
        except OSError as error:
            raise Refused(f"management.ssl.certfile: cannot be used: {error}") from error
        self.servers.append((QuietServer(config), listening))

    async def run(self, until_input_ends: bool) -> None:
        """Serve until SIGTERM or SIGINT; with `until_input_ends` also until standard input is
        closed, which tells that the process that started this one is gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if until_input_ends:
            loop.add_reader(sys.stdin.fileno(), self.look_at_input)
        sampling = asyncio.create_task(self.desk.sampler.run())
        async with asyncio.TaskGroup() as group:
            for server, listening in self.servers:
                group.create_task(server.serve([listening]))
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling

    def look_at_input(self) -> None:
        """Stop when standard input is closed; ignore what is written to it."""
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.stop()

    def stop(self) -> None:
        """End all servers: they take no new requests, and finish those in progress for a moment."""
        for server, _ in self.servers:
            server.should_exit = True


def serve(config: Config, broker_port: int, until_input_ends: bool) -> None:
    """Serve until a signal or the end of input, and print the URLs on standard output. Raises
    Refused when it cannot listen."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the application has its own log

    async def main() -> None:
        server = ManagementServer(config, broker_port)
        print("management", *server.listen(), flush=True)
        await server.run(until_input_ends)

    asyncio.run(main())
