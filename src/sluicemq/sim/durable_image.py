"""What is really on the simulated disk: read from the durable part of its files, record by record,
independent of the node's view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import Corrupt
from sluicemq.storage.entries import Ack, Run, decode_entries
from sluicemq.storage.raft.codec import RaftEntries, RaftTruncation, TermAndVote
from sluicemq.storage.records import FILE_HEADER_SIZE, GROUP, MESSAGE, Record, decode_header, scan

if TYPE_CHECKING:
    from sluicemq.sim.disk import SimFiles
    from sluicemq.sim.inode import Inode

JOURNAL: Final = "journal/"
BODIES: Final = "messages/persistent/"


class DurableImage:
    """Follows the journal and the bodies that one node writes. Of earlier lives it knows only the
    Raft logs, from an image of such a life."""

    def __init__(self, files: SimFiles, before: DurableImage | None = None) -> None:
        self.files = files
        self.ends: dict[tuple[Inode, bytes], int] = {
            (inode, bytes(inode.data[:FILE_HEADER_SIZE])): len(inode.data)
            for inode in files.inodes.values()
        }
        """How far each file has been read, by its header, too: files of the journal are used
        again."""
        self.syncs_seen: dict[Inode, int] = {}
        """The syncs that each file had when it was last read."""
        self.published: dict[int, set[int]] = {}
        """Positions by queue id."""
        self.acknowledged: dict[int, set[int]] = {}
        self.references: dict[tuple[int, int], int] = {}
        """(queue id, position) -> id of the body, for messages whose body is not in the journal."""
        self.bodies: set[int] = set()
        self.raft_entries: dict[int, dict[int, int]] = {} if before is None else before.raft_entries
        """By Raft group, the terms of the entries of its log by their indexes."""
        self.raft_states: dict[int, tuple[int, int]] = {} if before is None else before.raft_states
        """By group, the term and the vote of the member."""

    def look(self) -> None:
        """Read everything that became durable since the last look."""
        seen = self.syncs_seen
        for path, inode in self.files.durable.items():
            if seen.get(inode) == inode.syncs or not path.startswith((JOURNAL, BODIES)):
                continue
            seen[inode] = inode.syncs
            header = bytes(inode.durable[:FILE_HEADER_SIZE])
            start = self.ends.get((inode, header), FILE_HEADER_SIZE)
            if start < len(inode.durable):
                self._read(inode, start, "journal" if path.startswith(JOURNAL) else "messages")

    def _read(self, inode: Inode, start: int, kind: str) -> None:
        data = bytes(inode.durable)
        try:
            header = decode_header(data, kind)
        except Corrupt:
            return  # not there yet
        found = scan(data, header.file_id, start)
        self.ends[inode, data[:FILE_HEADER_SIZE]] = found.end
        for record in found.records:
            self._note(record)

    def _note(self, record: Record) -> None:
        if record.type == MESSAGE:
            self.bodies.add(record.sequence)
            return
        if record.type != GROUP:
            return
        for entry in decode_entries(record.payload):
            if isinstance(entry, Run):
                self.published.setdefault(entry.queue, set()).update(entry.positions)
                if entry.contents is None:
                    places = [(entry.queue, position) for position in entry.positions]
                    self.references.update(zip(places, entry.ids, strict=True))
            elif isinstance(entry, Ack):
                known = self.acknowledged.setdefault(entry.queue, set())
                for positions in entry.ranges:
                    known.update(positions)
            elif isinstance(entry, RaftEntries):
                terms = self.raft_entries.setdefault(entry.group, {})
                terms.update((each.index, each.term) for each in entry.entries)
            elif isinstance(entry, RaftTruncation):
                terms = self.raft_entries.get(entry.group, {})
                kept = {index: term for index, term in terms.items() if index < entry.start}
                self.raft_entries[entry.group] = kept
            elif isinstance(entry, TermAndVote):
                self.raft_states[entry.group] = entry.term, entry.vote

    def has_entry(self, group: int, index: int) -> bool:
        """Tell whether this entry of a Raft group's log would survive a power loss, as of the last
        look."""
        return index in self.raft_entries.get(group, ())

    def has(self, queue_id: int, position: int) -> bool:
        """Tell whether the message would survive a power loss, as of the last look."""
        if position not in self.published.get(queue_id, ()):
            return False
        reference = self.references.get((queue_id, position))
        return reference is None or reference in self.bodies
