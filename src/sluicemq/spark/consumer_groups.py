"""The consumers of one process, with the server that hands out the messages that they gathered.

A planner with one consumer has it in its own process. More of them are in processes of their own
(`gatherer.py`), because one interpreter is no faster with two consumers than with one; the planner
then has a `RemoteGroup` (`remote_groups.py`), which does the same over a socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sluicemq.spark.chunks import GatheredChunk, Message, Scratch
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.options import Options
from sluicemq.spark.transfer import ChunkServer, Endpoint

MessageKey = tuple[str, str | None]
"""A queue and a message id."""

BYTES_UNLIMITED: Final = 2**62


class PlannedConsumer(NamedTuple):
    """A consumer to be opened: the queue it reads, and the name it will have."""

    queue: str
    consumer: str


class TakenChunk(NamedTuple):
    """Describes a chunk that was handed out. `position` is that of its last message at its
    consumer; `number` is its number at the chunk server. `ids` are the message ids if requested,
    else None. `redelivered` is how many of its messages the broker had sent before."""

    consumer: str
    queue: str
    position: int
    rows: int
    bytes: int
    number: int
    ids: list[str | None] | None
    redelivered: int


class ConsumerGroup:
    """Owns the consumers of one process, and hands out what they gathered through a chunk server.
    One thread may use it; any may call `abandon`."""

    def __init__(self, options: Options, news: threading.Condition, server: ChunkServer) -> None:
        self.consumers: list[ConsumerThread] = []
        self.is_lost = False
        """Always false: the group lives as long as this process."""
        self._options = options
        self._news = news
        self._server = server
        self._scratch = Scratch()

    @property
    def endpoint(self) -> Endpoint:
        """The address at which the chunks that were handed out are fetched."""
        return self._server.endpoint

    @property
    def heard_at(self) -> float:
        """The monotonic time of the latest report about the consumers, in seconds: always now,
        because they are in this process."""
        return time.monotonic()

    def open(self, planned: Iterable[PlannedConsumer], bytes_max: int) -> None:
        """Open a consumer for each of the planned ones. Every consumer of the group stops reading
        when it holds `bytes_max` octets."""
        self.bound(bytes_max)
        for one in planned:
            consumer = ConsumerThread(self._options, one.queue, one.consumer, self._news, bytes_max)
            self.consumers.append(consumer)

    def take(
        self, consumers: Sequence[str], rows_max: int, bytes_max: int, has_ids: bool = False
    ) -> list[TakenChunk]:
        """Hand out chunks of the named consumers in turn, of at most `rows_max` messages in all.
        Consumers stop giving when `bytes_max` octets are reached. With `has_ids` the message ids
        are read, too."""
        named = {consumer.name: consumer for consumer in self.consumers}
        found: list[TakenChunk] = []
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
                found.append(TakenChunk(name, chunk.queue, position, *sizes, number, ids, again))
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Acknowledge all messages up to these positions, by consumer name, and forget the chunks
        they were in. Consumers that are not named acknowledge nothing."""
        for consumer in self.consumers:
            self._server.withdraw(consumer.acknowledge(positions.get(consumer.name, 0)))

    def reject(self, number: int, rows: Sequence[int]) -> None:
        """Mark rows of the chunk, counted from 0, to be rejected as dead letters when the chunk is
        acknowledged. Raises KeyError when there is no such chunk."""
        self._server.chunk(number).rejected = rows

    def await_written(self, deadline: float) -> None:
        """Wait until all acknowledgements are written to the broker, or until `deadline`
        (monotonic, in seconds)."""
        for consumer in self.consumers:
            consumer.await_written(deadline)

    def bound(self, bytes_max: int) -> None:
        """Have each consumer stop reading when it holds `bytes_max` octets."""
        for consumer in self.consumers:
            consumer.bound(bytes_max)

    def find(self, wanted: set[MessageKey]) -> dict[MessageKey, Message]:
        """Return those of the wanted messages that wait here; the first of several with one id."""
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
        """Give back to the broker all waiting messages, and consume anew from the heads of the
        queues. Only for consumers none of whose messages was handed out yet; each is then opened
        with `bytes_max`."""
        gone = [consumer for consumer in self.consumers if consumer.is_gone]
        self.consumers = [consumer for consumer in self.consumers if not consumer.is_gone]
        planned = [PlannedConsumer(consumer.queue, consumer.name) for consumer in self.consumers]
        self.stop()
        self.open(planned, bytes_max)
        self.consumers += gone

    def drop(self, names: Collection[str]) -> None:
        """Stop and forget the named consumers, whose queues are deleted and of which no message is
        unacknowledged."""
        for consumer in self.consumers:
            if consumer.name in names:
                consumer.stop()
        self.consumers = [consumer for consumer in self.consumers if consumer.name not in names]

    def keep_alive(self) -> None:
        """Do nothing, because consumers in this process need no lease."""

    def stop(self) -> None:
        """Write all acknowledgements and close the connections; the broker requeues unacknowledged
        messages."""
        for consumer in self.consumers:
            consumer.stop()
        self.consumers = []

    def abandon(self) -> None:
        """Close all sockets at once without writing anything; any thread may call it."""
        for consumer in self.consumers:
            consumer.abandon()


def in_parts(found: Mapping[MessageKey, Message]) -> list[tuple[list[str | None], GatheredChunk]]:
    """Put messages into one chunk for each queue; returns each chunk with the ids of its messages,
    in the same order."""
    queues: dict[str, list[tuple[str | None, Message]]] = {}
    for (queue, name), message in found.items():
        queues.setdefault(queue, []).append((name, message))
    return [
        ([name for name, _ in each], GatheredChunk.of(queue, [message for _, message in each]))
        for queue, each in queues.items()
    ]
