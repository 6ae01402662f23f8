"""A process that has imported the broker and forks one for each test that asks, so that a broker is
ready in the time that it takes to start itself, without Python's.

Each request arrives on a socket: a JSON object, and with it the end of another socket, the broker's
line. The broker writes an object to its line whenever it is ready, and ends when the other end of
the line is closed, in order if it has been told to `stop` before.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import SluiceError
from sluicemq.host.data_dir import held
from sluicemq.host.descriptors import raise_limit
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.memory import tune_allocator
from sluicemq.host.memory_disk import MemoryFiles
from sluicemq.host.run import SWITCH_SECONDS
from sluicemq.testing.host import run
from sluicemq.testing.settings import configured

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST_BYTES_MAX: Final = 1 << 16
STOP: Final = b"stop\n"
"""What ends a broker in order."""


def main(number: int) -> None:
    """Serve requests on the socket with this descriptor."""
    serve(socket.socket(fileno=number))


def serve(asked: socket.socket) -> None:
    """Fork a broker for each request, until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a broker has ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the tests, which end their brokers
    gc.collect()
    gc.freeze()
    while True:
        request, lines, _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, 1)
        if not request:
            return
        if os.fork() == 0:
            asked.close()
            with socket.socket(fileno=lines[0]) as line:
                code = live(json.loads(request), line)
            os._exit(code)
        os.close(lines[0])


def live(request: dict[str, Any], line: socket.socket) -> int:
    """Be a broker until its line is closed. Returns the exit code."""
    tune_allocator()
    raise_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        config = configured(request["settings"])
        directory = config.storage.data_dir
        with asyncio.Runner(loop_factory=BrokerLoop) as runner:
            if directory is None:
                runner.run(run(config, MemoryFiles(), Line(line).ready))
            else:
                with held(Path(directory)):
                    runner.run(run(config, Path(directory), Line(line).ready))
    except SluiceError as error:
        line.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return 1
    return 0


class Line:
    """The broker's end of its line."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.stop: Callable[[], None] | None = None
        """Ends the broker in order; None before it is ready for the first time."""

    def ready(self, urls: list[str], stop: Callable[[], None]) -> None:
        """Tell that clients can connect; from now on `stop` ends the broker."""
        if self.stop is None:
            asyncio.get_running_loop().add_reader(self.line, self.heard)
        self.stop = stop
        self.line.sendall(json.dumps({"pid": os.getpid(), "urls": urls}).encode() + b"\n")

    def heard(self) -> None:
        """End: in order when that was asked for, at once when the line is closed."""
        if self.line.recv(REQUEST_BYTES_MAX) != STOP:
            os._exit(0)
        assert self.stop is not None
        asyncio.get_running_loop().remove_reader(self.line)
        self.stop()
