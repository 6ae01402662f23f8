"""Goal: users may do what their permissions say, and nothing else, in RabbitMQ's words. Method:
users and virtual hosts made by control commands, pika as the client; RabbitMQ passes, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from pika_client import Connect, closed_with, wait_until

from support.broker import Ctl

PASSWORD = "s3cret"
Action = Callable[[BlockingChannel], object]


class Account:
    """A user and a virtual host of a test's own, deleted after it."""

    def __init__(self, ctl: Ctl, connect: Connect) -> None:
        self.user = f"u-{uuid.uuid4().hex[:8]}"
        self.vhost = f"v-{uuid.uuid4().hex[:8]}"
        self.ctl = ctl
        self.connect = connect
        ctl("add_user", self.user, PASSWORD)
        ctl("add_vhost", self.vhost)

    def allow(self, configure: str, write: str, read: str) -> None:
        self.ctl("set_permissions", "-p", self.vhost, self.user, configure, write, read)

    def channel(self) -> BlockingChannel:
        """On a connection of its own."""
        return self.open().channel()

    def open(self, password: str = PASSWORD) -> BlockingConnection:
        credentials = pika.PlainCredentials(self.user, password)
        return self.connect(credentials=credentials, virtual_host=self.vhost)

    def refused(self, what: str) -> tuple[int, str]:
        """What the broker says to who may not."""
        text = f"ACCESS_REFUSED - access to {what} in vhost '{self.vhost}' refused"
        return 403, f"{text} for user '{self.user}'"

    def close(self) -> None:
        self.ctl.run("delete_vhost", self.vhost)
        self.ctl.run("delete_user", self.user)


@pytest.fixture
def account(ctl: Ctl, connect: Connect) -> Iterator[Account]:
    one = Account(ctl, connect)
    yield one
    one.close()


@pytest.fixture(scope="module")
def some(ctl: Ctl, target: Any) -> Iterator[Account]:
    """One for many tests: may configure c-..., write w-..., read r-..., of queues and exchanges."""

    def connect(**options: Any) -> BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(target.host, target.port, **options)
        )

    one = Account(ctl, connect)
    one.allow(".*", ".*", ".*")
    channel = one.channel()
    for letter in "cwrx":
        channel.queue_declare(f"{letter}-q")
        channel.exchange_declare(f"{letter}-e", "topic")
    channel.connection.close()
    one.allow("^(c|cr|cw)-", "^(w|cw)-|^amq\\.default$", "^(r|cr)-")
    yield one
    one.close()


def publish(exchange: str, key: str = "k") -> Action:
    """One that is confirmed, so that a refusal comes now."""

    def action(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"")

    return action


DEAD = "x-dead-letter-exchange"
ELSE = "alternate-exchange"
REFUSED: list[tuple[str, Action]] = [
    ("queue 'n-q'", lambda c: c.queue_declare("n-q")),
    ("queue 'x-q'", lambda c: c.queue_declare("x-q", durable=True)),
    ("queue 'c-d'", lambda c: c.queue_declare("c-d", arguments={DEAD: "w-e"})),
    ("exchange 'x-e'", lambda c: c.queue_declare("cr-d", arguments={DEAD: "x-e"})),
    ("exchange 'n-e'", lambda c: c.exchange_declare("n-e")),
    ("exchange 'amq.new'", lambda c: c.exchange_declare("amq.new")),
    ("exchange 'c-a'", lambda c: c.exchange_declare("c-a", arguments={ELSE: "w-e"})),
    ("exchange 'x-e'", lambda c: c.exchange_declare("cr-a", arguments={ELSE: "x-e"})),
    ("exchange 'x-e'", lambda c: c.exchange_delete("x-e")),
    ("exchange 'missing'", lambda c: c.exchange_delete("missing")),
    ("queue 'x-q'", lambda c: c.queue_delete("x-q")),
    ("queue 'missing'", lambda c: c.queue_delete("missing")),
    ("queue 'x-q'", lambda c: c.queue_purge("x-q")),
    ("queue 'missing'", lambda c: c.queue_purge("missing")),
    ("queue 'x-q'", lambda c: c.basic_get("x-q")),
    ("queue 'missing'", lambda c: c.basic_get("missing")),
    ("queue 'x-q'", lambda c: c.basic_consume("x-q", print)),
    ("queue 'missing'", lambda c: c.basic_consume("missing", print)),
    ("queue 'x-q'", lambda c: c.queue_bind("x-q", "r-e", "k")),
    ("queue 'x-q'", lambda c: c.queue_bind("x-q", "", "k")),
    ("queue 'missing'", lambda c: c.queue_bind("missing", "missing", "k")),
    ("exchange 'x-e'", lambda c: c.queue_bind("w-q", "x-e", "k")),
    ("queue 'x-q'", lambda c: c.queue_unbind("x-q", "r-e", "k")),
    ("queue 'missing'", lambda c: c.queue_unbind("missing", "r-e", "k")),
    ("exchange 'x-e'", lambda c: c.queue_unbind("w-q", "x-e", "k")),
    ("exchange 'x-e'", lambda c: c.exchange_bind("x-e", "r-e", "k")),
    ("exchange 'x-e'", lambda c: c.exchange_bind("w-e", "x-e", "k")),
    ("exchange 'x-e'", lambda c: c.exchange_unbind("x-e", "r-e", "k")),
    ("exchange 'x-e'", publish("x-e")),
    ("exchange 'missing'", publish("missing")),
]
ALLOWED: list[Action] = [
    lambda c: c.queue_declare("c-new"),
    lambda c: c.queue_declare("c-new2", arguments={"x-max-length": 1}),
    lambda c: c.queue_declare("cr-new", arguments={DEAD: "w-e"}),
    lambda c: c.queue_declare("r-q", passive=True),
    lambda c: c.exchange_declare("c-newe"),
    lambda c: c.exchange_declare("cr-newe", arguments={ELSE: "w-e"}),
    lambda c: c.exchange_declare("w-e", passive=True),
    lambda c: c.queue_purge("r-q"),
    lambda c: c.basic_get("r-q"),
    lambda c: c.basic_consume("r-q", print),
    lambda c: c.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True),
    lambda c: c.queue_bind("w-q", "r-e", "k"),
    lambda c: c.queue_unbind("w-q", "r-e", "k"),
    lambda c: c.exchange_bind("w-e", "r-e", "k"),
    lambda c: c.exchange_unbind("w-e", "r-e", "k"),
    publish("w-e"),
    publish("", "w-q"),
]
OTHERWISE: list[tuple[int, str, Action]] = [
    (404, "no queue 'w-none'", lambda c: c.queue_bind("w-none", "r-e", "k")),
    (404, "no exchange 'r-none'", lambda c: c.queue_bind("w-q", "r-none", "k")),
    (404, "no exchange 'w-none'", publish("w-none")),
    (403, "not permitted on the default exchange", lambda c: c.queue_bind("w-q", "", "k")),
    (403, "not permitted on the default exchange", lambda c: c.exchange_delete("")),
    (403, "deletion of system exchange", lambda c: c.exchange_delete("amq.direct")),
    (403, "contains reserved prefix", lambda c: c.queue_declare("amq.new")),
    (406, "invalid type", lambda c: c.queue_declare("cr-4", arguments={DEAD: 4})),
]


