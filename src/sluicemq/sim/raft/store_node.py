"""The storage of one member's process: the message store of a node, on simulated files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.chain.services import Services
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.config import KIB, Config, RaftConfig
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.world import Net, World
from sluicemq.sim.disk import SimDisk, SimFiles
from sluicemq.sim.raft.promise import rule
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.units import MS
from sluicemq.sim.world import SimClock, SimDice, SimLog, SimMemory
from sluicemq.storage.journal import Journal
from sluicemq.storage.message_files import PERSISTENT, TRANSIENT, MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.recovery import Recovery

if TYPE_CHECKING:
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.raft.durable import Durable
    from sluicemq.sim.raft.events import Events
    from sluicemq.storage.raft.group import RaftGroup

GROUP: Final = 1
"""The id of the only group."""
READ_STRAND: Final = 1000
TURNS: Final = 16
MEMORY_BYTES: Final = 1 << 40

TINY: Final = Config.tiny()
CONFIG: Final = replace(
    TINY,
    storage=replace(TINY.storage, journal_file_size_limit=KIB),
    raft=RaftConfig(segment_max_entries=5),
)
"""So small that the journal rotates, and segments are written and rewritten, all the time."""


class LifeTimeline(Timeline):
    """The time of one life of a process, within the events of the simulation."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self.events = events
        self.is_over = False
        """The process has ended: nothing that it waits for happens to it."""
        self.catch_up()

    def catch_up(self) -> None:
        """Set the time to the simulation's."""
        self.now_ns = int(self.events.now_ms * MS)

    def after(
        self,
        delay_ns: int,
        who: str,
        what: str,
        call: Callable[[object], None],
        argument: object = None,
    ) -> None:
        def happen() -> None:
            if not self.is_over:
                self.catch_up()
                call(argument)

        self.events.after(delay_ns / MS, happen)


class Ear(Actor):
    """Passes on the messages of the store."""

    def __init__(self, scheduler: Scheduler, heard: Callable[[object], None]) -> None:
        super().__init__(scheduler)
        self.heard = heard

    def receive(self, message: object) -> None:
        self.heard(message)


class StoreNode:
    """One life of the storage. `heard` gets the store's messages to the owner of the member, and
    `may_run` tells whether the process moves."""

    def __init__(
        self,
        events: Events,
        files: SimFiles,
        heard: Callable[[object], None],
        may_run: Callable[[], bool],
    ) -> None:
        self.events = events
        self.may_run = may_run
        self.files = files
        self.timeline = LifeTimeline(events)
        self.disk = SimDisk(self.timeline, events.random, files)
        log = SimLog()
        clock, dice = SimClock(self.timeline), SimDice(Random(events.random.getrandbits(64)))
        world = World(clock, dice, self.disk, Net(), SimMemory(MEMORY_BYTES), log)
        self.scheduler = Scheduler()
        self.scheduler.wake = self.run_soon
        self.scheduler.witness = self.fault
        storage = CONFIG.storage
        persistent, transient = (
            MessageFiles(kind, DictIndex(), storage.msg_store_file_size_limit, self.file_id)
            for kind in (PERSISTENT, TRANSIENT)
        )
        self.dice = dice
        entry_count = storage.queue_index_segment_entry_count
        recovery = Recovery(files, entry_count, self.file_id, log.write, accept_loss=True)
        recovery.run(persistent, transient)
        self.groups = recovery.groups
        self.errors = log.errors
        """Errors that the start has logged."""
        services = Services(world, CONFIG, self.scheduler, recovery)
        limit = storage.journal_file_size_limit
        journal = Journal(recovery.journal_number, limit, self.file_id, recovery.manifest)
        self.store = MessageStore(services, journal, persistent, transient, recovery.groups)
        checkpoints = self.store.checkpoints
        checkpoints.number = recovery.checkpoint_number
        checkpoints.node_id = recovery.node_id
        checkpoints.saved_cut = recovery.journal_number
        self.raft = self.store.raft
        self.ear = Ear(self.scheduler, heard)

    def file_id(self) -> bytes:
        """Return 16 random bytes that identify a file."""
        return self.dice.token(16)

    def fault(self, actor: Actor, error: Exception) -> None:
        """End the run: no fault is expected here."""
        raise error

    def run_soon(self) -> None:
        """Run the actors soon, because they have work."""
        delay_ns = 1 + self.events.random.randrange(MS // 50)
        self.timeline.after(delay_ns, "node", "run", lambda _: self.run())

    def run(self) -> None:
        """Run the actors until all are idle, if the process moves."""
        if self.may_run():
            self.timeline.catch_up()
            while self.scheduler.run(TURNS):
                pass

    def crash(self, *, power: bool) -> None:
        """End the process at this moment, and with `power` the whole machine."""
        self.disk.crash(power)
        self.timeline.is_over = True

    # the content

    @property
    def group(self) -> RaftGroup | None:
        """Return the group, as the storage has it."""
        return self.groups.groups.get(GROUP)

    def found(self) -> tuple[Durable, bytes] | None:
        """Return what the start has found, with the content of the snapshot; None
        without a group.
        """
        durable = self.groups.found.pop(GROUP, None)
        content = self.groups.contents.pop(GROUP, b"")
        return None if durable is None else (durable, content)

    def has_of(self, indexes: Iterable[int]) -> dict[int, bytes | None]:
        """Read these entries at once, also below the snapshot. None means on the way to a segment.
        Entries that are not there are left out."""
        group = self.group
        assert group is not None
        top = self.raft.reads.tops.get(GROUP, group.top)
        wanted = sorted(indexes)
        found: dict[int, bytes | None] = {}
        for index in wanted:
            if index in group.held:
                found[index] = bytes(group.held[index].entry.data)
            elif top < index <= group.top:
                found[index] = None
        job = self.raft.reading(GROUP, [index for index in wanted if index not in found])
        if job is not None:
            job.run(self.files)
            rule(not job.problem, f"the log cannot be read: {job.problem}")
            found |= job.found
        return found

    def submit(self, job: DiskJob) -> None:
        """Run a job that only reads; the ear is told when it is done."""
        self.disk.submit(job, self.ear, READ_STRAND)
