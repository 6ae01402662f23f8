"""queue ---appends, snapshots---> MESSAGE STORE: the log of this node's member of the group.

The group has the id of its queue. It is born with the first append, which names its members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftCommitted,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.kernel.actor import Actor
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA
from sluicemq.raft.raft import Raft
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication.member_log import MemberLog
from sluicemq.storage.raft.codec import RaftGroupGone, RaftRecord, RaftSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.chain.queue.group.entry_kind import EntryKind
    from sluicemq.chain.services import Services
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.messages import LivePiece, RaftMessage
    from sluicemq.raft.ready import RaftReady
    from sluicemq.storage.raft.live_places import LivePlaces

ALONE: Final = Configuration((1,))
"""The members of a group whose only member is on this node."""
BIRTH: Final = LogSnapshot(0, 0, ALONE)
"""The beginning of such a group's log."""
LENGTH_BYTES: Final = 4


def newborn(birth: LogSnapshot = BIRTH) -> Durable:
    """Return the initial durable state of a member of a new group."""
    return Durable(0, 0, birth)


def member_of(
    services: Services,
    group: int,
    durable: Durable,
    version: int,
    name: int = 1,
    *,
    is_amnesiac: bool = False,
) -> Raft:
    """Return this node's member of the group of that id, which begins with its `durable` state.
    `version` is that of its machine."""
    below = services.world.dice.below
    settings = RaftSettings(turn=group)
    return Raft(name, durable, settings, version, below, is_amnesiac=is_amnesiac)


class GroupLog(MemberLog):
    """The log of the group `group`; its `owner` receives the store's answers."""

    def __init__(
        self,
        store: MessageStore,
        group: int,
        owner: Actor,
        kind: EntryKind,
        birth: LogSnapshot = BIRTH,
        *,
        is_born: bool,
    ) -> None:
        self.store = store
        self.group = group
        self.owner = owner
        self.kind = kind
        self.birth = birth
        self.is_born = is_born
        self.commit = 0
        """What is committed, and of that what the store has heard."""
        self.said = 0
        self.last_index = 0
        """The index of the last entry that was handed in."""
        self.bytes_since = 0
        """The bytes of entries written since the last snapshot began."""

    def write(self, ready: RaftReady) -> None:
        records = records_of(self.group, ready)
        if not self.is_born:
            self.is_born = True
            records.insert(0, RaftSnapshot(self.group, self.birth))
        if ready.entries:
            self.bytes_since += sum(entry.size_bytes for entry in ready.entries)
            self.last_index = ready.entries[-1].index
        if self.said < self.commit:
            self.said = self.commit
            self.store.post(RaftCommitted(self.store.raft, self.group, self.commit))
        self.write_records(ready, records)

    def write_records(self, ready: RaftReady, records: list[RaftRecord]) -> None:
        self.append(ready.number, records)

    def append(
        self,
        number: int,
        records: list[RaftRecord],
        content: bytes = b"",
        pieces: Sequence[LivePiece] = (),
    ) -> None:
        """Hand records to the store, which reports when they are durable; `content` and `pieces`
        are parts of a leader's snapshot."""
        store = self.store
        owner = self.owner
        store.post(RaftAppend(store.raft, self.group, number, records, owner, content, pieces))

    def send(self, messages: list[RaftMessage]) -> None:
        raise AssertionError("a group of one has nobody to send to")

    def committed(self, index: int) -> None:
        self.commit = index

    def say_committed(self) -> None:
        """Tell the store what is committed, because an append that says so may not come soon."""
        if self.said < self.commit:
            self.said = self.commit
            self.store.post(RaftCommitted(self.store.raft, self.group, self.commit))

    def take_snapshot(self, snapshot: LogSnapshot, content: bytes, places: LivePlaces) -> None:
        """Make a snapshot durable, after which only what is at `places` of the entries up to it is
        needed; the owner then receives RaftSnapshotKept. The store must know by then that these
        entries are committed."""
        self.say_committed()
        record = RaftSnapshot(self.group, snapshot, live=(*places.ranges(),))
        self.store.post(RaftSnapshotTaken(record, content, self.owner, places, self.kind.trim))

    def forget(self, number: int) -> None:
        """Have the group and its files forgotten for good."""
        self.append(number, [RaftGroupGone(self.group)])


class LogForgetter(Actor):
    """Forgets a log that was found at a start and has no member on this node any more; it calls
    `done` when that is durable."""

    def __init__(self, store: MessageStore, group: int, done: Callable[[], None]) -> None:
        super().__init__(store.services.scheduler)
        self.done = done
        store.post(RaftAppend(store.raft, group, 0, [RaftGroupGone(group)], self))

    def receive(self, message: object) -> None:
        if isinstance(message, RaftAppended):
            self.done()


def joined_pieces(pieces: list[bytes]) -> bytes:
    """Return the pieces of a snapshot as one content, each after its length, u32."""
    return b"".join(
        part for piece in pieces for part in (len(piece).to_bytes(LENGTH_BYTES, "little"), piece)
    )


def pieces_in(content: bytes) -> Iterator[bytes]:
    """Give the pieces of a snapshot's content. Raises ValueError when it is cut off."""
    at = 0
    while at < len(content):
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(content[at:start], "little")
        if at > len(content):
            raise ValueError("the content of a snapshot ends within a piece")
        yield content[start:at]


def wrapped(entries: list[LogEntry], kind: EntryKind) -> list[LogEntry]:
    """Return entries that arrived as bytes in the form in which their queue keeps them."""
    return [
        entry.with_data(kind.content(entry.data)) if entry.kind == DATA else entry
        for entry in entries
    ]
