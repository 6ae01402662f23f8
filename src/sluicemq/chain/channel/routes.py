"""Where the publishes of a channel go, as far as their method says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sluicemq.amqp.runs import EXCHANGE_AT
from sluicemq.chain.queue.queue import PublishLink
from sluicemq.model.reply_address import ADDRESS

if TYPE_CHECKING:
    from sluicemq.amqp.methods import BasicPublish

Targets: TypeAlias = "list[PublishLink]"
"""The channel's links to the queues that messages go to."""


class LinkToCome(PublishLink):
    """What stands for the link to one of so many queues that their links are made some at a time,
    when something is sent."""


class Route:
    """Where the publishes of one raw method frame go. `targets` is None when that depends on more
    than the method. `lone` is the only target, if there is just one and it takes ADDRESSED batches,
    else None. `replies` says that they go to the address of a reply consumer, which is no queue."""

    __slots__ = ("address", "epoch", "lone", "mandatory", "method", "replies", "targets")

    def __init__(
        self, raw_method: bytes, method: BasicPublish, epoch: int, targets: Targets | None
    ) -> None:
        self.method = method
        self.address = raw_method[EXCHANGE_AT:-2]
        self.mandatory = method.mandatory
        self.replies = not method.exchange and method.routing_key.startswith(ADDRESS)
        self.epoch = epoch
        self.targets = None if self.replies else targets
        self.lone: PublishLink | None = None
        if self.targets and len(self.targets) == 1 and self.targets[0].queue.takes_addressed:
            self.lone = self.targets[0]
