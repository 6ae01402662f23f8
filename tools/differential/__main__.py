"""Ask SluiceMQ and RabbitMQ the same questions, and compare all that a client can see.

    PYTHONPATH=src:bench python tools/differential --seconds 60      (make differential)

A script is a list of steps, all from one seed: declare, bind, publish, consume, settle, ... Both
brokers do a step; then replies, returns, deliveries, closed channels and the counts of all queues
must become the same within PATIENCE_SECONDS. A script that differs is run again to be sure, then
shrunk: steps are left out while the brokers still differ. What is left is printed; `--seed N
--scripts 1` runs it again. What differs on purpose (docs/rabbitmq-differences.md) is not asked.

RabbitMQ is Debian's `rabbitmq-server`, started on loopback with a directory of its own, or any at
`--rabbitmq-port`; nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import brokers
from comparison import Comparison

from scripts import POLICIES, Writer

RABBITMQCTL = brokers.RABBITMQ.with_name("rabbitmqctl")
SHRUNK_OF_A_KIND = 3
LOG = "sluicemq.log"


@contextmanager
def both(directory: Path, rabbitmq_port: int, our_port: int) -> Iterator[tuple[int, int]]:
    """The two brokers with the policies; yields their ports, ours first."""
    with ExitStack() as stack:
        if not our_port:
            our_port = brokers.free_port()
            log = stack.enter_context((directory / LOG).open("wb"))
            stack.enter_context(brokers.sluicemq(our_port, directory / "sluicemq", log=log))
            set_policies([sys.executable, "-m", "sluicemq", "ctl"], ["--port", str(our_port)])
        if not rabbitmq_port:
            rabbitmq_port = brokers.free_port()
            home = directory / "rabbitmq"
            stack.enter_context(brokers.rabbitmq(rabbitmq_port, home))
            set_policies([str(RABBITMQCTL), "-n", f"bench{rabbitmq_port}@localhost"], [], home)
        yield our_port, rabbitmq_port


def set_policies(ctl: Sequence[str], reach: Sequence[str], home: Path | None = None) -> None:
    """POLICIES, by control commands; RabbitMQ's needs the cookie in its broker's home."""
    environment = os.environ | ({"HOME": str(home)} if home else {})
    for name, (pattern, what, definition) in POLICIES.items():
        words = ["set_policy", *reach, "--apply-to", what, name, pattern, definition]
        subprocess.run([*ctl, *words], check=True, stdout=subprocess.DEVNULL, env=environment)


def arguments() -> argparse.Namespace:
    """What the user wants."""
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--scripts", type=int, default=0, help="at most so many")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first script; the next counts on"
    )
    parser.add_argument(
        "--rabbitmq-port", type=int, default=0, help="of one that runs, with POLICIES"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="of a SluiceMQ that runs, with POLICIES"
    )
    parser.add_argument("--vhost", default="/", help="of brokers that run")
    return parser.parse_args()


def compare(wanted: argparse.Namespace, ports: tuple[int, int]) -> int:
    """Scripts until time is up; how many differ."""
    comparison = Comparison(ports, wanted.vhost)
    kinds: Counter[str] = Counter()
    done = 0
    deadline = time.monotonic() + wanted.seconds
    while time.monotonic() < deadline and (done < wanted.scripts or not wanted.scripts):
        seed = wanted.seed + done
        found = comparison.surely(Writer(seed).script())
        done += 1
        if found is None:
            continue
        kinds[found.kind] += 1
        if kinds[found.kind] <= SHRUNK_OF_A_KIND:
            found = comparison.shrunk(found)
        print(f"seed {seed}: {found.kind}\n{found.text()}\n", flush=True)
    print(f"{done} scripts from seed {wanted.seed} on, {kinds.total()} differ: {dict(kinds)}")
    return kinds.total()


def main() -> None:
    """Exit code 1: they differ."""
    wanted = arguments()
    if not wanted.rabbitmq_port and not brokers.RABBITMQ.exists():
        sys.exit("RabbitMQ is missing, nothing is compared: apt-get install rabbitmq-server")
    with tempfile.TemporaryDirectory(prefix="sluicemq-differential-") as name:
        directory = Path(name)
        with both(directory, wanted.rabbitmq_port, wanted.port) as ports:
            differences = compare(wanted, ports)
        if not wanted.port and b"Traceback" in (said := (directory / LOG).read_bytes()):
            sys.exit(said.decode(errors="replace"))
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
