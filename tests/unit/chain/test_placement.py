"""Goal: a quorum queue has its members on as many nodes as it asks for, with its home and the node
that declares it among them, and queues spread. Method: declarations on node 1 of five.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sluicemq.chain.definitions.placement import placed
from sluicemq.metadata.changes import DeclareQueue
from sluicemq.model.definitions import QueueDefinition

NODES = (1, 2, 3, 4, 5)


def members(
    arguments: dict[str, Any], home: int = 1, turn: int = 0, **more: Any
) -> tuple[int, ...]:
    definition = QueueDefinition("q", durable=True, arguments=arguments)
    return placed(DeclareQueue(definition, home=home, **more), 1, NODES, turn).members


@pytest.mark.parametrize(("size", "found"), [(1, 1), (2, 2), (3, 3), (5, 5), (9, 5)])
def test_it_has_as_many_as_it_asks_for(size: int, found: int) -> None:
    asked = {"x-queue-type": "quorum", "x-quorum-initial-group-size": size}
    assert len({*members(asked)}) == len(members(asked)) == found
    assert members(asked)[0] == 1


def test_it_has_three_with_its_home_first_and_then_the_node_that_declares_it() -> None:
    for turn in range(9):
        found = members({"x-queue-type": "quorum"}, home=4, turn=turn)
        assert found[:2] == (4, 1)
        assert len(found) == 3


def test_queues_spread_over_the_others() -> None:
    chosen = Counter(
        node for turn in range(8) for node in members({"x-queue-type": "quorum"}, turn=turn)
    )
    assert chosen == {1: 8, 2: 4, 3: 4, 4: 4, 5: 4}


def test_members_that_are_named_and_queues_that_have_none_are_left_alone() -> None:
    assert members({"x-queue-type": "quorum"}, members=(3, 5)) == (3, 5)
    assert members({}) == ()
