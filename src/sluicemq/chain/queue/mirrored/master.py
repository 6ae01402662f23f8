"""channel ---batch---> MASTER ---entries---> the log of all mirrors; confirms, once all have it.

The master is a classic queue that clients use, on the node whose member leads the group. The fate
of its messages goes into the log at the end of each turn; its own files only hold what it pages
out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.chain.queue.classic import ClassicShell, empty_index
from sluicemq.chain.queue.queue_storage import QueueStorage
from sluicemq.flow.gate import Gate
from sluicemq.limits import RAFT_APPEND_BYTES, RETRY_FULL_MS
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.deduplication import deduplication_of
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.mirrored.entry_content import STAMP, MirrorCodec
from sluicemq.replication.mirrored_master import LOG_IDS, MirroredMaster
from sluicemq.storage.queue_index import READ_TRIES, QueueIndex
from sluicemq.storage.raft.reading import RaftEntriesRead

if TYPE_CHECKING:
    from sluicemq.chain.queue.mirrored.member_port import MemberPort
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.mirrored.commands import MirrorCommand

MS: Final = 1_000_000
READ_STRAND_STEP: Final = 2
"""Reads of a log do not queue behind its writes."""
CODEC: Final = MirrorCodec()


class LogBodies(NamedTuple):
    """Tells a master, from itself, that the entries with the bodies of a chunk are in RAM."""

    chunk: Chunk
    entries: list[bytes]


class LogReadAgain(NamedTuple):
    """A timer's message, or one from the master itself: a read that the disk has failed may be
    tried again, or entries may be in segments now."""

    chunk: Chunk
    tries: int


class LogRead(NamedTuple):
    """A read for a chunk in progress; `found` are the entries that were in RAM."""

    chunk: Chunk
    found: dict[int, bytes]
    tries: int


class EntryDue:
    """A timer's message that what waits for the next entry has waited long enough."""

    __slots__ = ()


class DamagedMirrorLog(Exception):
    """Messages that a master has to deliver cannot be read; the text says what is damaged."""


class MirroredStorage(QueueStorage):
    """Stores what a master pages out; bodies that its log has are read from there."""

    def ask_for(self, chunk: Chunk) -> None:
        queue = self.queue
        assert isinstance(queue, MasterShell), "the storage of another queue"
        if chunk.id_base == LOG_IDS:
            queue.read_log(chunk, tries=0)
        else:
            super().ask_for(chunk)


