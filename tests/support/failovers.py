"""How long queues have nobody who agrees on anything when the node of their leaders is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sluicemq.sim.units import MS
from support.linked_brokers import Cluster, LinkedBroker

LOOK_MS: Final = 10


def kill(_: Cluster, victim: LinkedBroker) -> None:
    """It ends, and its connections with it."""
    victim.crash()


def cut_off(run: Cluster, victim: LinkedBroker) -> None:
    """It and the others do not hear each other."""
    run.cut_off(victim)


def deafen(run: Cluster, victim: LinkedBroker) -> None:
    """It hears nothing, and goes on to talk."""
    run.network.cut({(each.host, victim.host): None for each in run.brokers if each is not victim})


FAULTS: Final[dict[str, Callable[[Cluster, LinkedBroker], None]]] = {
    "kill": kill,
    "cut off": cut_off,
    "deaf": deafen,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Machines:
    """How fast the machines of a run are: how long a sync takes, and a step over the network, in
    milliseconds at most."""

    sync_ms: float = 5
    network_ms: float = 1


class Failover:
    """The node is lost that leads so many quorum queues. `silences_ms` has how long it took in each
    until another one had agreed on something; `led` how many queues each of the others leads then.
    """

    def __init__(
        self, fault: str, queues: int, seed: int, machines: Machines, nodes: int = 3
    ) -> None:
        run = Cluster(nodes, seed)
        names = [f"q{nth}" for nth in range(queues)]
        for name in names:
            run.declare(name)
        victim, *others = run.brokers
        run.until(lambda: all(victim.shell(each).raft.is_settled for each in names))
        run.network.delay_ns_max = int(machines.network_ms * MS)
        for each in run.brokers:
            each.disk.delay_ns_max = int(machines.sync_ms * MS)
        run.rest(1000 + seed % 100)
        began_ns = run.timeline.now_ns
        FAULTS[fault](run, victim)
        self.silences_ms: list[int] = []
        self.led = [0] * len(others)
        waiting = dict.fromkeys(names)
        while waiting:
            run.rest(LOOK_MS)
            for name in [*waiting]:
                for place, each in enumerate(others):
                    if each.shell(name).raft.is_settled:
                        del waiting[name]
                        self.silences_ms.append((run.timeline.now_ns - began_ns) // MS)
                        self.led[place] += 1
                        break
        run.no_faults()
