"""Goal: the opening, the closes, and what is refused. Method: a session wired to the codec's other
side, both without I/O."""

from __future__ import annotations

import pytest

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import MethodFrame, ProtocolHeader
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from sluicemq.client.address import Address
from sluicemq.client.session import (
    BrokerError,
    ClientSession,
    ClosedByBrokerError,
    CloseFinished,
    Opened,
    SessionEvent,
)

START = ConnectionStart(0, 9, {"product": "Test"}, b"AMQPLAIN PLAIN", b"en_US")


class Wire:
    """A session and a broker made of nothing but the codec."""

    def __init__(self, address: Address | None = None) -> None:
        self.session = ClientSession(address or Address(), "a name")
        self.broker = AmqpConnection(SERVER)

    def said(self) -> list[Method]:
        """What the client has said since the last time."""
        self.broker.receive_data(self.session.data_to_send())
        methods: list[Method] = []
        while (event := self.broker.next_event()) is not None:
            if isinstance(event, ProtocolHeader):
                continue
            assert isinstance(event, MethodFrame)
            methods.append(event.method)
        return methods

    def say(self, method: Method, channel: int = 0) -> SessionEvent | None:
        self.session.receive_data(method.frame(channel))
        return self.session.next_event()

    def open(self) -> Opened:
        self.said()
        assert self.say(START) is None
        assert self.say(ConnectionTune(2047, 131072, 60)) is None
        opened = self.say(ConnectionOpenOk())
        assert isinstance(opened, Opened)
        self.said()
        return opened


def test_the_opening_logs_in_and_tunes_down() -> None:
    wire = Wire(Address("h", 1, "me", "secret", "v"))
    assert wire.said() == []
    assert wire.say(START) is None
    (start_ok,) = wire.said()
    assert isinstance(start_ok, ConnectionStartOk)
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\0me\0secret")
    assert start_ok.client_properties["connection_name"] == "a name"
    assert wire.say(ConnectionTune(0, 4096, 600)) is None
    assert wire.said() == [ConnectionTuneOk(2047, 4096, 60), ConnectionOpen("v")]
    opened = wire.say(ConnectionOpenOk())
    assert isinstance(opened, Opened)
    assert opened.server_properties == {"product": "Test"}
    assert (opened.frame_max, opened.heartbeat_s) == (4096, 60)


def test_a_broker_without_heartbeats_and_frame_limit_is_taken_at_its_word() -> None:
    wire = Wire()
    wire.say(START)
    wire.said()
    wire.say(ConnectionTune(0, 0, 0))
    assert wire.said()[0] == ConnectionTuneOk(2047, 131072, 0)


def test_events_come_through_once_the_connection_is_open() -> None:
    wire = Wire()
    wire.open()
    wire.session.open_channel(1)
    assert wire.said() == [ChannelOpen()]
    event = wire.say(ChannelOpenOk(), channel=1)
    assert isinstance(event, MethodFrame)
    event = wire.say(ConnectionBlocked("low on memory"))
    assert isinstance(event, MethodFrame)
    assert event.method == ConnectionBlocked("low on memory")


def test_a_channel_closed_by_the_broker_is_answered_and_raised() -> None:
    wire = Wire()
    wire.open()
    with pytest.raises(ClosedByBrokerError, match="channel 1: 404 NOT_FOUND") as closed:
        wire.say(ChannelClose(404, "NOT_FOUND - no queue", 50, 10), channel=1)
    assert (closed.value.channel, closed.value.code) == (1, 404)
    assert wire.said() == [ChannelCloseOk()]


def test_a_connection_closed_by_the_broker_is_answered_and_raised() -> None:
    wire = Wire()
    wire.open()
    with pytest.raises(ClosedByBrokerError, match="the connection: 320 CONNECTION_FORCED"):
        wire.say(ConnectionClose(320, "CONNECTION_FORCED - bye"))
    assert wire.said() == [ConnectionCloseOk()]
    assert not wire.session.is_open


def test_a_refused_login_is_raised_with_the_brokers_words() -> None:
    wire = Wire()
    wire.say(START)
    with pytest.raises(ClosedByBrokerError, match="403 ACCESS_REFUSED"):
        wire.say(ConnectionClose(403, "ACCESS_REFUSED - no"))


def test_our_close_swallows_everything_until_it_is_answered() -> None:
    wire = Wire()
    wire.open()
    wire.session.close()
    assert isinstance(wire.said()[0], ConnectionClose)
    assert wire.say(ChannelClose(404, "NOT_FOUND"), channel=1) is None
    assert isinstance(wire.say(ConnectionCloseOk()), CloseFinished)


def test_another_protocol_and_another_login_are_refused() -> None:
    other = ClientSession(Address())
    other.receive_data(b"AMQP\x00\x01\x00\x00")
    with pytest.raises(BrokerError, match="does not speak AMQP 0-9-1"):
        other.next_event()
    with pytest.raises(BrokerError, match="no PLAIN login, only EXTERNAL"):
        Wire().say(ConnectionStart(0, 9, {}, b"EXTERNAL", b"en_US"))
