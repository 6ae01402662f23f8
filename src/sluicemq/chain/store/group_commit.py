"""Group commit: one journal, and one sync for all that is appended to it meanwhile.

Whoever wants something in the journal hands in an `Append`. What is handed in while a group is on
its way to the disk is the next group: one record of the journal, written and synced by one job.
An append hears of it after the sync that covers it. A group that nobody waits for is written after
GROUP_WAIT_MS, or as soon as it is large.

When the disk is full a group is tried again until there is space. After any other failure of the
storage nothing is appended any more, and whoever hands something in is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.store.journal_seals import JournalSeals
from sluicemq.kernel.disk import SYNC_STRAND
from sluicemq.limits import GROUP_WAIT_MS, UNHURRIED_GROUP_BYTES
from sluicemq.storage.journal import GroupWrite

if TYPE_CHECKING:
    from sluicemq.chain.store.store_port import StorePort
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.storage.journal import Journal


class Append:
    """Entries that somebody wants in the journal. They are all in the same group.

    Its methods are called in turns of the message store, so they do no more than post. `urgent`
    says whether somebody waits for it: if nobody does, its group may be written later.
    """

    __slots__ = ("urgent",)

    is_declaration = False
    """Declarations come first in their group, for what is said of messages needs their queues."""

    def __init__(self, urgent: bool) -> None:
        self.urgent = urgent

    def entries(self, parts: list[bytes]) -> None:
        """Add the encoded entries to `parts`. This is asked once, when the group is closed, so that
        what has become superfluous by then can be left out."""

    def before(self) -> DiskJob | None:
        """Return the job for what has to be written before the group, such as bodies that its
        entries refer to; None if there is nothing. This is asked once, after `entries`."""
        return None

    def appended(self) -> None:
        """Tell whoever waits that these entries are durable."""

    def refused(self, reason: str) -> None:
        """Tell whoever has to know that these entries never will be durable, for the storage has
        failed; `reason` is for people."""


class WhenDurable(Append):
    """A question: `asker` gets it back when everything that the message store got before it is
    durable. If the storage fails first, no answer comes."""

    __slots__ = ("asker",)

    def __init__(self, asker: Actor) -> None:
        super().__init__(urgent=True)
        self.asker = asker

    def appended(self) -> None:
        self.asker.post(self)


class CommitDue:
    """A timer's message that the group for which nobody waits has waited long enough."""

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
        self.urgent = False
        """True when somebody waits for the next group."""
        self.committing: list[Append] = []
        """The group that `job` makes durable."""
        self.job: GroupWrite | None = None
        self.timer_runs = False
        self.groups = 0
        """The number of groups that were handed to the disk."""

    @property
    def is_idle(self) -> bool:
        """True when nothing is on its way to the journal, nor waits for it."""
        return self.job is None and not self.gathered

    def add(self, append: Append) -> None:
        """Have this append in the next group, or refuse it if the storage has failed."""
        if self.store.storage_failed:
            append.refused(self.store.storage_failed)
        else:
            self.gathered.append(append)
            self.urgent |= append.urgent

    def ask(self, question: WhenDurable) -> None:
        """Answer with the last group that is gathered or under way; at once, if there is none."""
        if self.gathered:
            self.add(question)
        elif self.job is not None:
            self.committing.append(question)
        else:
            question.appended()

    def due(self) -> None:
        """Have the next group written, if there is any, for the timer has fired."""
        self.timer_runs = False
        self.urgent = bool(self.gathered)

    def commit(self) -> None:
        """Close the next group and hand it to the disk, unless one is on its way or this one had
        better wait for more."""
        if self.job is not None or not self.gathered:
            return
        if not self.urgent and self.gathered_bytes < UNHURRIED_GROUP_BYTES:
            if not self.timer_runs:
                self.timer_runs = True
                clock = self.store.services.world.clock
                clock.call_after(GROUP_WAIT_MS, self.store, CommitDue())
            return
        self.committing = group = in_order(self.gathered)
        self.gathered = []
        self.gathered_bytes = 0
        self.urgent = False
        parts: list[bytes] = []
        for append in group:
            append.entries(parts)
        before = [job for job in [append.before() for append in group] if job is not None]
        if not parts and not before:
            self.written()
            return
        self.job = self.journal.group(parts) if parts else GroupWrite("", 0, b"", 0)
        self.job.before = before
        self.groups += 1
        self.store.services.world.disk.submit(self.job, self.store, SYNC_STRAND)

    def written(self) -> None:
        """Tell everybody in the group that it is durable, and then the store."""
        group, self.committing = self.committing, []
        self.job = None
        for append in group:
            append.appended()
        self.store.group_written()

    def refuse(self, *, also_committing: bool) -> None:
        """Tell those of the next group that the storage has failed, and with `also_committing`
        those of the one under way, if it was that which failed."""
        group, self.gathered = self.gathered, []
        if also_committing:
            group = self.committing + group
            self.committing = []
        for append in group:
            append.refused(self.store.storage_failed)


def in_order(gathered: list[Append]) -> list[Append]:
    """Return the appends with declarations first; otherwise as they came."""
    return sorted(gathered, key=lambda append: not append.is_declaration)
