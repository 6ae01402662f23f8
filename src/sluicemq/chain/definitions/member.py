"""This node's member of the Raft group in which all nodes agree on what is declared.

    proposals --propose--> raft --appends--> message store; --messages--> Raft post
    store and post --receive--> raft: what is committed and durable here comes out of `next_due`

An entry is handed out only when it is durable on this node. So the mark in the journal that says up
to where definitions are applied (RaftApplied) never names what the log may have lost, and a start
can make them anew from the log alone, before it looks at what is said of queues.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftApplied,
    RaftCommitted,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.kernel.address import node_of
from sluicemq.limits import DEFINITIONS_SNAPSHOT_BYTES, DEFINITIONS_SNAPSHOT_ENTRIES, RAFT_TICK_MS
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA
from sluicemq.raft.messages import RaftMessage, SnapshotPiece
from sluicemq.raft.raft import Raft
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication.raft_post import MemberReach, tick_fit
from sluicemq.storage.raft.codec import RaftRecord, RaftSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.raft.ready import RaftReady
    from sluicemq.replication.raft_post import RaftPost
    from sluicemq.storage.raft.groups import RaftGroups

MACHINE_VERSION: Final = 1
"""Of the rules by which changes are decided: a leader with newer ones waits for all members."""


class MemberTick:
    """A timer's message to who has the member: time goes by."""

    __slots__ = ()


class DueEntry(NamedTuple):
    """What the log has next: the proposals of an entry; or, `is_snapshot`, a whole state that takes
    the place of what there is."""

    at: int
    data: bytes
    is_snapshot: bool = False


class FoundMember(NamedTuple):
    """What a start has found of the member: its log, the content of its snapshot, whether it may
    have forgotten something, and up to which index the state was made of it."""

    durable: Durable
    content: bytes
    is_amnesiac: bool
    applied: int
    is_new: bool = False
    """The disk has nothing of it yet."""


def found_member(groups: RaftGroups, *, has_forgotten: bool) -> FoundMember | None:
    """Take out of what a start has found what is this member's; None: there is none yet. With
    `has_forgotten` something of the journal is lost or damaged, in which there may have been
    one."""
    group = groups.groups.get(DEFINITIONS_GROUP)
    if group is None and has_forgotten:
        return newborn(())._replace(is_amnesiac=True, is_new=False)
    if group is None:
        return None
    durable = groups.found.pop(DEFINITIONS_GROUP)
    content = groups.contents.pop(DEFINITIONS_GROUP, b"")
    applied = min(group.commit, group.last_index)
    return FoundMember(durable, content, group.is_amnesiac, applied)


def newborn(nodes: Iterable[int]) -> FoundMember:
    """Return what each node begins with when the cluster is founded: nothing, and who the members
    are."""
    birth = LogSnapshot(0, 0, Configuration((*sorted(nodes),)))
    return FoundMember(Durable(0, 0, birth), b"", is_amnesiac=False, applied=0, is_new=True)


