"""Credit: how many messages a sender may still hand to a receiver.

    sender                                   receiver
    Outflow  -- batch of n: spend(n) ----->  inbox, then settle(n): Inflow
             <---- Grant(k * more_after) --  (kept back while a gate of the receiver is shut)

No message is ever refused: a sender that goes on drives its credit below 0. At any moment

    initial = Outflow.credit + messages in the receiver's inbox + Inflow.owed + Inflow.withheld
              + Inflow.deferred + grants in the sender's inbox

so what one link can hold is bounded by `initial` plus the last overspent batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.flow.gate import Gate, GateKeeper, GrantHolder
from sluicemq.limits import CREDIT_MAX_MESSAGES

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor


class LinkSpec:
    """RabbitMQ's {Initial, MoreAfter}: the credit at the start, and the unit of granting."""

    __slots__ = ("initial", "more_after")

    def __init__(self, initial: int, more_after: int) -> None:
        if not 1 <= more_after <= initial <= CREDIT_MAX_MESSAGES:
            raise Refused(
                f"credit {{{initial}, {more_after}}}: the second number must be at least 1 and not "
                f"above the first, and the first at most {CREDIT_MAX_MESSAGES}"
            )
        self.initial = initial
        self.more_after = more_after

    def __repr__(self) -> str:
        return f"{{{self.initial},{self.more_after}}}"


class Outflow(Gate):
    """The sender's half: shut when its credit is spent, open again when it is above 0."""

    __slots__ = ("attached", "credit", "initial")

    def __init__(self, keeper: GateKeeper, name: str, spec: LinkSpec) -> None:
        super().__init__(keeper, name)
        self.initial = spec.initial
        self.credit = spec.initial
        self.attached = True

    def waits(self) -> bool:
        """Tell whether something other than its credit holds it up though it is open, so that it
        has to shut."""
        return False

    def spend(self, n: int) -> None:
        """Spend credit for `n` messages that were posted to the receiver. Never refuses."""
        if self.attached:
            self.credit -= n
            if self.credit <= 0:
                self.shut()

    def refill(self, n: int) -> None:
        """Add a grant of `n`. After overspending it may not be enough to open."""
        if self.attached:
            self.credit += n
            if self.credit > 0:
                self.open()

    def detach(self) -> None:
        """Hold up nobody any more, because the receiver is gone, and ignore grants that still
        arrive."""
        self.attached = False
        self.open()


class Grant:
    """Posted to the sender, which calls `outflow.refill(amount)`."""

    __slots__ = ("amount", "outflow")

    def __init__(self, outflow: Outflow, amount: int) -> None:
        self.outflow = outflow
        self.amount = amount


class Inflow(GrantHolder):
    """The receiver's half: counts what it has handled and grants in units of `more_after`."""

    __slots__ = (
        "attached",
        "deferred",
        "initial",
        "keeper",
        "more_after",
        "outflow",
        "owed",
        "sender",
        "withheld",
    )

    __deletable__ = ("sender",)

    def __init__(self, keeper: GateKeeper, sender: Actor, outflow: Outflow, spec: LinkSpec) -> None:
        self.keeper = keeper
        self.sender = sender
        self.outflow = outflow
        self.initial = spec.initial
        self.more_after = spec.more_after
        self.owed = 0
        """Messages that were handled, but are not yet enough for a grant."""
        self.deferred = 0
        """Credit that is due, but kept back while a gate of the receiver is shut."""
        self.withheld = 0
        """Credit that was taken out of circulation; only an adaptive link does that."""
        self.attached = True

    def settle(self, n: int, size_bytes: int = 0) -> None:
        """Count `n` messages (n >= 1), together `size_bytes`, that were taken out of the inbox."""
        self.owed += n
        if self.owed >= self.more_after:
            self.grant_owed()

    def grant_owed(self) -> None:
        """Grant the whole units that are owed."""
        rest = self.owed % self.more_after
        amount = self.owed - rest
        if amount:
            self.owed = rest
            self.grant(amount)

    def grant(self, amount: int) -> None:
        """Post a grant, or defer it: this is what carries back pressure over several hops."""
        if not self.attached:
            return
        keeper = self.keeper
        if keeper.gates_shut:
            if not self.deferred:
                keeper.deferred.append(self)
            self.deferred += amount
        else:
            self.sender.post(Grant(self.outflow, amount))

    def release_deferred(self) -> None:
        amount = self.deferred
        self.deferred = 0
        if self.attached:
            self.sender.post(Grant(self.outflow, amount))

    def detach(self) -> None:
        """Grant nothing any more and forget the sender, because one of the two is gone."""
        if self.attached:
            self.attached = False
            del self.sender
