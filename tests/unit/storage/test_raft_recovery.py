"""Goal: a start finds each Raft member's log, term and vote as they were, or says that it cannot.

Method: a journal, segments and a checkpoint are written by hand; each byte of them is flipped.
"""

from __future__ import annotations

from itertools import count

import pytest

from sluicemq.errors import Refused
from sluicemq.metadata.tables import DurableTables
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA, NOOP, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.checkpoint import Checkpoint, read_newest, write_checkpoint
from sluicemq.storage.fsck import Check
from sluicemq.storage.inspection import inspect
from sluicemq.storage.journal import Journal, journal_path
from sluicemq.storage.manifest import Manifest, write_manifest
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.raft import snapshot_file
from sluicemq.storage.raft.codec import (
    RaftEntries,
    RaftGroupGone,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
    encode_raft_record,
)
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.group_state import encode_raft_group
from sluicemq.storage.raft.segment import RaftSegment
from sluicemq.storage.raft.segment_file import RaftSegmentWrite
from sluicemq.storage.raft.snapshot_file import RaftContentWrite
from sluicemq.storage.recovery import Recovery
from support.files import DictFiles

NUMBERS = count(1)
ENTRIES_MAX = 4096
NODE_ID = bytes(16)
SNAPSHOT = LogSnapshot(0, 0, Configuration((1, 2, 3)))
BIRTH = RaftSnapshot(5, SNAPSHOT)
LIMIT = 1 << 12
SEGMENT = "raft/5/00000001.log"


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def entries(first: int, *terms: int, group: int = 5) -> RaftEntries:
    kinds = (DATA, NOOP)
    made = [
        LogEntry(first + n, term, kinds[n % 2], b"%d" % (n % 2 or term))
        for n, term in enumerate(terms)
    ]
    return RaftEntries(group, made)


RECORDS: list[list[RaftRecord]] = [
    [BIRTH],
    [TermAndVote(5, 1, 2), entries(1, 1, 1, 1)],
    [TermAndVote(5, 3, 0), RaftTruncation(5, 3), entries(3, 3, 3)],
]
LOG = [*entries(1, 1, 1).entries, *entries(3, 3, 3).entries]
FOUND = Durable(3, 0, SNAPSHOT, LOG)


def parts_of(records: list[RaftRecord]) -> list[bytes]:
    parts: list[bytes] = []
    for record in records:
        encode_raft_record(parts, record)
    return parts


def begin(files: DictFiles, *groups: RaftGroup) -> Journal:
    """A manifest, a checkpoint, and the journal that goes on with file 1."""
    manifest = Manifest(NODE_ID, 0, 1)
    write_manifest(files, manifest)
    states = [encode_raft_group(group, 1) for group in groups]
    write_checkpoint(
        files, Checkpoint(1, False, 1, 1, 1, NODE_ID, DurableTables().encode(), [], 8, (), states)
    )
    return Journal(1, LIMIT, file_id, manifest)


def lived(*groups: list[RaftRecord], sealed: bool = True) -> DictFiles:
    files = DictFiles()
    journal = begin(files)
    for records in groups:
        journal.group(parts_of(records)).run(files)
    seal = journal.seal()
    if sealed and seal is not None:
        seal.run(files)
    return files


def recover(files: DictFiles, accept_loss: bool = False) -> tuple[Recovery, list[str]]:
    """What was found, and which errors were told."""
    errors: list[str] = []

    def say(level: str, text: str) -> None:
        if level == "error":
            errors.append(text)

    recovery = Recovery(files, 8, file_id, say, accept_loss)
    stores = (
        MessageFiles(kind, DictIndex(), LIMIT, file_id) for kind in ("persistent", "transient")
    )
    recovery.run(*stores)
    return recovery, errors


def silent(recovery: Recovery) -> list[int]:
    return [group.id for group in recovery.groups.groups.values() if group.is_amnesiac]


