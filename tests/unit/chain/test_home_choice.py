"""Goal: a queue is declared where its arguments, or the policy that holds for it, ask for; on this
node if they ask for nothing. Method: a state with some queues, nodes that are up or not."""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.chain.definitions.home_choice import home_for
from sluicemq.cluster.cluster_port import ClusterPort, NodeStanding
from sluicemq.metadata.changes import Change, DeclareQueue, UpsertRecord
from sluicemq.metadata.state import DeclaredState
from sluicemq.model.definitions import QueueDefinition
from sluicemq.model.policies import Policy
from sluicemq.model.vhosts import VhostDefinition


class Nodes(ClusterPort):
    """Node 1 of four, of which the last is down and the third is suspected."""

    node = 1
    nodes = (1, 2, 3, 4)

    def standing(self, node: int) -> NodeStanding:
        return {3: NodeStanding.SUSPECTED, 4: NodeStanding.DOWN}.get(node, NodeStanding.UP)


def chosen(
    arguments: dict[str, Any],
    homes: tuple[int, ...] = (),
    policy: dict[str, Any] | None = None,
    proposed: tuple[int, ...] = (),
    chance: int = 0,
    exclusive: bool = False,
) -> int:
    state = DeclaredState()
    state.apply(UpsertRecord(VhostDefinition("/")))
    if policy is not None:
        state.apply(UpsertRecord(Policy("/", "p", "", definition=policy)))
    for number, home in enumerate(homes):
        state.apply(DeclareQueue(QueueDefinition(f"q{number}"), home=home))
    changes: list[Change] = [DeclareQueue(QueueDefinition("p"), home=home) for home in proposed]
    definition = QueueDefinition("q", arguments=arguments, exclusive=exclusive)
    return home_for(definition, state, Nodes(), changes, lambda limit: chance % limit)


@pytest.mark.parametrize("key", ["x-queue-leader-locator", "x-queue-master-locator"])
def test_it_is_this_node_or_one_with_few_queues_or_any_that_is_up(key: str) -> None:
    assert chosen({}, homes=(1, 1)) == 1
    assert chosen({key: "client-local"}, homes=(1, 1)) == 1
    assert chosen({key: "balanced"}, homes=(1, 1)) == 2
    assert chosen({key: "min-masters"}, homes=(2, 2, 1)) == 1
    assert {chosen({key: "balanced"}, chance=each) for each in range(2)} == {1, 2}
    assert chosen({key: "balanced"}, homes=(1, 1, 2), proposed=(2, 2)) == 1
    assert {chosen({key: "random"}, homes=(1,), chance=each) for each in range(4)} == {1, 2}


def test_a_policy_may_say_it_but_arguments_come_first() -> None:
    policy = {"queue-master-locator": "min-masters"}
    assert chosen({}, homes=(1,), policy=policy) == 2
    assert chosen({"x-queue-master-locator": "client-local"}, homes=(1,), policy=policy) == 1


def test_an_exclusive_queue_lives_with_its_connection() -> None:
    assert chosen({"x-queue-master-locator": "min-masters"}, homes=(1,), exclusive=True) == 1
