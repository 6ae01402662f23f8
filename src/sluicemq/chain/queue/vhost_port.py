"""What a queue sees of the virtual host it is in; for all else see `namespace_port.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.messages import StoreClient
from sluicemq.kernel.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.chain.queue.fault_history import FaultHistory
    from sluicemq.chain.queue.republish_messages import RepublisherPort
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import Policies

BINDINGS_MAX: Final = 100
"""Bindings that are taken away in a piece."""

BINDING_WORK: Final = 10
"""Units of work of one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NamedQueue(StoreClient):
    """This is a queue, as its virtual host sees it: its name, and what was declared of it."""

    name: str
    definition: QueueDefinition


@mypyc_attr(allow_interpreted_subclasses=True)
class VhostPort:
    """This is a virtual host, for the queues in it. `crashes` has, by name, what is known of queues
    that have had faults since the start."""

    name: str
    services: Services
    store: MessageStore
    policies: Policies
    crashes: dict[str, FaultHistory]

    def unbind_some(self, queue: NamedQueue) -> bool:
        """Take away at most BINDINGS_MAX bindings of a deleted queue. Returns True when there are
        more."""
        raise NotImplementedError

    def forget_queue(self, queue: NamedQueue) -> bool:
        """Take a deleted queue out of all tables, with the bindings it still has. True: it is in
        none any more. False: that has to be agreed on first, and then the queue gets Leaving."""
        raise NotImplementedError

    def crashed(self, queue: NamedQueue, error: Exception) -> None:
        """Stop a queue that has had its first fault, `error`, and have it read back."""
        raise NotImplementedError

    def caught_up(self, queue: NamedQueue) -> None:
        """Have channels use a queue of which this node has a new member, for it has caught up."""
        raise NotImplementedError

    def departs(self, queue: NamedQueue) -> None:
        """Stop a queue whose member on this node is out of its group, and forget what it has."""
        raise NotImplementedError

    def republisher(self, source: Actor, name: str) -> RepublisherPort:
        """Make a publisher of the broker's own for `source`; `name` says for people who that is."""
        raise NotImplementedError
