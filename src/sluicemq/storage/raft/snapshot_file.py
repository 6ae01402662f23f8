"""The content of a Raft group's snapshot that is too large for the journal's record: one file for
each, written once.

    record   type RAFT_CONTENT, its sequence 0, 1, ...; its payload the next part of the content

The file is durable before the journal says that the snapshot counts. The journal and checkpoints
have the length of the content, and the file's id.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.storage.raft.codec import NO_FILE
from sluicemq.storage.raft.segment_file import raft_directory
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    RAFT_CONTENT,
    FileHeader,
    decode_header,
    encode_record,
    scan,
)

if TYPE_CHECKING:
    from sluicemq.storage.raft.codec import RaftSnapshot

NAME: Final = re.compile(r"\d{20}\.snapshot")
PART_BYTES: Final = 1 << 20
"""Bytes of the content in one record, which are written at once."""


def raft_snapshot_path(group: int, index: int) -> str:
    """Return the path of the content of a group's snapshot at an index."""
    return f"{raft_directory(group)}/{index:020d}.snapshot"


class RaftContentWrite(DiskJob):
    """Makes the content of a snapshot durable in a file of its own. It may be submitted again after
    it has failed for lack of space: it writes the same to the same places."""

    def __init__(self, record: RaftSnapshot, content: bytes, strand: int) -> None:
        assert len(content) == record.snapshot.size_bytes, "a snapshot is whole"
        self.record = record
        self.group = record.group
        self.content = content
        self.strand = strand

    @property
    def path(self) -> str:
        """Return the path of the file that is written."""
        return raft_snapshot_path(self.group, self.record.snapshot.index)

    def run(self, files: Files) -> None:
        group, index, file_id = self.group, self.record.snapshot.index, self.record.file_id
        directory = raft_directory(group)
        files.make_directory(directory)
        files.delete(self.path)  # a file left by an earlier life is of no use
        files.write(self.path, 0, FileHeader("raft snapshot", file_id, index, group).encode())
        offset = FILE_HEADER_SIZE
        for number, start in enumerate(range(0, len(self.content), PART_BYTES)):
            part = self.content[start : start + PART_BYTES]
            data = encode_record(file_id, offset, RAFT_CONTENT, number, [part])
            files.write(self.path, offset, data)
            offset += len(data)
        files.sync(self.path)
        files.sync_directory(directory)


def read_raft_content(files: Files, record: RaftSnapshot) -> bytes:
    """Return the content of a snapshot, wherever it is. Raises Corrupt when the file has not what
    was written, Refused when a newer version wrote it, DiskFailed when it cannot be read."""
    if record.file_id == NO_FILE:
        return record.content or b""
    path = raft_snapshot_path(record.group, record.snapshot.index)
    data = files.read(path, 0, files.size(path))
    header = decode_header(data, "raft snapshot")
    if (header.file_id, header.queue) != (record.file_id, record.group):
        raise Corrupt("it is not the file that the journal means")
    found = scan(data, record.file_id)
    if [each.sequence for each in found.records] != [*range(len(found.records))]:
        raise Corrupt("parts of it are damaged")
    content = b"".join(each.payload for each in found.records)
    if len(content) != record.snapshot.size_bytes or found.damaged or found.torn:
        raise Corrupt(f"it has {len(content)} of {record.snapshot.size_bytes} bytes of content")
    return content
