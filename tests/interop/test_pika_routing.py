"""pika: exchanges that look at more than the key, and messages that name further receivers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker
from pika_client import Connect, closed_with, depth, fetch_all, settle, wait_until

Exchanges = Callable[..., str]
SPREADING = ["x-consistent-hash", "x-modulus-hash", "x-random"]
PLUGINS = {
    "x-consistent-hash": "rabbitmq_consistent_hash_exchange",
    "x-modulus-hash": "rabbitmq_sharding",
    "x-random": "rabbitmq_random_exchange",
}


@pytest.fixture
def queues(channel: BlockingChannel) -> Callable[[int], list[str]]:
    """So many exclusive queues; the channel is put in confirm mode."""
    channel.confirm_delivery()
    return lambda count: [
        channel.queue_declare("", exclusive=True).method.queue for _ in range(count)
    ]


@pytest.fixture
def spreading(connect: Connect, exchange: Exchanges) -> Exchanges:
    """Declares an exchange of a type that is a plug-in elsewhere; without it the test is left
    out."""

    def declare(kind: str, **options: Any) -> str:
        probe = connect().channel()
        try:
            probe.exchange_declare(f"probe-{kind}", kind, auto_delete=True)
            probe.exchange_delete(f"probe-{kind}")
        except ConnectionClosedByBroker as error:
            if error.reply_code == 503:
                pytest.skip(f"this broker has no {kind}; enable {PLUGINS[kind]}")
            raise
        return exchange(kind, **options)

    return declare


def with_headers(headers: dict[str, Any] | None, **others: Any) -> BasicProperties:
    return BasicProperties(headers=headers, **others)


def depths(channel: BlockingChannel, names: list[str]) -> list[int]:
    return [depth(channel, name) for name in names]


KINDS = ["all", "any", "all-with-x", "any-with-x", None]
# (arguments, headers, which of KINDS match)
RULES: list[tuple[dict[str, Any], dict[str, Any] | None, str]] = [
    ({}, {}, "10101"),
    ({}, None, "10101"),
    ({"x-a": 1}, {}, "10001"),
    ({"x-a": 1}, {"x-a": 1}, "10111"),
    ({"x-a": 1, "b": 1}, {"x-a": 2, "b": 1}, "11011"),
    ({"a": 1, "b": 2}, {"a": 1}, "01010"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1, "z": 1}, "11111"),
    ({"a": None}, {"a": 7}, "11111"),
    ({"a": None}, {"b": 7}, "00000"),
    ({"a": 7}, {"a": None}, "00000"),
]


@pytest.mark.parametrize("name", ["amq.headers", "amq.match"])
def test_which_headers_match(
    channel: BlockingChannel, queues: Callable[[int], list[str]], name: str
) -> None:
    channel.exchange_declare(name, "headers", durable=True)
    for arguments, headers, expected in RULES:
        bound = queues(len(KINDS))
        for queue, kind in zip(bound, KINDS, strict=True):
            asked = arguments if kind is None else {**arguments, "x-match": kind}
            channel.queue_bind(queue, name, "", asked)
        channel.basic_publish(name, "any key", b"", with_headers(headers))
        assert "".join(map(str, depths(channel, bound))) == expected, (arguments, headers)
        for queue in bound:
            channel.queue_delete(queue)


EQUAL: list[list[Any]] = [
    [5, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)],
    [2**40],
    [1],
    [True],
    [False],
    ["5", b"5"],
    [""],
    [Decimal("0.5")],
    [[5]],
    [["5"]],
    [{"a": 5}],
]


def test_which_values_are_equal(
    channel: BlockingChannel, exchange: Exchanges, queues: Callable[[int], list[str]]
) -> None:
    headers = exchange("headers")
    values = [(value, n) for n, same in enumerate(EQUAL) for value in same]
    bound = queues(len(values))
    for queue, (value, _) in zip(bound, values, strict=True):
        channel.queue_bind(queue, headers, "", {"k": value})
    for value, group in values:
        channel.basic_publish(headers, "", b"", with_headers({"k": value}))
        found = [n for n, queue in enumerate(bound) if fetch_all(channel, queue)]
        assert found == [n for n, (_, other) in enumerate(values) if other == group], value


def test_a_run_of_messages_with_changing_headers_keeps_its_order(
    channel: BlockingChannel, connection: BlockingConnection, exchange: Exchanges
) -> None:
    headers = exchange("headers")
    red = channel.queue_declare("", exclusive=True).method.queue
    every = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(red, headers, "", {"colour": "red"})
    channel.queue_bind(every, headers, "", {"colour": None})
    colours = ["red", "red", "blue", "red", "none", "blue", "red"] * 30
    for number, colour in enumerate(colours):
        table = {"colour": colour} if colour != "none" else {}
        channel.basic_publish(headers, "", b"%d" % number, with_headers(table))
    settle(connection)
    assert fetch_all(channel, red) == [b"%d" % n for n, c in enumerate(colours) if c == "red"]
    assert fetch_all(channel, every) == [b"%d" % n for n, c in enumerate(colours) if c != "none"]


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("a\x01", "value <<97,1>>; expected all, any, all-with-x, or any-with-x"),
        (5, "type signedint (value 5); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        ([1], "type array (value [{signedint,1}]); expected longstr"),
    ],
)
def test_x_match_is_one_of_four_words(
    channel: BlockingChannel, queue: str, value: object, flaw: str
) -> None:
    arguments = {"x-match": value}
    assert closed_with(lambda: channel.queue_bind(queue, "amq.headers", "", arguments)) == (
        406,
        f"PRECONDITION_FAILED - Invalid x-match field {flaw}",
    )


def test_headers_behind_an_exchange_and_as_an_alternate(
    channel: BlockingChannel, exchange: Exchanges, queues: Callable[[int], list[str]]
) -> None:
    (queue,) = queues(1)
    headers = exchange("headers")
    direct = exchange("direct", arguments={"alternate-exchange": headers})
    fanout = exchange("fanout")
    channel.queue_bind(queue, headers, "", {"a": "b"})
    channel.exchange_bind(headers, fanout)
    for source in (direct, fanout):
        channel.basic_publish(source, "k", b"1", with_headers({"a": "b"}))
        channel.basic_publish(source, "k", b"2", with_headers({"a": "c"}))
        channel.basic_publish(source, "k", b"3")
        assert fetch_all(channel, queue) == [b"1"]


def test_weights_are_shares_and_keys_stay_where_they_are(
    channel: BlockingChannel, spreading: Exchanges, queues: Callable[[int], list[str]]
) -> None:
    exchange = spreading("x-consistent-hash")
    bound = queues(3)
    for queue, weight in zip(bound, ("1", "1", "3"), strict=True):
        channel.queue_bind(queue, exchange, weight)
    rounds = []
    for _ in range(2):
        for number in range(300):
            channel.basic_publish(exchange, f"key {number}", b"%d" % number)
        rounds.append([fetch_all(channel, queue) for queue in bound])
    assert rounds[0] == rounds[1]
    one, other, three = map(len, rounds[0])
    assert one + other + three == 300
    assert 30 < one < 90
    assert 30 < other < 90
    assert 140 < three < 220


@pytest.mark.parametrize(
    ("arguments", "make"),
    [
        ({"hash-header": "h"}, lambda n: with_headers({"h": f"{n}"})),
        ({"hash-property": "message_id"}, lambda n: BasicProperties(message_id=f"{n}")),
        ({"hash-property": "correlation_id"}, lambda n: BasicProperties(correlation_id=f"{n}")),
        ({"hash-property": "timestamp"}, lambda n: BasicProperties(timestamp=n)),
    ],
)
def test_what_is_hashed_may_be_named(
    channel: BlockingChannel,
    spreading: Exchanges,
    queues: Callable[[int], list[str]],
    arguments: dict[str, str],
    make: Callable[[int], BasicProperties],
) -> None:
    exchange = spreading("x-consistent-hash", arguments=arguments)
    bound = queues(4)
    for queue in bound:
        channel.queue_bind(queue, exchange, "1")
    for number in range(20):
        channel.basic_publish(exchange, f"{number}", b"", make(7))
    assert sorted(depths(channel, bound)) == [0, 0, 0, 20]
    for number in range(80):
        channel.basic_publish(exchange, "one key", b"", make(number))
    assert min(depths(channel, bound)) > 0
    for queue in bound:
        channel.queue_purge(queue)
    for number in range(20):
        channel.basic_publish(exchange, f"{number}", b"")
    assert sorted(depths(channel, bound)) == [0, 0, 0, 20]


def test_what_a_consistent_hash_exchange_refuses(
    connection: BlockingConnection, spreading: Exchanges, queue: str
) -> None:
    exchange = spreading("x-consistent-hash")
    for arguments, text in (
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "foo"}, "Unsupported property: foo"),
    ):
        channel = connection.channel()
        answer = closed_with(
            lambda c=channel, a=arguments: c.exchange_declare(  # type: ignore[misc]
                "refused", "x-consistent-hash", arguments=a
            )
        )
        assert answer == (406, f"PRECONDITION_FAILED - {text}")
    for key, text in (
        ("0", "greater than 0"),
        ("foo", 'an integer: <<"foo">>'),
        ("", "an integer: <<>>"),
        ("5 ", 'an integer: <<"5 ">>'),
        ("٣", 'an integer: <<"٣">>'),
    ):
        channel = connection.channel()
        answer = closed_with(
            lambda c=channel, k=key: c.queue_bind(queue, exchange, k)  # type: ignore[misc]
        )
        assert answer == (406, f"PRECONDITION_FAILED - The binding key must be {text}")


@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-random"])
def test_each_binding_is_a_place(
    channel: BlockingChannel, spreading: Exchanges, queues: Callable[[int], list[str]], kind: str
) -> None:
    exchange = spreading(kind)
    bound = queues(2)
    for queue, keys in zip(bound, ("abc", "a"), strict=True):
        for key in keys:
            channel.queue_bind(queue, exchange, key)
    for number in range(400):
        channel.basic_publish(exchange, f"{number}", b"")
    first, second = depths(channel, bound)
    assert first + second == 400
    assert 240 < first < 360


def test_one_key_keeps_its_place_by_hash_and_not_by_chance(
    channel: BlockingChannel, spreading: Exchanges, queues: Callable[[int], list[str]]
) -> None:
    bound = queues(3)
    for kind, spread in (("x-modulus-hash", False), ("x-random", True)):
        exchange = spreading(kind)
        for queue in bound:
            channel.queue_bind(queue, exchange)
            channel.queue_purge(queue)
        for _ in range(60):
            channel.basic_publish(exchange, "one key", b"")
        assert (sorted(depths(channel, bound))[0] > 0) is spread
        assert sum(depths(channel, bound)) == 60


@pytest.mark.parametrize("kind", SPREADING)
def test_without_bindings_there_is_no_way(
    channel: BlockingChannel, spreading: Exchanges, queues: Callable[[int], list[str]], kind: str
) -> None:
    (rest,) = queues(1)
    fanout = "amq.fanout"
    channel.queue_bind(rest, fanout)
    exchange = spreading(kind, arguments={"alternate-exchange": fanout})
    channel.basic_publish(exchange, "k", b"")
    assert depth(channel, rest) == 1


def test_copies_go_by_the_default_exchange_and_blind_ones_are_not_seen(
    channel: BlockingChannel, queues: Callable[[int], list[str]]
) -> None:
    first, second, third = queues(3)
    headers = {"a": "b", "CC": [second, 5, first, "nobody's"], "BCC": [third], "z": True}
    properties = with_headers(headers, content_type="text/plain", message_id="m", delivery_mode=2)
    channel.basic_publish("", first, b"body", properties)
    del headers["BCC"]
    for queue in (first, second, third):
        method, got, body = channel.basic_get(queue, auto_ack=True)
        assert (method.exchange, method.routing_key, body) == ("", first, b"body")
        assert got.headers == headers
        assert (got.content_type, got.message_id, got.delivery_mode) == ("text/plain", "m", 2)
    assert depths(channel, [first, second, third]) == [0, 0, 0]


def test_copies_by_other_exchanges(
    channel: BlockingChannel, exchange: Exchanges, queues: Callable[[int], list[str]]
) -> None:
    for kind, keys in (("direct", ("a", "b", "c")), ("topic", ("a.#", "*.b", "c.c"))):
        bound = queues(3)
        name = exchange(kind)
        for queue, key in zip(bound, keys, strict=True):
            channel.queue_bind(queue, name, key)
        own, other, third = [key.replace("#", "x").replace("*", "y") for key in keys]
        properties = with_headers({"CC": [other, own], "BCC": ["none"]})
        channel.basic_publish(name, own, b"1", properties)
        channel.basic_publish(name, "none", b"2", with_headers({"CC": [other], "BCC": [third]}))
        channel.basic_publish(name, third, b"3")
        found = [fetch_all(channel, queue) for queue in bound]
        assert found == [[b"1"], [b"1", b"2"], [b"2", b"3"]]


def test_a_table_with_nothing_but_blind_copies_stays_a_table(
    channel: BlockingChannel, queues: Callable[[int], list[str]]
) -> None:
    first, second = queues(2)
    channel.basic_publish("", "nobody's", b"", with_headers({"BCC": [first, second]}))
    for queue in (first, second):
        assert channel.basic_get(queue)[1].headers == {}


def test_a_returned_message_does_not_show_its_blind_copies(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    returned: list[Any] = []
    channel.add_on_return_callback(lambda *parts: returned.append(parts[1:]))
    properties = with_headers({"BCC": ["nobody's"], "b": 1})
    channel.basic_publish("", "nobody's", b"x", properties, mandatory=True)
    wait_until(connection, lambda: returned)
    settle(connection)
    ((method, got, body),) = returned
    assert (method.reply_code, got.headers, body) == (312, {"b": 1}, b"x")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"headers": {"CC": "a"}}, 'message: {unacceptable_type_in_header,"CC",longstr}'),
        ({"headers": {"BCC": 5}}, 'message: {unacceptable_type_in_header,"BCC",signedint}'),
        ({"headers": {"CC": None}}, 'message: {unacceptable_type_in_header,"CC",void}'),
        ({"headers": {"CC": {}}}, 'message: {unacceptable_type_in_header,"CC",table}'),
        (
            {"headers": {"CC": 1}, "delivery_mode": 3},
            'message: {unacceptable_type_in_header,"CC",signedint}',
        ),
        ({"headers": {"CC": 1}, "expiration": "x"}, "expiration 'x': no_integer"),
    ],
)
def test_copies_are_arrays(channel: BlockingChannel, properties: Any, text: str) -> None:
    channel.confirm_delivery()
    assert closed_with(
        lambda: channel.basic_publish("", "nobody's", b"", BasicProperties(**properties))
    ) == (406, f"PRECONDITION_FAILED - invalid {text}")
