"""Goal: recovery takes what is there for what it is. Method: a checkpoint and a journal are written
by hand, as a broker that was killed at an unlucky moment leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from sluicemq.errors import DiskFailed, Refused
from sluicemq.metadata.changes import Bind, DeclareExchange, DeclareQueue, DeleteExchange, Unbind
from sluicemq.metadata.codec import encode
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from sluicemq.model.traits import message_traits
from sluicemq.storage.checkpoint import (
    Checkpoint,
    QueueState,
    SegmentState,
    read_newest,
    write_checkpoint,
)
from sluicemq.storage.entries import (
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.journal import Journal, journal_numbers, journal_path
from sluicemq.storage.manifest import Manifest, write_manifest
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.recovery import Recovery
from sluicemq.storage.segments import queue_directory
from support.files import DictFiles, run

TRAITS = message_traits(b"", 1, True)

ENTRIES = 8
QUEUE = QueueDefinition("q", True, False, False, {})
NUMBERS = count(1)
NOTHING_MADE = Manifest(bytes(16), 0, 1)
"""There is a checkpoint, and no file of the journal that must be there."""


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def run_of(first: int, *contents: bytes) -> Run:
    return Run(
        queue=1,
        first=first,
        step=1,
        count=len(contents),
        traits=TRAITS,
        same_size=False,
        contents=list(contents),
        sizes=[len(content) for content in contents],
    )


def checkpoint(files: DictFiles, *segments: SegmentState) -> None:
    """Of one queue, whose next position is 2; the journal goes on with file 1."""
    definitions = DurableTables()
    definitions.take(DeclareQueue(QUEUE, queue_id=1))
    state = QueueState(1, 2, 0, list(segments), 0)
    encoded = definitions.encode()
    write_manifest(files, NOTHING_MADE)
    write_checkpoint(files, Checkpoint(1, False, 1, 1, 3, bytes(16), encoded, [state], ENTRIES))


def segment(files: DictFiles, first: int, *contents: bytes) -> SegmentState:
    """Written to the disk, as a checkpoint would say it."""
    index = QueueIndex(1, queue_directory(1, True), ENTRIES, file_id)
    job = index.write([run_of(first, *contents)])
    job.run(files)
    index.wrote(job)
    (state,) = index.states()
    return state


def journal(files: DictFiles, parts: list[bytes]) -> None:
    Journal(1, 1 << 16, file_id).group(parts).run(files)


def recover(files: DictFiles, accept_loss: bool = False) -> tuple[Recovery, list[str]]:
    """What was found, and which errors were told."""
    errors: list[str] = []

    def say(level: str, text: str) -> None:
        if level == "error":
            errors.append(text)

    recovery = Recovery(files, ENTRIES, file_id, say, accept_loss)
    stores = (MessageFiles(kind, DictIndex(), 1 << 16, file_id) for kind in KINDS)
    recovery.run(*stores)
    return recovery, errors


KINDS = ("persistent", "transient")


def refused(files: DictFiles) -> str:
    """Why there is no start; nothing was changed by it."""
    before = {path: bytes(node.data) for path, node in files.files.items()}
    with pytest.raises(Refused) as caught:
        recover(files)
    assert {path: bytes(node.data) for path, node in files.files.items()} == before
    return str(caught.value)


def live(recovery: Recovery) -> list[range]:
    return recovery.queues[1].index.live_in(0, 100)


def test_a_segment_whose_messages_were_all_acknowledged_may_be_gone() -> None:
    files = DictFiles()
    state = segment(files, 0, b"a", b"b")
    checkpoint(files, state)
    files.delete(f"{queue_directory(1, True)}/{0:08d}.idx")
    parts: list[bytes] = []
    encode_ack(parts, 1, [range(2)])
    journal(files, parts)
    recovery, errors = recover(files)
    assert live(recovery) == []
    assert errors == []


def test_a_newer_file_in_the_place_of_a_segment_is_not_taken_for_it() -> None:
    files = DictFiles()
    state = segment(files, 0, b"a", b"b")
    checkpoint(files, state)
    segment(files, 2, b"longer than what was there before", b"d")
    parts: list[bytes] = []
    encode_ack(parts, 1, [range(2)])
    encode_run(parts, run_of(2, b"longer than what was there before", b"d"))
    journal(files, parts)
    recovery, errors = recover(files)
    assert live(recovery) == [range(2, 4)]
    assert errors == []
    job = recovery.queues[1].index.read(0, 100, 1 << 20)
    job.run(files)
    assert [run.contents for run in job.runs] == [[b"longer than what was there before", b"d"]]
    assert job.damaged == []


def test_a_segment_that_is_gone_with_live_messages_is_told() -> None:
    files = DictFiles()
    state = segment(files, 0, b"a", b"b")
    checkpoint(files, state)
    files.delete(f"{queue_directory(1, True)}/{0:08d}.idx")
    text = "queues/1/00000000.idx is missing, 2 messages of queue 'q' in '/' are lost. Nothing"
    assert refused(files).startswith(text)
    recovery, errors = recover(files, accept_loss=True)
    assert live(recovery) == []
    assert [text[:-9] in error for error in errors] == [True]
    assert recover(files)[1] == [], "from then on all is well"


def test_what_binds_a_queue_that_the_checkpoint_knows_as_deleted_is_dropped() -> None:
    files = DictFiles()
    checkpoint(files)
    binding = BindingDefinition("amq.direct", "gone", "queue", "key", {})
    parts: list[bytes] = []
    encode_definition(parts, encode(Bind(binding)))
    encode_queue_deleted(parts, 2)
    journal(files, parts)
    recovery, errors = recover(files)
    assert recovery.definitions.bindings == {}
    assert list(recovery.definitions.queues) == [1]
    assert errors == []


# What the journal says


def group(*encoders: Callable[[list[bytes]], int]) -> list[bytes]:
    """The entries of a group."""
    parts: list[bytes] = []
    for add in encoders:
        add(parts)
    return parts


def published(first: int, *contents: bytes) -> Callable[[list[bytes]], int]:
    return lambda parts: encode_run(parts, run_of(first, *contents))


def acked(*ranges: range) -> Callable[[list[bytes]], int]:
    return lambda parts: encode_ack(parts, 1, [*ranges])


def write_groups(
    files: DictFiles, *groups: list[bytes], number: int = 1, before: int = 0
) -> list[tuple[int, int]]:
    """A journal file, with so many groups in those before it; where its groups lie, (start, end)
    each."""
    book = Journal(number, 1 << 12, file_id)
    book.sequence = before
    places = []
    for parts in groups:
        start = book.offset or 64
        run(files, book.group(parts))
        places.append((start, book.offset))
    return places


def contents_of(recovery: Recovery, files: DictFiles, queue: int = 1) -> dict[int, bytes]:
    """What can be read of a queue, by position."""
    index = recovery.queues[queue].index
    found: dict[int, bytes] = {}
    for number in sorted(index.segments):
        job = index.read(number * ENTRIES, (number + 1) * ENTRIES, 1 << 20)
        run(files, job)
        index.was_read(job)
        assert job.failure is None
        assert job.damaged == []
        for each in job.runs:
            contents = each.contents or [b"%d" % message_id for message_id in each.ids]
            for position, content in zip(each.positions, contents, strict=True):
                assert position not in found, "twice in a segment"
                found[position] = content
    wanted = [p for positions in index.live_in(0, 1000) for p in positions]
    return {position: found[position] for position in wanted}


def test_a_new_directory_has_nothing() -> None:
    files = DictFiles()
    recovery, errors = recover(files)
    assert recovery.is_new
    assert len(recovery.node_id) == 16
    assert (recovery.queues, errors) == ({}, [])
    again, errors = recover(files)
    assert not again.is_new
    assert again.node_id == recovery.node_id
    assert errors == []


def test_messages_of_the_journal_are_in_segments_afterwards() -> None:
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    write_groups(
        files, group(published(2, *[b"%d" % n for n in range(2, 20)])), group(acked(range(5, 9)))
    )
    recovery, errors = recover(files)
    expected = {0: b"a", 1: b"b"} | {n: b"%d" % n for n in (2, 3, 4, *range(9, 20))}
    assert contents_of(recovery, files) == expected
    assert recovery.queues[1].next_position == 20
    assert errors == []
    assert journal_numbers(files) == []
    again, errors = recover(files)
    assert contents_of(again, files) == expected, "without the journal"
    assert errors == []


def test_what_is_in_a_segment_already_is_not_written_again() -> None:
    """The checkpoint's segments and the journal overlap."""
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    write_groups(files, group(published(0, b"a", b"b", b"c")))
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"a", 1: b"b", 2: b"c"}
    assert errors == []


