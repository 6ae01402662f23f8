"""`make post`: the whole of RabbitMQ's post on three nodes of ours, then on three of RabbitMQ.

    PYTHONPATH=src:tests .venv/bin/python tools/post.py OUT [--brokers rabbitmq] [OPTION]...

Both go into one directory, by `sluicemq lab post`, which takes the other options, so that one page
is about both; what has been run already is not run again. The nodes of Debian's RabbitMQ are
started for it, on loopback, with the HTTP API that says what they do. See docs/stress-lab.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cluster.rabbitmq_node import SERVER, RabbitNode
from cluster.sites import loopback_rabbitmq
from sluicemq.client.address import Address
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.management_api import ManagementApi

START_S: Final = 240
API_PORT: Final = 15672
NODES: Final = 3


@contextmanager
def rabbitmq() -> Iterator[list[str]]:
    """Three nodes of RabbitMQ while inside; yields the options that lead the lab to them."""
    if not SERVER.exists() or shutil.which("epmd") is None:
        raise SystemExit("RabbitMQ is missing: apt-get install rabbitmq-server")
    with (
        tempfile.TemporaryDirectory(prefix="post-") as home,
        loopback_rabbitmq(Path(home), NODES, with_api=True) as site,
    ):
        for node in site.nodes:
            node.start()
        api = f"http://guest:guest@{site.nodes[0].host}:{API_PORT}"
        targets = [f"amqp://guest:guest@{node.host}:{node.port}" for node in site.nodes]
        await_cluster(api, targets[0])
        options = ["--management", api]
        for node, target in zip(site.nodes, targets, strict=True):
            assert isinstance(node, RabbitNode)
            pid = (node.root / "pid").read_text().strip()
            options += ["--target", target, "--broker-pid", pid]
        yield options


def await_cluster(api: str, target: str) -> None:
    """Until all nodes are one cluster, as the first one's HTTP API sees it."""
    deadline = time.monotonic() + START_S
    while True:
        with suppress(BrokerError, Refused):  # it does not listen yet, or has no user yet
            if len(ManagementApi(api, Address.parse(target)).nodes()) == NODES:
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"RabbitMQ's nodes are no cluster after {START_S} s")
        time.sleep(0.5)


def play(out: Path, options: Sequence[str]) -> None:
    """Run `sluicemq lab post`, of the compiled build if there is one; ends when that fails or is
    interrupted."""
    command = [Path(sys.executable).with_name("sluicemq"), "lab", "post", str(out), *options]
    code = subprocess.call(command)
    if code:
        raise SystemExit(code)


def main() -> None:
    """Run the post on one broker after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the directory of the runs and of the page")
    parser.add_argument(
        "--brokers",
        nargs="+",
        choices=("sluicemq", "rabbitmq"),
        default=("sluicemq", "rabbitmq"),
        help="which brokers to run it on",
    )
    options, others = parser.parse_known_args()
    if "sluicemq" in options.brokers:
        play(options.out, ["--cluster", str(NODES), *others])
    if "rabbitmq" in options.brokers:
        with rabbitmq() as found:
            play(options.out, [*found, *others])


if __name__ == "__main__":
    main()
