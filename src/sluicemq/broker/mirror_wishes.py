"""Queues without mirrors to which a policy gives some: this proposes the first member, and
`mirrored_queues.py` does everything that follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.metadata.changes import AddMember
from sluicemq.model.mirroring import mirroring_of
from sluicemq.model.queue_types import TYPES

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue


def wish_for_mirrors(queue: Queue) -> None:
    """Propose the first member of a queue that this node has, if a policy wants mirrors of it and
    it has none."""
    services, definition = queue.services, queue.definition
    host = services.definitions.hosts.get(definition.vhost)
    declared = None if host is None else host.queues.get(queue.name)
    is_plain = declared is not None and not declared.members and declared.id == queue.id
    can_have = TYPES[definition.type].has_mirrors and definition.durable and not services.is_alone
    policy = queue.policy
    if policy is None or not (is_plain and can_have and queue.is_local):
        return
    if mirroring_of(policy.definition) is not None:
        place = definition.vhost, queue.name, queue.id
        services.agreement.propose(AddMember(*place, services.life.node))