class DefinitionsMember:
    """The member, for its `owner`, who gives it every message that is for it."""

    is_vital = True
    """A fault in here ends the node: a member must not go on that does not know what it has
    said."""

    def __init__(
        self, store: MessageStore, post: RaftPost, owner: Actor, found: FoundMember
    ) -> None:
        self.store = store
        self.post = post
        self.owner = owner
        self.clock = store.services.world.clock
        durable = found.durable
        node = post.cluster.node
        own = [each for each in durable.snapshot.configuration.members if node_of(each) == node]
        self.raft = Raft(
            max(own, default=node),
            durable,
            RaftSettings(),
            MACHINE_VERSION,
            store.services.world.dice.below,
            is_amnesiac=found.is_amnesiac,
        )
        self.nodes: dict[int, int] = {}
        """Where the members are, for the post."""
        self.applied = found.applied
        """The index of the entry that was handed out last."""
        self.due: deque[DueEntry] = deque()
        self.contents = {durable.snapshot: found.content}
        """Of the snapshots that may still be sent."""
        self.incoming = b""
        """What has come of a leader's snapshot."""
        self.taken: LogSnapshot | None = None
        """The one that is on its way to the disk."""
        self.bytes_since = sum(entry.size_bytes for entry in durable.entries)
        """Of the entries behind the last snapshot that was begun."""
        self.ticks = False
        """A MemberTick is on its way."""
        self.storage_failed = ""
        """Why nothing is agreed on any more, as far as this node is concerned."""
        self.is_over = False
        """This node stops."""
        if found.is_new:
            self._append(0, [RaftSnapshot(DEFINITIONS_GROUP, durable.snapshot)])
        self._look_at_members()
        if not found.is_amnesiac:
            post.open(DEFINITIONS_GROUP, self.raft.member.name, owner, self.nodes)
        self.tick_later()

    def _look_at_members(self) -> None:
        """All nodes may have something to say, also to a member that was not told yet who the
        others are: its leader is one of them."""
        members = dict.fromkeys((*self.raft.configuration.members, *self.post.cluster.nodes))
        if [*self.nodes] != [*members]:
            self.nodes.clear()
            self.nodes.update({name: node_of(name) for name in members})

    # what is asked of it

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing more: nothing more is durable, or the node stops."""
        return self.is_over or bool(self.storage_failed)

    @property
    def leader_node(self) -> int:
        """The node that leads, as far as this one knows; 0: none does."""
        return node_of(self.raft.member.leader)

    @property
    def term(self) -> int:
        """The term that it is in."""
        return self.raft.member.term

    @property
    def takes_proposals(self) -> bool:
        """Whether it leads, and an entry may be added now."""
        return self.raft.takes_proposals

    def propose(self, data: bytes) -> None:
        """Have an entry agreed on. It must take proposals."""
        index = self.raft.propose(data)
        assert index, "a leader that takes proposals has taken one"

    def hand_over(self) -> None:
        """Have another member lead, if this one does and another can."""
        heir = self.raft.best_heir()
        if heir and not self.raft.is_handing_over:
            self.raft.transfer(heir)

    def next_due(self) -> DueEntry | None:
        """Take out what is to be applied next; None when there is nothing. Whoever takes it applies
        it in the same turn: the journal hears of it here."""
        due = self.due
        if not due or due[0].at > self.raft.member.log.durable:
            return None
        entry = due.popleft()
        self.applied = entry.at
        self.store.post(RaftApplied(self.store.raft, DEFINITIONS_GROUP, entry.at))
        return entry

    @property
    def has_due(self) -> bool:
        """Whether `next_due` would give something."""
        return bool(self.due) and self.due[0].at <= self.raft.member.log.durable

    # what happens to it

    def receive(self, message: object) -> bool:
        """Take a message that is for it. Returns whether it was."""
        if isinstance(message, RaftMessage):
            self.raft.step(message)
        elif isinstance(message, RaftAppended):
            if message.number:
                self.raft.synced(message.number)
        elif isinstance(message, MemberReach):
            (self.raft.link_back if message.is_reached else self.raft.link_lost)(message.name)
        elif isinstance(message, MemberTick):
            self.ticks = False
            tick_fit(self.raft, self.post.cluster)
        elif isinstance(message, RaftSnapshotKept):
            self._snapshot_kept()
        elif isinstance(message, RaftRefused):
            self.storage_failed = message.reason
        elif not isinstance(message, RaftSettled | RaftSnapshotWanted):
            # What is behind the snapshot stays in memory, and is bounded by the member itself.
            return False
        self.tick_later()
        return True

    def tick_later(self) -> None:
        """Have time go by for the member as long as that means something to it."""
        if not (self.ticks or self.raft.is_quiet or self.is_silent):
            self.ticks = True
            self.clock.call_after(RAFT_TICK_MS, self.owner, MemberTick())

    def pump(self) -> None:
        """Have done what the member wants done; at the end of a turn."""
        if self.is_silent:
            return
        ready = self.raft.ready()
        for piece in ready.pieces:
            assert isinstance(piece, SnapshotPiece), "a snapshot of definitions needs no entries"
            self.incoming = self.incoming[: piece.offset] + piece.content
        if ready.number:
            self._write(ready)
        if ready.messages:
            self._send(ready.messages)
        if ready.install is not None:
            self.contents[ready.install] = self.incoming
            self.due.clear()
            self.due.append(DueEntry(ready.install.index, self.incoming, is_snapshot=True))
            self.incoming = b""
            self.bytes_since = 0
        if ready.committed:
            index = ready.committed[-1].index
            self.store.post(RaftCommitted(self.store.raft, DEFINITIONS_GROUP, index))
        for entry in ready.committed:
            if entry.kind == DATA and entry.index > self.applied:
                self.due.append(DueEntry(entry.index, bytes(entry.data)))
        self._look_at_members()
        self.tick_later()

    def _write(self, ready: RaftReady) -> None:
        self.bytes_since += sum(entry.size_bytes for entry in ready.entries)
        content = self.incoming if ready.install is not None else b""
        self._append(ready.number, records_of(DEFINITIONS_GROUP, ready), content)

    def _append(self, number: int, records: list[RaftRecord], content: bytes = b"") -> None:
        store = self.store
        store.post(RaftAppend(store.raft, DEFINITIONS_GROUP, number, records, self.owner, content))

    def _send(self, messages: list[RaftMessage]) -> None:
        for message in messages:
            if isinstance(message, SnapshotPiece):
                content = self.contents[message.snapshot]
                message.content = content[message.offset : message.offset + message.size]
        self.post.send(DEFINITIONS_GROUP, messages)

    # its snapshots

    @property
    def is_snapshot_due(self) -> bool:
        """Whether a snapshot of the state as it is now would pay."""
        log = self.raft.member.log
        if self.taken is not None or self.applied <= log.snapshot.index or self.is_silent:
            return False
        entries = self.applied - log.snapshot.index
        enough = max(DEFINITIONS_SNAPSHOT_BYTES, log.snapshot.size_bytes)
        is_much = entries >= DEFINITIONS_SNAPSHOT_ENTRIES or self.bytes_since >= enough
        return is_much and self.applied <= self.raft.snapshot_index_max

    def take_snapshot(self, index: int, content: bytes) -> None:
        """Have a snapshot made durable, of the state as it was when the entry at `index` had been
        applied. One that a leader's has overtaken is of no use."""
        if index <= self.raft.member.log.snapshot.index or self.is_silent:
            return
        self.bytes_since = 0
        self.taken = self.raft.snapshot_at(index, len(content))
        self.contents[self.taken] = content
        record = RaftSnapshot(DEFINITIONS_GROUP, self.taken)
        self.store.post(RaftSnapshotTaken(record, content, self.owner))

    def _snapshot_kept(self) -> None:
        taken, self.taken = self.taken, None
        assert taken is not None, "a snapshot that nobody has taken"
        self.raft.compact(taken)
        pinned = self.raft.pinned()
        self.contents = {each: self.contents[each] for each in pinned if each in self.contents}
