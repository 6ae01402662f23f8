"""The payload of a method frame: class and method ids, then the arguments."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pamqp.frame
from pamqp.base import Frame
from pamqp.exceptions import PAMQPException

from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ALL_METHODS, METHODS
from sluicemq.amqp.types import Malformed
from targets.second_codec import cannot_read, same, theirs
from targets.target import Target

IDS = struct.Struct(">I")
RESERVED = (
    "capabilities", "channel_id", "cluster_id", "deprecated", "insist", "known_hosts",
    "out_of_band", "ticket",
)  # fmt: skip
"""Fields that pamqp keeps and that mean nothing."""
NOT_THEIRS = ("access.request", "access.request-ok")
"""Methods of AMQP 0-8 that RabbitMQ still answers and pamqp does not know."""


def decode(data: bytes) -> Method | None:
    """The method; None: refused, or there is no such method."""
    if len(data) < IDS.size:
        return None
    made = METHODS.get(IDS.unpack_from(data)[0])
    try:
        return made.decode_args(data, IDS.size, len(data)) if made else None
    except Malformed:
        return None


def check(data: bytes) -> None:
    """Nothing but `Malformed`; not a byte too few or too many; pamqp agrees."""
    method = decode(data)
    if method is None:
        assert not is_written_back(data), "pamqp accepts it"
        return
    assert same(decode(data + b"\xce"), None), "a byte after the arguments is accepted"
    payload = method.frame(1)[7:-1]
    written = decode(payload)
    assert same(written, method), "not what was written"
    for cut in range(IDS.size, len(payload)):
        assert decode(payload[:cut]) is None, "cut arguments are accepted"
    agree(method)


def agree(method: Method) -> None:
    """pamqp reads what we write as the same values."""
    values = [getattr(method, name) for name in method.FIELDS]
    if method.NAME in NOT_THEIRS or any(map(cannot_read, values)):
        return
    _, _, found = pamqp.frame.unmarshal(method.frame(1))
    assert isinstance(found, Frame)
    their_values = [value for name, value in found if name not in RESERVED]
    our_values = [in_method(value) for value in values]
    assert same(their_values, our_values), "pamqp reads other values"


def in_method(value: object) -> object:
    """A field of ours as pamqp has it."""
    if isinstance(value, dict):
        return theirs(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, int) and value > 2**63 - 1:
        return value - 2**64  # pamqp reads a tag as a signed number, RabbitMQ as we do
    return value


def is_written_back(data: bytes) -> bool:
    """Does pamqp take the method and write the very same bytes?"""
    raw = b"\x01\0\x01" + IDS.pack(len(data)) + data + b"\xce"
    try:
        _, _, found = pamqp.frame.unmarshal(raw)
        return pamqp.frame.marshal(found, 1) == raw
    except (PAMQPException, ValueError, TypeError, OverflowError, OSError, ArithmeticError):
        return False
    except (struct.error, RecursionError, AttributeError, IndexError):
        return False


def seeds() -> Iterator[bytes]:
    """Each method with nothing in it, and with something in every field."""
    for made in ALL_METHODS:
        yield made().frame(1)[7:-1]
        yield filled(made()).frame(1)[7:-1]
    yield b"\0\x3c\0"
    yield b"\0\x3c\0\x63"


def filled(method: Method) -> Method:
    """The method with something in each field."""
    for name in method.FIELDS:
        value = getattr(method, name)
        if isinstance(value, bool):
            setattr(method, name, True)
        elif isinstance(value, int):
            setattr(method, name, 7)
        elif isinstance(value, str):
            setattr(method, name, name)
        elif isinstance(value, bytes):
            setattr(method, name, b"\0guest\0guest")
        else:
            setattr(method, name, {"x-max-length": 10, "capabilities": {"basic.nack": True}})
    return method


TARGET = Target("method", check, decode, seeds, base_bytes=20_000, factor=120)
