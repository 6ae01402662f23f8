"""When the journal falls idle it gets a seal, which tells later damage of its end from a torn tail.

Nobody waits for a seal, so it is not synced, and what is published next is delayed by one small
write at most. One timer serves all groups: a busy journal costs a look now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.limits import SEAL_AFTER_MS

if TYPE_CHECKING:
    from sluicemq.chain.store.port import StorePort


class Idle:
    """Perhaps the journal is idle: it was at group `sequence` a while ago."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence


class JournalSeals:
    """The seals of one message store's journal."""

    def __init__(self, store: StorePort) -> None:
        self.store = store
        self.watching = False
        """An `Idle` is on its way."""

    def watch(self) -> None:
        """A group is durable: look in a while whether it was the last."""
        if not self.watching:
            self.watching = True
            store = self.store
            idle = Idle(store.journal.sequence)
            store.services.world.clock.call_after(SEAL_AFTER_MS, store, idle)

    def look(self, message: Idle) -> None:
        """Nothing was written for a while: say that what is there is all there was."""
        self.watching = False
        store = self.store
        if store.sync_runs or message.sequence != store.journal.sequence:
            self.watch()
            return
        job = store.journal.seal()
        if job is not None and not store.storage_failed:
            store.submit(job)