class MasterShell(ClassicShell):
    """The shell around the queue of a master. `member` is this node's member of the group."""

    has_state = False

    def __init__(
        self,
        vhost: VhostPort,
        definition: QueueDefinition,
        queue_id: int,
        member: MemberPort,
        term: int,
    ) -> None:
        services = vhost.services
        self.member = member
        index = empty_index(services, services.queue_id(), durable=False)
        super().__init__(vhost, definition, queue_id, index, term)
        clock = services.world.clock
        now_ms = clock.now_ns() // MS
        self.mirrored = MirroredMaster(
            self.machine, member.mirror, member.own, member.bounds, now_ms
        )
        self.unproposed: deque[list[MirrorCommand]] = deque()
        """Commands taken from the mastership that are in no entry yet."""
        self.timer_runs = False
        """An EntryDue is on its way."""
        self.backlog = Gate(self.keeper, "entries waiting for a majority")
        self.lagging = Gate(self.keeper, "")
        """It is shut while mirrors are too far behind: those on the nodes `slow`, which may be the
        last ones."""
        self.slow: list[str] = []
        self.reads: dict[RaftEntriesRead, LogRead] = {}
        self.unsettled: list[LogReadAgain] = []
        """Reads that wait for entries which are on their way to a segment."""
        self.schedule()

    def make_machine(self, index: QueueIndex, term: int) -> ClassicQueue:
        return ClassicQueue(
            self.title,
            False,
            self,
            index,
            self.services.config.storage.msg_store_io_batch_size,
            self.settings,
            term,
            deduplication_of(self.definition.arguments),
            is_mirrored=True,
        )

    def make_storage(self) -> QueueStorage:
        return MirroredStorage(self, self.machine)

    @property
    def is_durable(self) -> bool:
        """Tell that nothing is recovered from its own files: it begins with the
        mirror's messages.
        """
        return False

    def store_gate(self) -> Gate:
        return self.backlog

    def configure(self, policy: EffectivePolicy | None) -> None:
        super().configure(policy)
        self.member.policy_changed()

    def receive_rare(self, message: object) -> None:
        if isinstance(message, LogBodies):
            self.got_entries(message.chunk, message.entries)
        elif isinstance(message, RaftEntriesRead):
            self.was_read(message)
        elif isinstance(message, LogReadAgain):
            self.read_log(message.chunk, message.tries)
        elif isinstance(message, EntryDue):
            self.timer_runs = False
        else:
            super().receive_rare(message)

    # -- turns

    def turn_ended(self) -> None:
        self.look_at_mirrors()
        super().turn_ended()
        self.agree()

    def keep_pace(self) -> None:
        """Tell the pacer also how many messages not all mirrors have."""
        pacer = self.services.pacer
        if pacer is not None:
            under_way = self.mirrored.mastership.under_way
            pacer.note_under_way(self.pace, self.published, under_way)
        super().keep_pace()

    def look_at_mirrors(self) -> None:
        """Confirm messages that all mirrors have, and check which mirrors lag."""
        standing = self.member.standing
        if standing is None:
            return
        mastership = self.mirrored.mastership
        now_ms = self.services.world.clock.now_ns() // MS
        mastership.look(standing, now_ms, self.member.mirrors)
        self.mirrored.confirm(standing, self.effects)
        lagging = mastership.holding_up
        if lagging:
            self.slow = self.member.names_of(lagging)
            self.lagging.name = f"mirror on {', '.join(self.slow)}"
            self.lagging.shut()
        else:
            self.lagging.open()

    def effects_real(self) -> None:
        """Make effects real as far as allowed: the others wait until the log has what they need."""
        effects = [*self.effects]
        self.effects.clear()
        self.making = iter(effects)
        self.effects += self.mirrored.take(effects)
        self.making = iter(())  # each is held now, or among those that are made real next
        super().effects_real()

    def agree(self) -> None:
        """Propose what has become of messages, as far as it is due and the log takes it."""
        while self.member.takes_proposals:
            if not (self.unproposed or self.is_due()):
                self.backlog.open()
                return
            self.propose()
        self.backlog.shut()

    def is_due(self) -> bool:
        """Tell whether the next entry has something in it, and does not wait for more."""
        standing, depth = self.member.standing, self.machine.depth
        assert standing is not None, "who takes proposals leads"
        mastership = self.mirrored.mastership
        is_consumed = depth.consumers > 0 and not depth.ready
        wait_ms = mastership.entry_wait_ms(standing, is_consumed=is_consumed)
        if wait_ms and not self.timer_runs:
            self.timer_runs = True
            self.services.world.clock.call_after(wait_ms, self, EntryDue())
        return wait_ms == 0 and mastership.has_news

    def propose(self) -> None:
        """Propose the next entry, or the next part of one."""
        mastership = self.mirrored.mastership
        if not self.unproposed:
            self.unproposed += parted(mastership.take_entry())
        index, size_bytes = self.member.propose(self.unproposed.popleft())
        mastership.proposed(index, size_bytes, is_whole=not self.unproposed)

    def hurry(self) -> None:
        """Propose everything now, as far as the log takes it, because another member is about to
        take over."""
        while self.member.takes_proposals and (
            self.unproposed or self.mirrored.mastership.has_news
        ):
            self.propose()

    # -- bodies in the log

    def read_log(self, chunk: Chunk, tries: int) -> None:
        """Read the bodies of a chunk from the log, once all of its entries are in RAM or in
        segments."""
        indexes = self.mirrored.entries_of(chunk)
        found = self.member.contents(indexes)
        missing = [index for index in indexes if index not in found]
        job = self.store.raft.reading(self.id, missing) if missing else None
        if job is not None:
            self.reads[job] = LogRead(chunk, found, tries)
            strand = self.strand + READ_STRAND_STEP
            self.services.world.disk.submit(job, self, strand)
        elif missing:
            self.unsettled.append(LogReadAgain(chunk, tries))
        else:
            self.post(LogBodies(chunk, [*found.values()]))

    def settled(self) -> None:
        """Try again what has waited for entries, because some are in segments now."""
        unsettled, self.unsettled = self.unsettled, []
        for each in unsettled:
            self.post(each)

    def was_read(self, job: RaftEntriesRead) -> None:
        """Take in entries that were read. A read that the disk has failed is repeated READ_TRIES
        times; damage is a fault of the queue."""
        chunk, found, tries = self.reads.pop(job)
        clock = self.services.world.clock
        if job.has_failed and tries < READ_TRIES:
            clock.call_after(RETRY_FULL_MS, self, LogReadAgain(chunk, tries + 1))
        elif job.is_stale:
            self.read_log(chunk, tries)
        elif job.problem:
            raise DamagedMirrorLog(job.problem)
        elif {*self.mirrored.entries_of(chunk)} <= found.keys() | job.found.keys():
            self.got_entries(chunk, [*found.values(), *job.found.values()])
        else:  # the rest is on its way to a segment, and may be for long where the disk is full
            clock.call_after(RETRY_FULL_MS, self, LogReadAgain(chunk, tries))

    def got_entries(self, chunk: Chunk, entries: list[bytes]) -> None:
        lost = self.mirrored.got_entries(chunk, [each[STAMP.size :] for each in entries])
        self.storage.say_lost(lost)

    # -- ends

    def faulted(self, error: Exception) -> None:
        if self.crash is None:
            self.member.master_failed(error)
        else:
            self.crash.failed()


def parted(commands: list[MirrorCommand]) -> list[list[MirrorCommand]]:
    """Return the commands of the next entries: one entry, unless they are large."""
    parts: list[list[MirrorCommand]] = []
    size = RAFT_APPEND_BYTES
    for command in commands:
        weight = CODEC.weigh(command)
        if size + weight > RAFT_APPEND_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(command)
        size += weight
    return parts
