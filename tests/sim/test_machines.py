"""Goal: one run can hold several machines, each with a node, whose actors reach each other.

Method: two machines on one timeline and one network; an actor on each sends numbered lines to the
other over a connection that one of them has asked for. Then one machine loses its power.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sluicemq.kernel.actor import Actor
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.sim.machine import Machine
from sluicemq.sim.net import Network
from sluicemq.sim.swarm import Swarm, swarm_of
from sluicemq.sim.timeline import Timeline

if TYPE_CHECKING:
    from sluicemq.kernel.endpoints import Peer
    from sluicemq.node import Node

LINES = 300
PORT = 7000
EVENTS_MAX = 100_000


class Talker(Actor):
    """Says LINES numbered lines, as far as the socket takes them, and keeps what it hears. It
    accepts a connection too."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.node.scheduler)
        self.machine = machine
        self.net = machine.world.net
        self.connection = 0
        self.said = 0
        self.heard = bytearray()
        self.closed = ""
        self.peer_host = ""

    @property
    def writer(self) -> Actor:
        return self

    def admits(self, _: str) -> bool:
        return True

    def accept(self, connection: int, peer: Peer) -> Talker:
        self.connection = connection
        self.peer_host = peer.peer_host
        self.post(Connected())
        return self

    def gave_up(self, address: str) -> None:
        raise AssertionError(f"{address} was accepted")

    def listen(self) -> None:
        self.net.listen(self, self.machine.host, PORT)

    def connect(self, host: str) -> None:
        self.connection = self.net.connect(self, host, PORT)

    def receive(self, message: object) -> None:
        if isinstance(message, Connected | Writable):
            self.speak()
        elif isinstance(message, Received):
            self.heard += message.data
            self.net.taken(self.connection, False)
        else:
            assert isinstance(message, Closed)
            self.closed = message.reason

    def speak(self) -> None:
        while self.said < LINES:
            self.said += 1
            line = b"%s says %d\n" % (self.machine.host.encode(), self.said)
            if not self.net.write(self.connection, line * 20):
                return


def lines_of(host: str) -> bytes:
    return b"".join(b"%s says %d\n" % (host.encode(), each) * 20 for each in range(1, LINES + 1))


class Scene:
    """Two machines, the second of which listens."""

    def __init__(self, seed: int) -> None:
        self.swarm: Swarm = swarm_of(seed)
        self.timeline = Timeline()
        network = Network()
        self.one, self.two = (
            Machine(self.timeline, self.swarm, host, network, host) for host in ("n1", "n2")
        )
        self.start(self.one)
        self.start(self.two)
        self.faults: list[Exception] = []

    def start(self, machine: Machine) -> None:
        machine.start(self.swarm.config(), self.watch)

    def watch(self, node: Node) -> None:
        def witness(_: Actor, error: Exception) -> None:
            self.faults.append(error)

        node.scheduler.witness = witness

    def until(self, done: Callable[[], object]) -> None:
        while not done():
            assert self.timeline.happened < EVENTS_MAX, "that goes on for too long"
            self.timeline.step()
            if self.faults:
                raise self.faults[0]

    def talk(self) -> tuple[Talker, Talker]:
        one, two = Talker(self.one), Talker(self.two)
        two.listen()
        one.connect("n2")
        return one, two


def talked(seed: int) -> str:
    """The digest of a run in which both have said all."""
    scene = Scene(seed)
    one, two = scene.talk()
    expected = lines_of("n1"), lines_of("n2")
    scene.until(lambda: len(two.heard) == len(expected[0]) and len(one.heard) == len(expected[1]))
    assert (bytes(two.heard), bytes(one.heard)) == expected
    assert two.peer_host == "n1"
    assert not one.closed and not two.closed
    return scene.timeline.digest()


@pytest.mark.parametrize("seed", range(1, 9))
def test_two_nodes_exchange_bytes(seed: int) -> None:
    talked(seed)


def test_the_same_seed_is_the_same_run() -> None:
    assert talked(3) == talked(3) != talked(4)


@pytest.mark.parametrize("lost", ["who asked", "who listens"])
@pytest.mark.parametrize("seed", range(1, 9))
def test_who_is_left_hears_that_the_other_is_gone(seed: int, lost: str) -> None:
    scene = Scene(seed)
    one, two = scene.talk()
    scene.until(lambda: one.heard and two.heard)
    machine, left = (scene.one, two) if lost == "who asked" else (scene.two, one)
    machine.crash(power=True)
    heard = len(left.heard)
    scene.until(lambda: left.closed)
    assert len(left.heard) >= heard
    scene.start(machine)
    one, two = scene.talk() if lost == "who listens" else again(scene, two)
    scene.until(lambda: len(two.heard) >= len(lines_of("n1")))


def again(scene: Scene, two: Talker) -> tuple[Talker, Talker]:
    """The first machine is back and connects to who still listens."""
    two.closed = ""
    two.heard.clear()
    one = Talker(scene.one)
    one.connect("n2")
    return one, two


def test_a_machine_that_is_down_cannot_be_reached() -> None:
    scene = Scene(1)
    Talker(scene.two).listen()
    scene.two.crash(power=False)
    one = Talker(scene.one)
    one.connect("n2")
    scene.until(lambda: one.closed)
    assert one.closed == f"cannot connect to n2:{PORT}: Connection refused"
