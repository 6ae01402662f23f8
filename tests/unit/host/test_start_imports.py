"""Goal: a broker is ready soon and small, for it has not imported what nobody has asked for yet.
Method: Python says what a real one imports until it is ready. Times differ; this list does not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOT_YET = (
    "sluicemq.broker.definitions_import",
    "sluicemq.chain.channel.reply_post",
    "sluicemq.chain.definitions.cluster_agreement",
    "sluicemq.chain.definitions.member",
    "sluicemq.chain.queue.mirrored.",
    "sluicemq.chain.queue.quorum.",
    "sluicemq.chain.queue.stream",
    "sluicemq.chain.remote.",
    "sluicemq.client",
    "sluicemq.cluster.cluster_port",
    "sluicemq.cluster.connection",
    "sluicemq.cluster.joining",
    "sluicemq.host.companion",
    "sluicemq.host.control_session",
    "sluicemq.host.joining",
    "sluicemq.host.lmdb_index",
    "sluicemq.host.reload",
    "sluicemq.host.start_definitions",
    "sluicemq.lab",
    "sluicemq.manage.",
    "sluicemq.management.",
    "sluicemq.queues.mirrored.",
    "sluicemq.queues.quorum.",
    "sluicemq.replication.ask_post",
    "sluicemq.replication.majority",
    "sluicemq.replication.raft_post",
    "sluicemq.sim",
    "sluicemq.spark",
    "bz2",
    "click",
    "encodings.idna",
    "gettext",
    "lzma",
    "pyarrow",
    "regex",
    "rich",
    "shutil",
    "starlette",
    "tempfile",
)
"""Beginnings of the names of modules that serving clients does not need."""


@contextmanager
def ready_broker(tmp_path: Path, *options: str, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A broker that is ready; Python has these options, and `said` is what it says."""
    command = [sys.executable, *options, "-m", "sluicemq", "serve", "--port", "0"]
    with said.open("w") as errors:
        broker = subprocess.Popen(
            [*command, "--data-dir", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=errors
        )
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith(b"ready ")
            yield broker
        finally:
            broker.terminate()
            broker.wait(60)


def imported(tmp_path: Path) -> list[str]:
    """The modules that a broker imports until it is ready."""
    said = tmp_path / "imports"
    with ready_broker(tmp_path, "-X", "importtime", said=said):
        lines = said.read_text().splitlines()
    return [line.split("|")[2].strip() for line in lines if line.startswith("import time:")]


def test_what_nobody_has_asked_for_is_not_imported(tmp_path: Path) -> None:
    modules = imported(tmp_path)
    assert "sluicemq.chain.connection.reader" in modules
    assert [each for each in modules if each.startswith(NOT_YET)] == []


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(),
    reason="what a process has in memory is read from /proc/self/maps: run it on Linux",
)
def test_openssl_is_not_in_the_memory_of_a_broker_without_tls(tmp_path: Path) -> None:
    with ready_broker(tmp_path, said=tmp_path / "log") as broker:
        mapped = Path(f"/proc/{broker.pid}/maps").read_text()
    assert "libpython" in mapped or "/python" in mapped
    assert "libcrypto" not in mapped
