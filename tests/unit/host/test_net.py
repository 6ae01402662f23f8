"""Goal: a socket that rests is read when its owner pulls, in order, and to its end.

Method: a real connection over loopback into HostNet, with a node that hands out an inbox for a
reader. The client writes ahead; what came and what was pulled must be what it wrote.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any, cast

import pytest

from sluicemq.config import NetConfig
from sluicemq.host import net as module
from sluicemq.host.net import UNPARSED_BYTES_MAX, Connection, HostNet, Incoming
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Received
from sluicemq.kernel.world import Log

UNPARSED_MAX = 1000
WRITTEN = bytes(range(250)) * 40
PATIENCE_S = 240.0


class Inbox:
    """Stands for a reader: keeps what is posted."""

    shares_room = True

    def __init__(self) -> None:
        self.data = b""
        self.reads = 0
        self.closed = ""

    def post(self, message: object) -> None:
        if isinstance(message, Received):
            self.data += message.data
            self.reads += 1
        elif isinstance(message, Closed):
            self.closed = message.reason


class Door:
    """Stands for a node: admits everybody."""

    def __init__(self) -> None:
        self.readers: dict[int, Inbox] = {}

    def admits(self, _: str) -> bool:
        return True

    def accept(self, number: int, _: Peer) -> Inbox:
        self.readers[number] = Inbox()
        return self.readers[number]


class Scene:
    """A listening HostNet and one client."""

    def __init__(self) -> None:
        self.door = Door()
        self.net = HostNet(asyncio.get_running_loop(), NetConfig(), Log(), 100)
        self.net.unparsed_max = self.net.pull_max = UNPARSED_MAX
        self.net.poller.buffer = self.net.room[:UNPARSED_MAX]

    async def open(self) -> tuple[socket.socket, Inbox]:
        port = self.net.listen(cast(Any, self.door), "127.0.0.1", 0)
        client = socket.create_connection(("127.0.0.1", port))
        await self.until(lambda: bool(self.door.readers))
        self.net.stop_listening()
        return client, self.door.readers[1]

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                await asyncio.sleep(0.001)

    async def still(self, inbox: Inbox) -> None:
        """Give the loop every chance to read more."""
        await asyncio.sleep(0.05)
        assert inbox.reads == 1


def test_what_is_pulled_follows_what_came() -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(WRITTEN)
        await scene.until(lambda: inbox.reads)
        await scene.still(inbox)
        assert scene.net.taken(1, True)
        await scene.still(inbox)
        pulled = b""
        while data := scene.net.pull(1, 1 << 20):
            assert len(data) <= UNPARSED_MAX
            pulled += data
            assert scene.net.taken(1, True)
        assert inbox.data + pulled == WRITTEN
        assert not scene.net.taken(1, True), "it rests though there was nothing to pull"
        client.sendall(b"more")
        await scene.until(lambda: inbox.data.endswith(b"more"))
        client.close()
        await scene.until(lambda: inbox.closed)

    asyncio.run(play())


def test_an_owner_that_has_pulled_much_is_left_what_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It hears of it by nothing that was received. What little it pulls then ends that."""

    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        scene.net.rest(1)
        client.sendall(WRITTEN)
        await asyncio.sleep(0.01)
        pulled = b""
        while len(pulled) < len(WRITTEN):
            pulled += scene.net.pull(1, 1 << 20)
        assert not scene.net.pull(1, 1 << 20)
        client.sendall(b"more")
        await scene.until(lambda: inbox.reads)
        assert not inbox.data
        await scene.still(inbox)
        assert scene.net.taken(1, True)
        assert scene.net.pull(1, 1 << 20) == b"more"
        assert not scene.net.pull(1, 1 << 20)
        client.sendall(b"and more")
        await scene.until(lambda: inbox.data == b"and more")
        client.close()
        await scene.until(lambda: inbox.closed)

    monkeypatch.setattr(module, "UNPARSED_BYTES_MAX", len(WRITTEN))
    asyncio.run(play())


def test_nothing_is_paced_on_the_way_to_a_client_on_this_machine() -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        plain = scene.net.connections[1].plain
        chosen = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert chosen.rstrip(b"\0") == b"reno"
        client.close()
        await scene.until(lambda: inbox.closed)

    asyncio.run(play())


def test_a_socket_rests_when_its_owner_says_so() -> None:
    """Until the owner has taken everything and does not pull."""

    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(b"one")
        await scene.until(lambda: inbox.reads)
        scene.net.rest(1)
        scene.net.rest(1)
        client.sendall(b"two")
        await scene.still(inbox)
        assert scene.net.taken(1, True)
        assert scene.net.pull(1, 1 << 20) == b"two"
        assert not scene.net.pull(1, 1 << 20)
        client.sendall(b"three")
        await scene.until(lambda: inbox.data == b"onethree")
        scene.net.rest(1)
        client.sendall(b"four")
        assert not scene.net.taken(1, False)
        await scene.until(lambda: inbox.data == b"onethreefour")
        client.close()
        await scene.until(lambda: inbox.closed)
        scene.net.rest(1)

    asyncio.run(play())


