"""pika: queues: declare, passive, exclusive, auto-delete, server-named, purge, delete."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ConnectionClosedByBroker
from pika_client import (
    Connect,
    closed_with,
    consume,
    depth,
    fetch,
    fetch_all,
    numbered,
    publish,
    settle,
    wait_until,
)


def locked(queue: str) -> tuple[int, str]:
    return 405, (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )


def missing(queue: str) -> tuple[int, str]:
    return 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_declare_ok_counts_messages_and_consumers(channel: BlockingChannel, name: str) -> None:
    first = channel.queue_declare(name, exclusive=True).method
    assert (first.queue, first.message_count, first.consumer_count) == (name, 0, 0)
    publish(channel, name, *numbered(3))
    consume(channel, name, auto_ack=False).wait(3)
    publish(channel, name, *numbered(2))
    again = channel.queue_declare(name, exclusive=True).method
    assert again.consumer_count == 1
    assert again.message_count == 0
    channel.cancel()


def test_passive_declare_finds_or_fails(channel: BlockingChannel, queue: str) -> None:
    assert channel.queue_declare(queue, passive=True).method.queue == queue
    assert closed_with(lambda: channel.queue_declare(f"{queue}?", passive=True)) == missing(
        f"{queue}?"
    )


def test_passive_declare_does_not_compare(channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare(queue, passive=True, durable=True, auto_delete=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": True}, "'durable' for queue '{}' in vhost '/': received 'true' but current"),
        ({"auto_delete": True}, "'auto_delete' for queue '{}' in vhost '/': received 'true'"),
        (
            {"arguments": {"x-max-length": 5}},
            "'x-max-length' for queue '{}' in vhost '/': received the value '5' of type "
            "'signedint' but current is none",
        ),
        (
            {"arguments": {"x-dead-letter-exchange": "dlx"}},
            "'x-dead-letter-exchange' for queue '{}' in vhost '/': received the value 'dlx' of "
            "type 'longstr' but current is none",
        ),
        (
            {"arguments": {"x-dead-letter-exchange": None}},
            "'x-dead-letter-exchange' for queue '{}' in vhost '/': received the value 'undefined' "
            "of type 'void' but current is none",
        ),
        (
            {"arguments": {"x-dead-letter-exchange": [True, "b"]}},
            "'x-dead-letter-exchange' for queue '{}' in vhost '/': received the value "
            "'[{{bool,true}},{{longstr,<<\"b\">>}}]' of type 'array' but current is none",
        ),
    ],
)
def test_declaring_again_must_ask_for_the_same(
    channel: BlockingChannel, shared_queue: str, options: dict[str, Any], text: str
) -> None:
    code, answer = closed_with(lambda: channel.queue_declare(shared_queue, **options))
    assert code == 406
    assert answer.startswith(f"PRECONDITION_FAILED - inequivalent arg {text.format(shared_queue)}")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"x-message-ttl": "abc"}, '"expected integer, got longstr"'),
        ({"x-message-ttl": -1}, "{value_negative,-1}"),
        ({"x-expires": 0}, "{value_zero,0}"),
        ({"x-expires": 2**40}, "{value_too_large,1099511627776}"),
        ({"x-max-length": -1}, "{value_negative,-1}"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-overflow": "nosuch"}, "invalid_overflow"),
        ({"x-queue-mode": "nosuch"}, "\"unsupported queue mode 'nosuch'\""),
        ({"x-dead-letter-routing-key": "a"}, "routing_key_but_no_dlx_defined"),
        ({"x-single-active-consumer": 1}, "{unacceptable_type,signedint}"),
        ({"x-queue-type": 4}, "{unacceptable_type,signedint}"),
    ],
)
def test_arguments_must_make_sense(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], why: str
) -> None:
    (key,) = arguments
    assert closed_with(lambda: channel.queue_declare(name, arguments=arguments)) == (
        406,
        f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/': {why}",
    )


def test_unknown_arguments_are_kept_quiet_about(channel: BlockingChannel, name: str) -> None:
    arguments = {"x-foo": 1, "anything": {"at": ["all"]}}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.queue_declare(name, exclusive=True)


def test_server_named_queues_differ_and_work(channel: BlockingChannel) -> None:
    names = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    assert len(set(names)) == 3
    for number, queue in enumerate(names):
        assert queue.startswith("amq.gen-")
        publish(channel, queue, b"%d" % number)
    assert [fetch(channel, queue, auto_ack=True) for queue in names] == [
        (b"0", False),
        (b"1", False),
        (b"2", False),
    ]


def test_the_empty_name_means_the_queue_declared_last(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    publish(channel, queue, b"a", b"b")
    assert fetch(channel, "") == (b"a", False)
    channel.queue_bind("", "amq.topic", routing_key="only.here")
    assert channel.queue_purge("").method.message_count == 1
    channel.queue_delete("")
    assert closed_with(lambda: channel.queue_declare(queue, passive=True)) == missing(queue)


def test_the_empty_name_needs_a_queue_declared_before(connection: BlockingConnection) -> None:
    assert closed_with(lambda: connection.channel().queue_purge("")) == (
        404,
        "NOT_FOUND - no previously declared queue",
    )


def test_reserved_names_are_refused(channel: BlockingChannel) -> None:
    assert closed_with(lambda: channel.queue_declare("amq.mine")) == (
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    )


def test_names_may_be_long_and_in_any_script(channel: BlockingChannel) -> None:
    for queue in ("ü" * 127, "очередь/キュー", "q" * 255):
        assert channel.queue_declare(queue, exclusive=True).method.queue == queue
        publish(channel, queue, b"x")
        assert fetch(channel, queue, auto_ack=True) == (b"x", False)


def test_an_exclusive_queue_is_locked_for_others(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    other = connect()
    for touch in (
        lambda c: c.queue_declare(queue, passive=True),
        lambda c: c.queue_declare(queue),
        lambda c: c.queue_declare(queue, exclusive=True),
        lambda c: c.basic_get(queue),
        lambda c: c.basic_consume(queue, lambda *_: None),
        lambda c: c.queue_bind(queue, "amq.direct", "k"),
        lambda c: c.queue_purge(queue),
        lambda c: c.queue_delete(queue),
    ):
        assert closed_with(lambda touch=touch: touch(other.channel())) == locked(queue)
    publish(other.channel(), queue, b"but anybody may publish")
    wait_until(channel.connection, lambda: depth(channel, queue) == 1)


def test_a_shared_queue_cannot_be_declared_exclusive(
    channel: BlockingChannel, shared_queue: str
) -> None:
    assert closed_with(lambda: channel.queue_declare(shared_queue, exclusive=True)) == locked(
        shared_queue
    )


def test_an_exclusive_queue_goes_with_its_connection(
    connect: Connect, connection: BlockingConnection, name: str
) -> None:
    owner = connect()
    owner.channel().queue_declare(name, exclusive=True, durable=True)
    owner.close()
    wait_until(connection, lambda: _is_missing(connection, name))


def test_an_exclusive_queue_stays_when_its_channel_closes(
    connection: BlockingConnection, name: str
) -> None:
    first = connection.channel()
    first.queue_declare(name, exclusive=True)
    first.close()
    assert depth(connection.channel(), name) == 0


def _is_missing(connection: BlockingConnection, queue: str) -> bool:
    channel = connection.channel()
    try:
        return closed_with(lambda: channel.queue_declare(queue, passive=True))[0] == 404
    except AssertionError:
        channel.close()
        return False


@pytest.mark.parametrize("how", ["cancel", "close channel", "close connection"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(
    connect: Connect, connection: BlockingConnection, name: str, how: str
) -> None:
    owner = connect()
    first, second = owner.channel(), owner.channel()
    first.queue_declare(name, auto_delete=True)
    consume(first, name)
    other = consume(second, name)
    first.close()
    assert not _is_missing(connection, name)
    if how == "cancel":
        second.basic_cancel(other.tag)
    elif how == "close channel":
        second.close()
    else:
        owner.close()
    wait_until(connection, lambda: _is_missing(connection, name))


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    connection: BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name, auto_delete=True)
    publish(channel, name, b"x")
    assert fetch(channel, name, auto_ack=True) == (b"x", False)
    settle(connection)
    assert depth(channel, name) == 0
    channel.queue_delete(name)


def test_purge_counts_and_leaves_what_is_unacknowledged(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, *numbered(10))
    method, _, body = channel.basic_get(queue)
    assert body == b"0"
    assert channel.queue_purge(queue).method.message_count == 9
    assert depth(channel, queue) == 0
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert fetch(channel, queue, auto_ack=True) == (b"0", True)


def test_purge_of_a_missing_queue(channel: BlockingChannel, name: str) -> None:
    assert closed_with(lambda: channel.queue_purge(name)) == missing(name)


def test_delete_counts_and_makes_it_missing(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    publish(channel, name, *numbered(4))
    assert channel.queue_delete(name).method.message_count == 4
    assert channel.queue_delete(name).method.message_count == 0
    assert closed_with(lambda: channel.basic_get(name)) == missing(name)


def test_delete_if_empty(
    channel: BlockingChannel, connection: BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=True)
    publish(channel, name, b"x")
    assert closed_with(lambda: channel.queue_delete(name, if_empty=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty",
    )
    channel = connection.channel()
    assert fetch_all(channel, name) == [b"x"]
    channel.queue_delete(name, if_empty=True)


def test_delete_if_unused(connection: BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    consumer = connection.channel()
    tag = consume(consumer, name).tag
    assert closed_with(lambda: channel.queue_delete(name, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use",
    )
    consumer.basic_cancel(tag)
    consumer.queue_delete(name, if_unused=True)


def test_deleting_a_queue_drops_its_bindings(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, "amq.direct", name)
    channel.queue_delete(name)
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", name, b"nowhere")
    assert depth(channel, name) == 0


def test_declare_of_an_unknown_queue_type(connection: BlockingConnection, name: str) -> None:
    channel = connection.channel()
    arguments = {"x-queue-type": "nosuch"}
    try:
        code, text = closed_with(lambda: channel.queue_declare(name, arguments=arguments))
        assert code == 406
        assert "nosuch" in text
    except ConnectionClosedByBroker as closed:  # RabbitMQ 3.10 for some
        assert closed.reply_code == 541


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_quorum_queues_have_rules(
    channel: BlockingChannel, name: str, options: dict[str, Any], what: str
) -> None:
    arguments = {"x-queue-type": "quorum"}
    assert closed_with(lambda: channel.queue_declare(name, arguments=arguments, **options)) == (
        406,
        f"PRECONDITION_FAILED - invalid property '{what}' for queue '{name}' in vhost '/'",
    )


def test_unbinding_a_queue_that_is_not_there_is_fine(channel: BlockingChannel, name: str) -> None:
    channel.queue_unbind(name, "amq.direct", "key")
    assert channel.is_open


def test_only_a_binding_that_is_there_is_locked_with_its_queue(
    queue: str, channel: BlockingChannel, connect: Connect
) -> None:
    channel.queue_bind(queue, "amq.direct", "key")
    stranger = connect().channel()
    stranger.queue_unbind(queue, "amq.direct", "other")
    assert closed_with(lambda: stranger.queue_unbind(queue, "amq.direct", "key")) == locked(queue)
