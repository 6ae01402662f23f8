"""Goal: what is declared durable is found again exactly, arguments with their types; the changes in
the journal and the whole in a checkpoint say the same. Method: random declarations beside a twin
that hears of the changes only; tables as clients encode them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.types import TABLE_DEPTH_MAX, decode_table
from sluicemq.errors import Corrupt
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from sluicemq.model.durable import DurableDefinitions, packed, unpacked
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.record import Record
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition
from unit.amqp.strategies import raw_texts, tables

names = st.sampled_from("abc")
Step = Callable[[DurableDefinitions], bytes]

exchanges = st.builds(
    ExchangeDefinition, names, raw_texts, st.just(value=True), st.booleans(), st.booleans(), tables
)
queues = st.builds(
    QueueDefinition, names, st.just(value=True), st.just(value=False), st.booleans(), tables
)
bindings = st.builds(
    BindingDefinition, names, names, st.sampled_from(["queue", "exchange"]), raw_texts, tables
)
texts = st.text(max_size=5)
limits = st.dictionaries(st.sampled_from(["max-connections", "max-queues"]), st.integers(-1, 3))
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(VhostDefinition, names, texts, st.lists(texts).map(tuple), st.none() | texts, limits),
    st.builds(User, names, texts, texts, st.lists(texts).map(tuple), limits),
    st.builds(Permission, names, names, texts, texts, texts),
    st.builds(TopicPermission, names, names, names, texts, texts),
)
steps: st.SearchStrategy[Step] = st.one_of(
    records.map(lambda each: lambda all_: all_.put(each)),
    records.map(lambda each: lambda all_: all_.drop(each.KIND, each.key)),
    exchanges.map(lambda each: lambda all_: all_.add_exchange(each)),
    names.map(lambda each: lambda all_: all_.delete_exchange("/", each)),
    st.tuples(st.integers(1, 4), queues).map(lambda each: lambda all_: all_.add_queue(*each)),
    bindings.map(lambda each: lambda all_: all_.add_binding(each)),
    bindings.map(lambda each: lambda all_: all_.delete_binding(each)),
)


def contents(definitions: DurableDefinitions) -> tuple[object, ...]:
    """repr tells 1 from True and 1.0."""
    parts = (
        definitions.exchanges,
        definitions.queues,
        definitions.bindings,
        *definitions.records.values(),
    )
    return tuple(repr(sorted(each.items())) for each in parts)


@given(st.lists(steps, max_size=12), st.lists(st.integers(1, 4), max_size=2))
def test_journal_and_checkpoint_say_the_same(changes: list[Step], deleted: list[int]) -> None:
    there, twin = DurableDefinitions(), DurableDefinitions()
    for number, step in enumerate(changes):
        twin.apply(step(there))
        if number % 5 == 4 and deleted:
            queue_id = deleted.pop()
            there.delete_queue(queue_id)
            twin.delete_queue(queue_id)
        assert contents(twin) == contents(there)
        assert contents(DurableDefinitions(there.encode())) == contents(there)


def test_with_a_vhost_all_goes_that_is_in_it_and_with_a_user_what_it_may_do() -> None:
    """Queues are deleted one by one before."""
    there = DurableDefinitions()
    for vhost in "ab":
        there.put(VhostDefinition(vhost), User(vhost))
        for user in "ab":
            there.put(Permission(user, vhost, "", "", ""))
            there.put(TopicPermission(user, vhost, "x", "", ""))
        there.add_exchange(ExchangeDefinition("x", durable=True, vhost=vhost))
        there.add_binding(BindingDefinition("x", "y", "exchange", vhost=vhost))
    twin = DurableDefinitions(there.encode())
    twin.apply(there.drop("vhost", "a"))
    twin.apply(there.drop("user", "b"))
    assert contents(twin) == contents(there)
    assert [*there.permissions] == [("a", "b")]
    assert [*there.topic_permissions] == [("a", "b", "x")]
    assert [*there.exchanges] == [("b", "x")]
    assert [each.vhost for each in there.bindings.values()] == ["b"]
    assert ([*there.vhosts], [*there.users]) == (["b"], ["a"])


def test_several_records_are_one_change() -> None:
    """The first user has a virtual host and permissions, or is not there."""
    there, twin = DurableDefinitions(), DurableDefinitions()
    twin.apply(there.put(VhostDefinition("v"), User("u"), Permission("u", "v", "", "", "")))
    assert contents(twin) == contents(there)


@given(tables)
def test_arguments_come_back_as_they_are(arguments: dict[str, object]) -> None:
    assert repr(unpacked(packed(arguments))) == repr(arguments)


INTEGERS = dict(zip(b"bBsuIilL", (1, 1, 2, 2, 4, 4, 8, 8), strict=True))
"""Type and size in bytes."""
LONG_TEXT = b"S" + struct.pack(">I", 3) + b"\xff\xfe\x00"


def nested(depth: int) -> bytes:
    """Tables in tables."""
    value = b"V"
    for _ in range(depth):
        inside = b"\x01k" + value
        value = b"F" + struct.pack(">I", len(inside)) + inside
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(b"t\x00", b"t\x01", b"V", LONG_TEXT, b"x\x00\x00\x00\x01\xff"),
        *(bytes((tag,)) + b"\xff" * size for tag, size in INTEGERS.items()),
        *(bytes((tag,)) + b"\x80" + bytes(size - 1) for tag, size in INTEGERS.items()),
        *(b"f\x7f\x80\x00\x00", b"d\x7f\xf0" + bytes(6), b"f\x00\x00\x00\x01"),
        *(b"T" + b"\xff" * 8, b"D\xff\xff\xff\xff\xff", b"D\x00\x00\x00\x00\x00"),
        b"A\x00\x00\x00\x04VVVV",
        nested(TABLE_DEPTH_MAX),
    ],
    ids=lambda value: value[:12].hex(),
)
def test_whatever_a_client_may_send_can_be_kept(value: bytes) -> None:
    """Of each type the extremes: what was accepted must not fail on its way to the disk."""
    inside = b"\x03k\xff\x01" + value
    table, _ = decode_table(struct.pack(">I", len(inside)) + inside)
    definitions = DurableDefinitions()
    definitions.add_queue(1, QueueDefinition("q", True, False, False, table))
    again = DurableDefinitions(definitions.encode())
    assert repr(again.queues[1]) == repr(definitions.queues[1])


def test_queue_takes_its_bindings_along() -> None:
    definitions = DurableDefinitions()
    definitions.add_exchange(ExchangeDefinition("x", durable=True))
    definitions.add_queue(1, QueueDefinition("q", True))
    definitions.add_binding(BindingDefinition("x", "q", "queue", "k", {}))
    definitions.add_binding(BindingDefinition("x", "q", "exchange", "k", {}))
    definitions.delete_queue(1)
    assert [binding.destination_type for binding in definitions.bindings.values()] == ["exchange"]
    definitions.delete_exchange("/", "x")
    assert contents(definitions) == contents(DurableDefinitions())


def test_encoding_is_kept_until_something_changes() -> None:
    definitions = DurableDefinitions()
    first = definitions.encode()
    assert definitions.encode() is first
    definitions.add_queue(1, QueueDefinition("q", True))
    assert definitions.encode() != first
    before = deepcopy(definitions.encode())
    definitions.delete_queue(7)
    assert definitions.encode() == before


def test_pieces_are_of_one_moment() -> None:
    definitions = DurableDefinitions()
    for number in range(100):
        definitions.add_queue(number, QueueDefinition(f"q{number}", True))
        definitions.add_exchange(ExchangeDefinition(f"x{number}", "topic", True, False, False, {}))
    expected = definitions.encode()
    definitions.delete_queue(7)
    definitions.add_queue(7, QueueDefinition("q7", True))
    now = definitions.pieces()
    pieces = [next(now)]
    definitions.delete_queue(99)
    pieces += now
    assert len(pieces) > 10
    assert max(piece.count(b"vhost") for piece in pieces) < 50
    assert contents(DurableDefinitions(b"".join(pieces))) == contents(DurableDefinitions(expected))
    assert definitions.encode() != b"".join(pieces), "what was not of the moment is not kept"


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"[]",
        b"{",
        b'{"what": 1}',
        b'{"queue": {"id": 1}}',
        b'{"queue": 7}',
        b'{"exchange": {"name": "x", "type": "direct", "arguments": "?"}}',
    ],
)
def test_what_makes_no_sense_is_corrupt(change: bytes) -> None:
    with pytest.raises(Corrupt):
        DurableDefinitions().apply(change)


@pytest.mark.parametrize("encoded", [b"x", b"{}", b"[]", b'{"exchanges": 1}'])
def test_checkpoint_that_makes_no_sense_is_corrupt(encoded: bytes) -> None:
    with pytest.raises(Corrupt):
        DurableDefinitions(encoded)
