"""Whole nodes of a cluster over a wire that is a list: the test says when what arrives, and when
the wire is cut. The same is declared at each node, as if they had agreed on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from sluicemq.chain.channel.reply_post import ReplyPost
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.remote.queue_post import QueuePost
from sluicemq.cluster import cluster_port as c
from sluicemq.config import Config, StorageConfig
from sluicemq.flow.gate import Gate, GateKeeper
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.metadata.changes import Change, DeclareQueue, DeleteQueue, Life
from sluicemq.metadata.events import QueueAdded, QueueRemoved
from sluicemq.model.definitions import QueueDefinition
from sluicemq.node import Node
from support.fakes import FakeWorld
from unit.chain.client import SMALL_FILES, Broker, Sockets


class ListedWire(c.ClusterPort):
    """The cluster as one node sees it."""

    def __init__(self, group: Group, node: int) -> None:
        self.group = group
        self.node = node
        self.incarnation = 1
        self.handlers: dict[c.FrameType, Actor] = {}
        self.followers: list[Actor] = []
        self.gates: dict[int, list[Gate]] = {}
        self.ended: list[str] = []

    def handle(self, frame_type: c.FrameType, handler: Actor) -> None:
        self.handlers[frame_type] = handler

    def follow(self, follower: Actor) -> None:
        self.followers.append(follower)

    def tell(self, message: object) -> None:
        for follower in self.followers:
            follower.post(message)

    def send(
        self,
        node: int,
        frame_type: c.FrameType,
        payload: bytes,
        source_serial: int = 0,
        target: ActorAddress = NOBODY,
        flags: int = 0,
    ) -> bool:
        if not self.group.is_up(self.node, node):
            return False
        source = ActorAddress(self.node, 1, source_serial)
        message = c.PeerMessage(frame_type, source, ActorAddress(node, 1, 0), payload, flags)
        self.group.wires[self.node, node].append(message)
        return True

    def end_link(self, node: int, sentence: str) -> None:
        self.ended.append(sentence)
        self.group.cut(self.node, node)

    def feed(self, node: int, keeper: GateKeeper) -> Gate:
        gate = Gate(keeper, f"node {node}")
        self.gates.setdefault(node, []).append(gate)
        return gate

    def feed_no_more(self, node: int, gate: Gate) -> None:
        self.gates[node].remove(gate)
        gate.open()

    def standing(self, node: int) -> c.NodeStanding:
        is_up = self.group.is_up(self.node, node)
        return c.NodeStanding.UP if is_up else c.NodeStanding.DOWN

    def name_of(self, node: int) -> str:
        return f"n{node}"

    def incarnation_of(self, node: int) -> int:
        return 1

    def contact_ns(self, node: int) -> int | None:
        is_up = self.group.is_up(self.node, node)
        return self.group.brokers[node].world.clock.now_ns() if is_up else None

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*sorted(self.group.numbers),)


class PairedNode(Node):
    """A node that agrees with nobody on what is declared, but is linked to others."""

    wire: ListedWire

    @property
    def life(self) -> Life | None:
        return Life(self.wire.node, self.wire.incarnation)


class PairedBroker(Broker):
    """A node, and what its clients see."""

    def __init__(self, wire: ListedWire, config: Config) -> None:
        self.world = FakeWorld()
        self.net = self.world.net = Sockets()
        self.wire = wire
        kind = type("PairedNode", (PairedNode,), {"wire": wire})
        self.node = kind(self.world, config)
        self.clients = 0
        broker = self.node.broker
        self.post = broker.queue_post = QueuePost(broker, wire, broker.vhosts)
        broker.reply_post = ReplyPost(broker, wire, broker)
        for vhost in broker.vhosts.values():
            vhost.post = self.post
        broker.agreement.follow(QueueAdded, lambda event: self.post.queue_added(event.queue))

    def run(self) -> None:
        """All nodes do, until nothing moves any more."""
        self.wire.group.run()

    def settle(self) -> None:
        """Only this node does."""
        super().run()


class Group:
    """Nodes 1 to `count`, all of which are linked."""

    def __init__(self, count: int = 2, config: Config | None = None) -> None:
        config = config or Config()
        if config.storage == StorageConfig():
            config = replace(config, storage=SMALL_FILES)
        self.numbers = range(1, count + 1)
        self.wires: dict[tuple[int, int], deque[c.PeerMessage]] = {}
        self.brokers = {each: PairedBroker(ListedWire(self, each), config) for each in self.numbers}
        self.held: set[tuple[int, int]] = set()
        """Wires on which nothing arrives until they are cut."""
        self.next_id = 100
        for number, broker in self.brokers.items():
            agreement = broker.node.broker.agreement
            agreement.follow(QueueRemoved, self.remover(number))
        for one in self.numbers:
            for other in self.numbers:
                if one < other:
                    self.link(one, other)
        self.run()

    def __getitem__(self, number: int) -> PairedBroker:
        return self.brokers[number]

    # -- what they agree on

    def apply(self, change: Change, but: int = 0) -> None:
        """All nodes but one have agreed on it."""
        for number, broker in self.brokers.items():
            if number != but:
                agreement = broker.node.broker.agreement
                agreement.tell(agreement.state.apply(change).events)

    def change(self, name: str, home: int, **options: Any) -> DeclareQueue:
        """A declaration of a queue that is to live on one node."""
        options.setdefault("durable", True)
        self.next_id += 1
        return DeclareQueue(QueueDefinition(name, **options), queue_id=self.next_id, home=home)

    def declare(self, name: str, home: int, **options: Any) -> None:
        """A queue that lives on one node."""
        self.apply(self.change(name, home, **options))

    def remover(self, number: int) -> Callable[[QueueRemoved], None]:
        """What one node has deleted is gone at all."""

        def removed(event: QueueRemoved) -> None:
            queue = event.queue
            definition = queue.definition
            if queue.home == number:
                change = DeleteQueue(definition.vhost, definition.name, queue.id)
                self.apply(change, but=number)

        return removed

    def queue(self, number: int, name: str) -> Queue:
        return self[number].node.broker.vhosts["/"].queues[name]

    # -- wires

    def is_up(self, one: int, other: int) -> bool:
        return (one, other) in self.wires

    def link(self, one: int, other: int) -> None:
        for a, b in (one, other), (other, one):
            self.wires[a, b] = deque()
            self[a].wire.tell(c.NodeUp(b, 1, f"n{b}"))

    def cut(self, one: int, other: int) -> None:
        """What is on its way is lost."""
        if not self.is_up(one, other):
            return
        for a, b in (one, other), (other, one):
            del self.wires[a, b]
            self.held.discard((a, b))
            for gate in self[a].wire.gates.get(b, ()):
                gate.open()
            self[a].wire.tell(c.NodeDown(b, 1, "cut"))

    def pass_one(self, one: int, other: int) -> bool:
        """The next message arrives; False: there is none."""
        wire = self.wires.get((one, other))
        if not wire or (one, other) in self.held:
            return False
        message = wire.popleft()
        self[other].wire.handlers[message.frame_type].post(message)
        return True

    # -- time

    def run(self) -> None:
        """Until nothing moves any more."""
        is_busy = True
        while is_busy:
            for broker in self.brokers.values():
                broker.settle()
            is_busy = sum(self.pass_one(*ends) for ends in [*self.wires]) > 0

    def step(self, random: Random) -> None:
        """One thing of those that may happen next."""
        number = random.choice([*self.numbers])
        broker = self[number]
        choice = random.randrange(4)
        if choice == 0 and broker.world.disk.jobs:
            broker.world.disk.finish()
        elif choice == 1 and self.wires:
            self.pass_one(*random.choice([*self.wires]))
        else:
            broker.node.run(1 + random.randrange(3))
