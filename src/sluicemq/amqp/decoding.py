"""Method frames of a buffer as methods."""

from __future__ import annotations

import struct
from typing import Final

from sluicemq.amqp import violations
from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.frames import METHOD, OVERHEAD
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import METHODS
from sluicemq.amqp.types import Malformed, MalformedText

METHOD_ARGS: Final = 11
"""The offset of a method's arguments in its frame."""
METHOD_IDS_AT: Final = 7
METHOD_IDS: Final = struct.Struct(">I")
CONNECTION_CLOSE: Final = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final = 10 << 16 | 51


def decode_method(buf: bytes, key: int, pos: int, end: int) -> Method:
    """Decode the method in the frame from `pos` to `end`, whose class and method ids are `key`.
    Raises ConnectionViolation when there is no such method, or it is malformed."""
    cls = METHODS.get(key)
    if cls is None:
        raise violations.unknown_method(key >> 16, key & 0xFFFF)
    try:
        return cls.decode_args(buf, pos + METHOD_ARGS, end - 1)
    except MalformedText as text_error:
        raise violations.malformed_text() from text_error
    except Malformed as error:
        raw = buf[pos + METHOD_ARGS : end - 1]
        raise violations.cannot_decode(raw, cls.class_id, cls.method_id) from error


def last_words(buf: bytes, kind: int, channel: int, pos: int, end: int) -> MethodFrame | None:
    """Return the method in a frame that comes while the connection closes, if it is one of those
    that count then: connection.close and close-ok."""
    if kind != METHOD or channel or end - pos < OVERHEAD + METHOD_IDS.size:
        return None
    key = METHOD_IDS.unpack_from(buf, pos + METHOD_IDS_AT)[0]
    if key not in (CONNECTION_CLOSE, CONNECTION_CLOSE_OK):
        return None
    try:
        method = METHODS[key].decode_args(buf, pos + METHOD_ARGS, end - 1)
    except Malformed:
        return None
    return MethodFrame(channel, method, buf[pos:end])
