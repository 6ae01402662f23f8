"""Goal: an append hears that it is durable exactly once, after the sync that covers it and never
otherwise; whatever the disk does, appends of one kind stay in order. Method: a store with a disk
that does its jobs, has no space, or breaks, as Hypothesis says; the journal is read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.store.group_commit import Append, CommitDue, HoldOver, WhenDurable
from sluicemq.chain.store.messages import TryAgain
from sluicemq.config import Config
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.limits import GROUP_HOLD_MS
from sluicemq.node import Node
from sluicemq.storage.entries import Definition, encode_definition
from sluicemq.storage.journal import Replay, journal_numbers
from support.fakes import FakeWorld, bystander, drain
from support.thorough import examples

from .client import SMALL_FILES


class Note(Append):
    """Says in the journal that it is number so and so, and remembers what it hears."""

    __slots__ = ("heard", "number", "wanted_file")

    def __init__(self, number: int, urgent: bool, wanted_file: bool = False) -> None:
        super().__init__(urgent)
        self.number = number
        self.heard: list[str] = []
        self.wanted_file = wanted_file

    def entries(self, parts: list[bytes]) -> None:
        encode_definition(parts, b"%d" % self.number)

    def before(self) -> DiskJob | None:
        return WriteFile(self.number) if self.wanted_file else None

    def appended(self) -> None:
        self.heard.append("appended")

    def refused(self, reason: str) -> None:
        self.heard.append("refused")


class Declaration(Note):
    """Comes first in its group."""

    __slots__ = ()

    is_declaration = True


class Quantum(Note):
    """Of these a group with an append to a log has one."""

    __slots__ = ()

    quantum_bytes = 1


class LogEntries(Note):
    """An append to the log of a Raft group."""

    __slots__ = ()

    is_in_line = True
    raft_bytes = 1


KINDS = {"note": Note, "declaration": Declaration, "quantum": Quantum, "log": LogEntries}


class WriteFile(DiskJob):
    """What a note has written before it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self, files: Files) -> None:
        path = f"note-{self.number}"
        files.write(path, 0, b"there")
        files.sync(path)
        files.sync_directory("")


