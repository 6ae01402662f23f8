"""Where the publishes of a channel go, as far as their method determines it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sluicemq.amqp.runs import EXCHANGE_AT
from sluicemq.chain.queue.queue import PublishLink
from sluicemq.model.reply_address import ADDRESS
from sluicemq.model.traits import message_traits

if TYPE_CHECKING:
    from sluicemq.amqp.methods import BasicPublish
    from sluicemq.model.traffic import ExchangeTraffic
    from sluicemq.model.traits import MessageTraits

Targets: TypeAlias = "list[PublishLink]"
"""The channel's links to the queues that messages go to."""


class LinkToCome(PublishLink):
    """Stands for the link to one of very many queues, whose links are made some at a time while
    sending."""


class Route:
    """Where the publishes of one raw method frame go. `targets` is None when that depends on more
    than the method. `traits` are those of the last messages on this route; None: all were in
    ENVELOPED batches so far, or there were none. `lone` is the only target, if there is just one
    and it takes such batches, else None. `replies` tells that they go to the address of a reply
    consumer, which is not a queue. `traffic` is their exchange's.
    """

    __slots__ = (
        "channel_number",
        "envelope",
        "epoch",
        "lone",
        "mandatory",
        "method",
        "raw_method",
        "replies",
        "targets",
        "traffic",
        "traits",
    )

    def __init__(
        self,
        raw_method: bytes,
        method: BasicPublish,
        channel_number: int,
        epoch: int,
        targets: Targets | None,
        traffic: ExchangeTraffic,
    ) -> None:
        self.raw_method = raw_method
        self.method = method
        self.traffic = traffic
        self.envelope = raw_method[EXCHANGE_AT:-2]
        self.channel_number = channel_number
        self.traits: MessageTraits | None = None
        self.mandatory = method.mandatory
        self.replies = not method.exchange and method.routing_key.startswith(ADDRESS)
        self.epoch = epoch
        self.targets = None if self.replies else targets
        self.lone: PublishLink | None = None
        if self.targets and len(self.targets) == 1 and self.targets[0].queue.takes_enveloped:
            self.lone = self.targets[0]

    def traits_of(self, persistent: bool, copies: int) -> MessageTraits:
        """Return the traits of messages on this route to `copies` queues."""
        traits = self.traits
        if traits is None or traits.persistent is not persistent or traits.copies != copies:
            traits = self.traits = message_traits(
                self.envelope, self.channel_number, persistent, copies
            )
        return traits