def test_runs_with_a_step_are_acknowledged_in_part() -> None:
    files = DictFiles()
    checkpoint(files)
    even = Run(1, 2, 2, 9, TRAITS, True, [b"%02d" % n for n in range(2, 20, 2)], [2] * 9)
    odd = Run(1, 3, 2, 9, TRAITS, True, None, [99] * 9, 503, 2)
    write_bodies(files, range(503, 521, 2))
    parts = group(lambda parts: encode_run(parts, even), lambda parts: encode_run(parts, odd))
    write_groups(files, parts, group(acked(range(4, 16, 4), range(3, 20, 6))))
    recovery, errors = recover(files)
    expected = {n: b"%02d" % n for n in (2, 6, 10, 14, 16, 18)}
    expected |= {n: b"%d" % (n + 500) for n in (5, 7, 11, 13, 17, 19)}
    assert contents_of(recovery, files) == expected
    assert errors == []
    assert recovery.next_message_id == 520


def write_bodies(files: DictFiles, ids: range) -> None:
    """Into the message store."""
    store = MessageFiles("persistent", DictIndex(), 1 << 16, file_id)
    store.recover(files, {})
    for message_id in ids:
        store.write_run(range(message_id, message_id + 1), [b"%d" % message_id])
    job = store.take_job()
    assert job is not None
    run(files, job)


