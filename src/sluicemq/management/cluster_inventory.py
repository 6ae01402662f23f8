"""The objects of the whole cluster: those that the local broker reports itself, and those that it
gets from the other nodes.

A queue's figures come from the node that has its messages, or leads its group. A node that is down
adds nothing; its queues are shown as other nodes know them. A node that is up and does not answer
in time is shown as it last was, and not asked again for a while.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Final

from sluicemq.manage.record_columns import (
    CHANNELS,
    CONNECTIONS,
    CONSUMERS,
    EXCHANGES,
    QUEUES,
    VHOSTS,
)
from sluicemq.management.api_error import BrokerAway, BrokerRefused
from sluicemq.management.broker_link import BrokerLink
from sluicemq.management.inventory import Inventory, Record
from sluicemq.model.queue_types import QUORUM
from sluicemq.model.traffic import TRAFFIC

OF_EACH_NODE: Final = (QUEUES, CONNECTIONS, CHANNELS, CONSUMERS, EXCHANGES, VHOSTS)
"""Kinds of which each node has records, or figures, that the others do not."""

SUMMED: Final = {
    EXCHANGES: (("vhost", "name"), ("publish_in", "publish_out")),
    VHOSTS: (("name",), TRAFFIC),
}
"""Kinds of which all nodes have the same records, each with counters of its own: the key of a
record, and these counters."""

DOWN: Final = 69
"""The exit code with which a broker refuses to ask a node that is down."""

REST_S: Final = 5.0
"""For how long a node that has not answered in time is not asked again."""

Parts = Mapping[str, list[Record]]
"""Records by the name of the node that reported them; the first is the local one."""


def node_name(node: Record) -> str:
    """Return the name of a node, given its figures: its name in the cluster, or one made of the
    machine's."""
    return node["name"] or f"sluicemq@{socket.gethostname()}"


def home_of(queue: Record) -> str:
    """Return the name of the node to ask about a queue; "" for a node without a cluster, or when
    the queue's group has no leader."""
    if queue["type"] == QUORUM and queue["node"]:
        return str(queue["leader"])
    return str(queue["node"])


class ClusterInventory:
    """Fetches lists of records of all nodes, by way of the local broker."""

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.far = BrokerLink(link.port)
        """For questions to other nodes, so that those to the local broker do not wait behind
        them."""
        self.own = Inventory(link)
        self.others: dict[str, Inventory] = {}
        """By name, the nodes that were up when the local broker was last asked for its figures."""
        self.name = ""
        """The name of the local node; "" before the first answer, and without a cluster."""
        self.rests_until_s: dict[str, float] = {}
        """By name, the time until which nodes that have not answered are not asked."""

    def changed(self) -> None:
        """Note that this process changes something, so that fetched lists are out of date."""
        for inventory in (self.own, *self.others.values()):
            inventory.changed()

    async def node(self) -> Record:
        """Return the figures of the local broker. Raises BrokerAway."""
        figures = await self.own.node()
        self.name = figures["name"] or ""
        known = self.others
        self.others = {
            name: known.get(name) or Inventory(self.far, name)
            for name, is_up in figures["others"].items()
            if is_up
        }
        return figures

    async def all(self, kind: str, age_s: float = 0.0) -> list[Record]:
        """Return all records of a kind in the cluster, each once; those of a long list may be
        `age_s` seconds old. Callers must not change them. Raises BrokerAway."""
        return merged(kind, await self.parts(kind, age_s))

    async def parts(self, kind: str, age_s: float = 0.0) -> Parts:
        """Return the records of a kind, by the node that reported them. Raises BrokerAway."""
        names = [*self.others] if kind in OF_EACH_NODE else []
        first, *rest = await asyncio.gather(
            self.own.all(kind, age_s), *(self.of_other(name, kind, age_s) for name in names)
        )
        return {"": first, **dict(zip(names, rest, strict=True))}

    async def of_other(self, name: str, kind: str, age_s: float = 0.0) -> list[Record]:
        """Return the records of another node; the last ones when it does not answer in time, and
        none when it is down."""
        inventory = self.others[name]
        if self.rests(name):
            return inventory.last(kind)
        try:
            return await inventory.all(kind, age_s)
        except BrokerRefused as refused:
            if refused.code == DOWN:
                return []
        except BrokerAway:
            pass
        self.rests_until_s[name] = asyncio.get_running_loop().time() + REST_S
        return inventory.last(kind)

    def rests(self, name: str) -> bool:
        """Tell whether a node is not asked for a while, because it has not answered in time."""
        return self.rests_until_s.get(name, 0.0) > asyncio.get_running_loop().time()

    async def at_home(self, kind: str, age_s: float = 0.0) -> list[Record]:
        """Return the local broker's own records, without the queues of other nodes. Raises
        BrokerAway."""
        rows = await self.own.all(kind, age_s)
        return rows if kind != QUEUES else [row for row in rows if self.is_at_home(row)]

    def is_at_home(self, queue: Record) -> bool:
        """Tell whether the local node is the one to ask about a queue, given its record of it."""
        return not queue["node"] or home_of(queue) == self.name

    async def queue(self, vhost: str, name: str) -> Record | None:
        """Return the record of one queue as it is now; None when there is no such queue."""
        row = await self.own.queue(vhost, name)
        home = None if row is None else self.others.get(home_of(row))
        if home is None or self.rests(home.node_name):
            return row
        try:
            return await home.queue(vhost, name) or row
        except (BrokerRefused, BrokerAway):
            return row


def merged(kind: str, parts: Parts) -> list[Record]:
    """Return the records of all nodes, each object once."""
    first, *rest = parts.values()
    if not any(rest):
        return first
    if kind in SUMMED:
        return summed(*SUMMED[kind], [first, *rest])
    if kind != QUEUES:
        return [row for rows in (first, *rest) for row in rows]
    found = {(row["vhost"], row["name"]): row for row in first}
    for rows in rest:
        found.update(((row["vhost"], row["name"]), row) for row in rows)
    return [*found.values()]


def summed(
    key: tuple[str, ...], counters: tuple[str, ...], parts: list[list[Record]]
) -> list[Record]:
    """Return the records of the first part, with each counter summed over all parts."""
    found = {tuple(row[name] for name in key): dict(row) for row in parts[0]}
    for rows in parts[1:]:
        for row in rows:
            sums = found.get(tuple(row[name] for name in key))
            if sums is not None:
                for name in counters:
                    sums[name] += row[name]
    return [*found.values()]
