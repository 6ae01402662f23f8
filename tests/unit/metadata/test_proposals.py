"""Goal: whatever the log has, each proposal counts once, in the order of its node, and on every
member alike; a start with an older disk is refused.

Method: proposals of two nodes, as bytes, in logs where they come twice, late and not at all.
"""

from __future__ import annotations

import random

import pytest

from sluicemq.errors import Corrupt
from sluicemq.metadata.changes import Change, DeclareQueue, Life, NodeStarted, UpsertRecord
from sluicemq.metadata.proposals import (
    Proposal,
    decide,
    declared_in,
    decode_proposals,
    encode_proposal,
)
from sluicemq.metadata.restoring import restored_from_snapshot
from sluicemq.metadata.state import DeclaredState
from sluicemq.model.definitions import QueueDefinition
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

ONE, OTHER = Life(1, 1), Life(2, 1)


def proposals_of(life: Life, *changes: Change) -> list[Proposal]:
    """What a node says in that life: that it starts, then this."""
    all_of_them = (NodeStarted(life), *changes)
    return [Proposal(life, number, each) for number, each in enumerate(all_of_them, start=1)]


def users(*names: str) -> list[Change]:
    return [UpsertRecord(User(name)) for name in names]


def test_a_log_with_repetitions_and_gaps_says_what_it_would_without() -> None:
    """A node says everything again from what it does not know to be decided, as often as it
    likes."""
    chance = random.Random(7)
    for _ in range(200):
        state = DeclaredState()
        of_node = {
            1: proposals_of(ONE, *users("a", "b", "a", "c")),
            2: proposals_of(OTHER, *users("x", "y")),
        }
        decided: list[Proposal] = []
        done = {1: 0, 2: 0}
        while any(done[node] < len(some) for node, some in of_node.items()):
            node = chance.choice((1, 2))
            start = chance.randint(0, done[node] + chance.randint(0, 1))
            for proposal in of_node[node][start : start + chance.randint(1, 4)]:
                [sent] = decode_proposals(encode_proposal(proposal))
                assert sent == proposal
                if decide(state, sent) is not None:
                    decided.append(sent)
                    done[node] += 1
        for node, some in of_node.items():
            assert [each for each in decided if each.life.node == node] == some
        assert state.proposed == {1: 5, 2: 3}
        assert restored_from_snapshot(state.snapshot()).proposed == state.proposed


def test_of_an_earlier_life_nothing_counts_any_more() -> None:
    state = DeclaredState()
    first = proposals_of(Life(1, 3), *users("a", "b"))
    for each in first[:2]:
        assert decide(state, each) is not None
    second = proposals_of(Life(1, 4), *users("c"))
    assert decide(state, second[1]) is None, "before its start"
    assert decide(state, second[0]) is not None
    assert decide(state, first[2]) is None
    assert decide(state, second[1]) is not None
    assert [*state.users] == ["a", "c"]


def test_a_start_with_an_older_disk_is_refused_and_counts_for_nothing() -> None:
    state = DeclaredState()
    for each in proposals_of(Life(1, 5), *users("a")):
        decide(state, each)
    before = state.snapshot()
    verdict = decide(state, proposals_of(Life(1, 4))[0])
    assert verdict is not None
    assert "rolled back" in str(verdict.refusal)
    assert state.snapshot() == before


def test_what_is_refused_has_had_its_turn() -> None:
    state = DeclaredState()
    lost = DeclareQueue(QueueDefinition("q", vhost="none"))
    for each in proposals_of(ONE, lost)[:2]:
        verdict = decide(state, each)
    assert verdict is not None
    assert "320" in str(verdict.refusal)
    assert decide(state, proposals_of(ONE, lost)[1]) is None
    assert state.proposed == {1: 2}


def test_a_member_is_made_again_of_snapshot_and_entries() -> None:
    beginning = [UpsertRecord(VhostDefinition("v")), *users("a")]
    all_of_them = proposals_of(ONE, *beginning, DeclareQueue(QueueDefinition("q", vhost="v")))
    entries = [b"".join(map(encode_proposal, some)) for some in (all_of_them[:2], all_of_them[2:])]
    whole = declared_in(b"", entries)
    assert [*whole.hosts["v"].queues] == ["q"]
    half = declared_in(b"", entries[:1])
    assert declared_in(half.snapshot(), entries[1:]).snapshot() == whole.snapshot()


@pytest.mark.parametrize("cut", [1, 19, 20, 25])
def test_what_is_cut_off_is_no_proposal(cut: int) -> None:
    whole = encode_proposal(proposals_of(ONE)[0])
    for broken in (whole[:cut], whole + whole[:cut], whole[:20] + b"[" + whole[21:]):
        with pytest.raises(Corrupt):
            decode_proposals(broken)
