"""A chain of bare actors joined by links, moved one message at a time.

    reader -> channel -> queue -> store

The reader publishes only while none of its gates is shut; the others never stop. What each test
checks after every step is `Chain.check`: nothing of a link's credit is ever lost or made.
"""

from __future__ import annotations

from sluicemq.flow.budget import AdaptiveInflow, Budget
from sluicemq.flow.credit import Grant, Inflow, LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import link
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.world import Clock

SECOND_NS = 1_000_000_000
NAMES = ("reader", "channel", "queue", "store")


class FakeClock(Clock):
    """Time as the test says."""

    def __init__(self) -> None:
        self.time_ns = 1000 * SECOND_NS

    def now_ns(self) -> int:
        return self.time_ns


class Keeper(GateKeeper):
    """Counts how often flow resumed, and what was still deferred then."""

    __slots__ = ("deferred_at_resume", "resumed")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.resumed = 0
        self.deferred_at_resume = 0

    def flow_resumed(self) -> None:
        self.resumed += 1
        self.deferred_at_resume += len(self.deferred)


class Messages:
    """A batch of `n` messages on its way down the chain."""

    def __init__(self, n: int, size_bytes: int) -> None:
        self.n = n
        self.size_bytes = size_bytes


class Hop(Actor):
    """Takes a batch from above, settles it, then passes it on. `seen` is what it handled."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(Scheduler())
        self.name = name
        self.keeper = Keeper(clock)
        self.inflow: Inflow | None = None
        self.outflow: Outflow | None = None
        self.next: Hop
        self.seen = 0
        self.suspended = False

    def receive(self, message: object) -> None:
        if isinstance(message, Grant):
            message.outflow.refill(message.amount)
        elif isinstance(message, Messages):
            self.seen += message.n
            if self.inflow is not None:
                self.inflow.settle(message.n, message.size_bytes)
            if self.outflow is not None:
                self.next.post(message)
                self.outflow.spend(message.n)

    def step(self) -> bool:
        """Handle one message of the inbox, unless there is none."""
        if self.inbox and not self.suspended:
            self.receive(self.inbox.pop(0))
            return True
        return False

    def messages_waiting(self) -> int:
        return sum(m.n for m in self.inbox if isinstance(m, Messages))

    def grants_waiting(self, outflow: Outflow) -> int:
        return sum(g.amount for g in self.inbox if isinstance(g, Grant) and g.outflow is outflow)


class Chain:
    """Actors joined by links, the first one a reader."""

    def __init__(
        self, specs: list[LinkSpec], budget: Budget | None = None, clock: FakeClock | None = None
    ) -> None:
        self.clock = clock or FakeClock()
        self.budget = budget
        self.hops = [Hop(name, self.clock) for name in NAMES[: len(specs) + 1]]
        for sender, receiver, spec in zip(self.hops, self.hops[1:], specs, strict=False):
            sender.next = receiver
            sender.outflow, receiver.inflow = link(
                sender.keeper,
                sender,
                receiver.keeper,
                spec,
                f"{sender.name} -> {receiver.name}",
                budget if receiver.name != "store" else None,
            )
        self.reader = self.hops[0]

    def hop(self, name: str) -> Hop:
        return self.hops[NAMES.index(name)]

    def publish(self, n: int, size_bytes: int = 1024) -> bool:
        """A batch comes in at the reader, if it reads."""
        if self.reader.keeper.gates_shut:
            return False
        self.reader.receive(Messages(n, n * size_bytes))
        return True

    def run_all_but(self, name: str) -> None:
        """As `run`, while one actor stands still."""
        self.hop(name).suspended = True
        self.run()
        self.hop(name).suspended = False

    def run(self) -> None:
        """Until no actor that is not suspended has anything to do."""
        while sum(hop.step() for hop in self.hops):
            self.check()

    def check(self) -> None:
        """Conservation on every link, and every gate as its credit says."""
        for sender, receiver in zip(self.hops, self.hops[1:], strict=False):
            outflow, inflow = sender.outflow, receiver.inflow
            assert outflow is not None
            assert inflow is not None
            assert outflow.initial == (
                outflow.credit
                + receiver.messages_waiting()
                + inflow.owed
                + inflow.withheld
                + inflow.deferred
                + sender.grants_waiting(outflow)
            )
            assert outflow.is_shut == (outflow.credit <= 0)
            assert inflow.owed >= 0
            assert inflow.withheld >= 0
            assert inflow.deferred == 0 or receiver.keeper.gates_shut
            assert (inflow in receiver.keeper.deferred) == (inflow.deferred > 0)
            if isinstance(inflow, AdaptiveInflow):
                assert inflow.initial - inflow.withheld >= inflow.window >= inflow.more_after >= 1
                assert (inflow in inflow.budget.shrunk) == (inflow.withheld > 0)
                assert inflow.owed < inflow.more_after or not inflow.attached
