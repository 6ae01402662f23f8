"""Goal: a look for links leaves clients alone, whose bytes are there in the next one; and nobody
else has to wait for that.

Method: real sockets, and a moderation that is told what the next look is for.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator

import pytest

from sluicemq.host.moderation import NS_PER_MS, Moderation
from sluicemq.host.poller import PolledSocket, SocketPoller

PAUSE_MAX_MS = 1


class Ear(PolledSocket):
    """A socket that keeps what it hears."""

    def __init__(self, poller: SocketPoller) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        super().__init__(poller, ours)
        self.heard = b""
        self.is_gone = False
        self.had_room = 0
        poller.add(self)
        self.resume_reading()

    def received(self, data: bytes) -> None:
        self.heard += data

    def has_room(self) -> None:
        self.had_room += 1

    def lost(self, error: OSError | None) -> None:
        self.is_gone = True


class Bench:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.moderation = Moderation(PAUSE_MAX_MS)
        self.poller = SocketPoller(self.loop, memoryview(bytearray(65536)), self.moderation)
        self.client, self.link = Ear(self.poller), Ear(self.poller)
        self.link.become_link()

    def pause_longest(self) -> None:
        """Have the longest pause of linked nodes; the next look is for links."""
        self.moderation.is_linked = True
        self.moderation.pause_ns = self.moderation.longest_ns
        self.moderation.is_for_links = True
        self.moderation.began_ns = time.perf_counter_ns() + 3_600_000 * NS_PER_MS


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    for ear in (made.client, made.link):
        ear.lose(None)
        ear.peer.close()
    made.loop.close()


def test_looks_take_turns(bench: Bench) -> None:
    bench.pause_longest()
    for ear in (bench.client, bench.link):
        ear.peer.send(b"one")
    bench.poller.look_within(0)
    assert (bench.client.heard, bench.link.heard) == (b"", b"one")
    bench.link.peer.send(b"two")
    bench.poller.look_within(0)
    assert (bench.client.heard, bench.link.heard) == (b"one", b"onetwo")
    for ear in (bench.client, bench.link):
        ear.peer.send(b"!")
    bench.poller.look_within(0)
    assert (bench.client.heard, bench.link.heard) == (b"one", b"onetwo!")


def test_a_client_waits_for_one_pause_more_at_most_though_no_link_brings_anything(
    bench: Bench,
) -> None:
    bench.pause_longest()
    bench.client.peer.send(b"one")
    for _ in range(2):
        bench.poller.look_within(-1)
    assert bench.client.heard == b"one"


def test_without_a_pause_a_look_is_for_all(bench: Bench) -> None:
    bench.pause_longest()
    bench.moderation.pause_ns = 0
    bench.client.peer.send(b"one")
    bench.poller.look_within(-1)  # it was for links, and found nothing
    bench.poller.look_within(0)
    bench.client.peer.send(b"two")
    bench.poller.look_within(0)
    assert bench.client.heard == b"onetwo"


def test_other_descriptors_are_looked_at_in_all_looks_until_they_are_watched_no_more(
    bench: Bench,
) -> None:
    there, here = os.pipe()
    called = []
    bench.poller.watch(there, lambda: called.append(os.read(there, 100)))
    for text in (b"one", b"two"):
        bench.pause_longest()
        os.write(here, text)
        bench.poller.look_within(0)
    assert called == [b"one", b"two"]
    assert bench.poller.watch_no_more(there)
    bench.pause_longest()
    os.write(here, b"three")
    for _ in range(4):
        bench.poller.look_within(0)
    assert called == [b"one", b"two"]
    os.close(there)
    os.close(here)


def test_a_link_rests_writes_and_ends_as_any_socket(bench: Bench) -> None:
    link = bench.link
    link.pause_reading()
    link.peer.send(b"one")
    for _ in range(4):
        bench.pause_longest()
        bench.poller.look_within(0)
    assert not link.heard
    link.resume_reading()
    bench.pause_longest()
    bench.poller.look_within(0)
    assert link.heard == b"one"
    sent = 1 << 22
    link.transmit(bytes(sent))
    link.peer.setblocking(False)
    taken = 0
    for _ in range(100_000):
        try:
            taken += len(link.peer.recv(1 << 16))
        except BlockingIOError:
            bench.pause_longest()
            bench.poller.look_within(0)
        if taken == sent:
            break
    assert taken == sent
    assert link.had_room == 1
    link.peer.close()
    bench.pause_longest()
    bench.poller.look_within(0)
    for _ in range(2):  # the loop's next turn closes it
        bench.loop.run_until_complete(asyncio.sleep(0))
    assert link.is_gone
