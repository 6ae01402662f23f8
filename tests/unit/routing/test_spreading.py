"""The exchanges that pick one destination: shares, stability, and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Table
from sluicemq.errors import ChannelViolation
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition
from sluicemq.routing.exchange import Exchange
from sluicemq.routing.hashing import jump, stable_hash
from sluicemq.routing.message import Message
from sluicemq.routing.spreading import (
    ConsistentHashExchange,
    ModulusHashExchange,
    RandomExchange,
)

KEYS = [f"key {number}" for number in range(4000)]


def binding(queue: str, key: str) -> BindingDefinition:
    return BindingDefinition("x", queue, routing_key=key)


def consistent(arguments: Table | None = None, **weights: int) -> ConsistentHashExchange:
    exchange = ConsistentHashExchange(
        ExchangeDefinition("x", "x-consistent-hash", arguments=arguments or {})
    )
    for queue, weight in weights.items():
        exchange.add(binding(queue, str(weight)))
    return exchange


def where(exchange: Exchange, key: str, properties: BasicProperties | None = None) -> str:
    raw = (properties or BasicProperties()).encode()
    (found,) = exchange.find(Message((key,), raw))
    return found.name


def shares(exchange: Exchange) -> Counter[str]:
    return Counter(where(exchange, key) for key in KEYS)


def test_hashes_are_the_same_everywhere() -> None:
    assert stable_hash("key") == 14878992315609337077
    assert [jump(stable_hash(str(n)), 10) for n in range(8)] == [2, 3, 9, 2, 3, 0, 5, 1]


@given(st.integers(0, 2**64 - 1), st.integers(1, 500))
def test_jump_moves_a_key_to_the_new_bucket_or_not_at_all(key: int, buckets: int) -> None:
    before, after = jump(key, buckets), jump(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_weights_are_shares() -> None:
    found = shares(consistent(a=1, b=2, c=5))
    for queue, weight in (("a", 1), ("b", 2), ("c", 5)):
        assert abs(found[queue] - 4000 * weight / 8) < 150


def test_huge_weights_cost_nothing() -> None:
    found = shares(consistent(a=10**200, b=10**200))
    assert abs(found["a"] - 2000) < 200


def test_a_new_queue_takes_its_share_and_leaves_the_rest_where_it_was() -> None:
    exchange = consistent(a=1, b=1, c=1)
    before = {key: where(exchange, key) for key in KEYS}
    exchange.add(binding("d", "1"))
    after = {key: where(exchange, key) for key in KEYS}
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {"d"}
    assert abs(len(moved) - 1000) < 150
    exchange.remove(binding("d", "1"))
    assert {key: where(exchange, key) for key in KEYS} == before


def test_a_queue_has_the_weight_of_its_first_binding() -> None:
    exchange = consistent(a=1, b=1)
    exchange.add(binding("a", "9"))
    assert abs(shares(exchange)["a"] - 2000) < 200
    exchange.remove(binding("a", "1"))
    assert abs(shares(exchange)["a"] - 3600) < 200
    exchange.remove(binding("a", "9"))
    assert shares(exchange) == {"b": 4000}


def test_keys_decide_unless_something_else_is_named() -> None:
    many = {f"q{number}": 1 for number in range(20)}
    plain = consistent(None, **many)
    assert len({where(plain, key, BasicProperties(message_id="1")) for key in KEYS}) == 20
    cases: list[tuple[Table, Callable[[int], BasicProperties]]] = [
        ({"hash-header": "h"}, lambda n: BasicProperties(headers={"h": n})),
        ({"hash-header": "h"}, lambda n: BasicProperties(headers={"h": [f"{n}"]})),
        ({"hash-property": "message_id"}, lambda n: BasicProperties(message_id=str(n))),
        ({"hash-property": "correlation_id"}, lambda n: BasicProperties(correlation_id=str(n))),
        ({"hash-property": "timestamp"}, lambda n: BasicProperties(timestamp=n)),
    ]
    for arguments, changed in cases:
        exchange = consistent(arguments, **many)
        for properties in (BasicProperties(), changed(1)):
            assert len({where(exchange, key, properties) for key in KEYS[:50]}) == 1
        assert len({where(exchange, "k", changed(n)) for n in range(400)}) == 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "foo"}, "Unsupported property: foo"),
        ({"hash-property": 5}, "invalid type 'signedint' for arg 'hash-property'"),
        ({"hash-header": None}, "invalid type 'void' for arg 'hash-header'"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, FieldValue], text: str) -> None:
    with pytest.raises(ChannelViolation) as caught:
        consistent(arguments)
    assert caught.value.reply_text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("0", "greater than 0"),
        ("-1", "greater than 0"),
        ("foo", 'an integer: <<"foo">>'),
        ("1.5", 'an integer: <<"1.5">>'),
        ("", "an integer: <<>>"),
        ("5 ", 'an integer: <<"5 ">>'),
        ("1_0", 'an integer: <<"1_0">>'),
        ("٣", 'an integer: <<"٣">>'),
    ],
)
def test_weights_that_are_none(key: str, text: str) -> None:
    with pytest.raises(ChannelViolation) as caught:
        consistent().check_binding(binding("q", key))
    assert caught.value.reply_text == f"PRECONDITION_FAILED - The binding key must be {text}"


def test_weights_as_erlang_reads_them() -> None:
    for key in ("1", "+5", "05", "10000"):
        consistent().check_binding(binding("q", key))


def test_modulus_is_steady_and_counts_bindings() -> None:
    exchange = ModulusHashExchange(ExchangeDefinition("x", "x-modulus-hash"))
    assert exchange.find(Message(("k",))) == []
    for queue, key in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "")):
        exchange.add(binding(queue, key))
    assert abs(shares(exchange)["a"] - 3000) < 150
    assert [where(exchange, key) for key in KEYS] == [where(exchange, key) for key in KEYS]


def test_random_throws_the_dice_for_each_message() -> None:
    exchange = RandomExchange(ExchangeDefinition("x", "x-random"))
    assert exchange.find(Message(("k",))) == []
    for queue, key in (("a", "1"), ("a", "2"), ("b", "3")):
        exchange.add(binding(queue, key))
    dice = Random(1).randrange
    found: Counter[str] = Counter()
    for _ in range(3000):
        message = Message(("k",), below=dice)
        found[exchange.find(message)[0].name] += 1
        assert message.by_chance
    assert abs(found["a"] - 2000) < 150
