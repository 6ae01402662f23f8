"""channel ---batch---> CLASSIC QUEUE ---write---> message store; deliveries go back to channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.pacer import Pace
from sluicemq.chain.queue.delivery_counts import counted
from sluicemq.chain.queue.poison import at_hand
from sluicemq.chain.queue.queue import (
    Enqueue,
    FilesGone,
    Leaving,
    PolicyChanged,
    QueueGone,
    SetTarget,
    TryAgain,
)
from sluicemq.chain.queue.upkeep import HeadDue, KeptQueue, LookUnused, Upkeep
from sluicemq.chain.store.messages import (
    BodiesRead,
    Collect,
    Flush,
    Flushed,
    Forgotten,
    StorePaged,
    StoreQueueDeleted,
    StoreRead,
    StoreRemove,
    StoreWrite,
    Written,
)
from sluicemq.flow.credit import Grant
from sluicemq.flow.gate import Gate
from sluicemq.flow.prefetch import Limiter, Resume
from sluicemq.kernel.disk import DiskJob
from sluicemq.limits import PAGE_OUT_BYTES, RETRY_FULL_MS, TIGHT_RATIO
from sluicemq.queues.classic import ClassicQueue
from sluicemq.queues.commands import (
    COMMANDS,
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
from sluicemq.storage.checkpoint import QueueState, encode_queue_state
from sluicemq.storage.queue_index import READ_TRIES, IndexRead, IndexWrite, QueueIndex
from sluicemq.storage.segments import queue_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.home import QueueHome
    from sluicemq.chain.queue.poison import Place
    from sluicemq.chain.services import Services
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.commands import Command
    from sluicemq.storage.entries import Run
    from sluicemq.storage.quarantine import Wanted
    from sluicemq.storage.queue_replica import QueueReplica


class ClassicShell(KeptQueue):
    """The shell around a classic queue: credit, the store, the disk, and making effects real."""

    prefix_bytes = 0
    """What it has put before each content."""

    def __init__(
        self, vhost: QueueHome, definition: QueueDefinition, queue_id: int, index: QueueIndex
    ) -> None:
        super().__init__(vhost, definition, queue_id)
        services = vhost.services
        io_batch = services.config.storage.msg_store_io_batch_size
        settings = settings_of(definition.arguments, {})
        self.machine = ClassicQueue(self.title, definition.durable, self, index, io_batch, settings)
        self.replicator = Alone(self.machine)
        self.deduplication = deduplication_of(definition.arguments)
        self.upkeep = Upkeep(self)
        self.configure(self.policy)
        self.pace = Pace()
        self.removed: StoreRemove | None = None
        self.invitations: list[Limiter] = []
        self.to_store, self.store_inflow = services.store_link(self, self.store)
        self.paging = Gate(self.keeper, "paging out")
        self.flush_upto = 0
        """A checkpoint waits for what is below this position."""
        self.flush_from = 0
        """Of what waits in order, everything below this position has been looked at for it."""

    def receive(self, message: object) -> None:
        """Publishes over a credited link; commands from channels and store."""
        if isinstance(message, Enqueue):
            publish = message.publish
            count = len(publish.batch.contents)
            self.published += count
            if self.machine.deleted:
                publish.sender.post(QueueGone(self))
            else:
                self.upstream[publish.sender] = message.inflow
            message.inflow.settle(count, publish.batch.size)
            if self.unwelcome is None:
                self.take_in(publish)
            else:
                self.take_in_part(publish, self.unwelcome)
        elif isinstance(message, COMMANDS):
            if self.machine.limits.restless:
                self.upkeep.tick()
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
        """Make another one with the same definition."""
        return ClassicShell(self.vhost, self.definition, queue_id, index)

    def suspected(self) -> list[Place | Wanted]:
        """After a fault: the messages that it, or who works for it, cannot handle."""
        found: list[Place | Wanted] = at_hand(self.at, self.upkeep.letters)
        if self.upkeep.republisher is not None:
            found += self.upkeep.republisher.suspected()
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
        if self.upkeep.expires_ms is not None and isinstance(command, USES):
            self.upkeep.used()

    def written(self, message: Written) -> None:
        """The store has made some publishes durable."""
        if self.machine.limits.restless:
            self.upkeep.tick()
        self.machine.written(message.receipts, self.effects)
        if self.deduplication is not None:
            self.deduplication.written(message.receipts, self.effects)

    def receive_rare(self, message: object) -> None:
        """What has to do with the disk; grants."""
        if isinstance(message, IndexWrite | IndexRead):
            self.job_done(message)
        elif isinstance(message, SetTarget):
            self.machine.set_target(message.duration_s)
        elif isinstance(message, BodiesRead):
            self.say_lost(self.machine.got_bodies(message.chunk, message.contents))
        elif isinstance(message, PolicyChanged):
            self.configure(message.policy)
        elif isinstance(message, HeadDue):
            self.upkeep.head_due(message)
        elif isinstance(message, LookUnused):
            self.upkeep.look_unused()
        elif isinstance(message, Flush):
            self.flush_upto = message.upto
            self.flush_from = 0
            self.machine.backing.bound(message.upto)
        elif isinstance(message, Collect):
            self.collect(message.empty)
        elif isinstance(message, Leaving):
            self.leave_some()
        elif isinstance(message, Forgotten):
            self.forgotten = True
            self.delete_files()
        elif isinstance(message, TryAgain):
            self.try_again(message.job)
        elif isinstance(message, FilesGone):
            self.files_gone(message)
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
        if machine.limits.restless:
            self.upkeep.tick()
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
        machine.reduce_memory_use(self.store_is_full)
        if machine.backing.to_store_count:
            self.page_bodies()
        self.work_on_disk()
        footprint = machine.depth.footprint
        if footprint != self.accounted:
            self.services.memory_used(footprint - self.accounted)
            self.accounted = footprint
        if machine.limits.restless:
            self.upkeep.plan()
        self.hold_up()

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
        if self.removed is not None:
            self.store.post(self.removed)
            self.removed = None

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
            self.to_store.spend(len(effect.batch.contents))
            self.store.post(
                StoreWrite(
                    self,
                    effect.batch,
                    effect.receipt,
                    effect.position,
                    self.store_inflow,
                    effect.expiry,
                )
            )
            return
        if isinstance(effect, Remove):
            self.remove(effect)
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
            self.upkeep.dead_letter(effect)
            return
        if effect.channel is not None:
            effect.channel.post(effect)
            self.at = None

    def remove(self, effect: Remove) -> None:
        """Gathered, neighbours joined, and posted once at the end of the turn."""
        removed = self.removed
        if removed is None:
            removed = self.removed = StoreRemove(self, self.machine.backing.delivered)
        if effect.durable:
            positions = effect.positions
            ranges = removed.indexed if effect.indexed else removed.ranges
            last = ranges[-1] if ranges else positions
            if last.stop == positions.start and last.step == positions.step == 1:
                positions = range(ranges.pop().start, positions.stop)
            ranges.append(positions)
            removed.delivered = self.machine.backing.delivered
        if effect.ids is not None:
            (removed.persistent if effect.durable else removed.transient).append(effect.ids)

    # -- settings

    def configure(self, policy: EffectivePolicy | None) -> None:
        """What the arguments and this policy say holds from now on."""
        settings = settings_of(self.definition.arguments, policy.definition if policy else {})
        self.settings = settings
        self.message_ttl_ms = settings.message_ttl_ms
        self.upkeep.configure(settings)
        self.replicator.submit(Configure(settings), self.effects)

    def expiry_of(self, ttl_ms: int | None) -> int:
        """When a message that has come now and may live so long is of no interest any more."""
        limits = [each for each in (ttl_ms, self.message_ttl_ms) if each is not None]
        return self.services.world.clock.wall_ms() + min(limits)

    # -- RAM and disk

    def store_is_full(self) -> bool:
        """Is the credit to the message store spent, or will be by what is about to be handed over?
        Then nothing more is paged out to it."""
        about_to = self.machine.backing.to_store_count
        return self.to_store.credit <= about_to or bool(self.store.sealed)

    def page_bodies(self) -> None:
        """Transient bodies that leave RAM go to the message store, over the credited link."""
        for chunk in self.machine.backing.take_to_store():
            self.to_store.spend(chunk.left())
            self.store.post(StorePaged(chunk, self.store_inflow))

    def work_on_disk(self) -> None:
        """At most one job of the index at a time; bodies are read beside it."""
        machine = self.machine
        backing = machine.backing
        index = backing.index
        sealed = bool(self.store.sealed)
        if index.has_empty:
            self.let_segments_go()
        if machine.limits.doomed:
            for chunk in machine.limits.bodies_wanted():
                self.store.post(StoreRead(self, chunk))
        if not self.flush_upto and not backing.needs_disk():
            return
        hungry = machine.hungry()
        for chunk in backing.bodies_wanted(hungry):
            self.store.post(StoreRead(self, chunk))
        if index.busy:
            return
        job: IndexWrite | IndexRead | None = None
        if self.flush_upto and not sealed:
            job = self.flush()
        if job is None:
            job = backing.next_job(hungry, writing=not sealed)
        if job is not None:
            self.services.world.disk.submit(job, self, self.lane)

    def flush(self) -> IndexWrite | None:
        """The next part of what a checkpoint waits for; None when all of it is done."""
        backing = self.machine.backing
        runs: list[Run] = []
        size = 0
        for chunk, in_order in self.machine.unsaved(self.flush_upto, self.flush_from):
            if in_order:
                self.flush_from = chunk.positions().start
            for run in backing.runs_of(chunk):
                runs.append(run)
                size += sum(run.sizes)
            if size >= PAGE_OUT_BYTES:
                break
        if runs:
            return backing.index.write(runs)
        self.flush_upto = self.flush_from = 0
        self.store.post(Flushed(self))
        return None

    def job_done(self, job: IndexWrite | IndexRead) -> None:
        """The disk has done it, or has not."""
        backing = self.machine.backing
        failure = job.failure
        if isinstance(job, IndexWrite):
            if failure is None:
                self.services.has_space(job)
                backing.wrote(job)
                self.store.checkpoints.touch(self)
            elif failure.is_full:
                job.failure = None
                self.services.no_space_for(job)
                self.services.world.clock.call_after(RETRY_FULL_MS, self, TryAgain(job))
            else:
                backing.give_up(job)
                self.store.seal(str(failure))
            return
        if failure is not None and job.tries < READ_TRIES:
            job.failure = None
            if job.tries == 1:
                self.services.world.log.write("warning", f"{self.title}: {failure}; trying again")
            self.services.world.clock.call_after(RETRY_FULL_MS, self, TryAgain(job))
            return
        if failure is not None:
            job.damaged.append(str(failure))
        if job.epoch < 0:
            self.sought(job)
        else:
            lost = self.machine.loaded(job)
            for text in job.damaged:
                self.services.world.log.write("error", f"{self.title}: {text}")
            self.say_lost(lost)

    def try_again(self, job: DiskJob) -> None:
        """Perhaps there is space now. What a deleted queue had to write nobody wants, and its
        directory may be gone."""
        if isinstance(job, IndexWrite) and self.machine.deleted:
            self.services.has_space(job)
            self.machine.backing.give_up(job)
        else:
            self.services.world.disk.submit(job, self, self.lane)

    def sought(self, job: IndexRead) -> None:
        """What was purged on disk has these bodies in the message store."""
        removed = StoreRemove(self, self.machine.backing.delivered)
        for run in self.machine.backing.sought(job):
            (removed.persistent if run.persistent else removed.transient).append(run.ids)
        self.store.post(removed)
        self.delete_files()

    def say_lost(self, lost: list[range]) -> None:
        """Messages could not be read back: they are gone, and it is said which."""
        if lost:
            count = sum(map(len, lost))
            where = ", ".join(f"{each[0]}-{each[-1]}" for each in lost[:10])
            text = f"{self.title}: {count} messages are lost, at positions {where}"
            self.services.world.log.write("error", text)

    def let_segments_go(self) -> None:
        """Nothing in them is alive; the last checkpoint may count on them until the
        acknowledgements are durable."""
        empty = self.machine.backing.index.empty()
        if self.definition.durable:
            removed = StoreRemove(self, self.machine.backing.delivered)
            removed.empty = empty
            self.store.post(removed)
        else:
            self.collect(empty)

    def collect(self, empty: list[tuple[int, int]]) -> None:
        """Delete these segments, if nothing is alive in them."""
        paths = self.machine.backing.index.collect(empty)
        if paths and not self.machine.deleted:
            self.store.checkpoints.touch(self)
            self.services.world.disk.submit(FilesGone(paths), self, self.lane)

    def delete_files(self) -> None:
        """When the queue is no more, and nothing is sought in them any more."""
        backing = self.machine.backing
        if not self.forgotten or backing.is_seeking:
            return
        directory = backing.index.directory
        if backing.index.sequence or backing.index.segments:
            self.services.world.disk.submit(FilesGone([], directory), self, self.lane)

    def files_gone(self, job: FilesGone) -> None:
        if job.failure is not None:
            text = f"{self.title}: files of no use stay for now: {job.failure}"
            self.services.world.log.write("warning", text)

    def hold_up(self) -> None:
        """While memory is tight and the disk is behind, publishers of this queue wait for it."""
        gate = self.paging
        if gate.is_shut:
            if not self.is_behind() or self.services.memory_pressure < TIGHT_RATIO:
                gate.open()
        elif self.services.memory_pressure >= TIGHT_RATIO and self.is_behind():
            gate.shut()

    def is_behind(self) -> bool:
        """Is there something to page out that will wake this queue when it is done?"""
        backing = self.machine.backing
        if backing.target is None or self.store.sealed or self.machine.deleted:
            return False
        return isinstance(backing.index.job, IndexWrite) and backing.has_outgoing

    # -- checkpoints

    def checkpoint_state(self) -> bytes:
        machine = self.machine
        depth = machine.depth
        mark, *others = machine.marks()
        state = QueueState(
            self.id,
            mark.next,
            mark.delivered,
            machine.backing.index.states(),
            depth.ready_bytes + depth.unacked_bytes,
            others,
        )
        return encode_queue_state(state)

    def dirty_files(self) -> tuple[str, list[str]]:
        index = self.machine.backing.index
        return index.directory, index.take_dirty()

    # -- ends

    def consumer_left(self, message: Down | Cancel) -> None:
        """A channel or a consumer is gone; an auto-delete queue goes with its last consumer."""
        if isinstance(message, Down):
            self.upstream.pop(message.channel, None)
        if self.definition.auto_delete and self.machine.is_unused() and not self.machine.deleted:
            self.replicator.submit(Delete(None, False, False), self.effects)

    def finish(self, answer: Deleted) -> None:
        self.upkeep.close()
        self.to_store.detach()
        self.store_inflow.detach()
        self.store.checkpoints.forget(self)
        if self.flush_upto:
            self.flush_upto = self.flush_from = 0
            self.store.post(Flushed(self))
        if self.definition.durable:
            self.store.post(StoreQueueDeleted(self, answer))
            return
        self.forgotten = True
        if answer.channel is not None:
            answer.channel.post(answer)
        self.delete_files()


def empty_index(services: Services, queue_id: int, durable: bool) -> QueueIndex:
    """The index of a queue that has nothing on the disk."""
    directory = queue_directory(queue_id, durable)
    return QueueIndex(queue_id, directory, services.entry_count, services.file_id)
