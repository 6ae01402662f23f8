"""The headers exchange: x-match, what counts as equal, and against a naive model."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Table, Timestamp
from sluicemq.errors import ChannelViolation
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition, Identity
from sluicemq.routing.headers import HeadersExchange, comparable
from sluicemq.routing.message import Message

from .searching import result

KINDS = ["all", "any", "all-with-x", "any-with-x", None]


def binding(queue: str, arguments: Table, kind: str | None = None) -> BindingDefinition:
    asked = arguments if kind is None else {"x-match": kind, **arguments}
    return BindingDefinition("h", queue, arguments=asked)


def headers() -> HeadersExchange:
    return HeadersExchange(ExchangeDefinition("h", "headers"))


def message(table: Table | None) -> Message:
    return Message(("",), BasicProperties(headers=table).encode())


def matched(exchange: HeadersExchange, table: Table | None) -> list[str]:
    found = exchange.find(message(table))
    assert result(exchange.search(message(table))) == found
    return [destination.name for destination in found]


def does_match(kind: str | None, arguments: Table, table: Table | None) -> bool:
    exchange = headers()
    exchange.add(binding("q", arguments, kind))
    return matched(exchange, table) == ["q"]


# (arguments, headers, which of KINDS match), as RabbitMQ 3.10 answers
RULES: list[tuple[Table, Table | None, str]] = [
    ({}, {}, "10101"),
    ({}, None, "10101"),
    ({}, {"a": 1}, "10101"),
    ({"x-a": 1}, {}, "10001"),
    ({"x-a": 1}, {"x-a": 1}, "10111"),
    ({"x-a": 1}, {"x-a": 2}, "10001"),
    ({"x-a": 1, "b": 1}, {"x-a": 2, "b": 1}, "11011"),
    ({"a": 1, "b": 2}, {"a": 1}, "01010"),
    ({"a": 1, "b": 2}, {"b": 2, "z": 1}, "01010"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1, "z": 1}, "11111"),
    ({"a": None}, {"a": 7}, "11111"),
    ({"a": None}, {"a": None}, "11111"),
    ({"a": None}, {"b": 7}, "00000"),
    ({"a": 7}, {"a": None}, "00000"),
    ({"x-match2": 1}, {"x-match2": 1}, "10111"),
]


@pytest.mark.parametrize(("arguments", "table", "expected"), RULES)
def test_which_bindings_match(arguments: Table, table: Table | None, expected: str) -> None:
    assert "".join(str(int(does_match(kind, arguments, table))) for kind in KINDS) == expected


EQUAL: list[list[FieldValue]] = [
    [5, 5.0, Timestamp(5)],
    [0, 0.0, -0.0],
    [2**40],
    [1],
    [True],
    [False],
    ["5", b"5"],
    ["true"],
    [""],
    [Decimal("0.5")],
    [Decimal("5.0")],
    [[5]],
    [["5"]],
    [{"a": 5}],
    [{"a": True}],
]


def test_values_are_equal_across_types_only_where_rabbitmq_thinks_so() -> None:
    for n, one_class in enumerate(EQUAL):
        for m, other_class in enumerate(EQUAL):
            for one in one_class:
                for other in other_class:
                    assert does_match("all", {"k": one}, {"k": other}) is (n == m), (one, other)


VALUES = st.sampled_from([None, 1, 2, True, "1", b"1", 1.0])
TABLES = st.dictionaries(st.sampled_from(["a", "b", "x-a", "x-b", "c"]), VALUES, max_size=4)
BINDINGS = st.tuples(st.sampled_from(["q1", "q2", "q3"]), TABLES, st.sampled_from(KINDS))


def naive(arguments: Table, kind: str | None, table: Table) -> bool:
    """Each pair by itself."""
    asked = {
        name: value
        for name, value in arguments.items()
        if kind in ("all-with-x", "any-with-x") or not name.startswith("x-")
    }
    fits = [
        name in table and (value is None or comparable(value) == comparable(table[name]))
        for name, value in asked.items()
    ]
    return any(fits) if kind in ("any", "any-with-x") else all(fits)


@given(st.lists(BINDINGS, max_size=8), st.lists(TABLES, min_size=1, max_size=4), st.data())
def test_matches_like_the_naive_model_and_forgets_what_is_unbound(
    bindings: list[tuple[str, Table, str | None]], tables: list[Table], data: st.DataObject
) -> None:
    exchange = headers()
    left: dict[Identity, tuple[BindingDefinition, str, Table, str | None]] = {}
    for queue, arguments, kind in bindings:
        each = binding(queue, arguments, kind)
        exchange.add(each)
        left.setdefault(each.identity, (each, queue, arguments, kind))
    while True:
        for table in tables:
            fitting = [q for _, q, asked, kind in left.values() if naive(asked, kind, table)]
            assert matched(exchange, table) == list(dict.fromkeys(fitting))
        if not left:
            break
        identity = data.draw(st.sampled_from(list(left)))
        assert exchange.remove(left.pop(identity)[0])
    assert exchange.files == {}
    assert exchange.undemanding == {}


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        ("a\x01", "value <<97,1>>; expected all, any, all-with-x, or any-with-x"),
        ("Grüß", "value <<71,114,195,188,195,159>>; expected all, any, all-with-x, or any-with-x"),
        (5, "type signedint (value 5); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        ([1], "type array (value [{signedint,1}]); expected longstr"),
        ({"a": "b"}, 'type table (value [{<<"a">>,longstr,<<"b">>}]); expected longstr'),
        (b"xx", 'type binary (value <<"xx">>); expected longstr'),
        (Timestamp(9), "type timestamp (value 9); expected longstr"),
        (Decimal("0.5"), "type decimal (value {1,5}); expected longstr"),
    ],
)
def test_x_match_is_one_of_four_words(value: FieldValue, flaw: str) -> None:
    with pytest.raises(ChannelViolation) as caught:
        headers().check_binding(binding("q", {"x-match": value}))
    assert caught.value.reply_text == f"PRECONDITION_FAILED - Invalid x-match field {flaw}"


def test_the_answer_depends_on_the_content() -> None:
    asked = message({"a": 1})
    headers().find(asked)
    assert asked.read_content
    assert not asked.by_chance


def test_what_all_bindings_share_does_not_make_them_slow() -> None:
    """10,000 bindings with the same type and another id each: one is compared, or a few."""
    exchange = headers()
    for number in range(10_000):
        exchange.add(binding(f"q{number}", {"type": "order", "id": number}))
    assert max(map(len, exchange.files.values())) == 1
    assert matched(exchange, {"type": "order", "id": 777, "more": True}) == ["q777"]
