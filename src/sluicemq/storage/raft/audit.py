"""Checks the files of Raft groups at a start, and settles the result. The check only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Corrupt, DiskFailed
from sluicemq.storage.raft.codec import NO_FILE
from sluicemq.storage.raft.segment_file import (
    NAME,
    RAFT,
    look_at_raft_segment,
    raft_directory,
    raft_segment_path,
    read_raft_segment,
)
from sluicemq.storage.raft.snapshot_file import NAME as SNAPSHOT_NAME
from sluicemq.storage.raft.snapshot_file import raft_snapshot_path, read_raft_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.kernel.disk import Files
    from sluicemq.raft.entry import LogEntry
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.groups import RaftGroups


class RaftAudit:
    """One check of the segments of all groups, after everything else was applied to `groups`.

    `lose` gets each missing file: its path and what is lost; `warn` gets damage in an existing one.
    Either makes the group's member amnesiac. `given_up` are errors of the disk with which a file
    counts as lost. Segments completely behind the group's snapshot are read only when it is
    `thorough`: otherwise damage in them is found by whoever reads it.
    """

    def __init__(
        self,
        files: Files,
        groups: RaftGroups,
        lose: Callable[[str, str], None],
        warn: Callable[[str], None],
        given_up: tuple[str, ...] = (),
        thorough: bool = False,
    ) -> None:
        self.files = files
        self.groups = groups
        self.lose = lose
        self.warn = warn
        self.given_up = given_up
        self.thorough = thorough
        self.lost: list[tuple[RaftGroup, int]] = []
        """Numbers of the segments that are lost."""
        self.contents_lost: list[RaftGroup] = []
        """Groups whose snapshots have lost their contents."""
        self.segments = 0
        """Segments that were read whole."""
        self.entries = 0
        """Entries that were read."""

    def look(self) -> None:
        """Read everything that groups have above their snapshots. Raises Refused when a newer
        version wrote a file, DiskFailed when the disk fails in a way that is not given up."""
        for group in self.groups.groups.values():
            if group.id not in self.groups.found:
                self.look_at(group)

    def look_at(self, group: RaftGroup) -> None:
        """Read everything that one group has above its snapshot. Raises as `look` does."""
        logged = self._logged(group)
        if group.snapshot_file != NO_FILE:
            self._content(group)
        elif group.snapshot_content is not None:
            self.groups.contents[group.id] = group.snapshot_content
        was_suspect = group.is_amnesiac
        self.groups.found[group.id] = group.close_gaps(logged)
        if group.is_amnesiac and not was_suspect:
            self.warn(f"{raft_directory(group.id)}: entries of the group are missing")

    def _logged(self, group: RaftGroup) -> list[LogEntry]:
        entries: list[LogEntry] = []
        for segment in group.segments:
            path = raft_segment_path(group.id, segment.number)
            try:
                is_needed = self.thorough or segment.last > group.snapshot.index
                look = read_raft_segment if is_needed else look_at_raft_segment
                read = look(self.files, group.id, segment)
            except DiskFailed as failure:
                if failure.code not in self.given_up:
                    raise
                self._lost(group, segment.number, f"cannot be read ({failure.code})")
                continue
            self.segments += is_needed
            self.entries += len(read.entries)
            if not read.is_there:
                self._lost(group, segment.number, read.problem)
            elif read.problem:
                group.is_amnesiac = True
                self.warn(f"{path}: {read.problem}")
            elif read.last_trimmed > group.snapshot.index:
                group.is_amnesiac = True
                self.warn(f"{path}: entry {read.last_trimmed} is trimmed, and not in the snapshot")
            entries += (each for each in read.entries if each.index > group.snapshot.index)
        return entries

    def _content(self, group: RaftGroup) -> None:
        """Read the content of a group's snapshot. Without it the state before the rest of the log
        is lost, whatever is wrong with the file."""
        path = raft_snapshot_path(group.id, group.snapshot.index)
        try:
            if self.files.size(path) < 0:
                raise Corrupt("is missing")
            self.groups.contents[group.id] = read_raft_content(self.files, group.snapshot_record)
            return
        except Corrupt as error:
            problem = str(error)
        except DiskFailed as failure:
            if failure.code not in self.given_up:
                raise
            problem = f"cannot be read ({failure.code})"
        group.is_amnesiac = True
        self.contents_lost.append(group)
        self.lose(path, f"{problem}: the snapshot of a Raft group is lost")

    def _lost(self, group: RaftGroup, number: int, problem: str) -> None:
        group.is_amnesiac = True
        self.lost.append((group, number))
        path = raft_segment_path(group.id, number)
        self.lose(path, f"{problem}: entries of a Raft group are lost")

    def settle(self) -> None:
        """Forget lost segments, because that loss was accepted, and cut the others to the length
        that counts. Raises DiskFailed."""
        files = self.files
        for group in self.contents_lost:
            group.snapshot_file = NO_FILE
        for group, number in self.lost:
            group.segments = (*(each for each in group.segments if each.number != number),)
        for group in self.groups.groups.values():
            for segment in group.segments:
                path = raft_segment_path(group.id, segment.number)
                if files.size(path) > segment.length:
                    files.truncate(path, segment.length)
                    files.sync(path)

    def tidy(self, drop: Callable[[str], None]) -> None:
        """Have `drop` delete files to which nothing refers, once a checkpoint does without them.
        Raises DiskFailed."""
        files = self.files
        for path in [*self.strangers()]:
            drop(path)
        for name in files.names(RAFT) if files.is_directory(RAFT) else ():
            directory = f"{RAFT}/{name}"
            if self._is_gone(name) and not files.names(directory):
                files.delete_tree(directory)

    def _is_gone(self, name: str) -> bool:
        is_ours = name.isdecimal() and self.files.is_directory(f"{RAFT}/{name}")
        return is_ours and int(name) not in self.groups.groups

    def strangers(self) -> Iterable[str]:
        """Yield the paths of segments and snapshots to which no group refers."""
        files = self.files
        for name in files.names(RAFT) if files.is_directory(RAFT) else ():
            directory = f"{RAFT}/{name}"
            if not name.isdecimal() or not files.is_directory(directory):
                continue
            group = self.groups.groups.get(int(name))
            segments = group.segments if group is not None else ()
            known = {raft_segment_path(int(name), each.number) for each in segments}
            if group is not None and group.snapshot_file != NO_FILE:
                known.add(raft_snapshot_path(group.id, group.snapshot.index))
            for file in files.names(directory):
                path = f"{directory}/{file}"
                is_ours = NAME.fullmatch(file) or SNAPSHOT_NAME.fullmatch(file)
                if is_ours and path not in known:
                    yield path
