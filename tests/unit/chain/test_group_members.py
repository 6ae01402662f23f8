"""Goal: the definitions' group gets the nodes that join and loses those that are gone, one change
at a time, and nobody votes who has not started. Method: a leader that notes what it was asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.chain.definitions.group_members import follow_nodes
from sluicemq.errors import Refused
from sluicemq.metadata.changes import AddNode, RemoveNode
from sluicemq.metadata.joined_nodes import JoinedNodes
from sluicemq.raft.configuration import Configuration


class Leader:
    """Of a group; `is_busy`: a change is under way."""

    def __init__(self, voters: tuple[int, ...], learners: tuple[int, ...] = ()) -> None:
        self.configuration = Configuration(voters, learners)
        self.is_leader = True
        self.is_busy = False
        self.asked: list[tuple[str, int]] = []

    def note(self, what: str, name: int) -> None:
        if self.is_busy:
            raise Refused("one change at a time")
        self.asked.append((what, name))

    def add_learner(self, name: int) -> None:
        self.note("learn", name)

    def promote(self, name: int) -> None:
        self.note("vote", name)

    def remove(self, name: int) -> None:
        self.note("go", name)


def nodes(added: tuple[int, ...] = (), removed: tuple[int, ...] = ()) -> JoinedNodes:
    made = JoinedNodes()
    for number in added:
        made.add(AddNode(number, f"n{number}", f"h{number}:1", f"{number:032x}"))
    for number in removed:
        made.remove(RemoveNode(number, f"n{number}", f"{number:032x}"))
    return made


@pytest.mark.parametrize(
    ("learners", "started", "asked"),
    [
        ((), {}, [("learn", 4)]),
        ((4,), {}, []),
        ((4,), {4: 1}, [("vote", 4)]),
    ],
)
def test_one_that_joins_learns_and_votes_when_it_has_started(
    learners: tuple[int, ...], started: dict[int, int], asked: list[tuple[str, int]]
) -> None:
    leader: Any = Leader((1, 2, 3), learners)
    follow_nodes(leader, nodes(added=(4,)), started)
    assert leader.asked == asked


def test_one_that_is_gone_goes_before_another_comes() -> None:
    leader: Any = Leader((1, 2, 3))
    follow_nodes(leader, nodes(added=(4,), removed=(2,)), {4: 1})
    assert leader.asked == [("go", 2)]


def test_who_does_not_lead_or_has_a_change_under_way_does_nothing() -> None:
    follower: Any = Leader((1, 2, 3))
    follower.is_leader = False
    busy: Any = Leader((1, 2, 3))
    busy.is_busy = True
    for leader in (follower, busy):
        follow_nodes(leader, nodes(removed=(2,)), {})
        assert leader.asked == []


def test_when_all_are_members_that_should_be_nothing_changes() -> None:
    leader: Any = Leader((1, 3, 4))
    follow_nodes(leader, nodes(added=(4,), removed=(2,)), {4: 1})
    assert leader.asked == []
