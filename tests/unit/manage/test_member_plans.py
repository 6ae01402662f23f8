"""Goal: `grow`, `shrink` and `rebalance` propose what makes sense, and no more.

Method: plans for queues that are declared so, without a broker.
"""

from __future__ import annotations

import pytest

from sluicemq.broker.member_plans import grow_plan, rebalance_plan, shrink_plan
from sluicemq.kernel.address import member_name
from sluicemq.metadata.changes import ONLY_LIFE, AddMember, MoveLeader, RemoveMember
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.model.definitions import QueueDefinition


def queue(number: int, *members: int, leaving: tuple[int, ...] = ()) -> DeclaredQueue:
    definition = QueueDefinition(f"q{number}", True, vhost="v")
    return DeclaredQueue(number, definition, ONLY_LIFE, members[0], members, leaving)


def test_a_node_is_emptied_but_for_last_members() -> None:
    queues = [queue(1, 1, 2, 3), queue(2, 1, 2), queue(3, 3)]
    first, last = shrink_plan(queues, 3)
    assert (first.size, first.change) == (2, RemoveMember("v", "q1", 1, 3))
    assert (last.size, last.change, last.problem) == (1, None, "it is the last member")


def test_a_node_gets_members_of_all_or_of_those_with_an_even_number() -> None:
    queues = [queue(1, 1, 2), queue(2, 1), queue(3, 1, 3), queue(4, 1, leaving=(3,))]
    assert [(each.size, each.change) for each in grow_plan(queues, 3)] == [
        (3, AddMember("v", "q1", 1, 3)),
        (2, AddMember("v", "q2", 2, 3)),
        (1, None),
    ]
    assert [each.queue.id for each in grow_plan(queues, 3, only_even=True)] == [1]


@pytest.mark.parametrize(
    "leaders", [[1] * 9, [1, 1, 2, 1, 1, 3, 1, 1, 1], [3, 3, 3, 2, 2, 2, 1, 1, 1]]
)
def test_nodes_lead_alike_many(leaders: list[int]) -> None:
    queues = [queue(n, 1, 2, member_name(5, 3)) for n in range(9)]
    moves, counts = rebalance_plan(queues, leaders.__getitem__, lambda _: True)
    after = [*leaders]
    for move in moves:
        assert after[move.queue_id] != move.node, "nobody moves to where it is"
        after[move.queue_id] = move.node
    assert counts == {1: 3, 2: 3, 3: 3} == {node: after.count(node) for node in (1, 2, 3)}
    assert len(moves) == sum(max(0, leaders.count(node) - 3) for node in (1, 2, 3))


def test_leaders_go_only_where_there_is_a_member_that_is_up() -> None:
    queues = [queue(0, 1), queue(1, 1), queue(2, 1, 2), queue(3, 1, 3), queue(4, 1, 2)]
    leaders = [1, 1, 1, 1, 0]
    moves, counts = rebalance_plan(queues, leaders.__getitem__, lambda node: node != 3)
    assert moves == [MoveLeader("v", "q2", 2, 2)]
    assert counts == {1: 3, 2: 1, 3: 0}
