"""The errors for a peer that breaks the framing: RabbitMQ's codes in RabbitMQ's words.

All of them close the connection. Octets are shown as Erlang shows them.
"""

from __future__ import annotations

from typing import Final

from sluicemq.amqp.method import Method
from sluicemq.amqp.types import SHORTSTR_MAX
from sluicemq.errors import REPLY_NAMES, ConnectionViolation

FRAME_ERROR: Final = 501
COMMAND_INVALID: Final = 503
UNEXPECTED_FRAME: Final = 505
SHOWN_OCTETS: Final = 16
ERLANG_COLUMNS: Final = 80
"""The column at which Erlang breaks the lines of what it prints."""
PRINTABLE: Final = frozenset(range(32, 127))


def violation(code: int, text: str, class_id: int = 0, method_id: int = 0) -> ConnectionViolation:
    """Return the error with its reply text cut to what a short string holds."""
    room = SHORTSTR_MAX - len(f"{REPLY_NAMES[code]} - ")
    if len(text) > room:
        text = text[: room - 3] + "..."
    return ConnectionViolation(code, text, class_id, method_id)


def show(raw: bytes) -> str:
    """Return a binary as Erlang prints it."""
    if raw and PRINTABLE.issuperset(raw):
        text = raw.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    # A reply text holds no more; without this a large frame would make a far larger text.
    return f"<<{','.join(map(str, raw[:SHORTSTR_MAX]))}>>"


def describe(kind: int, payload: bytes) -> str:
    """Return a frame's type and first octets in RabbitMQ's words."""
    which = "all" if len(payload) <= SHOWN_OCTETS else f"first {SHOWN_OCTETS}"
    return f"type {kind}, {which} octets = {show(payload[:SHOWN_OCTETS])}"


def unknown_frame(kind: int, payload: bytes) -> ConnectionViolation:
    return violation(FRAME_ERROR, f"{describe(kind, payload)}: unknown_frame")


def unexpected_frame(kind: int, payload: bytes) -> ConnectionViolation:
    return violation(UNEXPECTED_FRAME, describe(kind, payload))


def invalid_end(kind: int, payload: bytes, mark: int) -> ConnectionViolation:
    head = f"{describe(kind, payload)}: {{"
    term = f"invalid_frame_end_marker,{mark}}}"
    if len(head) + len(term) > ERLANG_COLUMNS:
        term = term.replace(",", ",\n" + " " * len(head))
    return violation(FRAME_ERROR, head + term)


def frame_too_large(kind: int, size: int, limit: int) -> ConnectionViolation:
    return violation(FRAME_ERROR, f"{describe(kind, b'')}: {{frame_too_large,{size},{limit}}}")


def unknown_method(class_id: int, method_id: int) -> ConnectionViolation:
    """Return the error for an unknown method. RabbitMQ closes the socket without connection.close
    in this case."""
    return violation(COMMAND_INVALID, f"unknown method {class_id}.{method_id}", class_id, method_id)


def cannot_decode(raw: bytes, class_id: int, method_id: int) -> ConnectionViolation:
    return violation(FRAME_ERROR, f"cannot decode {show(raw)}", class_id, method_id)


def malformed_text() -> ConnectionViolation:
    return violation(FRAME_ERROR, "Malformed UTF-8 in shortstr")


def method_expected() -> ConnectionViolation:
    return violation(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")


def header_expected(method: Method) -> ConnectionViolation:
    return violation(
        UNEXPECTED_FRAME,
        f"expected content header for class {method.class_id},"
        " got non content header frame instead",
        method.class_id,
        method.method_id,
    )


def other_header_expected(method: Method, class_id: int) -> ConnectionViolation:
    return violation(
        UNEXPECTED_FRAME,
        f"expected content header for class {method.class_id},"
        f" got one for class {class_id} instead",
        method.class_id,
        method.method_id,
    )


def body_expected(method: Method) -> ConnectionViolation:
    return violation(
        UNEXPECTED_FRAME,
        "expected content body, got non content body frame instead",
        method.class_id,
        method.method_id,
    )


def body_too_long(method: Method, size: int, left: int) -> ConnectionViolation:
    """Return the error for body frames that hold more than announced. RabbitMQ waits for ever in
    this case."""
    return violation(
        FRAME_ERROR,
        f"content body of {size} bytes where {left} were left to come",
        method.class_id,
        method.method_id,
    )
