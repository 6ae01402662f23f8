"""A client that can misbehave: a plain socket, frames from another codec (pamqp) or by hand."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from types import TracebackType
from typing import NamedTuple

import pamqp.frame
from pamqp import commands
from pamqp.base import Frame as Command

from support.broker import Target

PATIENCE_SECONDS = 240.0
QUIET_SECONDS = 0.4
"""How long nothing must come before we say that nothing comes."""

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_MAX = 131072
PROTOCOL = b"AMQP\x00\x00\x09\x01"
NO_PROPERTIES = b"\0\0"


class Frame(NamedTuple):
    """What came: `kind` is the frame type."""

    kind: int
    channel: int
    payload: bytes


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def raw_method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def call(command: Command, channel: int = 1) -> bytes:
    """A method frame as another codec writes it."""
    return pamqp.frame.marshal(command, channel)


def header(
    size: int,
    properties: bytes = NO_PROPERTIES,
    channel: int = 1,
    class_id: int = 60,
    weight: int = 0,
) -> bytes:
    return frame(HEADER, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


def body(data: bytes, channel: int = 1) -> bytes:
    return frame(BODY, channel, data)


def content(data: bytes, properties: bytes = NO_PROPERTIES, channel: int = 1) -> bytes:
    """Header and body in one frame each; an empty body has no frame."""
    return header(len(data), properties, channel) + (body(data, channel) if data else b"")


def publish(
    key: str,
    data: bytes = b"x",
    exchange: str = "",
    channel: int = 1,
    properties: bytes = NO_PROPERTIES,
    mandatory: bool = False,
) -> bytes:
    command = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return call(command, channel) + content(data, properties, channel)


def short(text: str | bytes) -> bytes:
    """A short string."""
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """A long string, or a table given by its entries."""
    return struct.pack(">I", len(data)) + data


CAPABILITIES = ("authentication_failure_close", "consumer_cancel_notify", "connection.blocked")


def start_ok(
    response: bytes = b"\0guest\0guest",
    mechanism: str = "PLAIN",
    locale: str = "en_US",
    capabilities: bool = True,
) -> bytes:
    entries = b"\x0ccapabilitiesF" + long(
        b"".join(short(key) + b"t\1" for key in CAPABILITIES) if capabilities else b""
    )
    return raw_method(0, 10, 11, long(entries) + short(mechanism) + long(response) + short(locale))


def tune_ok(channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> bytes:
    return raw_method(0, 10, 31, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def connection_open(vhost: str = "/") -> bytes:
    return raw_method(0, 10, 40, short(vhost) + b"\0\0")


def channel_open(channel: int = 1) -> bytes:
    return raw_method(channel, 20, 10, b"\0")


class Peer:
    """One socket to the broker."""

    def __init__(self, target: Target, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect((target.host, target.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.context is not None:
            self.socket = target.context.wrap_socket(self.socket, server_hostname=target.host)
        self.user, self.password = target.user, target.password
        self.received = b""
        self.is_at_end = False
        self.heartbeats = 0

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *data: bytes) -> Peer:
        try:
            self.socket.sendall(b"".join(data))
        except OSError:
            self.is_at_end = True  # what it answered before is still to be read
        return self

    def start(self) -> Peer:
        """As far as connection.start."""
        self.send(PROTOCOL).expect("Connection.Start")
        return self

    def authenticate(self) -> Peer:
        """As far as connection.tune."""
        response = f"\0{self.user}\0{self.password}".encode()
        self.start().send(start_ok(response)).expect("Connection.Tune")
        return self

    def log_in(
        self, channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0
    ) -> Peer:
        """As far as connection.open-ok."""
        self.authenticate()
        self.send(tune_ok(channel_max, frame_max, heartbeat), connection_open())
        self.expect("Connection.OpenOk")
        return self

    def open(self, *channels: int) -> Peer:
        for channel in channels or (1,):
            self.send(channel_open(channel)).expect("Channel.OpenOk")
        return self

    def read(self, seconds: float = PATIENCE_SECONDS) -> Frame | None:
        """The next frame but heartbeats, which are counted; None: none in time, or the end."""
        deadline = time.monotonic() + seconds
        while True:
            whole = self._cut()
            if whole is not None and whole.kind == HEARTBEAT:
                self.heartbeats += 1
            elif whole is not None:
                return whole
            elif not self._fill(deadline):
                return None

    def _cut(self) -> Frame | None:
        if len(self.received) < 7 or self.received.startswith(b"AMQP"):
            return None
        kind, channel, size = struct.unpack_from(">BHI", self.received)
        if len(self.received) < size + 8:
            return None
        payload, end = self.received[7 : size + 7], self.received[size + 7]
        assert end == FRAME_END
        self.received = self.received[size + 8 :]
        return Frame(kind, channel, payload)

    def _fill(self, deadline: float) -> bool:
        """False when nothing comes until `deadline`, or never again."""
        tls = self.socket if isinstance(self.socket, ssl.SSLSocket) else None
        wait = 0 if tls and tls.pending() else max(0, deadline - time.monotonic())
        readable, _, _ = select.select([self.socket], [], [], wait)
        if not readable and not (tls and tls.pending()):
            return False
        try:
            data = self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.is_at_end = not data
        self.received += data
        return bool(data)

    def expect(self, name: str) -> Command:
        """The next method, which must be `name`; contents on the way are skipped."""
        while (got := self.read()) is not None and got.kind != METHOD:
            pass
        assert got is not None, f"waiting for {name}: nothing came"
        assert describe(got) == name, f"waiting for {name}: {describe(got)}"
        return decode(got)

    def content(self) -> bytes:
        """The body behind a deliver, get-ok or return."""
        head = self.read()
        assert head is not None and head.kind == HEADER
        (size,) = struct.unpack_from(">Q", head.payload, 4)
        data = b""
        while len(data) < size:
            part = self.read()
            assert part is not None and part.kind == BODY
            data += part.payload
        return data

    def is_silent(self, seconds: float = QUIET_SECONDS) -> bool:
        """Does the broker do nothing for so long?"""
        return self.verdict(seconds) == "silence"

    def verdict(self, seconds: float = PATIENCE_SECONDS) -> str:
        """What the broker does next, in words; "silence" when that is nothing for so long."""
        got = self.read(seconds)
        if got is not None:
            return describe(got) if got.kind == METHOD else "content"
        if self.received.startswith(b"AMQP"):
            return "header " + self.received[4:8].hex()
        return "end" if self.is_at_end else "silence"


def decode(got: Frame) -> Command:
    command = pamqp.frame.unmarshal(frame(*got))[2]
    assert isinstance(command, Command)
    return command


def describe(got: Frame) -> str:
    """One line: a method's name, or the close's code, text and method at fault."""
    class_id, method_id = struct.unpack_from(">HH", got.payload)
    if class_id << 16 | method_id not in commands.INDEX_MAPPING:
        return f"method {class_id}.{method_id}"
    command = decode(got)
    if isinstance(command, commands.Connection.Close | commands.Channel.Close):
        what = command.name.partition(".")[0].lower()
        at = f"{command.class_id}.{command.method_id}"
        return f"{what} {command.reply_code} {command.reply_text} ({at})"
    return command.name
