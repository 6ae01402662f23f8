"""What happens to queues when a policy is set or cleared.

A change applies at once to exchanges and to queues declared from then on; existing queues are told
in turns of bounded length, because a virtual host may have many.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sluicemq.broker.mirror_wishes import wish_for_mirrors
from sluicemq.chain.queue.queue import PolicyChanged
from sluicemq.kernel.actor import Actor
from sluicemq.limits import POLICY_QUEUES
from sluicemq.model.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.services import Services
    from sluicemq.metadata.events import RecordDeleted, RecordUpserted


class Round:
    """The queues of one virtual host that may have another policy now, as of the beginning of the
    round: later ones know their policy. The functions in `done` are called when all have been told.
    """

    __slots__ = ("done", "queues", "vhost")

    def __init__(self, vhost: NamespacePort) -> None:
        self.vhost = vhost
        self.queues: Iterator[Queue] = iter(())
        self.done: list[Callable[[], None]] = []


class PolicyRounds(Actor):
    """Tells queues which policy applies to them: one actor a node, which works through rounds, a
    part a turn, with a pause of a millisecond between turns for the sockets."""

    def __init__(self, services: Services, vhosts: Mapping[str, NamespacePort]) -> None:
        super().__init__(services.scheduler)
        self.services = services
        self.vhosts = vhosts
        self.waiting: dict[str, Round] = {}
        """Rounds that have not begun, by virtual host."""

    def record_upserted(self, event: RecordUpserted) -> None:
        """Begin a round in the virtual host when the record is a policy."""
        if isinstance(event.record, Policy):
            self.look_at(event.record.vhost)

    def record_deleted(self, event: RecordDeleted) -> None:
        """Begin a round in the virtual host when the deleted record is a policy."""
        if isinstance(event.record, Policy):
            self.look_at(event.record.vhost)

    def look_at(self, vhost: str) -> None:
        """Have the queues of that virtual host told soon which policy applies to them. Several
        policies that change before the round begins share one round."""
        if vhost not in self.waiting:
            self.waiting[vhost] = Round(self.vhosts[vhost])
            self.post(self.waiting[vhost])

    def notify(self, vhost: str, done: Callable[[], None]) -> None:
        """Call `done` when all queues of that virtual host have been told of the
        present policies."""
        self.look_at(vhost)
        self.waiting[vhost].done.append(done)

    def receive(self, message: object) -> None:
        """Do the next part of a round, and come back for the rest."""
        assert isinstance(message, Round)
        vhost = message.vhost
        if self.waiting.get(vhost.name) is message:
            del self.waiting[vhost.name]
            message.queues = iter([*vhost.queues.values()])
        share = max(1, POLICY_QUEUES // (1 + len(vhost.policies) // 10))
        part = [*islice(message.queues, share)]
        for queue in part:
            tell(queue)
        if len(part) == share:
            self.services.world.clock.call_after(1, self, message)
            return
        for policy in vhost.policies.spent():
            text = f"policy '{policy.name}' in vhost '{vhost.name}': its pattern takes too long"
            self.services.world.log.write("warning", f"{text} to match; it is not tried any more")
        for done in message.done:
            done()


def tell(queue: Queue) -> None:
    """Give a queue its policy, if that has changed, and mirrors, if the policy wants some."""
    policy = queue.vhost.policies.for_queue(queue.name, queue.definition.type)
    if policy != queue.policy:
        queue.policy = policy
        queue.post(PolicyChanged(policy))
    wish_for_mirrors(queue)
