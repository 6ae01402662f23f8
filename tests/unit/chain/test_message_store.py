"""Goal: a queue hears `Written` once for each write that somebody waits for, in order, and never
before a sync that began after the write; what is overtaken is not written; a full disk loses
nothing, and a broken one confirms nothing. Method: a store with a Disk whose jobs are done when the
test says, and queues that never run.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.store.group_commit import CommitDue, HoldOver
from sluicemq.chain.store.message_store import MESSAGES_STRAND
from sluicemq.chain.store.messages import (
    BodiesRead,
    Collect,
    Forgotten,
    StoreDefinition,
    StorePaged,
    StoreQueueDeleted,
    StoreRead,
    StoreRemove,
    StoreWrite,
    TryAgain,
    Written,
)
from sluicemq.config import Config
from sluicemq.flow.alarm import DISK, STORAGE
from sluicemq.flow.credit import Grant
from sluicemq.flow.link import Link
from sluicemq.kernel.actor import Actor
from sluicemq.limits import (
    GROUP_HOLD_MS,
    GROUP_WAIT_MS,
    RETRY_FULL_MS,
    STORE_GROUP_BYTES,
    UNHURRIED_GROUP_BYTES,
)
from sluicemq.metadata.agreement import Agreed
from sluicemq.model.traits import message_traits
from sluicemq.node import Node
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.effects import Deleted, Receipt
from sluicemq.storage.entries import Ack, Definition, Entry, QueueDeleted, Run
from sluicemq.storage.journal import GroupWrite, Replay, journal_numbers
from support.batches import batch_of
from support.fakes import FakeWorld, bystander, drain

from .client import declared


class Bench:
    """A node's store and two durable queues that write to it but never have a turn."""

    def __init__(self) -> None:
        config = Config()
        storage = replace(config.storage, reserve_bytes=0, journal_file_size_limit=1 << 16)
        config = replace(config, storage=storage)
        self.world = FakeWorld()
        self.disk = self.world.disk
        self.node = Node(self.world, config)
        self.broker = self.node.broker
        self.store = self.broker.store
        self.link = Link(bystander())
        self.queues = [declared(self.broker, name) for name in ("p", "q")]
        for queue in self.queues:
            queue.scheduled = True
        self.positions = [0, 0]
        self.run()

    def write(self, queue: int, seq: int, size: int = 10, count: int = 1, large: int = 0) -> range:
        """Seq 0: nobody waits for it; `large` is its first id in the message store. One turn;
        returns its positions."""
        first = self.positions[queue]
        self.positions[queue] += count
        body = b"x" * (size // count)
        batch = batch_of([body] * count, b"\0\0", persistent=True, first_id=large)
        receipt = Receipt(self.link, seq, count) if seq else None
        to = self.queues[queue]
        self.store.post(StoreWrite(to, batch, receipt, first, to.storage.store_inflow))
        self.run()
        return range(first, first + count)

    def remove(
        self, queue: int, *ranges: range, indexed: bool = False, ids: range | None = None
    ) -> None:
        """Messages have been acknowledged. One turn."""
        removed = StoreRemove(self.queues[queue], self.positions[queue])
        (removed.indexed if indexed else removed.ranges).extend(ranges)
        if ids is not None:
            removed.persistent.append(ids)
        self.store.post(removed)
        self.run()

    def define(self, change: bytes, channel: Actor | None) -> None:
        self.store.post(StoreDefinition(change, channel))
        self.run()

    def run(self) -> None:
        while self.node.run(100):
            pass

    def finish(self) -> None:
        """The oldest job is done."""
        self.disk.finish()
        self.run()

    def finish_all(self) -> None:
        while self.disk.jobs:
            self.finish()

    def wait(self, duration_ms: int) -> None:
        """Timers of the store that are due by then go off."""
        clock = self.world.clock
        clock.time_ns += duration_ms * 10**6
        for timer in list(clock.timers):
            due, actor, message = timer
            if due <= clock.time_ns and isinstance(
                message, CommitDue | HoldOver | TryAgain | StoreRead
            ):
                clock.timers.remove(timer)
                actor.post(message)
        self.run()

    @property
    def commits(self) -> list[GroupWrite]:
        """The commits that are under way."""
        return [job for job, _ in self.disk.jobs if isinstance(job, GroupWrite)]

    def drained(self, queue: int) -> list[object]:
        """What was posted to a queue."""
        messages = self.queues[queue].inbox
        self.queues[queue].inbox = []
        return messages

    def heard(self, queue: int) -> list[int]:
        """Confirm numbers in the order heard; grants are left out."""
        written = [each for each in self.drained(queue) if isinstance(each, Written)]
        return [receipt.first_seq for message in written for receipt in message.receipts]

    def granted(self, queue: int) -> int:
        return sum(each.amount for each in self.drained(queue) if isinstance(each, Grant))

    def journalled(self) -> list[Entry]:
        """All entries of the journal, as a recovery would find them."""
        files = self.disk.files
        return [entry for n in journal_numbers(files) for entry in Replay(files, n).entries]

    def positions_written(self) -> list[int]:
        runs = [entry for entry in self.journalled() if isinstance(entry, Run)]
        return [position for run in runs for position in run.positions]

    def positions_acked(self) -> list[int]:
        acks = [entry for entry in self.journalled() if isinstance(entry, Ack)]
        return [position for ack in acks for positions in ack.ranges for position in positions]


# -- group commit


def test_written_comes_after_the_sync() -> None:
    bench = Bench()
    bench.write(0, 1)
    assert len(bench.commits) == 1
    assert bench.heard(0) == []
    bench.finish()
    assert bench.heard(0) == [1]
    assert bench.commits == []
    assert bench.disk.files.actions[-4:] == [
        "sync journal/00000002.jif",
        "sync_directory journal",
        "write manifest",
        "sync manifest",
    ], "the first group of a file makes its name durable too, and that it must be there"


def test_what_arrives_during_a_sync_waits_for_the_next_one() -> None:
    bench = Bench()
    bench.write(0, 1)
    bench.write(0, 2)
    bench.write(1, 3)
    assert len(bench.commits) == 1, "one sync at a time"
    bench.finish()
    assert (bench.heard(0), bench.heard(1)) == ([1], [])
    assert len(bench.commits) == 1
    bench.finish()
    assert (bench.heard(0), bench.heard(1)) == ([2], [3])


def test_a_queue_hears_once_a_sync() -> None:
    bench = Bench()
    bench.write(0, 1)
    for seq in range(2, 50):
        bench.write(0, seq)
    bench.finish()
    bench.finish()
    messages = [message for message in bench.drained(0) if isinstance(message, Written)]
    assert [len(message.receipts) for message in messages] == [1, 48]


def test_a_group_that_nobody_waits_for_gathers_for_a_while() -> None:
    bench = Bench()
    bench.write(0, 0)
    bench.write(1, 0)
    assert bench.commits == []
    bench.wait(GROUP_WAIT_MS - 1)
    assert bench.commits == []
    bench.wait(1)
    bench.finish()
    assert bench.heard(0) == []
    assert (bench.store.writes, bench.store.commits.groups) == (2, 1)
    assert bench.positions_written() == [0, 0]


def test_a_group_that_nobody_waits_for_is_written_when_it_is_large() -> None:
    bench = Bench()
    bench.write(0, 0, UNHURRIED_GROUP_BYTES - 1)
    assert bench.commits == []
    bench.write(0, 0, 1)
    assert len(bench.commits) == 1


def test_who_waits_hurries_the_others() -> None:
    bench = Bench()
    bench.write(0, 0)
    bench.write(0, 1)
    assert len(bench.commits) == 1
    bench.finish()
    assert bench.positions_written() == [0, 1]
    bench.wait(GROUP_WAIT_MS)
    bench.write(0, 0)
    assert bench.commits == [], "the time that went off was for a group that has gone"


def test_no_sync_without_a_write() -> None:
    bench = Bench()
    bench.store.schedule()
    bench.run()
    assert bench.disk.jobs == []


def test_store_with_a_full_group_grants_nothing_until_the_next_sync_starts() -> None:
    bench = Bench()
    bench.drained(0)
    half = bench.broker.profile.msg_store_credit_disc_bound.more_after
    bench.write(0, 1, STORE_GROUP_BYTES + half, half)
    assert bench.granted(0) == half, "the group is on its way already"
    bench.write(0, 2, STORE_GROUP_BYTES, half)
    assert bench.granted(0) == half
    bench.write(0, 3, half, half)
    assert bench.store.full.is_shut
    assert bench.granted(0) == 0
    bench.finish()
    assert not bench.store.full.is_shut
    assert bench.granted(0) == half


def test_bodies_are_durable_before_what_refers_to_them() -> None:
    bench = Bench()
    bench.write(0, 1, 5000, large=7)
    bench.disk.files.actions.clear()
    bench.finish()
    syncs = [action for action in bench.disk.files.actions if action.startswith("sync")]
    assert syncs[0].startswith("sync messages/persistent/")
    assert syncs.index("sync_directory messages/persistent") < syncs.index(
        "sync journal/00000002.jif"
    )
    assert bench.heard(0) == [1]
    [run] = [entry for entry in bench.journalled() if isinstance(entry, Run)]
    assert (run.contents, run.first_id, run.sizes) == (None, 7, [5000])


def test_anything_else_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Bench().store.receive("what?")


# -- overtaking


def test_write_that_is_overtaken_is_never_made_and_confirmed_at_once() -> None:
    bench = Bench()
    bench.write(1, 1)
    gone = bench.write(0, 2, 20_000, 2, large=5)
    bench.remove(0, gone, ids=range(5, 7))
    assert bench.heard(0) == [2]
    bench.finish_all()
    assert bench.heard(0) == [], "once"
    assert bench.positions_written() == [0]
    assert bench.positions_acked() == []
    assert not [path for path in bench.disk.files.files if path.startswith("messages/")]
    assert bench.store.overtaken == 2


def test_what_one_queue_overtakes_is_kept_for_another() -> None:
    """A body is removed once for each queue, even if it never was written for one of them."""
    bench = Bench()
    bench.write(1, 1)
    gone = bench.write(0, 2, 5000, large=5)
    bench.remove(0, gone, ids=range(5, 6))
    bench.write(1, 3, 5000, large=5)
    bench.finish_all()
    assert bench.heard(1) == [1, 3]
    assert bench.store.persistent.valid_bytes > 5000


def test_several_writes_are_overtaken_by_one_acknowledgement() -> None:
    """As consumers acknowledge: neighbours come together."""
    bench = Bench()
    bench.write(1, 1)
    bench.write(0, 2, count=2)
    bench.write(0, 3, count=3)
    bench.write(0, 4, count=4)
    bench.remove(0, range(7))
    assert bench.heard(0) == [2, 3]
    bench.finish_all()
    assert bench.heard(0) == [4]
    assert bench.positions_written() == [0, 5, 6, 7, 8]
    assert bench.positions_acked() == [5, 6], "the rest was not all of a write"


def test_what_is_not_overtaken_is_acknowledged_in_the_journal() -> None:
    """Other positions, other steps, other queues; and what the index may know of."""
    bench = Bench()
    bench.write(1, 1)
    bench.write(0, 2, count=4)
    bench.write(0, 3)
    bench.remove(0, range(0, 4, 2), range(1, 2))
    bench.remove(0, range(4, 5), indexed=True)
    bench.remove(1, range(1, 2))
    assert bench.heard(0) == []
    bench.finish_all()
    assert bench.heard(0) == [2, 3]
    assert bench.positions_acked() == [0, 2, 1, 4, 1]


def test_write_that_is_on_its_way_is_not_overtaken() -> None:
    bench = Bench()
    gone = bench.write(0, 1)
    bench.remove(0, gone)
    assert bench.heard(0) == []
    bench.finish()
    assert bench.heard(0) == [1]
    bench.wait(GROUP_WAIT_MS)
    bench.finish()
    assert bench.positions_acked() == [0]


def test_body_stays_until_its_removal_is_durable() -> None:
    """A recovery that does not know of the acknowledgement yet must find it."""
    bench = Bench()
    gone = bench.write(0, 1, 5000, large=1)
    bench.finish_all()
    assert bench.store.persistent.valid_bytes > 0
    bench.remove(0, gone, ids=range(1, 2))
    assert bench.store.persistent.valid_bytes > 0
    bench.wait(GROUP_WAIT_MS)
    assert bench.store.persistent.valid_bytes > 0
    bench.finish()
    assert bench.store.persistent.valid_bytes == 0


def test_queue_hears_when_its_empty_segments_may_go() -> None:
    bench = Bench()
    removed = StoreRemove(bench.queues[0], 1)
    removed.ranges.append(range(1))
    removed.empty = [(0, 1)]
    bench.store.post(removed)
    bench.run()
    bench.wait(GROUP_WAIT_MS)
    assert bench.drained(0) == []
    bench.finish()
    [collect] = bench.drained(0)
    assert isinstance(collect, Collect)
    assert collect.empty == [(0, 1)]


# -- definitions


def test_definitions_are_answered_when_they_are_durable() -> None:
    bench = Bench()
    channel = bystander()
    bench.define(b'{"1": 1}', None)
    assert bench.commits == [], "nobody waits for it"
    bench.define(b'{"2": 2}', channel)
    assert drain(channel) == []
    bench.finish()
    [answer] = drain(channel)
    assert isinstance(answer, Agreed)
    assert answer.refusal is None
    entries = bench.journalled()
    assert [entry.change for entry in entries if isinstance(entry, Definition)] == [
        b'{"1": 1}',
        b'{"2": 2}',
    ]


def test_deletion_is_answered_when_it_is_durable_and_stays_in_order() -> None:
    """Deleted, declared anew, bound: the binding is the new queue's."""
    bench = Bench()
    channel = bystander()
    answer = Deleted(channel, 3)
    bench.define(b'{"before": 1}', None)
    bench.store.post(StoreQueueDeleted(bench.queues[0], answer))
    bench.store.post(StoreDefinition(b'{"after": 1}', None))
    bench.run()
    assert drain(channel) == []
    assert not any(isinstance(each, Forgotten) for each in bench.drained(0))
    bench.finish()
    assert drain(channel) == [answer]
    assert any(isinstance(each, Forgotten) for each in bench.drained(0))
    kinds = [type(entry) for entry in bench.journalled()]
    assert kinds == [Definition, QueueDeleted, Definition]


# -- when the disk is full


def test_full_disk_loses_nothing() -> None:
    """The same job again, until there is space; publishers are blocked meanwhile."""
    bench = Bench()
    bench.disk.files.fail = lambda action, _: "ENOSPC" if action in ("write", "allocate") else None
    bench.write(0, 1)
    bench.write(0, 2)
    [job] = bench.commits
    for _ in range(3):
        bench.finish()
        assert bench.heard(0) == []
        assert bench.disk.jobs == []
        assert DISK in bench.broker.alarms.reasons
        bench.wait(RETRY_FULL_MS)
        assert bench.commits == [job]
    bench.disk.files.fail = None
    bench.finish()
    assert bench.heard(0) == [1]
    assert DISK not in bench.broker.alarms.reasons
    bench.wait(GROUP_HOLD_MS)
    bench.finish()
    assert bench.heard(0) == [2]
    assert bench.positions_written() == [0, 1]
    assert not bench.store.storage_failed


def test_alarm_holds_until_nobody_waits_for_space() -> None:
    """What a queue could not write counts too, and other work that is done does not."""
    bench = Bench()
    waiting = GroupWrite("", 0, b"", 0)
    bench.broker.no_space_for(waiting)
    bench.run()
    assert DISK in bench.broker.alarms.reasons
    bench.write(0, 1)
    bench.finish()
    assert bench.heard(0) == [1]
    assert DISK in bench.broker.alarms.reasons
    bench.broker.has_space(waiting)
    assert DISK not in bench.broker.alarms.reasons


# -- when the disk is broken


def test_broken_disk_confirms_nothing_ever() -> None:
    bench = Bench()
    first, second, third = bystander(), bystander(), bystander()
    bench.define(b"{}", first)
    bench.write(0, 1)
    bench.define(b"{}", second)
    bench.store.post(StoreQueueDeleted(bench.queues[1], Deleted(third, 0)))
    bench.run()
    bench.disk.files.fail = lambda action, _: "EIO" if action == "sync" else None
    bench.finish()
    bench.disk.files.fail = None
    assert bench.broker.alarms.reasons[STORAGE] == bench.store.storage_failed
    assert "EIO" in bench.store.storage_failed
    for channel in (first, second, third):
        [answer] = drain(channel)
        assert isinstance(answer, Agreed)
        assert str(answer.refusal) == bench.store.storage_failed
    bench.write(0, 2)
    bench.define(b"{}", first)
    [answer] = drain(first)
    assert isinstance(answer, Agreed)
    assert answer.refusal is not None
    bench.wait(GROUP_WAIT_MS)
    assert bench.heard(0) == []
    assert bench.disk.jobs == []


def test_what_was_on_its_way_when_another_job_broke_is_answered_once() -> None:
    """Its own sync has worked."""
    bench = Bench()
    channel = bystander()
    bench.define(b"{}", channel)
    bench.write(0, 1)
    bench.store.fail_storage("a segment could not be synced")
    assert drain(channel) == []
    bench.finish()
    [answer] = drain(channel)
    assert isinstance(answer, Agreed)
    assert answer.refusal is None
    bench.run()
    assert bench.disk.jobs == []
    assert bench.heard(0) == [], "gathered, not on its way"


def test_a_failed_storage_still_reads() -> None:
    bench = Bench()
    bench.write(0, 1, 5000, large=3)
    bench.finish_all()
    bench.store.fail_storage("broken")
    bench.drained(0)
    chunk = paged(bench.queues[0], 0, 3, 5000)
    bench.store.post(StoreRead(bench.queues[0], chunk))
    bench.run()
    bench.finish()
    [found] = [each for each in bench.drained(0) if isinstance(each, BodiesRead)]
    assert found.contents == {3: b"x" * 5000}


def test_what_is_paged_out_is_accounted_until_it_is_written() -> None:
    """Or until nobody wants it any more."""
    bench = Bench()
    queue = bench.queues[0]
    for first_id in (5, 6):
        chunk = Chunk(
            message_traits(b"\0\0", 1, False), [b"x" * 5000], True, 0, False, first_id, True
        )
        bench.store.post(StorePaged(chunk, queue.storage.store_inflow))
        bench.run()
    assert bench.broker.accounted_bytes == 10_000
    bench.finish()
    assert bench.broker.accounted_bytes == 5000
    bench.finish()
    assert bench.broker.accounted_bytes == 0
    chunk = Chunk(message_traits(b"\0\0", 1, False), [b"x" * 5000], True, 0, False, 7, True)
    removed = StoreRemove(queue, 0)
    removed.transient.append(range(7, 8))
    bench.store.post(StorePaged(chunk, queue.storage.store_inflow))
    bench.store.post(removed)
    bench.run()
    assert bench.broker.accounted_bytes == 0
    assert bench.disk.jobs == []


def paged(queue: Queue, position: int, message_id: int, size: int) -> Chunk:
    """A chunk of one message whose body is in the message store."""
    base = message_id - position
    assert queue.definition.durable
    return Chunk(message_traits(b"\0\0", 1, True), [], True, position, False, base, True, [size])


def test_reads_of_bodies_that_have_not_been_written_yet_are_answered_from_memory() -> None:
    bench = Bench()
    bench.write(0, 1, 5000, large=3)
    bench.drained(0)
    bench.store.post(StoreRead(bench.queues[0], paged(bench.queues[0], 0, 3, 5000)))
    bench.run()
    [found] = [each for each in bench.drained(0) if isinstance(each, BodiesRead)]
    assert found.contents == {3: b"x" * 5000}


def test_a_body_that_the_disk_fails_to_read_is_tried_again_before_it_is_given_up() -> None:
    bench = Bench()
    bench.write(0, 1, 5000, large=1)
    bench.finish_all()
    bench.drained(0)
    bench.disk.files.fail = lambda action, _: "EIO" if action == "read" else None
    bench.store.post(StoreRead(bench.queues[0], paged(bench.queues[0], 0, 1, 5000)))
    bench.run()
    bench.finish()
    assert bench.drained(0) == []
    bench.disk.files.fail = None
    bench.wait(RETRY_FULL_MS)
    bench.finish()
    [found] = [each for each in bench.drained(0) if isinstance(each, BodiesRead)]
    assert found.contents == {1: b"x" * 5000}


def test_strands() -> None:
    """Confirms do not wait for reads."""
    bench = Bench()
    bench.write(0, 1, 5000, large=3)
    bench.finish_all()
    strands: list[int] = []
    submit = bench.disk.submit

    def spy(job: object, actor: Actor, strand: int) -> None:
        strands.append(strand)
        submit(job, actor, strand)  # type: ignore[arg-type]

    bench.store.disk.submit = spy  # type: ignore[method-assign]
    bench.store.post(StoreRead(bench.queues[0], paged(bench.queues[0], 0, 3, 5000)))
    bench.write(0, 2)
    assert sorted(strands) == [0, MESSAGES_STRAND]


STEPS = st.lists(st.sampled_from(["write 0", "write 1", "quiet 0", "wait", "finish", "ack 0"]))


@given(STEPS)
def test_every_write_is_heard_once_in_order_after_its_sync(steps: list[str]) -> None:
    """Or when it was overtaken. In the end the journal has what is not, and who was heard early
    was acknowledged."""
    bench = Bench()
    asked: list[list[int]] = [[], []]
    heard: list[list[int]] = [[], []]
    ready: list[range] = []
    removed: list[int] = []
    for seq, step in enumerate([*steps, "finish", "wait", "finish", "wait", "finish"], start=1):
        durable = len(bench.positions_written())
        if step == "finish":
            if bench.disk.jobs:
                bench.finish()
        elif step == "wait":
            bench.wait(GROUP_WAIT_MS)
        elif step == "ack 0":
            if ready:
                gone = ready.pop(0)
                bench.remove(0, gone)
                removed += gone
        else:
            number = int(step[-1])
            if step.startswith("write"):
                asked[number].append(seq)
            positions = bench.write(number, seq if step.startswith("write") else 0)
            if number == 0:
                ready.append(positions)
        now = len(bench.positions_written())
        for queue in (0, 1):
            said = bench.heard(queue)
            assert not said or now > durable or step == "ack 0"
            heard[queue] += said
    assert [sorted(each) for each in heard] == asked
    assert heard[1] == asked[1]
    alive = {position for positions in ready for position in positions}
    queue_id = bench.queues[0].id
    runs = [each for each in bench.journalled() if isinstance(each, Run) and each.queue == queue_id]
    written = {position for run in runs for position in run.positions}
    assert alive <= written
    assert written - alive == set(bench.positions_acked()) <= set(removed)
