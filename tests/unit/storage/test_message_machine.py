"""Goal: MessageFiles loses nothing it has promised to keep. Method: see message_machine.py; and
bugs planted on purpose, which it must find.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sluicemq.host.lmdb_index import LmdbIndex
from sluicemq.kernel.disk import Files
from sluicemq.kernel.world import Log
from sluicemq.sim.disk import SimFiles
from sluicemq.storage import message_file, message_reads, message_writes
from sluicemq.storage.compaction import Compaction
from sluicemq.storage.message_files import TRANSIENT, MessageFiles
from sluicemq.storage.message_index import ONE, MessageIndex
from sluicemq.storage.message_reads import ReadMessages
from sluicemq.storage.message_recovery import MessageRecovery
from sluicemq.storage.message_writes import MessageWrites

from .message_machine import CANARY_SETTINGS, SETTINGS, MessageMachine

FEWER = settings(SETTINGS, max_examples=SETTINGS.max_examples // 3)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small messages need many steps."""
    monkeypatch.setattr(message_reads, "SPAN_BYTES", 1024)
    monkeypatch.setattr(message_reads, "GAP_BYTES", 64)
    monkeypatch.setattr(message_writes, "WRITE_BYTES", 1024)
    monkeypatch.setattr(message_file, "TAIL_BYTES", 128)


class TransientMachine(MessageMachine):
    """Nothing is ever synced, and a crash leaves nothing."""

    kind = TRANSIENT

    def recover(self, wanted: dict[int, int], power: bool) -> None:
        self.files = self.new_files()
        self.files.wipe(self.disk)
        self.references = {}
        self.contents = {}
        self.late = []


class LmdbMachine(MessageMachine):
    """The other index; changes are written often."""

    def new_index(self) -> MessageIndex:
        self.directory = tempfile.TemporaryDirectory()
        return LmdbIndex(Path(self.directory.name) / "index", Log(), changes_max=8)

    def teardown(self) -> None:
        super().teardown()
        self.index.close()
        self.directory.cleanup()


def test_persistent_messages() -> None:
    run_state_machine_as_test(MessageMachine, settings=SETTINGS)


def test_transient_messages() -> None:
    run_state_machine_as_test(TransientMachine, settings=FEWER)


def test_with_the_index_in_lmdb() -> None:
    run_state_machine_as_test(LmdbMachine, settings=FEWER)


def must_fail() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(MessageMachine, settings=CANARY_SETTINGS)


def test_canary_the_index_moves_before_the_copies_are_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Compaction.complete

    def complete(self: Compaction, files: Files) -> None:
        self.sync = False
        whole(self, files)

    monkeypatch.setattr(Compaction, "complete", complete)
    must_fail()


def test_canary_the_name_of_a_new_file_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: MessageWrites, files: Files) -> None:
        for part in self.parts:
            part.write(files)
            files.sync(part.file.path)

    monkeypatch.setattr(MessageWrites, "run", run)
    must_fail()


def test_canary_a_file_is_deleted_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MessageFiles.find

    def find(self: MessageFiles, ids: list[int]) -> tuple[dict[int, bytes], ReadMessages | None]:
        contents, job = whole(self, ids)
        for file in job.table.values() if job else ():
            file.readers -= 1
        return contents, job

    def done_reading(self: MessageFiles, job: ReadMessages) -> None:
        """It was not counted."""

    monkeypatch.setattr(MessageFiles, "find", find)
    monkeypatch.setattr(MessageFiles, "done_reading", done_reading)
    must_fail()


def test_canary_a_message_is_revived_in_a_file_that_is_combined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = MessageFiles._write_stored

    def write_stored(self: MessageFiles, message_id: int, content: bytes) -> None:
        flags = {file: file.combined for file in self.table.values()}
        for file in flags:
            file.combined = False
        whole(self, message_id, content)
        for file, flag in flags.items():
            file.combined = flag

    monkeypatch.setattr(MessageFiles, "_write_stored", write_stored)
    must_fail()


def test_canary_the_second_reference_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_stored(self: MessageFiles, message_id: int, content: bytes) -> None:
        entry = self.index.get(message_id)
        if entry < ONE:
            self.index.delete_many((message_id,))
            self.buffer[message_id] = content

    monkeypatch.setattr(MessageFiles, "_write_stored", write_stored)
    must_fail()


def test_canary_what_a_start_found_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was killed, its unsynced writes are still there; then the power fails."""
    whole = MessageRecovery.make_durable

    def make_durable(self: MessageRecovery) -> None:
        self.files = NoSync(self.files)
        whole(self)

    class NoSync(SimFiles):
        """The same files, without syncs."""

        def __init__(self, files: Files) -> None:
            self.__dict__ = files.__dict__

        def sync(self, path: str) -> None:
            """Not at all."""

    monkeypatch.setattr(MessageRecovery, "make_durable", make_durable)
    must_fail()
