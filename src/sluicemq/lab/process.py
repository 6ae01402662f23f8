"""The entry of a worker process: `python -m sluicemq.lab.process FD`.

The conductor starts it with one end of a pipe as an inherited descriptor. It is a plain process in
a session of its own, so Ctrl-C reaches the conductor alone.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import sluicemq
from sluicemq.lab.consumer_worker import ConsumerWorker
from sluicemq.lab.plan import Plan
from sluicemq.lab.publisher_worker import PublisherWorker

WORKERS = {kind.role: kind for kind in (PublisherWorker, ConsumerWorker)}


class WorkerProcess:
    """A worker as the conductor sees it."""

    def __init__(self, plan: Plan, role: str, index: int) -> None:
        self.role = role
        self.index = index
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                start_new_session=True,
            )
        self.pipe.send((plan, role, index))

    def end(self, timeout_s: float) -> None:
        """Wait for its end, then insist."""
        self.pipe.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    """Ours, and this package importable however it was found."""
    root = str(Path(sluicemq.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> None:
    """Be the worker that the first message on the pipe says."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.disable()
    pipe: Connection = Connection(int(sys.argv[1]))
    plan, role, index = pipe.recv()
    WORKERS[role](plan, index, pipe).run()


if __name__ == "__main__":
    main()
