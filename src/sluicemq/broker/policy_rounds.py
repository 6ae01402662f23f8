"""What becomes of queues and exchanges when a policy is set or cleared.

A change holds for what is declared from then on at once; those that are there are told in turns of
bounded length, for a virtual host may have many.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sluicemq.chain.queue.queue import PolicyChanged
from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor
from sluicemq.limits import POLICY_QUEUES
from sluicemq.model.policies import OperatorPolicy, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sluicemq.chain.queue.namespace import Namespace
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.services import Services
    from sluicemq.kernel.world import Log
    from sluicemq.model.durable import DurableDefinitions


class Round:
    """Queues of one virtual host that may have another policy now; `done` is called at the end."""

    __slots__ = ("done", "queues", "vhost")

    def __init__(self, vhost: Namespace, done: Callable[[], None]) -> None:
        self.vhost = vhost
        self.queues: Iterator[Queue] = iter([*vhost.queues.values()])
        self.done = done


class Policing(Actor):
    """One per node: works rounds off, a part a turn, with a pause between for the sockets."""

    def __init__(self, services: Services) -> None:
        super().__init__(services.scheduler)
        self.services = services

    def receive(self, message: object) -> None:
        """The next part of a round."""
        assert isinstance(message, Round)
        vhost = message.vhost
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
        message.done()


def tell(queue: Queue) -> None:
    """The queue hears when something else holds for it now."""
    policy = queue.vhost.policies.for_queue(queue.name, queue.definition.type)
    if policy != queue.policy:
        queue.policy = policy
        queue.post(PolicyChanged(policy))


def load_policies(
    definitions: DurableDefinitions, vhosts: Mapping[str, Namespace], log: Log
) -> None:
    """What was recovered, into the virtual hosts, before their queues are made."""
    for kind in (Policy.KIND, OperatorPolicy.KIND):
        for policy in definitions.records[kind].values():
            vhost = vhosts[policy.vhost]
            try:
                vhost.policies.put(policy)
            except Refused as refused:  # another version's patterns may be others
                text = f"policy '{policy.name}' in vhost '{vhost.name}' is not applied: {refused}"
                log.write("error", text)
            vhost.topology.policies_changed()


def set_policy(
    policing: Policing, vhost: Namespace, policy: Policy, done: Callable[[], None]
) -> bytes:
    """A policy that has been checked, new or changed. `done` is called when all have heard.
    Returns the change for the journal."""
    vhost.policies.put(policy)
    policies_changed(policing, vhost, done)
    return vhost.services.definitions.put(policy)


def clear_policy(
    policing: Policing, vhost: Namespace, kind: str, name: str, done: Callable[[], None]
) -> bytes:
    """A policy that is there. As above."""
    vhost.policies.drop(kind, name)
    policies_changed(policing, vhost, done)
    return vhost.services.definitions.drop(kind, (vhost.name, name))


def policies_changed(policing: Policing, vhost: Namespace, done: Callable[[], None]) -> None:
    """Exchanges hear at once, queues soon."""
    vhost.topology.policies_changed()
    policing.post(Round(vhost, done))
