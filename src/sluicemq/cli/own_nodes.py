"""Nodes that the lab starts for a run, on loopback, and asks over their control sockets.

They are processes of `sluicemq serve` with free ports, in a directory that is deleted when they
end; their logs stay. One node alone is no cluster.
"""

from __future__ import annotations

import json
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar, Final

from sluicemq.cli.control_client import Row, ask
from sluicemq.errors import Refused
from sluicemq.lab.target_admin import (
    IN_FLOW,
    MIRROR_PATTERN,
    MIRROR_POLICY,
    MIRRORS,
    NodeLook,
    TargetAdmin,
    TargetNode,
)

START_S: Final = 60.0
"""Seconds within which nodes must be ready: founding a cluster takes one or two."""

EXIT_TERMINATED: Final = 143
ANSWER_S: Final = 60.0
MIRRORED: Final = {"vhost": "/", "name": MIRROR_POLICY}
READY: Final = "ready amqp://"
LOG_SHOWN: Final = 2000
"""Bytes of the end of a log that an error shows."""


class OwnNode:
    """A node as a process. It is up once `await_ready` has returned."""

    def __init__(self, name: str, directory: Path, options: Sequence[str]) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        self._data = directory / name
        command = [sys.executable, "-m", "sluicemq", "serve", "--port", "0"]
        command += ["--data-dir", str(self._data), *options]
        with self._log.open("wb") as log:
            # In a session of its own Ctrl-C does not reach it: that ends the run, which ends the
            # nodes.
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid
        self.port = 0

    @property
    def url(self) -> str:
        """The URL for its clients."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    def await_ready(self, deadline: float) -> None:
        """Wait until it accepts clients. Raises Refused, with the end of its log, when it ends or
        is not ready at `deadline`, a time of the monotonic clock."""
        said = self._process.stdout
        assert said is not None
        ready, _, _ = select.select([said], [], [], max(deadline - time.monotonic(), 0))
        line = said.readline().decode() if ready else ""
        if not line.startswith(READY):
            log = self._log.read_text(errors="replace")[-LOG_SHOWN:]
            raise Refused(f"--cluster: node {self.name} did not start; its log ends with\n{log}")
        self.port = int(line.split()[1].rpartition(":")[2])

    def close(self) -> None:
        """Kill the node, which is needed no more, and delete its data directory."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._data, ignore_errors=True)


class OwnNodes(TargetAdmin):
    """All nodes of a run, which are up."""

    interval_s: ClassVar[int] = 1

    def __init__(self, nodes: Sequence[OwnNode]) -> None:
        self._nodes = nodes

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs for clients, in the order of nodes."""
        return tuple(node.url for node in self._nodes)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the processes, in the order of nodes."""
        return tuple(node.pid for node in self._nodes)

    def nodes(self) -> Sequence[TargetNode]:
        return [TargetNode(node.name, node.pid) for node in self._nodes]

    def look(self, queues: Sequence[str]) -> Sequence[NodeLook]:
        rows = self._ask(self._nodes[0], "list_queues", ["name", "node", "leader"])
        wanted = set(queues)
        leaders = Counter(row["leader"] or row["node"] for row in rows if row["name"] in wanted)
        return [NodeLook(self._held(node), self._led(leaders, node)) for node in self._nodes]

    def set_mirrors(self) -> None:
        if len(self._nodes) == 1:
            raise Refused("--queue-type mirrored: mirrors need --cluster 2 or more")
        policy = {"pattern": MIRROR_PATTERN, "definition": json.dumps(MIRRORS)}
        policy |= {"apply_to": "queues"}
        ask(self._nodes[0].port, "set_policy", MIRRORED | policy, ANSWER_S)

    def clear_mirrors(self) -> None:
        ask(self._nodes[0].port, "clear_policy", MIRRORED, ANSWER_S)

    def _led(self, leaders: Counter[str], node: OwnNode) -> int:
        """Return how many queues the node leads: all, if it is the only one."""
        return leaders[node.name] if len(self._nodes) > 1 else leaders.total()

    def _held(self, node: OwnNode) -> int:
        rows = self._ask(node, "list_connections", ["state"])
        return sum(row["state"] == IN_FLOW for row in rows)

    def _ask(self, node: OwnNode, command: str, columns: Sequence[str]) -> list[Row]:
        return ask(node.port, command, {"columns": list(columns)}, ANSWER_S)


@contextmanager
def own_nodes(count: int, directory: Path, profile: str) -> Iterator[OwnNodes]:
    """Keep `count` nodes up while inside, as one cluster when there are several. `directory` has
    their logs and data; only the logs stay. Raises Refused when they do not start."""
    directory.mkdir(parents=True, exist_ok=True)
    options = ["--set", f"flow.profile={profile}"]
    with ExitStack() as stack:
        stack.enter_context(sigterm_in_order())
        nodes = []
        for name, more in _clustered(count, directory):
            nodes.append(OwnNode(name, directory, [*options, *more]))
            stack.callback(nodes[-1].close)
        deadline = time.monotonic() + START_S
        for node in nodes:
            node.await_ready(deadline)
        yield OwnNodes(nodes)


@contextmanager
def sigterm_in_order() -> Iterator[None]:
    """Have SIGTERM end this process by SystemExit while inside, so that the nodes end with it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clustered(count: int, directory: Path) -> list[tuple[str, list[str]]]:
    """Return the name of each node, and the options that make it a node of a cluster."""
    names = [f"n{number}" for number in range(1, count + 1)]
    if count == 1:
        return [(names[0], [])]
    secret = directory / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex())
    ports = _free_ports(count)
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    return [
        (
            name,
            [
                *("--name", name, "--cluster-port", str(port), "--cluster-nodes", addresses),
                *("--cluster-secret-file", str(secret)),
            ],
        )
        for name, port in zip(names, ports, strict=True)
    ]


def _free_ports(count: int) -> list[int]:
    """Return `count` ports of loopback on which no process listens now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]
