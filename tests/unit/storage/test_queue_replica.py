"""Goal: a replica that is fed piece by piece, written back, read again and told again what it has
heard equals one that got all at once. Method: hypothesis writes the history of a queue and says
what happens to the replica meanwhile; a dict of positions says what must be there.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.model.traits import message_traits
from sluicemq.storage.checkpoint import decode_queue_state, encode_queue_state
from sluicemq.storage.entries import Ack, Delivered, Run
from sluicemq.storage.positions import first_of_priority, priority_at
from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex, picked
from sluicemq.storage.queue_replica import QueueReplica
from sluicemq.storage.records import FORMAT
from sluicemq.storage.segments import queue_directory
from support.files import DictFiles
from support.thorough import examples

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = 7
ENTRIES = 8
EVERYTHING = 1 << 30

Said = Run | Ack | Delivered


class History:
    """What was said of a queue, and what therefore is in it: by position its content, or the id of
    its body, with its size and whether it expires."""

    def __init__(self) -> None:
        self.entries: list[Said] = []
        self.there: dict[int, tuple[bytes | int, int, bool]] = {}
        self.next: dict[int, int] = {0: 0}
        self.delivered: dict[int, int] = {0: 0}
        self.ids = count(1)

    def publish(self, row: int, sizes: list[int], embedded: bool, expiry: int) -> None:
        first = self.given(row, len(sizes))
        contents = [bytes([65 + at % 26]) * size for at, size in enumerate(sizes)]
        ids = [next(self.ids) for _ in sizes]
        run = Run(
            queue=QUEUE,
            first=first,
            step=1,
            count=len(sizes),
            traits=message_traits(b"a", 1, True),
            same_size=len(set(sizes)) == 1,
            contents=contents if embedded else None,
            sizes=sizes,
            first_id=0 if embedded else ids[0],
            expiry=expiry,
        )
        self.entries.append(run)
        for position, content, each, size in zip(run.positions, contents, ids, sizes, strict=True):
            self.there[position] = (content if embedded else each, size, expiry > 0)

    def given(self, row: int, number: int) -> int:
        """So many positions of a row are not for others."""
        first = self.next.setdefault(row, first_of_priority(row))
        self.next[row] += number
        self.delivered.setdefault(row, 0)
        return first

    def overtaken(self, row: int, number: int) -> None:
        """Messages went before anything was written of them, but that."""
        first = self.given(row, number)
        self.entries.append(Ack(QUEUE, [range(first, first + number)]))

    def acknowledge(self, pick: int, number: int, step: int) -> None:
        if self.there:
            first = sorted(self.there)[pick % len(self.there)]
            positions = range(first, first + number * step, step)
            row = priority_at(first)
            positions = range(first, min(positions.stop, self.next[row]), step)
            self.entries.append(Ack(QUEUE, [positions]))
            for position in positions:
                self.there.pop(position, None)

    def deliver(self, row: int, behind: int) -> None:
        if row in self.next:
            position = max(first_of_priority(row), self.next[row] - behind)
            self.delivered[row] = max(self.delivered[row], position)
            self.entries.append(Delivered(QUEUE, position))


class Subject:
    """A replica that is written back, read again and fed again."""

    def __init__(self) -> None:
        self.files = DictFiles()
        self.numbers = count(1)
        self.replica = self.fresh()
        self.job: IndexWrite | None = None

    def fresh(self) -> QueueReplica:
        directory = queue_directory(QUEUE, durable=True)
        return QueueReplica(QueueIndex(QUEUE, directory, ENTRIES, self.file_id))

    def file_id(self) -> bytes:
        return next(self.numbers).to_bytes(16)

    def apply(self, entries: list[Said]) -> None:
        for entry in entries:
            self.replica.apply(entry)

    def begin(self) -> None:
        """A write job is under way from now on."""
        if self.job is None:
            self.job = self.replica.write_back()
            assert self.replica.pending_bytes == 0
            assert not self.replica.pending
            assert not self.replica.alive

    def finish(self) -> None:
        """It is done."""
        job, self.job = self.job, None
        if job is not None:
            job.run(self.files)
            self.replica.wrote(job)

    def save(self) -> None:
        self.finish()
        self.replica.save(self.files)

    def read_again(self) -> None:
        """As after a restart: only what is durable counts."""
        self.save()
        for path in self.replica.collect():
            self.files.delete(path)
        state, _ = decode_queue_state(encode_queue_state(self.replica.state()), 0, FORMAT)
        self.files = self.files.crash()
        self.replica = self.fresh()
        self.replica.adopt(state)
        problems: list[str] = []
        self.replica.references(self.files, problems.extend)
        assert problems == []

    def contents(self) -> dict[int, bytes | int]:
        """By position, the content or the id of the body, from the disk."""
        found: dict[int, bytes | int] = {}
        for segment in self.replica.index.segments.values():
            base = segment.number * ENTRIES
            job = IndexRead(segment, base, base + ENTRIES, EVERYTHING, keep_bodies=True)
            job.run(self.files)
            assert job.damaged == []
            for run in picked(job.runs, segment.live, base):
                bodies = run.ids if run.contents is None else run.contents
                assert not found.keys() & set(run.positions), "each position once"
                found |= zip(run.positions, bodies, strict=True)
        return found


def check(subject: Subject, history: History) -> None:
    """It is what the history says, when everything is written back."""
    subject.save()
    replica = subject.replica
    assert subject.contents() == {key: content for key, (content, _, _) in history.there.items()}
    marks = {mark.priority: mark for mark in replica.marks()}
    assert {row: mark.next for row, mark in marks.items()} == history.next
    assert {row: mark.delivered for row, mark in marks.items()} == history.delivered
    for row, mark in marks.items():
        sizes = [size for key, (_, size, _) in history.there.items() if priority_at(key) == row]
        assert mark.size >= sum(sizes)
        assert mark.size == 0 or sizes, "what is gone counts no more"
    assert replica.expiring or not any(expires for _, _, expires in history.there.values())


ROWS = st.sampled_from([0, 0, 0, 1, 9])
SIZES = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.integers(1, 12).map(lambda number: [2] * number),
)
SAYS = st.one_of(
    st.tuples(st.just("publish"), ROWS, SIZES, st.booleans(), st.sampled_from([0, 0, 0, 1 << 40])),
    st.tuples(st.just("overtaken"), ROWS, st.integers(1, 9)),
    st.tuples(st.just("acknowledge"), st.integers(0, 99), st.integers(1, 9), st.integers(1, 3)),
    st.tuples(st.just("acknowledge"), st.just(0), st.integers(1, 20), st.just(1)),
    st.tuples(st.just("deliver"), ROWS, st.integers(0, 9)),
)
HAPPENS = st.one_of(
    st.sampled_from([("begin",), ("finish",), ("save",), ("read_again",)]),
    st.tuples(st.just("replay"), st.integers(1, 30), st.integers(0, 30)),
)


def play(steps: list[tuple[Any, ...]]) -> tuple[Subject, History]:
    """Write the history, and let the subject have each entry as it is written."""
    subject, history = Subject(), History()
    for name, *arguments in steps:
        if hasattr(history, name):
            before = len(history.entries)
            getattr(history, name)(*arguments)
            subject.apply(history.entries[before:])
        elif name == "replay":
            again, cut = arguments
            entries = history.entries[-again:]
            subject.apply(entries[:cut])
            if cut % 2:
                subject.save()
            subject.apply(entries[cut:])
        else:
            getattr(subject, name)()
    return subject, history


@examples(120)
@given(st.lists(st.one_of(SAYS, SAYS, HAPPENS), max_size=40))
def test_piece_by_piece_is_all_at_once(steps: list[tuple[Any, ...]]) -> None:
    subject, history = play(steps)
    check(subject, history)
    once = Subject()
    once.apply(history.entries)
    check(once, history)
    exact = sum(size for _, size, _ in history.there.values())
    assert sum(mark.size for mark in once.replica.marks()) == exact, "nothing else was written"
    for each in (subject, once):
        each.read_again()
        check(each, history)


def acknowledged_in_segments_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        QueueReplica, "acknowledge", lambda self, positions: self.index.acknowledge(positions)
    )


def the_dead_are_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueReplica, "unwritten", lambda self: self.pending)


def deliveries_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueReplica, "deliver", lambda *_: None)


def acknowledged_too_late(patch: pytest.MonkeyPatch) -> None:
    """What is acknowledged while it is being written comes back."""
    wrote = QueueReplica.wrote

    def forgetful(self: QueueReplica, job: IndexWrite) -> None:
        job.gone.clear()
        wrote(self, job)

    patch.setattr(QueueReplica, "wrote", forgetful)


BUGS = [
    acknowledged_in_segments_only,
    the_dead_are_written,
    deliveries_are_forgotten,
    acknowledged_too_late,
]


@pytest.mark.parametrize("bug", BUGS)
def test_the_property_sees_a_bug(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a history in which each of them shows."""
    steps: list[tuple[Any, ...]] = [
        ("publish", 0, [1, 2, 3], True, 0),
        ("acknowledge", 0, 1, 1),
        ("begin",),
        ("acknowledge", 0, 1, 1),
        ("finish",),
        ("deliver", 0, 1),
    ]
    check(*play(steps))
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        check(*play(steps))


def test_transient_messages_end_with_the_process() -> None:
    subject = Subject()
    run = Run(QUEUE, 0, 1, 2, message_traits(b"a", 1, False), True, [b"x", b"y"], [1, 1])
    subject.apply([run])
    subject.save()
    assert subject.contents() == {0: b"x", 1: b"y"}
    subject.read_again()
    assert subject.contents() == {}
    assert subject.replica.next_position == 2


def test_what_it_keeps_in_ram_is_what_came_since_it_was_written_back() -> None:
    """However long it lives."""
    subject, history = Subject(), History()
    for _ in range(200):
        before = len(history.entries)
        history.publish(0, [100] * 5, True, 0)
        history.acknowledge(0, 5, 1)
        subject.apply(history.entries[before:])
        assert 0 < subject.replica.pending_bytes <= 2000
        subject.save()
        for path in subject.replica.collect():
            subject.files.delete(path)
    replica = subject.replica
    assert (replica.pending, replica.alive, replica.index.segments) == ([], {}, {})
    assert len(replica.weights) <= 1
    check(subject, history)
    assert subject.files.names(replica.index.directory) == []
