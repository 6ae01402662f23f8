"""Logs of Raft groups in the message store: appends go to the journal with everything else, in the
same group and for the same sync; what is committed goes to segments, for checkpoints.

    member ---RaftAppend---> MESSAGE STORE: in the next group of the journal
    member <---RaftAppended(number)--- when that is synced
    member ---RaftCommitted---> MESSAGE STORE: what may go to segments

A group that is idle is not looked at: checkpoints ask for those that have changed, and for those
that have entries which are in no segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.group_commit import Append
from sluicemq.storage.raft.codec import (
    RaftEntries,
    RaftGroupGone,
    RaftTruncation,
    TermAndVote,
    encode_raft_record,
)
from sluicemq.storage.raft.group_state import encode_raft_group
from sluicemq.storage.raft.segment_file import RaftFilesGone, raft_segment_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.store.store_port import StorePort
    from sluicemq.kernel.actor import Actor
    from sluicemq.raft.ready import RaftReady
    from sluicemq.storage.raft.codec import RaftRecord
    from sluicemq.storage.raft.group import RaftGroup
    from sluicemq.storage.raft.groups import RaftGroups
    from sluicemq.storage.raft.segment_file import RaftSegmentWrite

FIRST_RAFT_STRAND: Final = 2
"""The disk's strand of the group with id 0: groups write beside one another, and beside queues."""
FILE_ID_BYTES: Final = 16
RAFT_MARK: Final = 0
"""In the journal's marks, beside ids of queues, none of which is 0: a group has something there."""


def records_of(group: int, ready: RaftReady) -> list[RaftRecord]:
    """Return the records of what a member wants to have written, in their order: its term and vote,
    what is cut off of its log, and entries."""
    records: list[RaftRecord] = []
    if ready.state is not None:
        records.append(TermAndVote(group, *ready.state))
    if ready.truncate_from:
        records.append(RaftTruncation(group, ready.truncate_from))
    if ready.entries:
        records.append(RaftEntries(group, ready.entries))
    return records


class RaftAppended:
    """Sent to the owner of a Raft member: its append `number`, and all before it, are durable."""

    __slots__ = ("group", "number")

    def __init__(self, group: int, number: int) -> None:
        self.group = group
        self.number = number


class RaftRefused:
    """Sent to the owner of a Raft member: its append `number` never will be durable, for the
    storage has failed; `reason` is for people."""

    __slots__ = ("group", "number", "reason")

    def __init__(self, group: int, number: int, reason: str) -> None:
        self.group = group
        self.number = number
        self.reason = reason


class RaftAppend(Append):
    """Records of one group that are to be durable together; `owner` hears RaftAppended. Appends of
    a group have growing numbers, and are handed in in that order."""

    __slots__ = ("gone", "group", "number", "owner", "records", "storage")

    def __init__(
        self,
        storage: RaftStorage,
        group: int,
        number: int,
        records: list[RaftRecord],
        owner: Actor,
    ) -> None:
        super().__init__(urgent=True)
        self.storage = storage
        self.group = group
        self.number = number
        self.records = records
        self.owner = owner
        self.gone: RaftFilesGone | None = None
        """What deletes the files that these records make superfluous, once they are durable."""

    def entries(self, parts: list[bytes]) -> None:
        self.storage.write(self, parts)

    def appended(self) -> None:
        self.storage.appended(self)
        self.owner.post(RaftAppended(self.group, self.number))

    def refused(self, reason: str) -> None:
        self.owner.post(RaftRefused(self.group, self.number, reason))


class RaftCommitted(Append):
    """Sent to the message store: a group's log is committed up to `index`, as it is after the
    appends that were handed in before. So it has its place among them, though nothing is written
    for it."""

    __slots__ = ("group", "index", "storage")

    def __init__(self, storage: RaftStorage, group: int, index: int) -> None:
        super().__init__(urgent=False)
        self.storage = storage
        self.group = group
        self.index = index

    def entries(self, parts: list[bytes]) -> None:
        self.storage.committed(self)


class RaftStorage:
    """The Raft groups of one message store."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py): a member must not go on that does not
    know what it has said."""

    def __init__(self, store: StorePort, groups: RaftGroups) -> None:
        self.store = store
        self.table = groups
        self.changed: dict[int, None] = dict.fromkeys(groups.groups)
        """Groups of which the last checkpoint may not know all."""
        self.unsettled: dict[int, None] = {}
        """Groups with entries that are in no segment."""
        self.states: dict[int, bytes] = {}
        """Of all groups, as a checkpoint last saw them."""
        for group in groups.groups.values():
            self._note(group)

    def _note(self, group: RaftGroup) -> None:
        self.changed[group.id] = None
        if group.held:
            self.unsettled[group.id] = None

    # to the journal

    def write(self, append: RaftAppend, parts: list[bytes]) -> None:
        """Encode the records of an append, for the group of the journal that is being closed, and
        count on them from now on."""
        journal = self.store.journal
        journal.mark(RAFT_MARK, 0)
        for record in append.records:
            encode_raft_record(parts, record)
            if isinstance(record, RaftGroupGone):
                self._forget(append)
                continue
            group = self.table.group(append.group)
            group.demand(record)
            before = group.segments
            group.apply(record, journal.number, append.number)
            gone = [each for each in before if each not in group.segments]
            if gone:
                paths = [raft_segment_path(group.id, each.number) for each in gone]
                strand = FIRST_RAFT_STRAND + group.id
                append.gone = RaftFilesGone(group.id, strand, paths, whole=False)
            self._note(group)

    def _forget(self, append: RaftAppend) -> None:
        """Forget a group, whose files go when that is durable."""
        group = append.group
        self.table.groups.pop(group, None)
        for known in (self.changed, self.unsettled, self.states):
            known.pop(group, None)
        append.gone = RaftFilesGone(group, FIRST_RAFT_STRAND + group, [], whole=True)

    def appended(self, append: RaftAppend) -> None:
        """Note that an append is durable, and have files deleted that nobody needs any more."""
        group = self.table.groups.get(append.group)
        if group is not None:
            group.was_synced(append.number)
        if append.gone is not None:
            self.store.submit(append.gone)

    def committed(self, message: RaftCommitted) -> None:
        """Note up to where a group's log is committed."""
        group = self.table.groups.get(message.group)
        if group is not None:
            group.committed(message.index)

    # for a checkpoint

    def see(self, cut: int) -> Iterator[RaftSegmentWrite | None]:
        """Look at the groups that a checkpoint has to hear of, after which the journal counts from
        the file `cut` on, one at a time. Yield what has to be done before the checkpoint is
        written; None when that is nothing."""
        dice = self.store.services.world.dice
        for group_id in [*{**self.changed, **self.unsettled}]:
            group = self.table.groups.get(group_id)
            self.changed.pop(group_id, None)
            if group is None:
                continue
            strand = FIRST_RAFT_STRAND + group_id
            yield group.flush(cut, strand, lambda: dice.token(FILE_ID_BYTES))
            if not group.held:
                self.unsettled.pop(group_id, None)
            if group_id in self.table.groups:  # it may have gone meanwhile
                self.states[group_id] = encode_raft_group(group, cut)
