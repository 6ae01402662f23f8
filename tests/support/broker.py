"""A broker for tests that need a real one: our own as a subprocess, or somebody else's by URL."""

from __future__ import annotations

import os
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from support.build import BUILD, SOURCES
from support.commands import run_command
from support.forks import Forked

START_SECONDS = 240
STOP_SECONDS = 240
READY = b"ready amqp"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SOURCES)}
"""Of subprocesses that run the very package the tests import."""
BROKER_ENVIRONMENT = ENVIRONMENT | {"PYTHONPATH": str(BUILD)}
"""Of brokers: compiled, when that is possible."""
OWN = (sys.executable, "-m", "sluicemq")
Process = Forked | subprocess.Popen[bytes]
"""A broker that runs: a copy of one that has imported everything, or a program of its own."""


class NotReady(AssertionError):
    """It ended, or said nothing in time."""


@dataclass(frozen=True)
class Target:
    """Where a broker listens. `pid` is known when it is our own subprocess."""

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    pid: int | None = None
    tls_port: int | None = None
    context: ssl.SSLContext | None = None
    """With it a Peer speaks TLS."""

    def over_tls(self, context: ssl.SSLContext) -> Target:
        """The same broker at its other port."""
        assert self.tls_port is not None
        return replace(self, port=self.tls_port, context=context)

    @property
    def is_own(self) -> bool:
        return self.pid is not None

    @property
    def url(self) -> str:
        return f"amqp://{self.user}:{self.password}@{self.host}:{self.port}/"

    def rss_bytes(self) -> int:
        """What the broker holds in RAM now; only for our own."""
        assert self.pid is not None
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the broker is gone")


class Ctl:
    """Control commands for a broker: ours by `sluicemq ctl`, or those of `command`."""

    def __init__(self, target: Target, command: Sequence[str] = ()) -> None:
        self.command = command
        self.port = str(target.port)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command as it ended."""
        if not self.command:
            return run_command("ctl", *arguments[:1], "--port", self.port, *arguments[1:])
        return subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env=ENVIRONMENT,
        )

    def __call__(self, *arguments: str) -> str:
        """What the command says; it must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout


def at(url: str) -> Target:
    """A broker that runs already."""
    parts = urlsplit(url)
    return Target(
        parts.hostname or "127.0.0.1",
        parts.port or 5672,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
    )


def launch(
    command: Sequence[str],
    env: Mapping[str, str] = ENVIRONMENT,
    *,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO,
    tracer: Sequence[str] = (),
) -> Process:
    """Start a program, as a copy when it is a module or a file that this Python runs. Without
    `stdout` what it prints can be read from the process. Only a copy may begin under a `tracer`, an
    strace without `-p`."""
    if command[0] == sys.executable and command[1] != "-c":
        return Forked.start(command[1:], env, stdout=stdout, stderr=stderr, tracer=tracer)
    assert not tracer
    return subprocess.Popen(command, stdout=stdout or subprocess.PIPE, stderr=stderr, env=env)


def start(
    data_dir: Path,
    *settings: str,
    program: Sequence[str] = OWN,
    tracer: Sequence[str] = (),
    errors: Path,
) -> Process:
    """Our broker as a subprocess on a port of its choice; what it logs is appended to `errors`.

    `settings` are `key=value` as `sluicemq serve --set` takes them; `program` is what stands before
    `serve`, and what is not ours runs the sources; `tracer` is as `launch` has it.
    """
    command = [*program, "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--data-dir", str(data_dir)]
    for setting in settings:
        command += ["--set", setting]
    env = BROKER_ENVIRONMENT if tuple(program[-len(OWN) :]) == OWN else ENVIRONMENT
    with errors.open("ab") as log:
        return launch(command, env, stderr=log, tracer=tracer)


@contextmanager
def serving(data_dir: Path, *settings: str) -> Iterator[Target]:
    """Our broker, stopped by SIGTERM at the end; it must exit with code 0."""
    errors = data_dir / "stderr.txt"
    process = start(data_dir, *settings, errors=errors)
    try:
        yield await_ready(process, errors)
    finally:
        code = stop(process)
        said = errors.read_text(errors="replace")
        assert code == 0, f"the broker exited with {code}; its last words:\n{said[-4000:]}"


def await_ready(process: Process, errors: Path) -> Target:
    """Until it says where it listens; NotReady when it does not."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    deadline = time.monotonic() + START_SECONDS
    said = b""
    while not (said.startswith(READY) and said.endswith(b"\n")):
        readable, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(output, 4096) if readable else b""
        if not chunk:
            last = errors.read_text(errors="replace")[-4000:]
            raise NotReady(f"the broker did not get ready: {said!r}\n{last}")
        said += chunk
    ports = {
        url.partition(":")[0]: int(url.rpartition(":")[2]) for url in said.decode().split()[1:]
    }
    port = ports.get("amqp", 0)
    return Target("127.0.0.1", port, pid=process.pid, tls_port=ports.get("amqps"))


def stop(process: Process) -> int:
    """SIGTERM; returns the exit code."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"SIGTERM did not stop the broker in {STOP_SECONDS} s") from None
    finally:
        if process.stdout is not None:
            process.stdout.close()
