"""What quorum queues keep on disk at each of three nodes while one consumer holds on to messages.

    PYTHONPATH=tests .venv/bin/python bench/disk.py --amqpload PATH [--count 10000000] [--nodes 3]


A consumer holds messages that it never acknowledges, and `count` others of 1 KiB pass through the
same queue behind them. Wanted is that no node ever has more on disk than twice what is held, beside
what it has when nothing is held, and a file of the journal more or less.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from brokers import load
from history import keep

from cluster.sites import Site, loopback
from cluster.torture import Run
from cluster.workers import Consumer, Publisher

CASES: Final = {
    "nothing held": (0, 0),
    "one message held": (1, 1000),
    "100 MB held": (2000, 50_000),
}
"""How many messages of how many bytes; a consumer of a quorum queue holds 2,000 at most."""
JOURNAL_FILE_MB: Final = 34

SAMPLE_S: Final = 0.5
RUN_S: Final = 20
QUEUE: Final = "disk-0"
LOAD: Final = (
    "-p 1 -c 1 -q 1 --no-declare --no-delete-before --no-delete-after --prefix disk --persistent"
    " -L 1000 -f 1000 -a 100"
)


class Holder(Consumer):
    """Takes what it gets and keeps it."""

    def act(self, now: float) -> None:
        pass


class DiskWatch(threading.Thread):
    """The most bytes that any node's data has taken."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self.roots = [each.data for each in site.nodes]  # type: ignore[attr-defined]
        self.most = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(SAMPLE_S):
            self.most = max(self.most, *map(taken, self.roots))


def taken(root: Path) -> int:
    """Bytes on disk below that directory."""
    total = 0
    for path in root.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def hold(run: Run, count: int, size: int) -> None:
    """Publish so many messages and let a consumer have them."""
    if not count:
        return
    publisher = Publisher(run.crowd, "publisher", QUEUE, 1e6, min(count, 1000), 0)
    publisher.sizes = (size,)
    run.pump(lambda: run.book.verdict.counts["published"] >= count, "nothing is published")
    publisher.is_done = True
    run.pump(lambda: publisher.has_heard, "nothing is confirmed")
    publisher.leave()
    Holder(run.crowd, "holder", QUEUE, count, 0)
    run.pump(lambda: run.book.verdict.counts["seen"] == count, "not all is delivered")


def measure(site: Site, amqpload: Path, held: int, size: int, count: int) -> dict[str, Any]:
    """One case, on nodes that are up."""
    run = Run(site, 0, {QUEUE: {"x-queue-type": "quorum"}})
    run.declare()
    hold(run, held, size)
    live_bytes = held * size
    places = ",".join(f"{each.host}:{each.port}" for each in site.nodes)
    watch = DiskWatch(site)
    watch.start()
    passed = 0
    while passed < count:
        passed += load(amqpload, places, "-w", "0", "-t", str(RUN_S), *LOAD.split())["consumed"]
    watch.stopping.set()
    watch.join()
    run.crowd.leave()
    with run.admin(1) as admin:
        admin.delete_queue(QUEUE)
    return {"passed": passed, "live_mb": live_bytes / 1e6, "most_mb": watch.most / 1e6}


def main() -> int:
    """The cases; 1 when one of them took too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    too_much = 0
    anyway_mb = 0.0
    for case, (held, size) in CASES.items():
        with tempfile.TemporaryDirectory() as home, loopback(Path(home), options.nodes) as site:
            Run(site, 0, {}).start()
            found = measure(site, options.amqpload, held, size, options.count)
        most_mb, live_mb = found["most_mb"], found["live_mb"]
        words = f"{case}, {found['passed']:,} others, {options.nodes} nodes: {live_mb:.1f} MB held"
        if held:
            allowed_mb = 2 * live_mb + anyway_mb + JOURNAL_FILE_MB
            too_much += most_mb > allowed_mb
            print(f"{words}, at most {most_mb:.0f} MB on a disk; allowed {allowed_mb:.0f} MB")
        else:
            anyway_mb = most_mb
            print(f"{words}, at most {most_mb:.0f} MB on a disk", flush=True)
        keep("disk", f"{case}, {options.nodes} nodes", **found)
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
