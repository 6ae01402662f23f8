"""The start of a stream: which segments there are, where its log ends, and what of it is damaged.

Only the last segment is read whole, and cut where a write was cut off; of the others their ends
say what they hold. A recovery that is cut off can begin again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import Files
from sluicemq.limits import STREAM_READ_BYTES
from sluicemq.storage.records import FILE_HEADER_SIZE, decode_header, is_cut_off, next_magic
from sluicemq.storage.stream_log import StreamLog, close
from sluicemq.storage.stream_segment import (
    NAME,
    STREAMS,
    Segment,
    SegmentScan,
    read_closed,
    stream_path,
)

QUARANTINE: Final = "quarantine"
CONTENT_BYTES_MIN: Final = 22
"""The shortest content: a header frame without properties."""

Say = Callable[[str, str], None]


def stream_numbers(files: Files, directory: str) -> list[int]:
    """The first offsets of the segments that are there."""
    matches = map(NAME.fullmatch, files.names(directory))
    return sorted(int(match[1]) for match in matches if match)


def forget_streams(files: Files, known: set[int]) -> None:
    """Directories of streams that are no more."""
    for name in files.names(STREAMS):
        if not name.isdigit() or int(name) not in known:
            files.delete_tree(f"{STREAMS}/{name}")


class StreamRecovery:
    """One start of one stream; `say` takes lines for the log: (level, text). Refused: a newer
    version wrote this."""

    def __init__(
        self, files: Files, log: StreamLog, title: str, say: Say, accept_loss: bool = False
    ) -> None:
        self.files = files
        self.log = log
        self.title = title
        self.say = say
        self.accept_loss = accept_loss
        self.segments: list[Segment] = []
        self.next_offset = 0

    def run(self) -> None:
        """Fill in the log."""
        numbers = stream_numbers(self.files, self.log.directory)
        for number in numbers:
            segment = self.segment(number, is_last=number == numbers[-1])
            if segment is None:
                continue
            if segment.first > self.next_offset and self.segments:
                self.lost(self.next_offset, segment.first, "are in no file")
            self.segments.append(segment)
            self.next_offset = max(self.next_offset, segment.end)
        self.log.recovered(self.segments, self.next_offset)

    def segment(self, number: int, is_last: bool) -> Segment | None:
        """One file; None when nothing in it can be used."""
        files = self.files
        path = stream_path(self.log.directory, number)
        data = files.read(path, 0, FILE_HEADER_SIZE)
        try:
            header = decode_header(data, "stream")
            if (header.number, header.queue) != (number, self.log.queue_id):
                raise Corrupt("the file is another's")
        except Corrupt as error:
            if is_last and is_cut_off(data) and not self.has_records(path):
                files.delete(path)  # its header was never durable, so nothing in it was
                files.sync_directory(self.log.directory)
            else:
                self.put_aside(number, path, str(error))
            return None
        segment = Segment(self.log.queue_id, self.log.directory, number, header.file_id)
        if not read_closed(files, path, segment):
            self.scan(segment, is_last)
        return segment

    def has_records(self, path: str) -> bool:
        """Is there something that looks like a record?"""
        position, size = 0, self.files.size(path)
        while position < size:
            if next_magic(self.files.read(path, position, STREAM_READ_BYTES), 0, position) >= 0:
                return True
            position += STREAM_READ_BYTES
        return False

    def scan(self, segment: Segment, is_last: bool) -> None:
        """A file that nobody has closed: the last one is written on, the others are closed now."""
        files = self.files
        path = segment.path
        size = files.size(path)
        found = SegmentScan(files, segment, size, is_last)
        for start, end, first, behind in found.damaged:
            self.lost(first, behind, f"are damaged, in {path} from byte {start} to {end}")
        if not is_last:
            close(files, segment, segment.ending())
            segment.places = None
            return
        if found.cut_chunks:  # if that should not be so, it is damage: then it can still be seen
            self.copy_aside(path, segment.size, size)
        if found.torn:
            self.say("info", f"recovery: {path}: the last write was never finished")
            files.truncate(path, segment.size)
            size = segment.size
        segment.allocated = size
        files.sync(path)  # after a kill the end may not be on the disk yet
        if segment.end == segment.first:  # nor the name; with something in it, it was before
            files.sync_directory(self.log.directory)

    def put_aside(self, number: int, path: str, problem: str) -> None:
        """Without its header nothing in a file can be checked. No offset of it is used again."""
        size = max(0, self.files.size(path) - FILE_HEADER_SIZE)
        self.next_offset = max(self.next_offset, number + size // CONTENT_BYTES_MIN)
        self.files.make_directory(QUARANTINE)
        aside = f"{QUARANTINE}/{path.replace('/', '-')}"
        self.files.rename(path, aside)
        self.files.sync_directory(QUARANTINE)
        self.files.sync_directory(self.log.directory)
        self.say("error", f"recovery: {path}: {problem}; it is {aside} now, its messages are lost")

    def copy_aside(self, path: str, start: int, end: int) -> None:
        """For whoever wants to look at it."""
        self.files.make_directory(QUARANTINE)
        copy = f"{QUARANTINE}/{path.replace('/', '-')}-{start}"
        self.files.write(copy, 0, self.files.read(path, start, end - start))
        self.files.sync(copy)
        self.say("warning", f"recovery: {path}: a copy of its end, from byte {start} on, is {copy}")

    def lost(self, first: int, end: int, how: str) -> None:
        """Messages that were durable cannot be read."""
        text = f"recovery: {self.title}: offsets {first} to {end - 1} {how}"
        self.say("error", text)
