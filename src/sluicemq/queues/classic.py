"""The classic queue: a FIFO in memory with consumers, acknowledgements and requeue to position.

The chunk a lot came from is remembered for its kind only (address, persistence); its contents are
dropped from there as soon as the chunk has been taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.model.batch import footprint, size_of
from sluicemq.queues.commands import (
    Cancel,
    Command,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    Publish,
    Purge,
    Receipt,
    Serve,
    Settle,
    Written,
)
from sluicemq.queues.consumers import Consumer, ConsumerGroups, cost_of
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    Consumed,
    Deleted,
    Deliver,
    Effect,
    Got,
    Inspected,
    Purged,
    Refuse,
    Write,
)
from sluicemq.queues.lots import Lot
from sluicemq.queues.machine import Depth, QueueMachine
from sluicemq.queues.ready import Chunk, Ready

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor


class ClassicQueue(QueueMachine):
    """State of one classic queue. `title` is how errors name it: "queue 'q' in vhost '/'"."""

    def __init__(self, title: str, durable: bool, queue: Actor) -> None:
        self.title = title
        self.durable = durable
        self.queue = queue
        self.depth = Depth()
        self.ready = Ready()
        self.lots: dict[int, Lot] = {}
        self.next_lot = 1
        self.consumers = ConsumerGroups()
        self.had_consumer = False
        self.deleted = False

    def apply(self, command: Command, effects: list[Effect]) -> None:
        """See QueueMachine."""
        if isinstance(command, Publish):
            self.publish(command, effects)
        elif isinstance(command, Settle):
            self.settle(command, effects)
        elif isinstance(command, Serve):
            self.serve(effects)
        elif isinstance(command, Written):
            effects.extend(
                Confirm(receipt.sender, receipt.first_seq, receipt.count)
                for receipt in command.receipts
            )
        elif isinstance(command, Get):
            self.get(command, effects)
        elif isinstance(command, Consume):
            self.consume(command, effects)
        elif isinstance(command, Cancel):
            self.cancel(command, effects)
        elif isinstance(command, Down):
            self.down(command.channel)
        elif isinstance(command, Inspect):
            self.serve(effects)
            depth = self.depth
            effects.append(Inspected(command.channel, depth.ready, depth.consumers))
        elif isinstance(command, Purge):
            self.serve(effects)
            effects.append(Purged(command.channel, self.purge()))
        else:
            self.delete(command, effects)

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """Store at the tail; confirm now what needs no write. A deleted queue accepts and drops:
        the publisher meant a queue that was deleted by wish (spec 8.4)."""
        batch = command.batch
        count = len(batch.contents)
        durable = self.durable and batch.persistent and not self.deleted
        if not self.deleted:
            depth = self.depth
            depth.ready += count
            depth.ready_bytes += batch.size
            depth.footprint += footprint(batch.contents, batch.even, batch.copies)
            if durable:
                depth.persistent += count
            self.ready.publish(batch)
        if durable:
            receipt = Receipt(command.sender, command.first_seq, count)
            effects.append(Write(batch, receipt if command.first_seq else None))
        elif command.first_seq:
            effects.append(Confirm(command.sender, command.first_seq, count))

    def serve(self, effects: list[Effect]) -> None:
        """Deal ready messages until there are none or nobody has room."""
        ready = self.ready
        consumers = self.consumers
        if not consumers.count:
            return
        while (chunk := ready.head()) is not None:
            cost_each = cost_of(len(chunk.contents[chunk.start]))
            able, each, group = consumers.able(cost_each, self.queue)
            if not able:
                return
            count = same_cost(chunk, min(chunk.left(), each * len(able)), cost_each)
            self.deal(chunk, count, able, cost_each, effects)
            consumers.rotate(group, able, count)
            ready.took(chunk, count)

    def deal(
        self, chunk: Chunk, count: int, able: list[Consumer], cost_each: int, effects: list[Effect]
    ) -> None:
        """Give the first `count` messages of the chunk to the consumers in turn."""
        start = chunk.start
        end = start + count
        step = len(able)
        depth = self.depth
        depth.ready -= count
        for index in range(min(step, count)):
            consumer = able[index]
            contents = chunk.contents[start + index : end : step]
            size = size_of(contents, chunk.even)
            depth.ready_bytes -= size
            lot = 0
            if consumer.no_ack:
                self.release(chunk, contents)
            else:
                first = chunk.position + start + index
                lot = self.open_lot(
                    Lot(
                        consumer.channel,
                        consumer,
                        chunk,
                        contents,
                        range(first, chunk.position + end, step),
                    ),
                    size,
                )
            effects.append(
                Deliver(
                    consumer,
                    lot,
                    contents,
                    chunk.address,
                    chunk.number,
                    chunk.redelivered,
                    consumer.take(len(contents), cost_each),
                )
            )

    def open_lot(self, lot: Lot, size: int) -> int:
        """Remember a delivery; returns its number."""
        number = self.next_lot
        self.next_lot += 1
        self.lots[number] = lot
        self.depth.unacked += lot.left
        self.depth.unacked_bytes += size
        return number

    def release(self, chunk: Chunk, contents: list[bytes]) -> None:
        """The messages leave the queue for good."""
        depth = self.depth
        depth.footprint -= footprint(contents, chunk.even, chunk.copies)
        if chunk.persistent and self.durable:
            depth.persistent -= len(contents)

    def settle(self, command: Settle, effects: list[Effect]) -> None:
        """Acknowledge (or requeue) parts of lots; a lot that is gone with its channel is over."""
        for number, start, end in command.parts:
            lot = self.lots.get(number)
            if lot is None:
                continue
            if self.deleted:
                lot.settle(start, end)
            elif command.requeue:
                self.give_back(lot, start, end)
            else:
                settled = lot.settle(start, end)
                self.depth.unacked -= end - start
                self.depth.unacked_bytes -= size_of(settled, lot.chunk.even)
                self.release(lot.chunk, settled)
            self.credit(lot, end - start)
            if not lot.left:
                del self.lots[number]

    def credit(self, lot: Lot, count: int) -> None:
        """The consumer may have `count` more."""
        if lot.consumer is not None:
            lot.consumer.prefetch.give(count)
            lot.consumer.limiter.give(count)

    def give_back(self, lot: Lot, start: int, end: int) -> None:
        """Unsettled messages become ready again, at their positions."""
        chunks = lot.give_back(start, end)
        size = sum(size_of(chunk.contents, chunk.even) for chunk in chunks)
        depth = self.depth
        depth.unacked -= end - start
        depth.unacked_bytes -= size
        depth.ready += end - start
        depth.ready_bytes += size
        self.ready.give_back(chunks)

    def get(self, command: Get, effects: list[Effect]) -> None:
        """One message for basic.get; what a consumer can take is no longer there."""
        channel = command.channel
        if self.deleted:
            effects.append(Refuse(channel, 404, f"no {self.title}"))
            return
        self.serve(effects)
        chunk = self.ready.head()
        if chunk is None:
            effects.append(Got(channel, None, 0, b"", 0, False, 0))
            return
        contents = [chunk.contents[chunk.start]]
        position = chunk.position + chunk.start
        size = len(contents[0])
        self.depth.ready -= 1
        self.depth.ready_bytes -= size
        lot = 0
        if command.no_ack:
            self.release(chunk, contents)
        else:
            positions = range(position, position + 1)
            lot = self.open_lot(Lot(channel, None, chunk, contents, positions), size)
        self.ready.took(chunk, 1)
        effects.append(
            Got(
                channel,
                contents[0],
                lot,
                chunk.address,
                chunk.number,
                chunk.redelivered,
                self.depth.ready,
            )
        )

    def consume(self, command: Consume, effects: list[Effect]) -> None:
        """Register a consumer, unless somebody is here exclusively."""
        consumer = command.consumer
        consumers = self.consumers
        if self.deleted:  # after the channel had found it
            effects.append(Refuse(consumer.channel, 404, f"no {self.title}"))
            return
        if consumers.exclusive is not None or (consumer.exclusive and consumers.count):
            text = f"{self.title} in exclusive use"
            effects.append(Refuse(consumer.channel, 403, text))
            return
        consumers.add(consumer)
        self.had_consumer = True
        self.depth.consumers = consumers.count
        effects.append(Consumed(consumer))

    def cancel(self, command: Cancel, effects: list[Effect]) -> None:
        """Take the consumer off the list."""
        self.drop(command.consumer)
        effects.append(Cancelled(command.consumer, False))

    def drop(self, consumer: Consumer) -> None:
        """Forget a consumer; what it holds stays out."""
        consumer.cancelled = True
        self.consumers.remove(consumer)
        self.depth.consumers = self.consumers.count

    def down(self, channel: Actor) -> None:
        """A channel died: its consumers go, its lots come back in order."""
        for consumer in self.consumers.all():
            if consumer.channel is channel:
                self.drop(consumer)
        for number in [n for n, lot in self.lots.items() if lot.channel is channel]:
            lot = self.lots.pop(number)
            if not self.deleted:
                for start, end in lot.open_parts():
                    self.give_back(lot, start, end)

    def purge(self) -> int:
        """Drop the ready messages; returns how many."""
        count, size, weight = self.ready.measure()
        depth = self.depth
        assert count == depth.ready, "the running count of ready messages is off"
        self.ready.clear()
        depth.ready = 0
        depth.ready_bytes -= size
        depth.footprint -= weight
        depth.persistent = 0
        if self.durable and not self.deleted:
            depth.persistent = sum(lot.left for lot in self.lots.values() if lot.chunk.persistent)
        return count

    def delete(self, command: Delete, effects: list[Effect]) -> None:
        """Delete on conditions; consumers are told. Lots stay, without their messages: the limits
        of their channels count them until they are settled."""
        self.serve(effects)
        channel = command.channel
        if channel is not None and command.if_unused and self.consumers.count:
            effects.append(Refuse(channel, 406, f"{self.title} in use"))
            return
        if channel is not None and command.if_empty and self.depth.ready:
            effects.append(Refuse(channel, 406, f"{self.title} not empty"))
            return
        for consumer in self.consumers.all():
            self.drop(consumer)
            effects.append(Cancelled(consumer, True))
        count = self.purge()
        for lot in self.lots.values():
            lot.forget()
        self.depth = Depth()
        self.deleted = True
        effects.append(Deleted(channel, count))

    def is_unused(self) -> bool:
        """An auto-delete queue goes when its last consumer has gone."""
        return self.had_consumer and not self.consumers.count


def same_cost(chunk: Chunk, count: int, cost_each: int) -> int:
    """How many of the first `count` messages take as much of a window as the first does."""
    if chunk.even:
        return count
    start = chunk.start
    for index in range(start + 1, start + count):
        if cost_of(len(chunk.contents[index])) != cost_each:
            return index - start
    return count