def test_what_the_journal_has_is_found_and_found_again() -> None:
    files = lived(*RECORDS)
    for _ in range(3):
        recovery, errors = recover(files)
        assert recovery.groups.found == {5: FOUND}
        assert (silent(recovery), errors) == ([], [])
    assert Check(files).run().findings == []


def test_a_group_that_is_gone_is_not_found() -> None:
    files = lived(*RECORDS, [RaftGroupGone(5)])
    assert recover(files)[0].groups.found == {}
    assert recover(files)[0].groups.found == {}


def test_a_torn_group_was_never_said_to_be_there() -> None:
    files = lived(*RECORDS, sealed=False)
    data = files.content(journal_path(1)).rstrip(b"\0")
    files.put(journal_path(1), (data[:-20]).ljust(LIMIT, b"\0"))
    recovery, errors = recover(files)
    assert recovery.groups.found == {5: Durable(1, 2, SNAPSHOT, entries(1, 1, 1, 1).entries)}
    assert (silent(recovery), errors) == ([], [])


@pytest.mark.parametrize("sealed", [False, True])
def test_no_flip_makes_a_member_forget_without_knowing(sealed: bool) -> None:
    """Without a seal the last group may be taken for torn: nothing tells it from one."""
    whole = lived(*RECORDS, sealed=sealed)
    data = whole.content(journal_path(1))
    for at in range(len(data.rstrip(b"\0"))):
        files = lived(sealed=False)
        for path in whole.files:
            files.put(path, whole.content(path))
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        files.put(journal_path(1), bytes(changed))
        recovery, errors = recover(files)
        found = recovery.groups.found.get(5)
        torn = None if sealed else Durable(1, 2, SNAPSHOT, entries(1, 1, 1, 1).entries)
        is_whole = found == FOUND
        if silent(recovery):
            assert errors, f"byte {at}"
            again, _ = recover(files)
            assert silent(again) == [5], "it never speaks again"
        elif found is None:
            assert errors, f"byte {at}"
        else:
            assert is_whole or found == torn, f"byte {at}"


def test_a_journal_file_that_is_missing_makes_amnesiacs() -> None:
    files = DictFiles()
    group = RaftGroup(5)
    group.apply(BIRTH)
    group.apply(entries(1, 1, 1))
    journal = begin(files, group)
    journal.group(parts_of([entries(3, 1)])).run(files)
    files.delete(journal_path(1))
    with pytest.raises(Refused):
        recover(files)
    recovery, _ = recover(files, accept_loss=True)
    assert silent(recovery) == [5]
    assert silent(recover(files)[0]) == [5]


# Segments


def settled() -> tuple[DictFiles, list[LogEntry]]:
    """Two groups, of each of which the first entries are in a segment and the others carried by the
    checkpoint; and what is in the first group's log."""
    files = DictFiles()
    groups = []
    for key in (5, 6):
        group = RaftGroup(key)
        group.apply(BIRTH._replace(group=key))
        group.apply(entries(1, *[2] * 6, group=key))
        group.committed(4)
        job = group.flush(1, key, file_id, ENTRIES_MAX)
        assert job is not None
        job.run(files)
        groups.append(group)
    begin(files, *groups)
    return files, entries(1, *[2] * 6).entries


def test_segments_and_what_is_carried_are_one_log() -> None:
    files, log = settled()
    for _ in range(2):
        recovery, errors = recover(files)
        assert recovery.groups.found[5].entries == log
        assert (silent(recovery), errors) == ([], [])
    verdict = Check(files).run()
    assert verdict.findings == []
    counted = [verdict.counted[name] for name in ("raft_groups", "raft_segments", "raft_entries")]
    assert counted == [2, 2, 8]


def test_what_is_behind_the_length_that_counts_is_cut_off() -> None:
    files, log = settled()
    whole = files.content(SEGMENT)
    files.put(SEGMENT, whole + b"what a flush has written for a checkpoint that never was")
    recovery, errors = recover(files)
    assert recovery.groups.found[5].entries == log
    assert errors == []
    assert files.content(SEGMENT) == whole


