"""Hypothesis plays broker: MessageFiles against a dict, on a disk that may fill up, crash and lose
what was not synced. Jobs that are under way together run in any order, and each of submitting,
running and telling the outcome is a step of its own, so that everything happens in between.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import NamedTuple

import hypothesis.strategies as st
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob
from sluicemq.sim.disk import Crashed, SimFiles, run, stop_at
from sluicemq.storage.compaction import Compaction, Deletion
from sluicemq.storage.message_files import PERSISTENT, MessageFiles
from sluicemq.storage.message_index import REFERENCES_SHIFT, DictIndex, MessageIndex
from sluicemq.storage.message_reads import ReadMessages
from sluicemq.storage.message_writes import MessageWrites
from support.thorough import examples

LIMIT = 2048
RECORD_MAX = 768
SEEDS = st.integers(0, 2**32 - 1)
SETTINGS = examples(60, stateful_step_count=60)
CANARY_SETTINGS = settings(
    SETTINGS, max_examples=400, phases=(Phase.generate,), report_multiple_bugs=False
)
CHANGES = ("write", "sync", "sync_directory")


class Reading(NamedTuple):
    """A read that is under way, and what it must find."""

    expected: dict[int, bytes]
    contents: dict[int, bytes]
    job: ReadMessages


class MessageMachine(RuleBasedStateMachine):
    """`references` is the model: how many queues have a message; 0: had. `safe` are the messages
    whose job has succeeded."""

    kind = PERSISTENT

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimFiles()
        self.contents: dict[int, bytes] = {}
        self.references: dict[int, int] = {}
        self.safe: set[int] = set()
        self.late: list[int] = []
        self.next_id = 1
        self.file_ids = 0
        self.index = self.new_index()
        self.files = self.new_files()
        self.files.recover(self.disk, {})

    def new_index(self) -> MessageIndex:
        return DictIndex()

    def new_files(self) -> MessageFiles:
        """A store that knows nothing, and nothing under way."""
        self.strand: list[MessageWrites | Compaction | Deletion] = []
        self.over: deque[MessageWrites | Compaction | Deletion] = deque()
        self.readings: list[Reading] = []
        return MessageFiles(self.kind, self.index, LIMIT, self.new_file_id)

    def new_file_id(self) -> bytes:
        self.file_ids += 1
        return self.file_ids.to_bytes(16, "big")

    def alive(self) -> list[int]:
        return [each for each, references in self.references.items() if references]

    # -- writing and removing

    def body(self, message_id: int, size: int) -> bytes:
        content = self.contents[message_id] = Random(self.file_ids ^ message_id).randbytes(size)
        return content

    @rule(
        sizes=st.lists(st.integers(0, RECORD_MAX - 40), min_size=1, max_size=5),
        skip=st.integers(0, 2),
    )
    def write(self, sizes: list[int], skip: int) -> None:
        """New messages; some ids are used later, as those of a slower channel."""
        self.late += range(self.next_id, self.next_id + skip)
        ids = range(self.next_id + skip, self.next_id + skip + len(sizes))
        self.next_id = ids.stop
        self.files.write_run(ids, [self.body(*each) for each in zip(ids, sizes, strict=True)])
        self.references.update(dict.fromkeys(ids, 1))

    @precondition(lambda self: self.late)
    @rule(size=st.integers(0, 600))
    def write_late(self, size: int) -> None:
        message_id = self.late.pop()
        self.files.write(message_id, self.body(message_id, size))
        self.references[message_id] = 1

    @precondition(lambda self: self.references)
    @rule(data=st.data())
    def write_again(self, data: st.DataObject) -> None:
        """One more queue gets a message that is known, or was."""
        known = sorted(self.references)
        self.write_once_more(data.draw(st.sampled_from(known[-12:] + known[:12])))

    def write_once_more(self, message_id: int) -> None:
        self.files.write(message_id, self.contents[message_id])
        self.references[message_id] += 1
        if not self.holds(message_id):
            self.safe.discard(message_id)

    def holds(self, message_id: int) -> bool:
        """Is it in a file, as far as the store knows?"""
        return self.index.get(message_id) != 0

    @precondition(lambda self: self.alive())
    @rule(seed=SEEDS, share=st.sampled_from((0.2, 0.7, 1.0)))
    def remove(self, seed: int, share: float) -> None:
        random = Random(seed)
        chosen = [each for each in self.alive() if random.random() < share]
        chosen += random.choices(chosen, k=len(chosen) // 4)
        ids = []
        for message_id in chosen:
            if self.references[message_id]:
                self.references[message_id] -= 1
                ids.append(message_id)
        self.files.remove(ids)

    # -- jobs

    @rule()
    def take_job(self) -> None:
        job = self.files.take_job()
        if job is not None:
            self.strand.append(job)

    @rule()
    def compaction(self) -> None:
        job = self.files.compaction()
        if job is not None:
            self.strand.append(job)

    @precondition(lambda self: self.strand)
    @rule(which=st.integers(0, 2), full_after=st.none() | st.integers(0, 4))
    def run_job(self, which: int, full_after: int | None) -> None:
        """One of those under way; it may find the disk full, and is then done again later."""
        job = self.strand[which % len(self.strand)]
        left = full_after

        def before(number: int, action: str, _path: str) -> None:
            nonlocal left
            if left is not None and action in CHANGES:
                if left == 0:
                    self.disk.plan[number] = "ENOSPC"
                left -= 1

        self.disk.before = before
        run(job, self.disk)
        self.disk.rest()
        if job.failure is None:
            self.strand.remove(job)
            self.over.append(job)
        assert job.failure is None or job.failure.is_full, job.failure
        job.failure = None

    @precondition(lambda self: self.over)
    @rule()
    def tell(self) -> None:
        """The store hears of the success of a job."""
        job = self.over.popleft()
        if isinstance(job, MessageWrites):
            written = set(job.contents)
            self.files.finished(job)
            self.safe |= written
            return
        following = self.files.compacted(job)
        if following is not None:
            self.strand.append(following)

    @rule(seed=SEEDS, steps=st.integers(5, 60))
    def work(self, seed: int, steps: int) -> None:
        """A busy moment: many messages come and go, and jobs get on."""
        random = Random(seed)
        for _ in range(steps):
            act = random.randrange(8)
            if act == 0:
                self.write([random.randrange(RECORD_MAX - 40) for _ in range(4)], 0)
            elif act == 1:
                self.remove(random.randrange(1 << 32), random.choice((0.3, 0.6)))
            elif act == 2:
                self.take_job()
            elif act == 3:
                self.compaction()
            elif act == 4 and self.references:
                self.write_once_more(random.choice(list(self.references)))
            elif self.strand:
                self.run_job(random.randrange(3), None)
            elif self.over:
                self.tell()

    # -- reading

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.alive())), min_size=1, max_size=8))
        expected = {each: self.contents[each] for each in ids}
        contents, job = self.files.find(expected)
        if job is None:
            assert contents == expected
        else:
            self.readings.append(Reading(expected, contents, job))

    @precondition(lambda self: self.readings)
    @rule()
    def read(self) -> None:
        """Whatever happened since it was asked for."""
        expected, contents, job = self.readings.pop(0)
        job.run(self.disk)
        self.files.done_reading(job)
        assert job.missing == []
        assert contents | job.contents == expected
        assert not self.files.problems

    # -- crashes

    @rule(seed=SEEDS, power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        """In the middle of a job, perhaps again in the middle of the start that follows. Of what
        was removed, some is still referred to: its acknowledgements were lost."""
        random = Random(seed)
        for _ in range(20):
            if not self.strand:
                self.work(random.randrange(1 << 32), 5)
        for job in self.strand:
            self.interrupt(job, random)
        self.lose(random, power)
        wanted = {each: references for each, references in self.references.items() if references}
        for message_id, references in self.references.items():
            if not references and random.random() < 0.3:
                wanted[message_id] = 1
        if random.random() < 0.3:
            self.disk.before = stop_at(self.disk.number + 1 + random.randrange(12))
            try:
                self.new_files().recover(self.disk, wanted)
            except Crashed:
                self.lose(random, power)
            self.disk.rest()
        self.recover(wanted, power)

    def interrupt(self, job: DiskJob, random: Random) -> None:
        """Some primitives of a job happen, and then nothing more."""
        self.disk.before = stop_at(self.disk.number + 1 + random.randrange(8), random.random())
        try:
            run(job, self.disk)
        except Crashed:
            return
        finally:
            self.disk.rest()

    def lose(self, random: Random, power: bool) -> None:
        if power:
            self.disk.crash(random)
        else:
            self.disk.kill()

    def recover(self, wanted: dict[int, int], power: bool) -> None:
        """What was safe and not removed must be found; what is found must be right, and is safe."""
        self.files = self.new_files()
        found = self.files.recover(self.disk, wanted)
        alive = set(self.alive())
        lost = set(found.missing) & self.safe & alive
        assert not lost, f"{sorted(lost)} were safe"
        self.references = {each: n for each, n in wanted.items() if each not in found.missing}
        self.contents = {each: self.contents[each] for each in self.references}
        self.safe = set(self.references)
        self.late = []
        self.next_id = self.files.highest_id + 1
        self.read_all()

    def read_all(self) -> None:
        expected = {each: self.contents[each] for each in self.alive()}
        contents, job = self.files.find(expected)
        if job is not None:
            job.run(self.disk)
            self.files.done_reading(job)
            assert job.missing == []
            contents |= job.contents
        assert contents == expected

    # -- what always holds

    @rule()
    def settle(self) -> None:
        """Let everything come to its end: then the files are at most twice what is alive, and two
        files. (A file may be over the limit by a record, and has a directory.)"""
        while self.readings:
            self.read()
        while True:
            self.take_job()
            self.compaction()
            if not self.strand and not self.over:
                break
            while self.strand:
                self.run_job(0, None)
            while self.over:
                self.tell()
        table = self.files.table.values()
        file_max = max([LIMIT, *(file.size for file in table)])
        files_max = 2 + 2 * self.files.valid_bytes / LIMIT
        assert self.files.total_bytes <= files_max * file_max
        assert not self.files.doomed
        names = self.disk.names(self.files.directory)
        assert names == sorted(file.path.rpartition("/")[2] for file in table)

    @invariant()
    def counts_are_right(self) -> None:
        files = self.files
        for message_id, expected in self.references.items():
            if message_id in files.buffer or message_id in files.flying:
                assert files.references.get(message_id, 1) == expected
            else:
                assert self.index.get(message_id) >> REFERENCES_SHIFT == expected

    @invariant()
    def bytes_are_right(self) -> None:
        files = self.files
        table = files.table.values()
        assert files.total_bytes == sum(file.size for file in table)
        assert files.valid_bytes == sum(file.valid for file in table)
        for file in table:
            assert 0 <= file.valid < file.size
            if not file.busy:
                assert self.disk.size(file.path) == file.size

    def teardown(self) -> None:
        try:
            self.settle()
            self.read_all()
        except DiskFailed as failure:
            raise AssertionError(str(failure)) from failure