@pytest.mark.parametrize(("what", "action"), REFUSED)
def test_what_is_not_permitted_is_refused(some: Account, what: str, action: Action) -> None:
    channel = some.channel()
    assert closed_with(lambda: action(channel)) == some.refused(what)
    channel.connection.close()


def test_what_is_permitted_is_done(some: Account) -> None:
    connection = some.open()
    for action in ALLOWED:
        channel = connection.channel()
        action(channel)
        channel.close()
    connection.close()


def test_other_mistakes_are_told_in_rabbitmqs_order(some: Account) -> None:
    connection = some.open()
    for code, text, action in OTHERWISE:
        channel = connection.channel()
        found = closed_with(lambda action=action, channel=channel: action(channel))  # type: ignore[misc]
        assert (found[0], text in found[1]) == (code, True), found
    connection.close()


def test_generated_names_need_permission_too(some: Account) -> None:
    channel = some.channel()
    code, text = closed_with(lambda: channel.queue_declare(""))
    assert code == 403
    assert text.startswith("ACCESS_REFUSED - access to queue 'amq.gen-")
    channel.connection.close()


def denied(open_it: Callable[[], object]) -> str:
    """The text with which connection.open is refused."""
    with pytest.raises(ProbableAccessDeniedError) as refused:
        open_it()
    text = str(refused.value)
    assert "(530)" in text
    return text.replace("\\'", "'")


def test_without_permission_nobody_enters(account: Account) -> None:
    text = denied(account.open)
    assert f"access to vhost '{account.vhost}' refused for user '{account.user}'" in text
    account.allow("", "", "")
    account.open()
    account.ctl("clear_permissions", "-p", account.vhost, account.user)
    denied(account.open)
    account.vhost, there = "nowhere", account.vhost
    assert "vhost nowhere not found" in denied(account.open)
    account.vhost = there


def test_a_changed_password_is_the_only_one(account: Account) -> None:
    account.allow("", "", "")
    account.ctl("change_password", account.user, "another")
    account.open("another")
    with pytest.raises(ProbableAuthenticationError):
        account.open()
    account.ctl("clear_password", account.user)
    for password in ("another", ""):
        with pytest.raises(AMQPConnectionError):
            account.open(password)


def test_routing_keys_of_topic_exchanges(account: Account) -> None:
    account.allow(".*", ".*", ".*")
    channel = account.channel()
    channel.exchange_declare("news", "topic")
    channel.exchange_declare("plain", "direct")
    channel.queue_declare("q")
    for exchange in ("news", "plain"):
        patterns = "^{username}\\.", "^{vhost}|^{client_id}$"
        account.ctl("set_topic_permissions", "-p", account.vhost, account.user, exchange, *patterns)
    publish("news", f"{account.user}.x")(channel)
    publish("plain", "x")(channel)
    for key in (f"{account.vhost}.x", "{client_id}"):
        channel.queue_bind("q", "news", key)
    refusal = account.refused("topic 'x' in exchange 'news'")
    for action in (
        publish("news", "x"),
        lambda c: c.queue_bind("q", "news", "x"),
        lambda c: c.queue_unbind("q", "news", "x"),
        lambda c: c.exchange_bind("plain", "news", "x"),
    ):
        other = account.channel()
        assert closed_with(lambda action=action, other=other: action(other)) == refusal  # type: ignore[misc]
    account.ctl("clear_topic_permissions", "-p", account.vhost, account.user)
    publish("news", "x")(account.channel())


