"""Reads one stream back as after a restart, while the broker runs.

The job runs behind the stream's own writes, in their strand. The newest checkpoint and the journal
behind it say which files must exist; before the job runs, all entries about the stream must be
durable.
"""

from __future__ import annotations

from sluicemq.kernel.disk import Files
from sluicemq.storage.checkpoint import read_newest
from sluicemq.storage.entries import StreamFiles
from sluicemq.storage.journal import Replay, journal_numbers
from sluicemq.storage.queue_recovery import ReadBack
from sluicemq.storage.stream_recovery import StreamRecovery


class StreamReadBack(ReadBack):
    """Reads one stream back from the disk; `found` is the stream when the job is done, settled.
    `first` is the number of the first file of the journal that counts. Losses are logged."""

    def __init__(self, queue_id: int, first: int) -> None:
        super().__init__()
        self.queue_id = queue_id
        self.first = first
        self.found: StreamRecovery | None = None

    def read(self, files: Files) -> None:
        found = StreamRecovery(files, self.queue_id, "it", self.say, self.known(files))
        found.look()
        for loss in found.losses:
            self.say("error", str(loss))
        found.settle()
        self.found = found

    def known(self, files: Files) -> StreamFiles | None:
        """Return which files the stream must have; None when that is unknown. Raises DiskFailed."""
        checkpoint, _ = read_newest(files)
        said = [] if checkpoint is None else [*checkpoint.streams]
        for number in journal_numbers(files):
            if number >= self.first:
                entries = Replay(files, number).entries
                said += [entry for entry in entries if isinstance(entry, StreamFiles)]
        known: StreamFiles | None = None
        for each in said:
            if each.queue == self.queue_id:
                known = each if known is None else each.after(known)
        return known
