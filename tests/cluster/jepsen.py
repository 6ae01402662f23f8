"""RabbitMQ's own Jepsen tests of quorum queues: their parameters, with real nodes of either broker.

    PYTHONPATH=tests python -m cluster.jepsen [--broker sluicemq] [--scale 1] [--nodes 3]
        [--sets 1-14] [--out FILE] [--seed 0]      (make jepsen)

The parameters are those of github.com/rabbitmq/jepsen, ci/jepsen-test.sh: 180 s of publishing and
consuming at each node, during which the network falls apart again and again, then 20 s of rest and
a drain. `--scale` multiplies all these times. Clients stay at their nodes; each publishes 25
messages a second, one at a time, and goes on when one is not confirmed for 5 s. It is passed when
nothing is lost or unexpected and every queue ends empty; what `book.py` notes besides is in the
table. Each set has a new cluster. All is done by this program: Jepsen itself, and its five
machines, are not needed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster import namespaces
from cluster.book import MUST_NOT_BE
from cluster.partitions import STRATEGIES
from cluster.sites import Site
from cluster.torture import PLACES, Failed, Run
from cluster.workers import Consumer, Getter, Publisher
from sluicemq.amqp.types import Table

LIMIT_S: Final = 180.0
BEFORE_S: Final = 20.0
RECOVERY_S: Final = 20.0
RATE: Final = 25.0
TTL_MS: Final = 1000
HALVES, RANDOM_HALVES = "partition-halves", "random-partition-halves"
RING, NODE = "partition-majorities-ring", "partition-random-node"


@dataclass(frozen=True)
class ParameterSet:
    """One of the tests. `partition_s` is how long each partition lasts, and as long as BEFORE_S is
    before it; `members` of the queue, None: all nodes."""

    partition_s: float
    strategy: str
    consumers: str = "mixed"
    members: int | None = None
    dead_letters: bool = False

    def __str__(self) -> str:
        words = [self.strategy, f"{self.partition_s:g} s", self.consumers]
        words += [f"{self.members} members"] if self.members else []
        words += ["dead letters"] if self.dead_letters else []
        return ", ".join(words)


SETS: Final = (
    ParameterSet(30, RANDOM_HALVES),
    ParameterSet(30, HALVES),
    ParameterSet(30, RING),
    ParameterSet(30, NODE),
    ParameterSet(10, RANDOM_HALVES),
    ParameterSet(10, RANDOM_HALVES, members=3),
    ParameterSet(10, HALVES),
    ParameterSet(10, RING),
    ParameterSet(10, NODE),
    ParameterSet(10, NODE, "asynchronous"),
    ParameterSet(10, NODE, "asynchronous", members=3),
    ParameterSet(10, NODE, "polling"),
    ParameterSet(30, RANDOM_HALVES, dead_letters=True),
    ParameterSet(30, HALVES, dead_letters=True),
)


def queues_of(parameters: ParameterSet, name: str, nodes: int) -> dict[str, Table]:
    """The queue that is published to, and the one that messages die into, if they do."""
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": parameters.members or nodes,
    }
    if not parameters.dead_letters:
        return {name: arguments}
    dying: Table = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": f"{name}-dead",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-message-ttl": TTL_MS,
    }
    return {name: arguments | dying, f"{name}-dead": arguments}


class JepsenRun(Run):
    """One set of parameters on a cluster that is up."""

    def __init__(self, site: Site, seed: int, number: int, parameters: ParameterSet) -> None:
        queues = queues_of(parameters, f"jepsen-{number}", len(site.nodes))
        super().__init__(site, seed, queues)
        self.parameters = parameters
        self.inbound, self.outbound = next(iter(queues)), list(queues)[-1]
        if parameters.dead_letters:
            self.book.leads_to[self.inbound] = self.outbound
        self.silence = 0.0

    def all_confirm(self) -> bool:
        return bool(self.book.news[self.inbound])

    def fill(self) -> None:
        """At each node a publisher and a consumer, which stay there."""
        for home in range(len(self.site.nodes)):
            Publisher(self.crowd, f"publisher {home + 1}", self.inbound, RATE, 1, home)
            polls = self.parameters.consumers == "polling"
            if self.parameters.consumers == "mixed":
                polls = bool(self.dice.randrange(2))
            if polls:
                Getter(self.crowd, f"getter {home + 1}", self.outbound, home)
            else:
                Consumer(self.crowd, f"consumer {home + 1}", self.outbound, 1, home)
        self.book.set_mark()
        self.pump(self.all_confirm, "nothing is confirmed")

    def fall_apart(self, scale: float) -> int:
        """Until the time is up; how often."""
        assert self.site.network is not None
        strategy = STRATEGIES[self.parameters.strategy]
        until = self.book.clock() + LIMIT_S * scale
        times = 0
        while self.book.clock() < until:
            self.rest(min(BEFORE_S * scale, until - self.book.clock()))
            lasts = min(self.parameters.partition_s * scale, until - self.book.clock())
            if lasts <= 0:
                break
            times += 1
            self.book.fault_begins()
            self.site.network.cut(*strategy(self.site.numbers, self.dice))
            self.rest(lasts)
            self.site.network.heal()
            self.book.set_mark()
            self.pump(self.all_ready, "after a partition the nodes are not ready")
            self.pump(self.all_confirm, "after a partition nothing is confirmed")
            silences = self.book.fault_is_over(lasts)
            self.silence = max([self.silence, *(each.seconds for each in silences)])
        return times

    def row(self, scale: float) -> str:
        """All of it, as a row of the table."""
        ended = "empty"
        times = 0
        try:
            self.declare()
            self.fill()
            times = self.fall_apart(scale)
            self.rest(RECOVERY_S * scale)
            self.drain()
        except Failed as failed:
            ended = str(failed).splitlines()[0]
            self.crowd.leave()
            self.book.closed()
        counts = self.book.verdict.counts
        told = [counts[each] for each in COLUMNS]
        figures = [times, *told, f"{self.silence:.1f}", ended]
        return " | ".join(map(str, figures))


COLUMNS: Final = ("published", "confirmed", "recovered", *MUST_NOT_BE, "again")
HEAD: Final = ("set", "parameters", "partitions", *COLUMNS, "longest silence, s", "queues")


def chosen(text: str) -> list[int]:
    """`1-3,7` as numbers of sets."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def main() -> int:
    """The sets, one after the other; 1 when one was not passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", choices=("sluicemq", "rabbitmq"), default="sluicemq")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--sets", type=chosen, default=chosen(f"1-{len(SETS)}"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    namespaces.enter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    root = Path(tempfile.mkdtemp(prefix="jepsen-"))
    print(f"{root} has what the nodes write\n", flush=True)
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    print("\n".join(lines), flush=True)
    passed = True
    for number in options.sets:
        parameters = SETS[number - 1]
        directory = root / str(number)
        directory.mkdir()
        with PLACES[options.broker, "namespaces"](directory, options.nodes) as site:
            run = JepsenRun(site, options.seed + number, number, parameters)
            run.start()
            row = run.row(options.scale)
        lines.append(f"| {number} | {parameters} | {row} |")
        print(lines[-1], *run.book.verdict.examples, sep="\n", flush=True)
        counts = run.book.verdict.counts
        passed = passed and not counts["lost"] + counts["unexpected"] and row.endswith("empty")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
