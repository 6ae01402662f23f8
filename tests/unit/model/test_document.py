"""Goal: RabbitMQ's definitions are understood, and a wrong document is told in full.

Method: documents as RabbitMQ 3.10 writes them, wrong ones, and random ones.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.model.definitions import ExchangeDefinition, QueueDefinition
from sluicemq.model.document import Definitions, DefinitionsRefused, parse_definitions
from sluicemq.model.permissions import Permission
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

HASH = "whjmJd7nTmWPFoItzF5MGLkdGAREn0iOs1fFSQB/vKEByUfX"


def parsed(**sections: object) -> Definitions:
    return parse_definitions(json.dumps(sections))


def refused(**sections: object) -> list[str]:
    with pytest.raises(DefinitionsRefused) as told:
        parsed(**sections)
    assert str(told.value) == "\n".join(told.value.errors)
    return told.value.errors


WRITTEN: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "u",
            "password_hash": HASH,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management"],
            "limits": {"max-connections": 3},
        }
    ],
    "vhosts": [
        {
            "name": "v",
            "limits": [["max-connections", 7]],
            "metadata": {"description": "d", "tags": ["a"], "default_queue_type": "stream"},
        }
    ],
    "permissions": [{"user": "u", "vhost": "v", "configure": "", "write": ".*", "read": "^a"}],
    "parameters": [
        {
            "component": "operator_policy",
            "name": "o",
            "vhost": "v",
            "value": {
                "apply-to": "all",
                "definition": [["max-length", 10], ["expires", 5]],
                "pattern": "^p",
                "priority": 1,
            },
        },
        {
            "component": "vhost-limits",
            "name": "limits",
            "vhost": "v",
            "value": {"max-queues": 2},
        },
    ],
    "policies": [
        {
            "vhost": "v",
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 5},
            "priority": 2,
        }
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "v",
            "type": "stream",
            "durable": True,
            "auto_delete": False,
            "arguments": {},
        }
    ],
    "exchanges": [
        {"name": "x", "vhost": "v", "type": "topic", "durable": True, "auto_delete": False}
    ],
    "bindings": [],
    "something_new": [{"name": 5}],
}


def test_what_rabbitmq_writes_is_understood() -> None:
    found = parsed(**WRITTEN)
    limits = {"max-connections": 7, "max-queues": 2}
    assert found.vhosts == [VhostDefinition("v", "d", ("a",), "stream", limits)]
    assert found.users == [User("u", HASH, tags=("management",), limits={"max-connections": 3})]
    assert found.permissions == [Permission("u", "v", "", ".*", "^a")]
    assert found.operator_policies == [
        OperatorPolicy("v", "o", "^p", "all", {"max-length": 10, "expires": 5}, 1)
    ]
    assert found.policies == [Policy("v", "p", "^q", "queues", {"max-length": 5}, 2)]
    arguments = {"x-queue-type": "stream"}
    assert found.queues == [QueueDefinition("q", True, arguments=arguments, vhost="v")]
    assert found.exchanges == [ExchangeDefinition("x", "topic", True, vhost="v")]


def test_older_files_have_passwords_and_tags_in_one_text() -> None:
    found = parsed(users=[{"name": "u", "password": "secret", "tags": "management, policymaker"}])
    assert found.passwords == {"u": "secret"}
    assert found.users == [User("u", tags=("management", "policymaker"))]


def test_the_document_of_one_virtual_host_goes_where_it_is_told() -> None:
    queue = {"name": "q", "durable": True, "auto_delete": False, "arguments": {}}
    text = json.dumps({"queues": [queue], "users": [{"name": 5}]})
    found = parse_definitions(text, "other")
    assert found.queues == [QueueDefinition("q", True, vhost="other")]
    assert found.users == []


def test_all_errors_are_told_with_their_places() -> None:
    assert refused(
        users=[{"name": "u"}, 5],
        vhosts={"name": "v"},
        permissions=[{"user": "u", "vhost": "v", "configure": "(", "write": "", "read": ""}],
        queues=[
            {"name": "q", "vhost": "v", "durable": "yes", "auto_delete": False},
            {"name": "a" * 256, "vhost": "v", "durable": True, "auto_delete": False},
            {"vhost": "v", "durable": True, "auto_delete": False, "arguments": {"a" * 256: 1}},
        ],
        policies=[{"vhost": "v", "name": "p", "pattern": "", "definition": {"max-length": -1}}],
    ) == [
        "vhosts: must be a list",
        "users[0] ('u'): tags is missing",
        "users[1]: must be an object",
        "permissions[0]: regular expression '(' is invalid: missing ) at position 1",
        "policies[0] ('p'): -1 is not a valid maximum length",
        "queues[0] ('q'): durable must be true or false",
        f"queues[1] ('{'a' * 79}): name is longer than 255 bytes",
        "queues[2]: arguments are no table of AMQP: a short string of 256 bytes, at most 255 "
        "are possible",
        "queues[2]: name is missing",
    ]


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "{", '{"queues": NaN}', '{"a": "\\ud800"}', "[" * 100_000, b"\xff"]
)
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        parse_definitions(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = """name vhost user exchange configure write read component value pattern definition
apply-to priority durable auto_delete internal arguments type source destination destination_type
routing_key tags password password_hash limits metadata"""
OBJECTS = st.dictionaries(
    st.sampled_from(FIELDS.split()),
    JSON | st.sampled_from(("queue", "all", "/", "operator_policy", "vhost-limits", True, "a")),
)
SECTIONS = """users vhosts permissions topic_permissions parameters global_parameters policies
queues exchanges bindings other"""


@given(st.dictionaries(st.sampled_from(SECTIONS.split()), JSON | st.lists(OBJECTS, max_size=3)))
def test_any_json_is_understood_or_refused(document: dict[str, Any]) -> None:
    try:
        found = parse_definitions(json.dumps(document))
    except DefinitionsRefused as told:
        assert told.errors
    else:
        assert len(found.queues) == len(document.get("queues", ()))


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_but_for_an_object(data: bytes) -> None:
    try:
        parse_definitions(data)
    except DefinitionsRefused as told:
        assert told.errors


def test_newer_files_say_undefined_and_names_are_not_empty() -> None:
    found = parsed(vhosts=[{"name": "v", "metadata": {"default_queue_type": "undefined"}}])
    assert found.vhosts == [VhostDefinition("v")]
    assert refused(
        vhosts=[{"name": "v", "default_queue_type": "mqtt"}, {"name": ""}],
        users=[{"name": "", "tags": []}],
        queues=[{"name": "", "vhost": "v", "durable": True, "auto_delete": False}],
    ) == [
        "vhosts[0] ('v'): there is no queue type mqtt: classic, quorum, stream",
        "vhosts[1] (''): name is empty",
        "users[0] (''): name is empty",
        "queues[0] (''): name is empty",
    ]
