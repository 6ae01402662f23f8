"""Checks whether a segment's file is what the checkpoint says. It only reads.

    sound      the file that is meant, with all its bytes
    mendable   its header is damaged, its records are not: they know which file they belong to
    lost       it is missing, short, another file, or nothing in it can be read

Damaged blocks in a file are not its concern: the reader of a block notices them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.storage.bits import bits_of
from sluicemq.storage.records import FILE_HEADER_SIZE, FileHeader, decode_header
from sluicemq.storage.segments import read_block, scan_places

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files
    from sluicemq.storage.entries import Run
    from sluicemq.storage.queue_index import Segment

UNREADABLE: Final = ("EIO", "EISDIR", "ENOTDIR", "EUCLEAN", "EBADMSG")
"""With these errors a read fails each time, so a start that accepts a loss does without the file;
with others, such as EMFILE, the next start may succeed."""


class Loss(NamedTuple):
    """Something that must be there and is missing: `text` says what is lost of `path`. A start
    refuses to go on from it unless told to."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path} {self.text}"


class Audit:
    """The result of checking a segment's file.

    `given_up` are errors of the disk with which the file counts as lost. `problem` says what is
    wrong with the file as a whole, "" when nothing is. `lost` has the bits of live positions that
    cannot be read for that reason. `end` says how many bytes of the file can be used.
    """

    def __init__(
        self,
        files: Files,
        segment: Segment,
        queue_id: int,
        entry_count: int,
        given_up: tuple[str, ...] = (),
    ) -> None:
        self.files = files
        self.segment = segment
        self.queue_id = queue_id
        self.entry_count = entry_count
        self.given_up = given_up
        self.problem = ""
        self.lost = 0
        self.end = segment.length
        self.is_ours = False
        """True for the file that the checkpoint means."""
        self.is_mendable = False
        """True when only its header is damaged."""
        self.is_short = False
        self.is_damaged = False
        self.size = -1

    def run(self) -> None:
        """Check the file. Raises Refused when a newer version wrote it or a directory is in its
        place, and DiskFailed when the disk fails in a way that is not `given_up`."""
        try:
            self._look()
        except DiskFailed as failure:
            if failure.code not in self.given_up:
                raise
            self.is_ours = False
            self.problem = f"cannot be read ({failure.code})"
        if not self.is_ours and not self.is_mendable:
            self.lost = self.segment.live
        elif self.is_short:
            self.lost = self.segment.live & ~self._readable()

    @property
    def header(self) -> bytes:
        """The header that the file should have, as bytes."""
        segment = self.segment
        return FileHeader("segment", segment.file_id, segment.number, self.queue_id).encode()

    def _look(self) -> None:
        files, segment = self.files, self.segment
        demand_no_directory(files, segment.path)
        self.size = files.size(segment.path)
        if self.size < 0:
            self.problem = "is missing"
            return
        try:
            header = decode_header(files.read(segment.path, 0, FILE_HEADER_SIZE), "segment")
            self.is_ours = header.file_id == segment.file_id
            if not self.is_ours:
                self.problem = "is not the file that the checkpoint means"
        except Corrupt as error:
            length = min(self.size, segment.length)
            places, _ = scan_places(files, segment.path, segment.file_id, length)
            self.is_mendable = bool(places)
            self.problem = str(error)
        self.is_short = self.size < segment.length
        if self.is_short:
            self.end = self.size
            if not self.problem:
                self.problem = f"has {self.size} of {segment.length} bytes"

    def _readable(self) -> int:
        """Return the bits of positions in blocks before `end`, and set `end` to the end of the last
        of them."""
        segment = self.segment
        places, _ = scan_places(self.files, segment.path, segment.file_id, self.end)
        self.end = max((place.end for place in places), default=FILE_HEADER_SIZE)
        return bits_in(self.read_all(), segment.number * self.entry_count)

    def read_all(self) -> list[Run]:
        """Return all runs of the file up to `end` that can be read; `is_damaged` tells afterwards
        whether others could not."""
        segment = self.segment
        path, file_id = segment.path, segment.file_id
        found: list[Run] = []
        places, damaged = scan_places(self.files, path, file_id, self.end)
        self.is_damaged = bool(damaged)
        for place in places:
            try:
                found += read_block(self.files, path, file_id, place)
            except Corrupt:
                self.is_damaged = True
        return found


def demand_no_directory(files: Files, path: str) -> None:
    """Raise Refused when a directory is in the place of one of our files."""
    if files.is_directory(path):
        raise Refused(f"{path} is a directory, where a file must be: move it away")


def bits_in(runs: list[Run], base: int) -> int:
    """Return a bit for each position of the runs; bit 0 is the position `base`."""
    found = 0
    for run in runs:
        found |= bits_of(run.positions, base)
    return found
