"""Brokers as processes that have nothing to import any more: copies (forks) of one that has.

A Python of its own takes a third of a second of CPU time until the broker listens, nearly all of it
for imports, and a test run starts hundreds. `Forked.start` asks a process beside the tests, which
runs this file and has imported the broker, to make one more copy of itself; a test sees of it what
it sees of a `subprocess.Popen`. Behind another program, such as strace, a broker is a Python of its
own, and so it is in tests/ctl/test_live.py.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

IMPORTED: Final = (
    "sluicemq.cli.start",
    "sluicemq.host.data_dir",
    "sluicemq.host.run",
    "sluicemq.broker.mirrored_queues",
    "sluicemq.chain.definitions.cluster_agreement",
    "sluicemq.chain.queue.quorum.births",
    "sluicemq.host.control_session",
    "sluicemq.manage.actions",
    "sluicemq.manage.gateway",
)
"""What a start imports, and then what brokers import when they are asked, or are in a cluster."""

REQUEST_BYTES: Final = 1 << 20
PR_SET_PTRACER: Final = 0x59616D61
PR_SET_PTRACER_ANY: Final = ctypes.c_ulong(-1)
TRACER_S: Final = 0.01
"""How long to wait between two looks for a tracer."""


class Origin:
    """The process that is copied. It is the parent of all copies and ends with the tests."""

    def __init__(self, sources: str) -> None:
        self.lock = Lock()
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": sources},
        )
        theirs.close()
        atexit.register(self.end)

    def ask(self, request: object, descriptors: Sequence[int] = ()) -> int:
        """The number it answers; only one test thread asks at a time."""
        with self.lock:
            socket.send_fds(self.line, [json.dumps(request).encode()], descriptors)
            answer = self.line.recv(REQUEST_BYTES)
        assert answer, "the process that starts brokers is gone"
        return int(answer)

    def end(self) -> None:
        self.line.close()
        self.process.wait()


@cache
def origin(sources: str) -> Origin:
    """The one that has imported the broker from there: one in each process of a test run, once it
    is needed."""
    return Origin(sources)


class Forked:
    """A process of Python, with what tests use of `subprocess.Popen`."""

    def __init__(self, origin: Origin, pid: int, stdout: BinaryIO | None) -> None:
        self.origin = origin
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self.tracer: subprocess.Popen[bytes] | None = None
        """Ends with it."""
        self._ends = os.pidfd_open(pid)
        """Readable when it has ended."""
        self._lock = Lock()

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        stdout: BinaryIO | None = None,
        stderr: BinaryIO,
        tracer: Sequence[str] = (),
    ) -> Forked:
        """`python ARGUMENTS`, which are those of a module (-m) or a file; the package is where
        PYTHONPATH ends. Without `stdout` what it prints can be read from the process. With a
        `tracer`, an strace without `-p`, it begins under that."""
        read = None
        if stdout is None:
            ours, theirs = os.pipe()
            read, stdout = os.fdopen(ours, "rb"), os.fdopen(theirs, "wb")
        request = {
            "arguments": list(arguments),
            "env": dict(env),
            "cwd": os.getcwd(),
            "is_traced": bool(tracer),
        }
        parent = origin(env["PYTHONPATH"].rpartition(os.pathsep)[2])
        pid = parent.ask(request, [stdout.fileno(), stderr.fileno()])
        if read is not None:
            stdout.close()
        found = cls(parent, pid, read)
        if tracer:
            found.tracer = subprocess.Popen([*tracer, "-p", str(pid)])
        return found

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._code_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a broker", timeout or 0)
        return code

    def _code_within(self, seconds: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._ends], [], [], seconds)[0]:
                os.close(self._ends)
                self.returncode = self.origin.ask({"ended": self.pid})
                if self.tracer is not None:
                    self.tracer.wait()
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing when it has ended: its number may be somebody else's."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def await_tracer() -> None:
    """Any process may trace this one from now on; return when one does."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)
    with Path("/proc/self/status").open() as status:
        while "TracerPid:\t0\n" in status.read():
            status.seek(0)
            time.sleep(TRACER_S)


def serve_requests(line: socket.socket) -> list[str]:
    """Make copies until the tests are over. In each copy return its arguments."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, REQUEST_BYTES, 2)
        if not data:
            sys.exit()
        request = json.loads(data)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                break
            for each in descriptors:
                os.close(each)
        line.send(str(answer).encode())
    line.close()
    for number, descriptor in enumerate(descriptors, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    os.chdir(request["cwd"])
    if request["is_traced"]:
        await_tracer()
    found: list[str] = request["arguments"]
    return found


def main() -> None:
    """Be copied; a copy goes on as the program that it was asked for."""
    gc.disable()  # as `serve` does while it imports
    for name in IMPORTED:
        import_module(name)
    first, *more = serve_requests(socket.socket(fileno=int(sys.argv[1])))
    if first == "-m":
        module, *more = more
        sys.argv = [module, *more]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *more]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
