"""Reads messages back: it reads neighbours at once, and verifies every record.

A *span* is a part of one file that is read at once. It includes gaps up to GAP_BYTES, because these
cost less than another read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.message_index import PLACE_MASK, number_of, offset_of, size_of
from sluicemq.storage.records import MESSAGE, read_record

if TYPE_CHECKING:
    from sluicemq.storage.message_file import MessageFile

SPAN_BYTES: Final = 1 << 20
"""A span with more than one record is at most this long."""
GAP_BYTES: Final = 16 * 1024


class ReadSpan:
    """Records of `file` from the offset `start` to before `end`, ascending. `wanted` are (id,
    entry). `problem` says what went wrong when they were read, "" when nothing did; `failure` says
    the same for a failure of the disk."""

    __slots__ = ("end", "failure", "file", "problem", "start", "wanted")

    def __init__(self, file: MessageFile, start: int) -> None:
        self.file = file
        self.start = start
        self.end = start
        self.wanted: list[tuple[int, int]] = []
        self.problem = ""
        self.failure = ""

    def read(self, files: Files) -> tuple[dict[int, bytes], list[int]]:
        """Return the contents of the messages that can be read, by id, and the ids of the
        others."""
        path = self.file.path
        try:
            data = files.read(path, self.start, self.end - self.start)
        except DiskFailed as failure:
            self.problem = self.failure = str(failure)
            return {}, [message_id for message_id, _ in self.wanted]
        contents: dict[int, bytes] = {}
        missing: list[int] = []
        for message_id, entry in self.wanted:
            record = read_record(data, offset_of(entry) - self.start, self.file.file_id, self.start)
            if record is None or record.type != MESSAGE or record.sequence != message_id:
                missing.append(message_id)
            else:
                contents[message_id] = bytes(record.payload)
        if missing:
            self.problem = f"{path}: message {missing[0]} and {len(missing) - 1} more are damaged"
        return contents, missing


def spans_of(wanted: Iterable[tuple[int, int]], table: dict[int, MessageFile]) -> list[ReadSpan]:
    """Return the spans with the records of `wanted`, which are (id, entry); `table` has the files
    by number."""
    spans: list[ReadSpan] = []
    span: ReadSpan | None = None
    for message_id, entry in sorted(wanted, key=place_of):
        offset = offset_of(entry)
        end = offset + size_of(entry)
        if (
            span is None
            or number_of(entry) != span.file.number
            or offset - span.end > GAP_BYTES
            or end - span.start > SPAN_BYTES
        ):
            span = ReadSpan(table[number_of(entry)], offset)
            spans.append(span)
        span.wanted.append((message_id, entry))
        span.end = end
    return spans


def place_of(wanted: tuple[int, int]) -> int:
    """Return the sort key of (id, entry) by which neighbours on the disk are adjacent."""
    return wanted[1] & PLACE_MASK


class ReadMessages(DiskJob):
    """Fills `contents` with the messages of `wanted`, (id, entry) in the files of `table`.

    `missing` are the ids that are unknown or could not be read: `damage` has damaged records,
    `unread` the errors of the disk, which may not come again. Its submitter returns it to
    `MessageFiles.done_reading`, also when nobody wants the contents any more.
    """

    def __init__(
        self, wanted: list[tuple[int, int]], table: dict[int, MessageFile], unknown: list[int]
    ) -> None:
        self.wanted = wanted
        self.table = table
        self.missing = unknown
        self.contents: dict[int, bytes] = {}
        self.damage: list[ReadSpan] = []
        self.unread = ""

    def run(self, files: Files) -> None:
        """Read all spans, each with one read; failures are kept in the job."""
        for span in spans_of(self.wanted, self.table):
            contents, missing = span.read(files)
            self.contents.update(contents)
            self.missing += missing
            if span.failure:
                self.unread = span.failure
            elif missing:
                self.damage.append(span)
