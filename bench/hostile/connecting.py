"""Attacks by connections and channels."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import time
from collections import Counter

from hostile import frames
from hostile.attack import Attacker, attack, close_all
from hostile.link import Gone, Link, pattern
from sluicemq.amqp.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from sluicemq.amqp.methods import (
    BasicQos,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpenOk,
    QueueDeclare,
)

SILENT = 1100
SEED = 11
OPENED = ChannelOpenOk().frame(1)
CONNECTED = pattern(ConnectionOpenOk, 0)


@attack()
def nothing(attacker: Attacker) -> None:
    """Nothing: the calm broker."""
    attacker.begin()
    attacker.hold()


@attack()
def busy_machine(attacker: Attacker) -> None:
    """Nothing but a process that takes a processor."""
    attacker.begin()
    while True:
        attacker.count("sums", sum(1 for _ in range(1000)))


@attack()
def channels(attacker: Attacker) -> None:
    """channel.open and close in a pipeline."""
    attacker.begin()
    attacker.flood(ChannelOpen().frame(2) + frames.close_channel(2), "channels")


@attack()
def all_channels(attacker: Attacker) -> None:
    """All 2,047 channels of a connection opened, the connection cut, again and again."""
    attacker.begin()
    while True:
        attacker.leave(attacker.link(frames.CHANNEL_MAX))
        attacker.count("channels", frames.CHANNEL_MAX)


@attack()
def channel_errors(attacker: Attacker) -> None:
    """All 2,047 channels of a connection closed for an error and opened again, again and again."""
    link = attacker.link(frames.CHANNEL_MAX)
    attacker.begin()
    while True:
        close_all(attacker, link, QueueDeclare(queue="missing", passive=True))


@attack(files=1024)
def silent_connections(attacker: Attacker) -> None:
    """1,100 TCP connections that say nothing, with `ulimit -n 1024`; closed ones are replaced."""
    attacker.begin()
    poll = select.poll()
    held: dict[int, socket.socket] = {}
    while True:
        while len(held) < SILENT:
            link = socket.create_connection(("127.0.0.1", attacker.port), 10)
            held[link.fileno()] = link
            poll.register(link.fileno(), select.POLLIN)
            attacker.count("connections")
        for number, _ in poll.poll(100):
            poll.unregister(number)
            held.pop(number).close()
        time.sleep(0.05)


def in_turn(attacker: Attacker, said: bytes, what: str, at_once: int, answers: int) -> None:
    """Short connections, so many at a time: each says this, and is cut when so many octets came,
    or closed when the broker closes it."""
    poll = select.poll()
    held: dict[int, socket.socket] = {}
    heard: Counter[int] = Counter()
    while True:
        while len(held) < at_once:
            link = socket.create_connection(("127.0.0.1", attacker.port), 10)
            with contextlib.suppress(OSError):
                link.sendall(said)
            held[link.fileno()] = link
            poll.register(link.fileno(), select.POLLIN)
        for number, _ in poll.poll(1000):
            try:
                length = len(held[number].recv(65536))
            except OSError:
                length = 0
            heard[number] += length
            if not length or heard[number] >= answers:
                poll.unregister(number)
                held.pop(number).close()
                del heard[number]
                attacker.count(what)


@attack()
def connects(attacker: Attacker) -> None:
    """50 TCP connections at a time, closed at the broker's greeting."""
    attacker.begin()
    in_turn(attacker, PROTOCOL_HEADER, "connections", 50, 1)


@attack()
def log_ins(attacker: Attacker) -> None:
    """50 log-ins at a time, with 10 channels each, cut when they are there."""
    answers = greeting_bytes(attacker) + 10 * len(OPENED)
    attacker.begin()
    in_turn(attacker, frames.login(10), "log-ins", 50, answers)


def greeting_bytes(attacker: Attacker) -> int:
    """What the broker says until a connection is open."""
    with socket.create_connection(("127.0.0.1", attacker.port), 10) as link:
        link.sendall(frames.login(0))
        said = b""
        while not CONNECTED.search(said):
            said += link.recv(65536)
    return len(said)


@attack()
def wrong_passwords(attacker: Attacker) -> None:
    """1,000 log-ins at a time with a wrong password."""
    attacker.begin()
    in_turn(attacker, frames.login(1, password="wrong"), "log-ins", 1000, 1 << 20)


@attack()
def garbage(attacker: Attacker) -> None:
    """50 connections at a time that send 64 KiB of random bytes behind a log-in."""
    dice = random.Random(SEED)
    said = frames.login(1) + dice.randbytes(1 << 16)
    attacker.begin()
    in_turn(attacker, said, "connections", 50, 1 << 20)


@attack()
def heartbeats(attacker: Attacker) -> None:
    """Heartbeat frames without a pause on 3 connections."""
    attacker.begin()
    attacker.flood(HEARTBEAT_FRAME, "heartbeats", links=3)


@attack()
def single_bytes(attacker: Attacker) -> None:
    """200 connections that send their methods octet by octet."""
    links = [attacker.link() for _ in range(200)]
    said = BasicQos(prefetch_count=5).frame(1)
    attacker.begin()
    while True:
        for octet in said:
            for link in links:
                trickle(link, octet)
            attacker.count("writes", len(links))


def trickle(link: Link, octet: int) -> None:
    """One byte, and what came is dropped."""
    if not link.send(memoryview(bytes([octet]))):
        raise Gone("the broker takes nothing more")
    link.read()


@attack()
def prefetches(attacker: Attacker) -> None:
    """basic.qos in a pipeline on 3 connections."""
    attacker.begin()
    attacker.flood(BasicQos(prefetch_count=7).frame(1), "methods", links=3)
