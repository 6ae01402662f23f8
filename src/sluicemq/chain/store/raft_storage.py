"""Logs of Raft groups in the message store: it writes appends to the journal with everything else,
in the same group and for the same sync, and committed entries to segments, for checkpoints.

    member ---RaftAppend---> MESSAGE STORE: in the next group of the journal
    member <---RaftAppended(number)--- when the append is synced
    member ---RaftCommitted---> MESSAGE STORE: entries that may go to segments
    member ---RaftSnapshotTaken---> MESSAGE STORE: to the journal, a large content to a file before
    member <---RaftSnapshotKept--- when both are synced
    member <---RaftSettled(top)--- when a checkpoint has moved entries to segments
    member <---RaftSnapshotWanted--- before it has to, in case a snapshot costs less

Idle groups cost nothing: checkpoints ask only for changed groups, and for those with entries that
are in no segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from sluicemq.chain.store.group_commit import Append
from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.chain.store.raft_ends import RaftEnds
from sluicemq.flow.profiles import SEQUENTIAL
from sluicemq.kernel.disk import SYNC_STRAND, DiskJob
from sluicemq.raft.messages import LivePiece
from sluicemq.storage.checkpoint import KEPT
from sluicemq.storage.raft.codec import (
    ENTRIES_MAX,
    NO_FILE,
    RaftCommit,
    RaftEntries,
    RaftGroupGone,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
    encode_raft_record,
)
from sluicemq.storage.raft.group_state import encode_raft_group
from sluicemq.storage.raft.live_indexes import joined
from sluicemq.storage.raft.live_places import Trimming
from sluicemq.storage.raft.reading import RaftReads
from sluicemq.storage.raft.rewrite import (
    begin_rewrite,
    close_if_wasteful,
    end_rewrite,
    wasteful,
)
from sluicemq.storage.raft.segment_file import RaftFilesGone, raft_segment_path
from sluicemq.storage.raft.snapshot_file import RaftContentWrite, raft_snapshot_path
from sluicemq.storage.raft.staging import InOrder, StagedSync, Staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluicemq.chain.store.store_port import StorePort
    from sluicemq.kernel.actor import Actor
    from sluicemq.raft.ready import RaftReady
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.storage.raft.codec import RaftRecord
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.groups import RaftGroups
    from sluicemq.storage.raft.live_places import LivePlaces, Trim
    from sluicemq.storage.raft.offsets import EntryOffsets
    from sluicemq.storage.raft.reading import RaftEntriesRead, RaftLiveRead
    from sluicemq.storage.raft.rewrite import RaftRewrite
    from sluicemq.storage.raft.segment_file import RaftSegmentWrite

FIRST_RAFT_STRAND: Final = 2
"""The disk's strand of the group with id 0, or of all groups: they write in parallel with one
another and with queues, unless the profile says otherwise."""
FILE_ID_BYTES: Final = 16
CHECKPOINTS_UNTIL_GONE: Final = 1 + KEPT
"""Checkpoints after which a file replaced by a rewrite is superfluous: one may have been under way
at the rewrite, and all kept ones must know the new file."""
SMALL_CONTENT_BYTES: Final = 4096
"""A snapshot's content of so many bytes goes to the journal and to checkpoints; a larger one has a
file of its own."""
SMALL_CONTENTS_BYTES: Final = 4 << 20
"""Of all these contents of a node. Each checkpoint has them, and so has the memory; contents beyond
that have files, too."""
ASKED_PERCENT: Final = 50
"""All members with old entries have been asked for a snapshot when so much of the journal's file is
full: some after each group, for each has work with it."""
LIVE_READ_ENTRIES: Final = 1024
"""The most entries read at once for a member that lacks them."""
WITH_ENTRIES: Final = (RaftEntries, LivePiece)
RAFT_MARK: Final = 0
"""Key in the journal's marks, beside queue ids, none of which is 0: a group has something there."""


def records_of(group: int, ready: RaftReady) -> list[RaftRecord]:
    """Return the records that a member wants written, in order: its term and vote, a snapshot that
    replaces its log, a truncation, and entries."""
    records: list[RaftRecord] = []
    if ready.state is not None:
        records.append(TermAndVote(group, *ready.state))
    if ready.install is not None:
        records.append(RaftSnapshot(group, ready.install, is_installed=True))
    if ready.truncate_from:
        records.append(RaftTruncation(group, ready.truncate_from))
    if ready.entries:
        records.append(RaftEntries(group, ready.entries))
    return records


