"""Goal: the process itself: what it may open, and how it ends when something of ours is broken.
Method: a process of its own, with a disk job that has a mistake; a host without a process.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import sluicemq
from sluicemq.config import Config, StorageConfig
from sluicemq.host import run as host_run

PROGRAM = """
import resource, sys
from pathlib import Path
from sluicemq.config import Config, NetConfig
from sluicemq.host import run
from sluicemq.kernel.disk import DiskJob

class Broken(DiskJob):
    def run(self, files):
        raise ValueError("a mistake")

started = run.BrokerHost.start

async def start(self):
    await started(self)
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    self.disk.submit(Broken(), None, 0)

run.BrokerHost.start = start
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 500))
config = Config(net=NetConfig(port=0))
sys.exit(run.serve(config, Path(sys.argv[1]), lambda: config))
"""


def test_a_broken_disk_job_ends_the_broker_with_70(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(sluicemq.__file__).parents[1])}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=environment
    )
    assert run.returncode == 70
    assert f"[info] data directory {tmp_path}\n" in run.stderr
    assert "a disk job failed unexpectedly" in run.stderr
    assert "ValueError: a mistake" in run.stderr
    limits, ready = run.stdout.splitlines()
    assert limits == "500 500"
    assert ready.startswith("ready amqp://")


@pytest.mark.parametrize(
    ("writer", "said"),
    [("thread", "by a thread"), ("auto", "by a thread, without io_uring (EPERM)")],
)
def test_a_thread_writes_the_journal_when_it_is_to_or_io_uring_is_forbidden(
    writer: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = OSError(errno.EPERM, "forbidden")
    monkeypatch.setattr(host_run, "WriteRing", Mock(side_effect=forbidden))
    host = host_run.BrokerHost.__new__(host_run.BrokerHost)
    host.config = Config(storage=StorageConfig(journal_writer=writer))
    assert host.make_ring() is None
    assert host.journal_writer == said
