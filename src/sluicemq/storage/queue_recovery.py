"""Reads one durable queue back as after a restart, while the broker runs.

The job does not trust the queue's actor any more, only the disk: the queue's state in the newest
checkpoint (or in the snapshot for the next one), the journal behind it, its segments. Before the
job runs, all entries of the queue must be durable in the journal, and until it ends no checkpoint
may be made without the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.audit import Loss
from sluicemq.storage.checkpoint import decode_queue_state, read_newest
from sluicemq.storage.entries import Ack, Delivered, Run
from sluicemq.storage.index_audit import IndexAudit
from sluicemq.storage.journal import Replay, journal_numbers
from sluicemq.storage.quarantine import NotKept, Poison, Quarantine, Wanted
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.queue_replica import QueueReplica
from sluicemq.storage.records import FORMAT
from sluicemq.storage.segments import queue_directory

if TYPE_CHECKING:
    from sluicemq.storage.audit import Loss
from sluicemq.storage.checkpoint import QueueState


class OneQueue:
    """The parts of a start for one queue. `say` takes lines for the log, as (level, text)."""

    def __init__(
        self,
        files: Files,
        queue_id: int,
        entry_count: int,
        new_file_id: Callable[[], bytes],
        say: Callable[[str, str], None],
    ) -> None:
        self.files = files
        self.queue_id = queue_id
        self.entry_count = entry_count
        self.new_file_id = new_file_id
        self.say = say

    def run_one(self, state: QueueState | None, first: int) -> QueueReplica:
        """Return the queue after `state` and the journal from file `first` on, with all of it
        written to its segments. A `state` of None means that the queue had none. Raises DiskFailed,
        and Corrupt when a group of the journal makes no sense."""
        files = self.files
        directory = queue_directory(self.queue_id, durable=True)
        index = QueueIndex(self.queue_id, directory, self.entry_count, self.new_file_id)
        queue = QueueReplica(index)
        if state is not None:
            queue.adopt(state)
        for number in journal_numbers(files):
            if number >= first:
                for entry in Replay(files, number).entries:
                    if isinstance(entry, Run | Ack | Delivered) and entry.queue == self.queue_id:
                        queue.apply(entry)
        queue.all_delivered()
        losses: list[Loss] = []
        segments = IndexAudit(files, losses, self.say)
        segments.look(queue, "it")
        queue.references(files, self.warn)  # where blocks are, and whether messages expire
        segments.mend()
        queue.save(files)
        for loss in losses:
            self.say("error", str(loss))
        for path in queue.collect():
            files.delete(path)
        return queue

    def warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.say("error", f"recovery: {problem}")


class ReadBack(DiskJob):
    """Reads one queue back. A fault in it is that queue's: it is kept in `fault`, and the job has
    no result."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.fault: Exception | None = None
        self.is_done = False

    def run(self, files: Files) -> None:
        self.said.clear()
        try:
            self.read(files)
            self.is_done = True
        except DiskFailed:
            raise
        except Exception as error:
            self.fault = error

    def read(self, files: Files) -> None:
        """Read everything back; may be repeated after a failure. Raises DiskFailed."""
        raise NotImplementedError

    def say(self, level: str, text: str) -> None:
        """Keep a line for the log, which is written after the job."""
        self.said.append((level, text))


class QueueRecovery(ReadBack):
    """Reads one classic queue back from the disk; `found` is the queue when the job is done.

    `state` is the encoded queue at the last snapshot; None means that the newest checkpoint has it.
    `first` is the number of the first file of the journal that counts. The messages `wanted` are to
    be set aside; `prefix` and `known` are as in Quarantine. Then `kept` has those that were set
    aside and `ids` their bodies in the message store; or `not_kept` says why none was.
    """

    def __init__(
        self,
        queue_id: int,
        entry_count: int,
        new_file_id: Callable[[], bytes],
        state: bytes | None,
        first: int,
        wanted: Sequence[Wanted] = (),
        prefix: int = 0,
        known: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.queue_id = queue_id
        self.entry_count = entry_count
        self.new_file_id = new_file_id
        self.state = state
        self.first = first
        self.wanted = wanted
        self.prefix = prefix
        self.known = known or {}
        self.kept: list[Poison] = []
        self.ids: list[range] = []
        self.not_kept = ""
        self.found: QueueReplica | None = None

    def read(self, files: Files) -> None:
        one = OneQueue(files, self.queue_id, self.entry_count, self.new_file_id, self.say)
        found = one.run_one(self.state_in(files), self.first)
        if self.wanted:
            self.set_aside(files, found)
        self.found = found

    def set_aside(self, files: Files, found: QueueReplica) -> None:
        """Take the messages that make the queue fault out of it, if there is room in the
        quarantine. Raises DiskFailed."""
        quarantine = Quarantine(files, found.index, self.new_file_id, self.prefix, self.known)
        try:
            self.kept, runs = quarantine.set_aside(self.wanted)
        except NotKept as why:
            self.not_kept = str(why)
            return
        for run in runs:
            found.unweigh(run)
        self.ids = [range(run.first_id, run.first_id + 1) for run in runs if run.first_id]

    def state_in(self, files: Files) -> QueueState | None:
        """Return the state to begin with, from the last snapshot or the newest checkpoint; None
        when neither has the queue."""
        if self.state is not None:
            return decode_queue_state(self.state, 0, FORMAT)[0]
        checkpoint, _ = read_newest(files)
        states = [] if checkpoint is None else checkpoint.queues
        return next((state for state in states if state.id == self.queue_id), None)
