"""A virtual host, as its queues see it; `namespace_port.py` has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.messages import StoreClient
from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.chain.queue.fault_history import FaultHistory
    from sluicemq.chain.queue.republish_messages import RepublisherPort
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import Policies

BINDINGS_MAX: Final = 100
"""The most bindings that are removed at a time."""

BINDING_WORK: Final = 10
"""The units of work for one binding."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NamedQueue(StoreClient):
    """A queue, as its virtual host sees it: its name, and its declaration."""

    name: str
    definition: QueueDefinition


@mypyc_attr(allow_interpreted_subclasses=True)
class VhostPort:
    """A virtual host, for its queues. `crashes` has the history of queues' faults since the start,
    by name."""

    name: str
    services: Services
    store: MessageStore
    policies: Policies
    crashes: dict[str, FaultHistory]

    def unbind_some(self, queue: NamedQueue) -> bool:
        """Remove at most BINDINGS_MAX bindings of a deleted queue. Returns True if
        there are more.
        """
        raise NotImplementedError

    def forget_queue(self, queue: NamedQueue) -> bool:
        """Remove a deleted queue from all tables, with its remaining bindings. True: it is in none
        any more. False: the cluster has to agree first, and then the queue gets Leaving."""
        raise NotImplementedError

    def crashed(self, queue: NamedQueue, error: Exception) -> None:
        """Stop a queue at its first fault, `error`, and have it read back."""
        raise NotImplementedError

    def caught_up(self, queue: NamedQueue) -> None:
        """Let channels use a queue whose new member on this node has caught up."""
        raise NotImplementedError

    def departs(self, queue: NamedQueue) -> None:
        """Stop a queue whose member on this node has left its group, and forget its data."""
        raise NotImplementedError

    def republisher(self, source: Actor, name: str) -> RepublisherPort:
        """Create a publisher of the broker's own for `source`; `name` identifies it to users."""
        raise NotImplementedError
