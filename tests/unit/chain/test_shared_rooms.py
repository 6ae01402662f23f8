"""Goal: nobody ever sees octets of somebody else's body, whatever becomes of the contents whose
memory is used again.

Method: a whole node, whose sockets have bodies read into rooms, and keep what is written to them as
it is until their clients read. Contents have random lives: they stay in queues, are paged out,
dead-lettered, requeued, and delivered to clients that read late or die. A body is one number, again
and again, and all are of one size, so that memory is used again all the time. A planted bug, which
which use memory again that somebody has, must be noticed.
"""

from __future__ import annotations

import ctypes
from random import Random
from typing import Final

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp import room
from sluicemq.amqp.events import Deliveries, MethodFrame
from sluicemq.amqp.frames import LARGE_BYTES, content_body, content_frames
from sluicemq.chain.queue.queue import SetTarget
from support.thorough import thorough
from unit.chain.client import NO_PROPERTIES, PERSISTENT, Broker, Client, Sockets

FEW_BYTES: Final = 1000
"""From so many octets on a body is read into a room, and the most that other reads take."""
BODY_BYTES: Final = LARGE_BYTES
"""The size of all bodies: pieces of this size are not copied when they are written."""
STEPS: Final = 100
SEEDS: Final = thorough(40, 2000)
NUMBER_BYTES: Final = 8


class LateSockets(Sockets):
    """What clients send lies in `inbound` until it is pulled. What is written to one that reads
    late is in `unread`, each piece with a copy of what it was then."""

    def __init__(self) -> None:
        super().__init__()
        self.inbound: dict[int, bytearray] = {}
        self.unread: dict[int, list[tuple[bytes, bytearray]]] = {}

    def taken(self, connection: int, pulls: bool) -> bool:
        return pulls and bool(self.inbound.get(connection))

    def pull(self, connection: int, size_max: int) -> bytes:
        return self.cut(connection, min(size_max, FEW_BYTES))

    def pull_into(self, connection: int, room: memoryview) -> int:
        data = self.cut(connection, len(room))
        room[: len(data)] = data
        return len(data)

    def cut(self, connection: int, size: int) -> bytes:
        """The next octets from the client."""
        inbound = self.inbound.setdefault(connection, bytearray())
        data = bytes(inbound[:size])
        del inbound[:size]
        return data

    def write(self, connection: int, data: bytes) -> bool:
        if connection not in self.unread:
            return super().write(connection, data)
        self.unread[connection].append((data, bytearray(data)))
        return True


class Reader:
    """A consumer of one queue that reads late."""

    def __init__(self, lives: Lives, queue: str, no_ack: bool) -> None:
        self.queue = queue
        self.no_ack = no_ack
        self.client = lives.broker.connect()
        self.client.open(1)
        self.client.call(1, m.BasicQos(prefetch_count=3))
        self.pieces = lives.net.unread[self.client.number] = []
        self.client.send(1, m.BasicConsume(queue=queue, no_ack=no_ack, consumer_tag="late"))
        self.unacked: dict[int, int] = {}
        """The numbers of the bodies that it has not acknowledged, by their tags."""

    def read(self, count: int) -> list[int]:
        """Read so many pieces; the numbers of the bodies."""
        numbers: list[int] = []
        for _ in range(min(count, len(self.pieces))):
            piece, written = self.pieces.pop(0)
            is_same = piece == written  # (pytest would explain for minutes where they are not)
            assert is_same, "somebody else's octets"
            self.client.amqp.receive_data(bytes(written))
            while (event := self.client.amqp.next_event()) is not None:
                if isinstance(event, MethodFrame):
                    continue  # it consumes now
                assert isinstance(event, Deliveries)
                for tag, content in zip(event.tags, event.contents, strict=True):
                    number = number_in(content)
                    numbers.append(number)
                    if not self.no_ack:
                        self.unacked[tag] = number
        return numbers


