"""Nodes of a cluster as processes, `sluicemq serve` on loopback, whether they run or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import broker
from support.broker import BROKER_ENVIRONMENT
from support.commands import run_command

SECRET = "a secret of some length, made by chance"
AMQP_PORT = 5680
NODES_PORT = 25_700


class Served:
    """Node `number` of those at `addresses`. It listens there for the others, unless something else
    does (`behind`, an address of the same port that leads to it); `within` is what stands before
    its command."""

    def __init__(
        self,
        number: int,
        root: Path,
        addresses: Sequence[str],
        runtime: str,
        behind: str = "",
        within: Sequence[str] = (),
    ) -> None:
        self.number = number
        self.root = root / f"n{number}"
        self.root.mkdir()
        self.data = self.root / "data"
        self.addresses = list(addresses)
        self.host = addresses[number - 1].partition(":")[0]
        self.port = AMQP_PORT + number
        self.behind = behind
        self.within = tuple(within)
        self.runtime = runtime
        self.env = BROKER_ENVIRONMENT | {"XDG_RUNTIME_DIR": runtime}
        self.process: broker.Process | None = None
        self.secret = self.root / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)

    def __repr__(self) -> str:
        return f"n{self.number}"

    def options(self) -> list[str]:
        behind = ("--set", f"cluster.host={self.behind}") if self.behind else ()
        return [
            *("--name", f"n{self.number}"),
            *("--cluster-port", self.addresses[self.number - 1].rpartition(":")[2]),
            *("--cluster-nodes", ",".join(self.addresses)),
            *("--cluster-secret-file", str(self.secret)),
            *("--set", "loopback_users=none"),
            *behind,
        ]

    def start(self, *options: str) -> None:
        command = [*self.within, *broker.OWN, "serve"]
        command += ["--host", self.host, "--port", str(self.port), "--data-dir", str(self.data)]
        command += options or self.options()
        (self.root / "stdout").unlink(missing_ok=True)
        with (self.root / "stdout").open("wb") as said, (self.root / "stderr").open("ab") as log:
            self.process = broker.launch(command, self.env, stdout=said, stderr=log)

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        self.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        code = self.process.wait(240)
        self.process = None
        return code

    def close(self) -> None:
        """It does not run any more."""
        if self.process is not None:
            self.send_signal(signal.SIGCONT)
            self.end(signal.SIGKILL)

    @property
    def log(self) -> str:
        path = self.root / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_ready(self) -> bool:
        assert self.process is None or self.process.poll() is None, self.log
        return (self.root / "stdout").read_text().startswith("ready amqp://")

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command("ctl", *arguments, "--port", str(self.port), runtime=self.runtime)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What cluster_status says; nothing before it answers."""
        done = self.ctl("cluster_status", "--formatter", "json")
        return json.loads(done.stdout) if done.returncode == 0 else []

    @property
    def states(self) -> list[str]:
        return [row["state"] for row in self.rows]


def own_hosts(count: int, first: int = 1) -> list[str]:
    """So many loopback addresses that no other process of the tests uses."""
    high, low = divmod(os.getpid() % 60_000, 250)
    return [f"127.{high + 1}.{low + 1}.{number}" for number in range(first, first + count)]


@contextmanager
def three_nodes(root: Path) -> Iterator[list[Served]]:
    """Those of a cluster, none of them started; what runs at the end is killed."""
    hosts = own_hosts(3)
    addresses = [f"{host}:{NODES_PORT + n}" for n, host in enumerate(hosts, start=1)]
    with tempfile.TemporaryDirectory(prefix="sluicemq-") as runtime:
        made = [Served(number, root, addresses, runtime) for number in (1, 2, 3)]
        try:
            yield made
        finally:
            for each in made:
                each.close()
