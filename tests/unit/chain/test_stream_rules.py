"""Goal: what a stream cannot do is refused, with RabbitMQ's code and words, and nothing of a
classic queue is.

Method: queues that are no more than what the rules look at; each rule, on both sides of it.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluicemq.amqp.methods import BasicConsume
from sluicemq.amqp.types import Timestamp
from sluicemq.chain.channel import stream_rules as rules
from sluicemq.chain.queue.queue import Queue
from sluicemq.errors import ProtocolViolation
from support.fakes import bystander


class Definition:
    def __init__(self, kind: str) -> None:
        self.type = kind


class SomeQueue(Queue):
    """A queue without a virtual host around it."""

    def __init__(self, kind: str) -> None:
        self.definition = cast(Any, Definition(kind))
        self.title = "queue 'q' in vhost '/'"


STREAM = SomeQueue("stream")
CLASSIC = SomeQueue("classic")


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


def test_what_was_read_of_a_stream_cannot_be_given_back() -> None:
    rules.check_settle([CLASSIC, bystander()])
    rules.check_settle([])
    with pytest.raises(ProtocolViolation, match=r"basic\.nack and basic\.reject") as told:
        rules.check_settle([CLASSIC, STREAM])
    assert told.value.code == 540
