"""Hurt a cluster of real processes under its clients, and see that it keeps its promises.

    PYTHONPATH=tests python -m cluster.torture [--faults 100] [--queues quorum] [--broker sluicemq]
        [--network proxies] [--nodes 3] [--seed 0]      (make torture-cluster)

Publishers with confirms and consumers with acknowledgements, each connected to some node, go on
while one node after another is killed, stopped or cut off. At the end all queues are drained, and
`book.py` says what has become of each message. The same seed gives the same faults and clients, but
not the same interleaving. It prints for each fault how long a queue confirmed nothing.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from cluster import namespaces, sites
from cluster.book import Book, Verdict
from cluster.crowd import Crowd
from cluster.faults import Fault, plan
from cluster.namespaces import Namespaces
from cluster.sites import Site
from cluster.workers import DEFINITIONS, Consumer, Getter, Publisher, Registrar
from durability.roles import GONE_UNHEARD, Ledger
from sluicemq.amqp.methods import ExchangeDeclare, ExchangeDeclareOk
from sluicemq.amqp.types import Table
from sluicemq.client.address import Address
from sluicemq.client.blocking import NOT_FOUND, BlockingClient
from sluicemq.client.session import BrokerError, ClosedByBrokerError

PATIENCE_S: Final = 240.0
DWELL_S: Final = (0.3, 2.0)
CALM_S: Final = 5.0
"""Before some of the faults, so that acknowledgements have surely been heard."""
UNHEARD_S: Final = 120.0
"""What a publisher has not heard of for so long after the last fault it will not hear of."""

LOST_S: Final = 120.0
"""What is missing for so long after that is lost."""

QUIET_S: Final = 0.5
LOOK_S: Final = 0.1
RATE: Final = 10.0
"""Messages a second of each publisher."""

QUEUES: Final = 3
ARGUMENTS: Final[dict[str, Table]] = {
    "classic": {},
    "mirrored": {},
    "quorum": {"x-queue-type": "quorum"},
}
POLICIES: Final = {"mirrored": '{"ha-mode":"all","ha-sync-mode":"automatic"}'}
"""The policy that holds for the queues of a kind."""


class Failed(AssertionError):
    """A promise was broken, or something that must come has not come."""


class Run:
    """One cluster, its clients and its faults."""

    def __init__(
        self, site: Site, seed: int, queues: dict[str, Table], is_replicated: bool = True
    ) -> None:
        self.site = site
        self.dice = Random(seed)
        self.queues = queues
        """The arguments of each."""
        self.is_replicated = is_replicated
        """Whether all of them go on while a majority does."""
        self.book = Book()
        self.crowd = Crowd([(each.host, each.port) for each in site.nodes], self.book, self.dice)
        self.ledger = Ledger()
        self.silences: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.looked_at = 0.0
        self.tell: Callable[[str], None] = lambda _: None

    # -- waiting

    def pump(self, until: Callable[[], bool], what: str) -> None:
        """Serve the clients until that is so. Failed when it is not in PATIENCE_S."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            if time.monotonic() > deadline:
                said = "\n".join(self.crowd.refusals[-5:])
                raise Failed(f"{what}: not in {PATIENCE_S:g} s\n{said}")
            self.crowd.serve()

    def rest(self, seconds: float) -> None:
        """Serve the clients for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.crowd.serve()

    def all_ready(self) -> bool:
        """Whether all nodes are; asked now and then."""
        now = time.monotonic()
        if now < self.looked_at + LOOK_S:
            return False
        self.looked_at = now
        return all(each.is_ready for each in self.site.nodes)

    def all_confirm(self) -> bool:
        """Whether each queue has confirmed something that was sent after the mark, and definitions
        that were asked for since have been made."""
        return all(self.book.news[each] for each in (*self.queues, DEFINITIONS))

    # -- before, between, after

    def admin(self, number: int) -> BlockingClient:
        node = self.site.node(number)
        return BlockingClient(Address(node.host, node.port), 60.0, "admin")

    def start(self) -> None:
        """All nodes, RabbitMQ's first one alone: the others are to join it."""
        for each in self.site.nodes:
            each.start()
            if self.site.broker == "rabbitmq":
                self.pump(lambda each=each: each.is_ready, f"{each} is not ready")  # type: ignore[misc]
        self.pump(self.all_ready, "the nodes are not ready")

    def declare(self) -> None:
        """Declare the queues, each through another node."""
        for place, (queue, arguments) in enumerate(self.queues.items()):
            with self.admin(place % len(self.site.nodes) + 1) as admin:
                admin.declare_queue(queue, arguments=arguments)

    def fill(self) -> None:
        """Publishers at each node, so that silence is the queue's own; all others go from node to
        node."""
        for queue in self.queues:
            for home in (*range(len(self.site.nodes)), None):
                Publisher(self.crowd, f"publisher at {home} of {queue}", queue, RATE, 100, home)
            for n, prefetch in enumerate((1, 50)):
                consumer = Consumer(self.crowd, f"consumer {n} of {queue}", queue, prefetch, None)
                consumer.gives_back = n == 0
                consumer.pause_s = self.dice.choice((0.0, 0.02))
            getter = Getter(self.crowd, f"getter of {queue}", queue, None)
            getter.pause_s = 0.1
        for n in range(2):
            Registrar(self.crowd, f"registrar {n}", self.ledger)
        self.book.set_mark()
        self.pump(self.all_confirm, "nothing is confirmed")

    def set_policies(self) -> None:
        """Set the policy that holds for the queues of their kind, under load."""
        for kind, policy in POLICIES.items():
            if any(queue.startswith(kind) for queue in self.queues):
                self.book.set_mark()
                done = self.site.nodes[0].ctl("set_policy", kind, f"^{kind}-", policy)
                if done.returncode:
                    raise Failed(done.stderr)
                self.pump(self.all_confirm, f"under the policy of {kind} queues none confirms")

    def hurt(self, fault: Fault) -> None:
        """One fault, from calm to calm."""
        self.rest(self.dice.choice((self.dice.uniform(*DWELL_S), CALM_S)))
        self.book.fault_begins()
        began = self.book.clock()
        fault.begin()
        if fault.is_survived and self.is_replicated:
            self.pump(self.all_confirm, f"{fault}: a majority is there, and does not go on")
        self.rest(self.dice.uniform(*DWELL_S))
        self.pump(fault.is_done, f"{fault} is not done")
        fault.end()
        resends = fault.is_of_network and isinstance(self.site.network, Namespaces)
        lingers_s = self.book.clock() - began if resends else 0.0
        self.book.set_mark()
        self.pump(self.all_ready, f"after {fault} the nodes are not ready")
        self.pump(self.all_confirm, f"after {fault} nothing is confirmed")
        longest = {each.what: each.seconds for each in self.book.fault_is_over(lingers_s)}
        declaring = longest.pop(DEFINITIONS, 0.0)
        confirming = max(longest.values(), default=0.0)
        self.silences[fault.name].append((confirming, declaring))
        self.tell(
            f"{fault}: {confirming:.2f} s without confirms, {declaring:.2f} s without definitions"
        )

    def drain(self) -> Verdict:
        """No more is published; whatever is in the queues comes out. Then they are empty."""
        for client in self.crowd.clients:
            if isinstance(client, Registrar):
                client.is_done = True
        publishers = [each for each in self.crowd.clients if isinstance(each, Publisher)]
        for each in publishers:
            each.is_done = True
        for client in self.crowd.clients:
            if isinstance(client, Consumer | Getter):
                client.gives_back, client.pause_s = False, 0.0
        until = self.book.clock() + UNHEARD_S
        while not all(each.has_heard for each in publishers) and self.book.clock() < until:
            self.crowd.serve()
        for each in publishers:
            if each.stream is not None:
                self.book.give_up(each.stream)
        self.empty()
        self.check_ledger()
        return self.book.closed()

    def empty(self) -> None:
        """Take all that comes, until nothing is missing and the queues stay empty without clients:
        what a consumer had that the broker has not missed yet may come back late."""
        began = seen_at = time.monotonic()
        seen = -1

        def is_drained() -> bool:
            nonlocal seen, seen_at
            now = time.monotonic()
            if self.book.verdict.counts["seen"] != seen:
                seen, seen_at = self.book.verdict.counts["seen"], now
            if now - seen_at < QUIET_S:
                return False
            seen_at = now
            return not self.left() and (now - began > LOST_S or not self.book.missing())

        while True:
            self.pump(is_drained, "the queues do not get empty")
            self.crowd.leave()
            late = time.monotonic() + (LOST_S if self.book.missing() else QUIET_S)
            while not (left := self.left()) and time.monotonic() < late:
                time.sleep(LOOK_S)
            if not left:
                return
            if time.monotonic() - began > PATIENCE_S:
                raise Failed(f"without clients there are {left} messages in the queues")
            for queue in self.queues:
                Consumer(self.crowd, f"another consumer of {queue}", queue, 50, None)

    def check_ledger(self) -> None:
        """What was declared is there at every node, and what was deleted is not."""
        for number in self.site.numbers:
            with self.admin(number) as admin:
                for name, state in self.ledger.known.items():
                    if state != GONE_UNHEARD and is_there(admin, name) != (state == "there"):
                        raise Failed(f"exchange {name} was {state}, but is not, at node {number}")

    def left(self) -> int:
        """Messages that are ready in all queues; 1 when a node does not answer."""
        try:
            with self.admin(self.dice.choice(self.site.numbers)) as admin:
                return admin.count_queues(list(self.queues))
        except (BrokerError, OSError):
            return 1

    def whole(self, faults: int) -> Verdict:
        """Start, hurt, drain. Failed when a promise is broken."""
        self.start()
        self.declare()
        self.fill()
        self.set_policies()
        for fault in plan(self.site, faults, self.dice):
            self.hurt(fault)
        verdict = self.drain()
        self.tell(verdict.line())
        if not verdict.is_well(may_skip=not self.is_replicated):
            raise Failed("\n".join(verdict.examples))
        return verdict

    def table(self) -> list[str]:
        """The silences by kind of fault, seconds at the median and at the worst."""
        rows = [
            "| fault | times | without confirms, s | without definitions, s |",
            "|---" * 4 + "|",
        ]
        for name, pairs in sorted(self.silences.items()):
            told = (
                f"{statistics.median(each):.2f} / {max(each):.2f}"
                for each in zip(*pairs, strict=True)
            )
            rows.append(f"| {name} | {len(pairs)} | {' | '.join(told)} |")
        return rows


