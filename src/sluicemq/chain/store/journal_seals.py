"""Seals: an idle journal gets one, which distinguishes later damage of its end from a torn tail.

Nobody waits for a seal, so it is not synced, and delays the next publish by at most one small
write. One timer serves all groups, so that a busy journal costs a check now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.limits import SEAL_AFTER_MS

if TYPE_CHECKING:
    from sluicemq.chain.store.store_port import StorePort


class Idle:
    """A timer's message that the journal may be idle: it was at group `sequence` a while ago."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence


class JournalSeals:
    """Writes the seals of one message store's journal when nothing else is written."""

    def __init__(self, store: StorePort) -> None:
        self.store = store
        self.watching = False
        """True while an `Idle` is on its way."""

    def watch(self) -> None:
        """Check in SEAL_AFTER_MS whether the group that is durable now was the last."""
        if not self.watching:
            self.watching = True
            store = self.store
            idle = Idle(store.journal.sequence)
            store.services.world.clock.call_after(SEAL_AFTER_MS, store, idle)

    def look(self, message: Idle) -> bool:
        """Write a seal, which marks the end of the journal, if nothing was written for a while;
        else check again later. Returns whether the journal is idle."""
        self.watching = False
        store = self.store
        if store.sync_runs or message.sequence != store.journal.sequence:
            self.watch()
            return False
        job = store.journal.seal()
        if job is not None and not store.storage_failed:
            store.submit(job)
        return True
