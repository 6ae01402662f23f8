"""A whole node in a FakeWorld, and clients that hand it bytes and read what it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import ContentMethod, Deliveries, Event, MethodFrame
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_frames
from sluicemq.amqp.method import Method
from sluicemq.broker import broker as broker_module
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.store.group_commit import CommitDue, HoldOver
from sluicemq.chain.store.messages import TryAgain
from sluicemq.config import KIB, MIB, Config, StorageConfig
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Received
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.metadata.changes import DeclareQueue
from sluicemq.model.definitions import QueueDefinition
from sluicemq.node import Node
from support.fakes import FakeNet, FakeWorld
from support.files import DictFiles

NO_PROPERTIES = b"\0\0"
PERSISTENT = b"\x10\x00\x02"

SMALL_FILES: Final = StorageConfig(journal_file_size_limit=MIB, reserve_bytes=64 * KIB)
"""As by default, but for files that are made in full size at once: these are in RAM, and copied
with each sync."""


def declared(broker: broker_module.Broker, name: str) -> Queue:
    """The durable queue of this name, which is new, in the virtual host "/"; the journal does not
    hear of it."""
    change = DeclareQueue(QueueDefinition(name, durable=True))
    broker.agreement.tell(broker.definitions.apply(change).events)
    return broker.vhosts["/"].queues[name]


class Sockets(FakeNet):
    """What was written, by connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[int, bytearray] = {}

    def write(self, connection: int, data: bytes) -> bool:
        self.sent.setdefault(connection, bytearray()).extend(data)
        return super().write(connection, data)


class Broker:
    """One node; on `files`, if there are some already. Where `config` says nothing of storage its
    files are small."""

    def __init__(
        self,
        config: Config | None = None,
        files: DictFiles | None = None,
        net: Sockets | None = None,
    ) -> None:
        self.world = FakeWorld()
        if files is not None:
            self.world.disk.files = files
        self.net = self.world.net = net or Sockets()
        config = config or Config()
        if config.storage == StorageConfig():
            config = replace(config, storage=SMALL_FILES)
        self.node = Node(self.world, config)
        self.clients = 0

    def run(self) -> None:
        """Until nothing is left to do; the disk is done at once."""
        while self.node.run(1000) or self.world.disk.jobs:
            while self.world.disk.jobs:
                self.world.disk.finish()

    def wait(self) -> None:
        """What the store has put off is done."""
        timers = self.world.clock.timers
        store = self.node.broker.store
        put_off = [timer for timer in timers if timer[1] is store]
        for timer in [
            timer for timer in put_off if isinstance(timer[2], CommitDue | HoldOver | TryAgain)
        ]:
            timers.remove(timer)
            timer[1].post(timer[2])
        self.run()

    def stop(self) -> None:
        """In order, with all clients gone."""
        self.node.shut_down()
        self.run()
        for reader in list(self.node.broker.connections.values()):
            reader.post(Closed("gone"))
        self.run()
        self.node.close_storage()
        self.run()

    def connect(self, user: str = "guest", vhost: str = "/", heartbeat: int = 0) -> Client:
        """Somebody whose password is the same as the name."""
        self.clients += 1
        client = Client(self, self.clients)
        client.shake_hands(user, vhost, heartbeat)
        said = [each.method.NAME for each in client.events() if isinstance(each, MethodFrame)]
        assert said == ["connection.start", "connection.tune", "connection.open-ok"]
        return client

    def refused(self, user: str, vhost: str = "/") -> m.ConnectionClose:
        """With what somebody is turned away."""
        self.clients += 1
        client = Client(self, self.clients)
        client.shake_hands(user, vhost)
        last = client.events()[-1]
        assert isinstance(last, MethodFrame)
        assert isinstance(last.method, m.ConnectionClose)
        return last.method

    def ask(self, command: str, **arguments: object) -> list[CommandAnswer]:
        """A control command; the list gets the answer when it comes."""
        answers: list[CommandAnswer] = []
        start(self.node, ACTIONS, command, arguments, answers.append)
        return answers

    def begin(self, command: str, **arguments: object) -> list[CommandAnswer]:
        """The same; it has done what it can without the disk."""
        answers = self.ask(command, **arguments)
        while self.node.run(1000):
            continue
        return answers

    def do(self, command: str, **arguments: object) -> None:
        """One that must succeed."""
        answers = self.begin(command, **arguments)
        self.run()
        (answer,) = answers
        assert not answer.error, answer.error


class Client:
    """One connection with its channels open: `connect`, then `open(1)`, then `call`."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.broker = broker
        self.number = number
        assert broker.node.admits("127.0.0.1")
        self.reader = broker.node.accept(
            number, Peer("127.0.0.1", 1000 + number, "127.0.0.1", 5672)
        )
        self.amqp = AmqpConnection(CLIENT)

    def shake_hands(self, user: str, vhost: str, heartbeat: int = 0) -> None:
        """All that a client has to say."""
        self.send_bytes(PROTOCOL_HEADER)
        response = b"\0%b\0%b" % (user.encode(), user.encode())
        capabilities = {"consumer_cancel_notify": True, "authentication_failure_close": True}
        start_ok = m.ConnectionStartOk(
            client_properties={"capabilities": capabilities},
            mechanism="PLAIN",
            response=response,
            locale="en_US",
        )
        self.send(0, start_ok)
        tune_ok = m.ConnectionTuneOk(channel_max=100, frame_max=131072, heartbeat=heartbeat)
        self.send(0, tune_ok)
        self.send(0, m.ConnectionOpen(virtual_host=vhost))

    def post_bytes(self, data: bytes) -> None:
        """Arrived, but nobody has run yet."""
        self.reader.post(Received(data))

    def send_bytes(self, data: bytes) -> None:
        self.post_bytes(data)
        self.broker.run()

    def send(self, channel: int, *some: Method) -> None:
        """Method frames in one piece of data."""
        self.send_bytes(b"".join([method.frame(channel) for method in some]))

    def events(self) -> list[Event]:
        """All that the broker has said since the last time."""
        sent = self.broker.net.sent.get(self.number, bytearray())
        self.amqp.receive_data(bytes(sent))
        sent.clear()
        events: list[Event] = []
        while (event := self.amqp.next_event()) is not None:
            events.append(event)
        return events

    def call(self, channel: int, *some: Method) -> list[Method]:
        """Send; the methods that came back."""
        self.send(channel, *some)
        events = self.events()
        assert all(isinstance(event, MethodFrame | ContentMethod) for event in events), events
        return [event.method for event in events if isinstance(event, MethodFrame | ContentMethod)]

    def open(self, *numbers: int) -> None:
        for number in numbers:
            assert self.call(number, m.ChannelOpen()) == [m.ChannelOpenOk()]

    def publish(self, channel: int, queue: str, *bodies: bytes, raw: bytes = NO_PROPERTIES) -> None:
        """To a queue by the default exchange."""
        head = m.BasicPublish(exchange="", routing_key=queue).frame(channel)
        self.send_bytes(
            b"".join([head + content_frames(channel, raw, body, 131072) for body in bodies])
        )

    def delivered(self) -> list[int]:
        """The tags of the deliveries that have come."""
        events = self.events()
        assert all(isinstance(event, Deliveries) for event in events), events
        return [tag for event in events if isinstance(event, Deliveries) for tag in event.tags]

    def lose(self) -> None:
        """The socket breaks."""
        self.reader.post(Closed("gone"))
        self.broker.run()
