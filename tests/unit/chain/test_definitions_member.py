"""Goal: a start knows what there is of this node's member of the definitions' group: nothing yet, a
log with what is agreed on, or one that may have forgotten something. Method: what recovery has
found of groups, by hand.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sluicemq.chain.definitions.member import found_member, newborn
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.raft.configuration import Configuration

OTHER_GROUP = DEFINITIONS_GROUP + 1


def groups(commit: int = 0, last_index: int = 0, is_amnesiac: bool = False) -> Any:
    """Two, of which one is not this one's."""
    found = SimpleNamespace(commit=commit, last_index=last_index, is_amnesiac=is_amnesiac)
    return SimpleNamespace(
        groups={OTHER_GROUP: None, DEFINITIONS_GROUP: found},
        found={OTHER_GROUP: "another log", DEFINITIONS_GROUP: "a log"},
        contents={DEFINITIONS_GROUP: b"a state"},
    )


def nothing() -> Any:
    return SimpleNamespace(groups={OTHER_GROUP: None}, found={}, contents={})


def test_each_begins_with_who_the_members_are_whatever_their_order() -> None:
    one, other = newborn((3, 1, 2)), newborn((1, 2, 3))
    assert one == other
    assert one.durable.snapshot.configuration == Configuration((1, 2, 3))
    assert (one.is_new, one.is_amnesiac, one.applied) == (True, False, 0)


def test_there_may_be_none_yet() -> None:
    assert found_member(nothing(), has_forgotten=False) is None


def test_one_that_may_have_been_forgotten_does_not_begin_as_if_it_were_new() -> None:
    found = found_member(nothing(), has_forgotten=True)
    assert found is not None
    assert (found.is_amnesiac, found.is_new) == (True, False)
    assert found.durable.snapshot.configuration.members == ()


def test_what_is_found_is_taken_out_and_the_others_stay() -> None:
    there = groups(commit=5, last_index=9)
    found = found_member(there, has_forgotten=False)
    assert found is not None
    assert (found.durable, found.content) == ("a log", b"a state")
    assert (found.is_new, found.is_amnesiac) == (False, False)
    assert there.found == {OTHER_GROUP: "another log"}
    assert there.contents == {}


def test_no_more_is_applied_than_is_agreed_on_and_there() -> None:
    for commit, last_index, applied in ((5, 9, 5), (9, 5, 5)):
        found = found_member(groups(commit, last_index), has_forgotten=False)
        assert found is not None
        assert found.applied == applied


def test_a_damaged_log_is_one_that_may_have_forgotten() -> None:
    found = found_member(groups(is_amnesiac=True), has_forgotten=False)
    assert found is not None
    assert found.is_amnesiac
