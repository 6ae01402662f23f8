"""`fsck --repair`: does without lost data, so that a broker starts and fsck finds nothing more.

It rewrites damaged files with all sound records, under an unused name or over the old file, after
putting the damaged file into the quarantine. Then it does the work of a start that accepts a loss.
It may be interrupted anywhere, and repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import Files
from sluicemq.storage.compaction import keep_copy, put_aside
from sluicemq.storage.message_file import EXTENSION, number_in
from sluicemq.storage.message_files import PERSISTENT, TRANSIENT, MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.records import (
    CHUNK,
    FILE_HEADER_SIZE,
    MESSAGE,
    FileHeader,
    Record,
    decode_header,
    encode_record,
    scan,
)
from sluicemq.storage.recovery import Recovery
from sluicemq.storage.stream_log import StreamLog
from sluicemq.storage.stream_recovery import forget_streams, recover_stream, stream_numbers
from sluicemq.storage.stream_segment import (
    SegmentScan,
    StreamSegment,
    stream_directory,
    stream_path,
)

MESSAGES: Final = f"messages/{PERSISTENT}"
ENTRY_COUNT: Final = 16384
"""The entries of a segment in a directory that has lost this number."""
FILE_BYTES: Final = 16 << 20
UNFINISHED: Final = ".tmp"

Say = Callable[[str, str], None]
"""(level, text)"""


class Repair:
    """Repairs one data directory. `say` takes a line, as (level, text), for each repair."""

    def __init__(self, files: Files, new_file_id: Callable[[], bytes], say: Say) -> None:
        self.files = files
        self.new_file_id = new_file_id
        self.say = say

    def run(self) -> None:
        """Repair everything, so that a broker starts. Raises Refused when a newer version wrote the
        directory, and DiskFailed."""
        self.message_files()
        persistent, transient = (
            MessageFiles(kind, DictIndex(), FILE_BYTES, self.new_file_id)
            for kind in (PERSISTENT, TRANSIENT)
        )
        recovery = Recovery(
            self.files, ENTRY_COUNT, self.new_file_id, self.say, accept_loss=True, thorough=True
        )
        recovery.run(persistent, transient)
        forget_streams(self.files, {*recovery.streams}, keep=bool(recovery.losses))
        for key in recovery.definitions.in_stream_files():
            self.stream(key)

    def message_files(self) -> None:
        """Copy the sound records of each damaged file of the message store to a new file, and put
        the damaged one aside. A message may be in two files, so nothing is lost wherever this ends.
        """
        files = self.files
        found = {number_in(name): f"{MESSAGES}/{name}" for name in files.names(MESSAGES)}
        numbers = sorted(number for number in found if number is not None)
        after = max(numbers, default=0) + 1
        for number in numbers:
            if files.is_directory(found[number]):
                continue
            data = files.read(found[number], 0, files.size(found[number]))
            try:
                header = decode_header(data, "messages")
            except Corrupt:
                continue  # nothing in it can be known
            looked = scan(data, header.file_id)
            if looked.damaged:
                new = FileHeader("messages", self.new_file_id(), after)
                sound = [record for record in looked.records if record.type == MESSAGE]
                self.write(f"{MESSAGES}/{after:08d}{EXTENSION}", new, sound)
                kept = put_aside(files, found[number])
                files.sync_directory(MESSAGES)
                self.say("error", f"{found[number]} was damaged: it is {kept} now")
                after += 1

    def stream(self, queue_id: int) -> None:
        """Repair the segments of the stream of one queue."""
        directory = stream_directory(queue_id)
        numbers = stream_numbers(self.files, directory)
        for number in numbers:
            self.stream_segment(queue_id, stream_path(directory, number), number == numbers[-1])

    def stream_segment(self, queue_id: int, path: str, is_last: bool) -> None:
        """Rewrite one segment of a stream without its damaged places, if it has any; a copy of the
        damaged file is kept."""
        files = self.files
        data = files.read(path, 0, files.size(path))
        header = decode_header(data, "stream")
        directory, _, _ = path.rpartition("/")
        found = StreamSegment(queue_id, directory, header.number, header.file_id)
        looked = SegmentScan(files, found, len(data), is_last)
        if not looked.damaged:
            return
        new = FileHeader("stream", self.new_file_id(), header.number, queue_id)
        chunks = [each for each in scan(data, header.file_id).records if each.type == CHUNK]
        kept = keep_copy(files, path)
        self.write(path + UNFINISHED, new, chunks)
        files.rename(path + UNFINISHED, path)
        files.sync_directory(directory)
        recover_stream(files, StreamLog(queue_id, self.new_file_id), path, self.say)
        self.say("error", f"{path} was damaged: a copy is {kept}")

    def write(self, path: str, header: FileHeader, records: Iterable[Record]) -> None:
        """Write a file with this header and these records, durably."""
        files = self.files
        at = FILE_HEADER_SIZE
        pieces = [header.encode()]
        for record in records:
            payload = [bytes(record.payload)]
            encoded = encode_record(header.file_id, at, record.type, record.sequence, payload)
            pieces.append(encoded)
            at += len(encoded)
        files.delete(path)
        files.write(path, 0, b"".join(pieces))
        files.sync(path)
        files.sync_directory(path.rpartition("/")[0])
