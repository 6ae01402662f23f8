"""Goal: a wire waits for what it was asked for, loses nothing that comes meanwhile, and gives up in
time and in words.

Method: a scripted broker in a thread of its own.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.methods import (
    BasicAck,
    ChannelClose,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
)
from sluicemq.client import wire as module
from sluicemq.client.address import Address
from sluicemq.client.poller import Poller, Waker
from sluicemq.client.session import BrokerError, ClosedByBrokerError
from sluicemq.client.wire import Wire
from unit.client.scripted import ScriptedBroker

TIMEOUT_S = 60.0


@contextmanager
def scripted(script: Callable[[ScriptedBroker], None]) -> Iterator[Address]:
    """A broker that opens the connection and then does what the script says; what it stumbles over
    is raised at the end."""
    with ScriptedBroker() as broker, ThreadPoolExecutor(1) as thread:

        def run() -> None:
            broker.accept()
            script(broker)

        played: Future[None] = thread.submit(run)
        yield broker.address
        played.result(TIMEOUT_S)


def until_the_end(broker: ScriptedBroker) -> None:
    while broker.hear():
        pass


def test_what_comes_before_an_answer_is_kept_for_poll() -> None:
    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(QueueDeclare)
        broker.say(BasicAck(1))
        broker.say(ConnectionBlocked("memory"), channel=0)
        broker.say(QueueDeclareOk("q", 3, 0))
        broker.say(BasicAck(2))
        until_the_end(broker)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        assert wire.call(QueueDeclare(queue="q"), QueueDeclareOk).message_count == 3
        assert len(wire.kept_events()) == 2
        tags: list[int] = []
        reasons: list[str] = []
        while len(tags) < 2:
            for event in wire.poll(TIMEOUT_S):
                if isinstance(event, Acks):
                    tags += event.tags
                elif isinstance(event, MethodFrame):
                    if isinstance(event.method, BasicAck):
                        tags.append(event.method.delivery_tag)
                    elif isinstance(event.method, ConnectionBlocked):
                        reasons.append(event.method.reason)
        assert (tags, reasons) == ([1, 2], ["memory"])
        wire.close()


def test_who_stops_reading_early_is_given_the_rest_the_next_time() -> None:
    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(ChannelOpen)
        blocked = [ConnectionBlocked(str(number)).frame(0) for number in range(10)]
        broker.socket.sendall(b"".join(blocked))
        until_the_end(broker)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        wire.send(QueueDeclare(queue="q"))
        found: list[str] = []
        while len(found) < 10:
            for event in wire.poll(TIMEOUT_S):
                assert isinstance(event, MethodFrame)
                assert isinstance(event.method, ConnectionBlocked)
                found.append(event.method.reason)
                break
        assert found == [str(number) for number in range(10)]
        wire.close()


def test_a_call_goes_on_in_a_new_channel_after_the_broker_closed_one() -> None:
    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(QueueDeclare)
        broker.say(ChannelClose(404, "NOT_FOUND - no queue", 50, 10))
        broker.heard.clear()
        broker.hear_until(QueueDeclare)
        assert any(isinstance(method, ChannelOpen) for method in broker.heard)
        broker.say(QueueDeclareOk("q", 0, 0))
        until_the_end(broker)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        with pytest.raises(ClosedByBrokerError, match="404 NOT_FOUND"):
            wire.call(QueueDeclare(queue="q"), QueueDeclareOk)
        assert wire.call(QueueDeclare(queue="q"), QueueDeclareOk).queue == "q"
        wire.close()


def test_a_broker_that_answers_nothing_is_not_waited_for_long() -> None:
    with scripted(until_the_end) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        wire.timeout_s = 0.05
        with pytest.raises(BrokerError, match="did not answer in time"):
            wire.call(QueueDeclare(queue="q"), QueueDeclareOk)
        wire.abandon()


def test_a_flood_instead_of_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 100_000)

    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(QueueDeclare)
        with pytest.raises(OSError, match=r"reset|pipe"):
            while True:
                broker.socket.sendall(ConnectionBlocked("x" * 200).frame(0) * 100)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        with pytest.raises(BrokerError, match="bytes and no answer"):
            wire.call(QueueDeclare(queue="q"), QueueDeclareOk)
        wire.abandon()


def test_a_write_that_waits_reads_on() -> None:
    """The broker does not listen before it has got rid of what it says."""
    said = 4000 * 200

    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(ChannelOpen)
        for _ in range(200):
            broker.socket.sendall(ConnectionBlocked("x" * 200).frame(0) * 100)
        until_the_end(broker)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        wire.send_bytes(QueueDeclare(queue="q" * 200).frame(1) * 100_000)
        wire.flush()
        assert wire.received_bytes > 0
        count = 0
        while count < 20_000:
            count += sum(1 for _ in wire.poll(TIMEOUT_S))
        assert count * 200 > said
        wire.abandon()


def test_a_write_does_not_read_ahead_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_AHEAD_BYTES_MAX", 100_000)
    monkeypatch.setattr(module, "LOOK_NS", 1_000_000)
    ended, played_to_the_end = threading.Event(), threading.Event()

    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(ChannelOpen)
        broker.socket.settimeout(0.01)
        while not ended.is_set():
            try:
                broker.socket.send(ConnectionBlocked("x" * 200).frame(0) * 100)
            except TimeoutError:
                continue
        played_to_the_end.set()

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        wire.send_bytes(bytes(50_000_000))
        wire.timeout_s = 0.2
        with pytest.raises(BrokerError, match=r"has read nothing for 0.2 s"):
            wire.flush()
        assert 100_000 <= wire.received_bytes < 400_000
        ended.set()
        played_to_the_end.wait(TIMEOUT_S)
        wire.abandon()


def test_a_reason_that_came_with_the_end_is_raised_and_the_socket_closed() -> None:
    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(QueueDeclare)
        broker.say(ConnectionClose(320, "CONNECTION_FORCED - bye"), channel=0)
        broker.socket.shutdown(socket.SHUT_WR)
        until_the_end(broker)

    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test")
        with pytest.raises(ClosedByBrokerError, match="320 CONNECTION_FORCED"):
            wire.call(QueueDeclare(queue="q"), QueueDeclareOk)
        wire.close()


def test_a_shared_poller_is_given_back_and_its_waker_ends_a_wait() -> None:
    poller = Poller()
    waker = Waker(poller)
    with scripted(until_the_end) as address:
        wire = Wire(address, TIMEOUT_S, "test", poller=poller)
        waker.wake()
        assert list(wire.poll(TIMEOUT_S)) == []
        assert waker.woken
        wire.close()
    with pytest.raises(BrokerError, match="cannot connect"):
        Wire(Address("127.0.0.1", 1), TIMEOUT_S, "test", poller=poller)
    waker.wake()
    waker.woken = False
    poller.poll(0)
    assert waker.woken
    poller.close()


def test_a_paused_wire_is_told_nothing_and_a_poll_listens_again() -> None:
    asked = threading.Event()

    def script(broker: ScriptedBroker) -> None:
        broker.hear_until(ChannelOpen)
        asked.wait(TIMEOUT_S)
        broker.say(ConnectionBlocked("memory"), channel=0)
        until_the_end(broker)

    poller = Poller()
    with scripted(script) as address:
        wire = Wire(address, TIMEOUT_S, "test", poller=poller)
        wire.send(QueueDeclare(queue="q"))
        wire.pause()
        received_bytes = wire.received_bytes
        asked.set()
        poller.poll(20_000_000)
        assert wire.received_bytes == received_bytes
        began = time.monotonic()
        while not list(wire.poll(TIMEOUT_S)):
            pass
        assert time.monotonic() - began < TIMEOUT_S
        wire.close()
    poller.close()


def test_a_name_nobody_knows_cannot_be_connected_to() -> None:
    with pytest.raises(BrokerError, match=r"cannot connect to amqp://guest@nowhere.invalid"):
        Wire(Address("nowhere.invalid"), 1.0, "test")