def test_messages_without_a_body_are_dropped_and_told() -> None:
    files = DictFiles()
    checkpoint(files)
    refers = Run(1, 0, 1, 4, TRAITS, True, None, [99] * 4, 50)
    write_bodies(files, range(50, 53))
    write_groups(files, group(lambda parts: encode_run(parts, refers)))
    assert refused(files).startswith(
        "messages/persistent lacks a file, or one in there was truncated"
    )
    recovery, errors = recover(files, accept_loss=True)
    assert live(recovery) == [range(3)]
    assert any("1 messages have no body" in error for error in errors)


def test_acknowledgements_reach_across_segments() -> None:
    files = DictFiles()
    first = segment(files, 0, *[b"%d" % n for n in range(8)])
    index = QueueIndex(1, queue_directory(1, True), ENTRIES, file_id)
    job = index.write([run_of(8, b"8", b"9")])
    run(files, job)
    index.wrote(job)
    checkpoint(files, first, *index.states())
    acks = group(acked(range(1, 9), range(10, 30, 7)))
    write_groups(files, group(published(10, *[b"%d" % n for n in range(10, 30)])), acks)
    recovery, errors = recover(files)
    assert [*contents_of(recovery, files)] == [0, 9, *(n for n in range(10, 30) if n % 7 != 3)]
    assert errors == []


def test_an_acknowledgement_alone_moves_the_next_position() -> None:
    """The message's own group may have been overtaken: its position is used up all the same."""
    files = DictFiles()
    checkpoint(files)
    write_groups(files, group(acked(range(40, 42))))
    recovery, _ = recover(files)
    assert recovery.queues[1].next_position == 42


def test_after_a_crash_everything_counts_as_delivered_and_after_a_stop_what_was() -> None:
    files = DictFiles()
    definitions = DurableTables()
    definitions.take(DeclareQueue(QUEUE, queue_id=1))
    state = QueueState(1, 5, 3, [], 0)
    for clean, delivered in ((True, 3), (False, 5)):
        saved = Checkpoint(1, clean, 1, 1, 3, bytes(16), definitions.encode(), [state], ENTRIES)
        write_manifest(files, NOTHING_MADE)
        write_checkpoint(files, saved)
        recovery, _ = recover(files)
        assert recovery.queues[1].delivered == delivered
        files = DictFiles()
    write_manifest(files, NOTHING_MADE)
    write_checkpoint(files, saved)
    write_groups(files, group(lambda parts: encode_deliver(parts, 1, 4), published(5, b"f")))
    recovery, _ = recover(files)
    assert recovery.queues[1].delivered == 6


