"""Three nodes as one broker: what a message costs all of them, and how long a killed one is missed.

    PYTHONPATH=tests .venv/bin/python bench/three_nodes.py --amqpload PATH [--seconds 10]
        [--repeats 3] [--failovers 20] [--cases REGEX] [--only sluicemq|rabbitmq]

Three nodes of SluiceMQ and three of RabbitMQ on loopback take turns case by case; the CPU time of
all three is summed. The times are the generator's own: a warm-up of 3 s, and then 10 s. `failover`
kills (-9) the leader of a quorum queue again and again, and says how long publishers at the other
two nodes heard of no confirm; the node comes back in between.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from brokers import build, faults, load, median, resident_megabytes
from history import keep

from cluster.faults import kill
from cluster.sites import Site, loopback, loopback_rabbitmq
from cluster.torture import Run
from cluster.workers import Publisher

QUORUM: Final = "--durable --persistent --queue-type quorum --x-arg x-quorum-initial-group-size=i:3"
MIRRORS: Final = '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}'
"""The policy of queues whose names begin with `mirrored-`."""

MIRRORED: Final = "--durable --persistent --prefix mirrored"
CASES: Final = {
    "quorum of three, 1 queue, confirms 1000": (
        f"-p 1 -c 1 -q 1 {QUORUM} -L 1000 -f 1000 -a 100 --drain-check"
    ),
    "quorum of three, 1 queue, confirms 100": (
        f"-p 1 -c 1 -q 1 {QUORUM} -L 100 -f 1000 -a 100 --drain-check"
    ),
    "quorum of three, 20 publishers, 10 queues, 20 consumers, confirms 100": (
        f"-p 20 -c 20 -q 10 {QUORUM} -L 100 -f 1000 -a 100 --drain-check"
    ),
    "quorum of three, 500 publishers x 30/s, 100 queues, 500 consumers, confirms 3": (
        f"-p 500 -r 30 -c 500 -q 100 {QUORUM} -L 3 -f 30 -a 1 --drain-check --drain-timeout 120"
    ),
    "mirrored, two copies, 1 queue, confirms 100": (
        f"-p 1 -c 1 -q 1 {MIRRORED} -L 100 -f 1000 -a 100 --drain-check"
    ),
    "mirrored, two copies, 20 publishers, 10 queues, 20 consumers, confirms 100": (
        f"-p 20 -c 20 -q 10 {MIRRORED} -L 100 -f 1000 -a 100 --drain-check"
    ),
    "classic durable queue of another node, confirms 100": (
        "-p 1 -c 1 -q 1 --durable --persistent -L 100 -f 1000 -a 100 --drain-check"
        " --no-declare --prefix {elsewhere}"
    ),
    "classic queue of another node, transient, confirms 1000": (
        "-p 1 -c 1 -q 1 -L 1000 -f 1000 -a 100 --drain-check --no-declare --prefix {elsewhere}"
    ),
}
"""`elsewhere` is the prefix of a queue that is at the third node; its clients are at the first."""

FAILOVER: Final = "failover"
PUBLISH_RATE: Final = 200.0
"""Of the publisher at each of the nodes that stay: a silence is known to within 3 ms."""


class Cluster:
    """Three nodes that are up, and what was measured of them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.run = Run(site, 0, {})
        self.run.start()
        self.queues = 0
        done = site.nodes[0].ctl("set_policy", "mirrored", "^mirrored-", MIRRORS)
        if done.returncode:
            raise SystemExit(done.stderr)

    @property
    def pids(self) -> list[int]:
        return [each.process.pid for each in self.site.nodes]  # type: ignore[attr-defined]

    @property
    def resident_mb(self) -> float:
        return sum(map(resident_megabytes, self.pids))

    def measure(self, amqpload: Path, options: str, seconds: int) -> dict[str, Any]:
        """One run of the generator at all nodes, or at the first one."""
        nodes = self.site.nodes
        if "{elsewhere}" in options:
            self.queues += 1
            prefix = f"elsewhere{self.queues}"
            with self.run.admin(3) as admin:
                admin.declare_queue(f"{prefix}-0", durable="--durable" in options)
            options = options.format(elsewhere=prefix)
            nodes = nodes[:1]
        places = ",".join(f"{each.host}:{each.port}" for each in nodes)
        pids = ",".join(f"{pid}+" for pid in self.pids)
        arguments = ["--broker-pid", pids, "-w", "3", "-t", str(seconds), *options.split()]
        return load(amqpload, places, *arguments)

    def failovers(self, times: int) -> list[float]:
        """Seconds without confirms when the leader is killed, so often, each time another node."""
        silences = []
        for number in range(1, times + 1):
            victim = number % 3 + 1
            queue = f"failover-{number}"
            run = Run(self.site, number, {queue: {"x-queue-type": "quorum"}})
            with run.admin(victim) as admin:
                admin.declare_queue(queue, arguments=run.queues[queue])
            for place in range(3):
                if place + 1 != victim:
                    name = f"publisher at {place + 1}"
                    Publisher(run.crowd, name, queue, PUBLISH_RATE, 1000, place)
            run.book.set_mark()
            is_confirmed = partial(run.book.news.__getitem__, queue)
            run.pump(is_confirmed, "nothing is confirmed")
            run.rest(1.0)
            run.book.fault_begins()
            fault = kill(self.site, victim)
            fault.begin()
            run.pump(is_confirmed, "a majority is there, and does not confirm")
            run.rest(1.0)
            (silence,) = run.book.fault_is_over()
            silences.append(silence.seconds)
            run.crowd.leave()
            fault.end()
            run.pump(run.all_ready, "the node does not come back")
            with run.admin(victim) as admin:
                admin.delete_queue(queue)
        return silences


