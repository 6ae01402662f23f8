"""Goal: a channel knows which tags are out. Method: a state machine settles tags in every way
AMQP has and compares with a dict of tags; examples show the rules one by one.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluicemq.chain.channel.unacked import Part, Settlement, Source, Unacked, Undoable
from sluicemq.queues.commands import LinkId
from support.fakes import bystander
from support.thorough import examples

Place = tuple[int, int]
"""(run, index)"""

spreads = st.integers(0, 1000)


def source() -> Source:
    """A queue that delivers to the channel."""
    return Source(bystander(), LinkId(1, 1))


def places(settlement: Settlement) -> dict[Source, list[Place]]:
    """Every single message of a settlement."""
    return {
        source: [(run, index) for run, start, end in parts for index in range(start, end)]
        for source, parts in settlement.by_source.items()
    }


class UnackedMachine(RuleBasedStateMachine):
    """One channel with deliveries from two queues."""

    def __init__(self) -> None:
        super().__init__()
        self.sources = [source(), source()]
        self.real = Unacked()
        self.tags: dict[int, tuple[Source, Place]] = {}
        self.next_tag = 1
        self.next_run = 1
        self.kept: list[Undoable] = []
        self.kept_tags: dict[int, tuple[Source, Place]] = {}

    def pick(self, spread: int) -> int:
        """A tag: mostly one that is out, sometimes one that never was or is no more."""
        if spread % 7 and self.tags:
            out = sorted(self.tags)
            return out[spread % len(out)]
        return 1 + spread % (self.next_tag + 1)

    def take(self, tags: list[int]) -> dict[Source, list[Place]]:
        """The naive way: one by one."""
        taken: dict[Source, list[Place]] = {}
        for tag in tags:
            queue, place = self.tags.pop(tag)
            taken.setdefault(queue, []).append(place)
        return taken

    @rule(count=st.one_of(st.integers(1, 5), st.just(40)), queue=st.integers(0, 1))
    def deliver(self, count: int, queue: int) -> None:
        self.real.add(self.next_tag, count, self.sources[queue], self.next_run)
        for index in range(count):
            self.tags[self.next_tag + index] = (self.sources[queue], (self.next_run, index))
        self.next_tag += count
        self.next_run += 1

    @rule()
    def deliver_without_acks(self) -> None:
        """Tags that need no settling leave gaps."""
        self.next_tag += 2

    @rule(spread=spreads, length=st.integers(0, 50))
    def settle_run(self, spread: int, length: int) -> None:
        first = self.pick(spread)
        tags = list(range(first, first + length + 1))
        unknown = next((tag for tag in tags if tag not in self.tags), None)
        if unknown is not None:
            tags = list(range(first, unknown))
        into = Undoable() if spread % 2 else Settlement()
        assert self.real.settle_run(first, first + length, into) == unknown
        self.compare(into, tags)

    @rule(spread=spreads)
    def settle_upto(self, spread: int) -> None:
        last = self.pick(spread)
        into = Undoable() if spread % 2 else Settlement()
        unknown = self.real.settle_upto(last, into)
        if last in self.tags:
            assert unknown is None
            self.compare(into, [tag for tag in sorted(self.tags) if tag <= last])
        else:
            assert unknown == last
            self.compare(into, [])

    @precondition(lambda self: self.next_run > 8)
    @rule()
    def settle_all(self) -> None:
        into = Settlement()
        assert self.real.settle_upto(0, into) is None
        self.compare(into, sorted(self.tags))

    @rule(spread=spreads, every=st.integers(2, 3))
    def settle_some_in_one_go(self, spread: int, every: int) -> None:
        """Every other tag, as consumers do that finish in any order; then the rest of them."""
        tags = sorted(self.tags)[spread % 5 :: every]
        into = Undoable() if spread % 2 else Settlement()
        for tag in tags:
            assert self.real.settle_run(tag, tag, into) is None
        self.compare(into, tags)

    @rule()
    def take_back(self) -> None:
        """What was settled by the undoable ones is out again, and nothing else."""
        self.real.take_back(self.kept)
        self.tags = dict(sorted((self.tags | self.kept_tags).items()))
        self.forget()

    @rule()
    def forget(self) -> None:
        """Settled for good."""
        self.kept = []
        self.kept_tags = {}

    def compare(self, into: Settlement, tags: list[int]) -> None:
        if isinstance(into, Undoable):
            self.kept.append(into)
            self.kept_tags |= {tag: self.tags[tag] for tag in tags}
        taken = self.take(tags)
        assert places(into) == taken
        assert list(into.by_source) == list(taken)
        assert into.count == len(tags)

    @invariant()
    def counts_agree(self) -> None:
        assert self.real.count == len(self.tags)

    @invariant()
    def oldest_agrees(self) -> None:
        assert self.real.oldest() == min(self.tags, default=None)

    @invariant()
    def settled_spans_are_forgotten(self) -> None:
        held = sum(span.open() > 0 for span in self.real.spans)
        assert len(self.real.spans) <= 2 * held + 70

    def teardown(self) -> None:
        """Tag 0: everything."""
        into = Settlement()
        self.real.settle_upto(0, into)
        self.compare(into, sorted(self.tags))
        assert self.real.count == 0


UnackedMachine.TestCase.settings = examples(50, stateful_step_count=40, report_multiple_bugs=False)
TestUnackedAgainstADictOfTags = UnackedMachine.TestCase


def unacked(*counts: int) -> tuple[Unacked, Source]:
    """Unacknowledged runs 1, 2, 3 ... of one queue, tags from 1 on."""
    queue = source()
    some = Unacked()
    first = 1
    for run, count in enumerate(counts, start=1):
        some.add(first, count, queue, run)
        first += count
    return some, queue


def parts_of(settlement: Settlement) -> list[Part]:
    return [part for parts in settlement.by_source.values() for part in parts]


def test_a_run_of_acks_costs_one_part_a_lot() -> None:
    some, _ = unacked(100, 100)
    into = Settlement()
    assert some.settle_run(1, 150, into) is None
    assert parts_of(into) == [(1, 0, 100), (2, 0, 50)]
    assert some.count == 50


def test_single_acks_in_one_go_are_joined() -> None:
    some, _ = unacked(100)
    into = Settlement()
    for tag in range(11, 31):
        assert some.settle_run(tag, tag, into) is None
    assert parts_of(into) == [(1, 10, 30)]


def test_parts_of_different_lots_are_not_joined() -> None:
    """Where one run ends the rest of the next begins."""
    some, _ = unacked(3, 5)
    assert some.settle_run(4, 6, Settlement()) is None
    into = Settlement()
    assert some.settle_upto(8, into) is None
    assert parts_of(into) == [(1, 0, 3), (2, 3, 5)]


def test_multiple_wants_its_own_tag_to_be_out() -> None:
    """Spec 9.6: after 5 was acked alone, 5 with multiple is an error though 3 and 4 are open."""
    some, _ = unacked(6)
    for tag in (1, 2, 5):
        assert some.settle_run(tag, tag, Settlement()) is None
    into = Settlement()
    assert some.settle_upto(5, into) == 5
    assert parts_of(into) == []
    assert some.settle_upto(6, into) is None
    assert parts_of(into) == [(1, 2, 4), (1, 5, 6)]


def test_tag_0_is_everything_for_multiple_and_nothing_else() -> None:
    some, _ = unacked(3)
    into = Settlement()
    assert some.settle_run(0, 0, into) == 0
    assert some.count == 3
    assert some.settle_upto(0, into) is None
    assert some.count == 0
    assert some.settle_upto(0, into) is None, "nothing out is no error"


def test_acking_twice_is_unknown() -> None:
    some, _ = unacked(3)
    assert some.settle_run(2, 2, Settlement()) is None
    assert some.settle_run(2, 2, Settlement()) == 2
    assert some.settle_run(4, 4, Settlement()) == 4


def test_one_message_that_is_kept_for_long_keeps_nothing_else() -> None:
    """A worker may hold one message for hours while others are delivered and acked."""
    some, queue = unacked(1)
    for tag in range(2, 5002):
        some.add(tag, 1, queue, tag)
        assert some.settle_run(tag, tag, Settlement()) is None
    assert len(some.spans) < 150
    assert some.count == 1
    assert some.settle_run(1, 1, Settlement()) is None


def test_it_is_known_whether_tags_are_in_many_spans() -> None:
    unacked = Unacked()
    for first in range(1, 100, 10):
        unacked.add(first, 10, source(), first)
    assert unacked.has_many(1, 100, 9)
    assert not unacked.has_many(1, 100, 10)
    assert unacked.has_many(5, 25, 2)
    assert not unacked.has_many(11, 30, 2)
    assert unacked.settle_run(1, 50, Settlement()) is None
    assert not unacked.has_many(1, 100, 5)


def test_spans_with_holes_are_freed_fewer_at_a_time() -> None:
    unacked = Unacked()
    for first in range(1, 100, 10):
        unacked.add(first, 10, source(), first)
        for tag in range(first + 1, first + 10, 2):
            assert unacked.settle_run(tag, tag, Settlement()) is None
    assert unacked.forget(12) == 8
    assert unacked.forget(1000) == 0
