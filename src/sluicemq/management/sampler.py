"""Takes figures of everything at regular times: of them rates and histories are made."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from sluicemq.manage.record_columns import CHANNELS, CONNECTIONS, EXCHANGES, QUEUES, VHOSTS
from sluicemq.management.api_error import BrokerAway, BrokerRefused
from sluicemq.management.history import Histories, TotalsHistory, whole
from sluicemq.management.inventory import Inventory, Record
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
CHURN: Final = {
    "channel_closed": "channels_closed",
    "channel_created": "channels_opened",
    "connection_closed": "connections_closed",
    "connection_created": "connections_opened",
    "queue_created": "queues_created",
    "queue_declared": "queues_declared",
    "queue_deleted": "queues_deleted",
}
"""RabbitMQ's names of what comes and goes, with the broker's counters."""

IO: Final = (
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "io_seek_count",
    "io_reopen_count",
)
NODE_FIGURES: Final = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "proc_used",
    "disk_free",
    *IO,
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
)
TOTALS: Final = (
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "messages_unconfirmed",
    "disk_reads",
    "disk_writes",
    *TRAFFIC,
    *CHURN,
    *NODE_FIGURES,
)

STAGES: Final = {"reader": CONNECTIONS, "channel": CHANNELS, "queue": QUEUES}
"""The stages of the chain that may be held up, with the kind of their records."""


class BlockedTime:
    """Sums up for how long the actors of one stage were held up. What is gone stays counted."""

    def __init__(self) -> None:
        self.total_ms = 0
        self.seen: dict[Hashable, int] = {}

    def take(self, rows: Mapping[Hashable, int]) -> None:
        """Take a sample of all actors there are."""
        for key, blocked_ms in rows.items():
            self.total_ms += max(0, blocked_ms - self.seen.get(key, 0))
        self.seen = dict(rows)


class TypeTotals:
    """Sums up the traffic of all queues of one type. What is gone stays counted."""

    def __init__(self) -> None:
        self.sums = [0] * len(TRAFFIC)
        self.seen: dict[Hashable, tuple[int, ...]] = {}

    def take(self, rows: Mapping[Hashable, tuple[int, ...]]) -> None:
        """Take a sample of all queues of the type that there are."""
        nothing = (0,) * len(TRAFFIC)
        for key, counts in rows.items():
            before = self.seen.get(key, nothing)
            if counts != before:
                for at, (new, old) in enumerate(zip(counts, before, strict=True)):
                    self.sums[at] += max(0, new - old)
        self.seen = dict(rows)


class BrokerSampler:
    """Samples all of one broker every `interval_ms` milliseconds."""

    def __init__(self, inventory: Inventory, interval_ms: int) -> None:
        self.inventory = inventory
        self.interval_s = interval_ms / 1000
        self.queues = Histories(QUEUE_FIGURES)
        self.connections = Histories(CONNECTION_FIGURES)
        self.channels = Histories(TRAFFIC)
        self.exchanges = Histories(EXCHANGE_FIGURES)
        self.vhosts = Histories(("messages", "messages_ready", "messages_unacknowledged", *TRAFFIC))
        self.totals = TotalsHistory(TOTALS)
        self.blocked = {stage: BlockedTime() for stage in STAGES}
        self.by_type = {kind: TypeTotals() for kind in ("classic", "quorum", "stream")}
        self.gone: dict[str, int] = dict.fromkeys(TRAFFIC, 0)
        """What went through virtual hosts that are gone."""
        self.last_vhosts: dict[str, Record] = {}
        self.uptime_ms = 0
        self.is_connected = False
        self.sampled = asyncio.Event()
        """Set, and replaced, after each sample."""

    async def run(self) -> None:
        """Take samples for ever; while the broker is away it is looked for."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await self.sample()
                self.is_connected = True
            except (BrokerAway, BrokerRefused):
                self.is_connected = False
            except Exception:
                traceback.print_exc()  # a mistake of ours must not end the rates of everything
            sampled, self.sampled = self.sampled, asyncio.Event()
            sampled.set()
            await asyncio.sleep(max(0.05, began_s + self.interval_s - loop.time()))

    async def sample(self) -> None:
        """Take one sample of everything. Raises BrokerAway when the broker does not answer."""
        inventory = self.inventory
        now_ms = time.time_ns() // 1_000_000
        node = await inventory.node()
        if node["uptime_ms"] < self.uptime_ms:
            self.gone = dict.fromkeys(TRAFFIC, 0)  # another broker, which has begun at 0
            self.last_vhosts = {}
        self.uptime_ms = node["uptime_ms"]
        queues = await inventory.all(QUEUES)
        by_name = {(row["vhost"], row["name"]): row for row in queues}
        self.queues.add(now_ms, rows_of(by_name, QUEUE_FIGURES))
        await asyncio.sleep(0)
        connections = {row["name"]: row for row in await inventory.all(CONNECTIONS)}
        self.connections.add(now_ms, rows_of(connections, CONNECTION_FIGURES))
        channels = {row["name"]: row for row in await inventory.all(CHANNELS)}
        self.channels.add(now_ms, rows_of(channels, TRAFFIC))
        await asyncio.sleep(0)
        exchanges = {(row["vhost"], row["name"]): row for row in await inventory.all(EXCHANGES)}
        self.exchanges.add(now_ms, rows_of(exchanges, EXCHANGE_FIGURES))
        found: tuple[Mapping[Any, Record], ...] = (connections, channels, by_name)
        for blocked, rows in zip(self.blocked.values(), found, strict=True):
            blocked.take({key: row["blocked_ms"] for key, row in rows.items()})
        for kind, type_totals in self.by_type.items():
            type_totals.take(
                {
                    key: tuple(row[name] for name in TRAFFIC)
                    for key, row in by_name.items()
                    if row["type"] == kind
                }
            )
        await self.sample_vhosts(now_ms, queues)
        unconfirmed = sum(row["messages_unconfirmed"] for row in channels.values())
        figures = self.totals_now(node, queues, unconfirmed)
        self.totals.add(now_ms, [figures[name] for name in TOTALS])

    async def sample_vhosts(self, now_ms: int, queues: Iterable[Record]) -> None:
        """Take a sample of the virtual hosts, and remember what went through those that are
        gone."""
        vhosts = {row["name"]: row for row in await self.inventory.all(VHOSTS)}
        for name, row in self.last_vhosts.items():
            if name not in vhosts:
                for counter in TRAFFIC:
                    self.gone[counter] += row[counter]
        self.last_vhosts = vhosts
        depths = {name: [0, 0, 0] for name in vhosts}
        for queue in queues:
            depth = depths.get(queue["vhost"])
            if depth is not None:
                depth[0] += queue["messages"]
                depth[1] += queue["messages_ready"]
                depth[2] += queue["messages_unacknowledged"]
        rows: dict[Hashable, Sequence[int]] = {
            name: [*depths[name], *(row[counter] for counter in TRAFFIC)]
            for name, row in vhosts.items()
        }
        self.vhosts.add(now_ms, rows)

    def traffic(self, vhosts: Iterable[Record]) -> dict[str, int]:
        """Return what went through the broker in sum, given its virtual hosts as they are now."""
        sums = dict(self.gone)
        for row in vhosts:
            for counter in TRAFFIC:
                sums[counter] += row[counter]
        return sums

    def totals_now(
        self, node: Record, queues: Iterable[Record], unconfirmed: int
    ) -> dict[str, int]:
        """Return all figures of the broker as they are now, by their names."""
        queues = [*queues]
        depth = node["totals"]
        return {
            "messages": depth["messages_ready"] + depth["messages_unacknowledged"],
            "messages_ready": depth["messages_ready"],
            "messages_unacknowledged": depth["messages_unacknowledged"],
            "messages_unconfirmed": unconfirmed,
            "disk_reads": sum(row["disk_reads"] for row in queues),
            "disk_writes": sum(row["disk_writes"] for row in queues),
            **self.traffic(self.last_vhosts.values()),
            **{name: node["counters"][counter] for name, counter in CHURN.items()},
            **self.node_figures(node),
        }

    def node_figures(self, node: Record) -> dict[str, int]:
        """Return the figures of the node that are sampled, as they are now."""
        io = node["io"]
        totals = node["totals"]
        free = node["disk"]["free_bytes"]
        return {
            "mem_used": node["memory"]["resident_bytes"],
            "fd_used": descriptors_of(self.inventory.link.pid),
            "sockets_used": totals["connections"],
            "proc_used": totals["connections"] + totals["channels"] + totals["queues"],
            "disk_free": free if isinstance(free, int) else 0,
            **{name: io.get(name, 0) for name in IO},
            "msg_store_read_count": node["store"]["reads"],
            "msg_store_write_count": node["store"]["writes"],
            "queue_index_read_count": 0,
            "queue_index_write_count": 0,
        }


def rows_of(records: Mapping[Any, Record], names: Sequence[str]) -> dict[Hashable, Sequence[int]]:
    """Return the figures of these names of all records."""
    return {key: whole(row[name] for name in names) for key, row in records.items()}


def descriptors_of(pid: int) -> int:
    """Return how many descriptors a process of this user has open; 0 when it is gone."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd")) if pid else 0
    return 0
