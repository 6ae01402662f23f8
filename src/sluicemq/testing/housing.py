"""Where a broker under test lives: in a process of its own, or in a thread of this one."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.host.data_dir import held
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.memory_disk import MemoryFiles
from sluicemq.testing.endpoint import BrokerFailed
from sluicemq.testing.host import run
from sluicemq.testing.settings import configured
from sluicemq.testing.template import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

READY_SECONDS: Final = 60.0
"""How long a broker may take to be ready; a start takes a twentieth of a second."""

END_SECONDS: Final = 60.0


class Templates:
    """The one template process (`template.py`) of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner = 0
        """The process that has started it: after a fork it is not ours."""
        self.asked: socket.socket

    def fork(self, settings: list[str]) -> socket.socket:
        """Have a broker forked, and return our end of its socket."""
        with self.lock:
            if self.owner != os.getpid():
                self.start()
            here, there = socket.socketpair()
            with there:
                request = json.dumps({"settings": settings}).encode()
                socket.send_fds(self.asked, [request], [there.fileno()])
            return here

    def start(self) -> None:
        """Start the process. It ends when this one does."""
        self.asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            program = (
                f"import sys; sys.path[:] = {sys.path!r}\n"
                f"from sluicemq.testing.template import main; main({number})"
            )
            command = [sys.executable, "-c", program]
            process = subprocess.Popen(
                command, pass_fds=[number], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.owner = os.getpid()
        atexit.register(self.end, process)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End the template process, and with it the brokers that it has forked."""
        if self.owner == os.getpid():
            self.asked.close()
            process.wait()


TEMPLATES: Final = Templates()


class Housing:
    """A broker's housing: `start` it, then `urls` waits until it is ready, each time it starts
    again."""

    def start(self, settings: list[str]) -> None:
        """Begin a broker with these settings."""
        raise NotImplementedError

    def urls(self) -> list[str]:
        """Wait until the broker is ready, and return its URLs. Raises BrokerFailed when it could
        not start."""
        raise NotImplementedError

    def kill(self) -> bool:
        """Kill the broker as `kill -9` does, and return True; False when that is only possible from
        inside."""
        return False

    def stop(self) -> None:
        """End the broker, and wait until it has ended."""
        raise NotImplementedError


class OwnProcess(Housing):
    """A process of its own. `is_orderly` tells that it must leave its data on the disk when it
    ends."""

    def __init__(self, is_orderly: bool) -> None:
        self.is_orderly = is_orderly
        self.pid = 0
        self.line: socket.socket

    def start(self, settings: list[str]) -> None:
        self.line = TEMPLATES.fork(settings)
        self.line.settimeout(READY_SECONDS)
        self.told = self.line.makefile("rb")

    def urls(self) -> list[str]:
        try:
            line = self.told.readline()
        except TimeoutError:
            text = f"the broker was not ready within {READY_SECONDS:.0f} s"
            raise BrokerFailed(text) from None
        said: dict[str, Any] = json.loads(line) if line else {"error": "the broker has died"}
        if "error" in said:
            raise BrokerFailed(said["error"])
        self.pid = said["pid"]
        urls: list[str] = said["urls"]
        return urls

    def kill(self) -> bool:
        if not self.is_orderly:
            return False  # its data in memory would be lost
        os.kill(self.pid, signal.SIGKILL)
        self.until_ended()
        return True

    def stop(self) -> None:
        if self.is_orderly:
            with suppress(OSError):  # it has died
                self.line.sendall(STOP)
            self.until_ended()
        self.told.close()
        self.line.close()

    def until_ended(self) -> None:
        """Wait for the end of the process, which closes its socket."""
        self.line.settimeout(END_SECONDS)
        while self.told.readline():
            pass


class Readiness(NamedTuple):
    """Tells that a broker in a thread is ready, or why it is not."""

    urls: list[str]
    error: BaseException | None = None


class OwnThread(Housing):
    """A thread of this process, with an event loop of its own."""

    def __init__(self) -> None:
        self.told: SimpleQueue[Readiness] = SimpleQueue()
        self.end: Callable[[], object] | None = None
        """Ends the broker, called in any thread; None before it is ready."""

    def start(self, settings: list[str]) -> None:
        config = configured(settings)
        directory = config.storage.data_dir

        def ready(urls: list[str], stop: Callable[[], None]) -> None:
            loop = asyncio.get_running_loop()
            self.end = lambda: loop.call_soon_threadsafe(stop)
            self.told.put(Readiness(urls))

        def live() -> None:
            try:
                with ExitStack() as holding, asyncio.Runner(loop_factory=BrokerLoop) as runner:
                    if directory is None:
                        runner.run(run(config, MemoryFiles(), ready))
                    else:
                        holding.enter_context(held(Path(directory)))
                        runner.run(run(config, Path(directory), ready))
            except BaseException as error:
                self.told.put(Readiness([], error))

        self.thread = threading.Thread(target=live, name="sluicemq broker", daemon=True)
        self.thread.start()

    def urls(self) -> list[str]:
        try:
            said = self.told.get(timeout=READY_SECONDS)
        except Empty:
            text = f"the broker was not ready within {READY_SECONDS:.0f} s"
            raise BrokerFailed(text) from None
        if said.error is not None:
            raise BrokerFailed(str(said.error)) from said.error
        return said.urls

    def stop(self) -> None:
        if self.end is not None:
            self.end()
        self.thread.join(END_SECONDS)
