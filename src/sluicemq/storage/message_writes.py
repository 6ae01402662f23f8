"""Writes messages: one job writes everything that was buffered.

Places are assigned before the job runs, so that it can be repeated: after a full disk the same
bytes go to the same places.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.records import (
    ALIGNMENT,
    FILE_HEADER_SIZE,
    MESSAGE,
    RECORD_HEAD_SIZE,
    pieces_of_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.storage.message_file import Directory, MessageFile

WRITE_BYTES: Final = 4 << 20
"""Records are joined to writes of about this size: smaller writes are slower, larger ones only take
memory."""
ROUND_UP: Final = RECORD_HEAD_SIZE + ALIGNMENT - 1


class FilePart:
    """The part of a job that writes to one file: a record for each of `ids`, from the offset
    `start` to `end`. `offsets` has one more than there are ids, for the end. A part that starts at
    0 creates the file."""

    __slots__ = ("contents", "end", "file", "ids", "offsets", "start")

    def __init__(
        self,
        file: MessageFile,
        start: int,
        ids: list[int],
        contents: list[bytes],
        offsets: list[int],
    ) -> None:
        self.file = file
        self.start = start
        self.ids = ids
        self.contents = contents
        self.offsets = offsets
        self.end = offsets[-1]

    def sizes(self) -> list[int]:
        """Return the bytes of each record."""
        offsets = self.offsets
        return [end - start for start, end in pairwise(offsets)]

    def write(self, files: Files) -> None:
        """Write all records, in writes of about WRITE_BYTES. Raises DiskFailed."""
        path, file_id, offsets = self.file.path, self.file.file_id, self.offsets
        begin = 0
        at = self.start
        joined = [] if self.start else [self.file.header()]
        while begin < len(self.ids):
            end = max(begin + 1, bisect_left(offsets, offsets[begin] + WRITE_BYTES) - 1)
            joined += pieces_of_records(
                file_id, MESSAGE, self.ids[begin:end], offsets[begin:end], self.contents[begin:end]
            )
            files.write(path, at, b"".join(joined))
            begin = end
            at = offsets[begin]
            joined = []


class MessageWrites(DiskJob):
    """Writes `parts`, durably when `sync` is true, and directories at the end of `full` files,
    whose messages are durable since the previous job."""

    def __init__(
        self,
        directory: str,
        sync: bool,
        contents: dict[int, bytes],
        parts: list[FilePart],
        full: list[tuple[MessageFile, Directory]],
    ) -> None:
        self.directory = directory
        self.sync = sync
        self.contents = contents
        self.parts = parts
        self.full = full

    def run(self, files: Files) -> None:
        """Write everything and sync it. It may be run again after it has failed for
        lack of space.
        """
        for file, directory in self.full:
            files.write(file.path, file.size, directory.encode(file.file_id, file.size))
        for part in self.parts:
            part.write(files)
        if not self.sync:
            return
        for part in self.parts:
            files.sync(part.file.path)
        if any(part.start == 0 for part in self.parts):
            files.sync_directory(self.directory)


def parts_of(
    contents: dict[int, bytes],
    current: MessageFile | None,
    file_size_limit: int,
    new_file: Callable[[], MessageFile],
) -> list[FilePart]:
    """Return parts with a place for each of the contents: in `current` until that reaches the
    limit, then in new files. The record that crosses the limit still goes into the file."""
    ids = list(contents)
    bodies = list(contents.values())
    sizes = [len(body) + ROUND_UP & -ALIGNMENT for body in bodies]
    parts: list[FilePart] = []
    begin = 0
    while begin < len(ids):
        if current is None or current.size >= file_size_limit:
            current = new_file()
        start = current.size or FILE_HEADER_SIZE
        offsets = list(accumulate(sizes[begin:], initial=start))
        # The record that crosses the limit still belongs here.
        count = min(len(offsets) - 1, bisect_left(offsets, file_size_limit))
        end = begin + count
        part = FilePart(
            current, current.size, ids[begin:end], bodies[begin:end], offsets[: count + 1]
        )
        parts.append(part)
        begin = end
        current = None
    return parts
