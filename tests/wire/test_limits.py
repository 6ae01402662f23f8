"""Heartbeats, channel numbers, half-open connections: what a peer may keep busy, how long."""

from __future__ import annotations

import struct
import time

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import (
    PROTOCOL,
    Peer,
    call,
    channel_open,
    connection_open,
    frame,
    start_ok,
    tune_ok,
)

HEARTBEAT = frame(8, 0, b"")
Basic, Queue = commands.Basic, commands.Queue


def serves(target: Target) -> bool:
    """Does a newcomer get through?"""
    with Peer(target) as peer:
        peer.log_in().open().send(call(Queue.Declare(exclusive=True))).expect("Queue.DeclareOk")
    return True


def test_tune_offers_rabbitmqs_limits(target: Target) -> None:
    with Peer(target) as peer:
        tune = peer.start().send(start_ok()).expect("Connection.Tune")
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_a_silent_client_is_cut_after_two_heartbeats(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in(heartbeat=1)
        begun = time.monotonic()
        assert peer.verdict() == "end"
        assert time.monotonic() - begun > 1
        assert peer.heartbeats >= 1


def test_heartbeats_alone_keep_a_client(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in(heartbeat=2)
        for _ in range(12):
            peer.send(HEARTBEAT)
            assert peer.is_silent(0.5)
        assert peer.heartbeats >= 2


def test_any_traffic_keeps_a_client(target: Target) -> None:
    """Even the single bytes of one long frame."""
    with Peer(target) as peer:
        peer.log_in(heartbeat=2).open()
        for _ in range(10):
            peer.send(call(Basic.Qos(prefetch_count=5))).expect("Basic.QosOk")
            time.sleep(0.4)
        for byte in call(Basic.Qos(prefetch_count=5)):
            peer.send(bytes([byte]))
            time.sleep(0.3)
        peer.expect("Basic.QosOk")


def test_no_heartbeat_means_no_cut(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in(heartbeat=0)
        assert peer.is_silent(4)
        assert peer.heartbeats == 0
        peer.open()


def test_channel_max_is_kept(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in(channel_max=10).open(*range(1, 11)).send(channel_open(11))
        assert peer.verdict() == (
            "connection 530 NOT_ALLOWED - number of channels opened (10) has reached the "
            "negotiated channel_max (10) (0.0)"
        )


def test_all_channels_of_a_connection_work(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in().send(b"".join(channel_open(number) for number in range(1, 2048)))
        for _ in range(1, 2048):
            peer.expect("Channel.OpenOk")
        for number in (1, 1000, 2047):
            peer.send(call(Queue.Declare(exclusive=True), number)).expect("Queue.DeclareOk")


@pytest.mark.parametrize(
    ("channel_max", "frame_max"), [(65535, 131072), (2047, 1_000_000), (0, 131072), (2047, 0)]
)
def test_a_client_may_not_raise_the_limits(
    target: Target, channel_max: int, frame_max: int
) -> None:
    """RabbitMQ hangs up; a client that hears why has it better."""
    with Peer(target) as peer:
        peer.authenticate().send(tune_ok(channel_max, frame_max), connection_open())
        said = peer.verdict()
        assert said == "end" or said.startswith(("connection 530", "connection 501"))


def test_three_hundred_half_open_connections_harm_nobody(target: Target) -> None:
    """They are cut after ten seconds; meanwhile newcomers are served."""
    peers = [Peer(target).send(PROTOCOL[: number % 8]) for number in range(300)]
    assert serves(target)
    assert peers[-1].is_silent(), "served while they are there"
    for peer in peers:
        with peer:
            while not peer.is_at_end:
                assert peer.verdict() != "silence"
    assert serves(target)


def test_five_hundred_idle_connections_are_held(target: Target) -> None:
    peers = [Peer(target) for _ in range(500)]
    for peer in peers:
        peer.send(PROTOCOL, start_ok(), tune_ok(), connection_open())
    for peer in peers:
        for answer in ("Connection.Start", "Connection.Tune", "Connection.OpenOk"):
            peer.expect(answer)
    assert serves(target)
    for peer in peers:
        with peer:
            peer.open()


def test_a_huge_body_announced_costs_nothing(target: Target) -> None:
    for size in (1 << 63, (1 << 64) - 1, 600 << 20):
        with Peer(target) as peer:
            peer.log_in().open().send(call(Basic.Publish(routing_key="x")))
            peer.send(frame(2, 1, struct.pack(">HHQ", 60, 0, size) + b"\0\0"))
            said = peer.verdict()
            assert said in ("silence", "end") or said.startswith(("channel", "connection"))
    assert serves(target)