def small_bytes(group: RaftGroup) -> int:
    """Return how long the content of a group's snapshot is, if checkpoints have it; else 0."""
    return len(group.snapshot_content or b"")


def files_of(group: RaftGroup) -> set[str]:
    """Return the paths of all files of a group."""
    paths = {raft_segment_path(group.id, each.number) for each in group.segments}
    if group.snapshot_file != NO_FILE:
        paths.add(raft_snapshot_path(group.id, group.snapshot.index))
    return paths


class RaftAppend(Append):
    """Records of one group that become durable together; `owner` gets RaftAppended. Appends of a
    group have growing numbers, and are posted in that order. `content` is that of a leader's
    snapshot, when one of the records is such; it needs no file id. `pieces` are entries needed by a
    snapshot that is being transferred; they count with the snapshot."""

    __slots__ = (
        "content",
        "gone",
        "group",
        "is_end",
        "jobs",
        "number",
        "owner",
        "pieces",
        "places",
        "records",
        "size_bytes",
        "storage",
    )

    is_in_line = True

    def __init__(
        self,
        storage: RaftStorage,
        group: int,
        number: int,
        records: list[RaftRecord],
        owner: Actor,
        content: bytes = b"",
        pieces: Sequence[LivePiece] = (),
    ) -> None:
        super().__init__(urgent=True)
        self.storage = storage
        self.group = group
        self.number = number
        self.records = records
        self.owner = owner
        self.gone: RaftFilesGone | None = None
        """Deletes the files that these records make superfluous, once the records are durable."""
        self.is_end = False
        """The group is gone with these records; the owner is told when its files are, too."""
        self.content = content
        self.size_bytes = 1
        for record in (*records, *pieces):
            if isinstance(record, WITH_ENTRIES):
                for entry in record.entries:
                    self.size_bytes += entry.size_bytes
        self.pieces = pieces
        self.jobs: list[DiskJob] = []
        """Jobs that write the content and the pieces."""
        self.places: dict[int, EntryOffsets] | None = None
        """The places of the entries that the snapshot needs, by segments; None without a snapshot,
        or when it needs none."""

    @property
    def raft_bytes(self) -> int:
        return self.size_bytes

    def entries(self, parts: list[bytes]) -> None:
        self.storage.write(self, parts)

    def before(self) -> DiskJob | None:
        return InOrder(self.jobs) if self.jobs else None

    def appended(self) -> None:
        self.storage.appended(self)
        if not self.is_end:
            self.told()

    def told(self) -> None:
        """Tell the owner that all of it is durable."""
        self.owner.post(RaftAppended(self.group, self.number))

    def refused(self, reason: str) -> None:
        self.owner.post(RaftRefused(self.group, self.number, reason))


class RaftSnapshotTaken:
    """Sent to the message store: a snapshot of a member's own machine with its content, which, if
    it is large, is written beside everything else before the journal says that it counts. `record`
    needs no file id; if it has more ranges of live entries than fit into a record, some entries
    between them count as live, too. `owner` gets RaftSnapshotKept.

    `places`, if given, has the needed messages of the entries that `record` calls live, and `trim`
    leaves out the others when segments are rewritten.
    """

    __slots__ = ("content", "owner", "record", "trimming")

    def __init__(
        self,
        record: RaftSnapshot,
        content: bytes,
        owner: Actor,
        places: LivePlaces | None = None,
        trim: Trim | None = None,
    ) -> None:
        self.record = record
        self.content = content
        self.owner = owner
        self.trimming: Trimming | None = None
        if places is not None and trim is not None:
            self.trimming = Trimming(places, trim)


class RaftSnapshotAppend(Append):
    """Records that a snapshot whose content is durable counts. Nobody waits for it."""

    __slots__ = ("gone", "owner", "record", "storage", "trimming")

    is_in_line = True

    def __init__(
        self,
        storage: RaftStorage,
        record: RaftSnapshot,
        owner: Actor,
        trimming: Trimming | None,
    ) -> None:
        super().__init__(urgent=False)
        self.storage = storage
        self.record = record
        self.owner = owner
        self.trimming = trimming
        self.gone: RaftFilesGone | None = None
        """Deletes the files that the snapshot makes superfluous, once it is durable."""

    def entries(self, parts: list[bytes]) -> None:
        self.storage.keep(self, parts)

    def appended(self) -> None:
        self.storage.kept(self)
        self.owner.post(RaftSnapshotKept(self.record.group, self.record.snapshot.index))

    def refused(self, reason: str) -> None:
        self.owner.post(RaftRefused(self.record.group, 0, reason))


