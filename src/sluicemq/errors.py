"""Whose fault it is: the peer's (AMQP reply codes), the user's, or ours (assert).

AMQP knows two strengths of refusal: a channel error closes one channel, a connection error
closes the whole connection. The reply codes and names are those of AMQP 0-9-1 section 1.2;
the texts are RabbitMQ's.
"""

from __future__ import annotations

from typing import Final

from sluicemq.text import cut, readable

NO_ROUTE: Final = 312

REPLY_NAMES: Final[dict[int, str]] = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}


class SluiceError(Exception):
    """The root of all errors this package raises on purpose."""


class Refused(SluiceError):
    """The user asked for something impossible: a wrong option, a bad configuration value.
    `exit_code` is that of the refused command."""

    exit_code = 2


class LossRefused(Refused):
    """Something that must be in the data directory is missing, and the operator has not accepted
    that."""


class ProtocolViolation(SluiceError):
    """The peer broke AMQP or asked for something that the broker refuses.

    `code` is the AMQP reply code; `reply_text` is what goes on the wire, RabbitMQ's
    "NAME - explanation", in UTF-8 whatever is quoted in it; `class_id` and `method_id` name the
    method at fault (0, 0: none).
    """

    def __init__(self, code: int, text: str = "", class_id: int = 0, method_id: int = 0) -> None:
        name = REPLY_NAMES[code]
        self.code = code
        self.reply_text = f"{name} - {readable(text)}" if text else name
        self.class_id = class_id
        self.method_id = method_id
        super().__init__(f"{code} {self.reply_text}")

    def short_text(self) -> str:
        """Return the reply text as far as a short string (255 bytes) holds it."""
        return cut(self.reply_text, 255)


class ChannelViolation(ProtocolViolation):
    """A violation that closes the peer's channel; the connection and its other channels live on."""


class ConnectionViolation(ProtocolViolation):
    """A violation that closes the peer's connection."""


class HandshakeFailed(SluiceError):
    """The peer must be dropped without an AMQP close (as RabbitMQ does before authentication)."""


class TlsFailed(SluiceError):
    """TLS of a connection has failed, for the reason that this says in words."""


class DiskFailed(SluiceError):
    """The system refused an operation on a file. `code` is errno's name, such as EIO or ENOSPC."""

    def __init__(self, action: str, path: str, code: str) -> None:
        self.action = action
        self.path = path
        self.code = code
        super().__init__(f"{action} {path}: {code}")

    @property
    def is_full(self) -> bool:
        """Tell whether there was no space: there may be again, and the operation may then be tried
        again."""
        return self.code in ("ENOSPC", "EDQUOT")


class Corrupt(SluiceError):
    """A file of the broker does not hold what was written to it."""
