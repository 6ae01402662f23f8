"""pika: exchanges and bindings: where a published message ends up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika_client import closed_with, depth, fetch_all

NOT_ON_DEFAULT = (403, "ACCESS_REFUSED - operation not permitted on the default exchange")

Exchanges = Callable[..., str]


@pytest.fixture
def bound(channel: BlockingChannel) -> Callable[..., str]:
    """Makes an exclusive queue bound to an exchange by some keys."""
    channel.confirm_delivery()

    def make(exchange: str, *keys: str) -> str:
        queue: str = channel.queue_declare("", exclusive=True).method.queue
        for key in keys:
            channel.queue_bind(queue, exchange, key)
        return queue

    return make


def send(channel: BlockingChannel, exchange: str, *keys: str) -> None:
    """Publish, under confirms, one message a key; its body is the key."""
    for key in keys:
        channel.basic_publish(exchange, key, key.encode())


def test_direct_matches_the_key(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    direct = exchange("direct")
    red, both = bound(direct, "red"), bound(direct, "red", "green")
    send(channel, direct, "red", "green", "blue", "")
    assert fetch_all(channel, red) == [b"red"]
    assert fetch_all(channel, both) == [b"red", b"green"]


def test_fanout_ignores_the_key_and_double_bindings(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    fanout = exchange("fanout")
    queues = [bound(fanout, "a", "b"), bound(fanout, ""), bound(fanout, "c")]
    send(channel, fanout, "x", "")
    assert [fetch_all(channel, queue) for queue in queues] == [[b"x", b""]] * 3


TOPICS = [
    ("#", ["", "a", "a.b", "a.b.c", ".", "a..c"]),
    ("*", ["a"]),
    ("a.*", ["a.b"]),
    ("a.#", ["a", "a.b", "a.b.c", "a..c"]),
    ("*.*", ["a.b", "."]),
    ("#.c", ["a.b.c", "a..c"]),
    ("a.*.c", ["a.b.c", "a..c"]),
    ("a..c", ["a..c"]),
    ("*.#", ["a", "a.b", "a.b.c", ".", "a..c"]),
    ("#.*", ["a", "a.b", "a.b.c", ".", "a..c"]),
    ("#.#", ["", "a", "a.b", "a.b.c", ".", "a..c"]),
    ("#.b.#", ["a.b", "a.b.c"]),
    ("", [""]),
    ("*.#.*", ["a.b", "a.b.c", ".", "a..c"]),
    ("A", []),
]


def test_topic_patterns(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    topic = exchange("topic")
    queues = {pattern: bound(topic, pattern) for pattern, _ in TOPICS}
    send(channel, topic, "", "a", "a.b", "a.b.c", ".", "a..c")
    found = {
        pattern: [b.decode() for b in fetch_all(channel, queues[pattern])] for pattern in queues
    }
    assert found == dict(TOPICS)


def test_a_queue_bound_by_two_matching_patterns_gets_one_copy(
    channel: BlockingChannel, bound: Callable[..., str]
) -> None:
    queue = bound("amq.topic", "one.#", "*.copy", "one.copy")
    send(channel, "amq.topic", "one.copy")
    assert fetch_all(channel, queue) == [b"one.copy"]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_predeclared_exchanges_work(
    channel: BlockingChannel, bound: Callable[..., str], name: str, kind: str
) -> None:
    channel.exchange_declare(f"amq.{kind}", kind, durable=True)
    queue = bound(f"amq.{kind}", name)
    send(channel, f"amq.{kind}", name)
    assert fetch_all(channel, queue) == [name.encode()]


def test_the_default_exchange_routes_by_queue_name(
    channel: BlockingChannel, bound: Callable[..., str]
) -> None:
    queue = bound("amq.direct")
    send(channel, "", queue, f"{queue}?")
    assert fetch_all(channel, queue) == [queue.encode()]


@pytest.mark.parametrize(
    "action",
    [
        lambda c, _: c.exchange_declare("", "direct"),
        lambda c, _: c.exchange_declare("", "direct", passive=True),
        lambda c, _: c.exchange_delete(""),
        lambda c, queue: c.queue_bind(queue, "", "k"),
        lambda c, queue: c.queue_unbind(queue, "", "k"),
        lambda c, _: c.exchange_bind("amq.direct", "", "k"),
        lambda c, _: c.exchange_bind("", "amq.direct", "k"),
    ],
)
def test_the_default_exchange_is_nobodys_to_change(
    channel: BlockingChannel, queue: str, action: Callable[[BlockingChannel, str], object]
) -> None:
    assert closed_with(lambda: action(channel, queue)) == NOT_ON_DEFAULT


def test_unbind_stops_the_flow(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    direct = exchange("direct")
    queue = bound(direct, "k", "l")
    channel.queue_unbind(queue, direct, "k")
    channel.queue_unbind(queue, direct, "never")
    send(channel, direct, "k", "l")
    assert fetch_all(channel, queue) == [b"l"]


def test_arguments_tell_bindings_apart(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    direct = exchange("direct")
    queue = bound(direct)
    channel.queue_bind(queue, direct, "k", {"a": 1, "b": 2})
    channel.queue_bind(queue, direct, "k", {"b": 2, "a": 1})
    channel.queue_bind(queue, direct, "k", {"a": 2})
    channel.queue_unbind(queue, direct, "k", {"b": 2, "a": 1})
    send(channel, direct, "k")
    channel.queue_unbind(queue, direct, "k", {"a": 2})
    send(channel, direct, "k")
    assert fetch_all(channel, queue) == [b"k"]


def test_exchanges_bound_to_exchanges(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    """topic -> fanout -> queues, a direct queue beside it, and a ring."""
    topic, fanout = exchange("topic"), exchange("fanout")
    inner, outer = bound(fanout, ""), bound(topic, "a.#")
    channel.queue_bind(outer, fanout, "")
    channel.exchange_bind(fanout, topic, "#.b")
    channel.exchange_bind(topic, fanout, "ring")
    send(channel, topic, "a.b", "c.b", "a.c", "c")
    assert fetch_all(channel, inner) == [b"a.b", b"c.b"]
    assert fetch_all(channel, outer) == [b"a.b", b"c.b", b"a.c"]
    channel.exchange_unbind(fanout, topic, "#.b")
    send(channel, topic, "a.b")
    assert fetch_all(channel, inner) == []


def test_the_alternate_exchange_takes_the_unroutable(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    rest = exchange("fanout")
    main = exchange("direct", arguments={"alternate-exchange": rest})
    lost, found = bound(rest, ""), bound(main, "known")
    send(channel, main, "known", "unknown")
    assert fetch_all(channel, found) == [b"known"]
    assert fetch_all(channel, lost) == [b"unknown"]


def test_an_internal_exchange_is_not_for_clients(
    connection: BlockingConnection, channel: BlockingChannel, exchange: Exchanges, queue: str
) -> None:
    inner, outer = exchange("fanout", internal=True), exchange("fanout")
    channel.exchange_bind(inner, outer)
    channel.queue_bind(queue, inner)
    channel.confirm_delivery()
    send(channel, outer, "k")
    assert depth(channel, queue) == 1
    assert closed_with(lambda: send(channel, inner, "k")) == (
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'",
    )
    assert connection.is_open


def test_publishing_to_a_missing_exchange(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    assert closed_with(lambda: send(channel, name, "k")) == (
        404,
        f"NOT_FOUND - no exchange '{name}' in vhost '/'",
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exchange_type": "fanout"}, "'type' for exchange '{}' in vhost '/': received 'fanout'"),
        ({"durable": True}, "'durable' for exchange '{}' in vhost '/': received 'true'"),
        ({"auto_delete": True}, "'auto_delete' for exchange '{}' in vhost '/': received 'true'"),
        ({"internal": True}, "'internal' for exchange '{}' in vhost '/': received 'true'"),
        (
            {"arguments": {"alternate-exchange": "a"}},
            "'alternate-exchange' for exchange '{}' in vhost '/': received the value 'a' of type",
        ),
    ],
)
def test_declaring_again_must_ask_for_the_same(
    channel: BlockingChannel, exchange: Exchanges, options: dict[str, Any], text: str
) -> None:
    existing = exchange("direct")
    channel.exchange_declare(existing, "direct")
    channel.exchange_declare(existing, "fanout", passive=True)
    code, answer = closed_with(lambda: channel.exchange_declare(existing, **options))
    assert code == 406
    assert answer.startswith(f"PRECONDITION_FAILED - inequivalent arg {text.format(existing)}")


def test_names_that_are_missing(connection: BlockingConnection, queue: str, name: str) -> None:
    missing = (404, f"NOT_FOUND - no exchange '{name}x' in vhost '/'")
    for action in (
        lambda c: c.exchange_declare(f"{name}x", passive=True),
        lambda c: c.queue_bind(queue, f"{name}x", "k"),
        lambda c: c.queue_bind(f"{name}q", f"{name}x", "k"),
        lambda c: c.exchange_bind("amq.direct", f"{name}x", "k"),
        lambda c: c.exchange_bind(f"{name}x", "amq.direct", "k"),
    ):
        assert closed_with(lambda action=action: action(connection.channel())) == missing
    channel = connection.channel()
    assert closed_with(lambda: channel.queue_bind(f"{name}q", "amq.direct", "k")) == (
        404,
        f"NOT_FOUND - no queue '{name}q' in vhost '/'",
    )


def test_reserved_exchanges(connection: BlockingConnection) -> None:
    assert closed_with(lambda: connection.channel().exchange_declare("amq.mine")) == (
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    assert closed_with(lambda: connection.channel().exchange_delete("amq.fanout")) == (
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.fanout' in vhost '/' not allowed",
    )


def test_delete_if_unused(channel: BlockingChannel, exchange: Exchanges, queue: str) -> None:
    used, unused = exchange("direct"), exchange("direct")
    channel.queue_bind(queue, used, "k")
    channel.exchange_delete(unused, if_unused=True)
    channel.exchange_delete(unused)
    assert closed_with(lambda: channel.exchange_delete(used, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - exchange '{used}' in vhost '/' in use",
    )


def test_deleting_an_exchange_drops_its_bindings(
    channel: BlockingChannel, exchange: Exchanges, bound: Callable[..., str]
) -> None:
    direct = exchange("direct")
    queue = bound(direct, "k")
    channel.exchange_delete(direct)
    channel.exchange_declare(direct)
    send(channel, direct, "k")
    assert fetch_all(channel, queue) == []


@pytest.mark.parametrize("how", ["unbind", "delete queue", "delete exchange"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, exchange: Exchanges, queue: str, how: str
) -> None:
    temporary, other = exchange("direct", auto_delete=True), exchange("direct")
    if how == "delete exchange":
        channel.exchange_bind(other, temporary, "k")
        channel.exchange_delete(other)
    else:
        channel.queue_bind(queue, temporary, "k")
        if how == "unbind":
            channel.queue_unbind(queue, temporary, "k")
        else:
            channel.queue_delete(queue)
    assert closed_with(lambda: channel.exchange_declare(temporary, passive=True))[0] == 404


def test_being_a_destination_does_not_keep_or_end_an_auto_delete_exchange(
    channel: BlockingChannel, exchange: Exchanges
) -> None:
    temporary, source = exchange("direct", auto_delete=True), exchange("direct")
    channel.exchange_bind(temporary, source, "k")
    channel.exchange_unbind(temporary, source, "k")
    channel.exchange_declare(temporary, passive=True)
