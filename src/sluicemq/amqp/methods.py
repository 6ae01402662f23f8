"""One class for each method of AMQP 0-9-1 and of RabbitMQ's extensions.

Written by tools/generate_methods.py from the table in it; do not edit it here.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sluicemq.amqp.method import Method, check_end
from sluicemq.amqp.types import (
    Table,
    decode_long,
    decode_longlong,
    decode_longstr,
    decode_octet,
    decode_short,
    decode_shortstr,
    decode_table,
    encode_bits,
    encode_long,
    encode_longlong,
    encode_longstr,
    encode_octet,
    encode_short,
    encode_shortstr,
    encode_table,
    skip_longstr,
    skip_shortstr,
)


class ConnectionStart(Method):
    __slots__ = ("locales", "mechanisms", "server_properties", "version_major", "version_minor")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "connection.start"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "version_major",
        "version_minor",
        "server_properties",
        "mechanisms",
        "locales",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        version_major: int = 0,
        version_minor: int = 0,
        server_properties: Table | None = None,
        mechanisms: bytes = b"",
        locales: bytes = b"",
    ) -> None:
        self.version_major = version_major
        self.version_minor = version_minor
        self.server_properties: Table = {} if server_properties is None else server_properties
        self.mechanisms = mechanisms
        self.locales = locales

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_octet(self.version_major),
                encode_octet(self.version_minor),
                encode_table(self.server_properties),
                encode_longstr(self.mechanisms),
                encode_longstr(self.locales),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionStart:
        version_major, pos = decode_octet(buf, pos, end)
        version_minor, pos = decode_octet(buf, pos, end)
        server_properties, pos = decode_table(buf, pos, end)
        mechanisms, pos = decode_longstr(buf, pos, end)
        locales, pos = decode_longstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionStart(version_major, version_minor, server_properties, mechanisms, locales)


class ConnectionStartOk(Method):
    __slots__ = ("client_properties", "locale", "mechanism", "response")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "connection.start-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("client_properties", "mechanism", "response", "locale")

    def __init__(
        self,
        client_properties: Table | None = None,
        mechanism: str = "",
        response: bytes = b"",
        locale: str = "",
    ) -> None:
        self.client_properties: Table = {} if client_properties is None else client_properties
        self.mechanism = mechanism
        self.response = response
        self.locale = locale

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_table(self.client_properties),
                encode_shortstr(self.mechanism),
                encode_longstr(self.response),
                encode_shortstr(self.locale),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionStartOk:
        client_properties, pos = decode_table(buf, pos, end)
        mechanism, pos = decode_shortstr(buf, pos, end)
        response, pos = decode_longstr(buf, pos, end)
        locale, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionStartOk(client_properties, mechanism, response, locale)


class ConnectionSecure(Method):
    __slots__ = ("challenge",)
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "connection.secure"
    FIELDS: ClassVar[tuple[str, ...]] = ("challenge",)
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        challenge: bytes = b"",
    ) -> None:
        self.challenge = challenge

    def encode_args(self) -> bytes:
        return encode_longstr(self.challenge)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionSecure:
        challenge, pos = decode_longstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionSecure(challenge)


class ConnectionSecureOk(Method):
    __slots__ = ("response",)
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "connection.secure-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("response",)

    def __init__(
        self,
        response: bytes = b"",
    ) -> None:
        self.response = response

    def encode_args(self) -> bytes:
        return encode_longstr(self.response)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionSecureOk:
        response, pos = decode_longstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionSecureOk(response)


class ConnectionTune(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 30
    NAME: ClassVar[str] = "connection.tune"
    FIELDS: ClassVar[tuple[str, ...]] = ("channel_max", "frame_max", "heartbeat")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        channel_max: int = 0,
        frame_max: int = 0,
        heartbeat: int = 0,
    ) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_short(self.channel_max),
                encode_long(self.frame_max),
                encode_short(self.heartbeat),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionTune:
        channel_max, pos = decode_short(buf, pos, end)
        frame_max, pos = decode_long(buf, pos, end)
        heartbeat, pos = decode_short(buf, pos, end)
        check_end(pos, end)
        return ConnectionTune(channel_max, frame_max, heartbeat)


class ConnectionTuneOk(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 31
    NAME: ClassVar[str] = "connection.tune-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("channel_max", "frame_max", "heartbeat")

    def __init__(
        self,
        channel_max: int = 0,
        frame_max: int = 0,
        heartbeat: int = 0,
    ) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_short(self.channel_max),
                encode_long(self.frame_max),
                encode_short(self.heartbeat),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionTuneOk:
        channel_max, pos = decode_short(buf, pos, end)
        frame_max, pos = decode_long(buf, pos, end)
        heartbeat, pos = decode_short(buf, pos, end)
        check_end(pos, end)
        return ConnectionTuneOk(channel_max, frame_max, heartbeat)


class ConnectionOpen(Method):
    __slots__ = ("virtual_host",)
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 40
    NAME: ClassVar[str] = "connection.open"
    FIELDS: ClassVar[tuple[str, ...]] = ("virtual_host",)
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        virtual_host: str = "",
    ) -> None:
        self.virtual_host = virtual_host

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_shortstr(self.virtual_host),
                b"\0",
                encode_bits(False),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionOpen:
        virtual_host, pos = decode_shortstr(buf, pos, end)
        pos = skip_shortstr(buf, pos, end)
        _, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return ConnectionOpen(virtual_host)


class ConnectionOpenOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 41
    NAME: ClassVar[str] = "connection.open-ok"

    def encode_args(self) -> bytes:
        return b"\0"

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionOpenOk:
        pos = skip_shortstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionOpenOk()


class ConnectionClose(Method):
    __slots__ = ("failed_class_id", "failed_method_id", "reply_code", "reply_text")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 50
    NAME: ClassVar[str] = "connection.close"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "reply_code",
        "reply_text",
        "failed_class_id",
        "failed_method_id",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        failed_class_id: int = 0,
        failed_method_id: int = 0,
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.failed_class_id = failed_class_id
        self.failed_method_id = failed_method_id

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_short(self.reply_code),
                encode_shortstr(self.reply_text),
                encode_short(self.failed_class_id),
                encode_short(self.failed_method_id),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionClose:
        reply_code, pos = decode_short(buf, pos, end)
        reply_text, pos = decode_shortstr(buf, pos, end)
        failed_class_id, pos = decode_short(buf, pos, end)
        failed_method_id, pos = decode_short(buf, pos, end)
        check_end(pos, end)
        return ConnectionClose(reply_code, reply_text, failed_class_id, failed_method_id)


class ConnectionCloseOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 51
    NAME: ClassVar[str] = "connection.close-ok"


class ConnectionBlocked(Method):
    __slots__ = ("reason",)
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 60
    NAME: ClassVar[str] = "connection.blocked"
    FIELDS: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(
        self,
        reason: str = "",
    ) -> None:
        self.reason = reason

    def encode_args(self) -> bytes:
        return encode_shortstr(self.reason)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionBlocked:
        reason, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionBlocked(reason)


class ConnectionUnblocked(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 61
    NAME: ClassVar[str] = "connection.unblocked"


class ConnectionUpdateSecret(Method):
    __slots__ = ("new_secret", "reason")
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 70
    NAME: ClassVar[str] = "connection.update-secret"
    FIELDS: ClassVar[tuple[str, ...]] = ("new_secret", "reason")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        new_secret: bytes = b"",
        reason: str = "",
    ) -> None:
        self.new_secret = new_secret
        self.reason = reason

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_longstr(self.new_secret),
                encode_shortstr(self.reason),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConnectionUpdateSecret:
        new_secret, pos = decode_longstr(buf, pos, end)
        reason, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return ConnectionUpdateSecret(new_secret, reason)


class ConnectionUpdateSecretOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 10
    method_id: ClassVar[int] = 71
    NAME: ClassVar[str] = "connection.update-secret-ok"


class ChannelOpen(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "channel.open"
    synchronous: ClassVar[bool] = True

    def encode_args(self) -> bytes:
        return b"\0"

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ChannelOpen:
        pos = skip_shortstr(buf, pos, end)
        check_end(pos, end)
        return ChannelOpen()


class ChannelOpenOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "channel.open-ok"

    def encode_args(self) -> bytes:
        return b"\0\0\0\0"

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ChannelOpenOk:
        pos = skip_longstr(buf, pos, end)
        check_end(pos, end)
        return ChannelOpenOk()


class ChannelFlow(Method):
    __slots__ = ("active",)
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "channel.flow"
    FIELDS: ClassVar[tuple[str, ...]] = ("active",)
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        active: bool = False,
    ) -> None:
        self.active = active

    def encode_args(self) -> bytes:
        return encode_bits(self.active)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ChannelFlow:
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return ChannelFlow(bits & 1 != 0)


class ChannelFlowOk(Method):
    __slots__ = ("active",)
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "channel.flow-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("active",)

    def __init__(
        self,
        active: bool = False,
    ) -> None:
        self.active = active

    def encode_args(self) -> bytes:
        return encode_bits(self.active)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ChannelFlowOk:
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return ChannelFlowOk(bits & 1 != 0)


class ChannelClose(Method):
    __slots__ = ("failed_class_id", "failed_method_id", "reply_code", "reply_text")
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 40
    NAME: ClassVar[str] = "channel.close"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "reply_code",
        "reply_text",
        "failed_class_id",
        "failed_method_id",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        failed_class_id: int = 0,
        failed_method_id: int = 0,
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.failed_class_id = failed_class_id
        self.failed_method_id = failed_method_id

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_short(self.reply_code),
                encode_shortstr(self.reply_text),
                encode_short(self.failed_class_id),
                encode_short(self.failed_method_id),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ChannelClose:
        reply_code, pos = decode_short(buf, pos, end)
        reply_text, pos = decode_shortstr(buf, pos, end)
        failed_class_id, pos = decode_short(buf, pos, end)
        failed_method_id, pos = decode_short(buf, pos, end)
        check_end(pos, end)
        return ChannelClose(reply_code, reply_text, failed_class_id, failed_method_id)


class ChannelCloseOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 20
    method_id: ClassVar[int] = 41
    NAME: ClassVar[str] = "channel.close-ok"


class AccessRequest(Method):
    __slots__ = ("active", "exclusive", "passive", "read", "realm", "write")
    class_id: ClassVar[int] = 30
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "access.request"
    FIELDS: ClassVar[tuple[str, ...]] = ("realm", "exclusive", "passive", "active", "write", "read")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        realm: str = "",
        exclusive: bool = False,
        passive: bool = False,
        active: bool = False,
        write: bool = False,
        read: bool = False,
    ) -> None:
        self.realm = realm
        self.exclusive = exclusive
        self.passive = passive
        self.active = active
        self.write = write
        self.read = read

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_shortstr(self.realm),
                encode_bits(self.exclusive, self.passive, self.active, self.write, self.read),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> AccessRequest:
        realm, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return AccessRequest(
            realm,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
        )


class AccessRequestOk(Method):
    __slots__ = ("ticket",)
    class_id: ClassVar[int] = 30
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "access.request-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("ticket",)

    def __init__(
        self,
        ticket: int = 0,
    ) -> None:
        self.ticket = ticket

    def encode_args(self) -> bytes:
        return encode_short(self.ticket)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> AccessRequestOk:
        ticket, pos = decode_short(buf, pos, end)
        check_end(pos, end)
        return AccessRequestOk(ticket)


class ExchangeDeclare(Method):
    __slots__ = (
        "arguments",
        "auto_delete",
        "durable",
        "exchange",
        "exchange_type",
        "internal",
        "nowait",
        "passive",
    )
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "exchange.declare"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "exchange",
        "exchange_type",
        "passive",
        "durable",
        "auto_delete",
        "internal",
        "nowait",
        "arguments",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        exchange: str = "",
        exchange_type: str = "",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.exchange = exchange
        self.exchange_type = exchange_type
        self.passive = passive
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.exchange),
                encode_shortstr(self.exchange_type),
                encode_bits(
                    self.passive, self.durable, self.auto_delete, self.internal, self.nowait
                ),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ExchangeDeclare:
        _, pos = decode_short(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        exchange_type, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return ExchangeDeclare(
            exchange,
            exchange_type,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
            arguments,
        )


class ExchangeDeclareOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "exchange.declare-ok"


class ExchangeDelete(Method):
    __slots__ = ("exchange", "if_unused", "nowait")
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "exchange.delete"
    FIELDS: ClassVar[tuple[str, ...]] = ("exchange", "if_unused", "nowait")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        exchange: str = "",
        if_unused: bool = False,
        nowait: bool = False,
    ) -> None:
        self.exchange = exchange
        self.if_unused = if_unused
        self.nowait = nowait

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.exchange),
                encode_bits(self.if_unused, self.nowait),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ExchangeDelete:
        _, pos = decode_short(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return ExchangeDelete(exchange, bits & 1 != 0, bits & 2 != 0)


class ExchangeDeleteOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "exchange.delete-ok"


class ExchangeBind(Method):
    __slots__ = ("arguments", "destination", "nowait", "routing_key", "source")
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 30
    NAME: ClassVar[str] = "exchange.bind"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "destination",
        "source",
        "routing_key",
        "nowait",
        "arguments",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.destination),
                encode_shortstr(self.source),
                encode_shortstr(self.routing_key),
                encode_bits(self.nowait),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ExchangeBind:
        _, pos = decode_short(buf, pos, end)
        destination, pos = decode_shortstr(buf, pos, end)
        source, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return ExchangeBind(destination, source, routing_key, bits & 1 != 0, arguments)


class ExchangeBindOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 31
    NAME: ClassVar[str] = "exchange.bind-ok"


class ExchangeUnbind(Method):
    __slots__ = ("arguments", "destination", "nowait", "routing_key", "source")
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 40
    NAME: ClassVar[str] = "exchange.unbind"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "destination",
        "source",
        "routing_key",
        "nowait",
        "arguments",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.destination),
                encode_shortstr(self.source),
                encode_shortstr(self.routing_key),
                encode_bits(self.nowait),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ExchangeUnbind:
        _, pos = decode_short(buf, pos, end)
        destination, pos = decode_shortstr(buf, pos, end)
        source, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return ExchangeUnbind(destination, source, routing_key, bits & 1 != 0, arguments)


class ExchangeUnbindOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 40
    method_id: ClassVar[int] = 51
    NAME: ClassVar[str] = "exchange.unbind-ok"


class QueueDeclare(Method):
    __slots__ = ("arguments", "auto_delete", "durable", "exclusive", "nowait", "passive", "queue")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "queue.declare"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "queue",
        "passive",
        "durable",
        "exclusive",
        "auto_delete",
        "nowait",
        "arguments",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.passive = passive
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_bits(
                    self.passive, self.durable, self.exclusive, self.auto_delete, self.nowait
                ),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueDeclare:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return QueueDeclare(
            queue,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
            arguments,
        )


class QueueDeclareOk(Method):
    __slots__ = ("consumer_count", "message_count", "queue")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "queue.declare-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "message_count", "consumer_count")

    def __init__(
        self,
        queue: str = "",
        message_count: int = 0,
        consumer_count: int = 0,
    ) -> None:
        self.queue = queue
        self.message_count = message_count
        self.consumer_count = consumer_count

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_shortstr(self.queue),
                encode_long(self.message_count),
                encode_long(self.consumer_count),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueDeclareOk:
        queue, pos = decode_shortstr(buf, pos, end)
        message_count, pos = decode_long(buf, pos, end)
        consumer_count, pos = decode_long(buf, pos, end)
        check_end(pos, end)
        return QueueDeclareOk(queue, message_count, consumer_count)


class QueueBind(Method):
    __slots__ = ("arguments", "exchange", "nowait", "queue", "routing_key")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "queue.bind"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "exchange", "routing_key", "nowait", "arguments")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
                encode_bits(self.nowait),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueBind:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return QueueBind(queue, exchange, routing_key, bits & 1 != 0, arguments)


class QueueBindOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "queue.bind-ok"


class QueuePurge(Method):
    __slots__ = ("nowait", "queue")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 30
    NAME: ClassVar[str] = "queue.purge"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "nowait")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        nowait: bool = False,
    ) -> None:
        self.queue = queue
        self.nowait = nowait

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_bits(self.nowait),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueuePurge:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return QueuePurge(queue, bits & 1 != 0)


class QueuePurgeOk(Method):
    __slots__ = ("message_count",)
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 31
    NAME: ClassVar[str] = "queue.purge-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("message_count",)

    def __init__(
        self,
        message_count: int = 0,
    ) -> None:
        self.message_count = message_count

    def encode_args(self) -> bytes:
        return encode_long(self.message_count)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueuePurgeOk:
        message_count, pos = decode_long(buf, pos, end)
        check_end(pos, end)
        return QueuePurgeOk(message_count)


class QueueDelete(Method):
    __slots__ = ("if_empty", "if_unused", "nowait", "queue")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 40
    NAME: ClassVar[str] = "queue.delete"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "if_unused", "if_empty", "nowait")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        if_unused: bool = False,
        if_empty: bool = False,
        nowait: bool = False,
    ) -> None:
        self.queue = queue
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.nowait = nowait

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_bits(self.if_unused, self.if_empty, self.nowait),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueDelete:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return QueueDelete(queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)


class QueueDeleteOk(Method):
    __slots__ = ("message_count",)
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 41
    NAME: ClassVar[str] = "queue.delete-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("message_count",)

    def __init__(
        self,
        message_count: int = 0,
    ) -> None:
        self.message_count = message_count

    def encode_args(self) -> bytes:
        return encode_long(self.message_count)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueDeleteOk:
        message_count, pos = decode_long(buf, pos, end)
        check_end(pos, end)
        return QueueDeleteOk(message_count)


class QueueUnbind(Method):
    __slots__ = ("arguments", "exchange", "queue", "routing_key")
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 50
    NAME: ClassVar[str] = "queue.unbind"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "exchange", "routing_key", "arguments")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> QueueUnbind:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return QueueUnbind(queue, exchange, routing_key, arguments)


class QueueUnbindOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 50
    method_id: ClassVar[int] = 51
    NAME: ClassVar[str] = "queue.unbind-ok"


class BasicQos(Method):
    __slots__ = ("global_", "prefetch_count", "prefetch_size")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "basic.qos"
    FIELDS: ClassVar[tuple[str, ...]] = ("prefetch_size", "prefetch_count", "global_")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        prefetch_size: int = 0,
        prefetch_count: int = 0,
        global_: bool = False,
    ) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_long(self.prefetch_size),
                encode_short(self.prefetch_count),
                encode_bits(self.global_),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicQos:
        prefetch_size, pos = decode_long(buf, pos, end)
        prefetch_count, pos = decode_short(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicQos(prefetch_size, prefetch_count, bits & 1 != 0)


class BasicQosOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "basic.qos-ok"


class BasicConsume(Method):
    __slots__ = ("arguments", "consumer_tag", "exclusive", "no_ack", "no_local", "nowait", "queue")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "basic.consume"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "queue",
        "consumer_tag",
        "no_local",
        "no_ack",
        "exclusive",
        "nowait",
        "arguments",
    )
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        consumer_tag: str = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.consumer_tag = consumer_tag
        self.no_local = no_local
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.nowait = nowait
        self.arguments: Table = {} if arguments is None else arguments

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_shortstr(self.consumer_tag),
                encode_bits(self.no_local, self.no_ack, self.exclusive, self.nowait),
                encode_table(self.arguments),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicConsume:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        consumer_tag, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        arguments, pos = decode_table(buf, pos, end)
        check_end(pos, end)
        return BasicConsume(
            queue,
            consumer_tag,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            arguments,
        )


class BasicConsumeOk(Method):
    __slots__ = ("consumer_tag",)
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "basic.consume-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag",)

    def __init__(
        self,
        consumer_tag: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag

    def encode_args(self) -> bytes:
        return encode_shortstr(self.consumer_tag)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicConsumeOk:
        consumer_tag, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return BasicConsumeOk(consumer_tag)


class BasicCancel(Method):
    __slots__ = ("consumer_tag", "nowait")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 30
    NAME: ClassVar[str] = "basic.cancel"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag", "nowait")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        consumer_tag: str = "",
        nowait: bool = False,
    ) -> None:
        self.consumer_tag = consumer_tag
        self.nowait = nowait

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_shortstr(self.consumer_tag),
                encode_bits(self.nowait),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicCancel:
        consumer_tag, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicCancel(consumer_tag, bits & 1 != 0)


class BasicCancelOk(Method):
    __slots__ = ("consumer_tag",)
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 31
    NAME: ClassVar[str] = "basic.cancel-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag",)

    def __init__(
        self,
        consumer_tag: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag

    def encode_args(self) -> bytes:
        return encode_shortstr(self.consumer_tag)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicCancelOk:
        consumer_tag, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return BasicCancelOk(consumer_tag)


class BasicPublish(Method):
    __slots__ = ("exchange", "immediate", "mandatory", "routing_key")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 40
    NAME: ClassVar[str] = "basic.publish"
    FIELDS: ClassVar[tuple[str, ...]] = ("exchange", "routing_key", "mandatory", "immediate")
    has_content: ClassVar[bool] = True

    def __init__(
        self,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
                encode_bits(self.mandatory, self.immediate),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicPublish:
        _, pos = decode_short(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicPublish(exchange, routing_key, bits & 1 != 0, bits & 2 != 0)


class BasicReturn(Method):
    __slots__ = ("exchange", "reply_code", "reply_text", "routing_key")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 50
    NAME: ClassVar[str] = "basic.return"
    FIELDS: ClassVar[tuple[str, ...]] = ("reply_code", "reply_text", "exchange", "routing_key")
    has_content: ClassVar[bool] = True

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        exchange: str = "",
        routing_key: str = "",
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_short(self.reply_code),
                encode_shortstr(self.reply_text),
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicReturn:
        reply_code, pos = decode_short(buf, pos, end)
        reply_text, pos = decode_shortstr(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return BasicReturn(reply_code, reply_text, exchange, routing_key)


class BasicDeliver(Method):
    __slots__ = ("consumer_tag", "delivery_tag", "exchange", "redelivered", "routing_key")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 60
    NAME: ClassVar[str] = "basic.deliver"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "consumer_tag",
        "delivery_tag",
        "redelivered",
        "exchange",
        "routing_key",
    )
    has_content: ClassVar[bool] = True

    def __init__(
        self,
        consumer_tag: str = "",
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_shortstr(self.consumer_tag),
                encode_longlong(self.delivery_tag),
                encode_bits(self.redelivered),
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicDeliver:
        consumer_tag, pos = decode_shortstr(buf, pos, end)
        delivery_tag, pos = decode_longlong(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        check_end(pos, end)
        return BasicDeliver(consumer_tag, delivery_tag, bits & 1 != 0, exchange, routing_key)


class BasicGet(Method):
    __slots__ = ("no_ack", "queue")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 70
    NAME: ClassVar[str] = "basic.get"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "no_ack")
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        queue: str = "",
        no_ack: bool = False,
    ) -> None:
        self.queue = queue
        self.no_ack = no_ack

    def encode_args(self) -> bytes:
        return b"".join(
            (
                b"\0\0",
                encode_shortstr(self.queue),
                encode_bits(self.no_ack),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicGet:
        _, pos = decode_short(buf, pos, end)
        queue, pos = decode_shortstr(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicGet(queue, bits & 1 != 0)


class BasicGetOk(Method):
    __slots__ = ("delivery_tag", "exchange", "message_count", "redelivered", "routing_key")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 71
    NAME: ClassVar[str] = "basic.get-ok"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "delivery_tag",
        "redelivered",
        "exchange",
        "routing_key",
        "message_count",
    )
    has_content: ClassVar[bool] = True

    def __init__(
        self,
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
        message_count: int = 0,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_longlong(self.delivery_tag),
                encode_bits(self.redelivered),
                encode_shortstr(self.exchange),
                encode_shortstr(self.routing_key),
                encode_long(self.message_count),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicGetOk:
        delivery_tag, pos = decode_longlong(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        exchange, pos = decode_shortstr(buf, pos, end)
        routing_key, pos = decode_shortstr(buf, pos, end)
        message_count, pos = decode_long(buf, pos, end)
        check_end(pos, end)
        return BasicGetOk(delivery_tag, bits & 1 != 0, exchange, routing_key, message_count)


class BasicGetEmpty(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 72
    NAME: ClassVar[str] = "basic.get-empty"

    def encode_args(self) -> bytes:
        return b"\0"

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicGetEmpty:
        pos = skip_shortstr(buf, pos, end)
        check_end(pos, end)
        return BasicGetEmpty()


class BasicAck(Method):
    __slots__ = ("delivery_tag", "multiple")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 80
    NAME: ClassVar[str] = "basic.ack"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "multiple")

    def __init__(
        self,
        delivery_tag: int = 0,
        multiple: bool = False,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_longlong(self.delivery_tag),
                encode_bits(self.multiple),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicAck:
        delivery_tag, pos = decode_longlong(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicAck(delivery_tag, bits & 1 != 0)


class BasicReject(Method):
    __slots__ = ("delivery_tag", "requeue")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 90
    NAME: ClassVar[str] = "basic.reject"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "requeue")

    def __init__(
        self,
        delivery_tag: int = 0,
        requeue: bool = False,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_longlong(self.delivery_tag),
                encode_bits(self.requeue),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicReject:
        delivery_tag, pos = decode_longlong(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicReject(delivery_tag, bits & 1 != 0)


class BasicRecoverAsync(Method):
    __slots__ = ("requeue",)
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 100
    NAME: ClassVar[str] = "basic.recover-async"
    FIELDS: ClassVar[tuple[str, ...]] = ("requeue",)

    def __init__(
        self,
        requeue: bool = False,
    ) -> None:
        self.requeue = requeue

    def encode_args(self) -> bytes:
        return encode_bits(self.requeue)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicRecoverAsync:
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicRecoverAsync(bits & 1 != 0)


class BasicRecover(Method):
    __slots__ = ("requeue",)
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 110
    NAME: ClassVar[str] = "basic.recover"
    FIELDS: ClassVar[tuple[str, ...]] = ("requeue",)
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        requeue: bool = False,
    ) -> None:
        self.requeue = requeue

    def encode_args(self) -> bytes:
        return encode_bits(self.requeue)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicRecover:
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicRecover(bits & 1 != 0)


class BasicRecoverOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 111
    NAME: ClassVar[str] = "basic.recover-ok"


class BasicNack(Method):
    __slots__ = ("delivery_tag", "multiple", "requeue")
    class_id: ClassVar[int] = 60
    method_id: ClassVar[int] = 120
    NAME: ClassVar[str] = "basic.nack"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "multiple", "requeue")

    def __init__(
        self,
        delivery_tag: int = 0,
        multiple: bool = False,
        requeue: bool = False,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    def encode_args(self) -> bytes:
        return b"".join(
            (
                encode_longlong(self.delivery_tag),
                encode_bits(self.multiple, self.requeue),
            )
        )

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> BasicNack:
        delivery_tag, pos = decode_longlong(buf, pos, end)
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)


class ConfirmSelect(Method):
    __slots__ = ("nowait",)
    class_id: ClassVar[int] = 85
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "confirm.select"
    FIELDS: ClassVar[tuple[str, ...]] = ("nowait",)
    synchronous: ClassVar[bool] = True

    def __init__(
        self,
        nowait: bool = False,
    ) -> None:
        self.nowait = nowait

    def encode_args(self) -> bytes:
        return encode_bits(self.nowait)

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> ConfirmSelect:
        bits, pos = decode_octet(buf, pos, end)
        check_end(pos, end)
        return ConfirmSelect(bits & 1 != 0)


class ConfirmSelectOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 85
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "confirm.select-ok"


class TxSelect(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 10
    NAME: ClassVar[str] = "tx.select"
    synchronous: ClassVar[bool] = True


class TxSelectOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 11
    NAME: ClassVar[str] = "tx.select-ok"


class TxCommit(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 20
    NAME: ClassVar[str] = "tx.commit"
    synchronous: ClassVar[bool] = True


class TxCommitOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 21
    NAME: ClassVar[str] = "tx.commit-ok"


class TxRollback(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 30
    NAME: ClassVar[str] = "tx.rollback"
    synchronous: ClassVar[bool] = True


class TxRollbackOk(Method):
    __slots__ = ()
    class_id: ClassVar[int] = 90
    method_id: ClassVar[int] = 31
    NAME: ClassVar[str] = "tx.rollback-ok"


ALL_METHODS: Final[tuple[type[Method], ...]] = (
    ConnectionStart,
    ConnectionStartOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    ChannelOpen,
    ChannelOpenOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelClose,
    ChannelCloseOk,
    AccessRequest,
    AccessRequestOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueBind,
    QueueBindOk,
    QueuePurge,
    QueuePurgeOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
    BasicQos,
    BasicQosOk,
    BasicConsume,
    BasicConsumeOk,
    BasicCancel,
    BasicCancelOk,
    BasicPublish,
    BasicReturn,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicGetEmpty,
    BasicAck,
    BasicReject,
    BasicRecoverAsync,
    BasicRecover,
    BasicRecoverOk,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    TxSelect,
    TxSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
)

METHODS: Final[dict[int, type[Method]]] = {
    method.class_id << 16 | method.method_id: method for method in ALL_METHODS
}
"""The class of each method, by the first four bytes of a method frame's payload."""