def test_definitions_are_replayed_in_order() -> None:
    files = DictFiles()
    checkpoint(files)
    exchange = ExchangeDefinition("e", "topic", True, False, False, {"x": 1})
    binding = BindingDefinition("e", "q", "queue", "key", {})
    other = BindingDefinition("e", "q", "queue", "other", {})
    changes = [
        DeclareExchange(exchange),
        DeclareQueue(QueueDefinition("r", True, False, True, {"y": b"z"}), queue_id=2),
        Bind(binding),
        Bind(other),
        Unbind(other),
        DeclareExchange(ExchangeDefinition("f", "fanout", True, False, False, {})),
        DeleteExchange("/", "f"),
        DeclareQueue(QueueDefinition("s", True, False, False, {}), queue_id=3),
    ]
    parts: list[bytes] = []
    for each in changes:
        encode_definition(parts, encode(each))
    gone = group(lambda parts: encode_queue_deleted(parts, 3))
    other_queue = Run(3, 0, 1, 1, TRAITS, False, [b"x"], [1])
    late = group(lambda parts: encode_run(parts, other_queue))
    write_groups(files, parts, gone, late)
    recovery, errors = recover(files)
    assert errors == []
    found = recovery.definitions
    assert found.exchanges.keys() == {("/", "e")}
    assert found.queues.keys() == recovery.queues.keys() == {1, 2}
    assert found.queues[2].arguments == {"y": b"z"}
    assert found.bindings.keys() == {binding.identity}
    assert recovery.next_queue_id >= 3
    again, errors = recover(files)
    assert again.definitions.encode() == found.encode()
    assert errors == []


def test_a_deleted_queue_leaves_no_files() -> None:
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    write_groups(files, group(lambda parts: encode_queue_deleted(parts, 1)))
    recovery, errors = recover(files)
    assert recovery.queues == {}
    assert errors == []
    assert not [path for path in files.files if path.startswith("queues/")]


def test_segments_keep_the_size_they_were_written_with() -> None:
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    told: list[str] = []
    recovery = Recovery(files, 64, file_id, lambda _, text: told.append(text))
    recovery.run(*(MessageFiles(kind, DictIndex(), 1 << 16, file_id) for kind in KINDS))
    assert recovery.entry_count == recovery.queues[1].index.entry_count == ENTRIES
    assert any("8 entries" in text for text in told)


# What is wrong with it


def test_a_last_group_that_was_never_finished_is_no_error() -> None:
    files = DictFiles()
    checkpoint(files)
    places = write_groups(files, group(published(0, b"a")), group(published(1, b"b" * 50)))
    files.files[journal_path(1)].data[places[1][0] + 40 :] = bytes(100)
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"a"}
    assert errors == []


def test_a_damaged_group_is_told_put_aside_and_the_others_count() -> None:
    files = DictFiles()
    checkpoint(files)
    groups = [group(published(n, b"%d" % n)) for n in range(3)]
    places = write_groups(files, *groups)
    files.files[journal_path(1)].data[places[1][0] + 40] ^= 1
    damaged = files.content(journal_path(1))
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"0", 2: b"2"}
    start, end = places[1]
    assert any(f"{start} to {end}" in error for error in errors)
    assert files.content("quarantine/journal-00000001.jif") == damaged


def test_a_torn_group_in_a_file_that_is_not_the_last_is_told() -> None:
    files = DictFiles()
    checkpoint(files)
    places = write_groups(files, group(published(0, b"a")), group(published(1, b"b")))
    files.files[journal_path(1)].data[places[1][0] + 40] ^= 1
    write_groups(files, group(published(2, b"c")), number=2, before=2)
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"a", 2: b"c"}
    assert any(journal_path(1) in error for error in errors)


def test_a_missing_journal_file_is_refused_when_it_is_the_first() -> None:
    files = DictFiles()
    checkpoint(files)
    write_groups(files, group(published(0, b"a")), number=2)
    assert refused(files).startswith("journal/00000001.jif is missing:")
    recovery, _ = recover(files, accept_loss=True)
    assert contents_of(recovery, files) == {0: b"a"}


