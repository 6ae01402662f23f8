"""The consumers of one process, with the server that hands out what they gathered.

A planner with one consumer has it in its own process. With more they are in processes of their own
(`gatherer.py`), for one interpreter cuts no faster with two consumers than with one; the planner
then has a `RemoteGroup` (`remote_groups.py`), which does the same over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sluicemq.spark.chunks import Chunk, Message, Scratch
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.options import Options
from sluicemq.spark.transfer import ChunkServer, Endpoint

MessageKey = tuple[str, str | None]
"""Queue and message id."""

BYTES_UNLIMITED: Final = 2**62


class Place(NamedTuple):
    """A consumer that shall be."""

    queue: str
    consumer: str


class Taken(NamedTuple):
    """A chunk that was handed out: `position` is that of its last message, `number` the one its
    server knows it by. `ids` are the messages' if they were asked for, else None. So many of them
    the broker had sent before, `redelivered`."""

    consumer: str
    queue: str
    position: int
    rows: int
    bytes: int
    number: int
    ids: list[str | None] | None
    redelivered: int


class ConsumerGroup:
    """See above; for one thread, but for `abandon`."""

    def __init__(self, options: Options, news: threading.Condition, server: ChunkServer) -> None:
        self.consumers: list[ConsumerThread] = []
        self.is_lost = False
        """Never: it lives as long as this process."""
        self._options = options
        self._news = news
        self._server = server
        self._scratch = Scratch()

    @property
    def endpoint(self) -> Endpoint:
        """Where chunks are fetched."""
        return self._server.endpoint

    @property
    def heard_at(self) -> float:
        """What is known of it is known as of now (monotonic)."""
        return time.monotonic()

    def open(self, places: Iterable[Place], bytes_max: int) -> None:
        """More consumers; `bytes_max` is each one's (`ConsumerThread`), also of those there are."""
        self.bound(bytes_max)
        for place in places:
            consumer = ConsumerThread(
                self._options, place.queue, place.consumer, self._news, bytes_max
            )
            self.consumers.append(consumer)

    def take(
        self, consumers: Sequence[str], rows_max: int, bytes_max: int, has_ids: bool = False
    ) -> list[Taken]:
        """Chunks within the limits, of these consumers in turn."""
        named = {consumer.name: consumer for consumer in self.consumers}
        found: list[Taken] = []
        for name in consumers:
            consumer = named[name]
            position = consumer.taken
            for chunk in consumer.take(rows_max, bytes_max):
                rows_max -= chunk.rows
                bytes_max -= chunk.bytes
                position += chunk.rows
                ids = chunk.ids(self._scratch) if has_ids else None
                number = self._server.offer(chunk)
                sizes = chunk.rows, chunk.bytes
                again = sum(run.count for run in chunk.runs if run.redelivered)
                found.append(Taken(name, chunk.queue, position, *sizes, number, ids, again))
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """All up to there is safe; nobody needs those chunks any more."""
        for consumer in self.consumers:
            self._server.withdraw(consumer.acknowledge(positions.get(consumer.name, 0)))

    def reject(self, number: int, rows: Sequence[int]) -> None:
        """Have these rows of a chunk, from 0, become dead letters when it is acknowledged."""
        self._server.chunk(number).rejected = rows

    def await_written(self, deadline: float) -> None:
        """Until the acknowledgements are on their way."""
        for consumer in self.consumers:
            consumer.await_written(deadline)

    def bound(self, bytes_max: int) -> None:
        """Have each consumer stop reading there from now on."""
        for consumer in self.consumers:
            consumer.bound(bytes_max)

    def find(self, wanted: set[MessageKey]) -> dict[MessageKey, Message]:
        """Those of them that wait, the first of each id."""
        found: dict[MessageKey, Message] = {}
        for consumer in self.consumers:
            for chunk in consumer.peek():
                keys = [(chunk.queue, each) for each in chunk.ids(self._scratch)]
                if wanted.isdisjoint(keys):
                    continue
                for key, message in zip(keys, chunk.messages(), strict=True):
                    if key in wanted:
                        found.setdefault(key, message)
        return found

    def start_over(self, bytes_max: int) -> None:
        """Give back all that waits, of which nothing has been taken yet, and consume anew: from the
        heads of the queues, wherever what was given back since has its place there."""
        gone = [consumer for consumer in self.consumers if consumer.is_gone]
        self.consumers = [consumer for consumer in self.consumers if not consumer.is_gone]
        places = [Place(consumer.queue, consumer.name) for consumer in self.consumers]
        self.stop()
        self.open(places, bytes_max)
        self.consumers += gone

    def drop(self, names: Collection[str]) -> None:
        """Consumers whose queues are gone, and of which nothing is out."""
        for consumer in self.consumers:
            if consumer.name in names:
                consumer.stop()
        self.consumers = [consumer for consumer in self.consumers if consumer.name not in names]

    def keep_alive(self) -> None:
        """Nothing has to be done for it."""

    def stop(self) -> None:
        """Acknowledge what is safe, close the connections; the broker takes back the rest."""
        for consumer in self.consumers:
            consumer.stop()
        self.consumers = []

    def abandon(self) -> None:
        """Close the sockets at once, from any thread."""
        for consumer in self.consumers:
            consumer.abandon()


def in_parts(found: Mapping[MessageKey, Message]) -> list[tuple[list[str | None], Chunk]]:
    """As chunks, of one queue each, with the ids in order."""
    queues: dict[str, list[tuple[str | None, Message]]] = {}
    for (queue, name), message in found.items():
        queues.setdefault(queue, []).append((name, message))
    return [
        ([name for name, _ in each], Chunk.of(queue, [message for _, message in each]))
        for queue, each in queues.items()
    ]