class Bench:
    """A store to which notes are handed in."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.files = self.world.disk.files
        self.node = Node(self.world, Config(storage=SMALL_FILES))
        self.store = self.node.broker.store
        self.notes: list[Note] = []
        self.questions: list[tuple[WhenDurable, int]] = []
        """With how many notes were handed in before."""
        self.asker = bystander()
        self.run()
        self.finish_all()

    def run(self) -> None:
        while self.node.run(100):
            pass

    def hand_in(self, note: Note) -> Note:
        self.notes.append(note)
        self.store.post(note)
        self.run()
        return note

    def ask(self) -> None:
        question = WhenDurable(self.asker)
        self.questions.append((question, len(self.notes)))
        self.store.post(question)
        self.run()

    def finish(self, failure: str | None = None, at: str = "write") -> None:
        """The oldest job of the disk is done, or fails at this primitive."""
        if self.world.disk.jobs:
            self.files.fail = lambda action, _: failure if action == at else None
            self.world.disk.finish()
            self.files.fail = None
            self.run()

    def finish_all(self) -> None:
        """Nothing waits for the disk any more."""
        while self.world.disk.jobs:
            self.finish()

    def wait(self) -> None:
        """The timers go off."""
        timers = self.world.clock.timers
        for timer in [
            each for each in timers if isinstance(each[2], CommitDue | HoldOver | TryAgain)
        ]:
            timers.remove(timer)
            timer[1].post(timer[2])
        self.run()

    def in_journal(self) -> list[int]:
        """The numbers of the notes that a recovery would find if the power failed now."""
        files = self.files.crash()
        found = [entry for n in journal_numbers(files) for entry in Replay(files, n).entries]
        changes = [entry.change for entry in found if isinstance(entry, Definition)]
        return [int(change) for change in changes if change.isdigit()]

    def check(self) -> None:
        """What has been said is true."""
        durable = self.in_journal()
        for note in self.notes:
            assert len(note.heard) <= 1
            if note.heard == ["appended"]:
                assert note.number in durable
                assert not note.wanted_file or f"note-{note.number}" in self.files.durable_names
        answered = drain(self.asker)
        for question, before in self.questions:
            if question in answered:
                assert all(note.heard == ["appended"] for note in self.notes[:before])
        for kind in KINDS.values():
            numbers = [note.number for note in self.notes if type(note) is kind]
            assert [n for n in durable if n in numbers] == [n for n in numbers if n in durable]


FAILURES = {"full": ("ENOSPC", "write"), "broken": ("EIO", "sync")}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([*KINDS]), st.booleans(), st.booleans()),
        st.tuples(st.sampled_from(["ask", "finish", "wait", "full", "broken"])),
    ),
    max_size=40,
)


@examples(20)
@given(STEPS)
def test_what_is_said_is_durable(steps: list[tuple[object, ...]]) -> None:
    bench = Bench()
    for step in steps:
        number = len(bench.notes)
        kind = KINDS.get(str(step[0]))
        if kind is not None:
            bench.hand_in(kind(number, bool(step[1]), bool(step[2])))
        elif step[0] == "ask":
            bench.ask()
        elif step[0] == "wait":
            bench.wait()
        else:
            bench.finish(*FAILURES.get(str(step[0]), ()))
        bench.check()
    for _ in range(10):
        bench.wait()
        bench.finish_all()
    bench.check()
    answers = {answer for note in bench.notes for answer in note.heard}
    assert all(note.heard for note in bench.notes), "everybody hears something in the end"
    assert bench.store.storage_failed or answers <= {"appended"}


def test_declarations_come_first_in_their_group() -> None:
    bench = Bench()
    bench.hand_in(Note(0, urgent=True))
    for note in (Note(1, urgent=True), Declaration(2, urgent=True), Note(3, urgent=True)):
        bench.hand_in(note)
    bench.finish_all()
    assert bench.in_journal() == [0, 2, 1, 3]


def test_nobody_waits_so_it_may_take_a_while() -> None:
    bench = Bench()
    note = bench.hand_in(Note(0, urgent=False))
    assert not bench.world.disk.jobs
    bench.wait()
    bench.finish_all()
    assert note.heard == ["appended"]


def test_a_question_with_nothing_to_wait_for_is_answered_at_once() -> None:
    bench = Bench()
    bench.ask()
    assert drain(bench.asker)
    assert not bench.world.disk.jobs


def warm() -> Bench:
    """With everything done that follows the first group."""
    bench = Bench()
    bench.hand_in(Note(100, True))
    bench.finish_all()
    return bench


def test_what_gathered_during_a_slow_sync_waits_for_those_who_hear_of_it() -> None:
    bench = warm()
    before = bench.store.commits.groups
    bench.hand_in(Note(0, True))
    late = bench.hand_in(Note(1, True))
    bench.world.clock.time_ns += GROUP_HOLD_MS * 10**6
    bench.finish()
    assert bench.world.disk.jobs == []
    answer = bench.hand_in(Note(2, True))
    assert bench.world.disk.jobs == []
    bench.wait()
    bench.finish_all()
    assert late.heard == answer.heard == ["appended"]
    assert bench.store.commits.groups == before + 2


def test_a_fast_disk_is_not_held_up() -> None:
    bench = warm()
    bench.hand_in(Note(0, True))
    late = bench.hand_in(Note(1, True))
    bench.finish()
    bench.finish()
    assert late.heard == ["appended"]


def test_nobody_is_held_up_who_comes_alone() -> None:
    bench = warm()
    for number in range(3):
        note = bench.hand_in(Note(number, True))
        bench.world.clock.time_ns += GROUP_HOLD_MS * 10**6
        bench.finish()
        assert note.heard == ["appended"]
