"""The entry of a worker process: `python -m sluicemq.lab.process FD`, or `... HOST:PORT`.

The conductor starts it with one end of a pipe as an inherited descriptor. It is a plain process in
a session of its own, so Ctrl-C reaches the conductor alone. Another engine starts it with the
conductor's address, and writes the key and the worker's number as lines to its standard input.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Client, Connection, Pipe
from pathlib import Path

import sluicemq
from sluicemq.lab.consumer_worker import ConsumerWorker
from sluicemq.lab.handover import pieces
from sluicemq.lab.plan import RunPlan
from sluicemq.lab.publisher_worker import PublisherWorker

WORKERS = {kind.role: kind for kind in (PublisherWorker, ConsumerWorker)}


class WorkerHandle:
    """A worker as the conductor sees it. `host` is the machine that it runs on, "" for this one."""

    role: str
    index: int
    host: str
    pipe: Connection

    def end(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for the worker to end, then kill it."""
        raise NotImplementedError


class WorkerProcess(WorkerHandle):
    """A worker in a process of its own on the conductor's machine."""

    host = ""

    def __init__(self, plan: RunPlan, role: str, index: int) -> None:
        self.role = role
        self.index = index
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=worker_environment(),
                start_new_session=True,
            )
        self.pipe.send((plan, role, index))

    def end(self, timeout_s: float) -> None:
        self.pipe.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker: that of this process, with this package importable."""
    root = str(Path(sluicemq.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> None:
    """Run the worker that the first message on the pipe describes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.disable()
    place = sys.argv[1]
    if ":" in place:
        work_elsewhere(place)
    else:
        pipe: Connection = Connection(int(place))
        plan, role, index = pipe.recv()
        WORKERS[role](plan, index, pipe).run()


def work_elsewhere(place: str) -> None:
    """Connect to the conductor, identify this worker, and work in a directory of its own."""
    host, _, port = place.rpartition(":")
    key = bytes.fromhex(sys.stdin.readline().strip())
    number = int(sys.stdin.readline())
    pipe = Client((host, int(port)), authkey=key)
    pipe.send((number, socket.gethostname()))
    plan, role, index = pipe.recv()
    with tempfile.TemporaryDirectory(prefix="sluicemq-lab-") as directory:
        worker = WORKERS[role](replace(plan, directory=Path(directory)), index, pipe)
        worker.hand_over = partial(send_files, Path(directory), pipe)
        worker.run()


def send_files(directory: Path, pipe: Connection) -> None:
    """Send all measurement files of a directory to the conductor, in pieces."""
    for piece in pieces(directory):
        pipe.send(piece)


if __name__ == "__main__":
    main()
