"""Methods: every one comes back as it was written, and the generated file is fresh."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    ALL_METHODS,
    METHODS,
    BasicAck,
    BasicPublish,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
)
from sluicemq.amqp.types import Malformed, MalformedText

from .strategies import bit_patterns, load_generator, methods, places, spoil


def args_of(frame: bytes) -> bytes:
    return frame[11:-1]


@given(methods)
def test_method_comes_back_as_it_was_written(method: Method) -> None:
    frame = method.frame(7)
    kind, channel, size, class_id, method_id = struct.unpack_from(">BHIHH", frame)
    assert (kind, channel, size) == (1, 7, len(frame) - 8)
    assert frame[-1] == 0xCE
    cls = METHODS[class_id << 16 | method_id]
    assert cls is type(method)
    again = cls.decode_args(frame, 11, len(frame) - 1)
    assert again == method
    assert again.encode_args() == method.encode_args()
    assert hash(again) == hash(method)


def check_stable(cls: type[Method], raw: bytes) -> None:
    """What is accepted can be written, and reads the same again."""
    try:
        again = cls.decode_args(raw, 0, len(raw)).encode_args()
    except Malformed:
        return
    assert cls.decode_args(again, 0, len(again)).encode_args() == again


@given(st.sampled_from(ALL_METHODS), st.binary(max_size=60))
def test_method_of_random_bytes_is_stable_or_malformed(cls: type[Method], raw: bytes) -> None:
    check_stable(cls, raw)


@given(methods, places, bit_patterns)
def test_method_with_a_changed_octet_is_stable_or_malformed(
    method: Method, place: int, bits: int
) -> None:
    check_stable(type(method), spoil(method.encode_args(), place, bits))


@pytest.mark.parametrize("cls", ALL_METHODS)
def test_method_refuses_bytes_after_its_arguments(cls: type[Method]) -> None:
    args = cls().encode_args()
    cls.decode_args(args, 0, len(args))
    with pytest.raises(Malformed):
        cls.decode_args(args + b"x", 0, len(args) + 1)
    if args:
        with pytest.raises(Malformed):
            cls.decode_args(args, 0, len(args) - 1)


def test_methods_are_golden() -> None:
    """Against bytes written by hand from the AMQP 0-9-1 grammar."""
    declare = QueueDeclare("abc", durable=True, nowait=True, arguments={"x": 1})
    assert args_of(declare.frame(1)) == b"\0\0\x03abc\x12\0\0\0\x07\x01xI\0\0\0\x01"
    assert BasicAck(258, multiple=True).frame(3) == (
        b"\x01\0\x03\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\x01\x02\x01\xce"
    )
    publish = BasicPublish("x", "key", mandatory=True)
    assert args_of(publish.frame(1)) == b"\0\0\x01x\x03key\x01"
    assert args_of(ConnectionOpen("/").frame(0)) == b"\x01/\0\0"
    assert args_of(ChannelOpenOk().frame(1)) == b"\0\0\0\0"
    assert args_of(QueueDeclareOk("q", 5, 6).frame(1)) == b"\x01q\0\0\0\x05\0\0\0\x06"
    close = ConnectionClose(320, "bye", 10, 20)
    assert args_of(close.frame(0)) == b"\x01\x40\x03bye\0\x0a\0\x14"
    assert TxCommit().frame(1) == b"\x01\0\x01\0\0\0\x04\0\x5a\0\x14\xce"


def test_method_ignores_reserved_fields_and_unused_bits() -> None:
    """RabbitMQ takes a ticket and bits nobody defined."""
    args = b"\xff\xff\x01q\xe4\0\0\0\0"
    assert QueueDeclare.decode_args(args, 0, len(args)) == QueueDeclare("q", exclusive=True)


def test_method_with_text_that_is_not_utf8_is_malformed_text() -> None:
    args = b"\0\0\x03\xff\xfe\xfd\0\0\0\0\0"
    with pytest.raises(MalformedText):
        QueueDeclare.decode_args(args, 0, len(args))


def test_method_says_what_it_is() -> None:
    assert BasicPublish.NAME == "basic.publish"
    assert BasicPublish.has_content
    assert not BasicPublish.synchronous
    assert QueueDeclare.synchronous
    assert repr(BasicAck(5)) == "BasicAck(delivery_tag=5, multiple=False)"
    assert BasicAck(5) != BasicAck(6)
    assert BasicAck(5) != 5


def test_methods_have_unique_ids() -> None:
    assert len(METHODS) == len(ALL_METHODS)


def test_generated_file_is_fresh() -> None:
    """Goal: nobody edits methods.py by hand. Method: write it again in memory and compare."""
    generator = load_generator()
    assert generator.TARGET.read_text() == generator.write_module()
