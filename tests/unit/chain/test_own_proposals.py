"""Goal: what a node proposes is said once to each leader, in order and not too much at a time, and
who waits for it hears in time. Method: changes of some size, leaders that come and go.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.definitions import own_proposals
from sluicemq.chain.definitions.own_proposals import OwnProposals
from sluicemq.errors import SluiceError
from sluicemq.metadata.changes import DeclareQueue, Life
from sluicemq.metadata.proposals import decode_proposals
from sluicemq.model.definitions import QueueDefinition

BYTES = 1000


def change(number: int, size: int = 0) -> DeclareQueue:
    return DeclareQueue(QueueDefinition(f"q{number}", arguments={"x": "." * size}))


def numbers(said: list[bytes]) -> list[int]:
    return [proposal.number for each in said for proposal in decode_proposals(each)]


def some(count: int, size: int = 0) -> OwnProposals:
    own = OwnProposals(Life(1, 1))
    for number in range(1, count + 1):
        own.add(change(number, size), until_ns=number)
    return own


def test_each_is_said_once_to_a_leader_and_again_to_the_next() -> None:
    own = some(3)
    assert numbers(own.to_say()) == [1, 2, 3]
    assert own.to_say() == []
    decided = own.decided(2)
    assert decided is not None
    assert decided.change == change(2)
    own.add(change(4))
    own.say_again()
    assert numbers(own.to_say()) == [1, 3, 4]
    assert own.decided(2) is None
    assert len(own) == 3


def test_no_more_is_under_way_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_proposals, "PROPOSALS_BYTES", 2 * BYTES)
    own = some(5, BYTES)
    assert numbers(own.to_say()) == [1, 2]
    assert own.to_say() == []
    own.decided(1)
    assert numbers(own.to_say()) == [3]
    own.say_again()
    assert numbers(own.to_say()) == [2, 3]
    for number in (2, 3):
        own.decided(number)
    assert numbers(own.to_say()) == [4, 5]
    for number in (4, 5):
        own.decided(number)
    assert (len(own), own.under_way_bytes) == (0, 0)


def test_one_that_is_too_large_is_refused_and_holds_up_nobody() -> None:
    told: list[SluiceError | None] = []
    own = OwnProposals(Life(1, 1))
    own.bytes_max = BYTES
    own.add(change(1, 2 * BYTES), told.append, until_ns=9)
    own.add(change(2))
    assert numbers(own.to_say()) == [1]
    assert [change(2)] == [*own.changes()]
    (refusal,) = told
    assert "too large: 1000 at most" in str(refusal)
    assert own.expired(9) == []


def test_what_was_said_to_nobody_is_not_proposed_when_nobody_waits_any_more() -> None:
    own = some(2)
    own.to_say()
    own.add(change(3), until_ns=2)
    own.add(change(4))
    late = own.expired(2)
    assert sorted(each.change.definition.name for each in late) == ["q1", "q2", "q3"]  # type: ignore[union-attr]
    assert [*own.changes()] == [change(1), change(2), change(4)]
    assert numbers(own.to_say()) == [3]
    own.add(change(5), until_ns=3)
    assert [each.change for each in own.expired(3)] == [change(5)], "each is told once"
