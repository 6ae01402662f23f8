"""Goal: sockets keep their promises (kernel/world.py, Net), real ones and simulated ones alike.

Method: the same script over two machines' sockets: over loopback in both event loops, and in the
simulation under several seeds. Owners are inboxes that keep what is posted to them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluicemq.config import NetConfig
from sluicemq.errors import Refused
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.net import HostNet
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.kernel.world import Log, Net
from sluicemq.sim.cluster.net import PipeNet, PipeNetwork
from sluicemq.sim.net import Network, SimNet
from sluicemq.sim.swarm import swarm_of
from sluicemq.sim.timeline import Timeline

if TYPE_CHECKING:
    from sluicemq.kernel.endpoints import Peer

PATIENCE_S = 240.0
EVENTS_MAX = 200_000
PIECE = bytes(range(256)) * 64
PIECES_MAX = 4000


class Owner:
    """Keeps what is posted to it, and has done with it at once; its own writer."""

    shares_room = True

    def __init__(self, net: Net) -> None:
        self.net = net
        self.number = 0
        self.writer: Any = self
        self.posted: list[object] = []
        self.data = bytearray()

    def post(self, message: object) -> None:
        assert not self.closed, f"{message} after the end"
        self.posted.append(message)
        if isinstance(message, Received):
            assert message.data, "Received without a byte"
            self.data += message.data
            self.net.taken(self.number, False)

    @property
    def closed(self) -> str:
        """The reason; "" before the end."""
        return next((each.reason for each in self.posted if isinstance(each, Closed)), "")

    def has(self, kind: type) -> bool:
        return any(isinstance(each, kind) for each in self.posted)


class Door:
    """An acceptor; it takes in whoever comes, or nobody."""

    def __init__(self, net: Net, admits: bool = True) -> None:
        self.net = net
        self.is_open = admits
        self.taken_in: list[tuple[Peer, Owner]] = []

    def admits(self, address: str) -> bool:
        assert address, "a peer without an address"
        return self.is_open

    def accept(self, connection: int, peer: Peer) -> Any:
        owner = Owner(self.net)
        owner.number = connection
        self.taken_in.append((peer, owner))
        return owner

    def gave_up(self, address: str) -> None:
        raise AssertionError(f"{address} was not taken in")


class Pair:
    """The sockets of two machines that reach each other: those that listen are at `host`."""

    listens: Net
    connects: Net
    host: str

    def until(self, done: Callable[[], object]) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        """Give everything the chance to happen that may happen."""
        raise NotImplementedError

    def listen(self, admits: bool = True) -> tuple[Door, int]:
        """An acceptor and its port."""
        door = Door(self.listens, admits)
        return door, self.listens.listen(cast(Any, door), self.host, 0)

    def deaf_port(self) -> int:
        """One at which nobody listens."""
        return self.listen()[1] - 1

    def connect(self, port: int) -> Owner:
        """Who has asked for a connection."""
        owner = Owner(self.connects)
        owner.number = self.connects.connect(cast(Any, owner), self.host, port)
        return owner

    def opened(self) -> tuple[Owner, Owner]:
        """A connection: the owner of the end that asked for it, and of the other one."""
        door, port = self.listen()
        owner = self.connect(port)
        self.until(lambda: owner.has(Connected) and door.taken_in)
        peer, taken_in = door.taken_in[0]
        assert (peer.host, peer.port) == (self.host, port)
        assert peer.peer_port > 0
        return owner, taken_in


class Real(Pair):
    host = "127.0.0.1"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listens = HostNet(self.loop, NetConfig(), Log(), 100)
        self.connects = HostNet(self.loop, NetConfig(), Log(), 100)
        self.deaf = socket.socket()

    def deaf_port(self) -> int:
        """It is taken, so that no other process listens there meanwhile."""
        self.deaf.bind((self.host, 0))
        return int(self.deaf.getsockname()[1])

    def until(self, done: Callable[[], object]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not done():
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())

    def rest(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.2))

    def close(self) -> None:
        async def end() -> None:
            for net in (cast(HostNet, self.listens), cast(HostNet, self.connects)):
                net.stop_listening()
                for connection in list(net.connections.values()):
                    connection.abort()
            await asyncio.sleep(0.01)

        self.loop.run_until_complete(end())
        self.loop.close()
        self.deaf.close()


class Simulated(Pair):
    host = "n1"

    def __init__(self, seed: int) -> None:
        self.timeline, network, swarm = Timeline(), Network(), swarm_of(seed)
        self.listens = SimNet(self.timeline, Random(seed), swarm, network, "n1")
        self.connects = SimNet(self.timeline, Random(seed + 1), swarm, network, "n2")

    def until(self, done: Callable[[], object]) -> None:
        while not done():
            assert self.timeline.happened < EVENTS_MAX, "that goes on for too long"
            self.timeline.step()

    def rest(self) -> None:
        while self.timeline.is_due:
            self.timeline.step()


class Piped(Simulated):
    """The sockets of the simulation of links."""

    def __init__(self, seed: int) -> None:
        self.timeline = Timeline()
        network = PipeNetwork(self.timeline, Random(seed))
        self.listens, self.connects = PipeNet(network, "n1"), PipeNet(network, "n2")


SEEDS = range(1, 6)
KINDS = ["asyncio", "broker", *(f"{kind} {seed}" for kind in ("sim", "pipes") for seed in SEEDS)]


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    kind, _, seed = request.param.partition(" ")
    if kind == "pipes":
        yield Piped(int(seed))
        return
    if kind == "sim":
        yield Simulated(int(seed))
        return
    real = Real(BrokerLoop() if kind == "broker" else asyncio.new_event_loop())
    yield real
    real.close()


def test_what_is_written_arrives_in_order_both_ways(pair: Pair) -> None:
    owner, taken_in = pair.opened()
    sent = b"".join(b"%d " % each for each in range(2000))
    for start in range(0, len(sent), 700):
        pair.connects.write(owner.number, sent[start : start + 700])
    pair.listens.write(taken_in.number, sent[:500])
    pair.until(lambda: len(taken_in.data) == len(sent) and len(owner.data) == 500)
    pair.rest()
    assert (bytes(taken_in.data), bytes(owner.data)) == (sent, sent[:500])
    assert not owner.closed and not taken_in.closed
    assert pair.connects.unsent_bytes(owner.number) == 0
    assert pair.listens.unsent_bytes(taken_in.number) == 0


def test_where_nobody_listens_there_is_no_connection(pair: Pair) -> None:
    port = pair.deaf_port()
    owner = pair.connect(port)
    pair.until(lambda: owner.closed)
    pair.rest()
    assert "refused" in owner.closed and str(port) in owner.closed
    assert len(owner.posted) == 1


def test_who_is_not_admitted_hears_the_end(pair: Pair) -> None:
    _, port = pair.listen(admits=False)
    owner = pair.connect(port)
    pair.until(lambda: owner.closed)
    pair.rest()


@pytest.mark.parametrize("first", ["who asked", "who accepted"])
def test_what_was_written_before_the_end_arrives_before_the_end(pair: Pair, first: str) -> None:
    ends = pair.opened()
    leaves, stays = ends if first == "who asked" else reversed(ends)
    leaves.net.write(leaves.number, PIECE)
    leaves.net.close(leaves.number)
    pair.until(lambda: leaves.closed and stays.closed)
    pair.rest()
    assert bytes(stays.data) == PIECE


def test_an_attempt_can_be_given_up(pair: Pair) -> None:
    door, port = pair.listen()
    owner = pair.connect(port)
    pair.connects.close(owner.number)
    pair.until(lambda: owner.closed)
    pair.rest()
    assert not owner.has(Connected)
    assert all(taken_in.closed for _, taken_in in door.taken_in)


@pytest.mark.parametrize("slow", ["who asked", "who accepted"])
def test_who_does_not_read_holds_the_writer_up(pair: Pair, slow: str) -> None:
    ends = pair.opened()
    reads, writes = ends if slow == "who asked" else reversed(ends)
    reads.net.pause_reading(reads.number)
    pair.rest()
    written = 1
    while writes.net.write(writes.number, PIECE):
        written += 1
        assert written < PIECES_MAX, "nothing holds the writer up"
        if written % 16 == 0:
            pair.rest()
    assert writes.net.unsent_bytes(writes.number) > 0
    assert not reads.data, "who reads nothing got something"
    assert not writes.has(Writable)
    reads.net.resume_reading(reads.number)
    pair.until(lambda: len(reads.data) == written * len(PIECE) and writes.has(Writable))
    assert bytes(reads.data) == PIECE * written


def test_a_port_is_listened_on_once(pair: Pair) -> None:
    door, port = pair.listen()
    assert port > 0
    with pytest.raises(
        Refused, match=f"cannot listen on {pair.host}:{port}: Address already in use"
    ):
        pair.listens.listen(cast(Any, door), pair.host, port)


def test_a_connection_that_is_gone_takes_everything_and_does_nothing(pair: Pair) -> None:
    ends = pair.opened()
    pair.listens.close(ends[1].number)
    pair.until(lambda: all(end.closed for end in ends))
    for end in ends:
        assert end.net.write(end.number, b"late")
        assert end.net.unsent_bytes(end.number) == 0
        assert end.net.pull(end.number, 1) == b""
        assert not end.net.taken(end.number, True)
        end.net.pause_reading(end.number)
        end.net.resume_reading(end.number)
        end.net.close(end.number)
    pair.rest()
