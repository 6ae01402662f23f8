"""A client's side of a connection without I/O: bytes in, events out, bytes to send.

The session opens the connection (start, tune, open), answers the broker's close methods, and raises
when the broker refuses or closes something. It passes everything else on as the codec's events.

    receive_data(bytes)   takes bytes from the socket
    next_event()          returns the next event; None when more bytes are needed
    data_to_send()        returns bytes for the socket
"""

from __future__ import annotations

from typing import Final

from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import Event, MethodFrame, ProtocolHeader
from sluicemq.amqp.frames import PROTOCOL_HEADER
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from sluicemq.amqp.types import Table
from sluicemq.client.address import Address
from sluicemq.errors import SluiceError

HEARTBEAT_S: Final = 60
"""Seconds between heartbeats that the client asks for. The lower of this and the broker's value
applies; if the broker says 0 there are none."""

CHANNEL_MAX: Final = 2047
FRAME_MAX_BYTES: Final = 131_072

CAPABILITIES: Final[Table] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}


class BrokerError(SluiceError):
    """The broker cannot be reached, cannot be understood, or went away."""


class ClosedByBrokerError(BrokerError):
    """The broker sent connection.close (`channel` is 0 then) or channel.close."""

    def __init__(self, channel: int, code: int, text: str) -> None:
        self.channel = channel
        self.code = code
        self.text = text
        what = f"channel {channel}" if channel else "the connection"
        super().__init__(f"the broker closed {what}: {code} {text}")


class Opened:
    """An event: the connection is ready to use. `frame_max` is in bytes, and `heartbeat_s` is 0
    when there are no heartbeats."""

    __slots__ = ("frame_max", "heartbeat_s", "server_properties")

    def __init__(self, server_properties: Table, frame_max: int, heartbeat_s: int) -> None:
        self.server_properties = server_properties
        self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s


class CloseFinished:
    """An event: the broker has answered our connection.close."""

    __slots__ = ()


SessionEvent = Event | Opened | CloseFinished


class ClientSession:
    """A client's side of one connection without I/O: bytes in, events out, bytes to send."""

    def __init__(self, address: Address, name: str = "", heartbeat_s: int = HEARTBEAT_S) -> None:
        self._address = address
        self._name = name
        self._heartbeat_wanted_s = heartbeat_s
        self._connection = AmqpConnection(CLIENT)
        self._out: list[bytes] = [PROTOCOL_HEADER]
        self._server_properties: Table = {}
        self._frame_max = FRAME_MAX_BYTES
        self._heartbeat_s = 0
        self.is_open = False

    def receive_data(self, data: bytes) -> None:
        """Take bytes that came from the socket; `next_event` returns their events."""
        self._connection.receive_data(data)

    def next_event(self) -> SessionEvent | None:
        """Return the next event; None when more bytes are needed. Raises ClosedByBrokerError when
        the broker closes something, BrokerError when it cannot be understood, and ProtocolViolation
        when it breaks the protocol."""
        while (event := self._connection.next_event()) is not None:
            if isinstance(event, MethodFrame):
                if event.channel == 0:
                    own = self._on_connection_method(event.method)
                    if own is not None:
                        return own
                    if self.is_open:
                        return event
                    continue
                if isinstance(event.method, ChannelClose):
                    self.send(event.channel, ChannelCloseOk())
                    raise ClosedByBrokerError(
                        event.channel, event.method.reply_code, event.method.reply_text
                    )
            elif isinstance(event, ProtocolHeader):
                raise BrokerError("the broker does not speak AMQP 0-9-1")
            return event
        return None

    @property
    def held_bytes(self) -> int:
        """Return the number of received bytes that have not become an event."""
        return self._connection.held_bytes

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the socket now, each once."""
        if not self._out:
            return b""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def send(self, channel: int, method: Method) -> None:
        """Queue a method for `data_to_send` on this channel."""
        self._out.append(method.frame(channel))

    def send_bytes(self, frames: bytes) -> None:
        """Queue whole frames for `data_to_send`."""
        self._out.append(frames)

    def open_channel(self, channel: int) -> None:
        """Ask for a channel; channel.open-ok comes as an event."""
        self.send(channel, ChannelOpen())

    def close(self) -> None:
        """Ask the broker to close the connection; the next event is `CloseFinished`, all others are
        dropped."""
        self.send(0, ConnectionClose(200, "Goodbye"))
        self._connection.ignore_all()

    def _on_connection_method(self, method: Method) -> Opened | CloseFinished | None:
        if isinstance(method, ConnectionStart):
            self._on_start(method)
        elif isinstance(method, ConnectionTune):
            self._on_tune(method)
        elif isinstance(method, ConnectionOpenOk):
            self.is_open = True
            return Opened(self._server_properties, self._frame_max, self._heartbeat_s)
        elif isinstance(method, ConnectionClose):
            self.is_open = False
            self.send(0, ConnectionCloseOk())
            raise ClosedByBrokerError(0, method.reply_code, method.reply_text)
        elif isinstance(method, ConnectionCloseOk):
            self.is_open = False
            return CloseFinished()
        return None

    def _on_start(self, method: ConnectionStart) -> None:
        mechanism = self._address.mechanism
        if mechanism.encode() not in method.mechanisms.split():
            raise BrokerError(
                f"the broker offers no {mechanism} login, only {method.mechanisms.decode()}"
            )
        self._server_properties = method.server_properties
        properties: Table = {"product": "SluiceMQ client", "capabilities": CAPABILITIES}
        if self._name:
            properties["connection_name"] = self._name
        response = f"\0{self._address.username}\0{self._address.password}".encode()
        if mechanism == "EXTERNAL":
            response = b""  # the certificate has said it
        self.send(0, ConnectionStartOk(properties, mechanism, response, "en_US"))

    def _on_tune(self, method: ConnectionTune) -> None:
        self._frame_max = min(method.frame_max or FRAME_MAX_BYTES, FRAME_MAX_BYTES)
        self._heartbeat_s = min(method.heartbeat, self._heartbeat_wanted_s)
        channel_max = min(method.channel_max or CHANNEL_MAX, CHANNEL_MAX)
        self._connection.frame_max = self._frame_max
        self.send(0, ConnectionTuneOk(channel_max, self._frame_max, self._heartbeat_s))
        self.send(0, ConnectionOpen(self._address.virtual_host))
