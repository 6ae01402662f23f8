"""New members of a mirrored queue that are not sent what is in it: with `ha-sync-mode: manual`, or
after a synchronisation was cancelled.

    declared ---HoldMirror---> held ---what was there has gone, sync_queue, automatic---> free

Who is held is in the state of all mirrors, with the positions that there were; who is free again
only the master knows, which has it added to the group at once. An election between the two holds it
anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sluicemq.queues.mirrored.in_sync_set import InSyncSet
from sluicemq.queues.mirrored.mastership import Mastership


class HeldMirrors:
    """This is whom one master holds."""

    def __init__(self) -> None:
        self.free: set[int] = set()
        """Those that are held no more, or never were."""
        self.holding: set[int] = set()
        """Those of which an entry says that they are held, which is not agreed on yet."""
        self.releasing: set[int] = set()
        """Those of which an entry says that they are held no more, likewise."""
        self.is_cancelled = False
        """New mirrors are held whatever the policy says: a synchronisation was cancelled."""

    def look(
        self,
        new: Iterable[int],
        in_sync: InSyncSet,
        mastership: Mastership[Any] | None,
        *,
        syncs: bool,
    ) -> set[int]:
        """Return which of the `new` members, who are not in the group yet, are not to be added now;
        `syncs` is what the policy says. Without a mastership nothing can be said to the others."""
        if syncs and not self.is_cancelled:
            self.free.update(new)
        waiting = {*new} - self.free
        self.holding -= in_sync.held.keys()
        if mastership is not None:
            for member in sorted(waiting - self.holding - in_sync.held.keys()):
                self.holding.add(member)
                mastership.hold(member)
            for member in sorted(in_sync.held.keys() - waiting - self.releasing):
                self.releasing.add(member)
                mastership.release(member)
        return waiting

    def was_freed(self, member: int) -> None:
        """Hear that a member is held no more: because this was asked for, or because nothing is
        left of what was in the queue."""
        self.holding.discard(member)
        if member in self.releasing:
            self.releasing.discard(member)
        else:
            self.free.add(member)

    def sync(self, new: Iterable[int]) -> None:
        """Hold nobody any more who is new now."""
        self.is_cancelled = False
        self.free.update(new)

    def cancel(self) -> None:
        """Hold everybody who is not in the group yet, and who is new from now on."""
        self.is_cancelled = True
        self.free.clear()
