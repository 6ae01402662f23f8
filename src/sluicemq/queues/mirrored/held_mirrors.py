"""New members of a mirrored queue that are not sent its messages: with `ha-sync-mode: manual`, or
after a synchronisation was cancelled.

    declared ---HoldMirror---> held ---old messages gone, sync_queue, automatic---> free

All mirrors have the held members in their state, with the positions of that time. Only the master
knows the freed ones, and has them added to the group at once. An election in between holds them
anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sluicemq.queues.mirrored.in_sync_set import InSyncSet
from sluicemq.queues.mirrored.mastership import Mastership


class HeldMirrors:
    """The new members that one master holds."""

    def __init__(self) -> None:
        self.free: set[int] = set()
        """Members that are not held any more, or never were."""
        self.holding: set[int] = set()
        """Members whose hold was proposed and is not committed yet."""
        self.releasing: set[int] = set()
        """Members whose release was proposed and is not committed yet."""
        self.is_cancelled = False
        """New mirrors are held whatever the policy says, because a synchronisation was
        cancelled."""

    def look(
        self,
        new: Iterable[int],
        in_sync: InSyncSet,
        mastership: Mastership[Any] | None,
        *,
        syncs: bool,
    ) -> set[int]:
        """Return those of the `new` members, which are not in the group yet, that may not be added
        now; `syncs` is the policy's choice. Without a mastership no command can be proposed."""
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
        """Note that a member is held no more: by request, or because none of the old messages is
        left."""
        self.holding.discard(member)
        if member in self.releasing:
            self.releasing.discard(member)
        else:
            self.free.add(member)

    def sync(self, new: Iterable[int]) -> None:
        """Free all members that are new now."""
        self.is_cancelled = False
        self.free.update(new)

    def cancel(self) -> None:
        """Hold all members that are not in the group yet, and future ones."""
        self.is_cancelled = True
        self.free.clear()
