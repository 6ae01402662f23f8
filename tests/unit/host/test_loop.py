"""Goal: while the event loop waits by a poller, all else of asyncio works as it does without.

Method: real descriptors: a socket of the poller's, and what asyncio has beside it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicemq.host.loop import BrokerLoop
from sluicemq.host.moderation import Moderation
from sluicemq.host.poller import PolledSocket, SocketPoller

PATIENCE_S = 60.0
SOON_S = 0.02


class Listener(PolledSocket):
    """A socket that keeps what it hears, and calls back."""

    def __init__(self, poller: SocketPoller, plain: socket.socket) -> None:
        super().__init__(poller, plain)
        self.heard = b""
        self.then: Callable[[], object] = bool
        plain.setblocking(False)
        poller.add(self)
        self.resume_reading()

    def received(self, data: bytes) -> None:
        self.heard += data
        self.then()

    def lost(self, error: OSError | None) -> None:
        """Nobody needs to know."""


class Bench:
    def __init__(self) -> None:
        self.loop = BrokerLoop()
        self.poller = SocketPoller(self.loop, memoryview(bytearray(65536)), Moderation(0))
        ours, self.peer = socket.socketpair()
        self.ear = Listener(self.poller, ours)

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE_S):
                return await work

        return self.loop.run_until_complete(bounded())

    def until(self, done: Callable[[], object]) -> None:
        async def look() -> None:
            while not done():
                await asyncio.sleep(0.001)

        self.run(look())


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.ear.lose(None)
    made.peer.close()
    made.loop.close()


def chatter(bench: Bench, stop: threading.Event) -> threading.Thread:
    """Bytes for the socket all the time, from a thread."""

    def talk() -> None:
        while not stop.wait(0.0005):
            bench.peer.send(b"x")

    thread = threading.Thread(target=talk)
    thread.start()
    return thread


def test_a_timer_ends_the_wait_in_time_though_sockets_are_busy(bench: Bench) -> None:
    stop = threading.Event()
    thread = chatter(bench, stop)

    async def sleep() -> float:
        began = time.monotonic()
        await asyncio.sleep(SOON_S)
        return time.monotonic() - began

    assert bench.run(sleep()) >= SOON_S
    stop.set()
    thread.join()
    assert bench.ear.heard


@pytest.mark.parametrize("how", ["at once", "later"])
def test_what_a_look_asks_of_the_loop_is_done(bench: Bench, how: str) -> None:
    """With no timer set, the wait would otherwise have no end."""
    done = asyncio.Event()

    def ask() -> None:
        if how == "at once":
            bench.loop.call_soon(done.set)
        else:
            bench.loop.call_later(SOON_S, done.set)

    bench.ear.then = ask
    bench.peer.send(b"x")
    bench.loop.run_until_complete(done.wait())


def test_a_timer_behind_another_does_not_end_the_wait_early(bench: Bench) -> None:
    bench.ear.then = lambda: bench.loop.call_later(100, bool)
    looks: list[float] = []
    bench.poller.looked = lambda: looks.append(time.monotonic())
    bench.peer.send(b"x")
    bench.run(asyncio.sleep(SOON_S))
    assert len(looks) < 10


def test_other_threads_wake_the_loop(bench: Bench) -> None:
    assert bench.loop.run_until_complete(asyncio.to_thread(int, "5")) == 5


def test_signals_wake_the_loop(bench: Bench) -> None:
    came = asyncio.Event()
    bench.loop.add_signal_handler(signal.SIGUSR1, came.set)
    timer = threading.Timer(SOON_S, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    bench.loop.run_until_complete(came.wait())
    timer.join()


def test_streams_of_asyncio_work_beside_the_sockets(bench: Bench) -> None:
    async def talk() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"to and fro\n")
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return line

    stop = threading.Event()
    thread = chatter(bench, stop)
    assert bench.run(talk()) == b"to and fro\n"
    stop.set()
    thread.join()


def test_watched_descriptors_are_told_of_until_they_are_removed(bench: Bench) -> None:
    reads, writes = os.pipe()
    told = asyncio.Event()
    bench.loop.add_reader(reads, told.set)
    os.write(writes, b"x")
    bench.run(told.wait())
    assert bench.loop.remove_reader(reads)
    assert not bench.loop.remove_reader(reads)
    told.clear()
    bench.run(asyncio.sleep(SOON_S))
    assert not told.is_set()
    os.close(reads)
    os.close(writes)


@pytest.mark.parametrize("is_left", [False, True])
def test_sockets_may_be_given_as_such_and_are_watched_though_the_poller_leaves(
    bench: Bench, is_left: bool
) -> None:
    ours, theirs = socket.socketpair()
    told = asyncio.Event()

    def hear() -> None:
        assert ours.recv(10) == b"x"
        told.set()

    bench.loop.add_reader(ours, hear)
    if is_left:
        bench.ear.lose(None)
        bench.poller.leave()
    theirs.send(b"x")
    bench.run(told.wait())
    assert bench.loop.remove_reader(ours)
    assert not bench.loop.remove_reader(ours.fileno())
    ours.close()
    theirs.close()


def test_a_hang_up_that_nobody_waits_for_is_not_told_for_ever(bench: Bench) -> None:
    """It comes of a socket that was closed here, and is open under another descriptor."""
    ours, theirs = socket.socketpair()
    kept = ours.dup()
    bench.poller.watch(ours.fileno(), bool)
    del bench.poller.watched[ours.fileno()]
    theirs.close()
    looks: list[float] = []
    bench.poller.looked = lambda: looks.append(time.monotonic())
    bench.run(asyncio.sleep(SOON_S))
    assert len(looks) < 10
    ours.close()
    kept.close()


@pytest.mark.parametrize("where", ["socket", "descriptor", "behind the look"])
def test_faults_go_to_the_exception_handler_and_the_loop_goes_on(bench: Bench, where: str) -> None:
    faults: list[dict[str, Any]] = []
    bench.loop.set_exception_handler(lambda _, context: faults.append(context))

    def fail() -> None:
        bench.ear.then = bench.poller.looked = bool
        bench.loop.remove_reader(bench.peer.fileno())
        raise ZeroDivisionError

    if where == "socket":
        bench.ear.then = fail
    elif where == "descriptor":
        bench.ear.transmit(b"y")
        bench.loop.add_reader(bench.peer.fileno(), fail)
    else:
        bench.poller.looked = fail
    bench.peer.send(b"x")
    bench.until(lambda: faults)
    bench.peer.send(b"z")
    bench.until(lambda: bench.ear.heard == b"xz")
    assert [type(each["exception"]) for each in faults] == [ZeroDivisionError]
    assert faults[0]["protocol"] is (bench.ear if where == "socket" else None)


def test_a_second_poller_is_watched_by_the_first_until_that_one_leaves(bench: Bench) -> None:
    second = SocketPoller(bench.loop, memoryview(bytearray(4096)), Moderation(0))
    ours, peer = socket.socketpair()
    ear = Listener(second, ours)
    peer.send(b"x")
    bench.peer.send(b"y")
    bench.until(lambda: (ear.heard, bench.ear.heard) == (b"x", b"y"))
    ear.lose(None)
    bench.poller.leave()
    third = SocketPoller(bench.loop, memoryview(bytearray(4096)), Moderation(0))
    assert third.is_attached and not second.is_attached
    bench.run(asyncio.sleep(0))
    peer.close()
    third.leave()