class RaftCommitted(Append):
    """Sent to the message store: a group's log, after the appends before this message, is committed
    up to `index`. So it keeps its place among the appends, though it writes nothing."""

    __slots__ = ("group", "index", "storage")

    is_in_line = True

    def __init__(self, storage: RaftStorage, group: int, index: int) -> None:
        super().__init__(urgent=False)
        self.storage = storage
        self.group = group
        self.index = index

    def entries(self, parts: list[bytes]) -> None:
        self.storage.committed(self)


class RaftApplied(RaftCommitted):
    """Sent to the message store: entries up to `index`, committed and durable here, are applied
    from now on. A start learns that, because the record comes before all later entries of queues;
    so it is for a group whose entries create queues."""

    __slots__ = ()

    is_declaration = True
    is_in_line = False

    def entries(self, parts: list[bytes]) -> None:
        super().entries(parts)
        encode_raft_record(parts, RaftCommit(self.group, self.index))


class RaftStorage:
    """The Raft groups of one message store."""

    is_vital: ClassVar[bool] = True
    """A fault in here ends the node (kernel/containment.py): a member must not go on that does not
    know what it has promised."""

    def __init__(self, store: StorePort, groups: RaftGroups) -> None:
        self.store = store
        self.profile = store.services.raft_profile
        self.table = groups
        self.changed: dict[int, None] = dict.fromkeys(groups.groups)
        """Groups that have changed since the last checkpoint."""
        self.unsettled: dict[int, None] = {}
        """Groups with entries that are in no segment."""
        self.asking: list[int] = []
        """Those of them whose members are to be asked for a snapshot while the journal's present
        file fills up, `asked` of which were."""
        self.asked = 0
        self.asking_file = 0
        self.states: dict[int, bytes] = {}
        """All groups, encoded, as the last checkpoint had them, by their ids."""
        self.rewriting: dict[int, RaftRewrite] = {}
        """The jobs that rewrite segments, by their groups."""
        self.trimmings: dict[int, Trimming] = {}
        """The needed messages according to the owners' last snapshots, by group."""
        self.superseded: list[tuple[int, RaftFilesGone]] = []
        """Jobs that delete rewritten files, after this many more checkpoints."""
        self.writing: dict[RaftContentWrite, RaftSnapshotAppend] = {}
        """Snapshots whose contents are being written to files."""
        self.small_content_bytes = SMALL_CONTENT_BYTES
        self.live_read_entries = LIVE_READ_ENTRIES
        self.small_bytes = sum(small_bytes(group) for group in groups.groups.values())
        """The bytes of the contents that are in no file."""
        self.reads = RaftReads()
        self.staged: dict[int, Staging] = {}
        """Entries of incomplete snapshots that leaders are sending, by groups."""
        self.going: dict[int, None] = {}
        """Groups that are gone as soon as that is durable."""
        self.ends = RaftEnds(store.submit, self.strand)
        self.owners: dict[int, Actor] = {}
        """The actor that made the last append of each group in this life."""
        for group in groups.groups.values():
            self._note(group)

    def strand(self, group_id: int) -> int:
        """Return the disk's strand for writes to files of a group."""
        is_common = self.profile.segment_writer == SEQUENTIAL
        return FIRST_RAFT_STRAND if is_common else FIRST_RAFT_STRAND + group_id

    def _note(self, group: RaftGroup) -> None:
        self.changed[group.id] = None
        if group.held:
            self.unsettled[group.id] = None

    # to the journal

    def write(self, append: RaftAppend, parts: list[bytes]) -> None:
        """Encode the records of an append for the journal's group that is being closed, and count
        on them from now on."""
        journal = self.store.journal
        if append.records:
            journal.mark(RAFT_MARK, 0)
        for piece in append.pieces:
            append.jobs.append(self._stage(self.table.group(append.group), piece))
        for record in append.records:
            if isinstance(record, RaftSnapshot):
                record = self._complete(append, record)
            encode_raft_record(parts, record)
            if isinstance(record, RaftGroupGone):
                self.going[append.group] = None
                append.is_end = True
                continue
            group = self.table.group(append.group)
            group.demand(record)
            append.gone = self._apply(group, record, append.number) or append.gone
            self._note(group)

    def _stage(self, group: RaftGroup, piece: LivePiece) -> DiskJob:
        """Return the job that writes entries needed by a snapshot that is being transferred. The
        very first piece starts anew."""
        if not piece.after:
            was = self.staged.pop(group.id, None)
            if was is not None and was.segments:
                strand = self.strand(group.id)
                self.store.submit(RaftFilesGone(group.id, strand, was.paths, whole=False))
        staging = self.staged.setdefault(group.id, Staging(group))
        return staging.add(piece.entries, self.new_file_id, self.profile.segment_max_entries)

    def _complete(self, append: RaftAppend, record: RaftSnapshot) -> RaftSnapshot:
        """Return the record of a snapshot with file id and transferred segments, and have its
        content written."""
        if record.is_installed and record.snapshot.live_upto:
            staging = self.staged.pop(record.group)
            record = staging.put_in(record)
            append.jobs.append(StagedSync(record.group, record.segments))
            append.places = staging.places
            self.reads.begun(staging.group)
        if not record.snapshot.size_bytes:
            return record
        if self._is_small(append.content):
            return record._replace(content=append.content)
        record = record._replace(file_id=self.new_file_id())
        append.jobs.append(RaftContentWrite(record, append.content, SYNC_STRAND))
        return record

    def _is_small(self, content: bytes) -> bool:
        """Tell whether a snapshot's content is to be in the journal and in checkpoints, without a
        file."""
        size = len(content)
        has_room = self.small_bytes + size <= SMALL_CONTENTS_BYTES
        return size <= self.small_content_bytes and has_room

    def _apply(self, group: RaftGroup, record: RaftRecord, append: int) -> RaftFilesGone | None:
        """Change a group by a record, and return the job that deletes files to which nothing refers
        any more; None without any."""
        if not isinstance(record, RaftSnapshot):
            group.apply(record, self.store.journal.number, append)
            return None
        before = files_of(group)
        self.small_bytes -= small_bytes(group)
        group.apply(record, self.store.journal.number, append)
        self.small_bytes += small_bytes(group)
        self.trimmings.pop(group.id, None)  # these belonged to the snapshot before
        gone = before.difference(files_of(group))
        if not gone:
            return None
        self.reads.prune(group)
        return RaftFilesGone(group.id, self.strand(group.id), sorted(gone), whole=False)

    def new_file_id(self) -> bytes:
        """Return 16 random bytes that identify a file."""
        return self.store.services.world.dice.token(FILE_ID_BYTES)

    def take(self, taken: RaftSnapshotTaken) -> RaftSnapshotAppend | None:
        """Return the append for a snapshot. If its content is large it is written first, in the
        strand of its group: then returns None, and `content_written` the append."""
        group = self.table.groups.get(taken.record.group)
        if group is None or taken.record.group in self.going:
            return RaftSnapshotAppend(self, taken.record, taken.owner, None)
        assert taken.record.snapshot.index != group.snapshot.index, (
            "what is written would take the place of a snapshot that counts"
        )
        live = joined(taken.record.live, ENTRIES_MAX)
        record = taken.record._replace(live=live)
        if self._is_small(taken.content):
            record = record._replace(content=taken.content)
            return RaftSnapshotAppend(self, record, taken.owner, taken.trimming)
        record = record._replace(file_id=self.new_file_id())
        job = RaftContentWrite(record, taken.content, self.strand(record.group))
        self.writing[job] = RaftSnapshotAppend(self, record, taken.owner, taken.trimming)
        self.store.submit(job)
        return None

    def content_written(self, job: RaftContentWrite) -> RaftSnapshotAppend:
        """Return the append for a snapshot, because its file is durable now."""
        return self.writing.pop(job)

    def keep(self, append: RaftSnapshotAppend, parts: list[bytes]) -> None:
        """Count on a snapshot, for the journal's group that is being closed. A snapshot overtaken
        by a leader's does not count, and its file, if it has one, is deleted. One of a group that
        is gone does not, either, and its file goes with all of the group's."""
        record = append.record
        group = self.table.groups.get(record.group)
        if group is None or record.group in self.going:
            return
        if record.snapshot.index <= group.snapshot.index:
            if record.file_id != NO_FILE:
                paths = [raft_snapshot_path(record.group, record.snapshot.index)]
                strand = self.strand(record.group)
                append.gone = RaftFilesGone(record.group, strand, paths, whole=False)
            return
        self.store.journal.mark(RAFT_MARK, 0)
        group.demand(record)
        encode_raft_record(parts, record)
        before = self.trimmings.get(group.id)
        append.gone = self._apply(group, record, 0)
        if append.trimming is not None:
            self.trimmings[group.id] = append.trimming
            append.trimming.factors = {} if before is None else before.factors
        self._note(group)

    # segments are rewritten

    def rewrite(self, group_id: int) -> None:
        """Rewrite segments of a group to their needed entries, if that is worth it and not under
        way."""
        group = self.table.groups.get(group_id)
        if group is None or group_id in self.rewriting or group.is_amnesiac:
            return
        trimming = self.trimmings.get(group_id)
        top = self.reads.tops.get(group_id, group.top)
        old = wasteful(group, self.profile.segment_max_entries, top, trimming)
        if not old:
            close_if_wasteful(group, trimming)
        else:
            strand = self.strand(group_id)
            offsets = self.reads.offsets.get(group_id, {})
            job = begin_rewrite(group, strand, old, self.new_file_id(), trimming, offsets)
            self.rewriting[group_id] = job
            self.store.submit(job)

    def rewritten(self, job: RaftRewrite) -> None:
        """Count on a segment made of others, which are deleted once no usable checkpoint refers to
        them. A segment that came too late is deleted itself, or with all of a group that is
        gone."""
        del self.rewriting[job.group]
        group = self.table.groups.get(job.group)
        if group is None:
            return
        is_late = not {*job.old} <= {*group.segments}
        if job.problem and not is_late:
            self._problem(group, job.problem, is_damage=job.is_damaged)
        if end_rewrite(group, job):
            self._replaced(group, job)
            gone = RaftFilesGone(job.group, job.strand, job.old_paths, whole=False)
            self.superseded.append((CHECKPOINTS_UNTIL_GONE, gone))
            self._note(group)
            self.rewrite(job.group)
        else:
            path = raft_segment_path(job.group, job.new.number)
            self.store.submit(RaftFilesGone(job.group, job.strand, [path], whole=False))

    def _replaced(self, group: RaftGroup, job: RaftRewrite) -> None:
        """Note the segment by which a rewrite has replaced others."""
        self.reads.prune(group)
        for write in job.written:
            self.reads.written(group.id, write)
        trimming = self.trimmings.get(group.id)
        if trimming is not None and job.made is not None and job.trimming is not None:
            job.trimming.made(job.made)
            kept = {segment.number for segment in group.segments}
            factors = {**trimming.factors, **job.trimming.factors}
            trimming.factors = {n: factor for n, factor in factors.items() if n in kept}

    def saved(self) -> None:
        """Note that a checkpoint is durable."""
        waiting = [(left - 1, gone) for left, gone in self.superseded]
        self.superseded = [each for each in waiting if each[0]]
        for left, gone in waiting:
            if not left:
                self.store.submit(gone)

    def _forget(self, group: int) -> None:
        """Forget a group, because its end is durable. A checkpoint before that must have it,
        because a start may find its remains."""
        del self.going[group]
        ended = self.table.groups.pop(group, None)
        if ended is not None:
            self.small_bytes -= small_bytes(ended)
        self.reads.forget(group)
        states = self.changed, self.unsettled, self.states, self.owners, self.trimmings, self.staged
        for known in states:
            known.pop(group, None)
        self.superseded = [each for each in self.superseded if each[1].group != group]

    def appended(self, append: RaftAppend) -> None:
        """Note that an append is durable, and delete files that are no longer needed."""
        group = self.table.groups.get(append.group)
        if append.is_end:
            if append.group in self.going:
                self._forget(append.group)
            self.ends.begin(append.group, append.told)
        elif group is not None:
            group.was_synced(append.number)
            if append.places is not None:
                self.reads.put_in(group, append.places)
            self._hear(group, append.owner)
        if append.gone is not None:
            self.store.submit(append.gone)

    def _hear(self, group: RaftGroup, owner: Actor) -> None:
        """Note the actor that made the last append of a group. A new one is told up to where the
        log is in segments."""
        if self.owners.get(group.id) is not owner:
            self.owners[group.id] = owner
            top = self.reads.tops.get(group.id, group.top)
            if top:
                owner.post(RaftSettled(group.id, top))

    def kept(self, append: RaftSnapshotAppend) -> None:
        """Note that a snapshot durably counts: much of the log before it may be superfluous."""
        if append.gone is not None:
            self.store.submit(append.gone)
        self.rewrite(append.record.group)

    def committed(self, message: RaftCommitted) -> None:
        """Note up to which index a group's log is committed."""
        group = self.table.groups.get(message.group)
        if group is not None:
            group.committed(message.index)

    # entries are read

    def reading(self, group_id: int, indexes: list[int]) -> RaftEntriesRead | None:
        """Return the job that reads those of these entries of a group that are in segments; None
        without any, or without such a group. The caller submits it, in a strand of its own."""
        group = self.table.groups.get(group_id)
        if group is None:
            return None
        self.look_at_news(group)
        return self.reads.job(group, indexes)

    def whole_reading(self, group_id: int, indexes: list[int]) -> RaftEntriesRead | None:
        """Return the job that reads these entries as `reading` does, to be appended elsewhere; None
        when the snapshot covers one of them, which may be trimmed by now."""
        group = self.table.groups.get(group_id)
        if group is None or min(indexes) <= group.snapshot.index:
            return None
        return self.reading(group_id, indexes)

    def live_reading(
        self, group_id: int, snapshot: LogSnapshot, after: int, bytes_max: int
    ) -> RaftLiveRead | None:
        """Return the job that reads entries behind the index `after` that a snapshot needs, to be
        sent; None when it is no longer the group's snapshot, needs nothing there, or its entries
        are still on the way to a segment. The caller submits it."""
        group = self.table.groups.get(group_id)
        if group is None or group.is_amnesiac or group.snapshot.index != snapshot.index:
            return None
        self.look_at_news(group)
        return self.reads.live(group, after, self.live_read_entries, bytes_max)

    def look_at_news(self, group: RaftGroup) -> None:
        """Take the findings of reads: a member with damage in its log may have forgotten what it
        has promised."""
        for problem in self.reads.news(group):
            self._problem(group, problem, is_damage=True)

    def _problem(self, group: RaftGroup, problem: str, *, is_damage: bool) -> None:
        """Log a problem with the files of a group. After damage its member is silent."""
        self.store.services.world.log.write("error", f"raft: {problem}")
        if is_damage and not group.is_amnesiac:
            group.is_amnesiac = True
            self._note(group)

    def settled(self, job: RaftSegmentWrite) -> None:
        """Note that entries are durable in segments, and tell their owner."""
        top = job.top
        if job.group in self.table.groups:
            self.reads.tops[job.group] = max(top, self.reads.tops[job.group])
            owner = self.owners.get(job.group)
            if owner is not None:
                owner.post(RaftSettled(job.group, top))

    # for a checkpoint

    def ask_for_snapshots(self) -> None:
        """Ask for snapshots in time for the next checkpoint: it begins with the journal's next
        file, and needs entries in segments that came before the present one."""
        journal = self.store.journal
        number = journal.number
        if number != self.asking_file:
            self.asking_file = number
            self.asking = [*self.unsettled]
            self.asked = 0
        count = len(self.asking)
        if self.asked == count:
            return
        due = min(count, 1 + count * journal.offset * 100 // (ASKED_PERCENT * journal.size_limit))
        for group_id in self.asking[self.asked : due]:
            group, owner = self.table.groups.get(group_id), self.owners.get(group_id)
            if group is not None and owner is not None and group.has_held_before(number):
                owner.post(RaftSnapshotWanted())
        self.asked = due

    def see(self, cut: int) -> Iterator[RaftSegmentWrite | None]:
        """Visit, one at a time, the groups that a checkpoint needs behind which the journal counts
        from the file `cut` on. Yield the job to do before the checkpoint is written; None without
        one."""
        entries_max = self.profile.segment_max_entries
        for group_id in [*{**self.changed, **self.unsettled}]:
            group = self.table.groups.get(group_id)
            self.changed.pop(group_id, None)
            if group is None:
                continue
            self.look_at_news(group)
            self.reads.begun(group)
            strand, trimming = self.strand(group_id), self.trimmings.get(group_id)
            job = group.flush(cut, strand, self.new_file_id, entries_max, trimming)
            if job is not None:
                self.reads.written(group_id, job)
            yield job
            if not group.held:
                self.unsettled.pop(group_id, None)
            if group_id in self.table.groups:  # it may have ended meanwhile
                self.states[group_id] = encode_raft_group(group, cut)
