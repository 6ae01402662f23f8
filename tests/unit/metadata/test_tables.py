"""Goal: what is declared durable is found again exactly, arguments with their types; the changes in
the journal and the whole in a checkpoint say the same. Method: random declarations beside a twin
that hears of the changes only; tables as clients encode them.
"""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.types import TABLE_DEPTH_MAX, decode_table
from sluicemq.errors import Corrupt
from sluicemq.metadata.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteRecord,
    Together,
    Unbind,
    UpsertRecord,
)
from sluicemq.metadata.codec import encode, packed, unpacked
from sluicemq.metadata.restoring import restored
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.record import DefinitionRecord
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition
from unit.amqp.strategies import raw_texts, tables

names = st.sampled_from("abc")

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
records: st.SearchStrategy[DefinitionRecord] = st.one_of(
    st.builds(VhostDefinition, names, texts, st.lists(texts).map(tuple), st.none() | texts, limits),
    st.builds(User, names, texts, texts, st.lists(texts).map(tuple), limits),
    st.builds(Permission, names, names, texts, texts, texts),
    st.builds(TopicPermission, names, names, names, texts, texts),
)
changes: st.SearchStrategy[Change] = st.one_of(
    records.map(UpsertRecord),
    records.map(lambda each: DeleteRecord(each.KIND, each.key)),
    exchanges.map(DeclareExchange),
    names.map(lambda each: DeleteExchange("/", each)),
    st.builds(DeclareQueue, queues, queue_id=st.integers(1, 4), home=st.integers(0, 2)),
    bindings.map(Bind),
    bindings.map(Unbind),
)


def contents(definitions: DurableTables) -> tuple[object, ...]:
    """repr tells 1 from True and 1.0."""
    parts = (
        definitions.exchanges,
        definitions.queues,
        definitions.bindings,
        *definitions.records.values(),
    )
    return tuple(repr(sorted(each.items())) for each in parts)


@given(st.lists(changes, max_size=12), st.lists(st.integers(1, 4), max_size=2))
def test_journal_and_checkpoint_say_the_same(some: list[Change], deleted: list[int]) -> None:
    there, twin = DurableTables(), DurableTables()
    for number, change in enumerate(some):
        there.take(change)
        twin.apply(encode(change))
        if number % 5 == 4 and deleted:
            queue_id = deleted.pop()
            there.delete_queue(queue_id)
            twin.delete_queue(queue_id)
        assert contents(twin) == contents(there)
        assert contents(DurableTables(there.encode())) == contents(there)
    together = DurableTables()
    together.apply(encode(Together(tuple(some))))
    if not deleted and len(some) < 5:
        assert contents(together) == contents(there)


def of(*some: Change) -> DurableTables:
    tables = DurableTables()
    for change in some:
        tables.take(change)
    return tables


def test_with_a_vhost_all_goes_that_is_in_it_and_with_a_user_what_it_may_do() -> None:
    """Queues are deleted one by one before."""
    there = DurableTables()
    for vhost in "ab":
        there.take(UpsertRecord(VhostDefinition(vhost)))
        there.take(UpsertRecord(User(vhost)))
        for user in "ab":
            there.take(UpsertRecord(Permission(user, vhost, "", "", "")))
            there.take(UpsertRecord(TopicPermission(user, vhost, "x", "", "")))
        there.take(DeclareExchange(ExchangeDefinition("x", durable=True, vhost=vhost)))
        there.take(Bind(BindingDefinition("x", "y", "exchange", vhost=vhost)))
    for change in (DeleteRecord("vhost", "a"), DeleteRecord("user", "b")):
        there.take(change)
    assert [*there.permissions] == [("a", "b")]
    assert [*there.topic_permissions] == [("a", "b", "x")]
    assert [*there.exchanges] == [("b", "x")]
    assert [each.vhost for each in there.bindings.values()] == ["b"]
    assert ([*there.vhosts], [*there.users]) == (["b"], ["a"])


def test_what_belongs_to_a_vhost_goes_though_the_vhost_has_gone_before() -> None:
    """A checkpoint may know that already, and the journal over it say all of it once more."""
    permission = UpsertRecord(Permission("u", "v", "", "", ""))
    assert of(permission, DeleteRecord("vhost", "v")).permissions == {}


def test_older_versions_have_written_several_records_into_one_object() -> None:
    """The first user has a virtual host and permissions, or is not there."""
    there = DurableTables()
    records = (VhostDefinition("v"), User("u"), Permission("u", "v", "", "", ""))
    there.apply(json.dumps({each.KIND: each.as_json() for each in records}).encode())
    assert contents(there) == contents(of(*map(UpsertRecord, records)))


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
    definitions = of(DeclareQueue(QueueDefinition("q", True, False, False, table), queue_id=1))
    again = DurableTables(definitions.encode())
    assert repr(again.queues[1]) == repr(definitions.queues[1])


def test_home_and_members_of_a_queue_are_kept_and_go_with_it() -> None:
    """A queue that was written without one is of a node that is alone."""
    definitions = of(
        UpsertRecord(VhostDefinition("/")),
        DeclareQueue(QueueDefinition("q", True), queue_id=1, home=3, members=(3, 1)),
        DeclareQueue(QueueDefinition("r", True), queue_id=2),
    )
    again = DurableTables(definitions.encode())
    assert again.homes == definitions.homes == {1: 3}
    [q, r] = restored(again, 3).hosts["/"].queues.values()
    assert (q.home, q.members) == (3, (3, 1))
    assert (r.home, r.members) == (0, ())
    again.delete_queue(1)
    assert again.homes == again.members == {}


def test_queue_takes_its_bindings_along() -> None:
    definitions = of(
        DeclareExchange(ExchangeDefinition("x", durable=True)),
        DeclareQueue(QueueDefinition("q", True), queue_id=1),
        Bind(BindingDefinition("x", "q", "queue", "k", {})),
        Bind(BindingDefinition("x", "q", "exchange", "k", {})),
    )
    definitions.delete_queue(1)
    assert [binding.destination_type for binding in definitions.bindings.values()] == ["exchange"]
    definitions.take(DeleteExchange("/", "x"))
    assert contents(definitions) == contents(DurableTables())


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
        DurableTables().apply(change)


@pytest.mark.parametrize("encoded", [b"x", b"{}", b"[]", b'{"exchanges": 1}'])
def test_checkpoint_that_makes_no_sense_is_corrupt(encoded: bytes) -> None:
    with pytest.raises(Corrupt):
        DurableTables(encoded)


def test_queues_in_stream_files_are_those_of_a_type_that_has_such_files() -> None:
    tables = DurableTables()
    for queue_id, kind in enumerate(["classic", "stream", "of another version"], 1):
        tables.queues[queue_id] = QueueDefinition(kind, True, arguments={"x-queue-type": kind})
    assert [queue.name for queue in tables.in_stream_files().values()] == ["stream"]
    assert [*tables.in_stream_files()] == [2]
