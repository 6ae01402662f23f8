"""Goal: policies hold for queues and exchanges at once, and are found again after a restart.

Method: the node of bench.py; the same disk under a second node.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sluicemq.amqp.methods import ExchangeDeclare, QueueDeclare
from sluicemq.limits import POLICY_QUEUES
from sluicemq.manage.command import UNAVAILABLE
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.metadata.tables import DurableTables
from sluicemq.queues.settings import NO_SETTINGS

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    bench.say(QueueDeclare(queue="letters").frame(1))
    return bench


def held(bench: Bench) -> dict[object, tuple[object, object, object]]:
    columns = ("name", "policy", "operator_policy", "effective_policy_definition")
    rows = [[*row.values()] for row in bench.rows("list_queues", *columns)]
    return {name: (policy, operator, said) for name, policy, operator, said in rows}


def test_a_policy_holds_at_once_for_what_is_there_and_what_comes(bench: Bench) -> None:
    bench.do("set_policy", name="p", pattern="^or", definition='{"max-length": 5}')
    assert held(bench) == {
        "orders": ("p", "", {"max-length": 5}),
        "letters": ("", "", {}),
    }
    queues = bench.node.broker.vhosts["/"].queues
    assert queues["orders"].settings.max_length == 5  # type: ignore[attr-defined]
    bench.say(QueueDeclare(queue="ordinary").frame(1))
    assert queues["ordinary"].settings.max_length == 5  # type: ignore[attr-defined]
    bench.do("clear_policy", name="p")
    assert queues["orders"].settings == NO_SETTINGS  # type: ignore[attr-defined]
    assert held(bench)["ordinary"] == ("", "", {})


def test_the_operators_limit_wins(bench: Bench) -> None:
    bench.do("set_policy", name="p", pattern="", definition='{"max-length": 5, "expires": 9000}')
    bench.do("set_operator_policy", name="o", pattern="", definition='{"max-length": 3}')
    assert held(bench)["orders"] == ("p", "o", {"max-length": 3, "expires": 9000})
    bench.do("clear_policy", name="p")
    assert held(bench)["orders"] == ("", "o", {"max-length": 3})


def test_policies_are_listed_by_rank(bench: Bench) -> None:
    bench.do("set_policy", name="b", pattern="^b", definition='{"max-length": 1}')
    bench.do(
        "set_policy",
        name="a",
        pattern="^a",
        definition='{"queue-mode": "lazy"}',
        priority=3,
        apply_to="queues",
    )
    assert bench.do("list_policies") == [
        {
            "vhost": "/",
            "name": "a",
            "pattern": "^a",
            "apply-to": "queues",
            "definition": '{"queue-mode":"lazy"}',
            "priority": 3,
        },
        {
            "vhost": "/",
            "name": "b",
            "pattern": "^b",
            "apply-to": "all",
            "definition": '{"max-length":1}',
            "priority": 0,
        },
    ]
    assert bench.do("list_operator_policies") == []


@pytest.mark.parametrize(
    ("pattern", "definition", "said"),
    [
        ("a", '{"max-length": -1}', "Validation failed\n\n-1 is not a valid maximum length\n"),
        ("(", '{"max-length": 1}', "Validation failed\n\n"),
        ("a", "rubbish", "JSON decoding error."),
        ("a", '{"max-length": NaN}', "JSON decoding error."),
        ("a", "[" * 10000, "JSON decoding error."),
        ("a", "[]", "Validation failed\n\n"),
    ],
)
def test_a_wrong_one_changes_nothing(
    bench: Bench, pattern: str, definition: str, said: str
) -> None:
    before = bench.node.broker.definitions.encode()
    refused = bench.ask("set_policy", name="p", pattern=pattern, definition=definition)
    assert refused.error.startswith(said)
    assert refused.code == UNAVAILABLE
    assert bench.node.broker.definitions.encode() == before
    assert bench.do("list_policies") == []
    assert bench.ask("clear_policy", name="p").error == "Parameter does not exist"


def test_an_exchange_gets_its_alternate_by_policy(bench: Bench) -> None:
    topology = bench.node.broker.vhosts["/"].topology
    bench.say(ExchangeDeclare(exchange="in", exchange_type="direct").frame(1))
    own = {"alternate-exchange": "amq.topic"}
    declare = ExchangeDeclare(exchange="inside", exchange_type="direct", arguments=own)
    bench.say(declare.frame(1))
    epoch = topology.epoch
    alternate = '{"alternate-exchange": "amq.fanout"}'
    bench.do("set_policy", name="p", pattern="^in", definition=alternate)
    assert topology.epoch > epoch
    assert topology.exchanges["in"].alternate == "amq.fanout"
    assert topology.exchanges["inside"].alternate == "amq.topic"
    bench.say(ExchangeDeclare(exchange="inner", exchange_type="direct").frame(1))
    assert topology.exchanges["inner"].alternate == "amq.fanout"
    policies = {
        row["name"]: row["policy"] for row in bench.rows("list_exchanges", "name", "policy")
    }
    assert policies["in"] == policies["inside"] == policies["inner"] == "p"
    assert policies["amq.direct"] == policies[""] == ""
    bench.do("clear_policy", name="p")
    assert topology.exchanges["in"].alternate is None


def test_parameters_are_kept_and_listed(bench: Bench) -> None:
    bench.do("set_parameter", component="shovel", name="s", value='{"a": [1]}')
    bench.do("set_global_parameter", name="g", value="5")
    assert bench.do("list_parameters") == [
        {"component": "shovel", "name": "s", "value": '{"a":[1]}'}
    ]
    assert bench.do("list_global_parameters") == [{"name": "g", "value": "5"}]
    again = DurableTables(bench.node.broker.definitions.encode())
    assert again.encode() == bench.node.broker.definitions.encode()
    bench.do("clear_parameter", component="shovel", name="s")
    bench.do("clear_global_parameter", name="g")
    assert bench.do("list_parameters") == bench.do("list_global_parameters") == []
    refused = bench.ask("set_parameter", component="policy", name="p", value="{}")
    assert "set_policy" in refused.error


def test_what_is_set_and_cleared_is_in_the_journal(bench: Bench) -> None:
    definitions = bench.node.broker.definitions
    before = definitions.encode()
    bench.do("set_policy", name="p", pattern="a", definition='{"max-length": 5}')
    bench.do("set_policy", name="q", pattern="b", definition='{"max-length": 5}')
    bench.do("clear_policy", name="q")
    again = DurableTables(before)
    for policy in definitions.policies.values():
        again.take(UpsertRecord(policy))
    assert again.encode() == definitions.encode()
    restarted = Bench(bench)
    assert restarted.node.broker.definitions.encode() == definitions.encode()
    assert held(restarted)["orders"] == ("", "", {})
    assert [row["name"] for row in restarted.do("list_policies")] == ["p"]


def test_many_queues_are_told_in_parts(bench: Bench) -> None:
    declare = [QueueDeclare(queue=f"q{n}", nowait=True).frame(1) for n in range(3 * POLICY_QUEUES)]
    bench.say(b"".join(declare))
    policy = {"name": "p", "pattern": "^q", "definition": '{"max-length": 5}'}
    answers = bench.begin("set_policy", **policy)
    told = []
    while not answers:
        bench.settle()
        told.append(sum(1 for name, *_ in held(bench).values() if name == "p"))
        bench.fire()
    parts = [after - before for before, after in zip([0, *told], told, strict=False)]
    assert max(parts) <= POLICY_QUEUES
    assert sum(1 for name, *_ in held(bench).values() if name == "p") == 3 * POLICY_QUEUES


def test_a_policy_that_cannot_hold_any_more_does_not_keep_the_broker_from_starting(
    bench: Bench,
) -> None:
    bench.do("set_policy", name="p", pattern="^q", definition='{"max-length": 5}')
    definitions = bench.node.broker.definitions
    broken = replace(definitions.policies["/", "p"], pattern="(")
    bench.node.broker.agreement.propose(UpsertRecord(broken))
    bench.do("set_global_parameter", name="g", value="1")
    restarted = Bench(bench)
    assert held(restarted)["orders"] == ("", "", {})
    restarted.do("set_policy", name="p", pattern="^o", definition='{"max-length": 5}')
    assert held(restarted)["orders"] == ("p", "", {"max-length": 5})
    restarted.do("clear_policy", name="p")