def test_groups_that_are_missing_between_two_files_are_told() -> None:
    files = DictFiles()
    checkpoint(files)
    write_groups(files, group(published(0, b"a")))
    write_groups(files, group(published(2, b"c")), number=2, before=3)
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"a", 2: b"c"}
    assert any("groups 2 to 3 are missing" in error for error in errors)


def test_a_missing_journal_file_in_between_is_told() -> None:
    files = DictFiles()
    checkpoint(files)
    write_groups(files, group(published(0, b"a")), number=1)
    write_groups(files, group(published(2, b"c")), number=3, before=1)
    assert refused(files).startswith("journal/00000002.jif is missing:")
    recovery, _ = recover(files, accept_loss=True)
    assert contents_of(recovery, files) == {0: b"a", 2: b"c"}


def test_no_readable_checkpoint_is_refused_and_one_before_is_taken() -> None:
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    recover(files)
    newest, _ = read_newest(files)
    assert newest is not None
    path = f"checkpoint/{newest.number:08d}.ckp"
    files.files[path].data[70] ^= 1
    recovery, errors = recover(files)
    assert live(recovery) == [range(2)]
    assert any(path in error for error in errors)
    for name in files.names("checkpoint"):
        files.files[f"checkpoint/{name}"].data[70] ^= 1
    assert refused(files).startswith("checkpoint has no checkpoint that can be read")


def test_a_segment_that_is_too_short_is_told_and_what_there_is_counts() -> None:
    files = DictFiles()
    state = segment(files, 0, b"a", b"b")
    checkpoint(files, state)
    path = f"{queue_directory(1, True)}/{0:08d}.idx"
    del files.files[path].data[state.length - 8 :]
    cut = files.content(path)
    whole = f"{path} has {state.length - 8} of {state.length} bytes, 2 messages of queue 'q'"
    assert refused(files).startswith(whole)
    recovery, errors = recover(files, accept_loss=True)
    assert live(recovery) == []
    assert any(path in error for error in errors)
    assert files.content("quarantine/queues-1-00000000.idx") == cut


def test_of_a_segment_that_is_too_short_the_blocks_before_the_cut_count() -> None:
    files = DictFiles()
    index = QueueIndex(1, queue_directory(1, True), ENTRIES, file_id)
    for first in (0, 1):
        job = index.write([run_of(first, b"%d" % first)])
        run(files, job)
        index.wrote(job)
    checkpoint(files, *index.states())
    path = f"{queue_directory(1, True)}/{0:08d}.idx"
    del files.files[path].data[-8:]
    assert "1 messages of queue 'q'" in refused(files)
    recovery, _ = recover(files, accept_loss=True)
    assert contents_of(recovery, files) == {0: b"0"}
    write_groups(files, group(published(2, b"2")), number=recovery.journal_number)
    assert contents_of(recover(files)[0], files) == {0: b"0", 2: b"2"}


@pytest.mark.parametrize("place", range(64))
def test_a_segment_whose_header_is_damaged_gets_it_back(place: int) -> None:
    """Its records know which file they belong to."""
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    path = f"{queue_directory(1, True)}/{0:08d}.idx"
    sound = files.content(path)
    files.files[path].data[place] ^= 1 << place % 8
    recovery, errors = recover(files)
    assert contents_of(recovery, files) == {0: b"a", 1: b"b"}
    assert files.content(path) == sound
    assert any("nothing is lost" in error for error in errors)
    assert files.names("quarantine") == ["queues-1-00000000.idx"]
    assert recover(files)[1] == []