def row(case: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """Medians and their ratio as a line of a Markdown table; the history keeps them."""
    columns = [case]
    for results in (ours, theirs):
        columns += ["", "", ""]
        if results:
            latency = (median(results, "latency_ms", quantile) for quantile in ("p50", "p99"))
            columns[-3:] = [
                f"{median(results, 'cons_rate'):,.0f}",
                f"{median(results, 'broker', 'cpu_us_per_msg'):.1f}",
                " / ".join(f"{each:.1f}" for each in latency),
            ]
    ratio = ""
    if ours and theirs:
        our_cost = median(ours, "broker", "cpu_us_per_msg")
        their_cost = median(theirs, "broker", "cpu_us_per_msg")
        ratio = f"{their_cost / our_cost:.1f}"
        rate = median(ours, "cons_rate")
        p50_ms, p99_ms = (median(ours, "latency_ms", each) for each in ("p50", "p99"))
        figures = {"us": our_cost, "rate": rate, "p50_ms": p50_ms, "p99_ms": p99_ms}
        keep("three_nodes", case, build=build(), ratio=their_cost / our_cost, **figures)
    columns += [ratio, f"{faults(ours)} / {faults(theirs)}"]
    return f"| {' | '.join(columns)} |"


def measure_all(clusters: dict[str, Cluster], options: argparse.Namespace) -> None:
    """The cases, broker by broker, and what all nodes hold in memory after each."""
    heads = ("msg/s", "us/msg", "p50/p99 ms")
    head = ["case", *heads, *(f"RabbitMQ {each}" for each in heads)]
    head += ["messages per CPU-second, ratio", "faults"]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for case, arguments in CASES.items():
        if not re.search(options.cases, case):
            continue
        results: dict[str, list[dict[str, Any]]] = {"sluicemq": [], "rabbitmq": []}
        for _ in range(options.repeats):
            for name, each in clusters.items():
                results[name].append(each.measure(options.amqpload, arguments, options.seconds))
        print(row(case, results["sluicemq"], results["rabbitmq"]), flush=True)
        for name, each in clusters.items():
            resident_mb = each.resident_mb
            print(f"<!-- RSS of three nodes after it, {name}: {resident_mb:.0f} MB -->")
            if name == "sluicemq":
                keep("three_nodes", f"RSS after: {case}", build=build(), rss_mb=resident_mb)


def main() -> None:
    """Run the cases, then the failovers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--failovers", type=int, default=20)
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    parser.add_argument("--only", choices=("sluicemq", "rabbitmq"))
    options = parser.parse_args()
    makers = {"sluicemq": loopback, "rabbitmq": loopback_rabbitmq}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = {
            name: Cluster(stack.enter_context(make(home, 3)))
            for name, make in makers.items()
            if options.only in (None, name)
        }
        measure_all(clusters, options)
        for name, each in clusters.items():
            if options.failovers and re.search(options.cases, FAILOVER):
                silences = each.failovers(options.failovers)
                median_s, worst_s = statistics.median(silences), max(silences)
                print(f"{name}: {len(silences)} leaders killed, without confirms for", end="")
                print(f" {median_s:.2f} s at the median, {worst_s:.2f} s at the worst", flush=True)
                keep("three_nodes", f"{FAILOVER}, {name}", median_s=median_s, worst_s=worst_s)


if __name__ == "__main__":
    main()
