"""Goal: what a stream or a quorum queue cannot do is refused, with RabbitMQ's code and words, and
nothing of a classic queue is.

Method: queues that are no more than what the rules look at; each rule, on both sides of it.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluicemq.amqp.methods import BasicConsume
from sluicemq.amqp.types import Timestamp
from sluicemq.chain.channel import type_rules as rules
from sluicemq.chain.queue.queue import Queue
from sluicemq.errors import ProtocolViolation
from support.fakes import bystander


class Definition:
    def __init__(self, kind: str, arguments: dict[str, object]) -> None:
        self.type = kind
        self.arguments = arguments


class SomeQueue(Queue):
    """A queue without a virtual host around it."""

    def __init__(self, kind: str, **arguments: object) -> None:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.definition = cast(Any, Definition(kind, given))
        self.title = "queue 'q' in vhost '/'"


STREAM = SomeQueue("stream")
CLASSIC = SomeQueue("classic")
QUORUM = SomeQueue("quorum")


def consume(queue: Queue = STREAM, *, count: int = 10, limit: int = 0, **given: object) -> None:
    offset = given.pop("offset", None)
    arguments = dict(given.pop("arguments", {}))  # type: ignore[call-overload]
    if offset is not None:
        arguments["x-stream-offset"] = offset
    method = BasicConsume(queue="q", arguments=arguments, **given)  # type: ignore[arg-type]
    rules.check_consume(queue, method, count, limit)


def refusal(**given: Any) -> tuple[int, str]:
    with pytest.raises(ProtocolViolation) as told:
        consume(**given)
    return told.value.code, told.value.reply_text.partition(" - ")[2]


def test_nothing_is_taken_out_of_a_stream() -> None:
    with pytest.raises(ProtocolViolation) as told:
        rules.check_has(STREAM, "basic.get")
    assert told.value.code == 540
    assert (
        told.value.reply_text.partition(" - ")[2]
        == "basic.get not supported by stream queues queue 'q' in vhost '/'"
    )
    rules.check_has(CLASSIC, "basic.get")


def test_a_reader_needs_a_prefetch_of_its_own() -> None:
    code, text = refusal(count=0)
    assert (code, text) == (406, "consumer prefetch count is not set for 'queue 'q' in vhost '/''")
    code, text = refusal(limit=5)
    assert (code, text) == (540, "queue 'q' in vhost '/' does not support global qos")
    consume()


def test_a_reader_acknowledges_and_has_no_priority() -> None:
    code, text = refusal(no_ack=True)
    assert code == 540
    assert "automatic acknowledgement not supported" in text
    code, text = refusal(arguments={"x-priority": 1})
    assert code == 406
    assert text.startswith("invalid arg 'x-priority' for queue 'q'")
    assert text.endswith("of queue type rabbit_stream_queue")


@pytest.mark.parametrize("offset", ["first", "last", "next", 0, 17, -5, "3h", Timestamp(1000)])
def test_where_to_begin_is_a_word_an_offset_a_time_or_an_age(offset: object) -> None:
    consume(offset=offset)


@pytest.mark.parametrize("offset", ["", "soon", "h", "0h", "5x", True, 1.5])
def test_what_is_none_of_these_is_refused(offset: object) -> None:
    code, text = refusal(offset=offset)
    assert code == 406
    assert text.startswith("invalid arg 'x-stream-offset' for queue 'q' in vhost '/': ")
    assert "{invalid_stream_offset_arg,{" in text


def test_a_classic_queue_has_no_offset_and_no_other_rule() -> None:
    code, text = refusal(queue=CLASSIC, offset="first")
    assert (code, text) == (
        406,
        "invalid arg 'x-stream-offset' for queue 'q' in vhost '/' of queue type"
        " rabbit_classic_queue",
    )
    consume(CLASSIC, count=0, limit=5, no_ack=True, arguments={"x-priority": 1})


def test_a_quorum_queue_has_no_offset_nor_a_count_for_a_whole_channel() -> None:
    code, text = refusal(queue=QUORUM, offset="first")
    assert (code, text) == (
        406,
        "invalid arg 'x-stream-offset' for queue 'q' in vhost '/' of queue type"
        " rabbit_quorum_queue",
    )
    code, text = refusal(queue=QUORUM, count=0, limit=5)
    assert (code, text) == (540, "queue 'q' in vhost '/' does not support global qos")
    consume(QUORUM, count=0, no_ack=True, arguments={"x-priority": 1})


@pytest.mark.parametrize(
    ("kind", "alone", "code"),
    [
        ("classic", False, 0),
        ("classic", True, 0),
        ("quorum", False, 0),
        ("quorum", True, 405),
        ("stream", False, 540),
    ],
)
def test_what_can_be_got_one_by_one(kind: str, alone: bool, code: int) -> None:
    queue = SomeQueue(kind, x_single_active_consumer=alone)
    if not code:
        rules.check_get(queue)
        return
    with pytest.raises(ProtocolViolation) as told:
        rules.check_get(queue)
    assert told.value.code == code


def test_who_gets_beside_a_single_active_consumer_is_told_so() -> None:
    with pytest.raises(ProtocolViolation) as told:
        rules.check_get(SomeQueue("quorum", x_single_active_consumer=True))
    assert told.value.reply_text == (
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get"
        " operations are not supported by quorum queues with single active consumer"
    )


def test_what_was_read_of_a_stream_cannot_be_given_back() -> None:
    rules.check_settle([CLASSIC, bystander()])
    rules.check_settle([])
    with pytest.raises(ProtocolViolation, match=r"basic\.nack and basic\.reject") as told:
        rules.check_settle([CLASSIC, STREAM])
    assert told.value.code == 540
