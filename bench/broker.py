"""Messages per CPU-second of the broker against RabbitMQ's, in one run on one machine.

    .venv/bin/python bench/broker.py --amqpload PATH [--seconds 8] [--repeats 3] [--cases REGEX]

`amqpload` is a lean load generator in C that prints one JSON line a run, with the broker's CPU
time, its memory, and what was lost; it is not part of this project. RabbitMQ is Debian's package
`rabbitmq-server`, started here on loopback with a data directory of its own. The brokers take
turns case by case, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = {
    "flat out, no confirms, no-ack": "-p 1 -c 1 -q 1 -s 1024 --no-ack",
    "confirms 1000, prefetch 1000, transient": (
        "-p 1 -c 1 -q 1 -s 1024 -L 1000 -f 1000 -a 1 --drain-check"
    ),
    "confirms 1000, prefetch 1000, durable queue, persistent": (
        "-p 1 -c 1 -q 1 -s 1024 --durable --persistent -L 1000 -f 1000 -a 1 --drain-check"
    ),
    "20 publishers, 10 queues, 20 consumers, no confirms, no-ack": "-p 20 -c 20 -q 10 --no-ack",
    "20 publishers, 10 queues, 20 consumers, confirms 100, ack 1": (
        "-p 20 -c 20 -q 10 -L 100 -f 1000 -a 1 --drain-check"
    ),
    "20 publishers, 10 queues, 20 consumers, durable, confirms 100, ack 100": (
        "-p 20 -c 20 -q 10 --durable --persistent -L 100 -f 1000 -a 100 --drain-check"
    ),
    "500 publishers x 30/s, 100 queues, 500 consumers, confirms 30": (
        "-p 500 -r 30 -q 100 -c 500 -L 30 -f 30 -a 1 --drain-check"
    ),
    "16-byte bodies, confirms 1000": "-p 1 -c 1 -q 1 -s 16 -L 1000 -f 1000 -a 1 --drain-check",
    "16 KiB bodies, confirms 1000": "-p 1 -c 1 -q 1 -s 16384 -L 1000 -f 1000 -a 1 --drain-check",
}
START_SECONDS = 60


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


@contextmanager
def sluicemq(port: int) -> Iterator[int]:
    """Our broker; yields its pid."""
    command = [sys.executable, "-m", "sluicemq", "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(port, process)
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def rabbitmq(port: int, home: Path) -> Iterator[int]:
    """Debian's RabbitMQ in a directory of its own, on loopback only; yields its pid."""
    script = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    if not script.exists():
        raise SystemExit("RabbitMQ is missing: apt-get install rabbitmq-server")
    (home / "plugins").write_text("[].")
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
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with subprocess.Popen(
        [str(script)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        wait_for(port, process)
        try:
            yield int((home / "pid").read_text())
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def run(amqpload: Path, port: int, pid: int, options: str, seconds: int) -> dict[str, Any]:
    """One measurement."""
    command = [str(amqpload), "--nodes", f"127.0.0.1:{port}", "--broker-pid", f"{pid}+"]
    command += ["-w", "2", "-t", str(seconds), "--quiet", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise SystemExit(f"{' '.join(command)} printed nothing: {done.stderr}")
    result: dict[str, Any] = json.loads(lines[-1])
    if "error" in result:
        raise SystemExit(f"{' '.join(command)}: {result['error']}")
    return result


def idle_megabytes(pid: int) -> float:
    """Resident memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has no VmRSS")


def faults(results: list[dict[str, Any]]) -> int:
    """Messages lost, doubled or out of order, over all runs."""
    return sum(r[key] or 0 for r in results for key in ("lost", "duplicates", "out_of_order"))


def row(case: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """Medians and their ratio as a line of a Markdown table."""

    def median(results: list[dict[str, Any]], *keys: str) -> float:
        values = []
        for result in results:
            value: Any = result
            for key in keys:
                value = value[key]
            values.append(float(value))
        return statistics.median(values)

    our_cost = median(ours, "broker", "cpu_us_per_msg")
    their_cost = median(theirs, "broker", "cpu_us_per_msg")
    return (
        f"| {case} | {median(ours, 'cons_rate'):,.0f} | {our_cost:.2f} "
        f"| {median(ours, 'latency_ms', 'p50'):.2f} / {median(ours, 'latency_ms', 'p99'):.1f} "
        f"| {median(theirs, 'cons_rate'):,.0f} | {their_cost:.2f} "
        f"| {median(theirs, 'latency_ms', 'p50'):.2f} / {median(theirs, 'latency_ms', 'p99'):.1f} "
        f"| {their_cost / our_cost:.1f} | {faults(ours)} / {faults(theirs)} |"
    )


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    options = parser.parse_args()
    cases = {name: args for name, args in CASES.items() if re.search(options.cases, name)}
    with tempfile.TemporaryDirectory() as home:
        ours_port, theirs_port = free_port(), free_port()
        with sluicemq(ours_port) as ours_pid, rabbitmq(theirs_port, Path(home)) as theirs_pid:
            print(f"idle RSS: SluiceMQ {idle_megabytes(ours_pid):.1f} MB, ", end="")
            print(f"RabbitMQ {idle_megabytes(theirs_pid):.1f} MB\n")
            print(
                "| case | msg/s | us/msg | p50/p99 ms | RabbitMQ msg/s | us/msg | p50/p99 ms ",
                end="",
            )
            print(
                "| messages per CPU-second, ratio | faults |\n|---|---|---|---|---|---|---|---|---|"
            )
            for name, args in cases.items():
                ours, theirs = [], []
                for _ in range(options.repeats):
                    ours.append(run(options.amqpload, ours_port, ours_pid, args, options.seconds))
                    theirs.append(
                        run(options.amqpload, theirs_port, theirs_pid, args, options.seconds)
                    )
                print(row(name, ours, theirs), flush=True)


if __name__ == "__main__":
    main()
