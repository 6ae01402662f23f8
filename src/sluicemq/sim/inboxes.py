"""Counts the messages in the inboxes of a node, by the sender's half of the link over which they
came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp.events import AnyPublishes
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.queue.queue import CreditLink
from sluicemq.chain.store.messages import StorePaged, StoreWrite
from sluicemq.flow.credit import Grant
from sluicemq.queues.commands import Publish
from sluicemq.queues.effects import Deliver

if TYPE_CHECKING:
    from sluicemq.flow.credit import Outflow
    from sluicemq.kernel.actor import Actor


class Inboxes:
    """Counts messages and granted credit in inboxes, without those posted after the count. All
    messages of a link are in one inbox, and so are all its grants."""

    __slots__ = ("_by_actor", "filled", "grants", "messages")

    def __init__(self) -> None:
        self.messages: dict[Outflow, int] = {}
        self.grants: dict[Outflow, int] = {}
        self.filled: dict[Actor, None] = {}
        """The actors whose inboxes hold something."""
        self._by_actor: dict[Actor, tuple[list[Outflow], list[Outflow]]] = {}
        """The links with messages in the inbox, and those with grants in it."""

    def count(self, actor: Actor) -> None:
        """Count the messages in the actor's inbox now."""
        self.forget(actor)
        if not actor.inbox:
            return
        self.filled[actor] = None
        messages: dict[Outflow, int] = {}
        grants: dict[Outflow, int] = {}
        for message in actor.inbox:
            if isinstance(message, Grant):
                grants[message.outflow] = grants.get(message.outflow, 0) + message.amount
                continue
            if isinstance(message, Publish):
                assert isinstance(message.link, CreditLink)
                outflow, n = message.link.outflow, len(message.batch.contents)
            elif isinstance(message, AnyPublishes):  # they carry no link: it is the channel's own
                assert isinstance(actor, Channel)
                outflow, n = actor.inflow.outflow, len(message.contents)
            elif isinstance(message, StoreWrite):
                outflow, n = message.inflow.outflow, len(message.batch.contents)
            elif isinstance(message, StorePaged):
                outflow, n = message.inflow.outflow, message.chunk.left()
            elif isinstance(message, Deliver):
                outflow, n = message.consumer.window, message.cost
            else:
                continue
            messages[outflow] = messages.get(outflow, 0) + n
        assert messages.keys().isdisjoint(self.messages), "a link leads to two inboxes"
        assert grants.keys().isdisjoint(self.grants), "a link is granted credit in two inboxes"
        self.messages.update(messages)
        self.grants.update(grants)
        self._by_actor[actor] = [*messages], [*grants]

    def clear(self) -> None:
        """Forget the counts of all inboxes."""
        for counts in (self.messages, self.grants, self.filled, self._by_actor):
            counts.clear()

    def forget(self, actor: Actor) -> None:
        """Forget the count of the actor's inbox."""
        self.filled.pop(actor, None)
        messages, grants = self._by_actor.pop(actor, ((), ()))
        for outflow in messages:
            del self.messages[outflow]
        for outflow in grants:
            del self.grants[outflow]
