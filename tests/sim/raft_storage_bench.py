"""Raft groups' logs over simulated files: members that write by chance, and what each must find.

A member knows what its log was after each append. After a crash it must find what it was after the
last one that it was told is durable, or after a later one; nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from sim.crash_bench import CONFIG, Bench, State
from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.chain.store.raft_storage import (
    SMALL_CONTENT_BYTES,
    RaftAppend,
    RaftCommitted,
    RaftSnapshotTaken,
)
from sluicemq.config import RaftConfig
from sluicemq.kernel.actor import Actor
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.disk import SimFiles
from sluicemq.sim.history import History
from sluicemq.sim.records import promise
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.raft.codec import (
    RaftEntries,
    RaftGroupGone,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
)
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.live_places import LivePlaces
from sluicemq.storage.raft.reading import RaftEntriesRead
from sluicemq.storage.raft.segment_file import read_raft_segment

ALONE: Final = Configuration((1,))
GROUPS: Final = 4
RAFT_CONFIG: Final = replace(CONFIG, raft=RaftConfig(segment_max_entries=5))
READ_STRAND: Final = 1000

Found = tuple[object, ...]
"""What a member finds on its disk, in a form that can be compared."""


CELL_SIZES: Final = (0, 3, 30, 120)
CONTENT_SIZES: Final = (0, 900, SMALL_CONTENT_BYTES + 1)
"""Of snapshots' contents: no file, and files of their own."""


def entry_data(cells: dict[int, bytes]) -> bytes:
    """An entry's data: messages with their places, each small enough for its size in a byte."""
    return b"".join(bytes([place, len(cell)]) + cell for place, cell in cells.items())


def cells_of(data: EntryData) -> dict[int, bytes]:
    """The messages of an entry, whole or trimmed, by their places."""
    raw, at = bytes(data), 0
    found: dict[int, bytes] = {}
    while at < len(raw):
        place, size = raw[at : at + 2]
        found[place] = raw[at + 2 : at + 2 + size]
        at += 2 + size
    return found


def trim(data: bytes, places: Sequence[range]) -> bytes:
    """What is needed of an entry for the messages at these places."""
    cells = cells_of(data)
    return entry_data({each: cells[each] for each in cells if any(each in s for s in places)})


def has_at_least(entry: LogEntry, needed: LogEntry) -> bool:
    """Tell whether all that is needed of an entry is there."""
    same = (entry.index, entry.term, entry.kind) == (needed.index, needed.term, needed.kind)
    return same and cells_of(needed.data).items() <= cells_of(entry.data).items()


