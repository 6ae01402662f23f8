"""Goal: recovery takes what is there for what it is. Method: a checkpoint and a journal are written
by hand, as a broker that was killed at an unlucky moment leaves them.
"""

from __future__ import annotations

from itertools import count

from sluicemq.model.definitions import BindingDefinition, QueueDefinition
from sluicemq.model.durable import DurableDefinitions
from sluicemq.storage.checkpoint import Checkpoint, QueueState, SegmentState, write_checkpoint
from sluicemq.storage.entries import (
    Run,
    encode_ack,
    encode_definition,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.journal import Journal
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.recovery import Recovery, queue_directory
from unit.storage.files import DictFiles

ENTRIES = 8
QUEUE = QueueDefinition("q", True, False, False, {})
NUMBERS = count(1)


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def run_of(first: int, *contents: bytes) -> Run:
    return Run(
        queue=1,
        first=first,
        step=1,
        count=len(contents),
        address=b"",
        number=1,
        even=False,
        persistent=True,
        contents=list(contents),
        sizes=[len(content) for content in contents],
    )


def checkpoint(files: DictFiles, *segments: SegmentState) -> None:
    """Of one queue, whose next position is 2; the journal goes on with file 1."""
    definitions = DurableDefinitions()
    definitions.add_queue(1, QUEUE)
    state = QueueState(1, 2, 0, list(segments), 0)
    encoded = definitions.encode()
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


def recover(files: DictFiles) -> tuple[Recovery, list[str]]:
    """What was found, and which errors were told."""
    errors: list[str] = []

    def say(level: str, text: str) -> None:
        if level == "error":
            errors.append(text)

    recovery = Recovery(files, ENTRIES, file_id, say)
    stores = (MessageFiles(kind, DictIndex(), 1 << 16, file_id) for kind in KINDS)
    recovery.run(*stores)
    return recovery, errors


KINDS = ("persistent", "transient")


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
    recovery, errors = recover(files)
    assert live(recovery) == []
    assert ["2 messages are lost" in error for error in errors] == [True]


def test_what_binds_a_queue_that_the_checkpoint_knows_as_deleted_is_dropped() -> None:
    files = DictFiles()
    checkpoint(files)
    binding = BindingDefinition("amq.direct", "gone", "queue", "key", {})
    parts: list[bytes] = []
    encode_definition(parts, DurableDefinitions().add_binding(binding))
    encode_queue_deleted(parts, 2)
    journal(files, parts)
    recovery, errors = recover(files)
    assert recovery.definitions.bindings == {}
    assert list(recovery.definitions.queues) == [1]
    assert errors == []
