"""The Disk of this step: messages live in memory, so every sync is done at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.world import Disk

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor


class MemoryDisk(Disk):
    """Durable means: for as long as the process lives."""

    def sync(self, actor: Actor, message: object) -> None:
        actor.post(message)
