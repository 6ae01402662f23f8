"""Reclaims space: combines two files into one, and deletes files without live messages.

Records are only copied into new files, and the old files stay until the index points to the new one
and nobody reads from them. So a crash at any point leaves each message at least once; a start takes
the first of two copies. A copy is made in steps of at most SPAN_BYTES or one record, each one job,
so that writes get their turn in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.message_file import Directory, MessageFile
from sluicemq.storage.message_index import size_of
from sluicemq.storage.message_reads import ReadSpan, spans_of
from sluicemq.storage.records import FILE_HEADER_SIZE, MESSAGE, pieces_of_records

GARBAGE_FRACTION: Final = 0.5
"""Above this share of garbage files are combined (RabbitMQ's GARBAGE_FRACTION)."""
QUARANTINE: Final = "quarantine"
COPY_BYTES: Final = 4 << 20
"""Bytes of a damaged file that are copied at a time."""


def is_wanted(files: int, total_bytes: int, valid_bytes: int, file_size_limit: int) -> bool:
    """Tell whether there is enough garbage to be worth copying, or far more files than the messages
    need: starts leave many, because they never append to an old file."""
    if total_bytes > 2 * file_size_limit:
        garbage = total_bytes - valid_bytes
        if garbage > GARBAGE_FRACTION * total_bytes:
            return True
    return files > 3 + 2 * valid_bytes // file_size_limit


def choose(
    candidates: Iterable[MessageFile], file_size_limit: int
) -> tuple[MessageFile, MessageFile] | None:
    """Return the two oldest neighbours whose valid records fit into one file; None without any."""
    for left, right in pairwise(candidates):
        if left.valid + right.valid <= file_size_limit:
            return left, right
    return None


class Compaction(DiskJob):
    """Copies `wanted`, (id, entry) in the two `sources`, into `target`: each run copies one span,
    the last run writes the end of the target. A run that failed is simply repeated.

    `moved` has (id, entry it was copied from, offset in the target). Damage is not copied: when a
    span is `damaged` the copy ends, and the target is to be deleted.
    """

    def __init__(
        self,
        directory: str,
        sync: bool,
        target: MessageFile,
        sources: tuple[MessageFile, MessageFile],
        wanted: list[tuple[int, int]],
    ) -> None:
        assert wanted, "a file with nothing alive is deleted, not copied"
        self.directory = directory
        self.sync = sync
        self.target = target
        self.sources = sources
        self.wanted = wanted
        self.spans: list[ReadSpan] = []
        self.damaged: ReadSpan | None = None
        self.is_complete = False
        self.begin()

    def begin(self) -> None:
        """Go back to the start of the copy."""
        self.next_span = 0
        self.end = FILE_HEADER_SIZE
        self.moved: list[tuple[int, int, int]] = []

    def run(self, files: Files) -> None:
        """Copy the next span, or complete the target when all are copied."""
        if not self.spans:
            self.spans = spans_of(self.wanted, {file.number: file for file in self.sources})
        if self.next_span < len(self.spans):
            self.copy(files, self.spans[self.next_span])
        else:
            self.complete(files)

    def copy(self, files: Files, span: ReadSpan) -> None:
        """Read and verify the records of a span, and encode them anew, because a record's crc is
        valid for one place only. Damage is kept in `damaged`."""
        contents, _ = span.read(files)
        if span.problem:
            self.damaged = span
            return
        target = self.target
        at = self.end
        start = 0 if self.next_span == 0 else at
        moved: list[tuple[int, int, int]] = []
        for message_id, entry in span.wanted:
            moved.append((message_id, entry, at))
            at += size_of(entry)
        ids = [message_id for message_id, _, _ in moved]
        offsets = [offset for _, _, offset in moved]
        joined = pieces_of_records(
            target.file_id, MESSAGE, ids, offsets, map(contents.__getitem__, ids)
        )
        files.write(target.path, start, b"".join(joined if start else [target.header(), *joined]))
        self.moved += moved
        self.end = at
        self.next_span += 1

    def complete(self, files: Files) -> None:
        """Make the copies durable before anybody reads them, and write the target's directory. When
        the sync fails the copy begins anew, because the written data may be lost."""
        if self.sync:
            try:
                files.sync(self.target.path)
            except DiskFailed:
                self.begin()  # written data may be lost, whatever a second sync says
                raise
            files.sync_directory(self.directory)
        listed = self.contents()
        files.write(self.target.path, self.end, listed.encode(self.target.file_id, self.end))
        self.is_complete = True

    def contents(self) -> Directory:
        """Return the directory of the target: the messages copied so far, and their places."""
        return Directory(
            [message_id for message_id, _, _ in self.moved],
            [offset for _, _, offset in self.moved],
            [size_of(entry) for _, entry, _ in self.moved],
        )


class Deletion(DiskJob):
    """Deletes files that nobody reads and that have no live messages. Damaged files are put aside
    for later inspection."""

    def __init__(self, directory: str, doomed: list[MessageFile]) -> None:
        self.directory = directory
        self.doomed = doomed

    def run(self, files: Files) -> None:
        """Delete the files, or put them aside, durably. It may be run again after a failure."""
        for file in self.doomed:
            if file.damaged and files.size(file.path) >= 0:
                put_aside(files, file.path)
            else:
                files.delete(file.path)
        files.sync_directory(self.directory)


def put_aside(files: Files, path: str) -> str:
    """Rename a file into the quarantine, under a name that is free there, and return the new path.
    The caller syncs the directory it was in."""
    kept = place_for(files, path)
    files.rename(path, kept)
    files.sync_directory(QUARANTINE)
    return kept


def keep_copy(files: Files, path: str) -> str:
    """Copy a file into the quarantine, durably, and return the path of the copy."""
    kept = place_for(files, path)
    files.write(kept, 0, b"")  # should the file be empty
    for at in range(0, files.size(path), COPY_BYTES):
        files.write(kept, at, files.read(path, at, COPY_BYTES))
    files.sync(kept)
    files.sync_directory(QUARANTINE)
    return kept


def place_for(files: Files, path: str) -> str:
    """Return an unused path in the quarantine, made of the file's path."""
    files.make_directory(QUARANTINE)
    name = "-".join(path.split("/"))
    kept = f"{QUARANTINE}/{name}"
    again = 0
    while files.size(kept) >= 0:
        again += 1
        kept = f"{QUARANTINE}/{name}.{again}"
    return kept
