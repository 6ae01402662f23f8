"""channel ---batch---> CLASSIC QUEUE ---write---> message store; deliveries go back to channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sluicemq.chain.pacer import QueuePace
from sluicemq.chain.queue.dead_lettering import DeadLettering
from sluicemq.chain.queue.delivery_counts import counted
from sluicemq.chain.queue.poison_messages import at_hand
from sluicemq.chain.queue.queue import Leaving, PolicyChanged, SetTarget
from sluicemq.chain.queue.queue_storage import QueueStorage
from sluicemq.chain.queue.queue_timers import HeadDue, LookUnused, QueueTimers, TimedQueue
from sluicemq.chain.services import Services, account
from sluicemq.chain.store.messages import (
    Written,
)
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.credit import Grant
from sluicemq.flow.prefetch import Limiter, Resume
from sluicemq.queues.classic.deduplication import deduplication_of
from sluicemq.queues.classic.memory_target import QueueLoad
from sluicemq.queues.commands import (
    ACK,
    COMMANDS,
    FIRST_TERM,
    USES,
    Cancel,
    Command,
    Configure,
    Consume,
    Delete,
    Down,
    Get,
    Publish,
    Purge,
    Settle,
)
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    DeadLetter,
    Deleted,
    Deliver,
    Effect,
    Got,
    Refuse,
    Remove,
    Write,
)
from sluicemq.queues.settings import settings_of
from sluicemq.replication.alone import Alone
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.segments import queue_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.poison_messages import Place
    from sluicemq.chain.queue.republish_messages import RepublishMessage
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.classic.backing import Backing
    from sluicemq.queues.classic.machine import ClassicQueue
    from sluicemq.replication.replicator import Replicator
    from sluicemq.replication.state_owner import StateOwner
    from sluicemq.storage.quarantine import Wanted
    from sluicemq.storage.queue_replica import QueueReplica


class AloneClassic(Alone[Command, Effect]):
    """Applies the commands of a classic queue on this node, as Alone does; what it knows of the
    classes spares a message two calls by name."""

    __slots__ = ("classic",)

    def __init__(
        self, classic: ClassicQueue, effects: list[Effect], owner: StateOwner[Command]
    ) -> None:
        super().__init__(classic, effects, owner)
        self.classic = classic

    def carry_out(self, command: Command) -> None:
        assert self.current is None, "a command is applied within another one"
        self.current = command
        classic = self.classic
        classic.apply(command, self.effects)
        if classic.rest is None:
            self._is_done(command)

    def _is_done(self, command: Command) -> None:
        self.current = None
        owner = self._owner()
        assert isinstance(owner, ClassicShell), "a replicator without its owner"
        owner.applied(command)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicShell(TimedQueue):
    """The shell around a classic queue: it handles credit, the store and the disk, and makes
    effects real."""

    prefix_bytes: ClassVar[int] = 0
    """The bytes of the prefix that it has put before each content."""

    def __init__(
        self,
        vhost: VhostPort,
        definition: QueueDefinition,
        queue_id: int,
        index: QueueIndex,
        term: int = FIRST_TERM,
    ) -> None:
        super().__init__(vhost, definition, queue_id)
        self.settings = settings_of(definition.arguments, {})
        self.machine = self.make_machine(index, term)
        self.replicator = self.replicate()
        self.move: Actor | None = None
        """The actor that moves all messages elsewhere, while no other consumer gets any; None:
        there is none."""
        self.timers = QueueTimers(self)
        self.dead_lettering = DeadLettering(self)
        self.configure(self.policy)
        self.pace = QueuePace()
        self.invitations: list[Limiter] = []
        self.storage = self.make_storage()

    def make_machine(self, index: QueueIndex, term: int) -> ClassicQueue:
        """Make the queue, empty, in the `term`th life of its shell."""
        return self.services.classic_queue(
            self.title,
            self.definition.durable,
            self,
            index,
            self.services.config.storage.msg_store_io_batch_size,
            self.settings,
            term,
            deduplication_of(self.definition.arguments),
        )

    def replicate(self) -> Replicator[Command, Effect]:
        return AloneClassic(self.machine, self.effects, self)

    def make_storage(self) -> QueueStorage:
        """Make the part that handles its files and its messages in the message store."""
        return QueueStorage(self, self.machine)

    def receive(self, message: object) -> None:
        """Handle publishes over a credited link, commands from channels, and messages
        of the store."""
        if isinstance(message, Publish):
            self.linked(message)
            if self.refused_messages is None:
                self.take_in(message)
            else:
                self.take_in_part(message, self.refused_messages)
        elif isinstance(message, COMMANDS):
            if self.move is not None and self.move_refuses(message):
                return
            if self.machine.needs_tick:
                self.timers.tick()
            if self.timers.expires_ms is not None and isinstance(message, USES):
                self.timers.used()
            self.replicator.submit(message)
        elif isinstance(message, Written):
            self.look_at_time()
            self.machine.written(message.receipts, self.effects)
        elif isinstance(message, Grant):
            message.outflow.refill(message.amount)
            self.machine.window_opened(message.outflow)
        elif isinstance(message, Resume):
            self.invitations.append(message.limiter)
            self.machine.limiter_opened(message.limiter)
        else:
            self.receive_rare(message)
        machine = self.machine
        if machine.work:
            self.spend(machine.take_work())
        if machine.rest is not None and self.underway is None:
            self.begin(self.work_off())

    def look_at_time(self) -> None:
        """Remove messages that are too old, or too many, before anything else is done."""
        if self.machine.needs_tick:
            self.timers.tick()

    def prepared(self, publish: Publish) -> Publish:
        """Return a publish with everything in it that depends on the time of its arrival, because
        it may be applied later."""
        batch = publish.batch
        ttl_ms = batch.properties.ttl_ms
        if ttl_ms is not None or self.message_ttl_ms is not None:
            publish.expiry = self.expiry_of(ttl_ms)
        if self.machine.deduplication is not None:
            publish.came_ms = self.services.world.clock.wall_ms()
        return publish

    def again(self, found: QueueReplica | None) -> ClassicShell:
        """Make the queue that takes its place after a fault, with what was read back; None when it
        had nothing on the disk."""
        services = self.services
        if found is None:
            queue_id = services.queue_id()
            fresh = self.like(queue_id, empty_index(services, queue_id, self.definition.durable))
        else:
            fresh = self.like(self.id, found.index)
            fresh.machine.recover(found.marks(), found.expiring)
        fresh.schedule()  # some of its messages may have to go
        return fresh

    def like(self, queue_id: int, index: QueueIndex) -> ClassicShell:
        """Make another queue of this id with the same definition, in the next life after this
        one."""
        term = self.machine.term + 1
        return ClassicShell(self.vhost, self.definition, queue_id, index, term)

    def suspected(self) -> list[Place | Wanted]:
        """Return, after a fault, the messages that it, or a part that works for it,
        cannot handle."""
        found: list[Place | Wanted] = at_hand(self.at, self.letters)
        if self.dead_lettering.republisher is not None:
            found += self.dead_lettering.republisher.suspected()
        return found

    def letters(self, effect: DeadLetter) -> list[RepublishMessage]:
        """Return dead messages as they go on."""
        return self.dead_lettering.letters(effect, self.settings)

    def dead_letter(self, effect: DeadLetter) -> None:
        """Pass on dead letters, which the queue keeps until they are safe elsewhere, except those
        of run 0."""
        done = None
        if effect.run:
            parts = [(effect.run, effect.start, effect.start + len(effect.contents))]
            done = Settle(self.machine.own_link, parts, ACK)
        self.dead_lettering.pass_on(effect, self.settings, done)

    def work_off(self) -> Iterator[int]:
        """Do the rest of a command that takes long, and then what follows from it. Each step yields
        its units of work."""
        machine = self.machine
        while machine.rest is not None:
            yield machine.take_work()
            yield from machine.rest
            machine.rest = None
            self.replicator.go_on()

    def applied(self, command: Command) -> None:
        """Do what follows from a completed command. The queue counts as used both when a command
        arrives, because it may be applied much later, and when it is completed, because that may
        take long."""
        if isinstance(command, Publish):
            if self.trying:
                super().applied(command)
            return
        if isinstance(command, (Down, Cancel)):
            self.consumer_left(command)
        elif isinstance(command, Configure):
            self.settings = command.settings
        if self.timers.expires_ms is not None and isinstance(command, USES):
            self.timers.used()

    def receive_rare(self, message: object) -> None:
        """Handle messages of the disk, the monitor, policies and timers."""
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
            self.look_at_time()
            if not self.replicator.receive(message):
                super().receive(message)

    def turn_ended(self) -> None:
        """Deliver what can be delivered, make the effects real, page, account for the memory."""
        machine = self.machine
        if self.underway is not None:
            self.effects_real()
            self.storage.send_removed()
            self.replicator.turn_ended()
            return
        storage = self.storage
        machine.bound_turn(self.scheduler.turn_work)
        if machine.needs_tick:
            self.timers.tick()
        else:
            machine.serve(self.effects)
        if machine.unserved:
            self.schedule()
        if machine.work:
            self.spend(machine.take_work())
        if self.invitations:
            for limiter in self.invitations:
                limiter.had_turn(self)
            self.invitations.clear()
        self.effects_real()
        if storage.removed is not None:
            storage.send_removed()
        self.replicator.turn_ended()
        self.keep_pace()
        if machine.may_page:
            machine.reduce_memory_use(storage.store_is_full)
        if storage.flush_upto or not machine.is_at_rest():
            storage.turn_ended()
        footprint = machine.depth.footprint
        if footprint != self.accounted:
            account(self.services, footprint - self.accounted)
            self.accounted = footprint
        if machine.needs_tick:
            self.timers.plan()
        storage.hold_up()

    def keep_pace(self) -> None:
        """Tell the pacer, if there is one, how many messages were taken in and dealt out."""
        pacer = self.services.pacer
        if pacer is not None:
            depth = self.machine.depth
            waiting, waiting_bytes = (depth.ready, depth.ready_bytes) if depth.consumers else (0, 0)
            pacer.note(self.pace, self.published, self.delivered, waiting, waiting_bytes)

    def make_real(self, effect: Effect) -> None:
        if isinstance(effect, Confirm):
            effect.channel.post(effect)
            self.at = None
            return
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
                effect.contents = counted(effect.contents, effect.traits.envelope, counts)
                effect.same_size = False
        elif isinstance(effect, Got):
            if effect.returned is not None and effect.content is not None:
                counts = effect.returned.counts
                [effect.content] = counted([effect.content], effect.traits.envelope, counts)
        elif isinstance(effect, Deleted):
            self.leave(effect)
            return
        elif isinstance(effect, DeadLetter):
            self.dead_letter(effect)
            return
        if effect.channel is not None:
            effect.channel.post(effect)
            self.at = None

    # -- settings

    def configure(self, policy: EffectivePolicy | None) -> None:
        """Use the settings that follow from the arguments and this policy; None: no policy applies.
        They apply at once to new messages and to the queue's own age, and to everything else as
        soon as they are agreed on."""
        settings = settings_of(self.definition.arguments, policy.definition if policy else {})
        self.message_ttl_ms = settings.message_ttl_ms
        self.timers.configure(settings)
        self.replicator.submit(Configure(settings))

    def expiry_of(self, ttl_ms: int | None) -> int:
        """Return when a message that has come now expires, in milliseconds since the epoch. It may
        live for `ttl_ms` or as long as the queue allows, whichever is less; one of the two must not
        be None."""
        limits = [each for each in (ttl_ms, self.message_ttl_ms) if each is not None]
        return self.services.world.clock.wall_ms() + min(limits)

    # -- all messages move elsewhere

    def begin_move(self, move: Actor) -> None:
        """Give messages to nobody but `move` from now on: consumers are cancelled, and
        unacknowledged messages come back."""
        self.move = move
        upstream = {**self.upstream}
        for consumer in self.machine.consumers.all():
            consumer.channel.post(Cancelled(consumer, True, True))
        for channel in [*self.machine.links]:
            self.replicator.submit(Down(channel, is_lost=True))
        self.upstream = upstream
        self.schedule()

    def move_refuses(self, message: Command) -> bool:
        """Refuse a command that takes messages, or would delete the queue. Returns whether it was
        one."""
        if isinstance(message, Consume):
            channel: Actor | None = message.consumer.channel
        elif isinstance(message, (Get, Purge, Delete)):
            channel = message.channel
        else:
            return False
        if channel is self.move:
            return False
        if channel is not None:
            text = f"{self.title} is being given mirrors"
            channel.post(Refuse(channel, 404, text, True))
        return True

    # -- disk and RAM

    def store_link(self) -> tuple[Outflow, Inflow]:
        return self.storage.to_store, self.storage.store_inflow

    def ram_load(self, now_ns: int) -> tuple[QueueLoad, int]:
        self.machine.rates.update(now_ns)
        return load_of(self.machine)

    def checkpoint_state(self) -> bytes:
        return self.storage.checkpoint_state()

    def dirty_files(self) -> tuple[str, list[str]]:
        return self.storage.dirty_files()

    # -- ends

    def consumer_left(self, message: Down | Cancel) -> None:
        """Forget the link of a channel that is gone, and delete an auto-delete queue whose last
        consumer has left."""
        if isinstance(message, Down):
            self.upstream.pop(message.channel, None)
        if (
            self.move is None
            and self.definition.auto_delete
            and self.machine.is_unused()
            and not self.machine.deleted
        ):
            self.replicator.submit(Delete(None, True, False))

    def finish(self, answer: Deleted) -> None:
        self.dead_lettering.close()
        self.storage.finish(answer)


def load_of(machine: ClassicQueue) -> tuple[QueueLoad, int]:
    """Return how much of a queue may be paged out and how fast it moves, and the bytes that are on
    their way to the disk already.

    Those are in RAM until they are written, but other messages must not have to leave because of
    them. All messages of the queue are taken for equally large.
    """
    depth = machine.depth
    pageable = depth.ram_messages + machine.ram_acks
    going = leaving(machine.backing)
    held = depth.ram_messages + depth.ram_unacked + going
    if not held:
        return QueueLoad(0.0, 0, 0), 0
    each = depth.footprint / held
    return QueueLoad(machine.rates.sum(), pageable, int(pageable * each)), int(going * each)


def leaving(backing: Backing) -> int:
    """Return the number of messages that count as out of RAM, but whose write to the disk is not
    finished."""
    return sum(chunk.left() for chunk in backing.leaving() if chunk.bodies)


def empty_index(services: Services, queue_id: int, durable: bool) -> QueueIndex:
    """Return the index of a queue that has nothing on the disk."""
    directory = queue_directory(queue_id, durable)
    return QueueIndex(queue_id, directory, services.entry_count, services.file_id)
