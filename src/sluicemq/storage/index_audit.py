"""Checks whether the segments of queues are what the checkpoint says, and mends what it can.

`look` only reads. Later `mend` repairs files that can be used again; `aside` has those that cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.storage.audit import Audit, Loss, bits_in, demand_no_directory
from sluicemq.storage.compaction import keep_copy
from sluicemq.storage.queue_index import picked
from sluicemq.storage.segments import segment_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.disk import Files
    from sluicemq.storage.queue_replica import QueueReplica

    Say = Callable[[str, str], None]


class IndexAudit:
    """Checks the segments of queues, and mends what it can.

    `losses` gets what is missing; `say` takes lines for the log, as (level, text). `given_up` are
    errors of the disk with which a file counts as lost. When it is `thorough`, segments are read
    whole.
    """

    def __init__(
        self,
        files: Files,
        losses: list[Loss],
        say: Say,
        given_up: tuple[str, ...] = (),
        thorough: bool = False,
    ) -> None:
        self.files = files
        self.losses = losses
        self.say = say
        self.given_up = given_up
        self.thorough = thorough
        self.mended: list[Audit] = []
        """Segments that get their header back, or lose the bytes behind their end."""
        self.aside: list[str] = []
        """Files that are not what they must be."""

    def look(self, queue: QueueReplica, title: str) -> None:
        """Check that the file of each segment of a queue is there, and is the right one; `title`
        names the queue. Segments without such a file are forgotten. Raises Refused when a newer
        version wrote one, or a directory is in its place."""
        index = queue.index
        gone: list[int] = []
        for number in queue.alive:
            demand_no_directory(self.files, segment_path(index.directory, number))
        for segment in index.segments.values():
            audit = Audit(self.files, segment, index.queue_id, index.entry_count, self.given_up)
            audit.run()
            if not self.is_there(audit, title) or (
                self.thorough and segment.live and not self.is_whole(audit, queue, title)
            ):
                gone.append(segment.number)
        queue.forget_segments(gone)

    def is_there(self, audit: Audit, title: str) -> bool:
        """Tell whether the segment's file can be used. Unreadable live messages are taken out of
        it, and become a loss.

        Without a live message the file may be missing: it was deleted then, and another may be in
        its place. The journal has everything that is in a newer file.
        """
        segment = audit.segment
        is_usable = audit.is_ours or audit.is_mendable
        if audit.lost:
            text = f"{audit.problem}, {audit.lost.bit_count()} messages of"
            self.losses.append(Loss(segment.path, f"{text} {title} are lost"))
            if audit.size >= 0 and not is_usable:
                self.aside.append(segment.path)
            segment.live &= ~audit.lost
        elif audit.problem and segment.live:
            self.say("error", f"recovery: {segment.path}: {audit.problem}; nothing is lost")
        if is_usable and (audit.is_mendable or audit.size != segment.length):
            segment.length = audit.end
            self.mended.append(audit)
        return is_usable

    def is_whole(self, audit: Audit, queue: QueueReplica, title: str) -> bool:
        """Tell whether everything in a segment can be read. If not, its readable part is published
        to the queue again, as if it came from the journal, and the file is to be put aside."""
        segment = audit.segment
        base = segment.number * queue.index.entry_count
        runs = audit.read_all()
        lost = segment.live & ~bits_in(runs, base)
        if not audit.is_damaged:
            return True
        if lost:
            text = f"{lost.bit_count()} messages of {title} cannot be read"
            self.losses.append(Loss(segment.path, f"is damaged: {text}"))
        sound = picked(runs, segment.live, base)
        segment.live = 0
        for run in sound:
            queue.publish(run)
        self.aside.append(segment.path)
        return False

    def mend(self) -> None:
        """Rewrite damaged headers, and cut files to the length that counts; a copy is kept of each
        file that was damaged or too short. Raises DiskFailed."""
        for audit in self.mended:
            files, segment = self.files, audit.segment
            if audit.is_mendable or audit.is_short:
                copy_aside(files, segment.path, self.say)
            if audit.is_mendable:
                files.write(segment.path, 0, audit.header)
            if files.size(segment.path) > segment.length:
                files.truncate(segment.path, segment.length)
            segment.dirty = True


def copy_aside(files: Files, path: str, say: Say) -> None:
    """Keep a copy of a damaged file in the quarantine, and log where it is. Raises DiskFailed."""
    say("error", f"recovery: {path} was damaged; a copy is {keep_copy(files, path)}")
