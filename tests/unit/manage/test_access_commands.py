"""Goal: rabbitmqctl's commands for users, permissions, virtual hosts and limits do what they say
and refuse with its exit codes. Method: a node, the commands one after the other, what they list.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.connection.reader import CLOSING
from sluicemq.manage.command import DATA, NO_USER, SOFTWARE, UNAVAILABLE
from sluicemq.model.passwords import DEFAULT_ALGORITHM, is_right

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    one.do("add_user", username="ann", password="s3cret")
    one.do("add_vhost", vhost="v", description="second", tags="a,b", default_queue_type="stream")
    return one


def test_users(bench: Bench) -> None:
    bench.do("set_user_tags", username="ann", tags=["administrator", "monitoring"])
    assert bench.do("list_users") == [
        {"user": "guest", "tags": ["administrator"]},
        {"user": "ann", "tags": ["administrator", "monitoring"]},
    ]
    bench.do("authenticate_user", username="ann", password="s3cret")
    bench.do("change_password", username="ann", password="other")
    wrong = bench.ask("authenticate_user", username="ann", password="s3cret")
    assert (wrong.code, "invalid credentials" in wrong.error) == (DATA, True)
    bench.do("authenticate_user", username="ann", password="other")
    assert bench.do("list_users")[1]["tags"] == ["administrator", "monitoring"]
    bench.do("clear_password", username="ann")
    for password in ("other", ""):
        assert bench.ask("authenticate_user", username="ann", password=password).error
    bench.do("delete_user", username="ann")
    assert [row["user"] for row in bench.do("list_users")] == ["guest"]
    again = bench.ask("delete_user", username="ann")
    assert (again.code, again.error) == (NO_USER, 'User "ann" does not exist')


def test_a_user_is_added_once_and_has_a_name(bench: Bench) -> None:
    twice = bench.ask("add_user", username="ann", password="x")
    assert (twice.code, twice.error) == (SOFTWARE, 'User "ann" already exists')
    for name in ("", "ü" * 128):
        assert bench.ask("add_user", username=name, password="x").code == DATA


def test_a_hash_is_printed_and_not_kept(bench: Bench) -> None:
    ((name, value),) = bench.do("hash_password", password="p")[0].items()
    assert name == "password_hash"
    assert isinstance(value, str)
    assert is_right("p", value, DEFAULT_ALGORITHM)


def test_permissions(bench: Bench) -> None:
    patterns = {"configure": "^a", "write": ".*", "read": ""}
    bench.do("set_permissions", username="ann", vhost="v", **patterns)
    assert bench.do("list_permissions", vhost="v") == [{"user": "ann", "vhost": "v", **patterns}]
    (row,) = bench.do("list_user_permissions", username="ann")
    assert row["vhost"] == "v"
    topic = {"exchange": "amq.topic", "write": "^{username}", "read": ".*"}
    bench.do("set_topic_permissions", username="ann", vhost="v", **topic)
    bench.do("set_topic_permissions", username="ann", vhost="v", **{**topic, "exchange": "x"})
    listed = bench.do("list_topic_permissions", vhost="v")
    assert listed[0] == {"user": "ann", "vhost": "v", **topic}
    bench.do("clear_topic_permissions", username="ann", vhost="v", exchange="x")
    assert len(bench.do("list_user_topic_permissions", username="ann")) == 1
    bench.do("clear_topic_permissions", username="ann", vhost="v", exchange=None)
    bench.do("clear_permissions", username="ann", vhost="v")
    bench.do("clear_permissions", username="ann", vhost="v")
    assert bench.do("list_user_permissions", username="ann") == []
    assert bench.do("list_user_topic_permissions", username="ann") == []


ONE = {"component": "c", "name": "n", "value": "1"}


@pytest.mark.parametrize(
    ("command", "more", "code", "text"),
    [
        ("set_permissions", {"configure": "("}, UNAVAILABLE, "regular expression '(' is invalid"),
        ("set_permissions", {"username": "bob"}, NO_USER, 'User "bob" does not exist'),
        ("set_permissions", {"vhost": "w"}, DATA, "Virtual host 'w' does not exist"),
        ("set_topic_permissions", {"read": "["}, UNAVAILABLE, "is invalid"),
        ("clear_permissions", {"username": "bob"}, NO_USER, "does not exist"),
        ("list_permissions", {"vhost": "w"}, DATA, "does not exist"),
        ("list_user_permissions", {"username": "bob"}, NO_USER, "does not exist"),
        ("delete_vhost", {"vhost": "w"}, DATA, "Virtual host 'w' does not exist"),
        ("add_vhost", {"vhost": ""}, DATA, "1 to 255 bytes"),
        ("add_vhost", {"vhost": "w", "default_queue_type": "x"}, UNAVAILABLE, "no queue type x"),
        ("set_vhost_limits", {"definition": "x"}, UNAVAILABLE, "JSON decoding error"),
        ("set_vhost_limits", {"definition": "[]"}, UNAVAILABLE, "not a JSON object"),
        ("set_vhost_limits", {"definition": '{"max-queues": "1"}'}, DATA, "whole number"),
        ("set_vhost_limits", {"definition": '{"max-channels": 1}'}, DATA, "no limit"),
        ("set_user_limits", {"definition": '{"max-queues": 1}'}, DATA, "no limit"),
        ("clear_vhost_limits", {}, UNAVAILABLE, "Parameter does not exist"),
        ("list_user_limits", {"user": "bob"}, NO_USER, "does not exist"),
        ("set_topic_permissions", {"exchange": "é" * 128}, DATA, "longer than 255 bytes"),
        ("set_policy", {"name": "é" * 128}, DATA, "longer than 255 bytes"),
        ("set_operator_policy", {"name": "n" * 256}, DATA, "longer than 255 bytes"),
        ("set_parameter", {**ONE, "name": "n" * 256}, DATA, "name is longer than 255 bytes"),
        ("set_parameter", {**ONE, "component": "n" * 256}, DATA, "component is longer"),
        ("set_global_parameter", {**ONE, "name": "n" * 256}, DATA, "longer than 255 bytes"),
    ],
)
def test_what_cannot_be_is_refused(
    bench: Bench, command: str, more: dict[str, str], code: int, text: str
) -> None:
    given = {"configure": "", "write": "", "read": "", "exchange": "x", "definition": "{}"}
    answer = bench.ask(command, **{"username": "ann", "vhost": "v", **given, **more})
    assert (answer.code, text in answer.error) == (code, True), answer


def test_vhosts(bench: Bench) -> None:
    bench.do("add_vhost", vhost="v", description="again")
    assert bench.do("list_vhosts")[1] == {
        "name": "v",
        "description": "second",
        "tags": ["a", "b"],
        "tracing": False,
        "default_queue_type": "stream",
    }
    bench.do("delete_vhost", vhost="v")
    assert [row["name"] for row in bench.do("list_vhosts")] == ["/"]


def test_limits(bench: Bench) -> None:
    limits = {"max-connections": 1, "max-queues": -1}
    bench.do("set_vhost_limits", vhost="v", definition='{"max-connections": 1, "max-queues": -1}')
    assert bench.do("list_vhost_limits", vhost="v") == [{"vhost": "v", "limits": limits}]
    assert bench.do("list_vhost_limits", vhost="/") == [{"vhost": "/", "limits": {}}]
    assert bench.do("list_vhost_limits", global_=True) == [{"vhost": "v", "limits": limits}]
    bench.do("clear_vhost_limits", vhost="v")
    bench.do("set_user_limits", username="ann", definition='{"max-connections": 1}')
    bench.do("set_user_limits", username="ann", definition='{"max-channels": 2}')
    both = [{"user": "ann", "limits": {"max-connections": 1, "max-channels": 2}}]
    assert bench.do("list_user_limits") == bench.do("list_user_limits", user="ann") == both
    bench.do("clear_user_limits", username="ann", limit_type="max-channels")
    bench.do("clear_user_limits", username="ann", limit_type="max-channels")
    assert bench.do("list_user_limits")[0]["limits"] == {"max-connections": 1}
    bench.do("clear_user_limits", username="ann", limit_type="all")
    assert bench.do("list_user_limits", global_=True) == []


def test_a_command_is_answered_when_it_is_durable(bench: Bench) -> None:
    bench.disk.slow = True
    answers = bench.begin("add_user", username="bob", password="x")
    bench.settle()
    assert answers == []
    bench.disk.catch_up()
    bench.settle()
    assert [answer.error for answer in answers] == [""]


def test_the_last_vhost_may_go_with_its_connections(bench: Bench) -> None:
    bench.do("delete_vhost", vhost="/")
    assert bench.reader.phase == CLOSING
    assert [row["name"] for row in bench.do("list_vhosts")] == ["v"]
