"""A node over simulated files, with clients that are moved by hand, step by step.

`Bench` is one life of the node: it ends with `Crashed`, or when nobody needs it any more. What goes
on beyond it is the files, the history, and `Facts`: what the clients know to be there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.config import KIB, Config, MemoryConfig
from sluicemq.kernel.world import World
from sluicemq.node import Node
from sluicemq.sim.disk import CHANGES, SimDisk, SimFiles
from sluicemq.sim.history import History
from sluicemq.sim.messages import PERSISTENT, TRANSIENT, content_of, id_of_body
from sluicemq.sim.net import AMQP_PORT, SimNet
from sluicemq.sim.peer import FRAME_MAX, Role, SimPeer
from sluicemq.sim.records import (
    ACKED,
    REQUEUED,
    WORK,
    Consumption,
    Delivery,
    Holder,
    PublishedStream,
    promise,
)
from sluicemq.sim.swarm import swarm_of
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS
from sluicemq.sim.world import Cpu, SimClock, SimDice, SimLog, SimMemory

MEMORY_LIMIT: Final = 48 * KIB
"""Half of it is paged out above; the script stays below the rest."""

EVENTS_MAX: Final = 20_000
"""What does not happen within so many events never happens."""

TINY: Final = Config.tiny()
CONFIG: Final = replace(
    TINY,
    storage=replace(TINY.storage, journal_file_size_limit=KIB),
    memory=MemoryConfig(vm_memory_high_watermark_absolute=MEMORY_LIMIT, check_interval_ms=20),
)

WORKING: Final = ("a", "b")
BOTH: Final = "both"
"""The fanout exchange to all of WORKING."""


class Facts:
    """What the broker has said is there: durable queues by name, and bindings."""

    def __init__(self) -> None:
        self.queues: dict[str, None] = {}
        self.bound = False


class State:
    """What a crash at one moment would leave, and what the clients know by then. `action` is the
    change that was about to be made, of `path`."""

    def __init__(
        self, files: SimFiles, book: History, facts: Facts, action: str = "start", path: str = ""
    ) -> None:
        self.files = files
        self.book = book
        self.facts = facts
        self.action = action
        self.path = path

    def known(self) -> bytes:
        """All that the clients know."""
        return pickle.dumps((self.book, self.facts))

    def copy(self) -> State:
        """To go on from there more than once."""
        book, facts = pickle.loads(self.known())
        return State(self.files.copy(), book, facts, self.action, self.path)


def first_state() -> State:
    """Nothing is there yet."""
    book = History()
    book.told_what_is_safe = False
    for name in WORKING:
        book.queue(name, WORK)
    book.queue("n", WORK, durable=False)
    book.queue("v")
    return State(SimFiles(), book, Facts())


class Recorder:
    """Keeps the state before each change of the files, of which `keep` says that it is wanted."""

    def __init__(self, state: State, keep: Callable[[int], bool] = lambda _: True) -> None:
        self.state = state
        self.keep = keep
        self.changes = 0
        self.states: list[State] = []
        state.files.before = self.before

    def before(self, _: int, action: str, path: str) -> None:
        if action in CHANGES:
            if self.keep(self.changes):
                state = self.state.copy()
                state.action, state.path = action, path
                self.states.append(state)
            self.changes += 1


class Hand(Role):
    """One channel, moved by hand; consumes from at most one queue."""

    def __init__(self, bench: Bench, name: str, confirming: bool = False) -> None:
        self.bench = bench
        self.book = bench.state.book
        self.name = name
        self.answers: list[Method] = []
        self.holder = Holder(name)
        self.by: Consumption | None = None
        self.no_ack = False
        self.held: dict[int, Delivery] = {}
        self.taken = 0
        self.stream: PublishedStream | None = None
        if confirming:
            self.stream = self.book.stream(name, True)

    def opened(self) -> None:
        """Now it can be moved."""

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicAck):
            assert self.stream is not None
            self.book.confirm(self.stream, method.delivery_tag, method.multiple)
        else:
            self.answers.append(method)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        assert isinstance(method, m.BasicDeliver | m.BasicGetOk) and self.by is not None
        self.taken += 1
        promise(method.delivery_tag == self.taken, self.name, "gets tag", method.delivery_tag)
        message = id_of_body(properties, body)
        delivery = self.book.deliver(message, self.by, method.redelivered, self.no_ack)
        if not self.no_ack:
            self.held[method.delivery_tag] = delivery
        if isinstance(method, m.BasicGetOk):
            self.answers.append(method)

    def ended(self, how: str) -> None:
        if self.stream is not None:
            self.stream.ended = how
        self.book.end(self.holder, how)

    # -- moves

    def ask(self, method: Method) -> Method:
        """A question and its answer."""
        asked = self.book.now()
        self.send(method)
        self.bench.until(lambda: bool(self.answers), f"{self.name} hears nothing on {method}")
        self.book.answered(self.holder, asked)
        return self.answers.pop(0)

    def publish(
        self, count: int, targets: tuple[str, ...], size: int, persistent: bool = True
    ) -> None:
        """To one queue, or to all of WORKING."""
        assert self.stream is not None
        exchange, key = (BOTH, "") if targets == WORKING else ("", targets[0])
        kind = PERSISTENT if persistent else TRANSIENT
        data = bytearray()
        for _ in range(count):
            sequence = self.book.publish(self.stream, targets, persistent=persistent)
            data += m.BasicPublish(exchange=exchange, routing_key=key).frame(self.number)
            data += content_of(
                self.number, self.stream.number, sequence, kind, size + sequence % 5, FRAME_MAX
            )
        self.peer.send(bytes(data))

    def confirmed(self) -> None:
        """Wait for all confirms."""
        stream = self.stream
        assert stream is not None
        self.bench.until(lambda: not stream.unconfirmed, f"{self.name} waits for confirms")

    def consume(self, queue: str, prefetch: int = 0, no_ack: bool = False) -> None:
        self.no_ack = no_ack
        self.by = Consumption(self.holder, queue, prefetch)
        if prefetch:
            self.ask(m.BasicQos(prefetch_count=prefetch))
        self.ask(m.BasicConsume(queue=queue, consumer_tag="c", no_ack=no_ack))

    def get(self, queue: str, count: int, no_ack: bool) -> None:
        self.no_ack = no_ack
        self.by = Consumption(self.holder, queue, -1)
        for _ in range(count):
            self.ask(m.BasicGet(queue=queue, no_ack=no_ack))

    def takes(self, count: int) -> None:
        """Wait until it holds so many."""
        self.bench.until(lambda: len(self.held) >= count, f"{self.name} waits for {count}")

    def ack(self, count: int, multiple: bool = True) -> None:
        """The oldest; one by one in reverse order, or all at once."""
        tags = list(self.held)[:count]
        for tag in tags:
            self.book.settle(self.held.pop(tag), ACKED)
        if multiple:
            self.send(m.BasicAck(delivery_tag=tags[-1], multiple=True))
        else:
            for tag in reversed(tags):
                self.send(m.BasicAck(delivery_tag=tag))

    def acks_arrive(self) -> None:
        """Wait until the broker has heard of all that was acknowledged."""
        self.ask(m.BasicQos(prefetch_count=0, global_=True))

    def give_back(self, count: int) -> None:
        for tag in list(self.held)[:count]:
            self.book.settle(self.held.pop(tag), REQUEUED)
            self.send(m.BasicNack(delivery_tag=tag, requeue=True))


class Bench:
    """One life of the node. Its start may crash already."""

    def __init__(self, state: State, seed: int = 0, config: Config = CONFIG) -> None:
        self.state = state
        swarm = replace(
            swarm_of(1),
            socket_bytes=1 << 20,
            high_water_bytes=1 << 20,
            low_water_bytes=1 << 19,
            turns_max=4,
        )
        self.timeline = Timeline()
        self.net = SimNet(self.timeline, Random(f"net {seed}"), swarm)
        self.net.healed = True
        self.disk = SimDisk(self.timeline, Random(f"disk {seed}"), state.files)
        self.cpu = Cpu(self.timeline, Random(f"cpu {seed}"), swarm)
        self.cpu.healed = True
        dice = SimDice(Random(f"node {seed}"))
        memory = SimMemory(1 << 40)
        said = SimLog()
        world = World(SimClock(self.timeline), dice, self.disk, self.net, memory, said)
        self.node = Node(world, config)
        promise(not said.errors, "the start finds fault:", *said.errors)
        self.net.listen(self.node, self.net.host, AMQP_PORT)
        self.cpu.attach(self.node)
        self.peers: list[SimPeer] = []
        self.storage_may_fail = self.stopping = False

    # -- what a Peer wants of its workload

    def gone(self, peer: SimPeer) -> None:
        self.peers.remove(peer)

    def channel_closed(self, peer: SimPeer, channel: int, role: Role) -> None:
        """Nobody takes its place."""

    # -- moves

    def until(self, reached: Callable[[], bool], waiting: str) -> None:
        """Let time pass."""
        limit = self.timeline.happened + EVENTS_MAX
        while not reached():
            promise(self.timeline.happened < limit, "never:", waiting)
            self.timeline.step()

    def rest(self, ms: int) -> None:
        """Let so much time pass."""
        end_ns = self.timeline.now_ns + ms * MS
        while self.timeline.now_ns < end_ns:
            self.timeline.step()

    def hand(self, name: str, confirming: bool = False) -> Hand:
        """A client with one channel."""
        hand = Hand(self, name, confirming)
        peer: Any = SimPeer(self, name, [hand])  # type: ignore[arg-type]
        self.peers.append(peer)
        self.until(lambda: hand.started, f"{name} waits for its channel")
        if confirming:
            hand.ask(m.ConfirmSelect())
        return hand

    def stop(self) -> None:
        """Stop the node orderly."""
        self.stopping = True
        self.node.shut_down()
        self.until(lambda: not self.net.sockets, "connections are closed")
        self.node.close_storage()
        self.until(lambda: self.node.storage_closed, "the storage is closed")