def test_a_damaged_entry_silences_the_member_of_its_group_alone() -> None:
    whole, log = settled()
    data = whole.content(SEGMENT)
    for at in range(len(data)):
        files, _ = settled()
        for path in whole.files:
            files.put(path, whole.content(path))
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        files.put(SEGMENT, bytes(changed))
        findings = Check(files).run().findings
        assert [finding.path for finding in findings][:1] == [SEGMENT], at
        recovery, errors = recover(files)
        assert silent(recovery) == [5]
        assert errors
        assert recovery.groups.found[6].entries == entries(1, *[2] * 6, group=6).entries
        assert log[: len(recovery.groups.found[5].entries)] == recovery.groups.found[5].entries
    assert silent(recover(files)[0]) == [5]


def with_trimmed(snapshot: int) -> DictFiles:
    """A group with three entries in a segment, the second of which is trimmed, and a snapshot."""
    files = DictFiles()
    group = RaftGroup(5)
    group.apply(BIRTH)
    write = RaftSegmentWrite(5, 1)
    new = RaftSegment(1, file_id(), 0, 0, 0, 0)
    group.segments = (write.add(new, entries(1, 2, 2, 2).entries, {2}),)
    write.run(files)
    group.apply(RaftSnapshot(5, LogSnapshot(snapshot, 2, SNAPSHOT.configuration)))
    begin(files, group)
    return files


def test_a_trimmed_entry_behind_the_snapshot_is_as_it_should_be() -> None:
    files = with_trimmed(2)
    found = inspect(files.content(SEGMENT))
    assert [each.type for each in found.records] == [
        "raft entry",
        "raft trimmed entry",
        "raft entry",
    ]
    assert found.records[1].contents[0]["entry"] == "raft trimmed entry"
    assert Check(files).run().findings == []
    recovery, errors = recover(files)
    assert [entry.index for entry in recovery.groups.found[5].entries] == [3]
    assert (silent(recovery), errors) == ([], [])


def test_a_trimmed_entry_that_would_be_applied_is_damage() -> None:
    files = with_trimmed(1)
    [finding] = Check(files).run().findings
    assert finding.path == SEGMENT
    recovery, errors = recover(files)
    assert silent(recovery) == [5]
    assert "entry 2 is trimmed" in errors[0]


@pytest.mark.parametrize("how", ["missing", "short", "other"])
def test_a_segment_that_is_not_there_is_a_loss(how: str) -> None:
    files, _ = settled()
    if how == "missing":
        files.delete(SEGMENT)
    elif how == "short":
        files.put(SEGMENT, files.content(SEGMENT)[:70])
    else:
        files.put(SEGMENT, files.content("raft/6/00000001.log"))
    before = {path: bytes(node.data) for path, node in files.files.items()}
    with pytest.raises(Refused, match=SEGMENT):
        recover(files)
    assert {path: bytes(node.data) for path, node in files.files.items()} == before
    assert SEGMENT in [loss.path for loss in Check(files).run().losses]
    assert silent(recover(files, accept_loss=True)[0]) == [5]
    recovery, errors = recover(files)
    assert (silent(recovery), errors) == ([5], [])
    assert recovery.groups.found[5].entries == []


def test_files_that_no_group_refers_to_go() -> None:
    files, _ = settled()
    files.put("raft/5/00000009.log", b"of a flush whose checkpoint never was")
    files.put("raft/7/00000001.log", b"of a group that is gone")
    files.put("raft/7/note", b"?")
    files.put("raft/8/00000001.log", b"of another")
    assert len(Check(files).run().notes) == 3
    assert recover(files)[1] == []
    assert sorted(path for path in files.files if path.startswith("raft/")) == [
        SEGMENT,
        "raft/6/00000001.log",
        "raft/7/note",
    ]
    assert files.names("raft") == ["5", "6", "7"]


