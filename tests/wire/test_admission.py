"""Goal: who has not logged in can take little, and not for long; limits of 0 lift them. Method:
brokers with small limits, peers that say nothing, too much, or all of it very slowly.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from support import broker
from support.broker import Target
from support.peer import (
    PATIENCE_SECONDS,
    PROTOCOL,
    Peer,
    body,
    call,
    connection_open,
    describe,
    header,
    start_ok,
    tune_ok,
)
from support.waiting import await_truth

Basic, Queue = commands.Basic, commands.Queue


HANDSHAKE_MS = 4000
PLACES = ("net.half_open_max=12", "net.half_open_per_address_max=8", "connection_max=3")


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Target]:
    with broker.serving(tmp_path, *PLACES, f"handshake_timeout={HANDSHAKE_MS}") as own:
        yield own


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Target]:
    """No stricter but for the time that newcomers have: they keep their places."""
    timeout_ms = round(1000 * PATIENCE_SECONDS)
    with broker.serving(tmp_path, *PLACES, f"handshake_timeout={timeout_ms}") as own:
        yield own


def from_address(target: Target, address: str) -> socket.socket:
    """Another of the loopback's addresses."""
    there = target.host, target.port
    return socket.create_connection(there, PATIENCE_SECONDS, source_address=(address, 0))


def is_served(there: socket.socket) -> bool:
    """Does the broker greet?"""
    try:
        there.sendall(PROTOCOL)
        return there.recv(100) != b""
    except ConnectionError:
        return False


def can_log_in(target: Target) -> bool:
    with Peer(target) as peer:
        peer.send(PROTOCOL + start_ok() + tune_ok() + connection_open())
        for _ in range(3):
            frame = peer.read()
            if frame is None or "OpenOk" in describe(frame):
                return frame is not None
    return False


def test_places_of_those_who_have_not_logged_in(patient: Target) -> None:
    mine = [Peer(patient) for _ in range(8)]
    assert mine[-1].start()
    with Peer(patient) as ninth:
        assert ninth.send(PROTOCOL).verdict() == "end"
    others = [from_address(patient, "127.0.0.2") for _ in range(4)]
    assert all(is_served(there) for there in others)
    assert not is_served(from_address(patient, "127.0.0.3")), "the node's places are taken"
    mine[0].log_in()
    others[0].close()
    await_truth(lambda: is_served(from_address(patient, "127.0.0.3")))
    mine[0].open()


def test_a_handshake_byte_by_byte_is_not_waited_for(strict: Target) -> None:
    """Each byte comes in time, the whole does not. Those who say nothing give their places back."""
    whole = PROTOCOL + start_ok() + tune_ok()
    pause_s = 2 * HANDSHAKE_MS / 1000 / len(whole)
    begun = time.monotonic()
    silent = [Peer(strict) for _ in range(7)]
    with Peer(strict) as peer:
        for sent in range(len(whole)):
            peer.send(whole[sent : sent + 1])
            time.sleep(pause_s)
            if peer.is_at_end:
                break
        while not peer.is_at_end:
            assert peer.verdict() != "silence"
    assert time.monotonic() - begun > 0.9 * HANDSHAKE_MS / 1000
    assert [each.verdict() for each in silent] == ["end"] * len(silent)
    await_truth(lambda: can_log_in(strict))


@pytest.mark.parametrize(("size", "passes"), [(7000, True), (8500, False)])
def test_a_large_frame_before_the_login(strict: Target, size: int, passes: bool) -> None:
    """The password is wrong; whether it is looked at is the question."""
    with Peer(strict) as peer:
        peer.start().send(start_ok(b"\0guest\0" + b"x" * size))
        assert peer.verdict().startswith("connection 403" if passes else "end")


def test_after_the_login_frames_may_be_large_at_once(strict: Target) -> None:
    """All of it in one write."""
    with Peer(strict) as peer:
        peer.send(PROTOCOL + start_ok() + tune_ok() + connection_open())
        for name in ("Connection.Start", "Connection.Tune", "Connection.OpenOk"):
            peer.expect(name)
        peer.open().send(call(Queue.Declare(queue="q", exclusive=True)))
        peer.expect("Queue.DeclareOk")
        peer.send(call(Basic.Publish(routing_key="q")) + header(100_000) + body(b"x" * 100_000))
        peer.send(call(Basic.Get(queue="q", no_ack=True))).expect("Basic.GetOk")
        assert len(peer.content()) == 100_000


def test_no_more_connections_than_there_may_be(strict: Target) -> None:
    peers = [Peer(strict).log_in() for _ in range(3)]
    with Peer(strict) as fourth:
        fourth.authenticate().send(tune_ok(), connection_open())
        assert fourth.verdict() == (
            "connection 530 NOT_ALLOWED - connection refused: node connection limit (3) is"
            " reached (10.40)"
        )
    peers[0].socket.close()
    await_truth(lambda: can_log_in(strict))
    peers[1].open()


def test_limits_of_zero(tmp_path: Path) -> None:
    """A frame of a MiB goes in whole, and comes out in small ones for who wants them small."""
    size = 1 << 20
    settings = ("frame_max=0", "channel_max=0", "heartbeat=0", "product.name=RabbitMQ")
    serving = broker.serving(tmp_path, *settings, "product.version=3.10.8")
    with serving as target, Peer(target) as peer, Peer(target) as small:
        server = peer.send(PROTOCOL).expect("Connection.Start").server_properties
        assert (server["product"], server["version"]) == ("RabbitMQ", "3.10.8")
        tune = peer.send(start_ok()).expect("Connection.Tune")
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (0, 0, 0)
        peer.send(tune_ok(0, 0), connection_open()).expect("Connection.OpenOk")
        peer.open(1, 65535).send(call(Queue.Declare(queue="q")))
        peer.expect("Queue.DeclareOk")
        small.log_in(frame_max=4096).open().send(call(Basic.Consume(queue="q", no_ack=True)))
        small.expect("Basic.ConsumeOk")
        peer.send(call(Basic.Publish(routing_key="q")) + header(size) + body(b"x" * size))
        small.expect("Basic.Deliver")
        assert len(small.content()) == size
