"""The brokers that are compared, started on loopback with directories of their own, and the load.

`amqpload` is a lean load generator in C that prints one JSON line a run; it is not part of this
project. RabbitMQ is Debian's package `rabbitmq-server`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS = 600
STOP_SECONDS = 60
RUN_SECONDS_MAX = 1200
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the port accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nothing listens on port {port} after {START_SECONDS} s")


@cache
def own_tree() -> Path:
    """The folder of the package that is measured: the compiled build, if `make setup` has made one
    of the sources as they are, else these."""
    tool = Path(__file__).resolve().parent.parent / "tools" / "compiled_tree.py"
    return Path(subprocess.check_output([sys.executable, tool], text=True).strip())


def build() -> str:
    """What that is, for the history."""
    return "compiled" if own_tree().name == "compiled" else "pure"


def start_sluicemq(
    port: int, data_dir: Path, *settings: str, log: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Our broker, not yet listening, of the sources that PYTHONPATH names, else of `own_tree`.
    `settings` are `key=value` as `--set` takes them; what it logs goes to `log`, or where ours
    goes."""
    command = [sys.executable, "-m", "sluicemq", "serve", "--port", str(port)]
    command += ["--data-dir", str(data_dir)]
    for setting in settings:
        command += ["--set", setting]
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(own_tree())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)


@contextmanager
def sluicemq(
    port: int, data_dir: Path, *settings: str, log: IO[bytes] | None = None
) -> Iterator[int]:
    """Our broker; yields its pid."""
    with start_sluicemq(port, data_dir, *settings, log=log) as process:
        wait_for(port, process)
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def rabbitmq(port: int, home: Path, *settings: str, plugins: Sequence[str] = ()) -> Iterator[int]:
    """Debian's RabbitMQ on loopback only; yields its pid. `settings` are lines of its
    configuration file, `plugins` are enabled."""
    if not RABBITMQ.exists():
        raise SystemExit("RabbitMQ is missing: apt-get install rabbitmq-server")
    home.mkdir(exist_ok=True)
    (home / "plugins").write_text(f"[{','.join(plugins)}].")
    (home / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in settings))
    environment = os.environ | {
        "HOME": str(home),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with subprocess.Popen(
        [str(RABBITMQ)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            wait_for(port, process)
            yield int((home / "pid").read_text())
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def load(amqpload: Path, at: int | str, *options: str) -> dict[str, Any]:
    """One run of the generator at a port, or at these HOST:PORT,HOST:PORT; its figures."""
    places = at if isinstance(at, str) else f"127.0.0.1:{at}"
    command = [str(amqpload), "--nodes", places, *options, "--quiet"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise SystemExit(f"{' '.join(command)} printed nothing: {done.stderr}")
    result: dict[str, Any] = json.loads(lines[-1])
    if "error" in result:
        raise SystemExit(f"{' '.join(command)}: {result['error']}")
    return result


def run(amqpload: Path, port: int, pid: int, options: str, seconds: int) -> dict[str, Any]:
    """One measurement of `seconds`, after a warm-up."""
    times = ("-w", "2", "-t", str(seconds))
    return load(amqpload, port, "--broker-pid", f"{pid}+", *times, *options.split())


def resident_megabytes(pid: int) -> float:
    """Resident memory now, in 2^20 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has no VmRSS")


def median(results: Sequence[dict[str, Any]], *keys: str) -> float:
    """Of the figure found by these keys in each result."""
    values = []
    for result in results:
        value: Any = result
        for key in keys:
            value = value[key]
        values.append(float(value))
    return statistics.median(values)


def faults(results: list[dict[str, Any]]) -> int:
    """Messages lost, doubled or out of order, over all runs."""
    return sum(r[key] or 0 for r in results for key in ("lost", "duplicates", "out_of_order"))
