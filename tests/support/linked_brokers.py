"""Whole brokers that are linked, over the pipes of the simulation, and clients that hand them
bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_body, content_frames
from sluicemq.amqp.method import Method
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.cluster_config import ClusterConfig
from sluicemq.config import Config
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.containment import traceback_text
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Received
from sluicemq.kernel.world import World
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.node_post import NodePost
from sluicemq.manage.task import start
from sluicemq.node import Node
from sluicemq.sim.cluster.net import PipeNet, PipeNetwork
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS
from sluicemq.sim.world import SimClock, SimDice, SimMemory
from support.linked import Lines

SECRET = b"a secret of some length"
PORT = 25_672
TURNS = 20
FIRST_CLIENT = 1_000_000
PERSISTENT = b"\x10\x00\x02"
QUORUM = {"x-queue-type": "quorum"}


class ClientNet(PipeNet):
    """The sockets of a machine; what is written to clients is kept for them."""

    def __init__(self, network: PipeNetwork, host: str) -> None:
        super().__init__(network, host)
        self.sent: dict[int, bytearray] = {}
        self.full: set[int] = set()
        """The clients that read nothing more, so that their windows fill up."""

    def write(self, connection: int, data: bytes) -> bool:
        if connection < FIRST_CLIENT:
            return super().write(connection, data)
        self.sent.setdefault(connection, bytearray()).extend(data)
        return connection not in self.full


class LinkedBroker:
    """Node `number` of a cluster, in one life of its process after the other."""

    def __init__(self, run: Cluster, number: int) -> None:
        self.run = run
        self.number = number
        self.host = f"h{number}"
        self.files = SimFiles()
        self.life = 0
        self.is_running = self.is_frozen = False
        self.clients: list[LinkedClient] = []
        self.said_goodbye = ""
        """What it has heard when it was removed; "": it was not."""
        self.start()

    def start(self) -> None:
        self.life += 1
        self.is_running = True
        self.begin(self.make_world())

    def make_world(self) -> World:
        """Return the world of its next life."""
        run = self.run
        self.net = ClientNet(run.network, self.host)
        chance = Random(run.random.random())
        self.disk = SimDisk(run.timeline, chance, self.files, delay_ns_max=5 * MS)
        self.log = Lines()
        return World(
            SimClock(run.timeline),
            SimDice(Random(run.random.random())),
            self.disk,
            self.net,
            SimMemory(1 << 30),
            self.log,
        )

    def configured(self) -> ClusterConfig:
        return ClusterConfig(
            name=f"n{self.number}",
            host=self.host,
            port=PORT,
            nodes=tuple(f"h{each}:{PORT}" for each in range(1, self.run.size + 1)),
            secret_file="none",
        )

    def begin(self, world: World) -> None:
        """Be a broker in that world."""
        config = replace(self.run.config, cluster=self.configured())
        self.node = Node(world, config, secret=SECRET)
        self.node.removed = self.removed
        self.drive(self.node.scheduler)
        membership = self.node.membership
        assert membership is not None
        node, begin = self.node, partial(start, self.node, ACTIONS)
        node.node_post = NodePost(node.scheduler, world.clock, world.log, membership.cluster, begin)
        membership.cluster.listen(self.host, PORT)
        membership.start()
        self.wake()

    def removed(self, sentence: str) -> None:
        """The node hears that it was removed from its cluster."""
        self.said_goodbye = sentence
        self.is_frozen = True

    def drive(self, scheduler: Scheduler) -> None:
        """Give the actors turns from now on, in this life."""
        run, life, random = self.run, self.life, self.run.random

        def witness(_: Actor, error: Exception) -> None:
            run.problems.append(traceback_text(error))

        def go(_: object) -> None:
            if self.life == life and self.is_running and not self.is_frozen:
                turns = 1 + random.randrange(TURNS)
                if scheduler.run(turns):
                    wake()

        def wake() -> None:
            run.timeline.after(1000 + random.randrange(100_000), self.host, "run", go)

        self.wake = wake
        scheduler.wake = wake
        scheduler.witness = witness
        scheduler.broke = self.broke

    def broke(self, actor: Actor, error: Exception) -> None:
        raise error

    def crash(self, *, power: bool = False) -> None:
        """The process ends without a word; with `power` what was not synced may be lost."""
        self.is_running = self.is_frozen = False
        self.net.crash()
        self.disk.crash(power=power)
        for client in self.clients:
            client.is_gone = True
        self.clients = []

    def freeze(self, is_frozen: bool = True) -> None:
        self.is_frozen = is_frozen
        if not is_frozen:
            self.wake()

    def is_up(self, node: int) -> bool:
        membership = self.node.membership
        assert membership is not None
        return membership.cluster.standing(node) is NodeStanding.UP

    def has(self, name: str) -> bool:
        vhost = self.node.broker.vhosts.get("/")
        return vhost is not None and name in vhost.queues

    def shell(self, name: str = "q") -> SharedShell:
        queue = self.node.broker.vhosts["/"].queues[name]
        assert isinstance(queue, SharedShell)
        return queue

    def connect(self) -> LinkedClient:
        return LinkedClient(self)


class Cluster:
    """So many linked brokers."""

    def __init__(self, size: int = 3, seed: int = 7, config: Config | None = None) -> None:
        self.size = size
        self.problems: list[str] = []
        self.random = Random(seed)
        self.timeline = Timeline()
        self.network = PipeNetwork(self.timeline, Random(seed))
        self.network.slow = 0
        self.network.delay_ns_max = MS
        self.network.fragment_max = 60_000
        self.network.window_bytes = self.network.high_bytes = 200_000
        self.config = config or replace(Config(), storage=Config.tiny().storage)
        self.brokers = [LinkedBroker(self, number) for number in range(1, size + 1)]
        self.until(lambda: all(each.node.is_open for each in self.brokers))

    def until(self, done: Callable[[], object], limit_ms: int = 60_000) -> None:
        """Let time pass until it is so."""
        until_ns = self.timeline.now_ns + limit_ms * MS
        while not done():
            assert self.timeline.now_ns < until_ns, "it does not come"
            self.timeline.step()

    def rest(self, passed_ms: float) -> None:
        until_ns = self.timeline.now_ns + int(passed_ms * MS)
        while self.timeline.now_ns < until_ns:
            self.timeline.step()

    def cut_off(self, broker: LinkedBroker) -> None:
        """Let nothing through between a broker and all others; links do not break by that."""
        others = [each.host for each in self.brokers if each is not broker]
        ways = [(broker.host, each) for each in others] + [(each, broker.host) for each in others]
        self.network.cut(dict.fromkeys(ways))

    @property
    def running(self) -> list[LinkedBroker]:
        return [each for each in self.brokers if each.is_running and not each.is_frozen]

    def leader(self, name: str = "q") -> LinkedBroker:
        """Return the broker whose member leads, when one of those that run does."""
        self.until(lambda: self.leaders(name))
        return self.leaders(name)[0]

    def leaders(self, name: str = "q") -> list[LinkedBroker]:
        running = [each for each in self.running if each.has(name)]
        found = [each for each in running if each.shell(name).raft.takes_proposals]
        return sorted(found, key=lambda each: -each.shell(name).raft.member.term)[:1]

    def declare(self, name: str = "q", home: int = 1, **arguments: object) -> None:
        """Have a client of the node `home` declare a quorum queue."""
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        client = self.brokers[home - 1].connect()
        method = m.QueueDeclare(queue=name, durable=True, arguments={**QUORUM, **named})
        client.call(1, method, m.QueueDeclareOk)
        client.lose()
        vhosts = [each.node.broker.vhosts["/"] for each in self.running]
        self.until(lambda: all(name in each.queues for each in vhosts))

    def no_faults(self) -> None:
        assert not self.problems, self.problems


class LinkedClient:
    """A client with channels 1, which confirms, and 2. What is delivered is kept, and acknowledged
    by `ack`."""

    def __init__(self, broker: LinkedBroker) -> None:
        self.broker = broker
        self.run = broker.run
        broker.run.last_client = number = getattr(broker.run, "last_client", FIRST_CLIENT) + 1  # type: ignore[attr-defined]
        self.number = number
        self.is_gone = False
        self.amqp = AmqpConnection(CLIENT)
        assert broker.node.admits("127.0.0.1")
        peer = Peer("127.0.0.1", number & 0xFFFF, "127.0.0.1", 5672)
        self.reader = broker.node.accept(number, peer)
        broker.clients.append(self)
        self.published = 0
        self.confirmed: set[int] = set()
        self.nacked: set[int] = set()
        self.delivered: list[tuple[int, bytes, bool]] = []
        self.methods: list[Method] = []
        self.got: list[ContentMethod] = []
        self.send_bytes(PROTOCOL_HEADER)
        response = b"\0guest\0guest"
        capabilities = {"consumer_cancel_notify": True}
        self.send(
            0,
            m.ConnectionStartOk(
                client_properties={"capabilities": capabilities},
                mechanism="PLAIN",
                response=response,
                locale="en_US",
            ),
            m.ConnectionTuneOk(channel_max=100, frame_max=131072, heartbeat=0),
            m.ConnectionOpen(virtual_host="/"),
        )
        for channel in (1, 2):
            self.call(channel, m.ChannelOpen(), m.ChannelOpenOk)
        self.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)

    def send_bytes(self, data: bytes) -> None:
        if not self.is_gone:
            self.reader.post(Received(data))

    def send(self, channel: int, *some: Method) -> None:
        self.send_bytes(b"".join([method.frame(channel) for method in some]))

    def poll(self) -> None:
        """Take in what the broker has said."""
        if self.is_gone:
            return
        sent = self.broker.net.sent.get(self.number)
        if not sent:
            return
        self.amqp.receive_data(bytes(sent))
        sent.clear()
        while (event := self.amqp.next_event()) is not None:
            if isinstance(event, Deliveries):
                pairs = zip(event.tags, event.contents, strict=True)
                self.delivered += [
                    (tag, content_body(each), event.redelivered) for tag, each in pairs
                ]
            elif isinstance(event, Acks):
                for tag in event.tags:
                    self.answered(tag, False, self.confirmed)
            elif isinstance(event, ContentMethod):
                self.got.append(event)
            elif isinstance(event, MethodFrame):
                self.heard(event.method)

    def heard(self, method: Method) -> None:
        if isinstance(method, m.BasicAck):
            self.answered(method.delivery_tag, method.multiple, self.confirmed)
        elif isinstance(method, m.BasicNack):
            self.answered(method.delivery_tag, method.multiple, self.nacked)
        else:
            self.methods.append(method)

    def answered(self, tag: int, multiple: bool, answers: set[int]) -> None:
        first = 1 if multiple else tag
        known = self.confirmed | self.nacked
        answers.update(n for n in range(first, tag + 1) if n not in known)

    def call(self, channel: int, method: Method, answer: type[Method]) -> Method:
        """Send a method and wait for its answer."""
        self.send(channel, method)
        return self.wait_for(answer)

    def wait_for(self, answer: type[Method]) -> Method:
        def come() -> bool:
            self.poll()
            return any(isinstance(each, answer) for each in self.methods)

        self.run.until(come)
        found = next(each for each in self.methods if isinstance(each, answer))
        self.methods.remove(found)
        return found

    def publish(self, *bodies: bytes, queue: str = "q") -> None:
        """Publish persistent messages; they are numbered from 1 on."""
        head = m.BasicPublish(exchange="", routing_key=queue).frame(1)
        self.send_bytes(
            b"".join([head + content_frames(1, PERSISTENT, body, 131072) for body in bodies])
        )
        self.published += len(bodies)

    def all_confirmed(self) -> bool:
        self.poll()
        return len(self.confirmed) == self.published

    def consume(self, queue: str = "q", tag: str = "c", **options: object) -> None:
        method = m.BasicConsume(queue=queue, consumer_tag=tag, **options)  # type: ignore[arg-type]
        self.call(2, method, m.BasicConsumeOk)

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.send(2, m.BasicAck(delivery_tag=tag, multiple=multiple))

    @property
    def bodies(self) -> list[bytes]:
        self.poll()
        return [body for _, body, _ in self.delivered]

    def depth(self, queue: str = "q") -> int:
        """Return the number of ready messages."""
        answer = self.call(1, m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk)
        assert isinstance(answer, m.QueueDeclareOk)
        return answer.message_count

    def lose(self) -> None:
        """The socket breaks."""
        self.reader.post(Closed("gone"))
        self.is_gone = True
