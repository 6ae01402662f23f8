"""What stands for a mirrored queue on a node that is not its master: a queue of the node that is.

It hears from the ask post who is master. With each new one all begin anew who use the queue. While
none is known, what channels ask waits a little: one is about to be elected, as a rule.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.chain.remote.remote_queue import RemoteQueue, asker
from sluicemq.limits import MIRROR_MASTER_WAIT_MS
from sluicemq.queues import commands as c
from sluicemq.replication.ask_post import LeaderKnown

if TYPE_CHECKING:
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.chain.remote.remote_end import RemoteEnd
    from sluicemq.chain.remote.sections import SectionCame
    from sluicemq.metadata.events import DeclaredQueue

NO_NODE: Final = 0
MS: Final = 1_000_000


class WaitOver(NamedTuple):
    """Tells a stand-in that what waits for a master has waited for long enough."""


class NoMasterHere(NamedTuple):
    """Tells a stand-in that the master on this node is one no more."""


class MirroredStandIn(RemoteQueue):
    """This is a mirrored queue whose master is on another node, or not known. `first` is the node
    that serves it before anybody was elected, 0: there is none."""

    def __init__(
        self, vhost: NamespacePort, declared: DeclaredQueue, first: int, post: QueuePost
    ) -> None:
        self.led_term = 0
        """The term of the master that is known."""
        self.waiting: deque[Any] = deque()
        """What was asked while no master was known; credit bounds it, and what channels ask."""
        super().__init__(vhost, declared, (first,), post)
        self.goes_on = True
        self.clock = self.services.world.clock
        self.wait_until_ns = 0
        self.wait_for_master()

    def receive_other(self, message: object) -> None:
        if isinstance(message, LeaderKnown):
            self.led_by(message)
        elif isinstance(message, NoMasterHere):
            self.is_here = False
            self.wait_for_master()
        elif not isinstance(message, WaitOver):
            super().receive_other(message)

    # -- who is master

    def led_by(self, known: LeaderKnown) -> None:
        """Turn to a master that is known now. Who is cut off is lost with its link."""
        if known.term <= self.led_term or not known.node:
            return
        is_first = not self.led_term and known.node == self.home
        self.led_term = known.term
        if is_first:
            return  # it has served since the queue is there
        self.is_here = known.node == self.services.life.node
        for end in [*self.ends.values()]:
            self.lose_and_leave(end)
        self.homes_changed((NO_NODE if self.is_here else known.node,))
        self.topology.has_changed()

    def lose(self, end: RemoteEnd, why: str) -> None:
        """End an end; what was asked and has had no answer is asked of the next master."""
        again = [each for each in end.asked if not isinstance(each, c.Cancel)]
        if not self.machine.deleted:
            end.asked = deque(each for each in end.asked if isinstance(each, c.Cancel))
            self.waiting.extend(again)
        super().lose(end, why)

    def home_lost(self, home: int) -> None:
        super().home_lost(home)
        if home == self.home:
            self.wait_for_master()

    def ended(self, end: RemoteEnd, answer: SectionCame) -> None:
        """Wait for another master, when the one that is known is one no more."""
        home = end.mail.node
        super().ended(end, answer)
        if home == self.home and end.is_over:
            self.homes_changed((NO_NODE,))
            self.wait_for_master()

    def wait_for_master(self) -> None:
        """Let what is asked wait from now on, until a master is known or it has been too long."""
        wait_ms = MIRROR_MASTER_WAIT_MS
        self.wait_until_ns = self.clock.now_ns() + wait_ms * MS
        self.clock.call_after(wait_ms, self, WaitOver())

    def why_not(self) -> str:
        if self.machine.deleted or self.home:
            return super().why_not()
        return f"the master of durable {self.title} is down or inaccessible"

    # -- what waits for one

    @property
    def is_waiting(self) -> bool:
        """Tell whether what is asked now has to wait: behind what waits, or for a master."""
        if self.machine.deleted or self.reach or self.is_here:
            return bool(self.waiting)
        return bool(self.waiting) or self.clock.now_ns() < self.wait_until_ns

    def publish(self, publish: c.Publish) -> None:
        if self.is_waiting:
            self.waiting.append(publish)
        else:
            super().publish(publish)

    def ask(self, command: Any) -> None:
        if self.is_waiting:
            self.waiting.append(command)
        else:
            super().ask(command)

    def down(self, command: c.Down) -> None:
        """Forget also what a channel that is gone has asked and what waits."""
        waiting, self.waiting = self.waiting, deque()
        for each in waiting:
            if isinstance(each, c.Publish) and each.link.sender is command.channel:
                self.drop(each)
            elif isinstance(each, c.Publish) or asker(each) is not command.channel:
                self.waiting.append(each)
        super().down(command)

    def turn_ended(self) -> None:
        """Go on with what has waited, when there is a master, or none is waited for any more."""
        is_over = self.clock.now_ns() >= self.wait_until_ns
        if self.waiting and (self.reach or self.is_here or self.machine.deleted or is_over):
            waiting, self.waiting = self.waiting, deque()
            for each in waiting:
                if isinstance(each, c.Publish):
                    super().publish(each)
                else:
                    super().ask(each)
        super().turn_ended()
