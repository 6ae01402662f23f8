"""channel ---batch---> CLASSIC QUEUE ---write---> message store; deliveries go back to channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.pacer import QueuePace
from sluicemq.chain.queue.delivery_counts import counted
from sluicemq.chain.queue.poison import at_hand
from sluicemq.chain.queue.queue import Leaving, PolicyChanged, SetTarget
from sluicemq.chain.queue.queue_storage import QueueStorage
from sluicemq.chain.queue.queue_timers import HeadDue, LookUnused, QueueTimers, TimedQueue
from sluicemq.chain.store.messages import (
    Written,
)
from sluicemq.flow.credit import Grant
from sluicemq.flow.prefetch import Limiter, Resume
from sluicemq.queues.classic import ClassicQueue
from sluicemq.queues.commands import (
    COMMANDS,
    FIRST_TERM,
    USES,
    Cancel,
    Configure,
    Delete,
    Down,
    Publish,
)
from sluicemq.queues.deduplication import deduplication_of
from sluicemq.queues.effects import (
    DeadLetter,
    Deleted,
    Deliver,
    Effect,
    Got,
    Remove,
    Write,
)
from sluicemq.queues.settings import settings_of
from sluicemq.replication.alone import Alone
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.segments import queue_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.home import QueueHome
    from sluicemq.chain.queue.poison import Place
    from sluicemq.chain.services import Services
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.commands import Command
    from sluicemq.storage.quarantine import Wanted
    from sluicemq.storage.queue_replica import QueueReplica


class ClassicShell(TimedQueue):
    """The shell around a classic queue: credit, the store, the disk, and making effects real."""

    prefix_bytes = 0
    """What it has put before each content."""

    def __init__(
        self,
        vhost: QueueHome,
        definition: QueueDefinition,
        queue_id: int,
        index: QueueIndex,
        term: int = FIRST_TERM,
    ) -> None:
        super().__init__(vhost, definition, queue_id)
        services = vhost.services
        io_batch = services.config.storage.msg_store_io_batch_size
        settings = settings_of(definition.arguments, {})
        self.machine = ClassicQueue(
            self.title, definition.durable, self, index, io_batch, settings, term
        )
        self.replicator = Alone(self.machine)
        self.deduplication = deduplication_of(definition.arguments)
        self.timers = QueueTimers(self)
        self.configure(self.policy)
        self.pace = QueuePace()
        self.invitations: list[Limiter] = []
        self.storage = QueueStorage(self, self.machine)

    def receive(self, message: object) -> None:
        """Publishes over a credited link; commands from channels and store."""
        if isinstance(message, Publish):
            self.linked(message)
            if self.unwelcome is None:
                self.take_in(message)
            else:
                self.take_in_part(message, self.unwelcome)
        elif isinstance(message, COMMANDS):
            if self.machine.limits.needs_tick:
                self.timers.tick()
            self.replicator.submit(message, self.effects)
            if self.machine.rest is None:
                self.done(message)
            else:
                self.working = message
                self.begin(self.work_off(message))
        elif isinstance(message, Written):
            self.written(message)
        elif isinstance(message, Grant):
            message.outflow.refill(message.amount)
            self.machine.consumers.wake(message.outflow)
        elif isinstance(message, Resume):
            self.invitations.append(message.limiter)
            self.machine.consumers.resume(message.limiter)
        else:
            self.receive_rare(message)
        machine = self.machine
        if machine.work:
            self.spend(machine.work)
            machine.work = 0
        if machine.rest is not None and self.underway is None:
            self.begin(self.work_off(None))

    def take_in(self, publish: Publish) -> None:
        batch = publish.batch
        if batch.ttl_ms is not None or self.message_ttl_ms is not None:
            publish.expiry = self.expiry_of(batch.ttl_ms)
        if self.deduplication is not None and not self.machine.deleted:
            now_ms = self.services.world.clock.wall_ms()
            self.deduplication.publish(
                publish, now_ms, self.machine, self.replicator.submit, self.effects
            )
        else:
            self.replicator.submit(publish, self.effects)

    def again(self, found: QueueReplica | None) -> ClassicShell:
        """Make what takes its place after a fault, with what was read back; None: it had nothing on
        the disk."""
        services = self.services
        if found is None:
            queue_id = services.queue_id()
            fresh = self.like(queue_id, empty_index(services, queue_id, self.definition.durable))
        else:
            fresh = self.like(self.id, found.index)
            fresh.machine.recover(found.marks(), found.expiring)
        fresh.schedule()  # some of what is there may have to go
        return fresh

    def like(self, queue_id: int, index: QueueIndex) -> ClassicShell:
        """Make another one with the same definition, in its next life."""
        term = self.machine.term + 1
        return ClassicShell(self.vhost, self.definition, queue_id, index, term)

    def suspected(self) -> list[Place | Wanted]:
        """After a fault: the messages that it, or who works for it, cannot handle."""
        found: list[Place | Wanted] = at_hand(self.at, self.timers.letters)
        if self.timers.republisher is not None:
            found += self.timers.republisher.suspected()
        return found

    def work_off(self, command: Command | None) -> Iterator[int]:
        """The rest of a command that takes long, and what follows from it."""
        machine = self.machine
        while machine.rest is not None:
            work, machine.work = machine.work, 0
            yield work
            yield from machine.rest
            machine.rest = None
            if command is not None:
                self.done(command)
                command = self.working = None

    def done(self, command: Command) -> None:
        """The machine has carried it out."""
        if isinstance(command, Down | Cancel):
            self.consumer_left(command)
        if self.timers.expires_ms is not None and isinstance(command, USES):
            self.timers.used()

    def written(self, message: Written) -> None:
        """The store has made some publishes durable."""
        if self.machine.limits.needs_tick:
            self.timers.tick()
        self.machine.written(message.receipts, self.effects)
        if self.deduplication is not None:
            self.deduplication.written(message.receipts, self.effects)

    def receive_rare(self, message: object) -> None:
        """What has to do with the disk; what the monitor, policies and timers say."""
        if self.storage.receive(message):
            return
        if isinstance(message, SetTarget):
            self.machine.set_target(message.duration_s)
        elif isinstance(message, PolicyChanged):
            self.configure(message.policy)
        elif isinstance(message, HeadDue):
            self.timers.head_due(message)
        elif isinstance(message, LookUnused):
            self.timers.look_unused()
        elif isinstance(message, Leaving):
            self.leave_some()
        else:
            super().receive(message)

    def turn_ended(self) -> None:
        """Deal out what can be dealt, make the effects real, page, account the memory."""
        machine = self.machine
        if self.underway is not None:
            self.effects_real()
            return
        turn_work = self.scheduler.turn_work
        machine.deals_max = turn_work // 10 + 1
        machine.piece_max = turn_work // 10 + 1
        if machine.limits.needs_tick:
            self.timers.tick()
        else:
            machine.serve(self.effects)
        if machine.unserved:
            self.schedule()
        if machine.work:
            self.spend(machine.work)
            machine.work = 0
        for limiter in self.invitations:
            limiter.had_turn(self)
        self.invitations.clear()
        self.effects_real()
        self.keep_pace()
        machine.reduce_memory_use(self.storage.store_is_full)
        self.storage.turn_ended()
        footprint = machine.depth.footprint
        if footprint != self.accounted:
            self.services.memory_used(footprint - self.accounted)
            self.accounted = footprint
        if machine.limits.needs_tick:
            self.timers.plan()
        self.storage.hold_up()

    def effects_real(self) -> None:
        """What commands have led to goes where it belongs."""
        if self.effects:
            effects = [*self.effects]
            self.effects.clear()  # a command that is being worked off adds to the same list
            self.making = iter(effects)
            for effect in self.making:
                self.at = effect
                self.make_real(effect)
            self.at = None
        self.storage.send_removed()

    def keep_pace(self) -> None:
        """Tell the pacer what was taken in and dealt out."""
        pacer = self.services.pacer
        if pacer is not None:
            machine = self.machine
            waiting = machine.depth.ready if machine.consumers.count else 0
            pacer.note(self.pace, self.published, self.delivered, waiting)

    def make_real(self, effect: Effect) -> None:
        """Post it where it belongs."""
        if isinstance(effect, Write):
            self.storage.write(effect)
            return
        if isinstance(effect, Remove):
            self.storage.remove(effect)
            return
        if isinstance(effect, Deliver):
            self.delivered += len(effect.contents)
            if effect.returned is not None:
                counts = effect.returned.counts
                effect.contents = counted(effect.contents, effect.address, counts)
        elif isinstance(effect, Got):
            if effect.returned is not None and effect.content is not None:
                counts = effect.returned.counts
                [effect.content] = counted([effect.content], effect.address, counts)
        elif isinstance(effect, Deleted):
            self.leave(effect)
            return
        elif isinstance(effect, DeadLetter):
            self.timers.dead_letter(effect)
            return
        if effect.channel is not None:
            effect.channel.post(effect)
            self.at = None

    # -- settings

    def configure(self, policy: EffectivePolicy | None) -> None:
        """What the arguments and this policy say holds from now on."""
        settings = settings_of(self.definition.arguments, policy.definition if policy else {})
        self.settings = settings
        self.message_ttl_ms = settings.message_ttl_ms
        self.timers.configure(settings)
        self.replicator.submit(Configure(settings), self.effects)

    def expiry_of(self, ttl_ms: int | None) -> int:
        """When a message that has come now and may live so long is of no interest any more."""
        limits = [each for each in (ttl_ms, self.message_ttl_ms) if each is not None]
        return self.services.world.clock.wall_ms() + min(limits)

    # -- checkpoints

    def checkpoint_state(self) -> bytes:
        return self.storage.checkpoint_state()

    def dirty_files(self) -> tuple[str, list[str]]:
        return self.storage.dirty_files()

    # -- ends

    def consumer_left(self, message: Down | Cancel) -> None:
        """A channel or a consumer is gone; an auto-delete queue goes with its last consumer."""
        if isinstance(message, Down):
            self.upstream.pop(message.channel, None)
        if self.definition.auto_delete and self.machine.is_unused() and not self.machine.deleted:
            self.replicator.submit(Delete(None, False, False), self.effects)

    def finish(self, answer: Deleted) -> None:
        self.timers.close()
        self.storage.finish(answer)


def empty_index(services: Services, queue_id: int, durable: bool) -> QueueIndex:
    """The index of a queue that has nothing on the disk."""
    directory = queue_directory(queue_id, durable)
    return QueueIndex(queue_id, directory, services.entry_count, services.file_id)