class MemberModel:
    """What one member has written. `said` has what it would find, by the number of the append."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.number = 0
        self.acked = 0
        self.commit = 0
        self.term = 0
        self.vote = 0
        self.snapshot = 0
        self.snapshot_term = 0
        self.content = b""
        """Of the snapshot."""
        self.is_taking = False
        """A snapshot of its own is on its way; meanwhile it writes nothing else."""
        self.log: dict[int, LogEntry] = {}
        """Also of those below the snapshot that are still needed, with what of them is."""
        self.places: LivePlaces | None = None
        """What the snapshot that is taken says of messages; None: nothing."""
        self.is_gone = False
        self.said: dict[int, Found] = {}

    @property
    def last(self) -> int:
        """The last index of the log."""
        return max([self.snapshot, *self.log])

    @property
    def durable(self) -> int:
        """The last index that this member counts for: acknowledged, and not overwritten since."""
        found = self.said.get(self.acked)
        known = found[-1] if found else ()
        assert isinstance(known, tuple)
        index = self.snapshot
        had = {entry.index: entry for entry in known}
        while index + 1 in self.log and had.get(index + 1) == self.log[index + 1]:
            index += 1
        return index

    def found(self) -> Found:
        """What this member would find now."""
        if self.is_gone:
            return ()
        entries = (*sorted(self.log.values(), key=lambda entry: entry.index),)
        return self.term, self.vote, self.snapshot, self.snapshot_term, self.content, entries

    def wrote(self, records: list[RaftRecord]) -> int:
        """Take note of one append; returns its number."""
        for record in records:
            self.apply(record)
        self.number += 1
        self.said[self.number] = self.found()
        return self.number

    def apply(self, record: RaftRecord) -> None:
        if isinstance(record, RaftEntries):
            self.log |= {entry.index: entry for entry in record.entries}
        elif isinstance(record, RaftTruncation):
            self.log = {index: each for index, each in self.log.items() if index < record.start}
        elif isinstance(record, TermAndVote):
            self.term, self.vote = record.term, record.vote
        elif isinstance(record, RaftSnapshot):
            self.snapshot, self.snapshot_term = record.snapshot.index, record.snapshot.term
            self.commit = max(self.commit, self.snapshot)
            if record.is_installed:
                self.log = {}
                self.places = None
            self.log = {
                index: self.needed(each)
                for index, each in self.log.items()
                if index > self.snapshot or any(index in some for some in record.live)
            }
        else:
            self.is_gone = True

    def step(self, random: Random) -> list[RaftRecord]:
        """What the member has written next."""
        group = self.group
        if not self.number:
            return [RaftSnapshot(group, LogSnapshot(0, 0, ALONE))]
        others_have = random.random() < 0.2
        upto = self.last if others_have else self.durable
        self.commit = random.randint(self.commit, max(self.commit, upto))
        action = random.choice("eeeeettvvssig")
        if action == "t" and self.last > self.commit:
            self.term += 1
            start = random.randint(self.commit + 1, self.last)
            cut = [TermAndVote(group, self.term, 0), RaftTruncation(group, start)]
            return [*cut, *self.entries(start, random)] if random.random() < 0.7 else cut
        if action == "v":
            return [TermAndVote(group, self.term + 1, random.randint(0, 3))]
        if action == "s" and self.commit > self.snapshot:
            index = random.randint(self.snapshot + 1, self.commit)
            needed = sorted(each for each in self.log if each <= index and random.random() < 0.4)
            live = (*(range(each, each + 1) for each in needed),)
            self.places = self.some_places(needed, random) if random.random() < 0.6 else None
            self.content = random.randbytes(random.choice(CONTENT_SIZES))
            term = self.log[index].term
            snapshot = LogSnapshot(index, term, ALONE, size_bytes=len(self.content))
            return [RaftSnapshot(group, snapshot, live=live)]
        if action == "i" and random.random() < 0.3:
            self.content = random.randbytes(random.choice(CONTENT_SIZES))
            index, size = self.last + random.randint(1, 3), len(self.content)
            snapshot = LogSnapshot(index, self.term, ALONE, size_bytes=size)
            return [RaftSnapshot(group, snapshot, is_installed=True)]
        if action == "g" and random.random() < 0.1:
            return [RaftGroupGone(group)]
        return self.entries(self.last + 1, random)

    def needed(self, entry: LogEntry) -> LogEntry:
        """What is needed of an entry after a snapshot."""
        if entry.index > self.snapshot or self.places is None:
            return entry
        return entry.with_data(trim(bytes(entry.data), self.places.find(entry.index)))

    def some_places(self, needed: list[int], random: Random) -> LivePlaces:
        """Some of the messages of each of these entries, at least one."""
        found = LivePlaces()
        for index in needed:
            cells = cells_of(self.log[index].data)
            some = {each for each in cells if random.random() < 0.4} or {random.choice([*cells])}
            places = ranges_of(sum(1 << each for each in some), 0)
            found.add(index, places, sum(len(cells[each]) for each in some))
        return found

    def entries(self, start: int, random: Random) -> list[RaftRecord]:
        made = []
        for n in range(random.randint(1, 4)):
            sizes = [random.choice(CELL_SIZES) for _ in range(random.randint(1, 4))]
            cells = {place: random.randbytes(size) for place, size in enumerate(sizes)}
            made.append(LogEntry(start + n, self.term, DATA, entry_data(cells)))
        return [RaftEntries(self.group, made)]

    def resume(self, found: Found, top: int) -> None:
        """Hold what was found against what was written, and go on from there."""
        said = self.said.items()
        matching = [n for n, each in said if n >= self.acked and matches(each, found)]
        text = f"group {self.group} finds {found!r} though append {self.acked} was durable"
        promise(matching or (not self.acked and not found), text)
        promise(top <= self.commit, f"group {self.group} has {top} in a segment")
        if not matching:
            vars(self).update(vars(MemberModel(self.group)))
            return
        n = min(matching)
        self.number = self.acked = n
        self.said = {n: self.said[n]}
        self.is_gone = found == ()
        if not self.is_gone:
            term, vote, snapshot, snapshot_term, content, entries = self.said[n]
            assert isinstance(entries, tuple)
            assert isinstance(content, bytes)
            self.content = content
            self.is_taking = False
            self.term, self.vote = int(str(term)), int(str(vote))
            self.snapshot, self.snapshot_term = int(str(snapshot)), int(str(snapshot_term))
            self.log = {entry.index: entry for entry in entries}
            self.commit = max(self.snapshot, min(self.commit, self.last))


def matches(said: Found, found: Found) -> bool:
    """Tell whether a member finds what it has said: of entries below its snapshot at least what is
    needed of them."""
    if said[:-1] != found[:-1] or not said:
        return said == found
    snapshot, needed, there = said[2], said[-1], found[-1]
    assert isinstance(snapshot, int)
    assert isinstance(needed, tuple)
    assert isinstance(there, tuple)
    return [each.index for each in needed] == [each.index for each in there] and all(
        entry == each or (entry.index <= snapshot and has_at_least(entry, each))
        for entry, each in zip(there, needed, strict=True)
    )


class RaftFacts:
    """What all members know."""

    def __init__(self) -> None:
        self.members = {group: MemberModel(group) for group in range(1, GROUPS + 1)}


class Ear(Actor):
    """Hears for all members what is durable, or never will be."""

    def __init__(self, bench: RaftBench) -> None:
        super().__init__(bench.node.scheduler)
        self.bench = bench
        self.refusals: list[str] = []

    def receive(self, message: object) -> None:
        if isinstance(message, RaftRefused):
            self.refusals.append(message.reason)
            return
        if isinstance(message, RaftSnapshotKept):
            member = self.bench.facts.members[message.group]
            promise(member.is_taking, "a snapshot counts that was never taken")
            member.is_taking = False
            member.acked = member.number
            return
        if isinstance(message, RaftSettled):
            member = self.bench.facts.members[message.group]
            promise(message.top <= member.commit, "what is not committed is in a segment")
            self.bench.read(member)
            return
        if isinstance(message, RaftEntriesRead):
            self.bench.was_read(message)
            return
        if isinstance(message, RaftSnapshotWanted):
            return
        assert isinstance(message, RaftAppended)
        member = self.bench.facts.members[message.group]
        promise(message.number <= member.number, "an append that was never made is durable")
        promise(message.number > member.acked, "an append is told twice, or late")
        member.acked = message.number


def first_raft_state(capacity: int | None = None) -> State:
    """Nothing is there yet."""
    facts: Any = RaftFacts()
    return State(SimFiles(capacity), History(), facts)


class RaftBench(Bench):
    """One life of a node with Raft groups. Its start holds what it finds against what is known."""

    def __init__(self, state: State, seed: int = 0) -> None:
        super().__init__(state, seed, RAFT_CONFIG)
        facts: Any = state.facts
        self.facts: RaftFacts = facts
        self.store = self.node.broker.store
        self.ear = Ear(self)
        self.reads = 0
        table = self.store.raft.table
        for group in [*table.groups]:
            promise(group in self.facts.members, "a group that nobody made")
            promise(not table.groups[group].is_amnesiac, f"group {group} is silent")
        for member in self.facts.members.values():
            group = table.groups.get(member.group)
            top = group.top if group is not None else 0
            member.resume(self.found(member.group), top)

    def found(self, group_id: int) -> Found:
        """What a member finds, with those entries below its snapshot that are still needed."""
        table = self.store.raft.table
        group = table.groups.get(group_id)
        if group is None:
            return ()
        durable = table.found.pop(group_id)
        entries = {entry.index: entry for entry in durable.entries}
        below = {entry.index: entry for entry in self.whole(group) if group.is_live(entry.index)}
        entries |= {index: held.entry for index, held in group.held.items()}
        job = self.store.raft.reading(group_id, [*below])
        if job is not None:
            job.run(self.state.files)
            promise(not job.problem and not job.is_stale, job.problem)
            wanted = {index: entry.data for index, entry in below.items()}
            promise(job.found == wanted, f"group {group_id}: {job.found!r} is read of {wanted!r}")
        entries |= below
        snapshot = durable.snapshot
        log = (*sorted(entries.values(), key=lambda entry: entry.index),)
        content = table.contents.pop(group_id, b"")
        return durable.term, durable.vote, snapshot.index, snapshot.term, content, log

    def whole(self, group: RaftGroup) -> Iterator[LogEntry]:
        """All entries in the segments of a group."""
        for segment in group.segments:
            read = read_raft_segment(self.state.files, group.id, segment)
            promise(not read.problem, read.problem)
            yield from read.entries

    def read(self, member: MemberModel) -> None:
        """Have what a member still needs read, as far as it is in segments."""
        job = self.store.raft.reading(member.group, [*member.log])
        if job is not None and not member.is_gone:
            self.disk.submit(job, self.ear, READ_STRAND)

    def was_read(self, job: RaftEntriesRead) -> None:
        """Hold what was read against what was written, as far as it is still needed."""
        member = self.facts.members[job.group]
        asked = {index for part in job.parts for index in part.wanted}
        promise(not job.problem, job.problem)
        promise(job.is_stale or job.found.keys() == asked, "an entry is not found")
        for index, data in job.found.items():
            entry = member.log.get(index)
            there = None if entry is None else entry.with_data(data)
            is_whole = entry is None or there is None or has_at_least(there, entry)
            promise(is_whole, f"entry {index} is read as another")
        self.reads += 1

    def append(self, member: MemberModel, random: Random) -> None:
        """Have a member write something, and say what is committed."""
        if member.is_gone or member.is_taking:
            return
        store, raft, group = self.store, self.store.raft, member.group
        records = member.step(random)
        number = member.wrote(records)
        store.post(RaftCommitted(raft, group, member.commit))
        last = records[-1]
        if isinstance(last, RaftSnapshot) and last.snapshot.index and not last.is_installed:
            member.is_taking = True
            trimming = (member.places, trim) if member.places is not None else ()
            store.post(RaftSnapshotTaken(last, member.content, self.ear, *trimming))
            return
        content = member.content if isinstance(last, RaftSnapshot) else b""
        store.post(RaftAppend(raft, group, number, records, self.ear, content))

    def settled(self) -> bool:
        return all(each.acked == each.number for each in self.facts.members.values())

    def live(self, steps: int, random: Random) -> None:
        """Some members write at a time, now and then before the last append of all is durable."""
        members = [*self.facts.members.values()]
        for _ in range(steps):
            for _ in range(random.randint(1, 4)):
                self.append(random.choice(members), random)
            self.read(random.choice(members))
            if random.random() < 0.7:
                self.until(self.settled, "appends are durable")
            else:
                for _ in range(random.randint(0, 6)):
                    self.timeline.step()
        self.until(self.settled, "appends are durable")
