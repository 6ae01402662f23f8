"""The start of a stream: finds its segments, the end of its log, and damage.

    look     reads only; finds what is missing
    settle   makes it durable, when the start goes on

It reads only the last segment whole, and truncates it where a write was cut off; the ends of the
others describe their contents. An interrupted recovery can begin again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sluicemq.errors import Corrupt, DiskFailed
from sluicemq.kernel.disk import Files
from sluicemq.limits import STREAM_READ_BYTES
from sluicemq.storage.audit import Loss
from sluicemq.storage.compaction import put_aside
from sluicemq.storage.entries import StreamFiles
from sluicemq.storage.records import FILE_HEADER_SIZE, decode_header, is_cut_off, next_magic
from sluicemq.storage.stream_log import StreamLog, close
from sluicemq.storage.stream_segment import (
    NAME,
    STREAMS,
    ChunkPlaces,
    SegmentScan,
    StreamSegment,
    read_closed,
    read_places,
    stream_directory,
    stream_path,
)

QUARANTINE: Final = "quarantine"
CONTENT_BYTES_MIN: Final = 22
"""The size of the shortest content: a header frame without properties."""

Say = Callable[[str, str], None]


def stream_numbers(files: Files, directory: str) -> list[int]:
    """Return the first offsets of a directory's segments, in order."""
    matches = map(NAME.fullmatch, files.names(directory))
    numbers = sorted(int(match[1]) for match in matches if match)
    return [each for each in numbers if not files.is_directory(stream_path(directory, each))]


def forget_streams(files: Files, known: set[int], keep: bool = False) -> None:
    """Delete the directories of streams that are not `known`. With `keep` their files are put
    aside, because the definition may be what was lost. Raises DiskFailed."""
    for name in files.names(STREAMS):
        path = f"{STREAMS}/{name}"
        if not name.isdecimal() or int(name) in known or not files.is_directory(path):
            continue
        for number in stream_numbers(files, path) if keep else ():
            put_aside(files, stream_path(path, number))
        files.delete_tree(path)


