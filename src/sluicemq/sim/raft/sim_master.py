"""The queue of one mastership: a ClassicQueue as in nodes, with bodies read from the log. Its only
client is one channel, which publishes, gets and settles.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.flow.link import Link
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.model.batch import Batch
from sluicemq.model.traits import message_traits, property_traits
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import ACK, REQUEUE, Down, Get, Publish, Purge, Settle
from sluicemq.queues.effects import Confirm, Effect, Got, Rejected, Remove, Write
from sluicemq.queues.mirrored.commands import RemoveMessages, WriteMessages
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.replication.mirrored_master import LOG_IDS, MirroredMaster
from sluicemq.storage.queue_index import QueueIndex

if TYPE_CHECKING:
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.commands import Command
    from sluicemq.queues.mirrored.commands import MirrorCommand
    from sluicemq.queues.mirrored.group_standing import GroupStanding
    from sluicemq.queues.mirrored.mirror import Mirror
    from sluicemq.sim.raft.events import Events
    from sluicemq.sim.raft.mirrored_checkers import MirroredCheckers

BOUNDS = MirrorBounds(
    gate_bytes=900,
    close_bytes=500,
    behind_bytes=2500,
    stalled_ms=150,
    rejoin_ms=10,
    rejoin_max_ms=80,
    mark_ahead=6,
)
"""So small that every bound is reached."""
READ_MS = (0.5, 8)
"""The time to read bodies from the log."""


class MasterHost:
    """The host of a master, as the master sees it."""

    events: Events
    checkers: MirroredCheckers
    applied: int
    master: SimMaster | None

    @property
    def mirrors(self) -> set[int]:
        """Return the members that are to be mirrors."""
        raise NotImplementedError

    def standing(self) -> GroupStanding:
        """Return the standing of the group that this member leads."""
        raise NotImplementedError

    def entries(self, indexes: list[int]) -> list[bytes]:
        """Return at least the needed part of these entries, from the log."""
        raise NotImplementedError

    def do(self, action: Callable[[], object]) -> None:
        """Do it now, or when this process moves again."""
        raise NotImplementedError


class Published(NamedTuple):
    """Messages of the client, by their ids, and the function to call when they are safe."""

    ids: list[int]
    done: Callable[[], None]


class Bystander(Actor):
    """An actor that gets no messages. Compiled, only a class of its own can be referred to
    weakly."""


class SimMaster:
    """The queue that member `name` serves in one term."""

    def __init__(self, name: int, term: int, mirror: Mirror, host: MasterHost) -> None:
        self.host = host
        self.term = term
        self.checkers = host.checkers
        self.actor, self.channel = Bystander(Scheduler()), Bystander(Scheduler())
        self.link = Link(self.channel)
        numbers = count(1)
        index = QueueIndex(7, "queues/7", 1024, lambda: next(numbers).to_bytes(16))
        self.machine = ClassicQueue(
            "the queue",
            False,
            self.actor,
            index,
            4096,
            host.checkers.settings,
            term,
            is_mirrored=True,
        )
        self.queue = MirroredMaster(self.machine, mirror, name, BOUNDS, int(host.events.now_ms))
        self.ids = self.checkers.messages_of(mirror)
        """The ids of the queue's messages, as far as the log knows, by position."""
        self.unwritten: dict[int, int] = {}
        """The ids of messages that are in the queue and in no entry yet, by position."""
        self.is_patient = host.events.chance(0.7)
        """Its entries wait for more, as in nodes."""
        self.awaits_entry = False
        """An entry that waits will be looked at again."""
        self.effects: list[Effect] = []
        self.published: dict[int, Published] = {}
        """Published messages by the number of the first message."""
        self.next_seq = 1

    # -- calls of its client

    @property
    def ready(self) -> int:
        """Return how many messages are ready."""
        return self.machine.depth.ready

    def publish(self, number: int, done: Callable[[], None]) -> None:
        """Take this many messages, and call `done` when they are safe, or all were rejected."""
        ids = [self.checkers.new_id() for _ in range(number)]
        contents = [b"%0*d" % (each % 20 + 8, each) for each in ids]
        persistent = self.host.events.chance(0.7)
        batch = Batch(
            message_traits(b"\1e\1k", 1, persistent),
            property_traits(persistent, None, ids[0] % 4),
            contents,
            sum(map(len, contents)),
            len({*map(len, contents)}) == 1,
        )
        self.published[self.next_seq] = Published(ids, done)
        self.submit(Publish(batch, self.link, self.next_seq, confirm=True))
        self.next_seq += number

    def get(self, no_ack: bool) -> None:
        """Ask for a message, which is settled after a while."""
        self.submit(Get(self.channel, no_ack))

    def purge(self) -> None:
        """Drop all messages that are ready."""
        self.submit(Purge(self.channel))

    def go_down(self) -> None:
        """End the channel; its unacknowledged messages are requeued."""
        self.submit(Down(self.channel))

    def submit(self, command: Command) -> None:
        self.machine.apply(command, self.effects)
        while self.machine.rest is not None:
            for _ in self.machine.rest:
                pass
            self.machine.rest = None

    # -- turns

    def turn(self) -> None:
        """Do the end of a queue's turn."""
        host, queue, machine = self.host, self.queue, self.machine
        now_ms = int(host.events.now_ms)
        machine.enforce(now_ms, self.effects)
        standing = host.standing()
        queue.mastership.look(standing, now_ms, host.mirrors)
        self.checkers.holds_up(host.applied, queue.mastership.holding_up)
        queue.confirm(standing, self.effects)
        effects, self.effects = self.effects, []
        for effect in effects:
            self.note(effect)
        for effect in queue.take(effects):
            self.make_real(effect)
        for chunk in machine.bodies_wanted(machine.hungry()):
            self.read(chunk)

    def note(self, effect: Effect) -> None:
        """Note messages that come, and those that are gone before they were written."""
        if isinstance(effect, Write):
            self.unwritten |= zip(
                count(effect.position), map(int, effect.batch.contents), strict=False
            )
        elif isinstance(effect, Remove):
            gone = self.unwritten.keys() & {*effect.positions}
            self.checkers.overtakes({self.unwritten.pop(each) for each in gone})

    @property
    def is_entry_due(self) -> bool:
        """Tell whether the next entry does not wait; if it does, look again in time."""
        if not self.is_patient:
            return True
        wait_ms = self.queue.mastership.entry_wait_ms(
            self.host.standing(), is_consumed=not self.ready
        )
        if wait_ms and not self.awaits_entry:
            self.awaits_entry = True
            self.host.events.after(wait_ms, lambda: self.host.do(self.look_again))
        return wait_ms == 0

    def look_again(self) -> None:
        """Note that an entry has waited long enough."""
        self.awaits_entry = False

    def read(self, chunk: Chunk) -> None:
        """Read the bodies of a chunk after a while, for nobody if the mastership has ended then."""
        assert chunk.id_base == LOG_IDS, "only bodies in the log have left RAM"
        host, queue = self.host, self.queue

        def was_read() -> None:
            if host.master is self:
                queue.got_entries(chunk, host.entries(queue.entries_of(chunk)))

        host.events.after(host.events.between(*READ_MS), lambda: host.do(was_read))

    def written(self, index: int, commands: list[MirrorCommand]) -> None:
        """Note that these commands are in the entry at that index."""
        for run in [each.run for each in commands if isinstance(each, WriteMessages)]:
            self.checkers.writes(run, index, self.term)
            assert run.contents is not None
            self.ids |= zip(run.positions, map(int, run.contents), strict=True)
            for position in run.positions:
                self.unwritten.pop(position, None)
        for removed in [each for each in commands if isinstance(each, RemoveMessages)]:
            gone = {each for part in removed.positions for each in part}
            self.checkers.removes({self.ids.pop(each) for each in gone})

    def make_real(self, effect: Effect) -> None:
        if isinstance(effect, Rejected):
            ids = self.published[effect.first_seq].ids
            del ids[effect.offset : effect.offset + effect.count]
            if not ids:
                self.published.pop(effect.first_seq).done()
        elif isinstance(effect, Confirm):
            published = self.published.pop(effect.first_seq)
            self.checkers.confirms(self.host.applied, published.ids, self.undelivered())
            published.done()
        elif isinstance(effect, Got) and effect.content is not None:
            number = int(effect.content)
            self.checkers.delivers(self.term, number, effect.redelivered)
            if effect.link is not None:
                self.settle_later(effect)

    def undelivered(self) -> set[int]:
        """Return the ids of messages whose delivery is held up."""
        return {
            int(each.content)
            for _, effects in self.queue.held
            for each in effects
            if isinstance(each, Got) and each.content is not None
        }

    def settle_later(self, got: Got) -> None:
        """Acknowledge a message after a while, or requeue it."""
        events = self.host.events
        outcome = REQUEUE if events.chance(0.2) else ACK
        assert got.link is not None
        command = Settle(got.link, [(got.run, 0, 1)], outcome)
        events.after(events.between(1, 60), lambda: self.host.do(lambda: self.submit(command)))