class Lives:
    """Publishers, queues, consumers that read late, and what should have become of each body."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.net = LateSockets()
        self.broker = Broker(net=self.net)
        self.publishers = [self.publisher() for _ in range(2)]
        self.other = self.broker.connect()
        self.other.open(1)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.other.call(1, m.QueueDeclare(queue="kept", durable=True, arguments=dead))
        self.other.call(1, m.QueueDeclare(queue="dead", durable=True))
        self.other.call(1, m.QueueDeclare(queue="passed"))
        self.readers = [
            Reader(self, "passed", True),
            Reader(self, "passed", False),
            Reader(self, "kept", False),
            Reader(self, "dead", False),
        ]
        self.published = 0
        self.ended: set[int] = set()
        """The numbers of bodies that nobody is to see any more."""

    def publisher(self) -> Client:
        """One whose bodies are read into rooms."""
        client = self.broker.connect()
        client.open(1)
        codec = client.reader.amqp
        codec.large_bytes = codec.room_bytes = FEW_BYTES
        return client

    def publish(self) -> None:
        """A body or a few, of one publisher to one queue."""
        random, client = self.random, self.random.choice(self.publishers)
        queue = random.choice(["passed", "kept"])
        raw = random.choice([NO_PROPERTIES, PERSISTENT])
        head = m.BasicPublish(exchange="", routing_key=queue).frame(1)
        sent = bytearray()
        for _ in range(random.randint(1, 3)):
            self.published += 1
            body = self.published.to_bytes(NUMBER_BYTES) * (BODY_BYTES // NUMBER_BYTES)
            sent += head + content_frames(1, raw, body, 131072)
        inbound = self.net.inbound.setdefault(client.number, bytearray())
        inbound += sent
        while inbound:
            client.send_bytes(self.net.cut(client.number, random.randint(1, FEW_BYTES)))

    def read(self) -> None:
        """Somebody reads some of what was written to it."""
        reader = self.random.choice(self.readers)
        self.saw(reader.read(self.random.randint(1, 6)), reader.no_ack)

    def saw(self, numbers: list[int], is_over: bool) -> None:
        """Bodies were seen, perhaps for the last time."""
        for number in numbers:
            assert number not in self.ended, "a body that nobody should have seen"
            assert 1 <= number <= self.published
            if is_over:
                self.ended.add(number)

    def settle(self) -> None:
        """Somebody acknowledges, requeues or rejects what it has read."""
        reader = self.random.choice(self.readers)
        for tag, number in [*reader.unacked.items()][: self.random.randint(1, 4)]:
            del reader.unacked[tag]
            way = self.random.choice(["ack", "requeue", "reject"])
            if way == "ack":
                reader.client.send(1, m.BasicAck(tag))
            else:
                reader.client.send(1, m.BasicReject(tag, requeue=way == "requeue"))
            if way == "ack" or (way == "reject" and reader.queue != "kept"):
                self.ended.add(number)

    def die(self) -> None:
        """Somebody goes without having read everything, and another one comes."""
        at = self.random.randrange(len(self.readers))
        reader = self.readers[at]
        self.saw(reader.read(len(reader.pieces)), reader.no_ack)
        reader.client.lose()
        del self.net.unread[reader.client.number]
        self.readers[at] = Reader(self, reader.queue, reader.no_ack)

    def page_out(self) -> None:
        """A queue keeps nothing in RAM, or all of it again."""
        queue = self.broker.node.broker.vhosts["/"].queues[self.random.choice(["kept", "dead"])]
        queue.post(SetTarget(self.random.choice([0.0, float("inf")])))
        self.broker.run()

    def end(self) -> None:
        """All are read and acknowledged, and there is none that is missing."""
        self.broker.wait()
        while any(reader.pieces for reader in self.readers):
            for reader in self.readers:
                self.saw(reader.read(len(reader.pieces)), reader.no_ack)
                self.ended |= set(reader.unacked.values())
                reader.unacked.clear()
                if not reader.no_ack:
                    reader.client.send(1, m.BasicAck(0, multiple=True))
        assert self.ended == set(range(1, self.published + 1))

    def live(self) -> None:
        """A life of all of them."""
        ways = [self.publish, self.read, self.settle, self.die, self.page_out]
        for _ in range(STEPS):
            self.random.choices(ways, [8, 4, 6, 1, 1])[0]()
        self.end()


def number_in(content: bytes) -> int:
    """What a body consists of."""
    body = content_body(content)
    first = body[:NUMBER_BYTES]
    is_whole = body == first * (BODY_BYTES // NUMBER_BYTES)
    assert is_whole, "octets of two bodies"
    return int.from_bytes(first)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nobody_sees_octets_of_another_body(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used_again = 0
    take = room.RoomStock.take

    def counted(self: room.RoomStock, size: int) -> bytes:
        nonlocal used_again
        before = len(self.lent)
        taken = take(self, size)
        used_again += before - len(self.lent)
        return taken

    monkeypatch.setattr(room.RoomStock, "take", counted)
    Lives(seed).live()
    assert used_again > 4


def miscount(patch: pytest.MonkeyPatch, more: int) -> None:
    """Plant a bug: a content to which there are so many references is taken for free."""
    references = room.references

    def too_few(objects: list[bytes], at: int) -> int:
        alone = references([bytes(FEW_BYTES)], 0)
        return max(references(objects, at) - more, alone)

    patch.setattr(room, "references", too_few)


def test_references_that_are_miscounted_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own count is what protects a content: it is copied then, at the latest."""
    miscount(monkeypatch, 1)
    Lives(0).live()


class Unguarded:
    """What `BytesIO` would be if it did not look who else has the octets that it was given."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def getbuffer(self) -> memoryview:
        place = id(self.content) + bytes.__basicsize__ - 1
        octets = (ctypes.c_char * len(self.content)).from_address(place)
        return memoryview(octets).cast("B")

    def truncate(self, size: int) -> None:
        assert size == len(self.content)

    def getvalue(self) -> bytes:
        return self.content


@pytest.mark.parametrize("more", [1, 2])
def test_memory_that_is_used_again_too_soon_is_noticed(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    miscount(monkeypatch, more)
    monkeypatch.setattr(room, "BytesIO", Unguarded)
    with pytest.raises(AssertionError, match=r"octets|seen"):
        Lives(0).live()
