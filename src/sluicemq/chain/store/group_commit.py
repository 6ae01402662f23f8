"""Group commit: one journal, and one sync for everything that is appended to it meanwhile.

Everything goes to the journal as an `Append`. The appends that arrive while a group is on its way
to the disk form the next group: one record of the journal, written and synced by one job. An append
is told after the sync that covers it. A group that nobody waits for is written after GROUP_WAIT_MS,
or as soon as it is large.

Members of Raft groups, and elections with them, do not wait for large groups: when one of their
appends waits, the next group has only one quantum of queues' writes, and later ones wait for their
turn. So the appends of logs overtake earlier writes of queues; they do not overtake one another,
and queues' writes keep their order.

Publishers that wait for confirms fall into two crowds: while the messages of one are synced those
of the other gather, and each sync serves only one. So the appends that wait when a sync is over are
held for GROUP_HOLD_MS, if a sync takes as long, so that the publishers it has confirmed join them:
then each sync serves both.

When the disk is full a group is tried again until there is space. After any other failure of the
storage nothing is appended any more, and every append is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from sluicemq.chain.store.journal_seals import JournalSeals
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.disk import SYNC_STRAND
from sluicemq.limits import (
    GROUP_HOLD_MS,
    GROUP_WAIT_MS,
    RAFT_GROUP_BYTES,
    UNHURRIED_GROUP_BYTES,
)
from sluicemq.model.histogram import DURATIONS_S, SIZES, Histogram
from sluicemq.storage.journal import GroupWrite

if TYPE_CHECKING:
    from sluicemq.chain.store.store_port import StorePort
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.journal import Journal


NS_A_MS: Final = 1_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class Append:
    """Entries for the journal, all of which go into the same group.

    Its methods are called in turns of the message store, so they do no more than post. `urgent`
    tells whether somebody waits for it: if not, its group may be written later.
    """

    __slots__ = ("urgent",)

    is_declaration: ClassVar[bool] = False
    """Declarations come first in their group, for what is said of messages needs their queues."""
    is_last: ClassVar[bool] = False
    """It is never in an earlier group than anything that was handed in before it."""
    is_in_line: ClassVar[bool] = False
    """It is of a log, and never in an earlier group than what was handed in before it and is in
    line, too. What is neither in line, nor last, nor a declaration has a line of its own."""

    def __init__(self, urgent: bool) -> None:
        self.urgent = urgent

    @property
    def quantum_bytes(self) -> int:
        """Return the size of a quantum of queues' writes, at least 1: a group of the journal with
        appends to logs has only one. Others return 0."""
        return 0

    @property
    def raft_bytes(self) -> int:
        """Return about how large an append to a Raft group's log is, at least 1; a group of the
        journal has a bounded number and size of these. Others return 0."""
        return 0

    def entries(self, parts: list[bytes]) -> None:
        """Add the encoded entries to `parts`. Called once, when the group is closed, so that
        entries that are superfluous by then can be left out."""

    def before(self) -> DiskJob | None:
        """Return the job for data that has to be written before the group, such as bodies to which
        its entries refer; None if there is none. Called once, after `entries`."""
        return None

    def appended(self) -> None:
        """Tell the actor that waits that these entries are durable."""

    def refused(self, reason: str) -> None:
        """Tell the actor concerned that these entries never will be durable, because the storage
        has failed; `reason` is for people."""


class WhenDurable(Append):
    """A question: `asker` gets it back when everything that the message store got before it is
    durable. If the storage fails first, no answer comes."""

    __slots__ = ("asker",)

    is_last = True

    def __init__(self, asker: Actor) -> None:
        super().__init__(urgent=True)
        self.asker = asker

    def appended(self) -> None:
        self.asker.post(self)


class CommitDue:
    """A timer's message that the group for which nobody waits has waited long enough."""

    __slots__ = ()


class HoldOver:
    """A timer's message that the publishers confirmed by a group have had the time to send more."""

    __slots__ = ()


