"""Goal: each queue of a virtual host hears of the policy that holds for it, once a change, and
others have their turns meanwhile. Method: a node whose clock stands still, with few queues a part.
"""

from __future__ import annotations

import pytest

from sluicemq.broker.policy_rounds import PolicyRounds
from sluicemq.chain.queue.queue import Queue
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.policies import Policy

from .client import Broker, declared

PART = 3


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr("sluicemq.broker.policy_rounds.POLICY_QUEUES", PART)
    broker = Broker()
    broker.run()
    return broker


def queues(broker: Broker, number: int) -> list[Queue]:
    """So many new ones, called q0 and so on."""
    return [declared(broker.node.broker, f"q{index}") for index in range(number)]


def next_part(broker: Broker) -> bool:
    """The pause between two parts of a round is over; tells whether there was one."""
    timers = broker.world.clock.timers
    due = [timer for timer in timers if isinstance(timer[1], PolicyRounds)]
    for timer in due:
        timers.remove(timer)
        timer[1].post(timer[2])
    broker.run()
    return bool(due)


def told(found: list[Queue]) -> list[str]:
    """The names of the queues that have a policy."""
    return [queue.name for queue in found if queue.policy is not None]


def set_policy(broker: Broker, name: str, pattern: str = "", priority: int = 0) -> None:
    """Agreed on; of the queues the first part has heard."""
    definition = '{"max-length": 5}'
    arguments = {"name": name, "pattern": pattern, "priority": priority}
    broker.begin("set_policy", definition=definition, **arguments)
    broker.run()


def test_queues_are_told_part_by_part(broker: Broker) -> None:
    found = queues(broker, 2 * PART + 1)
    set_policy(broker, "p")
    assert told(found) == ["q0", "q1", "q2"]
    assert next_part(broker)
    assert len(told(found)) == 2 * PART
    assert next_part(broker)
    assert len(told(found)) == 2 * PART + 1
    assert not next_part(broker)


def test_an_answer_waits_for_the_last_part(broker: Broker) -> None:
    found = queues(broker, PART + 1)
    answers = broker.ask("set_policy", name="p", pattern="", definition='{"max-length": 5}')
    broker.run()
    assert not answers
    assert next_part(broker)
    (answer,) = answers
    assert not answer.error
    assert len(told(found)) == PART + 1


def test_a_policy_that_changes_between_parts_holds_for_all_at_the_end(broker: Broker) -> None:
    found = queues(broker, PART + 2)
    set_policy(broker, "p")
    set_policy(broker, "stronger", priority=1)
    while next_part(broker):
        continue
    assert {queue.policy.name for queue in found if queue.policy} == {"stronger"}
    assert len(told(found)) == PART + 2


def test_a_queue_that_no_policy_fits_hears_of_none(broker: Broker) -> None:
    found = queues(broker, PART)
    set_policy(broker, "p", "^q1$")
    while next_part(broker):
        continue
    assert told(found) == ["q1"]
    broker.begin("clear_policy", name="p")
    broker.run()
    while next_part(broker):
        continue
    assert told(found) == []


def test_changes_before_a_round_begins_share_it(broker: Broker) -> None:
    found = queues(broker, PART - 1)
    rounds = broker.node.broker.policy_rounds
    asked: list[str] = []
    for name in "abc":
        rounds.notify("/", lambda name=name: asked.append(name))  # type: ignore[misc]
    assert len(rounds.inbox) == 1
    broker.run()
    assert asked == ["a", "b", "c"]
    assert not rounds.waiting
    assert not told(found)


def test_who_comes_between_changes_that_share_a_round_hears_of_the_last(broker: Broker) -> None:
    rounds = broker.node.broker.policy_rounds
    rounds.look_at("/")
    found = queues(broker, 1)
    policy = Policy("/", "p", "", definition={"max-length": 5})
    broker.node.broker.agreement.tell(
        broker.node.broker.definitions.apply(UpsertRecord(policy)).events
    )
    assert len(rounds.inbox) == 1
    broker.run()
    assert told(found) == ["q0"]


def test_with_many_policies_a_part_has_fewer_queues(broker: Broker) -> None:
    """Each of them is tried at each queue."""
    found = queues(broker, PART)
    for number in range(20):
        set_policy(broker, f"p{number}", "^other$")
    while next_part(broker):
        continue
    set_policy(broker, "all")
    assert len(told(found)) == 1
    while next_part(broker):
        continue
    assert len(told(found)) == PART
