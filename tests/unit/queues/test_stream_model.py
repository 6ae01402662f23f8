"""Goal: every reader of a stream gets what there is from its place on, in order, once, never more
at a time than it may have, and nothing stays in RAM when all have gone.

Method: random commands to one stream over simulated files; jobs of the disk are done when chance
says so, files go by retention meanwhile. At the end everybody reads on until there is no more.
"""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.frames import body_frames, content_body, content_header
from sluicemq.amqp.properties import BasicProperties, header_frame
from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.disk import DiskJob
from sluicemq.queues.commands import (
    ACK,
    Cancel,
    Consume,
    Delete,
    Down,
    Publish,
    Settle,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Confirm, Deliver, Effect
from sluicemq.queues.stream.cache import ChunkCache
from sluicemq.queues.stream.machine import Stream
from sluicemq.sim.disk import SimFiles, run
from sluicemq.storage.stream_log import StreamCommit, StreamDrop, StreamLog
from sluicemq.storage.stream_reads import StreamRead
from support.batches import batch_of
from support.fakes import FakeClock, bystander
from support.thorough import examples

IDS = count(1)


class ReaderModel:
    """What a consumer has had; `runs` are (run, count) it has not settled."""

    def __init__(self, consumer: Consumer, start: int | None) -> None:
        self.consumer = consumer
        self.start = start
        self.got: list[int] = []
        self.unacked_runs: list[tuple[int, int]] = []
        self.unsent = 0

    @property
    def unacked(self) -> int:
        return sum(each for _, each in self.unacked_runs)


class Bench:
    """One stream, what is in it, and who reads it."""

    def __init__(self, cache_bytes: int) -> None:
        self.files = SimFiles()
        self.accounted = 0
        self.cache = ChunkCache(cache_bytes, self.account)
        self.log = StreamLog(3, lambda: next(IDS).to_bytes(16), 900, 300, 600)
        self.stream = Stream("a stream", self.log, self.cache)
        self.effects: list[Effect] = []
        self.jobs: list[DiskJob] = []
        self.readers: dict[Consumer, ReaderModel] = {}
        self.link = Link(bystander())
        self.next_seq = 1
        self.confirmed = 0
        self.dropped_to = 0

    def account(self, change: int) -> None:
        self.accounted += change

    def turn(self) -> None:
        """As an actor ends its turn."""
        self.stream.wall_ms += 1
        self.stream.serve(self.effects)
        commit = self.stream.commit()
        if commit is not None:
            self.jobs.append(commit)
        self.jobs += self.stream.next_reads()
        effects, self.effects = self.effects, []
        for effect in effects:
            self.made(effect)

    def made(self, effect: Effect) -> None:
        if isinstance(effect, Confirm):
            assert effect.first_seq == self.confirmed + 1
            self.confirmed += effect.count
            assert self.confirmed <= self.log.durable_end
        elif isinstance(effect, Deliver):
            reader = self.readers[effect.consumer]
            for content in effect.whole():
                headers = BasicProperties.decode(content_header(content).properties).headers
                assert headers is not None
                offset = headers["x-stream-offset"]
                assert isinstance(offset, int)
                assert content_body(content) == b"%d" % offset
                reader.got.append(offset)
            assert reader.got[-1] < self.log.durable_end
            reader.unacked_runs.append((effect.run, len(effect.contents)))
            reader.unsent += effect.cost
            assert reader.unacked <= reader.consumer.prefetch.limit

    def publish(self, sizes: list[int]) -> None:
        contents = []
        for offset in range(self.log.next_offset, self.log.next_offset + len(sizes)):
            body = b"%d" % offset
            head = header_frame(1, len(body), BasicProperties(app_id="x" * sizes[0]))
            contents.append(b"".join([head, *body_frames(1, body, 4096)]))
        batch = batch_of(contents, b"\x00\x01s", same_size=False, persistent=True)
        self.stream.apply(Publish(batch, self.link, self.next_seq, True), self.effects)
        self.next_seq += len(contents)

    def consume(self, start: object, prefetch: int, window: int) -> None:
        channel = bystander()
        keeper = GateKeeper(FakeClock())
        outflow = Outflow(keeper, "deliveries", LinkSpec(window, 1))
        arguments = {"x-stream-offset": start}
        consumer = Consumer(
            channel, "c", False, False, 0, Prefetch(prefetch), Limiter(), outflow, arguments
        )
        first: int | None = None
        if isinstance(start, int):
            first = max(start, self.log.first_offset)
        elif start == "first":
            first = self.log.first_offset
        elif start == "next":
            first = self.log.next_offset
        self.readers[consumer] = ReaderModel(consumer, first)
        self.stream.apply(Consume(consumer), self.effects)

    def settle(self, reader: ReaderModel, most: int) -> None:
        """It acknowledges the oldest; its channel has sent everything."""
        parts = []
        while reader.unacked_runs and most > 0:
            run, held = reader.unacked_runs.pop(0)
            taken = min(held, most)
            parts.append((run, 0, taken))
            if taken < held:
                reader.unacked_runs.insert(0, (run, held - taken))
            most -= taken
        if parts:
            link = self.stream.link_to(reader.consumer.channel)
            self.stream.apply(Settle(link, parts, ACK), self.effects)
        self.sent(reader)

    def sent(self, reader: ReaderModel) -> None:
        if reader.unsent:
            window = reader.consumer.window
            window.refill(reader.unsent)
            reader.unsent = 0
            self.stream.window_opened(window)

    def disk(self, which: int) -> None:
        """One of the jobs is done; commits keep their order."""
        if not self.jobs:
            return
        job = self.jobs.pop(which % len(self.jobs))
        run(job, self.files)
        if isinstance(job, StreamCommit):
            assert job.failure is None
            self.stream.committed(job, self.effects)
        elif isinstance(job, StreamRead):
            self.stream.was_read(job)

    def retain(self, max_bytes: int) -> None:
        dropped = self.stream.retain(None, max_bytes)
        if dropped:
            self.jobs.append(StreamDrop(self.log.directory, [each.path for each in dropped]))
            self.dropped_to = self.log.first_offset

    def leave(self, reader: ReaderModel, how: str) -> None:
        consumer = reader.consumer
        if how == "cancel":
            self.stream.apply(Cancel(consumer), self.effects)
            self.settle(reader, 1000)
        else:
            self.stream.apply(Down(consumer.channel), self.effects)
        del self.readers[consumer]

    def check(self, reader: ReaderModel) -> None:
        """In order, and without a gap but for what was dropped."""
        got = reader.got
        assert got == sorted(set(got))
        if got and reader.start is not None:
            assert got[0] >= reader.start
            assert got[0] == reader.start or got[0] <= self.dropped_to
        for one, other in zip(got, got[1:]):  # noqa: B905, RUF007
            assert other == one + 1 or other <= self.dropped_to

    def drain(self) -> None:
        """Everybody reads on until there is no more."""
        for _ in range(3000):
            self.turn()
            if self.jobs:
                self.disk(0)
                continue
            waiting = [reader for reader in self.readers.values() if reader.unacked_runs]
            if not waiting and not self.effects:
                break
            for reader in waiting:
                self.settle(reader, 1000)
        else:
            raise AssertionError("it never comes to an end")


STARTS = st.sampled_from(["first", "next", "last", "1h"]) | st.integers(0, 60)
OPS = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(0, 60), min_size=1, max_size=6)),
    st.tuples(st.just("publish"), st.lists(st.integers(0, 60), min_size=1, max_size=6)),
    st.tuples(st.just("consume"), st.tuples(STARTS, st.integers(1, 8), st.integers(1, 5))),
    st.tuples(st.just("settle"), st.tuples(st.integers(0, 9), st.integers(1, 5))),
    st.tuples(st.just("disk"), st.integers(0, 9)),
    st.tuples(st.just("disk"), st.integers(0, 9)),
    st.tuples(st.just("retain"), st.integers(0, 3000)),
    st.tuples(st.just("leave"), st.tuples(st.integers(0, 9), st.sampled_from(["cancel", "down"]))),
)


