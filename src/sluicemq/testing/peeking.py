"""The next messages of a queue, read without taking any, for `peek` of a test.

Only what the broker has in memory is read. Of a queue whose next messages are on the disk, and of a
stream, nothing is said.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.chain.queue.delivery_counts import counted, with_count
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.model.batch import ENVELOPED, exchange_and_key, separate
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.classic.priorities import PriorityBacking
from sluicemq.queues.quorum.dead_letter_queue import NO_ID
from sluicemq.queues.quorum.effects import DeliveredPart
from sluicemq.queues.quorum.message_runs import MessageRun
from sluicemq.text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.queue import Queue
    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.classic.backing import Backing


class Glimpse(NamedTuple):
    """A message as the next consumer would get it."""

    content: bytes
    """Its header frame and body frames."""
    exchange: str
    routing_key: str
    redelivered: bool


class OnDisk(Exception):
    """The next messages of a queue are on the disk, or cannot be looked at for another reason."""


def next_messages(queue: Queue, count: int, now_ms: int) -> list[Glimpse]:
    """Return up to `count` next messages of a queue, in the order in which they would be delivered
    at the time `now_ms`. Raises OnDisk when they are not all in memory."""
    found: list[Glimpse] = []
    if isinstance(queue, QuorumShell):
        glimpses = of_quorum_queue(queue, now_ms)
    elif isinstance(queue.machine, ClassicQueue):
        glimpses = of_classic_queue(queue.machine, now_ms)
    else:
        raise OnDisk
    for glimpse in glimpses:
        if len(found) == count:
            break
        found.append(glimpse)
    return found


def of_classic_queue(machine: ClassicQueue, now_ms: int) -> Iterator[Glimpse]:
    """Yield the ready messages of a classic queue, in their order. Raises OnDisk where one is not
    in memory."""
    backing = machine.backing
    levels: list[Backing] = [backing]
    if isinstance(backing, PriorityBacking):
        levels = [*reversed(backing.levels.values())]
    for level in levels:
        delta = level.delta
        for chunk in level.in_ram():
            if not chunk.bodies or (delta.count and chunk.position >= delta.start):
                raise OnDisk
            if 0 < chunk.expiry <= now_ms:
                continue
            contents = chunk.rest()
            if machine.delivery_counts is not None:
                returns = machine.delivery_counts.of(chunk, chunk.positions())
                if returns is not None:
                    contents = counted(contents, chunk.traits.envelope, returns.counts)
            yield from glimpses_of(contents, chunk.traits, chunk.redelivered)
        if delta.count:
            raise OnDisk


def of_quorum_queue(queue: QuorumShell, now_ms: int) -> Iterator[Glimpse]:
    """Yield the ready messages of a quorum queue, in their order. Raises OnDisk where one is not in
    memory."""
    messages = queue.fifo.messages
    head = messages.head
    fresh = (
        MessageRun(batch, range(batch.first if number else head, batch.end))
        for number, batch in enumerate(messages.fresh)
    )
    for run in chain(messages.returns, fresh):
        batch, places = run.batch, run.places
        if 0 < batch.expiry <= now_ms:
            continue
        while places:
            part = DeliveredPart(NO_ID, batch.index, places, run.returns, run.redelivered)
            cut = queue.deliveries_due.cut(part)
            if cut is None:
                raise OnDisk
            places = places[len(cut.contents) :]
            contents = cut.contents
            if run.returns:
                envelope = cut.traits.envelope
                contents = [with_count(each, envelope, run.returns) for each in contents]
            yield from glimpses_of(contents, cut.traits, run.redelivered)


def glimpses_of(
    contents: list[bytes], traits: MessageTraits, redelivered: bool
) -> Iterator[Glimpse]:
    """Yield messages with their facts."""
    for each in contents:
        envelope, content = traits.envelope, each
        if envelope == ENVELOPED:
            envelope, content = separate(content)
        exchange, key = map(text_of, exchange_and_key(envelope))
        yield Glimpse(content, exchange, key, redelivered)
