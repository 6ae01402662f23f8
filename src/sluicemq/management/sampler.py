"""Samples the figures of everything at regular times, for rates and histories."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from sluicemq.manage.record_columns import CHANNELS, CONNECTIONS, EXCHANGES, QUEUES, VHOSTS
from sluicemq.management.api_error import BrokerAway, BrokerRefused
from sluicemq.management.cluster_inventory import ClusterInventory, home_of, merged, node_name
from sluicemq.management.history import Histories, TotalsHistory, whole
from sluicemq.management.inventory import NODE, Record
from sluicemq.management.node_watch import CHURN, NodeWatch, churn_of
from sluicemq.model.traffic import TRAFFIC

QUEUE_FIGURES: Final = (
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "disk_reads",
    "disk_writes",
    *TRAFFIC,
)
CONNECTION_FIGURES: Final = ("recv_oct", "send_oct")
EXCHANGE_FIGURES: Final = ("publish_in", "publish_out")
TOTALS: Final = (
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "messages_unconfirmed",
    "disk_reads",
    "disk_writes",
    *TRAFFIC,
    *CHURN,
)
"""The figures of the whole cluster that are sampled."""

STAGES: Final = ("reader", "channel", "queue")
"""The stages of the chain that may be held up and have records."""


class BlockedTime:
    """Sums up how long the actors of one stage were held up, including those that are gone."""

    def __init__(self) -> None:
        self.total_ms = 0
        self.seen: dict[Hashable, int] = {}

    def take(self, rows: Mapping[Hashable, int]) -> None:
        """Take a sample of all actors there are."""
        for key, blocked_ms in rows.items():
            self.total_ms += max(0, blocked_ms - self.seen.get(key, 0))
        self.seen = dict(rows)


class TypeTotals:
    """Sums up the traffic of all queues of one type. Queues that are gone stay counted."""

    def __init__(self) -> None:
        self.sums = [0] * len(TRAFFIC)
        self.seen: dict[Hashable, tuple[int, ...]] = {}

    def take(self, rows: Mapping[Hashable, tuple[int, ...]], counted: Container[Hashable]) -> None:
        """Take a sample of all queues of the type that there are; those are `counted` now that the
        node is to be asked about."""
        nothing = (0,) * len(TRAFFIC)
        for key, counts in rows.items():
            before = self.seen.get(key, nothing)
            if counts != before and key in counted:
                for at, (new, old) in enumerate(zip(counts, before, strict=True)):
                    self.sums[at] += max(0, new - old)
        self.seen = dict(rows)


class VhostTotals:
    """Sums up the traffic of virtual hosts. Those that are gone stay counted."""

    def __init__(self) -> None:
        self.gone: dict[str, int] = dict.fromkeys(TRAFFIC, 0)
        self.last: dict[str, Record] = {}

    def take(self, rows: Iterable[Record]) -> None:
        """Take a sample of the virtual hosts that there are."""
        found = {row["name"]: row for row in rows}
        for name, row in self.last.items():
            if name not in found:
                for counter in TRAFFIC:
                    self.gone[counter] += row[counter]
        self.last = found

    def traffic(self, rows: Iterable[Record]) -> dict[str, int]:
        """Return the sums, given the current records of the virtual hosts."""
        sums = dict(self.gone)
        for row in rows:
            for counter in TRAFFIC:
                sums[counter] += row[counter]
        return sums


class BrokerSampler:
    """Samples one broker, and the cluster that it is in, every `interval_ms` milliseconds."""

    def __init__(self, inventory: ClusterInventory, interval_ms: int) -> None:
        self.inventory = inventory
        self.interval_s = interval_ms / 1000
        self.queues = Histories(QUEUE_FIGURES)
        self.connections = Histories(CONNECTION_FIGURES)
        self.channels = Histories(TRAFFIC)
        self.exchanges = Histories(EXCHANGE_FIGURES)
        self.vhosts = Histories(("messages", "messages_ready", "messages_unacknowledged", *TRAFFIC))
        self.totals = TotalsHistory(TOTALS)
        self.nodes: dict[str, NodeWatch] = {}
        """By name, the local node first."""
        self.blocked = {stage: BlockedTime() for stage in STAGES}
        self.by_type = {kind: TypeTotals() for kind in ("classic", "quorum", "stream")}
        self.through_all = VhostTotals()
        """The traffic of all nodes."""
        self.through_own = VhostTotals()
        """The traffic of the local node: other nodes have their own scrapes."""
        self.homes: dict[Hashable, str] = {}
        """The node that reported each queue in the last sample."""
        self.uptime_ms = 0
        self.is_connected = False
        self.sampled = asyncio.Event()
        """Set, and replaced, after each sample."""

    async def run(self) -> None:
        """Take samples for ever; while the broker is away, try to reach it."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await self.sample()
                self.is_connected = True
            except (BrokerAway, BrokerRefused):
                self.is_connected = False
            except Exception:
                traceback.print_exc()  # one programming error must not end the sampling
            sampled, self.sampled = self.sampled, asyncio.Event()
            sampled.set()
            await asyncio.sleep(max(0.05, began_s + self.interval_s - loop.time()))

    async def sample(self) -> None:
        """Take one sample of everything. Raises BrokerAway when the broker does not answer."""
        inventory = self.inventory
        now_ms = time.time_ns() // 1_000_000
        own = await inventory.node()
        if own["uptime_ms"] < self.uptime_ms:  # another broker, whose counters began at 0
            self.through_all, self.through_own = VhostTotals(), VhostTotals()
        self.uptime_ms = own["uptime_ms"]
        await self.sample_nodes(now_ms, own)
        parts = await inventory.parts(QUEUES)
        queues = merged(QUEUES, parts)
        self.sample_queues(now_ms, queues)
        await asyncio.sleep(0)
        own_queues = {(row["vhost"], row["name"]): row for row in parts[""]}
        at_home = {key for key, row in own_queues.items() if inventory.is_at_home(row)}
        for kind, type_totals in self.by_type.items():
            rows: dict[Hashable, tuple[int, ...]] = {
                key: tuple(row[name] for name in TRAFFIC)
                for key, row in own_queues.items()
                if row["type"] == kind
            }
            type_totals.take(rows, at_home)
        self.blocked["queue"].take({key: row["blocked_ms"] for key, row in own_queues.items()})
        await self.sample_clients(now_ms, CONNECTIONS, "reader", self.connections)
        channels = await self.sample_clients(now_ms, CHANNELS, "channel", self.channels)
        await asyncio.sleep(0)
        exchanges = {(row["vhost"], row["name"]): row for row in await inventory.all(EXCHANGES)}
        self.exchanges.add(now_ms, rows_of(exchanges, EXCHANGE_FIGURES))
        await self.sample_vhosts(now_ms, queues)
        unconfirmed = sum(row["messages_unconfirmed"] for row in channels)
        figures = self.totals_now(queues, unconfirmed)
        self.totals.add(now_ms, [figures[name] for name in TOTALS])

    async def sample_nodes(self, now_ms: int, own: Record) -> None:
        """Take a sample of the figures of all nodes that answer, and forget nodes that are gone."""
        inventory = self.inventory
        names = {node_name(own): own, **dict.fromkeys(own["others"])}
        pid = inventory.link.pid
        self.nodes = {
            name: self.nodes.get(name) or NodeWatch(pid if told is own else 0)
            for name, told in names.items()
        }
        own_watch = self.nodes[node_name(own)]
        own_watch.pid = pid
        own_watch.take(now_ms, own)
        for name in [*inventory.others]:
            rows = await inventory.of_other(name, NODE)
            if rows and rows[0] is not self.nodes[name].told:
                self.nodes[name].take(now_ms, rows[0])

    def sample_queues(self, now_ms: int, queues: list[Record]) -> None:
        """Take a sample of all queues. When another node than before reports a queue, its counters
        differ, so there is no rate between the two samples."""
        by_name: dict[Any, Record] = {(row["vhost"], row["name"]): row for row in queues}
        self.queues.add(now_ms, rows_of(by_name, QUEUE_FIGURES))
        homes: dict[Hashable, str] = {key: home_of(row) for key, row in by_name.items()}
        for key, home in homes.items():
            if self.homes.get(key, home) != home:
                self.queues.rings[key].restart_rates()
        self.homes = homes

    async def sample_clients(
        self, now_ms: int, kind: str, stage: str, histories: Histories
    ) -> list[Record]:
        """Take a sample of all connections, or channels, and return them."""
        parts = await self.inventory.parts(kind)
        rows = merged(kind, parts)
        histories.add(now_ms, rows_of({row["name"]: row for row in rows}, [*histories.names]))
        self.blocked[stage].take({row["name"]: row["blocked_ms"] for row in parts[""]})
        return rows

    async def sample_vhosts(self, now_ms: int, queues: Iterable[Record]) -> None:
        """Take a sample of the virtual hosts."""
        parts = await self.inventory.parts(VHOSTS)
        vhosts = merged(VHOSTS, parts)
        self.through_all.take(vhosts)
        self.through_own.take(parts[""])
        depths = {row["name"]: [0, 0, 0] for row in vhosts}
        for queue in queues:
            depth = depths.get(queue["vhost"])
            if depth is not None:
                depth[0] += queue["messages"]
                depth[1] += queue["messages_ready"]
                depth[2] += queue["messages_unacknowledged"]
        rows: dict[Hashable, Sequence[int]] = {
            row["name"]: [*depths[row["name"]], *(row[counter] for counter in TRAFFIC)]
            for row in vhosts
        }
        self.vhosts.add(now_ms, rows)

    def told_by_all(self, own: Record) -> list[Record]:
        """Return the figures of all nodes that are up: those of the local node as given, those of
        others as they last reported them."""
        others = own["others"]
        return [own, *(self.nodes[name].told for name in others if self.is_known(name, own))]

    def is_known(self, name: str, own: Record) -> bool:
        """Tell whether another node is up and has reported its figures."""
        watch = self.nodes.get(name)
        return own["others"][name] and watch is not None and bool(watch.told)

    def totals_now(self, queues: Iterable[Record], unconfirmed: int) -> dict[str, int]:
        """Return the current figures of the cluster, by their names."""
        queues = [*queues]
        [own, *_] = self.nodes.values()
        every = self.told_by_all(own.told)
        ready = sum(told["totals"]["messages_ready"] for told in every)
        unacked = sum(told["totals"]["messages_unacknowledged"] for told in every)
        return {
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
            "messages_unconfirmed": unconfirmed,
            "disk_reads": sum(row["disk_reads"] for row in queues),
            "disk_writes": sum(row["disk_writes"] for row in queues),
            **self.through_all.traffic(self.through_all.last.values()),
            **churn_of_all(every),
        }


def churn_of_all(every: Iterable[Record]) -> dict[str, int]:
    """Return how many connections, channels and queues were opened and closed on these nodes."""
    sums = dict.fromkeys(CHURN, 0)
    for told in every:
        for name, count in churn_of(told).items():
            sums[name] += count
    return sums


def rows_of(records: Mapping[Any, Record], names: Sequence[str]) -> dict[Hashable, Sequence[int]]:
    """Return the values of these figures in all records."""
    return {key: whole(row[name] for name in names) for key, row in records.items()}
