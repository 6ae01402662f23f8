"""Goal: definitions come in all at once or not at all; what goes out comes in again as it was.

Method: nodes in a World that stands still; random documents against a copy of what was there.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.methods import ExchangeDeclare, QueueBind, QueueDeclare
from sluicemq.amqp.types import Timestamp
from sluicemq.manage.exporting import fill
from support.thorough import examples

from .bench import Bench

Document = dict[str, Any]


def queue(name: str, vhost: str = "/", **more: object) -> Document:
    made = {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
    return made | more


def exchange(name: str, vhost: str = "/", **more: object) -> Document:
    return queue(name, vhost, type="topic", internal=False) | more


def binding(source: str, destination: str, **more: object) -> Document:
    made = {"source": source, "destination": destination, "destination_type": "queue"}
    return {**made, "vhost": "/", "routing_key": "a", "arguments": {}, **more}


FULL: Document = {
    "vhosts": [{"name": "v", "metadata": {"description": "d", "tags": ["t"]}}],
    "users": [{"name": "u", "password_hash": "", "tags": []}],
    "permissions": [{"user": "u", "vhost": "v", "configure": ".*", "write": "", "read": "^a"}],
    "topic_permissions": [
        {"user": "u", "vhost": "v", "exchange": "x", "write": "^w", "read": "^r"}
    ],
    "parameters": [
        {"vhost": "v", "component": "shovel", "name": "s", "value": [1, {"a": None}]},
        {
            "vhost": "/",
            "component": "operator_policy",
            "name": "o",
            "value": {"pattern": "", "definition": {"max-length": 3}},
        },
        {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}},
    ],
    "global_parameters": [{"name": "g", "value": {"a": 1}}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 5}}],
    "queues": [
        queue("q", arguments={"x-max-length": 7, "x-own": {"a": [1, "b", True, 1.5]}}),
        queue("transient", durable=False),
        queue("q", "v", auto_delete=True),
    ],
    "exchanges": [exchange("x", arguments={"alternate-exchange": "amq.fanout"}), exchange("y")],
    "bindings": [
        binding("x", "q", arguments={"k": "v"}),
        binding("x", "transient"),
        binding("x", "y", destination_type="exchange"),
        binding("amq.direct", "q", routing_key=""),
    ],
}


def imported(bench: Bench, document: Document, **options: object) -> list[dict[str, object]]:
    return bench.do("import_definitions", file=json.dumps(document), **options)


def exported(bench: Bench, **options: object) -> Document:
    (row,) = bench.do("export_definitions", **options)
    document: Document = json.loads(str(row["file"]))
    return document


def sections(document: Document) -> dict[str, list[str]]:
    """Without regard to order."""
    return {
        name: sorted(json.dumps(each, sort_keys=True) for each in found)
        for name, found in document.items()
        if isinstance(found, list)
    }


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_goes_out_comes_in_as_it_was(bench: Bench) -> None:
    assert imported(bench, FULL) == []
    out = exported(bench)
    for name, wanted in FULL.items():
        names = {each.get("name") for each in wanted}
        assert {each.get("name") for each in out[name]} >= names, name
    other = Bench()
    imported(other, out)
    assert sections(exported(other)) == sections(out)
    assert imported(other, out, dry_run=True) == []


def test_what_is_durable_is_there_after_a_kill(bench: Bench) -> None:
    imported(bench, FULL)
    before = sections(exported(bench))
    after = sections(exported(Bench(bench)))
    for name in ("users", "vhosts", "permissions", "parameters", "policies", "exchanges"):
        assert after[name] == before[name], name
    assert len(before["queues"]) - len(after["queues"]) == 1  # the transient one
    assert len(before["bindings"]) - len(after["bindings"]) == 1


def test_a_kill_before_it_is_durable_leaves_nothing(bench: Bench) -> None:
    before = sections(exported(bench))
    bench.disk.slow = True
    answers = bench.begin("import_definitions", file=json.dumps(FULL))
    bench.settle()
    assert answers == []
    assert sections(exported(Bench(bench))) == before


def test_a_dry_run_says_what_would_change_and_changes_nothing(bench: Bench) -> None:
    bench.say(
        QueueDeclare(queue="q", durable=True, arguments=FULL["queues"][0]["arguments"]).frame(1)
    )
    before = exported(bench)
    rows = imported(bench, FULL, dry_run=True)
    assert exported(bench) == before
    changes = {(row["what"], row["name"]): row["change"] for row in rows}
    assert changes["vhost", "v"] == changes["exchange", "/ x"] == "added"
    assert ("queue", "/ q") not in changes
    assert changes["queue", "v q"] == "added"
    assert changes["binding", "/ x -> y a"] == "added"


def test_records_are_replaced_queues_must_be_equivalent(bench: Bench) -> None:
    imported(bench, FULL)
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"expires": 5}}
    rows = imported(bench, {"policies": [policy]}, dry_run=True)
    assert rows == [{"what": "policy", "name": "/ p", "change": "changed"}]
    refused = bench.ask(
        "import_definitions",
        file=json.dumps({"policies": [policy], "queues": [queue("q", durable=False)]}),
    )
    assert refused.error == (
        "queues[0]: PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    (kept,) = exported(bench)["policies"]
    assert kept["definition"] == {"max-length": 5}


def test_all_that_cannot_be_is_told_at_once(bench: Bench) -> None:
    before = exported(bench)
    refused = bench.ask(
        "import_definitions",
        file=json.dumps(
            {
                "vhosts": [{"name": "v"}],
                "permissions": [
                    {"user": "nobody", "vhost": "no", "configure": "", "write": "", "read": ""}
                ],
                "queues": [queue("q", "no"), queue("q", arguments={"x-max-length": -5})],
                "exchanges": [exchange("amq.new"), exchange("x", type="nope"), exchange("y")],
                "bindings": [binding("", "q")],
                "parameters": [
                    {
                        "vhost": "v",
                        "component": "vhost-limits",
                        "name": "limits",
                        "value": {"max-queues": 0},
                    }
                ],
            }
        ),
    )
    assert refused.error.splitlines() == [
        "permissions[0]: virtual host 'no' does not exist",
        "permissions[0]: user 'nobody' does not exist",
        "exchanges[0]: ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'",
        "exchanges[1]: COMMAND_INVALID - unknown exchange type 'nope'",
        "queues[0]: virtual host 'no' does not exist",
        "queues[1]: PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '/': "
        "{value_negative,-5}",
        "bindings[0]: ACCESS_REFUSED - operation not permitted on the default exchange",
    ]
    assert refused.code == 65
    assert exported(bench) == before


def test_a_virtual_hosts_limit_on_queues_counts(bench: Bench) -> None:
    limits = {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 1}}
    document = {"parameters": [limits | {"vhost": "/"}], "queues": [queue("a"), queue("b")]}
    refused = bench.ask("import_definitions", file=json.dumps(document))
    assert refused.error == "queues: 2 in virtual host '/', where 1 are allowed"


def test_a_binding_of_what_is_nowhere_is_left_out_and_told(bench: Bench) -> None:
    document = {"queues": [queue("q")], "bindings": [binding("internal", "q")]}
    (row,) = imported(bench, document)
    assert row["what"] == "binding"
    assert "no exchange 'internal'" in str(row["change"])
    assert exported(bench)["bindings"] == []


def test_one_virtual_host_goes_out_and_into_another(bench: Bench) -> None:
    imported(bench, FULL)
    out = exported(bench, vhost="/")
    assert "users" not in out
    assert all("vhost" not in each for each in out["queues"])
    imported(bench, {"vhosts": [{"name": "other"}]})
    imported(bench, out, vhost="other")
    assert exported(bench, vhost="other") == out
    assert bench.rows("list_queues", "name", vhost="other") == bench.rows("list_queues", "name")


def test_the_same_document_may_be_skipped(bench: Bench) -> None:
    imported(bench, FULL)
    bench.do("clear_policy", name="p")
    imported(bench, FULL, skip_if_unchanged=True)
    assert exported(bench)["policies"] == []
    assert bench.do("list_global_parameters") == [{"name": "g", "value": '{"a":1}'}]
    imported(bench, FULL)
    assert len(exported(bench)["policies"]) == 1


def test_what_json_cannot_carry_goes_out_as_rabbitmq_writes_it(bench: Bench) -> None:
    arguments = {"x-bytes": b"\xffa", "x-time": Timestamp(5), "x-text": "é"}
    bench.say(QueueDeclare(queue="q", arguments=arguments).frame(1))
    bench.say(QueueDeclare(queue="mine", exclusive=True).frame(1))
    bench.say(ExchangeDeclare(exchange="x", exchange_type="direct").frame(1))
    bench.say(QueueBind(queue="mine", exchange="x", routing_key="k").frame(1))
    out: dict[str, Any] = {}
    for _ in fill(out, bench.node.broker, None):
        pass
    (made,) = out["queues"]
    assert made["arguments"] == {"x-bytes": "\\xffa", "x-time": 5, "x-text": "é"}
    assert out["bindings"] == []


NAMES = st.sampled_from(("a", "b", "c"))
VHOSTS = st.sampled_from(("/", "v"))
QUEUES = st.builds(
    queue, NAMES, VHOSTS, durable=st.booleans(), arguments=st.just({}) | st.just({"x-expires": 9})
)
EXCHANGES = st.builds(
    exchange, NAMES, VHOSTS, durable=st.booleans(), type=st.sampled_from(("direct", "fanout", "?"))
)
BINDINGS = st.builds(binding, NAMES, NAMES, vhost=VHOSTS)
POLICIES = st.builds(
    lambda name, vhost, limit: {
        "name": name,
        "vhost": vhost,
        "pattern": "",
        "definition": {"max-length": limit},
    },
    NAMES,
    VHOSTS,
    st.integers(-1, 9),
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "vhosts": st.just([{"name": "v"}]),
        "queues": st.lists(QUEUES, max_size=3),
        "exchanges": st.lists(EXCHANGES, max_size=3),
        "bindings": st.lists(BINDINGS, max_size=3),
        "policies": st.lists(POLICIES, max_size=2),
    },
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
@examples(30)
def test_all_of_a_document_or_nothing(documents: list[Document]) -> None:
    bench = Bench()
    for document in documents:
        before = exported(bench)
        encoded = bench.node.broker.definitions.encode()
        answer = bench.ask("import_definitions", file=json.dumps(document))
        if answer.error:
            assert exported(bench) == before
            assert bench.node.broker.definitions.encode() == encoded
        else:
            again = imported(bench, document, dry_run=True)
            assert [row for row in again if not str(row["change"]).startswith("left out")] in (
                [],
                [{"what": "vhost", "name": "v", "change": "changed"}],
            )
    restarted = Bench(bench)
    assert json.loads(restarted.node.broker.definitions.encode()) == json.loads(
        bench.node.broker.definitions.encode()
    )
