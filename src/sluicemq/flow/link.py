"""Makes the two halves of a link, which must agree about its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.budget import AdaptiveInflow, Budget
from sluicemq.flow.credit import Inflow, LinkSpec, Outflow

if TYPE_CHECKING:
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.kernel.actor import Actor


def link(
    sender_keeper: GateKeeper,
    sender_actor: Actor,
    receiver_keeper: GateKeeper,
    receiver_actor: Actor,
    spec: LinkSpec,
    name: str,
    budget: Budget | None = None,
) -> tuple[Outflow, Inflow]:
    """The sender keeps the Outflow, the receiver the Inflow. With a budget the link adapts."""
    outflow = Outflow(sender_keeper, name, receiver_actor, spec)
    if budget is None:
        return outflow, Inflow(receiver_keeper, sender_actor, outflow, spec)
    return outflow, AdaptiveInflow(receiver_keeper, sender_actor, outflow, spec, budget)
