"""Goal: whatever method comes in whatever state, the answer has RabbitMQ's code and closes what
RabbitMQ closes. Method: every method there is, with empty arguments, in every state a connection
can be in; the answers stand in wrong_states.txt, which `--rewrite --broker-url` writes anew from
RabbitMQ. `!` and an answer follow where ours differs (put back by hand, then):
docs/rabbitmq-differences.md says why.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pamqp import commands

from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ALL_METHODS
from support.broker import Target
from support.peer import PROTOCOL, Peer, call, channel_open, tune_ok

ANSWERS = Path(__file__).with_name("wrong_states.txt")
PEERS = 16
SILENCE_S = 0.6
"""How long nothing must come where silence is expected."""
PATIENCE_S = 240.0
"""How long an answer may take; RabbitMQ takes its time before it hangs up."""
CLOSED_BY_US = call(commands.Basic.Ack(99))
"""An unknown delivery tag: the broker closes the channel."""


def closed_from_there(peer: Peer) -> Peer:
    assert peer.log_in().open().send(CLOSED_BY_US).verdict().startswith("channel 406")
    return peer


STATES: dict[str, tuple[int, Callable[[Peer], Peer]]] = {
    "before start-ok": (0, lambda peer: peer.start()),
    "before tune-ok": (0, lambda peer: peer.authenticate()),
    "before open": (0, lambda peer: peer.authenticate().send(tune_ok())),
    "before open, on channel 1": (1, lambda peer: peer.authenticate().send(tune_ok())),
    "open, on channel 0": (0, lambda peer: peer.log_in()),
    "open, on a channel that is not": (1, lambda peer: peer.log_in()),
    "open, on a channel": (1, lambda peer: peer.log_in().open()),
    "on a channel closed from there": (1, closed_from_there),
}
"""The channel to send on, and how to get there."""


def answer_of(target: Target, state: str, method: Method, silence_s: float) -> str:
    """What the broker says in that time, the texts left out."""
    channel, go_there = STATES[state]
    with Peer(target) as peer:
        said = go_there(peer).send(method.frame(channel)).verdict(silence_s)
    kind, _, rest = said.partition(" ")
    return f"{kind} {rest[:3]} {rest[rest.rfind('(') :]}" if kind in CLOSES else said


CLOSES = ("connection", "channel")


def lines_of(state: str) -> dict[str, str]:
    """Expected answers by method."""
    found: dict[str, str] = {}
    here = ""
    for line in ANSWERS.read_text().splitlines() if ANSWERS.exists() else ():
        if line.startswith("["):
            here = line[1:-1]
        elif here == state and line:
            name, _, answer = line.partition(": ")
            found[name] = answer
    return found


@pytest.mark.parametrize("state", STATES)
def test_every_method_is_answered_as_rabbitmq_does(
    target: Target, state: str, rewrite: bool, request: pytest.FixtureRequest
) -> None:
    ours = not request.config.getoption("--broker-url")
    expected = {
        name: answer.split(" ! ")[-1 if ours else 0] for name, answer in lines_of(state).items()
    }

    def ask(made: type[Method]) -> str:
        is_silent = not rewrite and expected.get(made.NAME) == "silence"
        return answer_of(target, state, made(), SILENCE_S if is_silent else PATIENCE_S)

    with ThreadPoolExecutor(PEERS) as pool:
        said = pool.map(ask, ALL_METHODS)
        answers = {method.NAME: answer for method, answer in zip(ALL_METHODS, said, strict=True)}
    if rewrite:
        write(state, answers)
    else:
        assert answers == expected


def write(state: str, answers: dict[str, str]) -> None:
    """This part of the file anew, after the parts before it."""
    kept = ANSWERS.read_text().split("\n\n") if ANSWERS.exists() else []
    kept = [part.strip() for part in kept if not part.startswith(f"[{state}]")]
    part = "\n".join([f"[{state}]", *(f"{name}: {said}" for name, said in answers.items())])
    ANSWERS.write_text("\n\n".join([*kept, part]) + "\n")


def test_a_channel_is_free_again_when_the_client_has_agreed(target: Target) -> None:
    with Peer(target) as peer:
        closed_from_there(peer).send(call(commands.Channel.CloseOk()), channel_open())
        peer.expect("Channel.OpenOk")


def test_half_a_protocol_header_is_waited_for(target: Target) -> None:
    with Peer(target) as peer:
        peer.send(PROTOCOL[:5])
        assert peer.is_silent()
        peer.send(PROTOCOL[5:]).expect("Connection.Start")
