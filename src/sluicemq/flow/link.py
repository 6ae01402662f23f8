"""Links from publishers to queues, and the making of both halves of a credit link, whose numbers
must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr
from sluicemq.flow.budget import AdaptiveInflow, Budget
from sluicemq.flow.credit import Inflow, LinkSpec, Outflow
from sluicemq.flow.delivery_window import DeliveryOutflow

if TYPE_CHECKING:
    from sluicemq.flow.delivery_window import ConnectionWindow
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """The link over which a sender publishes to one queue, as the queue sees it: the queue's
    answers go to `sender` and name the link. Each link of a sender has its own numbers of
    publishes."""

    __slots__ = ("sender",)

    def __init__(self, sender: Actor) -> None:
        self.sender = sender

    def taken(self, count: int, size_bytes: int) -> None:
        """Note that the queue has taken a batch of `count` messages, together `size_bytes`, out of
        its inbox."""
        raise NotImplementedError

    def end(self) -> None:
        """End the link, because one of the two is gone: it holds up nobody. May be called again."""
        raise NotImplementedError


def link_deliveries(
    queue_keeper: GateKeeper,
    queue: Actor,
    channel_keeper: GateKeeper,
    spec: LinkSpec,
    name: str,
    shared: ConnectionWindow,
) -> tuple[DeliveryOutflow, Inflow]:
    """Make a link for deliveries from a queue to a channel, within the window of the channel's
    connection."""
    outflow = DeliveryOutflow(queue_keeper, name, queue, spec, shared)
    return outflow, Inflow(channel_keeper, queue, outflow, spec)


def link(
    sender_keeper: GateKeeper,
    sender_actor: Actor,
    receiver_keeper: GateKeeper,
    spec: LinkSpec,
    name: str,
    budget: Budget | None = None,
) -> tuple[Outflow, Inflow]:
    """Make both halves of a link: the sender keeps the Outflow, the receiver the Inflow. With a
    budget the link adapts."""
    outflow = Outflow(sender_keeper, name, spec)
    if budget is None:
        return outflow, Inflow(receiver_keeper, sender_actor, outflow, spec)
    return outflow, AdaptiveInflow(receiver_keeper, sender_actor, outflow, spec, budget)