def is_there(admin: BlockingClient, exchange: str) -> bool:
    """Whether the node knows an exchange of that name."""
    try:
        admin.call(ExchangeDeclare(exchange, "direct", passive=True), ExchangeDeclareOk)
    except ClosedByBrokerError as closed:
        if closed.code != NOT_FOUND:
            raise
        return False
    return True


def queues_of(kind: str) -> dict[str, Table]:
    """The queues of a run; "none" has only definitions."""
    if kind == "none":
        return {}
    return {f"{kind}-{n}": ARGUMENTS[kind] for n in range(1, QUEUES + 1)}


PLACES: Final = {
    ("sluicemq", "proxies"): sites.proxied,
    ("sluicemq", "namespaces"): sites.walled,
    ("rabbitmq", "namespaces"): sites.walled_rabbitmq,
}


def main() -> int:
    """One run; 1 when it has failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--queues", choices=("none", *ARGUMENTS), default="quorum")
    parser.add_argument("--broker", choices=("sluicemq", "rabbitmq"), default="sluicemq")
    parser.add_argument("--network", choices=("proxies", "namespaces"), default="proxies")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.broker == "rabbitmq":
        options.network = "namespaces"
    if options.network == "namespaces":
        namespaces.enter()
    root = Path(tempfile.mkdtemp(prefix="torture-cluster-"))
    print(f"{root} has what the nodes write", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with PLACES[options.broker, options.network](root, options.nodes) as site:
        run = Run(site, options.seed, queues_of(options.queues), options.queues != "classic")
        run.tell = lambda line: print(line, flush=True)
        try:
            run.whole(options.faults)
        except AssertionError as failed:
            print(f"seed {options.seed}: {failed}")
            return 1
        finally:
            print("\n".join(run.table()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