@given(st.lists(OPS, min_size=5, max_size=50), st.sampled_from([0, 700, 100_000]))
@examples(80)
def test_every_reader_gets_what_there_is(script: list[tuple[str, object]], cache: int) -> None:
    bench = Bench(cache)
    for op, argument in script:
        readers = list(bench.readers.values())
        if op == "publish":
            bench.publish(argument)  # type: ignore[arg-type]
        elif op == "consume":
            bench.consume(*argument)  # type: ignore[misc]
        elif op == "disk":
            bench.disk(argument)  # type: ignore[arg-type]
        elif op == "retain":
            bench.retain(argument)  # type: ignore[arg-type]
        elif readers:
            which, how = argument  # type: ignore[misc]
            reader = readers[which % len(readers)]
            bench.settle(reader, how) if op == "settle" else bench.leave(reader, how)
        bench.turn()
    bench.drain()
    assert bench.confirmed == bench.log.next_offset == bench.log.durable_end
    for reader in bench.readers.values():
        bench.check(reader)
        start = reader.start
        if start is not None and start < bench.log.durable_end:
            assert reader.got
        if reader.got:
            assert reader.got[-1] == bench.log.durable_end - 1
    assert bench.stream.depth.unacked == 0
    assert not bench.stream.said
    bench.stream.apply(Delete(None, False, False), bench.effects)
    assert bench.accounted == 0