def test_without_a_checkpoint_segments_are_not_taken_for_nothing() -> None:
    files, _ = settled()
    for path in [path for path in files.files if not path.startswith("raft/")]:
        files.delete(path)
    with pytest.raises(Refused, match="the first is raft/5/"):
        recover(files)


def test_a_damaged_checkpoint_makes_amnesiacs() -> None:
    files = lived(*RECORDS)
    recover(files)
    newest, _ = read_newest(files)
    assert newest is not None
    path = f"checkpoint/{newest.number:08d}.ckp"
    changed = bytearray(files.content(path))
    changed[-1] ^= 1
    files.put(path, bytes(changed))
    recovery, errors = recover(files)
    assert (silent(recovery), recovery.groups.found[5].entries) == ([5], LOG)
    assert errors


# Snapshots


def with_snapshot() -> tuple[DictFiles, str]:
    """A group with a snapshot that has content, and where that is."""
    content = bytes(range(256)) * 5
    snapshot = LogSnapshot(2, 1, SNAPSHOT.configuration, 0, len(content))
    record = RaftSnapshot(5, snapshot, bytes(range(16)))
    files = lived(*RECORDS[:2], [record])
    job = RaftContentWrite(record, content, 1)
    job.run(files)
    return files, job.path


def test_the_content_of_a_snapshot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "PART_BYTES", 500)
    files, path = with_snapshot()
    for _ in range(2):
        recovery, errors = recover(files)
        assert recovery.groups.contents == {5: bytes(range(256)) * 5}
        assert [entry.index for entry in recovery.groups.found[5].entries] == [3]
        assert errors == []
    found = inspect(files.content(path))
    assert found.is_sound
    assert [each.contents[0]["bytes"] for each in found.records] == [500, 500, 280]
    assert Check(files).run().findings == []


def test_a_snapshot_whose_content_is_damaged_is_a_loss() -> None:
    whole, path = with_snapshot()
    data = whole.content(path)
    broken = [b"", data[:-9], data + b"?" * 8]
    broken += [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(0, len(data), 7)]
    for changed in broken:
        files, _ = with_snapshot()
        files.put(path, changed)
        with pytest.raises(Refused, match="the snapshot of a Raft group is lost"):
            recover(files)
        assert path in [loss.path for loss in Check(files).run().losses]
    recovery, _ = recover(files, accept_loss=True)
    assert (silent(recovery), recovery.groups.contents) == ([5], {})
    assert recover(files)[1] == [], "from then on all is well"


def test_inspect_says_what_a_checkpoint_has_of_a_group() -> None:
    files, _ = settled()
    found = inspect(files.content("checkpoint/00000001.ckp"))
    assert found.is_sound
    told = [each for each in found.records[0].contents if each.get("group") == 5]
    assert [each["entry"] for each in told] == [
        "raft group",
        "raft snapshot",
        "raft segment",
        "raft entries",
    ]
    assert told[2]["entries"] == 4
    assert told[3]["indexes"] == "5-6"


def test_inspect_says_what_a_segment_has() -> None:
    files, _ = settled()
    found = inspect(files.content(SEGMENT))
    assert found.is_sound
    assert [(each.type, each.sequence) for each in found.records] == [
        ("raft entry", index) for index in range(1, 5)
    ]
    assert [each.contents[0]["kind"] for each in found.records] == [DATA, NOOP, DATA, NOOP]


def test_every_record_is_described() -> None:
    records = [record for group in RECORDS for record in group]
    live = LogSnapshot(9, 3, SNAPSHOT.configuration)
    records += [RaftSnapshot(5, live, live=(range(2, 5),)), RaftGroupGone(5)]
    found = inspect(lived(records).content(journal_path(1)))
    told = [entry["entry"] for each in found.records for entry in each.contents]
    assert {*told} == {
        "raft snapshot",
        "term and vote",
        "raft entries",
        "raft truncation",
        "raft group gone",
    }
