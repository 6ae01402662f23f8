"""What reader, channel, queue and store have in common: gates, grants, a state for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sluicemq.compiling import mypyc_attr
from sluicemq.flow.credit import Grant
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.actor import Actor, Scheduler, Share
from sluicemq.limits import CHANNEL_FLOW_STICKY_NS

if TYPE_CHECKING:
    from sluicemq.kernel.world import Clock


@mypyc_attr(allow_interpreted_subclasses=True)
class ActorKeeper(GateKeeper):
    """The gates of an actor that is told when the last one opens, until it is released."""

    __slots__ = ("owner",)

    def __init__(self, clock: Clock, owner: FlowActor) -> None:
        super().__init__(clock)
        self.owner: FlowActor | None = owner

    def flow_resumed(self) -> None:
        if self.owner is not None:
            self.owner.flow_resumed()

    def release(self) -> None:
        self.owner = None


@mypyc_attr(allow_interpreted_subclasses=True)
class FlowActor(Actor):
    """An actor of the chain. `kind` is the stage that the picture of the chain shows it in."""

    kind: ClassVar[str] = ""
    keeper: GateKeeper

    def __init__(self, scheduler: Scheduler, clock: Clock, share: Share | None = None) -> None:
        super().__init__(scheduler, share)
        self.keeper = GateKeeper(clock)

    def receive(self, message: object) -> None:
        """Take a grant, which is the same for all; anything else here is a mistake of ours."""
        if isinstance(message, Grant):
            message.outflow.refill(message.amount)
        else:
            raise AssertionError(f"{type(self).__name__} got {message!r}")

    def flow_resumed(self) -> None:
        """Called when the last shut gate of one of its ActorKeepers has opened and the deferred
        grants are on their way."""

    def flow_state(self, now_ns: int) -> str:
        """Return `flow` or `running`, as RabbitMQ shows channels and queues."""
        return "flow" if self.keeper.in_flow(now_ns, CHANNEL_FLOW_STICKY_NS) else "running"
