"""Has a member of a mirrored queue take a snapshot when the queue has fallen idle: then the store
is told what is committed, and the log may become shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.chain.queue.group.shared_log import SharedLog
    from sluicemq.chain.queue.group.snapshots import Snapshots
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.world import Clock
    from sluicemq.queues.mirrored.mirror import Mirror

IDLE_MS: Final = 5000


class MirrorIdle:
    """Tells a member that its queue may have fallen idle: `index` was the last index applied some
    time ago."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class IdleWatch:
    """Watches whether the queue of one member, `owner`, falls idle."""

    def __init__(
        self, owner: Actor, clock: Clock, mirror: Mirror, log: SharedLog, snapshots: Snapshots
    ) -> None:
        self.owner = owner
        self.clock = clock
        self.mirror = mirror
        self.log = log
        self.snapshots = snapshots
        self.watches = False
        """A MirrorIdle is on its way."""
        self.index = 0
        """The last applied index when it had fallen idle."""

    def watch(self) -> None:
        """Plan to look whether the queue has fallen idle, if an entry was applied since."""
        if not self.watches and self.mirror.index != self.index:
            self.watches = True
            self.clock.call_after(IDLE_MS, self.owner, MirrorIdle(self.mirror.index))

    def look(self, message: MirrorIdle) -> None:
        """Take a snapshot if no entry was applied for a while."""
        self.watches = False
        if message.index != self.mirror.index:
            self.watch()
            return
        self.log.say_committed()
        if self.snapshots.is_free and self.snapshots.is_worth_it:
            self.snapshots.begin()
            self.owner.schedule()
        self.index = self.mirror.index
