"""A node in a World that stands still, and a client made of our own frames."""

from __future__ import annotations

import json
from collections import deque

from sluicemq.amqp.methods import (
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from sluicemq.amqp.properties import BasicProperties, header_frame
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.store.group_commit import HoldOver
from sluicemq.config import Config
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import DiskJob
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Received
from sluicemq.kernel.world import Clock, Memory, Net, World
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.gateway import GATEWAY
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.manage.views import pieces
from sluicemq.node import Node
from support.fakes import FakeDice, FakeDisk

MS = 1_000_000


class StillClock(Clock):
    def __init__(self) -> None:
        self.ns = 10_000 * MS
        self.timers: list[tuple[Actor, object]] = []

    def now_ns(self) -> int:
        return self.ns

    def wall_ms(self) -> int:
        return self.ns // MS

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        """It comes when the test says so."""
        self.timers.append((actor, message))


class SlowDisk(FakeDisk):
    """A job is done at once, or when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False

    def submit(self, job: DiskJob, actor: Actor, strand: int) -> None:
        super().submit(job, actor, strand)
        if not self.slow:
            self.finish()

    def catch_up(self) -> None:
        self.slow = False
        while self.jobs:
            self.finish()


class Deaf(Net):
    def write(self, connection: int, data: bytes) -> bool:
        return True

    def unsent_bytes(self, connection: int) -> int:
        return 0

    def pause_reading(self, connection: int) -> None:
        """Nobody sends by himself here."""

    def resume_reading(self, connection: int) -> None:
        """As above."""

    def close(self, connection: int, linger_ms: int = 0) -> None:
        """As above."""


class Roomy(Memory):
    def total_bytes(self) -> int:
        return 1 << 30

    def resident_bytes(self) -> int:
        return 1 << 20

    def trim(self) -> None:
        """Nothing to give back."""


class Bench:
    """A node with one connection, one channel; over the files of another one that was killed."""

    def __init__(self, before: Bench | None = None) -> None:
        self.clock = StillClock()
        self.disk = SlowDisk()
        self.dice = FakeDice()
        if before is not None:
            self.disk.files, self.dice = before.disk.files, before.dice
        world = World(self.clock, self.dice, self.disk, Deaf(), Roomy())
        self.node = Node(world, Config.tiny())
        self.reader = self.connect(40312)

    def connect(self, port: int, vhost: str = "/") -> Reader:
        assert self.node.admits("127.0.0.1")
        reader = self.node.accept(port, Peer("127.0.0.1", port, "127.0.0.1", 5672))
        start = ConnectionStartOk(
            client_properties={"product": "test", "capabilities": {"connection.blocked": True}},
            mechanism="PLAIN",
            response=b"\0guest\0guest",
            locale="en_US",
        )
        tune = ConnectionTuneOk(channel_max=7, frame_max=4096, heartbeat=0)
        opening = ConnectionOpen(virtual_host=vhost)
        hello = b"".join(method.frame(0) for method in (start, tune, opening))
        self.say(b"AMQP\x00\x00\x09\x01" + hello + ChannelOpen().frame(1), reader)
        return reader

    def say(self, data: bytes, reader: Reader | None = None) -> None:
        (reader or self.reader).post(Received(data))
        self.settle()

    def settle(self) -> None:
        while self.node.run(1000):
            continue

    def no_longer_held(self) -> None:
        """What has gathered for the journal has waited long enough for more."""
        for actor, message in [each for each in self.clock.timers if isinstance(each[1], HoldOver)]:
            actor.post(message)
        self.settle()

    def hold_up(self) -> None:
        """A sync runs and runs, and what waits for the next one is more than the store takes."""
        self.say(ConfirmSelect().frame(1))  # nobody waits for a sync otherwise
        self.disk.slow = True
        self.publish("orders", 1)
        self.node.broker.store.full.shut()

    def publish(self, key: str, count: int, reader: Reader | None = None) -> None:
        method = BasicPublish(exchange="", routing_key=key).frame(1)
        self.say((method + self.content()) * count, reader)

    def content(self) -> bytes:
        """The frames of a persistent message's header and body."""
        body = b"\x03\x00\x01\x00\x00\x00\x05hello\xce"
        return header_frame(1, 5, BasicProperties(delivery_mode=2)) + body

    def rows(self, command: str, *columns: str, **more: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        deque(pieces(self.node, command, {"columns": list(columns), **more}, found), 0)
        assert json.loads(json.dumps(found)) == found, "not JSON"
        return found

    def ask(self, command: str, **arguments: object) -> CommandAnswer:
        """What a control command answers; a disk that is not slow is done by then."""
        answers = self.begin(command, **arguments)
        self.settle()
        (answer,) = answers
        return answer

    def fire(self) -> None:
        """All timers there are."""
        timers, self.clock.timers = self.clock.timers, []
        for actor, message in timers:
            actor.post(message)
        self.settle()

    def begin(self, command: str, **arguments: object) -> list[CommandAnswer]:
        """The list gets the answer when it comes."""
        answers: list[CommandAnswer] = []
        start(self.node, ACTIONS | GATEWAY, command, arguments, answers.append)
        while self.node.run(1000):
            continue
        return answers

    def do(self, command: str, **arguments: object) -> list[dict[str, object]]:
        """The rows of a command that must succeed."""
        answer = self.ask(command, **arguments)
        assert not answer.error, answer.error
        rows = list(answer.rows)
        assert json.loads(json.dumps(rows)) == rows, "not JSON"
        return rows
