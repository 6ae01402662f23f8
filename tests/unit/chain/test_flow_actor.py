"""Goal: an actor of the chain takes grants and nothing that it does not know, and is told when its
last gate has opened, until it is released. Method: a link between two of them, the clock by hand.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.flow_actor import ActorKeeper, FlowActor
from sluicemq.flow.credit import LinkSpec
from sluicemq.flow.gate import Gate
from sluicemq.flow.link import link
from sluicemq.kernel.actor import Scheduler
from sluicemq.limits import CHANNEL_FLOW_STICKY_NS
from support.fakes import FakeClock


class Stage(FlowActor):
    """Notes when it may go on."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Scheduler(), clock)
        self.keeper: ActorKeeper = ActorKeeper(clock, self)
        self.resumed = 0

    def flow_resumed(self) -> None:
        self.resumed += 1


def test_a_grant_opens_the_gate_that_was_shut_for_want_of_credit() -> None:
    clock = FakeClock()
    sender, receiver = Stage(clock), Stage(clock)
    outflow, inflow = link(sender.keeper, sender, receiver.keeper, LinkSpec(2, 1), "a queue")
    outflow.spend(2)
    assert sender.keeper.gates_shut == 1
    inflow.settle(1)
    sender.scheduler.run(1)
    assert sender.keeper.gates_shut == 0
    assert (sender.resumed, receiver.resumed) == (1, 0)


def test_what_nobody_posts_to_it_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="Stage got 'something'"):
        Stage(FakeClock()).receive("something")


def test_it_is_told_at_the_last_gate_and_not_after_its_end() -> None:
    stage = Stage(FakeClock())
    one, other = Gate(stage.keeper, "one"), Gate(stage.keeper, "other")
    one.shut()
    other.shut()
    one.open()
    assert stage.resumed == 0
    other.open()
    assert stage.resumed == 1
    one.shut()
    stage.keeper.release()
    one.open()
    assert stage.resumed == 1


def test_it_is_shown_in_flow_for_a_while_after_it_was_held_up() -> None:
    clock = FakeClock()
    stage = Stage(clock)
    assert stage.flow_state(clock.now_ns()) == "running"
    gate = Gate(stage.keeper, "a gate")
    gate.shut()
    assert stage.flow_state(clock.now_ns()) == "flow"
    gate.open()
    assert stage.flow_state(clock.now_ns() + CHANNEL_FLOW_STICKY_NS - 1) == "flow"
    assert stage.flow_state(clock.now_ns() + CHANNEL_FLOW_STICKY_NS) == "running"
