"""The rules for every link of the chain, and for all links together.

credit      initial = credit left + messages in the inbox + owed + deferred + withheld + grants
            in flight
deferral    while a gate of the receiver stays shut, the sender gets no grant
adaptive    the windows of the active links together <= max(budget, floor * active links), and
            so in bytes; messages in the chain <= these windows + slack: messages that
            circulate above them (given credit is not taken back), overspent ones, and those
            waiting on links that have not settled since `active` changed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.budget import AdaptiveInflow
from sluicemq.flow.delivery_window import DeliveryOutflow
from sluicemq.sim.records import PromiseBroken, promise

if TYPE_CHECKING:
    from sluicemq.flow.budget import Budget
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.sim.inboxes import Inboxes

READER, CHANNEL, STORE, DELIVERIES = "reader", "channel", "store", "deliveries"
"""Kinds of links, by the gate that they have at their sender."""


class LinkShare:
    """The share of one link in the sums over all links, in messages except for `window_bytes`."""

    __slots__ = ("inflow", "slack", "waiting", "window", "window_bytes")

    def __init__(self, inflow: Inflow, waiting: int) -> None:
        self.inflow = inflow
        self.waiting = waiting
        self.window = self.window_bytes = self.slack = 0


class LinkChecks:
    """Checks single links, and keeps the share of each in the sums until it is checked again."""

    def __init__(self, inboxes: Inboxes) -> None:
        self.inboxes = inboxes
        self.gates: dict[Outflow, str] = {}
        """Every sender's half there ever was, by kind."""
        self.held_up: dict[Outflow, tuple[int, int]] = {}
        """Links whose receiver has a shut gate: since when, and the sender's credit then."""
        self.shares: dict[Outflow, LinkShare] = {}

    def check(
        self, kind: str, outflow: Outflow, inflow: Inflow, overspend_max: int, extra: int = 0
    ) -> None:
        """Check one link. `extra` messages are in flight outside of inboxes."""
        if outflow not in self.gates:
            self.gates[outflow] = kind
        if not (outflow.attached and inflow.attached):
            return
        inboxes = self.inboxes
        credit = outflow.credit
        owed = inflow.owed
        waiting = inboxes.messages.get(outflow, 0)
        grants = inboxes.grants.get(outflow, 0)
        there = credit + waiting + owed + inflow.deferred + inflow.withheld + grants + extra
        if there != outflow.initial:
            raise PromiseBroken(
                f"credit to {outflow.name}: {credit} left + {waiting} waiting + {owed} owed"
                f" + {inflow.deferred} deferred + {inflow.withheld} withheld + {grants} granted"
                f" + {extra} elsewhere = {there}, not {outflow.initial}"
            )
        shut = credit <= 0
        if isinstance(outflow, DeliveryOutflow) and outflow.is_shut:
            shut |= outflow.is_waiting or outflow in inboxes.grants
        if outflow.is_shut != shut:
            raise PromiseBroken(f"the gate of {outflow.name} is wrong at {credit}")
        if -credit > overspend_max:
            raise PromiseBroken(f"{outflow.name} is overspent by {-credit}")
        if owed >= inflow.more_after:
            raise PromiseBroken(f"{outflow.name} is owed {owed} and gets no grant")
        if inflow.keeper.gates_shut or inflow.deferred or outflow in self.held_up:
            self.deferral(outflow, inflow, credit + grants)
        if kind in (READER, CHANNEL):
            share = self.shares[outflow] = LinkShare(inflow, waiting + extra)
            if credit < 0:
                share.slack = -credit
            if isinstance(inflow, AdaptiveInflow):
                self.adaptive(outflow, inflow, share)

    def deferral(self, outflow: Outflow, inflow: Inflow, with_sender: int) -> None:
        """Check that the sender gets no credit while a gate of the receiver stays shut."""
        keeper = inflow.keeper
        if not keeper.gates_shut:
            promise(not inflow.deferred, outflow.name, "has deferred grants for no reason")
            self.held_up.pop(outflow, None)
            return
        since_ns, most = self.held_up.get(outflow, (-1, 0))
        if since_ns == keeper.shut_since_ns:
            promise(with_sender <= most, outflow.name, "gets a grant of one that is held up")
        self.held_up[outflow] = (keeper.shut_since_ns or 0, with_sender)

    def adaptive(self, outflow: Outflow, inflow: AdaptiveInflow, share: LinkShare) -> None:
        """Check a link whose window follows the budget."""
        circulating = inflow.initial - inflow.withheld
        well = circulating >= inflow.window >= inflow.more_after >= 1
        promise(well, outflow.name, "circulates", circulating, "window", inflow.window)
        budget = inflow.budget
        withholds = inflow in budget.shrunk
        promise(withholds == (inflow.withheld > 0), outflow.name, "is on the wrong list")
        if inflow.epoch >= budget.epoch - 1 and inflow.sharers == budget.active:
            share.window = inflow.window
            if inflow.window > budget.floor:
                share.window_bytes = inflow.window * inflow.average_bytes
            share.slack += circulating - inflow.window
        else:
            share.slack += share.waiting

    def in_chain(self, budget: Budget | None) -> int:
        """Return the number of messages in the chain; check its bound if there is a budget."""
        shares = [
            share
            for outflow, share in self.shares.items()
            if outflow.attached and share.inflow.attached
        ]
        there = sum(share.waiting for share in shares)
        if budget is not None:
            windows = sum(share.window for share in shares)
            window_bytes = sum(share.window_bytes for share in shares)
            most = max(budget.messages, budget.floor * budget.active)
            promise(windows <= most, "the windows are", windows, "together, not", most)
            promise(window_bytes <= budget.bytes, "the windows are worth", window_bytes)
            most = windows + sum(share.slack for share in shares)
            promise(there <= most, there, "messages are in the chain, at most", most)
        return there