class StreamRecovery:
    """One start of one stream.

    `say` takes lines for the log, as (level, text). `known` has the files according to checkpoint
    and journal, None when they have none. `given_up` are errors of the disk with which a file
    counts as lost.
    """

    def __init__(
        self,
        files: Files,
        queue_id: int,
        title: str,
        say: Say,
        known: StreamFiles | None = None,
        given_up: tuple[str, ...] = (),
    ) -> None:
        self.files = files
        self.queue_id = queue_id
        self.directory = stream_directory(queue_id)
        self.title = title
        self.say = say
        self.known = known
        self.given_up = given_up
        self.segments: list[StreamSegment] = []
        self.next_offset = 0
        self.losses: list[Loss] = []
        self.unreadable: dict[int, str] = {}
        """By file number, why nothing in the file can be known."""
        self.unclosed: dict[int, SegmentScan] = {}
        """Scans of unclosed files, by their numbers."""
        self.dropped: list[str] = []
        """Files that are of no use."""
        self.aside: list[str] = []
        self.extended: list[StreamSegment] = []
        """Files followed by a gap from now on."""

    @property
    def files_now(self) -> StreamFiles | None:
        """Return the files that must exist from now on; None without any."""
        if not self.segments:
            return None
        last = self.segments[-1]
        first = self.segments[0].first
        return StreamFiles(self.queue_id, first, last.first, self.next_offset, last.size)

    def look(self) -> None:
        """Find out what exists, without changing anything. Raises Refused when a newer version
        wrote it, and DiskFailed for an error that is not `given_up`."""
        numbers = stream_numbers(self.files, self.directory)
        if self.known is not None:
            old = [number for number in numbers if number < self.known.first]
            self.dropped += [stream_path(self.directory, number) for number in old]
            numbers = numbers[len(old) :]
            self.next_offset = self.known.first
        found = [self.open(number, number == numbers[-1]) for number in numbers]
        segments = [segment for segment in found if segment is not None]
        for segment in segments:
            if not read_closed(self.files, segment.path, segment):
                self.scan(segment, segment is segments[-1])
            self.add(segment)
        if self.known is not None and self.next_offset < self.known.end:
            self.miss_end(self.known)
        for number, problem in self.unreadable.items():
            path = stream_path(self.directory, number)
            self.aside.append(path)
            if all(loss.path != path for loss in self.losses):
                self.say("error", f"recovery: {path}: {problem}; it is put aside")

    def open(self, number: int, is_last: bool) -> StreamSegment | None:
        """Return the segment of one file; None when it cannot be used. Raises Refused when a newer
        version wrote it, and DiskFailed for an error that is not `given_up`."""
        path = stream_path(self.directory, number)
        try:
            data = self.files.read(path, 0, FILE_HEADER_SIZE)
            header = decode_header(data, "stream")
            if (header.number, header.queue) != (number, self.queue_id):
                raise Corrupt("the file is another's")
            return StreamSegment(self.queue_id, self.directory, number, header.file_id)
        except Corrupt as error:
            is_new = is_last and (self.known is None or number > self.known.last)
            if is_new and is_cut_off(data) and not self.has_records(path):
                self.dropped.append(path)  # its header was never durable, so nothing in it was
            else:
                self.unreadable[number] = str(error)
                if self.known is None:
                    self.use_no_offset_of(number, path)
        except DiskFailed as failure:
            if failure.code not in self.given_up:
                raise
            self.unreadable[number] = str(failure)
        return None

    def use_no_offset_of(self, number: int, path: str) -> None:
        """Skip as many offsets as the file may have had messages, because nobody knows their
        number: none of these offsets is used again."""
        size = max(0, self.files.size(path) - FILE_HEADER_SIZE)
        end = number + size // CONTENT_BYTES_MIN
        self.known = StreamFiles(self.queue_id, min(self.next_offset, number), number, end, 0)

    def has_records(self, path: str) -> bool:
        """Tell whether a file has anything like a record. Raises DiskFailed."""
        position, size = 0, self.files.size(path)
        while position < size:
            if next_magic(self.files.read(path, position, STREAM_READ_BYTES), 0, position) >= 0:
                return True
            position += STREAM_READ_BYTES
        return False

    def scan(self, segment: StreamSegment, is_last: bool) -> None:
        """Read all chunks of a file that was not closed, and log damaged ones."""
        size = self.files.size(segment.path)
        found = SegmentScan(self.files, segment, size, is_last, self.durable_size(segment))
        self.unclosed[segment.first] = found
        for start, end, first, behind in found.damaged:
            how = f"are damaged, in {segment.path} from byte {start} to {end}"
            self.lost(first, behind, how)

    def durable_size(self, segment: StreamSegment) -> int:
        """Return how many bytes of the file are known to be on the disk; 0 when unknown."""
        known = self.known
        return known.size if known is not None and known.last == segment.first else 0

    def add(self, segment: StreamSegment) -> None:
        """Take the next file. Offsets missing between it and the previous one are a loss."""
        at = self.next_offset
        if segment.first > at and (self.segments or self.known is not None):
            self.miss(at, segment.first)
        self.segments.append(segment)
        self.next_offset = max(at, segment.end)

    def miss(self, start: int, end: int) -> None:
        """Note that the offsets from `start` to before `end`, which were durable, are
        in no file.
        """
        before = self.segments[-1] if self.segments else None
        unreadable = [number for number in self.unreadable if start <= number < end]
        if unreadable:
            path = stream_path(self.directory, unreadable[0])
            self.lose(path, f"cannot be read: {self.unreadable[unreadable[0]]}", start, end)
        elif before is not None and before.first in self.unclosed:
            self.lose(before.path, "has lost its end", start, end)
        else:
            self.lose(stream_path(self.directory, start), "is missing", start, end)
        self.extend(before, end)

    def miss_end(self, known: StreamFiles) -> None:
        """Note that the log ends too early, and go on behind its proper end."""
        start = self.next_offset
        last = self.segments[-1] if self.segments else None
        if last is None or last.first < known.last:
            self.miss(start, known.end)
        elif self.files.size(last.path) < known.size:
            what = f"has {self.files.size(last.path)} of at least {known.size} bytes"
            self.lose(last.path, what, start, known.end)
        else:
            self.lost(start, known.end, f"are damaged, in {last.path} from byte {last.size} on")
        self.extend(last, known.end)
        self.next_offset = known.end

    def lose(self, path: str, how: str, start: int, end: int) -> None:
        """Note that a file, or a part of it, is missing, so that the offsets from `start` to before
        `end` are lost."""
        text = f"{how}: offsets {start} to {end - 1} of {self.title} are lost"
        self.losses.append(Loss(path, text))

    def extend(self, segment: StreamSegment | None, end: int) -> None:
        """Make the end of the file cover offsets up to `end`, so that the gap is known from now on.
        None is no file."""
        if segment is not None:
            segment.end = end
            self.extended.append(segment)

    def settle(self) -> None:
        """Make the result durable: useless files are deleted or put aside, and files without an end
        get one, except the last. Raises DiskFailed."""
        files = self.files
        for path in self.dropped:
            files.delete(path)
            files.sync_directory(self.directory)
        for path in self.aside:
            kept = put_aside(files, path)
            self.say("error", f"recovery: {path} is {kept} now")
        if self.aside:
            files.sync_directory(self.directory)
        for segment in self.segments:
            found = self.unclosed.get(segment.first)
            if found is not None:
                self.settle_unclosed(segment, found)
            elif segment in self.extended:
                places = read_places(files, segment.path, segment.file_id, segment.size)
                segment.places = places or ChunkPlaces()
                self.close(segment)

    def settle_unclosed(self, segment: StreamSegment, found: SegmentScan) -> None:
        """Truncate the last file where a write was cut off, so that it can be written on; close any
        other one. Raises DiskFailed."""
        files = self.files
        path = segment.path
        size = files.size(path)
        is_last = segment is self.segments[-1]
        if found.cut_chunks or (segment in self.extended and segment.size < size):
            self.copy_aside(path, segment.size, size)  # if it is damage it can still be seen
        if not is_last or segment in self.extended:
            self.close(segment)
            return
        if found.torn:
            self.say("info", f"recovery: {path}: the last write was not finished")
            files.truncate(path, segment.size)
            size = segment.size
        segment.allocated = size
        self.write_again(segment)
        files.sync(path)
        if segment.end == segment.first:  # nor is the name; with messages in it, it was before
            files.sync_directory(self.directory)

    def write_again(self, segment: StreamSegment) -> None:
        """Rewrite what may not be durable. After a kill the end may not be on the disk yet; and
        after a failed sync another sync would not bring it there. Raises DiskFailed."""
        position = self.durable_size(segment)
        while position < segment.size:
            size = min(STREAM_READ_BYTES, segment.size - position)
            data = self.files.read(segment.path, position, size)
            self.files.write(segment.path, position, data)
            position += size

    def close(self, segment: StreamSegment) -> None:
        """Write the end of the file, durably. Raises DiskFailed."""
        close(self.files, segment, segment.ending())
        segment.places = None

    def copy_aside(self, path: str, start: int, end: int) -> None:
        """Keep a copy of the bytes from `start` to before `end` in the quarantine, and log where it
        is. Raises DiskFailed."""
        self.files.make_directory(QUARANTINE)
        copy = f"{QUARANTINE}/{path.replace('/', '-')}-{start}"
        self.files.write(copy, 0, self.files.read(path, start, end - start))
        self.files.sync(copy)
        self.say("warning", f"recovery: {path}: its end, from byte {start} on, is copied to {copy}")

    def lost(self, first: int, end: int, how: str) -> None:
        """Log that the offsets from `first` to before `end`, which were durable, cannot be read."""
        text = f"recovery: {self.title}: offsets {first} to {end - 1} {how}"
        self.say("error", text)


def recover_stream(files: Files, log: StreamLog, title: str, say: Say) -> StreamRecovery:
    """Do a whole start of a log that is not written to yet, accepting all losses, and return the
    result. Raises Refused when a newer version wrote it, and DiskFailed."""
    recovery = StreamRecovery(files, log.queue_id, title, say)
    recovery.look()
    for loss in recovery.losses:
        say("error", f"recovery: {loss}")
    recovery.settle()
    log.recovered(recovery.segments, recovery.next_offset)
    return recovery
