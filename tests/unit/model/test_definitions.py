"""Declared arguments: what is refused, in RabbitMQ's words; what counts as the same declaration."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from sluicemq.errors import ChannelViolation
from sluicemq.model.arguments import show, type_name
from sluicemq.model.definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    check_access,
    check_equivalent_exchange,
    check_equivalent_queue,
    check_name,
    check_unnamed,
    validate_queue,
)

HERE = "for queue 'q' in vhost '/'"


def queue(**options: object) -> QueueDefinition:
    return QueueDefinition("q", **options)  # type: ignore[arg-type]


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(ChannelViolation) as caught:
        action()
    return f"{caught.value.code} {caught.value.reply_text}"


def complaint(arguments: dict[str, object], **options: object) -> str:
    answer = refusal(lambda: validate_queue(queue(arguments=arguments, **options), "/"))
    return answer.removeprefix("406 PRECONDITION_FAILED - ")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("x-message-ttl", "abc", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", {"a": 1}, '"expected integer, got table"'),
        ("x-message-ttl", [1], '"expected integer, got array"'),
        ("x-message-ttl", b"ab", '"expected integer, got binary"'),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 2**40, "{value_too_large,1099511627776}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -3, "{value_negative,-3}"),
        ("x-expires", "a", '"expected integer, got longstr"'),
        ("x-expires", 2**40, "{value_too_large,1099511627776}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "a", '"expected integer, got longstr"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-overflow", "foo", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "a", "routing_key_but_no_dlx_defined"),
        ("x-queue-mode", "foo", "\"unsupported queue mode 'foo'\""),
        ("x-queue-mode", 4, "{unacceptable_type,signedint}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "a", '"expected integer, got longstr"'),
        ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
        ("x-queue-type", 4, "{unacceptable_type,signedint}"),
        ("x-queue-type", "nosuch", "\"unsupported queue type 'nosuch'\""),
    ],
)
def test_refuses_a_wrong_value_as_rabbitmq_does(key: str, value: object, why: str) -> None:
    durable = value == "quorum"
    assert complaint({key: value}, durable=durable) == f"invalid arg '{key}' {HERE}: {why}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": 2**33},
        {"x-max-length": 2**40},
        {"x-max-priority": 255},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": "missing"},
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "b"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 2},
        {"x-queue-type": "classic"},
        {"x-single-active-consumer": True},
        {"x-foo": object()},
    ],
)
def test_accepts_sensible_and_unknown_arguments(arguments: dict[str, object]) -> None:
    validate_queue(queue(arguments=arguments), "/")


def test_names_the_first_wrong_argument_in_rabbitmqs_order() -> None:
    wrong: dict[str, object] = {"x-max-length": "a", "x-message-ttl": "b", "x-expires": "c"}
    assert "'x-expires'" in complaint(wrong)


def test_a_wrong_value_is_named_before_an_argument_that_the_type_does_not_have() -> None:
    wrong = {"x-queue-type": "quorum", "x-queue-mode": "a", "x-quorum-initial-group-size": 0}
    assert "'x-quorum-initial-group-size'" in complaint(wrong, durable=True)


def test_two_texts_of_their_own() -> None:
    assert complaint({"x-dead-letter-exchange": 5}) == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )
    assert complaint({"x-max-age": "1D"}) == (
        f"invalid arg 'x-max-age' {HERE} of queue type rabbit_classic_queue"
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"exclusive": True, "durable": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({}, "non-durable"),
    ],
)
def test_a_quorum_queue_has_properties_to_keep(options: dict[str, object], what: str) -> None:
    answer = complaint({"x-queue-type": "quorum"}, **options)
    assert answer == f"invalid property '{what}' {HERE}"


@pytest.mark.parametrize(
    "key",
    [
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-message-deduplication",
    ],
)
@pytest.mark.parametrize("value", [1, "lazy"])
def test_what_a_quorum_queue_cannot_have_is_refused_whatever_its_value(
    key: str, value: object
) -> None:
    answer = complaint({"x-queue-type": "quorum", key: value}, durable=True)
    assert answer == f"invalid arg '{key}' {HERE} of queue type rabbit_quorum_queue"


@pytest.mark.parametrize("keys", [("x-max-priority", "x-max-age"), ("x-max-age", "x-max-priority")])
def test_of_arguments_that_a_type_cannot_have_the_first_is_refused(keys: tuple[str, str]) -> None:
    answer = complaint({"x-queue-type": "quorum", **dict.fromkeys(keys, 1)}, durable=True)
    assert answer == f"invalid arg '{keys[0]}' {HERE} of queue type rabbit_quorum_queue"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-quorum-initial-group-size", -1, "{value_negative,-1}"),
        ("x-quorum-initial-group-size", True, '"expected integer, got bool"'),
        ("x-dead-letter-strategy", "bad", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 5, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-max-in-memory-bytes", "a", '"expected integer, got longstr"'),
        ("x-delivery-limit", "a", '"expected integer, got longstr"'),
    ],
)
def test_wrong_values_of_what_only_quorum_queues_have(key: str, value: object, why: str) -> None:
    answer = complaint({"x-queue-type": "quorum", key: value}, durable=True)
    assert answer == f"invalid arg '{key}' {HERE}: {why}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-quorum-initial-group-size", 3),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-max-in-memory-length", 0),
        ("x-max-in-memory-bytes", 10),
        ("x-delivery-limit", -1),
        ("x-queue-leader-locator", "balanced"),
    ],
)
def test_a_quorum_queue_may_have_them_and_they_are_compared(key: str, value: object) -> None:
    own = {"x-queue-type": "quorum"}
    existing = queue(durable=True, arguments={**own, key: value})
    validate_queue(existing, "/")
    asked = queue(durable=True, arguments=own)
    answer = refusal(lambda: check_equivalent_queue(existing, asked, "/"))
    assert f"inequivalent arg '{key}' {HERE}: received none but current is the value" in answer


def test_what_a_type_cannot_have_is_not_compared() -> None:
    own = {"x-queue-type": "quorum"}
    asked = queue(durable=True, arguments={**own, "x-max-priority": 5, "x-queue-mode": "a"})
    check_equivalent_queue(queue(durable=True, arguments=own), asked, "/")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_queue_that_lasts_is_named_by_its_client(kind: str) -> None:
    answer = refusal(lambda: check_unnamed(kind))
    text = f"Cannot declare a server-named queue for type rabbit_{kind}_queue"
    assert answer == f"406 PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("kind", [None, "classic", "nosuch", 5])
def test_another_one_may_be_named_by_the_broker(kind: object) -> None:
    check_unnamed(kind)


@pytest.mark.parametrize(
    ("existing", "asked", "text"),
    [
        ({"durable": True}, {}, "'durable' {}: received 'false' but current is 'true'"),
        ({}, {"auto_delete": True}, "'auto_delete' {}: received 'true' but current is 'false'"),
        (
            {},
            {"arguments": {"x-max-length": 5}},
            "'x-max-length' {}: received the value '5' of type 'signedint' but current is none",
        ),
        (
            {"arguments": {"x-queue-mode": "lazy"}},
            {},
            "'x-queue-mode' {}: received none but current is the value 'lazy' of type 'longstr'",
        ),
        (
            {"durable": True, "arguments": {"x-queue-type": "quorum"}},
            {"durable": True},
            "'x-queue-type' {}: received none but current is the value 'quorum' of type 'longstr'",
        ),
        (
            {"arguments": {"x-max-length": 5}},
            {"arguments": {"x-max-length": 6}},
            "'x-max-length' {}: received '6' but current is '5'",
        ),
        (
            {"arguments": {"x-single-active-consumer": True}},
            {"arguments": {"x-single-active-consumer": False}},
            "'x-single-active-consumer' {}: received 'false' but current is 'true'",
        ),
        (
            {},
            {"durable": True, "auto_delete": True, "arguments": {"x-max-length": 5}},
            "'durable' {}: received 'true' but current is 'false'",
        ),
    ],
)
def test_inequivalent_queues_are_told_apart(
    existing: dict[str, object], asked: dict[str, object], text: str
) -> None:
    answer = refusal(lambda: check_equivalent_queue(queue(**existing), queue(**asked), "/"))
    assert answer == f"406 PRECONDITION_FAILED - inequivalent arg {text.format(HERE)}"


@pytest.mark.parametrize(
    ("existing", "asked"),
    [
        ({}, {"arguments": {"x-queue-type": "classic"}}),
        ({"arguments": {"x-foo": 1}}, {"arguments": {"x-foo": [2]}}),
        ({"arguments": {"x-max-length": 5}}, {"arguments": {"x-max-length": 5}}),
    ],
)
def test_equivalent_queues(existing: dict[str, object], asked: dict[str, object]) -> None:
    check_equivalent_queue(queue(**existing), queue(**asked), "/")


def test_an_exclusive_queue_is_its_owners_and_never_durable() -> None:
    mine = queue(exclusive=True, durable=True, owner="c1")
    assert not mine.durable
    check_access(mine, "c1", "/")
    check_access(queue(), "c2", "/")
    check_equivalent_queue(mine, queue(exclusive=True, durable=True, owner="c1"), "/")
    locked = (
        "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property "
        "value does not match that of the original declaration."
    )
    assert refusal(lambda: check_access(mine, "c2", "/")) == locked
    assert refusal(lambda: check_equivalent_queue(mine, queue(), "/")) == locked
    other = queue(exclusive=True, owner="c1")
    assert refusal(lambda: check_equivalent_queue(queue(), other, "/")) == locked


def test_check_equivalent_exchange_compares_the_alternate_exchange_only() -> None:
    one = ExchangeDefinition("x", arguments={"alternate-exchange": "a", "foo": 1})
    check_equivalent_exchange(
        one, ExchangeDefinition("x", arguments={"alternate-exchange": "a"}), "/"
    )
    assert "received 'b' but current is 'a'" in refusal(
        lambda: check_equivalent_exchange(
            one, ExchangeDefinition("x", arguments={"alternate-exchange": "b"}), "/"
        )
    )


def test_reserved_names() -> None:
    check_name("queue", "amq")
    assert refusal(lambda: check_name("queue", "amq.x")) == (
        "403 ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'"
    )


def test_identity_of_bindings_is_deep_and_ignores_the_order_of_arguments() -> None:
    one = BindingDefinition("x", "q", arguments={"a": {"b": [1, {"c": "d"}]}, "e": 2})
    same = BindingDefinition("x", "q", arguments={"e": 2, "a": {"b": [1, {"c": "d"}]}})
    other = BindingDefinition("x", "q", arguments={"e": 2, "a": {"b": [1.0, {"c": "d"}]}})
    assert one.identity == same.identity
    assert one.identity != other.identity


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "signedint"),
        (2**31, "long"),
        (-(2**31) - 1, "long"),
        (datetime(2020, 1, 1, tzinfo=UTC), "timestamp"),
        (Decimal("1.5"), "decimal"),
        (object(), "object"),
    ],
)
def test_type_names(value: object, name: str) -> None:
    assert type_name(value) == name


def test_values_are_shown_as_rabbitmq_shows_them() -> None:
    assert [show(value) for value in (True, False, 5, "a", b"\xff")] == [
        "true",
        "false",
        "5",
        "a",
        "\ufffd",
    ]
