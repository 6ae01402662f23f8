"""Goal: who leads a quorum queue's group makes its members those that are declared, one by one,
with no step after which nothing could be agreed on.

Method: the next step for what is declared and what is; then all steps in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from sluicemq.chain.queue.group.member_changes import MemberStep, may_be_added, next_step
from sluicemq.kernel.address import member_name
from sluicemq.metadata.changes import ONLY_LIFE
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.model.definitions import QueueDefinition
from sluicemq.raft.configuration import Configuration

FOURTH = member_name(9, 4)
"""The member of node 4, which was added."""
AGAIN = member_name(10, 3)
"""A second one of node 3."""


def declared(*members: int, leaving: Collection[int] = ()) -> DeclaredQueue:
    return DeclaredQueue(1, QueueDefinition("q", True), ONLY_LIFE, 1, members, (*leaving,))


def step(
    wished: Collection[int],
    group: Configuration,
    own: int = 1,
    known: int = 1 << 40,
    caught_up: Collection[int] = (),
    lost: Collection[int] = (),
    held: Collection[int] = (),
    leaving: Collection[int] = (),
) -> str:
    wishes = declared(*wished, leaving=leaving)
    found = next_step(
        wishes, group, own, lambda name: name < known, caught_up.__contains__, lost, held
    )
    return "" if found is None else f"{found.kind} {found.name}"


THREE = Configuration((1, 2, 3))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (step((1, 2, 3), THREE), ""),
        (step((1, 2, 3, FOURTH), THREE), f"add {FOURTH}"),
        (step((1, 2, FOURTH), THREE), f"add {FOURTH}"),
        (step((1, 2, 3, FOURTH), THREE.with_learner(FOURTH)), ""),
        (
            step((1, 2, 3, FOURTH), THREE.with_learner(FOURTH), caught_up=(FOURTH,)),
            f"promote {FOURTH}",
        ),
        (step((1, 2), THREE), "remove 3"),
        (step((2, 3), THREE), "transfer 1"),
        (step((2, 3), THREE, own=2), "remove 1"),
    ],
)
def test_the_next_step(found: str, wanted: str) -> None:
    assert found == wanted


def test_who_comes_is_waited_for_before_others_go_unless_it_is_not_reached() -> None:
    group = THREE.with_learner(FOURTH)
    assert not step((1, 2, FOURTH), group)
    assert step((1, 2, FOURTH), group, lost=(FOURTH,)) == "remove 3"


def test_who_is_held_is_not_added_nor_whoever_comes_behind() -> None:
    both = (1, 2, 3, FOURTH, FOURTH + 1)
    assert not step(both, THREE, held=(FOURTH,))
    assert step(both, THREE, held=(FOURTH + 1,)) == f"add {FOURTH}"


def test_nobody_is_removed_when_the_others_that_are_reached_were_no_majority() -> None:
    assert not step((1, 2), THREE, lost=(2,))
    assert step((1, 2), THREE, lost=(3,)) == "remove 3"
    alone = Configuration((1,)).with_learner(FOURTH)
    assert not step((FOURTH,), alone, lost=(FOURTH,)), "the only voter stays"


def test_whom_the_definitions_here_do_not_know_yet_is_left_alone() -> None:
    group = THREE.with_learner(FOURTH)
    assert not step((1, 2, 3), group, known=FOURTH)
    assert step((1, 2, 3), group) == f"remove {FOURTH}"


def test_whoever_was_removed_is_not_added_again_by_who_has_not_heard_of_it() -> None:
    group = THREE.with_learner(FOURTH).without(FOURTH)
    assert not step((1, 2, 3, FOURTH), group)
    assert step((1, 2, AGAIN), group.without(3)) == f"add {AGAIN}"


def test_whoever_leaves_and_never_was_in_the_group_is_ruled_out_first() -> None:
    wishes = declared(1, 2, 3, leaving=(FOURTH,))
    assert step((1, 2, 3), THREE, leaving=(FOURTH,)) == f"rule out {FOURTH}"
    assert may_be_added(FOURTH, wishes, THREE)
    ruled_out = THREE.ruling_out(FOURTH)
    assert not step((1, 2, 3), ruled_out, leaving=(FOURTH,))
    assert not may_be_added(FOURTH, wishes, ruled_out)
    assert not step((1, 2, 3, FOURTH), ruled_out), "by a leader that has not heard of it"
    assert step((1, 2, 3, AGAIN), ruled_out) == f"add {AGAIN}"


def test_nobody_is_ruled_out_before_all_with_lower_ids_are_added_unless_they_are_held() -> None:
    wished = (1, 2, 3, FOURTH)
    wishes = declared(*wished, leaving=(AGAIN,))
    assert step(wished, THREE, leaving=(AGAIN,)) == f"add {FOURTH}"
    assert may_be_added(AGAIN, wishes, THREE)
    assert step(wished, THREE.with_learner(FOURTH), leaving=(AGAIN,)) == f"rule out {AGAIN}"
    assert not step(wished, THREE, leaving=(AGAIN,), held=(FOURTH,))
    assert not may_be_added(AGAIN, wishes, THREE, held=(FOURTH,))


def steps(wished: Collection[int], group: Configuration, own: int) -> Iterator[MemberStep]:
    """All steps until nothing is left to be done; everybody is reached and catches up at once."""
    while True:
        found = next_step(
            declared(*wished), group, own, lambda _: True, lambda _: True, frozenset()
        )
        if found is None:
            assert group.voters == tuple(sorted(wished))
            return
        yield found
        if found.kind == "transfer":
            own = max(group.voters, key=lambda each: each in wished)
        elif found.kind == "add":
            group = group.with_learner(found.name)
        elif found.kind == "promote":
            group = group.with_promoted(found.name)
        else:
            group = group.without(found.name)


@pytest.mark.parametrize("own", [1, 2, 3])
@pytest.mark.parametrize("wished", [(1,), (2, 3), (AGAIN, FOURTH), (1, 2, FOURTH), (1, 2, 3)])
def test_the_group_comes_to_be_what_is_declared(own: int, wished: tuple[int, ...]) -> None:
    assert len([*steps(wished, THREE, own)]) <= 8
