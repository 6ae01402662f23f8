"""Goal: bytes go in and out in order whatever the socket takes, with bounds, and what ends a
connection is said in the broker's words.

Method: a scripted broker on loopback; both sides in one thread, each step on its own.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.methods import (
    BasicAck,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
)
from sluicemq.client import transport as module
from sluicemq.client.address import Address
from sluicemq.client.poller import NS, Poller
from sluicemq.client.resolved_address import ResolvedAddress
from sluicemq.client.session import BrokerError, ClosedByBrokerError, Opened, SessionEvent
from sluicemq.client.transport import Transport
from unit.client.scripted import ScriptedBroker

LONG_NS = 60 * NS


@pytest.fixture
def poller() -> Iterator[Poller]:
    with closing(Poller()) as made:
        yield made


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as made:
        yield made


class Client(Transport):
    """Counts how often it has room."""

    rooms = 0

    def on_writable(self) -> None:
        self.rooms += 1


def turn(poller: Poller, done: Callable[[], bool]) -> None:
    """Poll until something has happened."""
    for _ in range(10_000):
        if done():
            return
        poller.poll(NS // 100)
    raise AssertionError("it did not happen")


def next_event(poller: Poller, client: Transport) -> SessionEvent:
    found: list[SessionEvent] = []

    def take() -> bool:
        event = client.next_event()
        if event is not None:
            found.append(event)
        client.flush()
        return bool(found)

    turn(poller, take)
    return found[0]


def connected(poller: Poller, broker: ScriptedBroker) -> Client:
    """A client whose connection is open."""
    client = Client(ResolvedAddress(broker.address), poller)
    turn(poller, lambda: not client.is_connecting)
    broker.accept()
    turn(poller, lambda: client.received_bytes > 0)
    assert client.next_event() is None
    client.flush()
    broker.hear()
    turn(poller, lambda: client.next_event() is None and bool(client.session._out))
    client.flush()
    broker.hear_until(ConnectionOpen)
    assert isinstance(next_event(poller, client), Opened)
    return client


def test_the_next_address_is_tried_when_nobody_listens_at_the_first(
    poller: Poller, broker: ScriptedBroker
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    route = ResolvedAddress(broker.address)
    route.socket_addresses.insert(0, (socket.AF_INET, nobody))
    client = Transport(route, poller)
    turn(poller, lambda: not client.is_connecting)
    assert client.socket.getpeername() == ("127.0.0.1", broker.address.port)


def test_the_last_address_says_why_it_cannot_be_connected_to(poller: Poller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    client = Transport(ResolvedAddress(Address("127.0.0.1", port)), poller)
    with pytest.raises(BrokerError, match=r"cannot connect to amqp://guest@.*refused"):
        turn(poller, lambda: not client.is_connecting)
    assert not poller.has_members


def test_an_address_that_does_not_answer_is_given_up_for_the_next(
    poller: Poller, broker: ScriptedBroker
) -> None:
    route = ResolvedAddress(broker.address)
    client = Transport(route, poller)
    with pytest.raises(BrokerError, match=r"cannot connect to .*: timed out"):
        client.give_up_address(TimeoutError("timed out"))
    assert not poller.has_members


def test_what_the_socket_does_not_take_goes_later_and_in_order(
    poller: Poller, broker: ScriptedBroker
) -> None:
    client = connected(poller, broker)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    parts = [bytes([number]) * 3_000_000 for number in range(3)]
    for part in parts:
        client.transmit(part)
    assert client.unsent_bytes > 0
    assert client.is_full
    broker.socket.setblocking(False)
    got = bytearray()

    def take() -> bool:
        try:
            got.extend(broker.socket.recv(1 << 20))
        except BlockingIOError:
            return False
        return len(got) == 9_000_000

    turn(poller, take)
    turn(poller, lambda: not client.is_full)
    assert bytes(got) == b"".join(parts)
    assert (client.unsent_bytes, client.rooms) == (0, 1)


def test_a_broker_that_leaves_too_much_lying_is_given_up(
    poller: Poller, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNSENT_BYTES_MAX", 1000)
    client = connected(poller, broker)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.transmit(bytes(20_000_000))  # one write has no bound
    left = client.unsent_bytes
    assert left > 1000
    with pytest.raises(BrokerError, match=f"has not read {left} bytes"):
        client.transmit(b"one more")


def test_what_came_is_kept_while_nobody_listens(poller: Poller, broker: ScriptedBroker) -> None:
    client = connected(poller, broker)
    client.listen(False)
    before = client.received_bytes
    broker.say(ConnectionBlocked("memory"), channel=0)
    poller.poll(NS // 50)
    assert client.received_bytes == before
    client.listen(True)
    event = next_event(poller, client)
    assert isinstance(event, MethodFrame)
    assert event.method == ConnectionBlocked("memory")


def test_the_brokers_reason_is_said_though_the_socket_was_closed(
    poller: Poller, broker: ScriptedBroker
) -> None:
    """It closes the connection with a reason and goes, and a write notices it first."""
    client = connected(poller, broker)
    broker.say(ConnectionClose(320, "CONNECTION_FORCED - shutting down"), channel=0)
    broker.socket.shutdown(socket.SHUT_RDWR)
    broker.socket.close()
    with pytest.raises(ClosedByBrokerError, match="320 CONNECTION_FORCED - shutting down"):
        for _ in range(1000):
            client.transmit(BasicAck(1).frame(1))


def test_a_loss_without_a_reason_is_called_one(poller: Poller, broker: ScriptedBroker) -> None:
    client = connected(poller, broker)
    broker.socket.close()
    with pytest.raises(BrokerError, match="was lost: it closed the socket"):
        turn(poller, lambda: client.next_event() is not None)


def test_a_reset_is_told_to_who_does_not_listen(poller: Poller, broker: ScriptedBroker) -> None:
    client = connected(poller, broker)
    client.listen(False)
    broker.reset()
    with pytest.raises(BrokerError, match=r"was lost: .*reset"):
        turn(poller, lambda: False)


def test_severed_from_another_place_it_ends_like_a_loss(
    poller: Poller, broker: ScriptedBroker
) -> None:
    client = connected(poller, broker)
    client.sever()
    with pytest.raises(BrokerError, match="was lost"):
        turn(poller, lambda: False)
    client.abandon()
    client.abandon()
    client.sever()
    assert not poller.has_members


def test_who_does_not_keep_to_the_protocol_is_said_so(
    poller: Poller, broker: ScriptedBroker
) -> None:
    client = connected(poller, broker)
    broker.socket.sendall(b"\x09nonsense")
    with pytest.raises(BrokerError, match="does not keep to AMQP"):
        next_event(poller, client)


def test_heartbeats_go_when_nothing_else_did_and_are_owed() -> None:
    with closing(Poller()) as poller, ScriptedBroker(heartbeat_s=10) as broker:
        client = connected(poller, broker)
        now_ns = client.received_ns
        client.keep_alive(now_ns + 4 * NS)
        client.transmit(ChannelOpen().frame(1))
        broker.hear_until(ChannelOpen)
        assert broker.heartbeats == 0
        client.keep_alive(now_ns + 6 * NS)
        while not broker.heartbeats:
            broker.hear()
        with pytest.raises(BrokerError, match="was silent for 31 s"):
            client.keep_alive(now_ns + 31 * NS)
        client.keep_alive(now_ns + 31 * NS, listening=False)
        client.keep_alive(now_ns + 61 * NS)
