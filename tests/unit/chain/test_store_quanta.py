"""Goal: an append to the log of a Raft group waits for a sync of little, however much is written
for queues; what is written for queues keeps its order, and nothing is lost on the way. Method:
Hypothesis parts all kinds of appends into groups, while others come; a store with queues that never
run has several quanta; a whole node has megabytes of messages to write when an append comes, and
the power goes at each sync.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, Event, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.chain.store import group_commit
from sluicemq.chain.store.group_commit import Append, WhenDurable, parted
from sluicemq.chain.store.messages import WhenSafe
from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.config import Config, StorageConfig
from sluicemq.limits import RAFT_GROUP_BYTES
from sluicemq.metadata.agreement import Agreed
from sluicemq.storage.journal import GroupWrite
from sluicemq.storage.message_files import MessageFiles
from support.fakes import bystander, drain

from .client import PERSISTENT, Broker
from .test_message_store import Bench as QueueBench
from .test_raft_storage import Bench

LARGE: Final = replace(Config(), storage=StorageConfig(reserve_bytes=0))


class Kind(NamedTuple):
    """What is appended: to a log, of a quantum, a declaration, what comes behind all."""

    raft_bytes: int = 0
    quantum_bytes: int = 0
    is_in_line: bool = False
    is_declaration: bool = False
    is_last: bool = False


KINDS: Final = (
    *(Kind(raft_bytes=size, is_in_line=True) for size in (1, 600_000, 2_000_000)),
    Kind(is_in_line=True),
    Kind(quantum_bytes=1000),
    Kind(quantum_bytes=1000),
    Kind(is_declaration=True),
    Kind(is_last=True),
    Kind(),
)


class Line(Append):
    """Something to be appended."""

    raft_bytes = 0
    quantum_bytes = 0

    def __init__(self, kind: Kind) -> None:
        super().__init__(urgent=True)
        self.kind = kind
        for name, value in kind._asdict().items():
            setattr(self, name, value)


def is_right_group(taken: list[Append], left: list[Append], most: int) -> None:
    """What one group has, and what waits for a later one."""
    raft = [each.raft_bytes for each in taken if each.raft_bytes]
    assert len(raft) <= 1 or (len(raft) <= most and sum(raft) <= RAFT_GROUP_BYTES)
    assert sum(each.quantum_bytes > 0 for each in taken) <= 1
    assert raft or not any(each.raft_bytes for each in left), "an append waits for no append"
    assert not any(each.is_declaration for each in left)


@given(st.lists(st.lists(st.sampled_from(KINDS), max_size=6), max_size=12), st.integers(1, 4))
def test_what_is_parted_is_in_its_order(rounds: list[list[Kind]], most: int) -> None:
    left: list[Append] = []
    handed_in: list[Append] = []
    found: list[Append] = []
    latest: dict[Append, int] = {}
    """The group that something must be in."""
    groups = 0
    while rounds or left:
        for kind in rounds.pop(0) if rounds else ():
            latest[come := Line(kind)] = groups + len(left)
            left.append(come)
            handed_in.append(come)
        taken, left = parted(left, most)
        is_right_group(taken, left, most)
        found += taken
        for each in taken:
            assert latest[each] >= groups, "it waits for more than what was there before"
            before = handed_in[: handed_in.index(each)]
            assert not each.is_last or {*before} <= {*found}
        groups += 1
    assert len(found) == len(handed_in)
    behind = {each for each in handed_in if each.is_last or each.is_declaration}
    log = [each for each in handed_in if each.is_in_line]
    rest = [each for each in handed_in if not (each.is_in_line or each in behind)]
    for line in (log, rest):
        there = {*line}
        assert [each for each in found if each in there] == line


class Entry(Append):
    """An append to a log, with nothing for the journal."""

    is_in_line = True
    raft_bytes = 1

    def __init__(self, heard: list[str], name: str) -> None:
        super().__init__(urgent=True)
        self.heard = heard
        self.name = name

    def appended(self) -> None:
        self.heard.append(self.name)


class Quanta(QueueBench):
    """A store in which each write is a quantum, and the first is on its way to the disk. `heard`
    are the entries of logs that are durable, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.store.quantum_bytes = 1
        self.heard_entries: list[str] = []
        self.write(0, 1)

    def entry(self, name: str) -> None:
        self.store.post(Entry(self.heard_entries, name))
        self.run()

    def stored(self, ids: range) -> list[int]:
        """Of these bodies those that are in files."""
        entries = self.files.index.get_many(ids)
        return [each for each, entry in zip(ids, entries, strict=True) if entry]

    @property
    def files(self) -> MessageFiles:
        return self.store.persistent