def test_what_is_pulled_comes_into_room_that_is_given() -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(WRITTEN)
        await scene.until(lambda: inbox.reads)
        assert scene.net.taken(1, True)
        room = memoryview(bytearray(len(WRITTEN)))
        size = len(inbox.data)
        while count := scene.net.pull_into(1, room[size:]):
            assert count <= UNPARSED_MAX
            size += count
        assert inbox.data + room[len(inbox.data) : size] == WRITTEN
        assert not scene.net.taken(1, True), "it rests though there was nothing to pull"
        client.sendall(b"more")
        await scene.until(lambda: inbox.data.endswith(b"more"))
        client.close()
        await scene.until(lambda: inbox.closed)
        assert scene.net.pull_into(1, room) == 0

    asyncio.run(play())


def test_who_does_not_pull_is_read_as_before() -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(WRITTEN)
        while len(inbox.data) < len(WRITTEN):
            reads = inbox.reads
            await scene.until(lambda reads=reads: inbox.reads > reads)
            assert not scene.net.taken(1, False)
        assert inbox.data == WRITTEN
        client.close()
        await scene.until(lambda: inbox.closed)

    asyncio.run(play())


@pytest.mark.parametrize("is_reset", [False, True])
def test_the_end_of_a_socket_that_rests_is_heard(is_reset: bool) -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(WRITTEN)
        await scene.until(lambda: inbox.reads)
        assert scene.net.taken(1, True)
        if is_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await asyncio.sleep(0.01)
        while scene.net.pull(1, 1 << 20):
            pass
        await scene.until(lambda: inbox.closed)
        assert scene.net.pull(1, 1 << 20) == b""

    asyncio.run(play())


def test_a_held_socket_is_not_pulled() -> None:
    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        client.sendall(WRITTEN)
        await scene.until(lambda: inbox.reads)
        assert scene.net.taken(1, True)
        scene.net.pause_reading(1)
        assert scene.net.pull(1, 1 << 20) == b""
        scene.net.resume_reading(1)
        await scene.still(inbox)
        assert scene.net.pull(1, 1 << 20)
        client.close()

    asyncio.run(play())


@pytest.mark.parametrize("divides", [True, False])
def test_many_sockets_have_less_each_unless_credit_alone_bounds_what_waits(divides: bool) -> None:
    async def play() -> None:
        net = HostNet(asyncio.get_running_loop(), NetConfig(), Log(), 100)
        net.divides = divides
        with socket.socket() as plain:
            net.connections.update(dict.fromkeys(range(1, 1001), Connection(net, plain)))
        net.next_round()
        assert (net.unparsed_max < UNPARSED_BYTES_MAX) is divides
        assert (len(net.poller.buffer) < len(net.room)) is divides

    asyncio.run(play())


@pytest.mark.parametrize("shares_room", [True, False])
def test_beside_many_clients_the_socket_of_a_link_keeps_its_receive_buffer(
    shares_room: bool,
) -> None:
    """On a shrunken one TCP may send a segment each 200 ms: the link would hold up its node."""

    async def play() -> None:
        scene = Scene()
        client, inbox = await scene.open()
        inbox.shares_room = shares_room
        link = scene.net.connections[1]
        scene.net.connections.update(dict.fromkeys(range(2, 1002), link))
        scene.net.next_round()
        plain = link.plain
        before = plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        writing = asyncio.ensure_future(loop.sock_sendall(client, bytes(2 * UNPARSED_BYTES_MAX)))
        await scene.until(lambda: link.rests)
        assert (len(inbox.data) < UNPARSED_BYTES_MAX) is shares_room
        now = plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert (link.clamped > 0) is shares_room
        if shares_room:
            assert now >= 2 * plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        else:
            assert now >= before
        writing.cancel()
        client.close()

    asyncio.run(play())


class Crowded:
    """Stands for a listener on a machine that has no descriptor left, until it is asked again."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.asked = 0

    def fileno(self) -> int:
        return self.listener.fileno()

    def accept(self) -> tuple[socket.socket, object]:
        self.asked += 1
        if self.asked == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return self.listener.accept()

    def close(self) -> None:
        self.listener.close()


def test_who_waits_while_there_are_no_descriptors_is_taken_in_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ACCEPT_PAUSE_S", 0.01)

    async def play() -> None:
        scene = Scene()
        port = scene.net.listen(cast(Any, scene.door), "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        crowded: Any = Crowded(scene.net.listeners[0])
        scene.net.listeners[0] = crowded
        loop.remove_reader(crowded.fileno())
        door = cast(Any, scene.door)
        loop.add_reader(crowded, scene.net.accept, crowded, Incoming, door)
        with socket.create_connection(("127.0.0.1", port)):
            await scene.until(lambda: scene.door.readers)
            assert crowded.asked > 1
        scene.net.stop_listening()

    asyncio.run(play())
