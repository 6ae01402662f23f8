"""Ask SluiceMQ and RabbitMQ the same questions, and compare all that a client can see.

    PYTHONPATH=src:bench:tests python tools/differential --seconds 60      (make differential)

A script is a list of steps, all from one seed: declare, bind, publish, consume, settle, ... Both
brokers do a step; then replies, returns, deliveries, closed channels and the counts of all queues
must become the same within PATIENCE_SECONDS. A script that differs is run again to be sure, then
shrunk: steps are left out while the brokers still differ. What is left is printed; `--seed N
--scripts 1` runs it again. What differs on purpose (docs/rabbitmq-differences.md) is not asked.

RabbitMQ is Debian's `rabbitmq-server`, started on loopback with a directory of its own, or any at
`--rabbitmq-port`; nothing is installed.

With `--nodes 3` ours are three nodes, on which queues lie anywhere: most channels are at the first
node, the stranger's is at the last. RabbitMQ stays one, for a client must not notice.
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
from dataclasses import dataclass
from pathlib import Path

import brokers
from comparison import Comparison
from side import Address

from cluster.sites import loopback
from scripts import POLICIES, Writer

RABBITMQCTL = brokers.RABBITMQ.with_name("rabbitmqctl")
OUR_CTL = (sys.executable, "-m", "sluicemq", "ctl")
LOCAL = "127.0.0.1"
SHRUNK_OF_A_KIND = 3


@dataclass
class Pair:
    """The two brokers: where each is reached, and the logs of ours that were started here."""

    ours: list[Address]
    theirs: list[Address]
    logs: list[Path]


@contextmanager
def both(directory: Path, wanted: argparse.Namespace) -> Iterator[Pair]:
    """The two brokers with the policies."""
    pair = Pair([(LOCAL, wanted.port)], [(LOCAL, wanted.rabbitmq_port)], [])
    with ExitStack() as stack:
        if not wanted.port:
            ours = nodes(directory, wanted.nodes) if wanted.nodes > 1 else alone(directory)
            pair.ours, pair.logs = stack.enter_context(ours)
        if not wanted.rabbitmq_port:
            port = brokers.free_port()
            home = directory / "rabbitmq"
            stack.enter_context(brokers.rabbitmq(port, home))
            set_policies([str(RABBITMQCTL), "-n", f"bench{port}@localhost"], [], home)
            pair.theirs = [(LOCAL, port)]
        yield pair


@contextmanager
def alone(directory: Path) -> Iterator[tuple[list[Address], list[Path]]]:
    """One broker of ours, and its log."""
    port = brokers.free_port()
    path = directory / "sluicemq.log"
    with path.open("wb") as log, brokers.sluicemq(port, directory / "sluicemq", log=log):
        set_policies(OUR_CTL, ["--port", str(port)])
        yield [(LOCAL, port)], [path]


@contextmanager
def nodes(directory: Path, count: int) -> Iterator[tuple[list[Address], list[Path]]]:
    """So many nodes of ours as one broker, and their logs."""
    with loopback(directory, count) as site:
        for node in site.nodes:
            node.start()
        deadline = time.monotonic() + brokers.START_SECONDS
        while not all(node.is_ready for node in site.nodes):
            if time.monotonic() > deadline:
                raise SystemExit("the nodes did not become one cluster in time")
            time.sleep(0.1)
        first = site.nodes[0]
        set_policies(OUR_CTL, ["--port", str(first.port)], runtime=first.runtime)
        yield (
            [(node.host, node.port) for node in site.nodes],
            [node.root / "stderr" for node in site.nodes],
        )


def set_policies(
    ctl: Sequence[str], reach: Sequence[str], home: Path | None = None, runtime: str = ""
) -> None:
    """POLICIES, by control commands; RabbitMQ's needs the cookie in its broker's `home`, ours the
    `runtime` directory of its node where that is not the user's."""
    environment = os.environ | ({"HOME": str(home)} if home else {})
    environment |= {"XDG_RUNTIME_DIR": runtime} if runtime else {}
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
    parser.add_argument("--nodes", type=int, default=1, help="of ours, as one cluster")
    parser.add_argument("--vhost", default="/", help="of brokers that run")
    return parser.parse_args()


def compare(wanted: argparse.Namespace, pair: Pair) -> int:
    """Scripts until time is up; how many differ."""
    comparison = Comparison((pair.ours, pair.theirs), wanted.vhost)
    kinds: Counter[str] = Counter()
    done = 0
    deadline = time.monotonic() + wanted.seconds
    while time.monotonic() < deadline and (done < wanted.scripts or not wanted.scripts):
        seed = wanted.seed + done
        found = comparison.surely(Writer(seed, wanted.nodes > 1).script())
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
        with both(directory, wanted) as pair:
            differences = compare(wanted, pair)
        for log in pair.logs:
            if b"Traceback" in (said := log.read_bytes()):
                sys.exit(said.decode(errors="replace"))
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