def test_while_entries_of_logs_come_each_group_has_one_quantum() -> None:
    bench = Quanta()
    for seq in (2, 3, 4):
        bench.write(0, seq)
    for name in "abc":
        bench.entry(name)
        bench.finish()
    assert bench.heard(0) == [1, 2, 3]
    assert bench.heard_entries == ["a", "b"]
    bench.finish_all()
    assert bench.heard(0) == [4]
    assert bench.heard_entries == ["a", "b", "c"]


def test_what_is_left_is_written_though_a_group_had_nothing_for_the_disk() -> None:
    bench = Quanta()
    gone = bench.write(0, 2)
    bench.write(0, 3)
    bench.remove(0, gone)
    bench.entry("a")
    bench.finish_all()
    assert bench.heard(0) == [2, 1, 3]
    assert bench.heard_entries == ["a"]


def test_a_write_is_overtaken_in_whichever_quantum_it_is() -> None:
    bench = Quanta()
    for seq in (2, 3, 4):
        bench.write(0, seq)
    bench.remove(0, range(2, 3))
    bench.remove(0, range(1, 2))
    assert bench.heard(0) == [3, 2]
    bench.entry("a")
    bench.finish_all()
    assert bench.heard(0) == [1, 4]
    assert bench.positions_written() == [0, 3]
    assert bench.positions_acked() == []


def test_bodies_are_there_until_it_is_durable_that_they_are_gone() -> None:
    """Of a batch some messages have gone, which a later group says."""
    bench = Quanta()
    batch = bench.write(0, 2, 20_000, 4, large=5)
    bench.write(1, 3)
    bench.remove(0, batch[:2], ids=range(5, 7))
    bench.entry("a")
    bench.finish()
    bench.entry("b")
    bench.finish()
    assert bench.heard(0) == [1, 2]
    assert bench.positions_acked() == []
    assert bench.stored(range(1, 20)) == [5, 6, 7, 8]
    bench.finish_all()
    assert bench.positions_acked() == [1, 2]
    assert bench.files.valid_bytes <= bench.files.total_bytes // 2


def test_bodies_that_were_overtaken_are_not_written() -> None:
    bench = Quanta()
    gone = bench.write(0, 2, 20_000, 4, large=5)
    bench.write(1, 3, 20_000, 4, large=5)
    bench.write(1, 4, 20_000, 4, large=9)
    last = bench.write(0, 5, 20_000, 4, large=13)
    bench.remove(0, gone, ids=range(5, 9))
    bench.remove(0, last, ids=range(13, 17))
    for name in "ab":
        bench.entry(name)
        bench.finish()
    bench.finish_all()
    assert bench.stored(range(1, 20)) == [*range(5, 13)]
    assert bench.files.overtaken == 4


def test_no_credit_is_given_while_too_much_waits_in_all_quanta() -> None:
    bench = Quanta()
    bench.store.group_bytes_max = 25
    for seq in (2, 3):
        bench.write(0, seq)
    assert not bench.store.full.is_shut
    bench.write(0, 4)
    assert bench.store.full.is_shut
    bench.entry("a")
    bench.finish()
    assert not bench.store.full.is_shut
    bench.finish_all()
    assert bench.heard(0) == [1, 2, 3, 4]
    assert not bench.store.waiting_bytes


def test_when_the_storage_fails_nobody_hears_of_what_is_left() -> None:
    bench = Quanta()
    for seq in (2, 3, 4):
        bench.write(0, seq)
    bench.entry("a")
    bench.finish()
    bench.disk.files.fail = lambda action, _: "EIO" if action == "sync" else None
    bench.finish_all()
    assert bench.store.storage_failed
    assert bench.heard(0) == [1]
    assert not bench.heard_entries
    assert not bench.store.commits.gathered
    bench.store.checkpoints.close()
    bench.run()
    assert bench.store.checkpoints.closed


def test_a_question_is_answered_behind_all_quanta() -> None:
    bench = Quanta()
    for seq in (2, 3, 4):
        bench.write(0, seq)
    asker = bystander()
    bench.store.post(WhenDurable(asker))
    bench.store.post(WhenSafe(asker))
    for name in "abc":
        bench.entry(name)
        bench.finish()
        assert not drain(asker)
    bench.finish_all()
    assert [type(each) for each in drain(asker)] == [WhenDurable, Agreed]


