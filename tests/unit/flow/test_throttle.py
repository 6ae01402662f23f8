"""Goal: a connection stops, is told and is shown exactly as RabbitMQ's reader does it, but that the
publish which stops it waits as a whole.

Method: the table of moves is exhausted, and random inputs are compared with a model that follows
the rules of RabbitMQ 3.8 (a set of reasons, `should_block`, `connection_blocked_message_sent`).
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.gate import Gate
from sluicemq.flow.throttle import (
    INPUTS,
    MOVES,
    NOTHING,
    SEND_BLOCKED,
    SEND_UNBLOCKED,
    STATES,
    Throttle,
)

from .chain_model import SECOND_NS, FakeClock, Keeper

LATER_NS = 10_000 * SECOND_NS

# What leads from the start into each state.
WAYS = {
    "running": [],
    "blocking": ["alarm"],
    "flow": ["credit_spent"],
    "blocked": ["alarm", "publish"],
    "blocked_flow": ["credit_spent", "alarm"],
}


class Connection:
    """A throttle with two credit gates, driven by the names of its inputs."""

    def __init__(self, notify: bool = True) -> None:
        self.clock = FakeClock()
        self.keeper = Keeper(self.clock)
        self.credit = Gate(self.keeper, "credit")
        self.throttle = Throttle(self.keeper, notify)

    def input(self, name: str) -> int:
        throttle = self.throttle
        if name == "publish":
            return throttle.publish_seen()
        if name == "alarm":
            return throttle.alarms_changed("low on memory")
        if name == "all_clear":
            return throttle.alarms_changed("")
        if name == "credit_spent":
            self.credit.shut()
        else:
            self.credit.open()
        return throttle.credit_changed()

    def check(self) -> None:
        assert self.throttle.stopped == (self.keeper.gates_shut > 0)

    def at(self, state: str) -> Connection:
        for name in WAYS[state]:
            self.input(name)
        assert STATES[self.throttle.state] == state
        return self


@pytest.mark.parametrize(("state", "name"), list(itertools.product(STATES, INPUTS)))
def test_every_input_in_every_state(state: str, name: str) -> None:
    """Where the table has a move it is made, stops or resumes the reading, and tells the client
    of alarms alone. Where it has none it is refused: it cannot happen."""
    connection = Connection().at(state)
    after = MOVES[state].get(name)
    if after is None:
        with pytest.raises(AssertionError, match=f"{state}: {name}"):
            connection.throttle._move(INPUTS.index(name))
        return
    sent = connection.input(name)
    assert STATES[connection.throttle.state] == after
    connection.check()
    blocked = ("blocked", "blocked_flow")
    if state not in blocked and after in blocked:
        assert sent == SEND_BLOCKED
        assert connection.throttle.reason == "low on memory"
    elif state in blocked and after not in blocked:
        assert sent == SEND_UNBLOCKED
    else:
        assert sent == NOTHING


def test_impossible_move_is_our_own_error() -> None:
    connection = Connection().at("running")
    with pytest.raises(AssertionError, match="running: credit_granted"):
        connection.throttle._move(INPUTS.index("credit_granted"))


def test_table_names_every_state_and_only_known_inputs() -> None:
    for moves in MOVES.values():
        assert set(moves) <= set(INPUTS)
        assert set(moves.values()) <= set(STATES)
        assert {"alarm", "all_clear"} <= set(moves)


def test_no_publish_gets_in_while_there_is_an_alarm() -> None:
    """Only a publish that is let in spends credit; one that comes up in `blocking` stops."""
    for state in ("blocking", "blocked", "blocked_flow"):
        assert "credit_spent" not in MOVES[state]
    assert [state for state in STATES if "publish" in MOVES[state]] == ["blocking"]
    assert MOVES["blocking"]["publish"] == "blocked"


class Model:
    """The rules of RabbitMQ 3.8, word for word."""

    def __init__(self, notify: bool) -> None:
        self.notify = notify
        self.blocked_by: set[str] = set()
        self.should_block = False
        self.blocked = False
        self.message_sent = False
        self.sent = NOTHING

    def resources(self) -> set[str]:
        return self.blocked_by - {"flow"}

    def maybe_block(self) -> None:
        if self.should_block and self.blocked_by:
            self.blocked = True
            if self.resources() and not self.message_sent and self.notify:
                self.message_sent = True
                self.sent = SEND_BLOCKED

    def maybe_unblock(self) -> None:
        if not self.blocked_by:
            self.blocked = False
            self.should_block = False
        if not self.resources() and self.message_sent:
            self.message_sent = False
            self.sent = SEND_UNBLOCKED

    def control_throttle(self) -> None:
        if self.blocked:
            self.maybe_unblock()
        self.maybe_block()

    def publish(self) -> None:
        if self.blocked_by:
            self.should_block = True
        self.maybe_block()

    def shown(self) -> str:
        if self.resources():
            return "blocked" if self.blocked else "blocking"
        return "flow" if "flow" in self.blocked_by else "running"


MODEL_INPUTS = ["publish", "memory", "no memory", "disk", "no disk", "spent", "granted"]


@given(st.booleans(), st.lists(st.sampled_from(MODEL_INPUTS), max_size=60))
def test_throttle_agrees_with_rabbitmq(notify: bool, inputs: list[str]) -> None:
    connection = Connection(notify)
    model = Model(notify)
    for name in inputs:
        model.sent = NOTHING
        alarmed = bool(model.resources())
        if name == "publish":
            blocking = STATES[connection.throttle.state] == "blocking"
            if alarmed and not blocking:
                continue  # it is not read
            sent = connection.input("publish") if blocking else NOTHING
            model.publish()
        elif name in ("spent", "granted"):
            if name == "spent" and alarmed:
                continue  # no publish gets in
            if (name == "spent") == connection.credit.is_shut:
                continue
            sent = connection.input(f"credit_{name}")
            model.blocked_by ^= {"flow"}
            model.control_throttle()
            if name == "spent":
                model.publish()  # only a publish spends
        else:
            source = name.removeprefix("no ")
            if name == source:
                model.blocked_by |= {source}
            else:
                model.blocked_by -= {source}
            sent = connection.throttle.alarms_changed(" & ".join(sorted(model.resources())))
            model.control_throttle()
        connection.check()
        assert sent == model.sent
        assert connection.throttle.stopped == model.blocked
        assert connection.throttle.shown(LATER_NS) == model.shown()


def test_second_alarm_while_blocked_is_not_told_again_but_named() -> None:
    connection = Connection().at("blocked")
    assert connection.throttle.alarms_changed("low on memory & low on disk") == NOTHING
    assert connection.throttle.reason == "low on memory & low on disk"
    assert connection.throttle.alarms_changed("low on disk") == NOTHING
    assert connection.throttle.alarms_changed("") == SEND_UNBLOCKED


def test_client_that_cannot_hear_of_it_is_told_nothing() -> None:
    connection = Connection(notify=False)
    assert connection.input("alarm") == NOTHING
    assert connection.input("publish") == NOTHING
    assert connection.throttle.stopped
    assert connection.input("all_clear") == NOTHING
    assert not connection.throttle.stopped


def test_connection_is_shown_in_flow_for_five_seconds_after_it_began() -> None:
    connection = Connection()
    throttle = connection.throttle
    began_ns = connection.clock.time_ns
    assert throttle.shown(began_ns) == "running"
    connection.input("credit_spent")
    assert throttle.shown(began_ns + 60 * SECOND_NS) == "flow"
    connection.clock.time_ns += SECOND_NS
    connection.input("credit_granted")
    assert throttle.shown(began_ns + 5 * SECOND_NS - 1) == "flow"
    assert throttle.shown(began_ns + 5 * SECOND_NS) == "running"


def test_time_under_an_alarm_does_not_count_as_flow() -> None:
    connection = Connection().at("blocked")
    connection.input("all_clear")
    assert connection.throttle.shown(connection.clock.time_ns) == "running"


def test_time_blocked_by_an_alarm_is_counted_by_its_own_gate() -> None:
    connection = Connection().at("blocked")
    connection.clock.time_ns += 7
    connection.input("all_clear")
    assert connection.throttle.alarm_gate.blocked_ns(connection.clock.time_ns) == 7
    assert connection.credit.blocked_ns(connection.clock.time_ns) == 0
