"""A quorum queue with much in it gets a member on another node, under publishers and a consumer.

    PYTHONPATH=tests .venv/bin/python bench/new_member.py [--megabytes 100] [--bytes 4000]

Three nodes on loopback; the queue has one member, on the first, and is filled. Then the second node
gets a member (`sluicemq ctl add_member`) while each of the nodes has a publisher, and the third one
a consumer. It prints how long it took until the new member was one that counts, the longest time
that the publishers heard of no confirm meanwhile and how many confirms there were, and what the two
nodes have in RAM before and at most.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from brokers import resident_megabytes
from history import keep

from cluster.sites import Site, loopback
from cluster.torture import Run
from cluster.workers import Consumer, Publisher
from support.served import Served

QUEUE: Final = "full"
ARGUMENTS: Final = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
FILL_RATE: Final = 20_000.0
PUBLISH_RATE: Final = 50.0
LOOK_S: Final = 0.25
PATIENCE_S: Final = 300.0


def fill(run: Run, megabytes: int, size: int) -> None:
    """Publish so much, and have it confirmed."""
    count = megabytes * 1_000_000 // size
    publisher = Publisher(run.crowd, "filler", QUEUE, FILL_RATE, 1000, 0)
    publisher.sizes = (size,)
    counts = run.book.verdict.counts
    run.pump(lambda: counts["confirmed"] >= count, "the queue is not filled")
    publisher.is_done = True
    run.pump(lambda: publisher.has_heard, "the rest is not confirmed")
    publisher.leave()


def state_of(node: Served, name: str) -> str:
    """What the member on the node `name` says it is; "" for none."""
    done = node.ctl("quorum_status", QUEUE, "-q", "--formatter", "json")
    rows = json.loads(done.stdout) if done.returncode == 0 else []
    return next((row["raft_state"] for row in rows if row["node"] == name), "")


def add_member(node: Served) -> str:
    """Give the second node a member."""
    said = node.ctl("add_member", QUEUE, "n2")
    assert said.returncode == 0, said.stderr
    return ""


def measure(site: Site, megabytes: int, size: int) -> None:
    """Fill the queue, give it a member, and print what that took."""
    run = Run(site, 0, {QUEUE: ARGUMENTS})
    run.start()
    run.declare()
    one, two = (node for node in site.nodes[:2] if isinstance(node, Served))
    pids = [node.process.pid for node in (one, two) if node.process is not None]
    fill(run, megabytes, size)
    run.rest(6.0)  # an idle queue has its log made shorter
    for place in range(3):
        Publisher(run.crowd, f"publisher at {place}", QUEUE, PUBLISH_RATE, 100, place)
    consumer = Consumer(run.crowd, "consumer", QUEUE, 10, 2)
    consumer.pause_s = 0.1
    run.book.set_mark()
    run.pump(lambda: bool(run.book.news[QUEUE]), "nothing is confirmed")
    before = [resident_megabytes(pid) for pid in pids]
    most = [*before]
    counts = run.book.verdict.counts
    confirmed = counts["confirmed"]
    run.book.fault_begins()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(add_member, one)
        while asked.running() or asked.result() != "follower":
            assert time.monotonic() < began + PATIENCE_S, "it does not catch up"
            run.rest(LOOK_S)
            now = map(resident_megabytes, pids)
            most = [max(pair) for pair in zip(most, now, strict=True)]
            if not asked.running():
                asked = asking.submit(state_of, one, "n2")
    took_s = time.monotonic() - began
    [silence] = [each for each in run.book.fault_is_over() if each.what == QUEUE]
    print(f"{took_s:.1f} s until the new member of a queue with {megabytes} MB counts")
    print(
        f"{counts['confirmed'] - confirmed} confirms meanwhile, {silence.seconds:.2f} s without any"
    )
    keep(
        "new_member",
        f"{megabytes} MB",
        seconds=took_s,
        silence_s=silence.seconds,
        new_node_mb=most[1],
    )
    for name, known, now in zip(("n1", "n2"), before, most, strict=True):
        print(f"{name}: {known:.0f} MiB before, {now:.0f} MiB at most")
    run.crowd.leave()


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=4000)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="new-member-") as root,
        loopback(Path(root), 3) as site,
    ):
        measure(site, options.megabytes, options.bytes)


if __name__ == "__main__":
    main()
