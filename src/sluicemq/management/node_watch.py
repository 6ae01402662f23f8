"""The figures of one node: the last ones that it reported, and their history."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from sluicemq.management.history import TotalsHistory
from sluicemq.management.inventory import Record

CHURN: Final = {
    "channel_closed": "channels_closed",
    "channel_created": "channels_opened",
    "connection_closed": "connections_closed",
    "connection_created": "connections_opened",
    "queue_created": "queues_created",
    "queue_declared": "queues_declared",
    "queue_deleted": "queues_deleted",
}
"""RabbitMQ's names of the churn figures, with the broker's counters."""

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


class NodeWatch:
    """Keeps the figures of one node; `pid` is its process, 0 if on another machine."""

    def __init__(self, pid: int = 0) -> None:
        self.pid = pid
        self.told: Record = {}
        """The last row of `node_figures`; empty before the first."""
        self.history = TotalsHistory((*NODE_FIGURES, *CHURN))

    def take(self, now_ms: int, told: Record) -> None:
        """Take a sample of the node's figures."""
        self.told = told
        figures = self.figures(told) | churn_of(told)
        self.history.add(now_ms, [figures[name] for name in self.history.names])

    def figures(self, told: Record) -> dict[str, int]:
        """Return the node's figures that are sampled, out of its report."""
        io = told["io"]
        totals = told["totals"]
        free = told["disk"]["free_bytes"]
        return {
            "mem_used": told["memory"]["resident_bytes"],
            "fd_used": descriptors_of(self.pid)
            or totals["connections"] + io.get("file_handles_open", 0),
            "sockets_used": totals["connections"],
            "proc_used": totals["connections"] + totals["channels"] + totals["queues"],
            "disk_free": free if isinstance(free, int) else 0,
            **{name: io.get(name, 0) for name in IO},
            "msg_store_read_count": told["store"]["reads"],
            "msg_store_write_count": told["store"]["writes"],
            "queue_index_read_count": 0,
            "queue_index_write_count": 0,
        }


def churn_of(told: Record) -> dict[str, int]:
    """Return how many connections, channels and queues were opened and closed on a node."""
    return {name: told["counters"][counter] for name, counter in CHURN.items()}


def descriptors_of(pid: int) -> int:
    """Return how many descriptors a process of this user has open; 0 if it does not exist."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd")) if pid else 0
    return 0