def test_two_segments_that_were_swapped_are_put_aside_when_that_is_accepted() -> None:
    files = DictFiles()
    states = [segment(files, 0, b"a", b"b"), segment(files, ENTRIES, b"c", b"d")]
    checkpoint(files, *states)
    paths = [f"{queue_directory(1, True)}/{number:08d}.idx" for number in (0, 1)]
    contents = [files.content(path) for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        files.put(path, content)
    assert "is not the file that the checkpoint means" in refused(files)
    recovery, _ = recover(files, accept_loss=True)
    assert live(recovery) == []
    assert {files.content(f"quarantine/{name}") for name in files.names("quarantine")} == {
        *contents
    }


def test_a_directory_without_its_checkpoints_is_not_taken_for_a_new_one() -> None:
    files = lived()
    files.delete_tree("checkpoint")
    before = {path: files.content(path) for path in files.files}
    assert refused(files).startswith("checkpoint has no checkpoint, without which the")
    recovery, errors = recover(files, accept_loss=True)
    assert recovery.queues == {}
    assert errors
    kept = [files.content(f"quarantine/{name}") for name in files.names("quarantine")]
    assert sorted(kept) == sorted(before.values()), "nothing is deleted"
    assert recover(files)[1] == []


def test_what_is_none_of_ours_is_left_alone() -> None:
    files = lived()
    strays = ["queues/note", "queues/1/note", "queues/9x/a", "journal/note", "streams/note"]
    strays += ["messages/persistent/note", "checkpoint/note", "note"]
    for path in strays:
        files.put(path, b"?")
    files.make_directory("queues/1/00000007.idx")
    files.make_directory("messages/persistent/00000099.rdq")
    assert recover(files)[1] == []
    assert [files.content(path) for path in strays] == [b"?"] * len(strays)


# Cut off


def lived() -> DictFiles:
    """A directory with something of everything, all of it durable."""
    files = DictFiles()
    checkpoint(files, segment(files, 0, b"a", b"b"))
    write_bodies(files, range(70, 72))
    refers = Run(1, 12, 1, 2, TRAITS, True, None, [99] * 2, 70)
    added = encode(DeclareQueue(QueueDefinition("r", True, False, False, {}), queue_id=2))
    numbers = [b"%d" % n for n in range(2, 12)]
    write_groups(files, group(published(2, *numbers), lambda parts: encode_run(parts, refers)))
    second = Run(2, 0, 1, 1, TRAITS, False, [b"x"], [1])
    more = group(lambda parts: encode_definition(parts, added))
    more += group(lambda parts: encode_run(parts, second), acked(range(1, 5)))
    write_groups(files, more, number=2, before=1)
    for path in [*files.files]:
        files.put(path, files.content(path))
    return files


def state_of(recovery: Recovery, files: DictFiles) -> object:
    queues = {
        key: (contents_of(recovery, files, key), queue.next_position, queue.delivered)
        for key, queue in recovery.queues.items()
    }
    return queues, recovery.next_message_id, recovery.definitions.encode()


@pytest.mark.parametrize("keeps", [lambda durable, _: durable, lambda _, written: written])
def test_a_recovery_that_is_cut_off_anywhere_begins_again(
    keeps: Callable[[bytes, bytes], bytes],
) -> None:
    """By a crash after each primitive; what was written and not synced is lost, or is not."""
    files = lived()
    expected = state_of(recover(files)[0], files)
    steps = len(files.actions)
    assert steps > 30
    for done in range(steps):
        files = lived()
        files.actions.clear()
        files.fail_after(done)
        with suppress(DiskFailed):
            recover(files)
        files = files.crash(keeps)
        recovery, errors = recover(files)
        assert state_of(recovery, files) == expected, f"after {done} steps"
        assert errors == []


class Deaf(DictFiles):
    """A sync of these paths has failed once: later ones succeed, and nothing arrives."""

    deaf: tuple[str, ...] = ()

    def sync(self, path: str) -> None:
        if path in self.deaf:
            self.step("sync", path)
        else:
            super().sync(path)


def test_nothing_goes_before_the_new_checkpoint_is_durable() -> None:
    """The newest group can be read, and the disk has never got it; what it makes superfluous is
    needed again when the power goes during the start."""
    whole = lived()
    acks = group(acked(range(2), range(2, 14)))
    newest = journal_path(3)
    write_groups(whole, acks, number=3, before=2)
    steps = 0
    while True:
        files = Deaf()
        for path, node in whole.files.items():
            files.put(path, bytes(node.data))
        files.files[newest].durable = bytes(len(files.content(newest)))
        files.deaf = (newest,)
        files.fail_after(steps)
        try:
            recover(files)
        except DiskFailed:
            left = files.crash()
            for path in left.files.keys() - files.files.keys():
                left.delete(path)  # that it was deleted may arrive without a sync
            _, errors = recover(left)
            assert errors == [], f"after {steps} steps"
            steps += 1
        else:
            break
    assert steps > 30
