"""Goal: ranges say exactly what RabbitMQ says message by message.

Method: random batches, answered in any order, against a model that keeps one entry a message and
coalesces as spec section 8.5 puts it; and a client's view of the frames against the truth.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.confirms import Frame, Unconfirmed
from sluicemq.flow.link import Link
from support.fakes import bystander

LINKS = [Link(bystander()) for _ in range(3)]
ONE, TWO, THREE = LINKS


@dataclass
class Model:
    """One entry a message."""

    waiting: dict[int, int] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def expect(self, seq: int, queues: int) -> None:
        if queues:
            self.waiting[seq] = queues
        else:
            self.confirmed.add(seq)

    def confirm(self, seq: int) -> None:
        if seq in self.waiting:
            self.waiting[seq] -= 1
            if not self.waiting[seq]:
                del self.waiting[seq]
                self.confirmed.add(seq)

    def reject(self, seq: int) -> None:
        if self.waiting.pop(seq, None) is not None:
            self.rejected.add(seq)

    def coalesce(self, numbers: set[int], others: set[int], nack: bool) -> list[Frame]:
        if len(numbers) == 1 and not nack:
            return [(min(numbers), False, nack)]
        if not numbers:
            return []
        cutoff = min([min(self.waiting, default=max(numbers) + 1), *others])
        below = [seq for seq in numbers if seq < cutoff]
        frames = [(max(below), True, nack)] if below else []
        return frames + [(seq, False, nack) for seq in sorted(numbers) if seq >= cutoff]

    def drain(self) -> list[Frame]:
        acks, nacks = self.confirmed, self.rejected
        self.confirmed, self.rejected = set(), set()
        return self.coalesce(acks, nacks, False) + self.coalesce(nacks, acks, True)


@dataclass
class Client:
    """What a publisher makes of the frames: `multiple` covers all it has not heard of yet."""

    outstanding: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    nacked: list[int] = field(default_factory=list)

    def hear(self, frames: list[Frame]) -> None:
        for tag, multiple, nack in frames:
            covered = [seq for seq in self.outstanding if seq == tag or (multiple and seq < tag)]
            assert tag in covered
            (self.nacked if nack else self.acked).extend(covered)
            self.outstanding = [seq for seq in self.outstanding if seq not in covered]


PUBLISH, CONFIRM, REJECT, DRAIN, LOSE = range(5)

schedules = st.lists(
    st.one_of(
        st.tuples(st.just(PUBLISH), st.integers(1, 5), st.integers(0, 3)),
        st.tuples(st.just(CONFIRM), st.integers(0, 5), st.just(0)),
        st.tuples(st.just(REJECT), st.integers(0, 5), st.just(0)),
        st.tuples(st.just(LOSE), st.integers(0, 2), st.just(0)),
        st.tuples(st.just(DRAIN), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@given(schedules)
def test_ranges_say_what_single_messages_would(schedule: list[tuple[int, int, int]]) -> None:
    unconfirmed, model, client = Unconfirmed(), Model(), Client()
    next_seq = 1
    truth: dict[bool, list[int]] = {False: [], True: []}
    answers: list[tuple[Link, int, int]] = []  # one for each queue a batch went to
    rejected: set[int] = set()
    for what, number, queues in schedule:
        if what == PUBLISH:
            links = LINKS[number % 3 :][:queues]
            links += LINKS[: queues - len(links)]
            later = len(links) if number == 5 else 0  # sent a moment later
            unconfirmed.expect(next_seq, number, () if later else links, later)
            for link in links[:later]:
                unconfirmed.sent(next_seq, link)
            for seq in range(next_seq, next_seq + number):
                model.expect(seq, queues)
                client.outstanding.append(seq)
            answers += [(link, next_seq, number) for link in links]
            next_seq += number
        elif what == DRAIN:
            truth[False] += sorted(model.confirmed)
            truth[True] += sorted(model.rejected)
            assert unconfirmed.has_answers == bool(model.confirmed or model.rejected)
            assert unconfirmed.answered == (len(model.confirmed), len(model.rejected))
            frames = unconfirmed.drain()
            assert frames == model.drain()
            client.hear(frames)
            assert sorted(client.acked) == sorted(truth[False])
            assert sorted(client.nacked) == sorted(truth[True])
            assert unconfirmed.drain() == []
        elif what == LOSE:
            unconfirmed.lose(LINKS[number])
            for _, first, count in [each for each in answers if each[0] is LINKS[number]]:
                rejected.add(first)
                for seq in range(first, first + count):
                    model.reject(seq)
            answers = [each for each in answers if each[0] is not LINKS[number]]
        elif answers:
            link, first, count = answers.pop(number % len(answers))
            if what == CONFIRM:
                unconfirmed.confirm(link, first, count)
                for seq in range(first, first + count):
                    model.confirm(seq)
            else:
                unconfirmed.reject(first, count)
                rejected.add(first)
                for seq in range(first, first + count):
                    model.reject(seq)
        assert unconfirmed.count == len(model.waiting)
        assert unconfirmed.smallest() == min(model.waiting, default=None)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 6), max_size=3)), max_size=6),
    st.randoms(use_true_random=False),
)
def test_each_queue_takes_as_many_of_the_first_as_it_likes(
    batches: list[tuple[int, list[int]]], dice: random.Random
) -> None:
    """A queue rejects what is behind those it takes, then confirms these, at some time."""
    unconfirmed, model = Unconfirmed(), Model()
    first = 1
    queues: list[list[tuple[str, Link, int, int, int]]] = []
    for count, takes in batches:
        unconfirmed.expect(first, count, LINKS[: len(takes)])
        for seq in range(first, first + count):
            model.expect(seq, len(takes))
        for link, each in zip(LINKS, takes, strict=False):
            taken = min(each, count)
            rest = [("reject", link, first, taken, count - taken)] if taken < count else []
            queues.append(rest + ([("confirm", link, first, 0, taken)] if taken else []))
        first += count
    while queues := [answers for answers in queues if answers]:
        what, link, first, offset, count = dice.choice(queues).pop(0)
        for seq in range(first + offset, first + offset + count):
            model.reject(seq) if what == "reject" else model.confirm(seq)
        if what == "reject":
            unconfirmed.reject(first, count, offset)
        else:
            unconfirmed.confirm(link, first, count)
        assert unconfirmed.count == len(model.waiting)
        assert unconfirmed.smallest() == min(model.waiting, default=None)
        if dice.random() < 0.3:
            assert unconfirmed.drain() == model.drain()
    assert unconfirmed.drain() == model.drain()
    assert not unconfirmed.count


def test_a_batch_that_was_divided_is_rejected_as_a_whole() -> None:
    unconfirmed = Unconfirmed()
    unconfirmed.expect(1, 5, [ONE, TWO])
    unconfirmed.reject(1, 1, 2)  # two of its three messages were taken
    unconfirmed.confirm(ONE, 1, 2)
    unconfirmed.confirm(TWO, 1, 2)
    assert unconfirmed.drain() == [(5, True, True)]


def expecting(*batches: tuple[int, int]) -> Unconfirmed:
    unconfirmed = Unconfirmed()
    for first, count in batches:
        unconfirmed.expect(first, count, [ONE])
    return unconfirmed


def test_numbers_below_the_cutoff_are_one_frame_and_the_others_one_each() -> None:
    """Spec 13.4: unconfirmed {7, 9}, confirmed {3, 4, 5, 6, 8, 10}."""
    unconfirmed = expecting((3, 2), (5, 2), (7, 1), (8, 1), (9, 1), (10, 1))
    for first, count in [(10, 1), (5, 2), (8, 1), (3, 2)]:
        unconfirmed.confirm(ONE, first, count)
    assert unconfirmed.drain() == [(6, True, False), (8, False, False), (10, False, False)]


def test_single_ack_is_plain() -> None:
    """Spec 13.4: batch {3} alone."""
    unconfirmed = expecting((3, 1))
    unconfirmed.confirm(ONE, 3, 1)
    assert unconfirmed.drain() == [(3, False, False)]


def test_nack_stands_above_the_acks_of_its_round() -> None:
    """Spec 13.4: acks {3, 4}, nacks {5}, nothing else open."""
    unconfirmed = expecting((3, 2), (5, 1))
    unconfirmed.reject(5, 1)
    unconfirmed.confirm(ONE, 3, 2)
    assert unconfirmed.drain() == [(4, True, False), (5, False, True)]


def test_single_nack_below_the_cutoff_goes_out_as_multiple() -> None:
    unconfirmed = expecting((3, 1))
    unconfirmed.reject(3, 1)
    assert unconfirmed.drain() == [(3, True, True)]


def test_batch_above_the_cutoff_is_said_message_by_message() -> None:
    unconfirmed = expecting((1, 2), (3, 3))
    unconfirmed.confirm(ONE, 3, 3)
    assert unconfirmed.drain() == [(3, False, False), (4, False, False), (5, False, False)]


def test_unroutable_batch_is_confirmed_at_once() -> None:
    unconfirmed = Unconfirmed()
    unconfirmed.expect(1, 3, [])
    assert unconfirmed.count == 0
    assert unconfirmed.drain() == [(3, True, False)]


def test_batch_waits_for_all_its_queues_and_one_rejection_is_enough() -> None:
    unconfirmed = Unconfirmed()
    unconfirmed.expect(1, 2, LINKS)
    unconfirmed.confirm(TWO, 1, 2)
    assert not unconfirmed.has_answers
    unconfirmed.reject(1, 2)
    unconfirmed.reject(1, 2)
    unconfirmed.confirm(ONE, 1, 2)
    assert unconfirmed.drain() == [(2, True, True)]
    assert unconfirmed.count == 0


def test_smallest_stays_cheap_with_one_message_stuck_and_many_passing() -> None:
    """What is remembered to find the smallest must not grow while the first batch is stuck."""
    unconfirmed = expecting((1, 1))
    for seq in range(2, 5000):
        unconfirmed.expect(seq, 1, [ONE])
        unconfirmed.confirm(ONE, seq, 1)
        assert unconfirmed.smallest() == 1
    assert len(unconfirmed._oldest) == 1
    unconfirmed.confirm(ONE, 1, 1)
    assert unconfirmed.smallest() is None


def test_nothing_is_remembered_of_batches_that_were_answered() -> None:
    unconfirmed = expecting((1, 1))
    for seq in range(2, 2000):
        unconfirmed.expect(seq, 1, [ONE])
        unconfirmed.confirm(ONE, seq - 1, 1)
        assert unconfirmed.smallest() == seq
        assert len(unconfirmed._oldest) <= 2


def test_what_waits_for_a_lost_link_is_rejected_and_nothing_else() -> None:
    unconfirmed = Unconfirmed()
    unconfirmed.expect(1, 2, [ONE])
    unconfirmed.expect(3, 1, [ONE, TWO])
    unconfirmed.expect(4, 3, [TWO, THREE])
    unconfirmed.expect(7, 1, [], 2)
    unconfirmed.sent(7, TWO)
    unconfirmed.expect(8, 2, [TWO])
    unconfirmed.confirm(TWO, 3, 1)
    unconfirmed.confirm(TWO, 8, 2)
    unconfirmed.lose(TWO)
    assert unconfirmed.count == 3
    assert unconfirmed.drain() == [
        (8, False, False),
        (9, False, False),
        *[(tag, False, True) for tag in (4, 5, 6, 7)],
    ]
    unconfirmed.sent(7, THREE)
    unconfirmed.confirm(THREE, 7, 1)
    unconfirmed.confirm(THREE, 4, 3)
    unconfirmed.confirm(ONE, 1, 2)
    unconfirmed.confirm(ONE, 3, 1)
    assert unconfirmed.drain() == [(3, True, False)]


def test_an_answer_over_another_link_counts_for_nothing() -> None:
    """It would be about another one's numbers."""
    unconfirmed = expecting((1, 2))
    with pytest.raises(AssertionError):
        unconfirmed.confirm(TWO, 1, 2)
    assert unconfirmed.drain() == []


def test_numbers_only_grow() -> None:
    unconfirmed = expecting((1, 2))
    with pytest.raises(AssertionError):
        unconfirmed.expect(2, 1, [ONE])
