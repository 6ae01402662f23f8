"""queue ---write---> MESSAGE STORE: group commit, one sync at a time.

In this step nothing is read back: messages live in the queues' memory, and the Disk only says
when a group would be durable. The order is already the final one: what arrives while a sync runs
forms the next group, and a queue hears `Written` only after the sync that covers its writes. While
more than STORE_GROUP_BYTES wait for a sync the store grants nothing: the chain fills up behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.flow.gate import Gate
from sluicemq.limits import STORE_GROUP_BYTES
from sluicemq.queues.commands import Receipt, Written

if TYPE_CHECKING:
    from sluicemq.flow.credit import Inflow
    from sluicemq.kernel.actor import Actor, Scheduler
    from sluicemq.kernel.world import World
    from sluicemq.model.batch import Batch


class StoreWrite:
    """A batch for the store, from `queue`; `inflow` is the store's half of their link."""

    __slots__ = ("batch", "inflow", "queue", "receipt")

    def __init__(self, queue: Actor, batch: Batch, receipt: Receipt | None, inflow: Inflow) -> None:
        self.queue = queue
        self.batch = batch
        self.receipt = receipt
        self.inflow = inflow


class Synced:
    """From the Disk: the group that was being synced is durable."""

    __slots__ = ()


class MessageStore(FlowActor):
    """One per node."""

    kind = "message_store"

    def __init__(self, scheduler: Scheduler, world: World) -> None:
        super().__init__(scheduler, world.clock)
        self.disk = world.disk
        self.group: list[tuple[Actor, Receipt]] = []
        self.syncing: list[tuple[Actor, Receipt]] = []
        self.group_bytes = 0
        self.group_bytes_max = STORE_GROUP_BYTES
        self.sync_runs = False
        self.full = Gate(self.keeper, "writes waiting for a sync")
        self.writes = 0
        self.syncs = 0

    def receive(self, message: object) -> None:
        """Writes from queues; the end of a sync from the Disk."""
        if isinstance(message, StoreWrite):
            count = len(message.batch.contents)
            self.writes += count
            self.group_bytes += message.batch.size
            if message.receipt is not None:
                self.group.append((message.queue, message.receipt))
            if self.group_bytes > self.group_bytes_max:
                self.full.shut()
            message.inflow.settle(count, message.batch.size)
        elif isinstance(message, Synced):
            self.synced()
        else:
            super().receive(message)

    def synced(self) -> None:
        """Tell each queue what of its is durable, in order of writing."""
        self.sync_runs = False
        by_queue: dict[Actor, list[Receipt]] = {}
        for queue, receipt in self.syncing:
            by_queue.setdefault(queue, []).append(receipt)
        self.syncing = []
        for queue, receipts in by_queue.items():
            queue.post(Written(receipts))

    def turn_ended(self) -> None:
        """Start the next sync when something waits for one."""
        if self.sync_runs or not self.group_bytes:
            return
        self.sync_runs = True
        self.syncs += 1
        self.syncing = self.group
        self.group = []
        self.group_bytes = 0
        self.full.open()
        self.disk.sync(self, Synced())
