"""Definitions: the document that is imported and exported, and what the journal keeps of them.

An input that begins with a brace is the document itself. Any other one is a row of decisions
(`choices.py`) that make a document out of a few names and values, right and wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from sluicemq.broker.definitions_import import Plan, Planner, change_of, differences, left_out
from sluicemq.config import Config
from sluicemq.errors import Corrupt
from sluicemq.manage.exporting import fill
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.document import DefinitionsRefused, parse_definitions
from targets.choices import Choices
from targets.session import SMALL_FILES
from targets.target import Target
from unit.chain.client import Broker

NAMES: Final = (
    "a", "b", "", "amq.topic", "guest", "/", "none", "x" * 256, "\ud800", "amq.delayed.a",
)  # fmt: skip
VALUES: Final[tuple[object, ...]] = (
    True, False, None, 0, 1, -1, 2**70, 1.5, "a", "", "all", "queues", "exchanges", "queue",
    "exchange", "topic", "x-delayed-message", "stream", "^(a+)+$", "[", ".*", [], ["a"], {},
    {"x-delayed-type": "topic"}, {"max-length": 5}, {"alternate-exchange": "a"}, {"x": [{"y": 1}]},
    {"max-queues": 1}, {"ha-mode": "all"}, {"x-queue-type": "stream"}, {"message-ttl": 10},
    "rabbit_password_hashing_sha256", "AAAAAA==",
)  # fmt: skip
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "users": ("name", "password_hash", "hashing_algorithm", "tags", "limits", "password"),
    "vhosts": ("name", "description", "tags", "metadata", "limits", "default_queue_type"),
    "permissions": ("user", "vhost", "configure", "write", "read"),
    "topic_permissions": ("user", "vhost", "exchange", "write", "read"),
    "parameters": ("vhost", "component", "name", "value"),
    "global_parameters": ("name", "value"),
    "policies": ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "exchanges": ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("name", "vhost", "durable", "auto_delete", "arguments", "type"),
    "bindings": (
        "source", "vhost", "destination", "destination_type", "routing_key", "arguments",
    ),
}  # fmt: skip
RIGHT: Final[dict[str, object]] = {
    "name": "a", "vhost": "/", "user": "guest", "exchange": "amq.topic", "tags": [],
    "durable": True, "auto_delete": False, "internal": False, "arguments": {}, "type": "topic",
    "pattern": ".*", "apply-to": "all", "definition": {"max-length": 5}, "priority": 0,
    "configure": ".*",
    "write": ".*", "read": ".*", "component": "c", "value": {}, "source": "a", "destination": "a",
    "destination_type": "queue", "routing_key": "k", "password_hash": "", "limits": {},
    "metadata": {}, "description": "", "default_queue_type": None, "password": "secret",
    "hashing_algorithm": "rabbit_password_hashing_sha256",
}  # fmt: skip


def document_for(data: bytes) -> bytes:
    """The document that the input stands for."""
    if data[:1] == b"{":
        return data
    choices = Choices(data)
    document: dict[str, Any] = {}
    while choices:
        section = choices.pick([*KEYS])
        fields = {name: RIGHT[name] for name in KEYS[section]}
        for _ in range(choices.below(4)):
            name = choices.pick(KEYS[section])
            fields[name] = choices.pick(VALUES if choices.flag() else NAMES)
        if section == "queues" and fields["type"] == "topic":
            fields["type"] = "classic"
        if choices.flag():
            del fields[choices.pick([*fields])]
        document.setdefault(section, []).append(choices.pick((fields, fields, fields, fields, 5)))
    return json.dumps(document).encode()


def new_broker() -> Broker:
    return Broker(Config(storage=SMALL_FILES))


@cache
def broker_to_look_at() -> Broker:
    """One that nothing is ever imported into."""
    return new_broker()


def decode(data: bytes) -> Plan | None:
    """What an import would do; None: refused."""
    try:
        wanted = parse_definitions(document_for(data))
        return Planner(broker_to_look_at().node.broker, wanted).run()
    except DefinitionsRefused as refused:
        assert refused.errors
        return None


def check(data: bytes) -> None:
    """Nothing but a refusal; what is not refused is carried out whole, and exported as it was; a
    second import of either document changes nothing."""
    plan = decode(data)
    if plan is None:
        return
    [*differences(broker_to_look_at().node.broker, plan), *left_out(plan)]
    one = imported(document_for(data))
    exported = exported_from(one)
    again = parse_definitions(json.dumps(exported))
    assert is_empty(Planner(one.node.broker, again).run()), "an export is not what there is"
    other = imported(json.dumps(exported).encode())
    assert exported_from(other) == exported, "an import is not what was exported"
    check_journal(one)


def imported(document: bytes) -> Broker:
    """A new broker with that document in it."""
    broker = new_broker()
    plan = Planner(broker.node.broker, parse_definitions(document)).run()
    node = broker.node.broker
    node.agreement.propose(change_of(plan, node.world.dice))
    broker.run()
    return broker


def exported_from(broker: Broker) -> dict[str, Any]:
    """All definitions of that broker."""
    document: dict[str, Any] = {}
    list(fill(document, broker.node.broker, None))
    return document


def is_empty(plan: Plan) -> bool:
    """Nothing would change."""
    there = (plan.exchanges, plan.queues, plan.bindings, [*plan.records])
    return not any(there)


def check_journal(broker: Broker) -> None:
    """What goes to the checkpoint comes back from there."""
    kept = broker.node.broker.definitions.encode()
    assert json.loads(DurableTables(kept).encode()) == json.loads(kept)


def decode_durable(data: bytes) -> DurableTables | None:
    """All of them, or one change to none; None: damaged."""
    try:
        return DurableTables(data)
    except Corrupt:
        pass
    definitions = DurableTables()
    try:
        definitions.apply(data)
    except Corrupt:
        return None
    return definitions


def check_durable(data: bytes) -> None:
    """Nothing but `Corrupt`; what was read is written and read again."""
    definitions = decode_durable(data)
    if definitions is not None and data:
        kept = definitions.encode()
        assert DurableTables(kept).encode() == kept


def seeds() -> Iterator[bytes]:
    """What a new broker exports; everything right; each section alone; what is no JSON."""
    document = exported_from(broker_to_look_at())
    yield json.dumps(document).encode()
    right = {section: [{name: RIGHT[name] for name in KEYS[section]}] for section in KEYS}
    right["queues"][0]["type"] = "classic"
    yield json.dumps(right).encode()
    for section in range(len(KEYS)):
        yield bytes([section, 0, 0, 0, section, 1, 2, 1, 9, 0])
    yield b'{"queues": 5, "users": [5], "vhosts": [{}]}'
    yield b'{"users": ' + b"[" * 3000
    yield b'{"vhosts": [{"name": ' + b"9" * 5000 + b"}]}"
    yield b'{"vhosts": [{"name": "\\ud800"}]}'
    yield b"{\xff}"


def durable_seeds() -> Iterator[bytes]:
    """A checkpoint of everything, and single changes."""
    kept = imported(json.dumps({"exchanges": [], "queues": []}).encode())
    yield kept.node.broker.definitions.encode()
    yield b'{"exchange_deleted": ["/", "x"]}'
    yield (
        b'{"exchange": {"name": "x", "type": "topic", "auto_delete": false, "internal": false,'
        b' "arguments": "AAAAAA==", "vhost": "/"}}'
    )
    yield b'{"queue": {"id": 1e999, "name": "q", "auto_delete": false, "arguments": "AAAAAA=="}}'
    yield b'{"queue": {"id": 1, "name": ["q"], "auto_delete": false, "arguments": "AAAAAA=="}}'
    yield b'{"queue": {"id": 1, "name": "q", "auto_delete": false, "arguments": "AAAAAWE="}}'
    yield b'{"binding": ' + b"[" * 3000
    yield b'{"user": {"name": ' + b"9" * 5000 + b"}}"


DEFINITIONS = Target("definitions", check, decode, seeds, base_bytes=1_500_000, factor=1500)
DURABLE = Target(
    "durable", check_durable, decode_durable, durable_seeds, base_bytes=300_000, factor=1500
)