def test_only_impersonators_publish_in_others_names(account: Account) -> None:
    account.allow(".*", ".*", ".*")

    def forge(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish("amq.direct", "k", b"", pika.BasicProperties(user_id="other"))

    code, text = closed_with(lambda: forge(account.channel()))
    told = f"user_id property set to 'other' but authenticated user was '{account.user}'"
    assert (code, text) == (406, f"PRECONDITION_FAILED - {told}")
    account.ctl("set_user_tags", account.user, "impersonator")
    forge(account.channel())


def closing(connection: BlockingConnection) -> tuple[int, str]:
    """With which the broker closes the connection by itself."""
    with pytest.raises(ConnectionClosedByBroker) as closed:
        wait_until(connection, lambda: connection.is_closed)
    return closed.value.reply_code, closed.value.reply_text


def test_connections_of_a_deleted_user_end(account: Account) -> None:
    account.allow("", "", "")
    connection = account.open()
    account.ctl("delete_user", account.user)
    text = f"CONNECTION_FORCED - user '{account.user}' is deleted"
    assert closing(connection) == (320, text)
    with pytest.raises(ProbableAuthenticationError):
        account.open()


def test_a_deleted_vhost_is_gone_with_all_that_was_in_it(account: Account) -> None:
    account.allow(".*", ".*", ".*")
    channel = account.channel()
    channel.queue_declare("q", durable=True)
    channel.exchange_declare("x", durable=True)
    channel.queue_bind("q", "x", "k")
    account.ctl("delete_vhost", account.vhost)
    forced = f"CONNECTION_FORCED - vhost '{account.vhost}' is "
    assert closing(channel.connection) in [(320, forced + how) for how in ("deleted", "down")]
    assert f"vhost {account.vhost} not found" in denied(account.open)
    account.ctl("add_vhost", account.vhost)
    denied(account.open)
    account.allow(".*", ".*", ".*")
    with pytest.raises(ChannelClosedByBroker) as missing:
        account.channel().queue_declare("q", passive=True)
    assert missing.value.reply_code == 404


def test_the_same_name_in_two_vhosts_is_two_queues(
    account: Account, ctl: Ctl, connect: Connect
) -> None:
    other = Account(ctl, connect)
    try:
        channels = []
        for each in (account, other):
            each.allow(".*", ".*", ".*")
            channels.append(each.channel())
            channels[-1].queue_declare("q")
            channels[-1].confirm_delivery()
            channels[-1].queue_bind("q", "amq.fanout")
        channels[0].basic_publish("amq.fanout", "", b"first")
        assert channels[1].basic_get("q")[2] is None
        assert channels[0].basic_get("q", auto_ack=True)[2] == b"first"
        channels[0].queue_delete("q")
        assert channels[1].queue_declare("q", passive=True).method.message_count == 0
        account.vhost, there = other.vhost, account.vhost
        denied(account.open)
        account.vhost = there
    finally:
        other.close()


def test_limits_of_a_vhost(account: Account) -> None:
    account.allow(".*", ".*", ".*")
    limits = '{"max-connections": 1, "max-queues": 1}'
    account.ctl("set_vhost_limits", "-p", account.vhost, limits)
    connection = account.open()
    refusal = f"access to vhost '{account.vhost}' refused for user '{account.user}'"
    assert f"{refusal}: connection limit (1) is reached" in denied(account.open)
    channel = connection.channel()
    channel.queue_declare("one")
    channel.queue_declare("one")
    text = f"cannot declare queue 'two': queue limit in vhost '{account.vhost}' (1) is reached"
    assert closed_with(lambda: channel.queue_declare("two")) == (
        406,
        f"PRECONDITION_FAILED - {text}",
    )
    account.ctl("clear_vhost_limits", "-p", account.vhost)
    account.channel().queue_declare("two")


def test_limits_of_a_user(account: Account) -> None:
    account.allow(".*", ".*", ".*")
    account.ctl("set_user_limits", account.user, '{"max-connections": 1, "max-channels": 2}')
    connection = account.open()
    refusal = f"connection refused for user '{account.user}'"
    assert f"{refusal}: user connection limit (1) is reached" in denied(account.open)
    connection.channel()
    connection.channel()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.channel()
    assert (closed.value.reply_code, closed.value.reply_text) == (
        530,
        f"NOT_ALLOWED - number of channels opened for user '{account.user}' has reached the maximum"
        " allowed user limit of (2)",
    )
    account.ctl("clear_user_limits", account.user, "all")
    account.open()
    account.open()
