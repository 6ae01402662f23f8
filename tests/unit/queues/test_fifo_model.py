"""Goal: a quorum queue does with every row of commands what plain lists do; members that apply the
same entries are equal byte by byte, whoever has read a snapshot on the way; no message is lost,
made up, or delivered again without having come back.

Method: entries made by Hypothesis, and by chance, for two members and a model (`fifo_bench.py`,
`fifo_model.py`); then the same again with bugs planted, each of which must be found.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.commands import Configure
from sluicemq.queues.quorum import dead_letter_queue, fifo, snapshot
from sluicemq.queues.quorum.commands import (
    AddConsumer,
    AddressDown,
    Asked,
    ConsumerKey,
    Enqueue,
    PassTime,
    PurgeQueue,
    RegisterEnqueuer,
)
from sluicemq.queues.quorum.dead_letter_queue import DeadLetterQueue
from sluicemq.queues.quorum.effects import FifoDelivered, RowBegins
from sluicemq.queues.quorum.enqueuers import ENDED_MAX, Enqueuer, Enqueuers
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.queues.quorum.message_runs import MessageRun
from sluicemq.queues.quorum.ready_messages import ReadyMessages
from sluicemq.queues.quorum.service_queue import QueueConsumer, ServiceQueue
from sluicemq.queues.settings import NO_SETTINGS, QueueSettings
from support.thorough import examples

from .fifo_bench import (
    CHANNELS,
    Entry,
    FifoBench,
    Op,
    applied,
    enqueue,
    entries,
    rolled,
    settings_of_fifos,
)
from .fifo_model import DEAD_MAX

rows = st.tuples(settings_of_fifos, st.lists(entries, min_size=12, max_size=40))

SEEDS: Final = 50
SEEDS_MAX: Final = 300
"""A planted bug is found within so many."""

BEGIN: Final[list[Op]] = [
    ("register", 0),
    ("register", 1),
    ("publish", 0, [3, 3, 1], 0, 0, None),
    ("consume", 0, "a", 4, 0, False),
    ("publish", 1, [3, 3, 3, 3], 0, 0, None),
]


def run(row: tuple[QueueSettings, list[Entry]]) -> None:
    said, steps = row
    with patch.object(dead_letter_queue, "QUORUM_DEAD_LETTERS_MAX", DEAD_MAX):
        bench = FifoBench(said)
        bench.step(BEGIN, 0, False)
        for wanted, later, is_restored in steps:
            bench.step(wanted, later, is_restored)


@given(rows)
@examples(20)
def test_model(row: tuple[QueueSettings, list[Entry]]) -> None:
    run(row)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    run(rolled(Random(seed)))


# -- planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, Plant]] = {}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def an_overlap_is_stored_twice(patch: pytest.MonkeyPatch) -> None:
    original = Fifo.store

    def store(self: Fifo, command: Enqueue, first: int, skip: int) -> None:
        original(self, command, first - skip, 0)

    patch.setattr(Fifo, "store", store)


@canary
def a_rejected_message_is_confirmed_when_it_comes_again(patch: pytest.MonkeyPatch) -> None:
    def answers(self: Enqueuer, start: int, end: int) -> list[tuple[int, int, bool]]:
        start = max(start, self.heard_seq)
        return [(start, end, True)] if start < end else []

    patch.setattr(Enqueuer, "answers", answers)


@canary
def what_comes_back_comes_first(patch: pytest.MonkeyPatch) -> None:
    original = ReadyMessages.give_back

    def give_back(self: ReadyMessages, run: MessageRun) -> None:
        original(self, run)
        self.returns.rotate(1)

    patch.setattr(ReadyMessages, "give_back", give_back)


@canary
def a_lost_link_counts(patch: pytest.MonkeyPatch) -> None:
    original = Fifo.give_back

    def give_back(self: Fifo, runs: list[MessageRun], counts: bool) -> None:  # noqa: ARG001
        original(self, runs, True)

    patch.setattr(Fifo, "give_back", give_back)


@canary
def who_was_served_stays_first(patch: pytest.MonkeyPatch) -> None:
    original = ServiceQueue.dealt

    def dealt(self: ServiceQueue, able: list[QueueConsumer], count: int) -> None:
        if not count:
            return
        ring = self.rings[-able[0].priority]
        was = [*ring]
        original(self, able, count)
        for consumer in was:
            if consumer in ring:
                ring.move_to_end(consumer)

    patch.setattr(ServiceQueue, "dealt", dealt)


@canary
def the_smaller_ttl_does_not_win(patch: pytest.MonkeyPatch) -> None:
    original = Fifo.store

    def store(self: Fifo, command: Enqueue, first: int, skip: int) -> None:
        original(self, command, first, skip)
        if command.ttl_ms is not None:
            self.messages.fresh[-1].expiry = self.now_ms + max(1, command.ttl_ms)

    patch.setattr(Fifo, "store", store)


@canary
def a_dead_letter_that_must_arrive_is_tried_once(patch: pytest.MonkeyPatch) -> None:
    original = DeadLetterQueue.settle

    def settle(self: DeadLetterQueue, start: int, end: int, _: bool, to: ReadyMessages) -> None:
        original(self, start, end, True, to)

    patch.setattr(DeadLetterQueue, "settle", settle)


@canary
def dead_letters_take_no_room(patch: pytest.MonkeyPatch) -> None:
    original = Fifo.is_full

    def is_full(self: Fifo) -> bool:
        letters, self.dead_letters = self.dead_letters, DeadLetterQueue()
        full = original(self)
        self.dead_letters = letters
        return full

    patch.setattr(Fifo, "is_full", is_full)


@canary
def a_snapshot_forgets_whose_turn_it_is(patch: pytest.MonkeyPatch) -> None:
    original = snapshot.ring_rows

    def ring_rows(*given: Any) -> list[tuple[int, list[int]]]:
        return [(key, sorted(numbers)) for key, numbers in original(*given)]

    patch.setattr(snapshot, "ring_rows", ring_rows)


@canary
def a_snapshot_forgets_what_was_rejected(patch: pytest.MonkeyPatch) -> None:
    original = snapshot.read_enqueuers

    def read_enqueuers(state: Any, rows: Any) -> None:
        original(state, rows)
        for enqueuer in state.enqueuers.members.values():
            enqueuer.rejected = []

    patch.setattr(snapshot, "read_enqueuers", read_enqueuers)


@canary
def what_has_come_back_is_not_live(patch: pytest.MonkeyPatch) -> None:
    original = ReadyMessages.live

    def live(self: ReadyMessages, out: Any) -> Any:
        returns, self.returns = self.returns, type(self.returns)()
        yield from [*original(self, out)]
        self.returns = returns

    patch.setattr(ReadyMessages, "live", live)


@canary
def a_cut_forgets_how_often_it_came_back(patch: pytest.MonkeyPatch) -> None:
    def part(self: MessageRun, start: int, end: int) -> MessageRun:
        return MessageRun(self.batch, self.places[start:end], 0, self.redelivered, self.reason)

    patch.setattr(MessageRun, "part", part)


@canary
def nobody_succeeds_the_single_active_consumer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServiceQueue, "promote", lambda _: None)


@canary
def room_is_forgotten_when_something_is_settled(patch: pytest.MonkeyPatch) -> None:
    original = ServiceQueue.gained

    def gained(self: ServiceQueue, consumer: QueueConsumer) -> None:
        if not consumer.next_id:
            original(self, consumer)

    patch.setattr(ServiceQueue, "gained", gained)


@canary
def an_address_that_has_ended_begins_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Enqueuers, "has_ended", lambda *_: False)


@pytest.mark.parametrize("name", sorted(CANARIES))
def test_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES[name](monkeypatch)

    def breaks(seed: int) -> bool:
        try:
            run(rolled(Random(seed)))
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in range(SEEDS_MAX))


# -- bounds


def fifo_with(said: QueueSettings = NO_SETTINGS) -> Fifo:
    """A queue with one sender."""
    member = Fifo("queue", said)
    applied(member, 1, 1000, [RegisterEnqueuer(CHANNELS[0])])
    return member


def test_much_that_expires_is_left_to_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fifo, "QUORUM_EXPIRES_MAX", 2)
    member = fifo_with(QueueSettings(message_ttl_ms=5))
    for seq in range(1, 6):
        applied(member, 1 + seq, 1000, [Enqueue(CHANNELS[0], seq, 1, 1)])
    key = ConsumerKey(CHANNELS[1], "t")
    effects = applied(member, 7, 2000, [AddConsumer(key)])
    assert not any(isinstance(effect, FifoDelivered) for effect in effects)
    assert (member.messages.count, member.due_ms) == (3, 1005)
    applied(member, 8, 2000, [PassTime()])
    applied(member, 9, 2000, [PassTime()])
    assert (member.messages.count, member.due_ms) == (0, None)


def test_much_that_is_dropped_is_left_to_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fifo, "QUORUM_EXPIRES_MAX", 2)
    member = fifo_with()
    for seq in range(1, 6):
        applied(member, 1 + seq, 1000, [Enqueue(CHANNELS[0], seq, 1, 1)])
    applied(member, 7, 2000, [Configure(QueueSettings(max_length=0))])
    assert (member.messages.count, member.due_ms) == (3, 2000)
    applied(member, 8, 2000, [PassTime()])
    applied(member, 9, 2000, [PassTime()])
    assert (member.messages.count, member.due_ms) == (0, None)


def test_so_many_ended_addresses_are_remembered() -> None:
    member = fifo_with()
    for serial in range(1, ENDED_MAX + 2):
        applied(member, 1 + serial, 1000, [AddressDown(ActorAddress(1, 1, serial))])
    enqueuers = member.enqueuers
    assert len(enqueuers.ended) == ENDED_MAX
    assert not enqueuers.has_ended(CHANNELS[0])
    assert enqueuers.has_ended(CHANNELS[1])


def test_a_row_that_comes_again_is_passed_over_also_behind_a_snapshot() -> None:
    member, asker, publisher = fifo_with(), ActorAddress(1, 1, 9), CHANNELS[0]
    row = [Asked(asker, 1), PurgeQueue(CHANNELS[1])]
    applied(member, 2, 1000, row)
    applied(member, 3, 1000, [Enqueue(publisher, 1, 2, 1)])
    again = fifo_with()
    again.restore(member.snapshot())
    for each in (member, again):
        assert applied(each, 4, 1000, row) == []
        assert each.messages.count == 2
        later = [Asked(ActorAddress(1, 1, 10), 1), PurgeQueue(CHANNELS[1])]
        assert len(applied(each, 5, 1000, later)) == 2
        assert applied(each, 6, 1000, [Asked(asker, 2), PurgeQueue(CHANNELS[1])]) == []


def test_of_the_rows_in_an_entry_only_those_are_passed_over_that_come_again() -> None:
    member, publisher = fifo_with(), CHANNELS[0]
    old = [Asked(ActorAddress(1, 1, 9), 1), Enqueue(publisher, 1, 2, 1)]
    applied(member, 2, 1000, old)
    more = Enqueue(publisher, 3, 2, 1)
    new = [Asked(ActorAddress(2, 1, 9), 1), more, Asked(ActorAddress(1, 1, 9), 2), PassTime()]
    effects = applied(member, 3, 1000, [*old, *new])
    assert [each for each in effects if isinstance(each, RowBegins)] == [
        RowBegins(ActorAddress(2, 1, 9), 1),
        RowBegins(ActorAddress(1, 1, 9), 2),
    ]
    assert [*member.live()] == [(2, [range(2)]), (3, [range(2, 4)])]


def test_one_prefetch_is_the_most_there_is() -> None:
    member = fifo_with()
    keys = [ConsumerKey(CHANNELS[1], tag) for tag in ("none", "more")]
    applied(member, 2, 1000, [AddConsumer(keys[0]), AddConsumer(keys[1], prefetch=60_000)])
    found = [each.prefetch for each in member.consumers.members.values()]
    assert found == [2000, 2000]


# -- snapshots


def busy_fifo() -> Fifo:
    """A queue with something in each of its parts."""
    bench = FifoBench(
        QueueSettings(
            overflow="reject-publish",
            max_length=3,
            dead_letter_exchange="dlx",
            dead_letter_strategy="at-least-once",
        )
    )
    bench.step(BEGIN, 0, False)
    bench.step([("publish", 0, [1, 2, 3, 4], 0, 0, 7), ("consume", 1, "b", 2, 1, True)], 1, False)
    bench.step(
        [("settle", 0, "a", 4, 1, 2), ("settle", 0, "a", 2, 0, 1), ("down", 2, True)], 1, True
    )
    bench.step([("consume", 1, "b", 2, 1, False), ("get", 0, False), ("rare", 1, None)], 1, True)
    return bench.member


def test_a_snapshot_is_of_the_state_when_it_was_asked_for() -> None:
    member = busy_fifo()
    expected = [*member.snapshot()]
    pieces = member.snapshot()
    found = [next(pieces)]
    applied(member, member.index + 1, 2000, [RegisterEnqueuer(CHANNELS[3])])
    applied(member, member.index + 1, 2000, [enqueue(CHANNELS[3], 1, [1, 2])])
    applied(member, member.index + 1, 2000, [AddressDown(CHANNELS[0]), AddressDown(CHANNELS[1])])
    assert [*found, *pieces] == expected


def test_what_is_no_snapshot_changes_nothing() -> None:
    pieces = [*busy_fifo().snapshot()]
    member = fifo_with()
    before = [*member.snapshot()]
    broken = [pieces[:at] + pieces[at + 1 :] for at in range(len(pieces))]
    broken += [[*pieces, pieces[-1]], [], [b""], [b"x", *pieces[1:]]]
    broken += [
        [*pieces[:at], bytes([pieces[at][0] ^ 1]) + pieces[at][1:], *pieces[at + 1 :]]
        for at in range(len(pieces))
    ]
    for each in broken:
        with pytest.raises(ValueError, match="snapshot"):
            member.restore(each)
        assert [*member.snapshot()] == before


def test_a_snapshot_of_another_version_is_refused() -> None:
    pieces = [*busy_fifo().snapshot()]
    was = bytes([snapshot.MACHINE_VERSION])
    newer = bytes([snapshot.MACHINE_VERSION + 1])
    magic = snapshot.MAGIC.encode()
    pieces[0] = pieces[0].replace(magic + was, magic + newer)
    with pytest.raises(ValueError, match="version 2"):
        Fifo("queue").restore(pieces)


@given(st.binary(max_size=60), st.integers(0, 20))
def test_any_bytes_are_a_snapshot_or_are_refused(data: bytes, at: int) -> None:
    pieces = [*busy_fifo().snapshot()]
    pieces[at % len(pieces)] = data
    with pytest.raises(ValueError, match="snapshot"):
        Fifo("queue").restore(pieces)


def test_members_that_differ_have_different_digests() -> None:
    one, other = busy_fifo(), busy_fifo()
    assert one.digest() == other.digest()
    other.enqueuers.end(CHANNELS[1])
    assert one.digest() != other.digest()
