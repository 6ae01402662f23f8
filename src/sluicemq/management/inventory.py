"""The objects of one node: lists of records, fetched on request.

Requests at the same time share one fetch. A short list is fetched for each request, but at most 20
times a second when there are many. A long list may be as old as LAZINESS times the time the broker
takes to make it, so that requests cost a bounded part of the broker's time however many there are;
but it is never older than the last change that this process made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from sluicemq.manage.record_columns import QUEUES, RECORDS
from sluicemq.management.broker_link import BrokerLink

NODE: Final = "node"
"""The kind whose only row are the figures of the node."""

CHAIN: Final = "chain"
"""The kind whose only row has the stages and links of the flow control chain."""

GLOBAL_PARAMETERS: Final = "global_parameters"
"""The kind whose rows are global parameters."""

CROWD_FETCHES: Final = 10
CROWD_S: Final = 0.5
"""This many fetches of a kind within CROWD_S seconds are a crowd's."""

CROWD_LASTS_S: Final = 0.05
"""For how many seconds any list may be shown to a crowd."""

RECORD_SECONDS: Final = 40e-6
"""The seconds that the broker takes for a record, roughly."""

LOOK_SECONDS: Final = 1e-6
"""The seconds that the broker takes for a queue in the figures of its node, roughly."""

LAZINESS: Final = 20
FAR_ROWS: Final = 50
"""The records of another node in a page: short pages hold up nothing else between nodes."""

SHORT: Final = 100
"""Lists of fewer records are always fetched anew."""

Record = dict[str, Any]


class ListSnapshot:
    """One fetch of all records of a kind. `began_s` is when it began."""

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.rows: list[Record] = []

    @property
    def lasts_s(self) -> float:
        """For how many seconds the snapshot may be shown."""
        count, each_s = len(self.rows), RECORD_SECONDS
        if count == 1 and "stages" in self.rows[0]:
            count = len(self.rows[0]["stages"]) + len(self.rows[0]["links"])
        elif count == 1 and "totals" in self.rows[0]:
            count, each_s = self.rows[0]["totals"]["queues"], LOOK_SECONDS
        return 0.0 if count < SHORT else count * each_s * LAZINESS


class Inventory:
    """Fetches lists of records, each kind by one fetch at a time: those of the broker at the end of
    the link, or, through it, those of another `node` of its cluster."""

    def __init__(self, link: BrokerLink, node: str = "") -> None:
        self.link = link
        self.node_name = node
        self.snapshots: dict[str, ListSnapshot] = {}
        self.fetched_s: dict[str, deque[float]] = {}
        """The times of the latest fetches of each kind."""
        self.locks: dict[str, asyncio.Lock] = {}
        self.changed_s = 0.0
        """When something was last changed here."""

    def changed(self) -> None:
        """Note that this process changes something, so that fetched lists are out of date."""
        self.changed_s = asyncio.get_running_loop().time()

    async def all(self, kind: str, age_s: float = 0.0) -> list[Record]:
        """Return all records of a kind; those of a long list may be `age_s` seconds old. Callers
        must not change them. Raises BrokerAway."""
        asked_s = asyncio.get_running_loop().time()
        async with self.locks.setdefault(kind, asyncio.Lock()):
            snapshot = self.snapshots.get(kind)
            if snapshot is None or not self.serves(kind, snapshot, asked_s, age_s):
                snapshot = await self.fetch(kind)
                self.snapshots[kind] = snapshot
                times = self.fetched_s.setdefault(kind, deque(maxlen=CROWD_FETCHES))
                times.append(snapshot.began_s)
            return snapshot.rows

    def serves(self, kind: str, snapshot: ListSnapshot, asked_s: float, age_s: float) -> bool:
        """Tell whether a snapshot may answer a request that came at that time."""
        lasts_s = snapshot.lasts_s
        if lasts_s:
            lasts_s = max(lasts_s, age_s)
        times = self.fetched_s.get(kind)
        if times is not None and len(times) == CROWD_FETCHES and asked_s - times[0] < CROWD_S:
            lasts_s = max(lasts_s, CROWD_LASTS_S)
        is_new = snapshot.began_s + lasts_s >= asked_s and snapshot.began_s > self.changed_s
        return is_new or snapshot.began_s > asked_s

    async def fetch(self, kind: str) -> ListSnapshot:
        """Fetch all records of a kind now."""
        snapshot = ListSnapshot(asyncio.get_running_loop().time())
        if kind == NODE:
            async for page in self.pages("node_figures"):
                snapshot.rows += page
            return snapshot
        if kind == CHAIN:
            snapshot.rows = await self.link.ask("chain")
            return snapshot
        if kind == GLOBAL_PARAMETERS:
            snapshot.rows = await self.link.ask("declared", table=kind)
            return snapshot
        names = RECORDS[kind]
        told_by = {} if "node" in names else {"node": self.node_name}
        more = {"at_home": True, "page": FAR_ROWS} if self.node_name else {}
        async for page in self.pages("records", kind=kind, **more):
            snapshot.rows += [dict(zip(names, values, strict=True)) | told_by for values in page]
        return snapshot

    def pages(self, command: str, /, **arguments: object) -> AsyncIterator[list[Any]]:
        """Yield the pages of the node's answer. Raises BrokerRefused and BrokerAway."""
        if not self.node_name:
            return self.link.pages(command, **arguments)
        return self.link.pages("of_node", node=self.node_name, command=command, arguments=arguments)

    def last(self, kind: str) -> list[Record]:
        """Return all records of a kind as they were last fetched; none if never."""
        snapshot = self.snapshots.get(kind)
        return [] if snapshot is None else snapshot.rows

    async def node(self) -> Record:
        """Return the figures of the node."""
        [row] = await self.all(NODE)
        return row

    async def queue(self, vhost: str, name: str) -> Record | None:
        """Return the record of one queue as it is now; None when there is no such queue."""
        async for page in self.pages("records", kind=QUEUES, vhost=vhost, name=name):
            if page:
                return dict(zip(RECORDS[QUEUES], page[0], strict=True))
        return None
