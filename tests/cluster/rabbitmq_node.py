"""Debian's RabbitMQ as a node of a cluster, to be driven as our own nodes are."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CTL: Final = SERVER.with_name("rabbitmqctl")
"""The one in the path becomes another user, whose cookie is not that of these nodes."""
AMQP_PORT: Final = 5672
EPMD_PORT: Final = 4369
END_S: Final = 120

CONF: Final = """\
loopback_users = none
cluster_formation.peer_discovery_backend = classic_config
cluster_partition_handling = pause_minority
"""
ADVANCED: Final = """\
[{kernel, [{net_ticktime, 15}]}, {aten, [{poll_interval, 1000}]},
 {rabbit, [{dead_letter_worker_publisher_confirm_timeout, 15000}]}].
"""
"""As in RabbitMQ's own Jepsen tests: failures are noticed sooner than by default."""


class RabbitNode:
    """Node `number` of those on `hosts`. `within` is what stands before its command; a port mapper
    at `epmd_port`, which somebody else has started, says where the others are. `plugins` are
    enabled; the HTTP API, if that is one, is at the node's host."""

    def __init__(
        self,
        number: int,
        root: Path,
        hosts: Sequence[str],
        within: Sequence[str] = (),
        epmd_port: int = EPMD_PORT,
        plugins: Sequence[str] = (),
    ) -> None:
        self.number = number
        self.root = root / f"r{number}"
        self.root.mkdir()
        self.host = hosts[number - 1]
        self.port = AMQP_PORT
        self.within = tuple(within)
        self.name = f"r{number}@{self.host}"
        self.epmd_port = epmd_port
        self.process: subprocess.Popen[bytes] | None = None
        nodes = "".join(
            f"cluster_formation.classic_config.nodes.{n} = r{n}@{host}\n"
            for n, host in enumerate(hosts, start=1)
        )
        api = f"management.tcp.ip = {self.host}\n" if "rabbitmq_management" in plugins else ""
        (self.root / "rabbitmq.conf").write_text(CONF + nodes + api)
        (self.root / "advanced.config").write_text(ADVANCED)
        (self.root / "plugins").write_text(f"[{','.join(plugins)}].")
        cookie = self.root / ".erlang.cookie"
        cookie.write_text("NODESOFTHETESTS")
        cookie.chmod(0o400)

    def __repr__(self) -> str:
        return f"r{self.number}"

    @property
    def env(self) -> dict[str, str]:
        interface = self.host.replace(".", ",")
        return os.environ | {
            "HOME": str(self.root),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.epmd_port + self.number),
            "RABBITMQ_MNESIA_BASE": str(self.root / "data"),
            "RABBITMQ_LOG_BASE": str(self.root / "log"),
            "RABBITMQ_PID_FILE": str(self.root / "pid"),
            "RABBITMQ_CONFIG_FILE": str(self.root / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.root / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.root / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-kernel inet_dist_use_interface {{{interface}}}"
            ),
            "RUNNING_UNDER_SYSTEMD": "yes",
        }

    def start(self) -> None:
        """It runs as the process itself, as it does under systemd, not as a child of a shell."""
        with (self.root / "stdout").open("ab") as said:
            self.process = subprocess.Popen(
                [*self.within, str(SERVER)],
                cwd=self.root,
                env=self.env,
                stdout=said,
                stderr=said,
            )

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        self.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        code = self.process.wait(END_S)
        self.process = None
        return code

    @property
    def is_ready(self) -> bool:
        assert self.process is None or self.process.poll() is None, self.log
        try:
            socket.create_connection((self.host, self.port), 1).close()
        except OSError:
            return False
        return True

    @property
    def log(self) -> str:
        paths = [self.root / "stdout", self.root / "log" / f"{self.name}.log"]
        return "".join(each.read_text(errors="replace") for each in paths if each.exists())

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = [*self.within, str(CTL), "--longnames", "-n", self.name, *arguments]
        return subprocess.run(line, env=self.env, capture_output=True, text=True, check=False)

    def close(self) -> None:
        """Nothing of it runs any more."""
        if self.process is not None:
            self.send_signal(signal.SIGCONT)
            self.end(signal.SIGKILL)


@contextmanager
def port_mapper(port: int = EPMD_PORT, within: Sequence[str] = ()) -> Iterator[None]:
    """Erlang's, so that no node starts one that outlives it."""
    command = [*within, "epmd", "-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
