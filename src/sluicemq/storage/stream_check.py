"""Checks that the files of a stream have everything they should have. It changes nothing, and reads
everything.
"""

from __future__ import annotations

from collections.abc import Callable

from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.kernel.disk import Files
from sluicemq.storage.entries import StreamFiles
from sluicemq.storage.records import (
    CHUNK,
    FILE_HEADER_SIZE,
    decode_header,
    is_cut_off,
    read_head,
)
from sluicemq.storage.stream_recovery import stream_numbers
from sluicemq.storage.stream_segment import (
    ChunkPlaces,
    SegmentScan,
    StreamSegment,
    read_closed,
    read_places,
    stream_directory,
    stream_path,
)

Say = Callable[[str, str], None]
Count = Callable[[str, int], None]


class StreamCheck:
    """Checks the files of one stream; `finding`, `note` and `count` get the results. `known` says
    which files must exist; None means unknown."""

    def __init__(
        self,
        files: Files,
        queue_id: int,
        finding: Say,
        note: Say,
        count: Count,
        known: StreamFiles | None = None,
    ) -> None:
        self.files = files
        self.queue_id = queue_id
        self.known = known
        self.directory = stream_directory(queue_id)
        self.finding = finding
        self.note = note
        self.count = count

    def run(self) -> None:
        """Check every segment, in order, and that they follow one another from the first required
        one to the end. Raises Refused when a newer version wrote one."""
        self.count("streams", 1)
        known = self.known
        begin = known.first if known is not None else 0
        numbers = [each for each in stream_numbers(self.files, self.directory) if each >= begin]
        end = known.first if known is not None else None
        for number in numbers:
            self.count("stream_segments", 1)
            if end is not None and number > end:
                self.finding(self.directory, f"offsets {end} to {number - 1} are in no file")
            found = self.segment(number, is_last=number == numbers[-1])
            end = found if found is not None or known is None else max(end or 0, number)
        if known is not None and (end is None or end < known.end):
            text = f"offsets {end} to {known.end - 1} are in no file that can be read"
            self.finding(self.directory, text)

    def segment(self, number: int, is_last: bool) -> int | None:
        """Check one file, and return the offset behind its last message; None when that
        is unknown.
        """
        path = stream_path(self.directory, number)
        try:
            data = self.files.read(path, 0, FILE_HEADER_SIZE)
            header = decode_header(data, "stream")
            if (header.number, header.queue) != (number, self.queue_id):
                self.finding(path, "its header is that of another file")
                return None
            return self.chunks(path, number, header.file_id, is_last)
        except Corrupt as error:
            if is_last and is_cut_off(data):
                self.note(path, "was made and never written to")
            else:
                self.finding(path, str(error))
        except Refused as refused:
            raise Refused(f"{path}: {refused}") from None
        except DiskFailed as failure:
            self.finding(path, str(failure))
        return None

    def chunks(self, path: str, number: int, file_id: bytes, is_last: bool) -> int:
        """Check everything in a file that has a header, and return the offset behind its last
        message. Raises Corrupt for a senseless chunk, and DiskFailed."""
        size = self.files.size(path)
        told = StreamSegment(self.queue_id, self.directory, number, file_id)
        is_closed = read_closed(self.files, path, told)
        found = StreamSegment(self.queue_id, self.directory, number, file_id)
        known = self.known
        durable = known.size if known is not None and known.last == number else 0
        scan = SegmentScan(self.files, found, told.size if is_closed else size, is_last, durable)
        self.count("chunks", scan.chunks)
        for start, end, first, behind in scan.damaged:
            text = f"bytes {start} to {end} hold no valid chunk: offsets {first} to {behind - 1}"
            self.finding(path, text)
        if is_closed:
            self.ending(path, told, found)
        elif scan.torn and is_last:
            self.note(path, f"has a torn tail from byte {found.size} on")
        elif not is_last:
            self.finding(path, f"has no end that can be read, from byte {found.size} on")
        return max(found.end, told.end)

    def ending(self, path: str, told: StreamSegment, found: StreamSegment) -> None:
        """Check that the end of a file describes the file as it was `found`; differences are
        findings."""
        for what in ("end", "size", "first_ms", "last_ms", "last_chunk"):
            is_more = what == "end" and told.end > found.end  # a start has accepted this loss
            if getattr(told, what) != getattr(found, what) and not is_more:
                values = f"{getattr(told, what)}, not {getattr(found, what)}"
                self.finding(path, f"its end says that its {what} is {values}")
        try:
            places = read_places(self.files, path, told.file_id, told.size)
        except Corrupt as error:
            self.finding(path, str(error))
            return
        if places is None:
            self.finding(path, "its look-up table cannot be read")
        elif not self.leads_to_chunks(path, places, told):
            self.finding(path, "its look-up table leads to no chunk")

    def leads_to_chunks(self, path: str, places: ChunkPlaces, segment: StreamSegment) -> bool:
        """Tell whether every place in the look-up table has a chunk with that offset."""
        for offset, position in zip(places.offsets, places.positions, strict=True):
            data = self.files.read(path, position, FILE_HEADER_SIZE)
            head = read_head(data, 0, segment.file_id, position)
            if head is None or head.type != CHUNK or head.sequence != offset:
                return False
        return True
