"""A queue that pages, with a disk and a message store of which the test says when they work, beside
a plain list of messages. Everything is tiny: segments of 8, loads of 100 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from unittest.mock import patch

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.model.batch import Batch
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.queues.classic.priorities import PriorityBacking
from sluicemq.queues.classic.subqueues import MOVES, OUT, PUBLISH, REQUEUE
from sluicemq.queues.commands import (
    Cancel,
    Command,
    Consume,
    Delete,
    Down,
    Get,
    Publish,
    Purge,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Deliver, Effect, Got, Purged, Remove, Write
from sluicemq.queues.machine import Depth
from sluicemq.storage.positions import Mark, first_of_priority, priority_at
from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex
from support.batches import batch_of
from support.fakes import FakeClock, bystander
from support.files import DictFiles, run

from .carrying_out import carry_out, serve, settles

ENTRIES = 8
IO_BATCH = 2
LOAD = 100
PAGE_OUT = 100
BLOCK = 60
LARGE = 40
"""Bodies of this size have ids of the message store."""

WINDOW = 1_000_000
SIZES = ((8,), (8,), (8, 20), (LARGE,), (LARGE, 60), (90,))


@contextmanager
def tiny() -> Iterator[None]:
    """Loads, writes and blocks of a few messages."""
    with (
        patch("sluicemq.queues.classic.paging_jobs.LOAD_BYTES", LOAD),
        patch("sluicemq.queues.classic.paging_jobs.PAGE_OUT_BYTES", PAGE_OUT),
        patch("sluicemq.storage.queue_index.BLOCK_BYTES", BLOCK),
    ):
        yield


@dataclass(eq=False)
class Message:
    """As the list has it. `id` 0: embedded."""

    position: int
    content: bytes
    persistent: bool
    id: int
    redelivered: bool = False
    expiry: int = 0


def turn_of(message: Message) -> tuple[int, int]:
    """Sort key: the highest priority first, by position."""
    return -priority_at(message.position), message.position


@dataclass(eq=False)
class Held:
    """A message that is out."""

    message: Message
    channel: Actor
    run: int
    index: int


class WatchedBacking(PlainBacking):
    """Notes every move."""

    def __init__(self, depth: Depth, index: QueueIndex, durable: bool) -> None:
        super().__init__(depth, index, IO_BATCH, durable)
        self.moves: set[tuple[str, str]] = set()
        self.levels: dict[int, WatchedBacking] = {0: self}
        """As PriorityBacking has them."""

    def note(self, source: str, target: str) -> None:
        assert (source, target) in MOVES, f"a message went from {source} to {target}"
        self.moves.add((source, target))

    def publish(self, batch: Batch, expiry: int = 0) -> int:
        first = super().publish(batch, expiry)
        self.note(PUBLISH, self.place_of(first))
        return first

    def took(self, chunk: Chunk, count: int) -> None:
        in_q4 = chunk in self.returned or chunk in self.q4.chunks
        self.note("q4" if in_q4 else "q3", OUT)
        super().took(chunk, count)

    def give_back(self, chunks: list[Chunk]) -> None:
        positions = [position for chunk in chunks for position in chunk.positions()]
        super().give_back(chunks)
        for position in positions:
            self.note(REQUEUE, self.place_of(position))

    def watch(self, moves: set[tuple[str, str]]) -> None:
        self.moves = moves

    def moved(self, source: str, target: str, chunk: Chunk) -> Chunk:
        self.note(source, target)
        return super().moved(source, target, chunk)

    def place_of(self, position: int) -> str:
        """Where a ready message is."""
        for name, positions in self.places().items():
            if position in positions:
                return name
        return "delta"

    def places(self) -> dict[str, list[int]]:
        """Positions in RAM by sub-queue, as they stand there; what was requeued is in order."""
        chunks = {
            "q4": [*self.returned, *self.q4.chunks],
            "q3": self.q3.chunks,
            "q2": self.q2.chunks,
            "q1": self.q1.chunks,
        }
        return {
            name: [position for chunk in some for position in chunk.positions()]
            for name, some in chunks.items()
        }


class WatchedPriorities(PriorityBacking):
    """Each level notes every move."""

    levels: dict[int, WatchedBacking]  # type: ignore[assignment]

    def __init__(self, depth: Depth, index: QueueIndex, durable: bool, highest: int) -> None:
        super().__init__(depth, index, IO_BATCH, durable, highest)
        for priority in range(highest + 1):
            level = self.levels[priority] = WatchedBacking(depth, index, durable)
            level.next_position = first_of_priority(priority)

    def watch(self, moves: set[tuple[str, str]]) -> None:
        for level in self.levels.values():
            level.moves = moves


class Bodies:
    """The message store: what it must have, by id."""

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}

    def write(self, first: int, contents: list[bytes]) -> None:
        for number, content in enumerate(contents, first):
            assert number not in self.contents, "written twice"
            self.contents[number] = content

    def remove(self, ids: range) -> None:
        for number in ids:
            assert number in self.contents, f"body {number} is removed and is not there"
            del self.contents[number]


class Bench:
    """The shell of a queue (chain/queue/queue.py) in small, and the list."""

    moves: set[tuple[str, str]]
    backing: WatchedBacking | WatchedPriorities
    is_mirrored = False

    def __init__(self, durable: bool = True, lazy: bool = False, highest: int = 0) -> None:
        self.durable = durable
        self.lazy = lazy
        self.highest = highest
        self.scheduler = Scheduler()
        self.keeper = GateKeeper(FakeClock())
        self.actor = Actor(self.scheduler)
        self.files = DictFiles()
        self.numbers = count(1)
        self.next_id = 1
        self.persistent, self.transient = Bodies(), Bodies()
        self.moves = set()
        self.published = self.removed = 0
        self.ready: list[Message] = []
        self.out: dict[int, Held] = {}
        self.by_content: dict[bytes, Message] = {}
        self.journalled: set[int] = set()
        self.acknowledged: set[int] = set()
        self.deleted = False
        self.removals: list[Remove] = []
        self.sound = True
        """False: something was found; the rest means nothing."""
        self.new_queue()

    def new_queue(self) -> None:
        index = QueueIndex(7, "queues/7", ENTRIES, lambda: next(self.numbers).to_bytes(16))
        self.machine = ClassicQueue(
            "queue 'q'", self.durable, self.actor, index, IO_BATCH, is_mirrored=self.is_mirrored
        )
        depth = self.machine.depth
        if self.highest:
            self.backing = WatchedPriorities(depth, index, self.durable, self.highest)
        else:
            self.backing = WatchedBacking(depth, index, self.durable)
        self.backing.watch(self.moves)
        self.backing.become(self.lazy)
        self.machine.backing = self.backing
        self.channels = [bystander(), bystander()]
        self.consumers: list[Consumer] = []
        self.gets = 0
        self.strand: list[Callable[[], None]] = []
        """What the disk has to do, in order."""
        self.reads: list[tuple[Chunk, range]] = []
        self.collecting: list[list[tuple[int, int]]] = []
        self.flush_upto = 0
        self.flushes = 0
        self.credit = WINDOW
        """Messages that may be handed to the message store in a turn."""
        self.storage_failed = False
        self.failure: str | None = None
        """How the next write fails."""
        self.round_ended = False
        """The last round of paging was not stopped by credit."""

    # -- what clients do

    def publish(
        self, number: int, kind: int, persistent: bool, parts: int = 1, priority: int = 0
    ) -> None:
        """`number` messages in so many batches."""
        sizes = SIZES[kind % len(SIZES)]
        for _ in range(parts):
            contents = []
            for index in range(number):
                self.published += 1
                content = b"%07d" % self.published
                contents.append(content.ljust(sizes[index % len(sizes)], b"."))
            first_id = 0
            if len(contents[0]) >= LARGE:
                first_id = self.next_id
                self.next_id += number
            if not self.deleted:
                self.remember(contents, persistent, first_id, min(priority, self.highest))
            else:
                self.removed += number
            same_size = len(set(map(len, contents))) == 1
            batch = batch_of(
                contents,
                same_size=same_size,
                persistent=persistent,
                copies=1 + kind % 2,
                first_id=first_id,
                priority=priority,
            )
            self.apply(Publish(batch, Link(self.channels[0]), 1, False))
        self.turn()

    def remember(
        self, contents: list[bytes], persistent: bool, first_id: int, priority: int
    ) -> None:
        position = self.backing.levels[priority].next_position
        for offset, content in enumerate(contents):
            message_id = first_id + offset if first_id else 0
            message = Message(position + offset, content, persistent, message_id)
            self.ready.append(message)
            self.by_content[content] = message
        self.ready.sort(key=turn_of)

    def consume(self, channel: int, no_ack: bool, prefetch: int) -> None:
        if len(self.consumers) < 3 and not self.deleted:
            actor = self.channels[channel % 2]
            window = Outflow(self.keeper, "w", LinkSpec(WINDOW, 1))
            limit = Prefetch(prefetch)
            consumer = Consumer(actor, "c", no_ack, False, 0, limit, Limiter(), window, {})
            self.consumers.append(consumer)
            self.apply(Consume(consumer))
        self.turn()

    def cancel(self, choice: int) -> None:
        if self.consumers:
            self.apply(Cancel(self.consumers.pop(choice % len(self.consumers))))
        self.turn()

    def get(self, channel: int, no_ack: bool) -> None:
        self.gets += 1
        self.apply(Get(self.channels[channel % 2], no_ack))
        self.turn()

    def settle(self, choice: int, length: int, requeue: bool) -> None:
        """Some of what is out, from some place on: neighbours of one run together."""
        positions = sorted(self.out)
        if positions:
            first = choice % len(positions)
            parts: list[tuple[int, int, int]] = []
            for position in positions[first : first + length]:
                held = self.out.pop(position)
                last = parts[-1] if parts else (0, 0, 0)
                if (last[0], last[2]) == (held.run, held.index):
                    parts[-1] = (held.run, last[1], held.index + 1)
                else:
                    parts.append((held.run, held.index, held.index + 1))
                self.back(held.message) if requeue else self.gone(held.message)
            for command in settles(self.machine, parts, requeue):
                self.apply(command)
        self.turn()

    def down(self, channel: int) -> None:
        """A channel dies; another one opens."""
        actor = self.channels[channel % 2]
        self.consumers = [each for each in self.consumers if each.channel is not actor]
        for position in [p for p, held in self.out.items() if held.channel is actor]:
            self.back(self.out.pop(position).message)
        self.gets -= sum(get.channel is actor for get in self.machine.waiting)
        self.apply(Down(actor))
        self.channels[channel % 2] = bystander()
        self.turn()

    def purge(self) -> None:
        self.apply(Purge(self.channels[0]))
        self.turn()

    def delete(self) -> None:
        """The last of a queue; a new one follows, on a disk without its files."""
        self.apply(Delete(None, False, False))
        self.removed += len(self.ready) + len(self.out)
        self.ready, self.out = [], {}
        self.deleted = True
        self.turn()
        self.work_to_the_end()
        assert not self.backing.is_seeking
        assert self.persistent.contents == self.transient.contents == {}
        self.files = DictFiles()
        self.deleted = False
        self.new_queue()
        self.journalled, self.acknowledged, self.by_content = set(), set(), {}

    # -- what the node does

    def set_target(self, target: int | None) -> None:
        self.backing.target = target
        self.turn()

    def give_credit(self, credit: int) -> None:
        """0: the gate to the message store is shut."""
        self.credit = credit
        self.turn()

    def fail_write(self, code: str) -> None:
        """The next one does not succeed: ENOSPC until it is tried again, EIO for good."""
        self.failure = code
        self.turn()

    def fail_storage(self, failed: bool) -> None:
        """A storage that has failed is not written to."""
        self.storage_failed = failed
        self.turn()

    def flush(self, choice: int) -> None:
        """A checkpoint wants what is below some position on disk."""
        if self.durable:
            marks = self.machine.marks()
            end = marks[choice % len(marks)].next
            start = first_of_priority(priority_at(end))
            self.flush_upto = max(self.flush_upto, start + choice % (end - start + 1))
            self.backing.bound(self.flush_upto)
        self.turn()

    def set_lazy(self, lazy: bool) -> None:
        self.lazy = lazy
        self.backing.become(lazy)
        self.turn()

    def restart(self) -> None:
        """In order: everybody leaves, everything is flushed; what is transient is gone."""
        if not self.durable:
            return
        self.storage_failed, self.failure = False, None
        for channel in (0, 1):
            self.down(channel)
        self.work_to_the_end()
        self.flush_upto = self.machine.marks()[-1].next
        self.backing.bound(self.flush_upto)
        self.turn()
        self.work_to_the_end()
        assert not self.flush_upto, "the checkpoint waits for ever"
        self.back_from_the_broker()
        old = self.backing
        states = old.index.states()
        marks = self.machine.marks()
        kept = [message for message in self.ready if message.persistent]
        self.removed += len(self.ready) - len(kept)
        self.ready = kept
        self.transient = Bodies()
        self.new_queue()
        for state in states:
            self.backing.index.adopt(state)
        expiring = any(message.expiry for message in self.ready)
        self.machine.recover([self.weighed(mark) for mark in marks], expiring)
        self.turn()

    def back_from_the_broker(self) -> None:
        """What it had out itself is there again; nothing here."""

    def weighed(self, mark: Mark) -> Mark:
        """With the bytes of what is there: what is transient has gone."""
        alike = [m for m in self.ready if priority_at(m.position) == mark.priority]
        size = sum(len(message.content) for message in alike)
        assert mark.size >= size
        return mark._replace(size=size)

    def work(self) -> None:
        """The disk does one thing."""
        if self.strand:
            self.strand.pop(0)()
        self.turn()

    def read_bodies(self) -> None:
        """The message store answers the oldest question."""
        if self.reads:
            chunk, ids = self.reads.pop(0)
            bodies = self.persistent if self.is_kept(chunk.traits.persistent) else self.transient
            found = {number: bodies.contents[number] for number in ids if number in bodies.contents}
            assert self.machine.got_bodies(chunk, found) == []
        self.turn()

    def sync_journal(self) -> None:
        """What was acknowledged is durable: segments may go."""
        if self.collecting:
            paths = self.backing.index.collect(self.collecting.pop(0))
            self.strand += [partial(self.files.delete, path) for path in paths]
        self.turn()

    def work_to_the_end(self) -> None:
        for _ in range(100_000):
            if not (self.strand or self.reads or self.collecting):
                return
            self.work()
            self.read_bodies()
            self.sync_journal()
        raise AssertionError("the disk never comes to an end")

    # -- the shell

    def apply(self, command: Command) -> None:
        effects: list[Effect] = []
        carry_out(self.machine, command, effects)
        self.make_real(effects)

    def serve(self) -> None:
        effects: list[Effect] = []
        serve(self.machine, effects)
        self.make_real(effects)

    def turn(self) -> None:
        """The end of the queue actor's turn."""
        self.serve()
        for consumer in self.consumers:
            consumer.window.refill(WINDOW - consumer.window.credit)
            self.machine.consumers.wake(consumer.window)
        backing = self.backing
        alphas = self.alphas()
        self.round_ended = backing.target is not None and not self.deleted
        self.machine.reduce_memory_use(self.store_is_full)
        if not self.credit:
            assert alphas == self.alphas(), "invariant 22"
        for chunk in backing.take_to_store():
            positions = chunk.positions()
            assert chunk.id_base is not None
            self.transient.write(positions[0] + chunk.id_base, chunk.rest())
        for effect in self.removals:
            self.remove(effect)
        self.removals = []
        self.work_on_disk()

    def alphas(self) -> list[tuple[int, int]]:
        return [(level.q1.count, level.q4.count) for level in self.backing.levels.values()]

    def store_is_full(self) -> bool:
        full = self.storage_failed or self.backing.to_store_count >= self.credit
        self.round_ended &= not full
        return full

    def work_on_disk(self) -> None:
        backing = self.backing
        index = backing.index
        if index.has_empty:
            self.collecting.append(index.empty())
        hungry = self.machine.hungry()
        for chunk in backing.bodies_wanted(hungry):
            positions = chunk.positions()
            assert chunk.id_base is not None
            first = positions[0] + chunk.id_base
            self.reads.append((chunk, range(first, first + len(positions))))
        if index.busy:
            return
        job: IndexWrite | IndexRead | None = None
        if self.flush_upto and not self.storage_failed:
            job = self.next_flush()
        if job is None:
            job = backing.next_job(hungry, writing=not self.storage_failed)
        if job is not None:
            self.submit(job)

    def submit(self, job: IndexWrite | IndexRead) -> None:
        def done() -> None:
            if isinstance(job, IndexWrite):
                self.write_blocks(job)
                return
            run(self.files, job)
            assert job.failure is None
            if job.epoch < 0:
                for found in self.backing.sought(job):
                    (self.persistent if found.traits.persistent else self.transient).remove(
                        found.ids
                    )
            else:
                assert self.machine.loaded(job) == []
                assert job.damaged == []

        self.strand.append(done)

    def write_blocks(self, job: IndexWrite) -> None:
        code, self.failure = self.failure, None
        self.files.fail = lambda action, _: code if action == "write" else None
        job.failure = None
        run(self.files, job)
        self.files.fail = None
        if job.failure is None:
            self.backing.wrote(job)
        elif job.failure.is_full:
            self.submit(job)
        else:
            self.backing.give_up(job)
            self.storage_failed = True

    def next_flush(self) -> IndexWrite | None:
        runs = []
        for chunk, _ in self.machine.unsaved(self.flush_upto):
            runs += self.backing.runs_of(chunk)
            if sum(sum(run.sizes) for run in runs) >= PAGE_OUT:
                break
        if runs:
            return self.backing.index.write(runs)
        self.flush_upto = 0
        self.flushes += 1
        return None

    def make_real(self, effects: list[Effect]) -> None:
        told = [effect for effect in effects if isinstance(effect, Deliver | Got | Purged)]
        for kind, some in groupby(told, type):
            if kind is Deliver:
                self.dealt([effect for effect in some if isinstance(effect, Deliver)])
                continue
            for answer in some:
                if isinstance(answer, Got):
                    self.got(answer)
                elif isinstance(answer, Purged):
                    assert answer.count == len(self.ready)
                    self.removed += len(self.ready)
                    self.ready = []
        for effect in effects:
            if isinstance(effect, Write):
                self.write(effect)
            elif isinstance(effect, Remove):
                self.removals.append(effect)

    def write(self, effect: Write) -> None:
        batch = effect.batch
        number = len(batch.contents)
        self.journalled |= {*range(effect.position, effect.position + number)}
        if batch.first_id:
            self.persistent.write(batch.first_id, batch.contents)

    def remove(self, effect: Remove) -> None:
        if effect.durable:
            again = self.acknowledged.intersection(effect.positions)
            assert not again, f"{again} left twice"
            self.acknowledged.update(effect.positions)
        if effect.ids is not None:
            (self.persistent if effect.durable else self.transient).remove(effect.ids)

    # -- the list

    def is_kept(self, persistent: bool) -> bool:
        """Does it survive a restart?"""
        return persistent and self.durable

    def took(self, messages: list[Message]) -> None:
        """The oldest ones, and no others, whoever has got which."""
        expected = self.ready[: len(messages)]
        positions = [message.position for message in sorted(messages, key=turn_of)]
        assert positions == [message.position for message in expected], "invariant 19"
        del self.ready[: len(messages)]

    def dealt(self, effects: list[Deliver]) -> None:
        """Deliveries to several consumers in turn."""
        self.took([self.by_content[content] for each in effects for content in each.contents])
        for effect in effects:
            self.give(effect.channel, effect.run, effect.contents, effect.redelivered)

    def give(self, channel: Actor, run: int, contents: list[bytes], redelivered: bool) -> None:
        for index, content in enumerate(contents):
            message = self.by_content[content]
            assert message.redelivered == redelivered, f"redelivered flag of {message.position}"
            if run:
                self.out[message.position] = Held(message, channel, run, index)
            else:
                self.gone(message)

    def got(self, effect: Got) -> None:
        self.gets -= 1
        if effect.content is None:
            assert not self.ready, "got nothing, though there is something"
            return
        self.took([self.by_content[effect.content]])
        self.give(effect.channel, effect.run, [effect.content], effect.redelivered)
        assert effect.ready == len(self.ready)

    def back(self, message: Message) -> None:
        message.redelivered = True
        self.ready.append(message)
        self.ready.sort(key=turn_of)

    def gone(self, message: Message) -> None:
        self.removed += 1
        del self.by_content[message.content]

    def drain(self) -> None:
        """Take everything; nothing may be left anywhere."""
        self.credit = WINDOW
        self.storage_failed = False
        for channel in (0, 1):
            self.down(channel)
        self.consume(0, False, 3)
        for _ in range(10_000):
            self.work()
            self.read_bodies()
            self.sync_journal()
            self.settle(0, 3, False)
            if not self.ready and not self.out:
                break
        assert not self.ready, f"{self.ready[0].position} never comes"
        self.work_to_the_end()
        depth = self.machine.depth
        assert depth.footprint == depth.persistent == depth.ready_bytes == 0
        assert self.persistent.contents == self.transient.contents == {}
        assert not any(segment.live for segment in self.backing.index.segments.values())
