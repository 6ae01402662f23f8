"""From connection.start to connection.open: who the client is, how large frames may be, which
virtual host.

    start -> start-ok -> tune -> tune-ok, open -> open-ok

An error before tune-ok closes the socket without a reply, as in RabbitMQ; only a refused login is
reported to clients that announce the capability authentication_failure_close.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.amqp.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from sluicemq.amqp.types import Malformed, decode_table
from sluicemq.errors import ConnectionViolation, HandshakeFailed
from sluicemq.text import text_of

if TYPE_CHECKING:
    from sluicemq.access.access import Access
    from sluicemq.amqp.method import Method
    from sluicemq.amqp.types import Table
    from sluicemq.config import Config

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
)
FRAME_MAX_LEAST: Final = 4096
"""AMQP 0-9-1 section 4.2.2: every peer must take frames of this size."""


EXTERNAL: Final = "EXTERNAL"
CHANNEL_MAX_MOST: Final = 65_535

PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
OLDER: Final = (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x00\x09")
"""The protocol headers of 0-8 and 0-9 clients, which RabbitMQ greets like 0-9-1 ones."""
STRANGERS: Final = (
    (b"\x16\x03", ", but TLS, for which there is another port (listeners.ssl.default)"),
    (b"GET ", ", but HTTP"),
    (b"POST", ", but HTTP"),
    (b"HEAD", ", but HTTP"),
)


def stranger(header: bytes) -> str:
    """Return what a header that is not AMQP 0-9-1 seems to be, for the log; "" when that is not
    known."""
    return next((text for start, text in STRANGERS if header.startswith(start)), "")


class Handshake:
    """The negotiation of one connection; `receive` takes the client's methods in order."""

    def __init__(
        self,
        config: Config,
        from_loopback: bool,
        access: Access,
        certificate_name: str | None = None,
    ) -> None:
        self.config = config
        self.access = access
        self.from_loopback = from_loopback
        self.certificate_name = certificate_name
        """The user that the client's certificate names, "" if it names none; None without TLS."""
        self.awaits: type[Method] = ConnectionStartOk
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self.user = ""
        self.refusal = ""
        """Why the client may not log in, for the log."""
        self.vhost = ""
        self.frame_max = config.net.frame_max
        self.channel_max = config.net.channel_max
        self.heartbeat = config.net.heartbeat
        self.done = False

    def facts(self) -> dict[str, Any]:
        """Return what was agreed, under RabbitMQ's names."""
        return {
            "vhost": self.vhost,
            "auth_mechanism": self.mechanism,
            "protocol": "AMQP 0-9-1",
            "frame_max": self.frame_max,
            "channel_max": self.channel_max,
            "timeout": self.heartbeat,
            "client_properties": self.client_properties,
        }

    def start(self) -> ConnectionStart:
        """Return the first method, which names the broker, its capabilities and the mechanisms of
        login."""
        properties: dict[str, Any] = {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": "sluicemq",
            "information": "Licensed under the Apache License 2.0",
            "platform": "Python",
            "product": self.config.net.product_name,
            "version": self.config.net.product_version or __version__,
        }
        return ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=" ".join(self.mechanisms()).encode(),
            locales=b"en_US",
        )

    def mechanisms(self) -> Sequence[str]:
        """Return the names of the mechanisms that are offered: EXTERNAL only to a client whose
        certificate names a user, because some clients choose it whenever they can, and would be
        refused."""
        chosen = self.config.auth.auth_mechanisms
        return [name for name in chosen if name != EXTERNAL or self.certificate_name]

    def takes(self, mechanism: str) -> bool:
        """Tell whether the client may try to log in by this mechanism. With TLS that includes
        EXTERNAL even if the certificate names nobody, so that the refusal says why."""
        if mechanism == EXTERNAL and self.certificate_name is None:
            return False
        return mechanism in self.config.auth.auth_mechanisms

    def receive(self, method: Method) -> Method | None:
        """Handle the client's method and return the answer, None if it gets none. Raises
        HandshakeFailed when the socket is to be closed without a reply, and ConnectionViolation for
        errors that the client is told."""
        if type(method) is not self.awaits:
            if self.is_tuned:
                text = "unexpected method in connection state opening"
                raise ConnectionViolation(504, text, method.class_id, method.method_id)
            raise HandshakeFailed(f"{method.NAME} where {self.awaits.NAME} is due")
        if isinstance(method, ConnectionStartOk):
            return self.start_ok(method)
        if isinstance(method, ConnectionTuneOk):
            self.tune_ok(method)
            return None
        assert isinstance(method, ConnectionOpen)
        return self.open(method)

    @property
    def is_tuned(self) -> bool:
        """Tell whether tune-ok has come: from then on the client is told its errors."""
        return self.awaits is ConnectionOpen

    def can(self, capability: str) -> bool:
        """Tell whether the client has announced this capability."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def start_ok(self, method: ConnectionStartOk) -> ConnectionTune:
        """Log in and return the limits offered in connection.tune. Raises HandshakeFailed for an
        unknown mechanism or a malformed response, and ConnectionViolation (403) when the login is
        refused; `refusal` says why."""
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        if not self.takes(method.mechanism):
            raise HandshakeFailed(f"unknown authentication mechanism {method.mechanism!r}")
        if method.mechanism == EXTERNAL:
            user, password = self.certificate_name or "", None
        else:
            read = plain if method.mechanism == "PLAIN" else amqplain
            user, password = read(method.response)
        self.refusal = self.access.refusal(user, password, self.from_loopback)
        if self.refusal:
            raise ConnectionViolation(
                403,
                f"Login was refused using authentication mechanism {method.mechanism}. "
                "For details see the broker logfile.",
            )
        self.user = user
        self.awaits = ConnectionTuneOk
        net = self.config.net
        return ConnectionTune(
            channel_max=net.channel_max, frame_max=net.frame_max, heartbeat=net.heartbeat
        )

    def tune_ok(self, method: ConnectionTuneOk) -> None:
        """Take the client's choice: it may lower the limits that were offered, not raise them, and
        0 means no limit. Raises ConnectionViolation (530) for anything else."""
        net = self.config.net
        if too_much(method.channel_max, net.channel_max):
            raise not_allowed("channel_max", method.channel_max, net.channel_max)
        if too_much(method.frame_max, net.frame_max) or 0 < method.frame_max < FRAME_MAX_LEAST:
            raise not_allowed("frame_max", method.frame_max, net.frame_max)
        self.channel_max = method.channel_max or CHANNEL_MAX_MOST
        self.frame_max = method.frame_max
        self.heartbeat = method.heartbeat
        self.awaits = ConnectionOpen

    def open(self, method: ConnectionOpen) -> ConnectionOpenOk:
        """Choose the virtual host and end the handshake. Raises ConnectionViolation when the user
        may not enter that host."""
        try:
            self.access.check_entry(self.user, method.virtual_host)
        except ConnectionViolation as violation:
            violation.class_id, violation.method_id = method.class_id, method.method_id
            raise
        self.vhost = method.virtual_host
        self.done = True
        return ConnectionOpenOk()


def too_much(asked: int, offered: int) -> bool:
    """Tell whether the client asks for more than was offered; 0 is no limit, on both sides."""
    return offered > 0 and not 0 < asked <= offered


def not_allowed(what: str, asked: int, offered: int) -> ConnectionViolation:
    """Return the error 530 for a tune-ok that exceeds what was offered."""
    return ConnectionViolation(
        530, f"negotiated {what} = {asked} is not in the range up to {offered}"
    )


def plain(response: bytes) -> tuple[str, str]:
    """Return user and password from a SASL PLAIN response (RFC 4616), which has no authorisation
    identity. Raises HandshakeFailed when it is malformed."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise HandshakeFailed("malformed PLAIN response")
    return text_of(parts[1]), text_of(parts[2])


def amqplain(response: bytes) -> tuple[str, str]:
    """Return user and password from an AMQPLAIN response: a field table without its length, with
    LOGIN and PASSWORD. Raises HandshakeFailed when it is malformed."""
    raw = len(response).to_bytes(4) + response
    try:
        table, _ = decode_table(raw, 0, len(raw))
    except Malformed as error:
        raise HandshakeFailed(f"malformed AMQPLAIN response: {error}") from error
    return given(table, "LOGIN"), given(table, "PASSWORD")


def given(table: Table, name: str) -> str:
    """Return the value of `name` in the table, which may be text or binary. Raises HandshakeFailed
    when it is neither or missing."""
    value = table.get(name)
    if isinstance(value, bytes):
        return text_of(value)
    if not isinstance(value, str):
        raise HandshakeFailed(f"AMQPLAIN response without {name}")
    return value