class GroupCommit:
    """The group commit of one node. It is a part of the message store and not an actor, so that
    declarations and messages go through one inbox and stay in order."""

    def __init__(self, store: StorePort, journal: Journal) -> None:
        self.store = store
        self.journal = journal
        self.seals = JournalSeals(store)
        self.gathered: list[Append] = []
        """What will be in the next group."""
        self.gathered_bytes = 0
        """Bytes of the next group, as far as they are known."""
        self.raft_count = 0
        """Appends to logs of Raft groups that have gathered; `raft_bytes` is their size."""
        self.raft_bytes = 0
        self.has_left = False
        """Some of that had no room in the group under way."""
        self.urgent = False
        """True when somebody waits for the next group."""
        self.committing: list[Append] = []
        """The group that `job` makes durable."""
        self.job: GroupWrite | None = None
        self.timer_runs = False
        self.began_ns = 0
        """When that was handed to the disk."""
        self.is_held = False
        """What has gathered waits for those who have heard of the group before."""
        self.groups = 0
        """The number of groups that were handed to the disk."""
        self.group_sizes = Histogram(SIZES)
        """How many appends a group has had."""
        self.group_latency = Histogram(DURATIONS_S)
        """How long the disk took for a group, written and synced, in seconds."""

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is on its way to the journal, or waits for it."""
        return self.job is None and not self.gathered

    def stalled_ms(self) -> int:
        """Return for how long the disk has been working on a group; 0 when it has none."""
        if self.job is None:
            return 0
        return (self.store.services.world.clock.now_ns() - self.began_ns) // NS_A_MS

    def add(self, append: Append) -> None:
        """Put this append into the next group, or refuse it if the storage has failed."""
        if self.store.storage_failed:
            append.refused(self.store.storage_failed)
        else:
            self.gathered.append(append)
            self.urgent |= append.urgent
            if append.raft_bytes:
                self.raft_count += 1
                self.raft_bytes += append.raft_bytes

    def ask(self, question: WhenDurable) -> None:
        """Answer with the last group that is gathered or under way; at once, if there is none."""
        if self.gathered:
            self.add(question)
        elif self.job is not None:
            self.committing.append(question)
        else:
            question.appended()

    def due(self) -> None:
        """Write the next group, if there is any, because the timer has fired."""
        self.timer_runs = False
        self.urgent = bool(self.gathered)

    def commit(self) -> None:
        """Close the next group and give it to the disk, unless one is on its way or this one should
        wait for more."""
        if self.job is not None or not self.gathered or self.is_held:
            return
        if not self.urgent and self.gathered_bytes < UNHURRIED_GROUP_BYTES:
            if not self.timer_runs:
                self.timer_runs = True
                clock = self.store.services.world.clock
                clock.call_after(GROUP_WAIT_MS, self.store, CommitDue())
            return
        self.committing = group = in_order(self.taken())
        parts: list[bytes] = []
        for append in group:
            append.entries(parts)
        before = [job for job in [append.before() for append in group] if job is not None]
        if not parts and not before:
            self.written()
            if self.gathered:
                self.store.commit_soon()  # no job will come back to do it
            return
        self.job = self.journal.group(parts) if parts else GroupWrite("", 0, b"", 0)
        self.job.before += before
        self.groups += 1
        self.group_sizes.add(len(group))
        self.began_ns = self.store.services.world.clock.now_ns()
        self.store.services.world.disk.submit(self.job, self.store, SYNC_STRAND)

    def taken(self) -> list[Append]:
        """Take the appends of the next group: everything that waits; but when there are appends to
        logs of Raft groups, for which members wait, no more of these, and of queues' writes, than
        one sync should serve."""
        taken = self.gathered
        left: list[Append] = []
        if self.raft_count:
            count_max = self.store.services.raft_profile.wal_max_batch_size
            taken, left = parted(self.gathered, count_max)
        self.gathered = left
        self.gathered_bytes = sum(append.quantum_bytes for append in left)
        self.urgent = self.has_left = bool(left)
        self.raft_bytes = sum(append.raft_bytes for append in left)
        self.raft_count = sum(append.raft_bytes > 0 for append in left)
        return taken

    def written(self) -> None:
        """Tell every append of the group that it is durable, and then the store."""
        group, self.committing = self.committing, []
        if self.job is not None:
            passed_ns = self.store.services.world.clock.now_ns() - self.began_ns
            self.group_latency.add(passed_ns / (NS_A_MS * 1000))
            if self.urgent and not self.has_left:
                self.hold(passed_ns)
        self.job = None
        for append in group:
            append.appended()
        self.store.group_written()

    def hold(self, passed_ns: int) -> None:
        """Have waiting appends held a little for more, unless the disk, which took that long for
        the group before, is faster."""
        if passed_ns >= GROUP_HOLD_MS * NS_A_MS // 2:
            self.is_held = True
            clock = self.store.services.world.clock
            clock.call_after(GROUP_HOLD_MS, self.store, HoldOver())

    def hold_over(self) -> None:
        """Write the held appends, which have waited long enough for more."""
        self.is_held = False

    def refuse(self, *, also_committing: bool) -> None:
        """Tell the appends of the next group that the storage has failed, and with
        `also_committing` those of the one under way, if it is that which failed."""
        group, self.gathered = self.gathered, []
        if also_committing:
            group = self.committing + group
            self.committing = []
        for append in group:
            append.refused(self.store.storage_failed)


def parted(gathered: list[Append], count_max: int) -> tuple[list[Append], list[Append]]:
    """Return the appends of the next group, and those of a later one. The next one has at least one
    append to a log of a Raft group, and at most `count_max` and RAFT_GROUP_BYTES of these; one
    quantum of queues' writes, with everything up to the next quantum that is not for a log; and all
    declarations."""
    taken: list[Append] = []
    left: list[Append] = []
    count = size = quanta = 0
    is_line_left = False
    for append in gathered:
        count += append.raft_bytes > 0
        size += append.raft_bytes
        quanta += append.quantum_bytes > 0
        if append.is_in_line:
            is_too_much = count > 1 and (count > count_max or size > RAFT_GROUP_BYTES)
            is_line_left |= append.raft_bytes > 0 and is_too_much
            waits = is_line_left
        elif append.is_last:
            waits = bool(left)
        else:
            waits = quanta > 1 and not append.is_declaration
        (left if waits else taken).append(append)
    return taken, left


def in_order(gathered: list[Append]) -> list[Append]:
    """Return the appends with declarations first; otherwise as they came."""
    if len(gathered) == 1:
        return gathered
    return sorted(gathered, key=lambda append: not append.is_declaration)