class Backlog:
    """A node with a classic queue to which megabytes were published while the first message of them
    was on its way to the disk, and then an append to a log. `sizes` are the bytes of each group of
    the journal since then, with large bodies, and whether the append is in it."""

    def __init__(self, size: int, count: int) -> None:
        self.bench = bench = Bench(config=LARGE)
        bench.born(range(1, 2))
        bench.ear.heard.clear()
        self.store = bench.store
        self.client = client = bench.broker.connect()
        client.open(1)
        self.other = bench.broker.connect()
        self.other.open(1)
        client.call(1, m.QueueDeclare(queue="q", durable=True), m.ConfirmSelect())
        head = m.BasicPublish(exchange="", routing_key="q").frame(1)
        self.bodies = [b"%08d" % number + bytes(size) for number in range(count)]
        for body in self.bodies:
            client.post_bytes(head + content_frames(1, PERSISTENT, body, 131072))
            self.without_the_disk()
        assert len(bench.broker.world.disk.jobs) == 1
        bench.entry(1)
        self.without_the_disk()
        self.sizes: list[tuple[int, bool]] = []
        self.watch()

    def without_the_disk(self) -> None:
        while self.bench.broker.node.run(1000):
            pass

    def watch(self) -> None:
        original = self.store.journal.group

        def group(parts: list[bytes]) -> GroupWrite:
            bodies = sum(map(len, self.store.persistent.flying.values()))
            has_append = any(each.raft_bytes for each in self.store.commits.committing)
            self.sizes.append((bodies + sum(map(len, parts)), has_append))
            return original(parts)

        self.store.journal.group = group  # type: ignore[method-assign]

    def done(self) -> list[int]:
        """Let the disk do everything; return the sizes of the groups up to that of the append."""
        self.bench.broker.run()
        self.bench.broker.wait()
        assert [type(each) for each in self.bench.ear.heard] == [RaftAppended]
        [at] = [n for n, (_, has_append) in enumerate(self.sizes) if has_append]
        return [size for size, _ in self.sizes[: at + 1]]


@pytest.mark.parametrize(("size", "count"), [(3000, 1200), (100_000, 50)])
def test_an_append_to_a_log_waits_for_one_quantum(size: int, count: int) -> None:
    backlog = Backlog(size, count)
    before = backlog.done()
    assert len(before) == 1
    assert before[0] < 1.2 * RAFT_GROUP_BYTES
    assert sum(size for size, _ in backlog.sizes) > 2 * RAFT_GROUP_BYTES
    assert len(backlog.sizes) == 2, "who is not waited for is not parted"


def test_an_append_that_waits_for_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is planted."""
    monkeypatch.setattr(group_commit, "parted", lambda gathered, _: (gathered, []))
    assert Backlog(3000, 1200).done()[0] > 2 * RAFT_GROUP_BYTES


@pytest.mark.parametrize(("size", "count"), [(3000, 1200), (100_000, 50)])
def test_what_was_confirmed_in_parts_is_there_after_a_power_loss(size: int, count: int) -> None:
    backlog = Backlog(size, count)
    disk = backlog.bench.broker.world.disk
    confirmed = 0
    while disk.jobs:
        disk.finish()
        backlog.without_the_disk()
        confirmed = max(confirmed, *map(tag_of, backlog.client.events()), 0)
        after = Broker(files=disk.files.crash())
        after.run()
        depth = after.node.broker.vhosts["/"].queues["q"].machine.depth
        assert depth.ready >= confirmed
    backlog.bench.broker.wait()
    assert max(confirmed, *map(tag_of, backlog.client.events()), 0) == count


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_that_is_declared_anew_is_not_there_twice(kind: str) -> None:
    """What was said of the one before it is still on its way when both are durable."""
    backlog = Backlog(3000, 1200)
    backlog.client.post_bytes(m.QueueDelete(queue="q").frame(1))
    backlog.without_the_disk()
    declare = m.QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": kind})
    backlog.other.post_bytes(declare.frame(1))
    backlog.without_the_disk()
    disk = backlog.bench.broker.world.disk
    depths = []
    while disk.jobs:
        disk.finish()
        backlog.without_the_disk()
        after = Broker(files=disk.files.crash())
        after.run()
        depths.append(after.node.broker.vhosts["/"].queues["q"].machine.depth.ready)
    assert len(depths) > 2
    assert depths[0] > 0
    assert not any(depths[1:])
    said = [each for each in backlog.other.events() if isinstance(each, MethodFrame)]
    assert [each.method.NAME for each in said] == ["queue.declare-ok"]


def test_a_stop_in_the_middle_of_it_is_clean() -> None:
    backlog = Backlog(3000, 1200)
    backlog.bench.broker.stop()
    after = Broker(files=backlog.bench.broker.world.disk.files.crash())
    after.run()
    assert after.node.broker.vhosts["/"].queues["q"].machine.depth.ready == 1200
    assert after.node.broker.store.checkpoints.cut == 0


def tag_of(event: Event) -> int:
    """The last number that is confirmed by it, with all before."""
    if isinstance(event, Acks):
        return event.tags[-1]
    method = event.method if isinstance(event, MethodFrame) else None
    assert isinstance(method, m.BasicAck)
    return method.delivery_tag
