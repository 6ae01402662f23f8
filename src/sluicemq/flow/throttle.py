"""When a connection is not read, what its client is told about it, and how it is shown.

A connection is not read for one of two reasons: a credit gate is shut (flow), or there is an alarm
and it publishes. An alarm alone does not stop it: a connection that only consumes is never blocked.
In `blocking` it is read up to the next frame that belongs to a message; that publish stops the
reading, and waits unparsed until the alarm is over.

                   reading   alarm gate   told to a client which can hear it
    running        yes       open
    blocking       methods   open
    flow           no        open         (never told)
    blocked        no        shut         connection.blocked on the way in,
    blocked_flow   no        shut         connection.unblocked on the way out

All credit gates of a reader and this alarm gate have one keeper, so the reader's rule is: do not
read while `keeper.gates_shut`.
"""

from __future__ import annotations

from typing import Final

from sluicemq.flow.gate import Gate, GateKeeper
from sluicemq.limits import CONNECTION_FLOW_STICKY_NS

MOVES: Final[dict[str, dict[str, str]]] = {
    "running": {
        "alarm": "blocking",
        "all_clear": "running",
        "credit_spent": "flow",
    },
    "blocking": {
        "publish": "blocked",
        "alarm": "blocking",
        "all_clear": "running",
    },
    "flow": {
        "alarm": "blocked_flow",
        "all_clear": "flow",
        "credit_granted": "running",
    },
    "blocked": {
        "alarm": "blocked",
        "all_clear": "running",
    },
    "blocked_flow": {
        "alarm": "blocked_flow",
        "all_clear": "flow",
        "credit_granted": "blocked",
    },
}
"""state -> input -> state. What is missing cannot happen: a publish is only looked for while there
is an alarm and the connection is read; none gets in then, and so none spends credit."""

STATES: Final = tuple(MOVES)
INPUTS: Final = ("publish", "alarm", "all_clear", "credit_spent", "credit_granted")

RUNNING: Final = STATES.index("running")
BLOCKING: Final = STATES.index("blocking")
FLOW: Final = STATES.index("flow")
BLOCKED: Final = STATES.index("blocked")
BLOCKED_FLOW: Final = STATES.index("blocked_flow")

_PUBLISH: Final = INPUTS.index("publish")
_ALARM: Final = INPUTS.index("alarm")
_ALL_CLEAR: Final = INPUTS.index("all_clear")
_CREDIT_SPENT: Final = INPUTS.index("credit_spent")
_CREDIT_GRANTED: Final = INPUTS.index("credit_granted")

_IMPOSSIBLE: Final = 255


def _matrix() -> bytes:
    cells = bytearray()
    for moves in MOVES.values():
        for name in INPUTS:
            cells.append(STATES.index(moves[name]) if name in moves else _IMPOSSIBLE)
    return bytes(cells)


_NEXT: Final = _matrix()
_WIDTH: Final = len(INPUTS)

# What to send to the client.
NOTHING: Final = 0
SEND_BLOCKED: Final = 1
"""The action that sends connection.blocked with `Throttle.reason`."""
SEND_UNBLOCKED: Final = 2


class Throttle:
    """The state of one connection as a publisher. Every input returns what to send to the
    client."""

    __slots__ = ("alarm_gate", "flow_since_ns", "keeper", "notify", "reason", "state", "stopped")

    def __init__(self, keeper: GateKeeper, notify: bool) -> None:
        self.keeper = keeper
        self.alarm_gate = Gate(keeper, "alarm")
        self.notify = notify
        """Did the client announce the capability connection.blocked?"""
        self.reason = ""
        self.state = RUNNING
        self.stopped = False
        """The connection is not read now, so that missing heartbeats do not count."""
        self.flow_since_ns: int | None = None

    def publish_seen(self) -> int:
        """Note, in `blocking` only, that the next frame is a publish, or belongs to one that has
        begun."""
        return self._move(_PUBLISH)

    def alarms_changed(self, reason: str) -> int:
        """Note the alarms that are raised; `reason` names them, "" when there is none."""
        self.reason = reason
        return self._move(_ALARM if reason else _ALL_CLEAR)

    def credit_changed(self) -> int:
        """Look at the credit gates again, because credit was spent or granted, or a channel is
        gone."""
        spent = self.keeper.gates_shut > self.alarm_gate.is_shut
        state = self.state
        if spent == (state in (FLOW, BLOCKED_FLOW)):
            return NOTHING
        if state == RUNNING:
            self.flow_since_ns = self.keeper.shut_since_ns
        return self._move(_CREDIT_SPENT if spent else _CREDIT_GRANTED)

    def shown(self, now_ns: int) -> str:
        """Return the state that users see: running, flow, blocking or blocked."""
        state = self.state
        if state == RUNNING:
            since_ns = self.flow_since_ns
            if since_ns is not None and now_ns - since_ns < CONNECTION_FLOW_STICKY_NS:
                return "flow"
        return "blocked" if state == BLOCKED_FLOW else STATES[state]

    def _move(self, what: int) -> int:
        before = self.state
        after = _NEXT[before * _WIDTH + what]
        assert after != _IMPOSSIBLE, f"{STATES[before]}: {INPUTS[what]}"
        self.state = after
        self.stopped = after >= FLOW
        was_blocked = before >= BLOCKED
        if was_blocked == (after >= BLOCKED):
            return NOTHING
        if was_blocked:
            self.alarm_gate.open()
            return SEND_UNBLOCKED if self.notify else NOTHING
        self.alarm_gate.shut()
        return SEND_BLOCKED if self.notify else NOTHING
