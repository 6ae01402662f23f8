"""Goal: a queue hears `Written` once for each write that somebody waits for, in order, and never
before a sync that began after the write. Method: a fake Disk whose syncs end when the test says.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.message_store import MessageStore, StoreWrite
from sluicemq.flow.credit import Grant, LinkSpec
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import link
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.limits import STORE_GROUP_BYTES
from sluicemq.model.batch import Batch
from sluicemq.queues.commands import Receipt, Written

from ..fakes import FakeWorld, bystander, drain


class Bench:
    """A store and two queues that write to it."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.scheduler = Scheduler()
        self.store = MessageStore(self.scheduler, self.world)
        self.sender = bystander()
        self.queues = [Actor(Scheduler()), Actor(Scheduler())]
        keeper = GateKeeper(self.world.clock)
        spec = LinkSpec(2000, 1)
        self.inflows = [
            link(keeper, queue, self.store.keeper, self.store, spec, "message store")[1]
            for queue in self.queues
        ]

    def write(self, queue: int, seq: int, size: int = 10) -> None:
        """Seq 0: nobody waits for it. One turn."""
        batch = Batch(b"\0\0", [b""], size, True, True, 1, 1)
        receipt = Receipt(self.sender, seq, 1) if seq else None
        self.store.post(StoreWrite(self.queues[queue], batch, receipt, self.inflows[queue]))
        self.run()

    def run(self) -> None:
        while self.scheduler.run(100):
            pass

    def finish(self) -> None:
        self.world.disk.finish()
        self.run()

    def heard(self, queue: int) -> list[int]:
        """Confirm numbers in the order heard; grants are left out."""
        messages = drain(self.queues[queue])
        written = [message for message in messages if isinstance(message, Written)]
        return [receipt.first_seq for message in written for receipt in message.receipts]

    def granted(self, queue: int) -> int:
        messages = drain(self.queues[queue])
        return sum(message.amount for message in messages if isinstance(message, Grant))


def test_written_comes_after_the_sync() -> None:
    bench = Bench()
    bench.write(0, 1)
    assert len(bench.world.disk.syncs) == 1
    assert bench.heard(0) == []
    bench.finish()
    assert bench.heard(0) == [1]
    assert bench.world.disk.syncs == []


def test_what_arrives_during_a_sync_waits_for_the_next_one() -> None:
    bench = Bench()
    bench.write(0, 1)
    bench.write(0, 2)
    bench.write(1, 3)
    assert len(bench.world.disk.syncs) == 1, "one sync at a time"
    bench.finish()
    assert (bench.heard(0), bench.heard(1)) == ([1], [])
    assert len(bench.world.disk.syncs) == 1
    bench.finish()
    assert (bench.heard(0), bench.heard(1)) == ([2], [3])


def test_a_queue_hears_once_a_sync() -> None:
    bench = Bench()
    bench.write(0, 1)
    for seq in range(2, 50):
        bench.write(0, seq)
    bench.finish()
    bench.finish()
    messages = [message for message in drain(bench.queues[0]) if isinstance(message, Written)]
    assert [len(message.receipts) for message in messages] == [1, 48]


def test_writes_nobody_waits_for_are_synced_too() -> None:
    bench = Bench()
    bench.write(0, 0)
    assert len(bench.world.disk.syncs) == 1
    bench.finish()
    assert bench.heard(0) == []
    assert (bench.store.writes, bench.store.syncs) == (1, 1)


def test_no_sync_without_a_write() -> None:
    bench = Bench()
    bench.store.schedule()
    bench.run()
    assert bench.world.disk.syncs == []


def test_store_with_a_full_group_grants_nothing_until_the_next_sync_starts() -> None:
    bench = Bench()
    bench.write(0, 1, STORE_GROUP_BYTES + 1)
    assert bench.granted(0) == 1, "the group is on its way already"
    bench.write(0, 2, STORE_GROUP_BYTES)
    assert bench.granted(0) == 1
    bench.write(0, 3, 1)
    assert bench.store.full.is_shut
    assert bench.granted(0) == 0
    bench.finish()
    assert not bench.store.full.is_shut
    assert bench.granted(0) == 1


def test_anything_else_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Bench().store.receive("what?")


@given(st.lists(st.sampled_from(["write 0", "write 1", "quiet 0", "finish"])))
def test_every_write_is_heard_once_in_order_after_its_sync(steps: list[str]) -> None:
    bench = Bench()
    waiting: list[list[int]] = [[], []]
    covered: list[list[int]] = [[], []]
    heard: list[list[int]] = [[], []]
    for seq, step in enumerate(steps, start=1):
        syncs = bench.store.syncs
        if step == "finish":
            if bench.world.disk.syncs:
                bench.finish()
                for queue in (0, 1):
                    heard[queue] += covered[queue]
                    covered[queue] = []
        else:
            number = int(step[-1])
            if step.startswith("write"):
                waiting[number].append(seq)
            bench.write(number, seq if step.startswith("write") else 0)
        if bench.store.syncs > syncs:
            covered, waiting = waiting, [[], []]
        for queue in (0, 1):
            said = bench.heard(queue)
            assert said == heard[queue]
            heard[queue] = []
