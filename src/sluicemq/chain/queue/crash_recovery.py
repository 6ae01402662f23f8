"""A queue whose own code has failed: it is stopped, and begins anew from the disk.

    fault       only the actor is left of the queue: it answers, and does nothing else. Its
                consumers are cancelled, publishers' links are lost with all that
                was not answered, waiting requests get 404; memory and credit are given
                back.
    recovering  when all its journal records are durable, the queue is read back as after a restart
                (storage/queue_recovery.py) and takes the place of the one that has failed
    crashed     after a second fault in CRASH_WINDOW_NS it is read back, so that checkpoints go on,
                but it stays down until a restart of the broker, or until it is deleted
    set aside   a fault whose cause is a message (poison_messages.py) counts for that message. After
                the second one, however much later, the message leaves the queue
                while that is read back, for the quarantine (storage/quarantine.py), and the queue
                goes on with the rest. It is durable there before the journal hears that it has
                left. If there is no room for it the queue stays down.
    refused     after a fault at the publish of a batch its messages are suspects. Of suspects that
                come again fewer are tried at a time, until one has its fault alone: it is refused
                from then on (refused_messages.py). Meanwhile the queue goes on, too

What only RAM had is lost: transient messages, and persistent ones that were not confirmed yet. The
queue's own state is only trusted for whom to tell what, and each such step stands alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.fault_history import CRASHED, RECOVERING, CrashPort, FaultHistory
from sluicemq.chain.queue.poison_messages import suspects
from sluicemq.chain.queue.queue import FilesGone, Leaving, LinkEnded
from sluicemq.chain.store.messages import (
    Flush,
    Flushed,
    Forgotten,
    StoreQueueDeleted,
    TryAgain,
    WhenSafe,
)
from sluicemq.flow.delivery_window import DeliveryOutflow
from sluicemq.flow.prefetch import Resume
from sluicemq.kernel.cleanup_steps import Step, take
from sluicemq.kernel.containment import traceback_text
from sluicemq.limits import RETRY_FULL_MS
from sluicemq.metadata.agreement import Agreed
from sluicemq.model.batch import ENVELOPED, exchange_and_key
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.storage.queue_index import IndexWrite
from sluicemq.storage.queue_recovery import QueueRecovery, ReadBack
from sluicemq.text import text_of

if TYPE_CHECKING:
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.model.batch import Batch
    from sluicemq.storage.quarantine import Poison, Wanted

FAULT_SAID_MAX: Final = 1000
"""Characters of a fault that are kept with a message; the log has all of it."""


REFUSED_SAID_MAX: Final = 10
"""The most refused messages whose sizes are logged."""


UNTOLD: Final = (e.Confirm, e.Rejected, e.Write, e.Remove, e.DeadLetter)
"""Effects that need no answer once it is known that the queue has failed."""


Q = TypeVar("Q", bound="Queue")


class Crash(CrashPort, Generic[Q]):
    """Stands in for a queue that has failed; from `begin` on it handles the actor's messages."""

    unread = "no checkpoint is made until a restart"
    """The consequence for checkpoints when the queue cannot be read back."""
    is_elsewhere = False
    """True if the queue is served elsewhere from now on."""

    def __init__(self, vhost: NamespacePort, queue: Q, error: Exception) -> None:
        self.vhost = vhost
        self.queue = queue
        self.fault = f"{type(error).__name__}: {error}"[:FAULT_SAID_MAX]
        self.services = vhost.services
        self.store = vhost.store
        self.state = RECOVERING
        self.wanted: list[Wanted] = []
        """Messages that are to be set aside."""
        self.is_safe = False
        """Checkpoints may go on without it."""
        self.deletions: list[c.Delete] = []
        """Deletions that wait until it has been read back."""

    @property
    def text(self) -> str:
        """Return the text of refusals, in RabbitMQ's words."""
        title = self.queue.title
        if self.state == CRASHED:
            return f"{title} has crashed and failed to restart"
        return f"{title} has crashed and is being restarted"

    def begin(self) -> None:
        """Stop the queue, tell all channels, and have it read back."""
        queue = self.queue
        found = self.cause()
        faults = self.vhost.crashes.setdefault(queue.name, FaultHistory())
        now_ns = self.services.world.clock.now_ns()
        lost = [] if queue.replicator.is_closed else queue.replicator.close()
        batch = batch_at(queue.faulted_message, lost)
        refused: list[bytes] = []
        if batch is not None:
            take(queue, [lambda: refused.extend(faults.refused_messages.accuse(batch))])
        self.state, self.wanted = faults.judge(now_ns, queue.id, found, refused)
        queue.crash = self
        queue.underway = None  # what it was at is the first of what is lost
        queue.stand_in = self
        asked = [
            queue.faulted_message,
            *(each for each in lost if each is not queue.faulted_message),
        ]
        take(queue, self.steps(asked, self.unmade()))
        if queue.gone:
            return  # it was deleted before, or just now
        self.say_crashed(found)
        if batch is not None and refused:
            self.say_refused(batch.traits.envelope, refused)
        if queue.definition.durable:
            self.store.checkpoints.hold(queue)
            self.store.post(WhenSafe(queue))
        elif self.state == RECOVERING:
            self.begin_empty()

    def cause(self) -> list[Wanted]:
        """Return the messages that cannot be handled; none if that is not known."""
        return []

    def say_crashed(self, found: list[Wanted]) -> None:
        """Log that the queue has crashed, and how it goes on. `found` are the messages that it
        cannot handle."""
        again = "it recovers from the disk"
        if self.state == CRASHED:
            again = "it stays down, after its second fault in a minute"
        elif self.wanted:
            again += ", without the messages it cannot handle"
        elif found:
            positions = ", ".join(str(each.position) for each in found)
            again += f", though it cannot handle the messages at positions {positions}"
        text = f"{self.queue.title} has crashed: {again}; unconfirmed messages are lost"
        self.services.world.log.write("error", text)

    def say_refused(self, envelope: bytes, refused: list[bytes]) -> None:
        """Log that these contents are refused from now on; `envelope` names the
        exchange and key.
        """
        sizes = ", ".join(str(len(content)) for content in refused[:REFUSED_SAID_MAX])
        where = (
            ""
            if envelope == ENVELOPED
            else " to exchange '{}' with routing key '{}'".format(
                *map(text_of, exchange_and_key(envelope))
            )
        )
        text = f"{self.queue.title} refuses {len(refused)} messages from now on, for it had its"
        text += f" faults at their publish: published{where}, of {sizes} bytes"
        self.services.world.log.write("error", text)

    def unmade(self) -> list[object]:
        """Take and return the effects that are not real yet, in order."""
        queue = self.queue
        at = [] if queue.at is None else [queue.at]
        effects: list[object] = [*at, *queue.making, *queue.effects]
        queue.effects.clear()
        return effects

    def failed(self) -> None:
        self.state = CRASHED
        self.delete_now()

    def steps(self, asked: list[object], effects: list[object]) -> list[Step]:
        """Return the steps that answer unfinished requests and take back effects that
        are not real.
        """
        raise NotImplementedError

    def begin_empty(self) -> None:
        """Replace it by an empty queue, because it has nothing on the disk."""
        raise NotImplementedError

    def settled(self, message: c.Settle) -> None:
        """Handle a channel's settlements of the queue's messages."""
        raise NotImplementedError

    def recovery(self) -> ReadBack:
        """Return the job that reads the queue back from the disk."""
        raise NotImplementedError

    def goes_on(self, job: Any) -> None:
        """Replace it by a queue with the messages that the job has read back, or stay down after
        all."""
        raise NotImplementedError

    def stays_down(self, job: Any) -> None:
        """Keep what the job has read back for checkpoints only."""
        raise NotImplementedError

    @property
    def directory(self) -> str:
        """Return the path of the directory with the queue's files."""
        raise NotImplementedError

    def forget_log(self) -> None:
        """Have the deleted queue's log in the message store forgotten; most queues have none."""

    def mark_deleted(self) -> None:
        """Mark the machine as deleted, for code that checks whether the queue can still be used."""
        self.queue.machine.deleted = True

    def give_memory_back(self) -> None:
        """Give back the memory that the queue has accounted for, because it keeps no message."""
        self.services.memory_used(-self.queue.accounted)
        self.queue.accounted = 0

    def cancel_consumers(self) -> None:
        """Tell all channels that their consumers are gone; clients with that capability are
        notified."""
        for consumer in self.queue.machine.consumers.all():
            consumer.channel.post(e.Cancelled(consumer, True, self.is_elsewhere))

    def let_senders_go(self) -> None:
        """End all links to the queue: they hold up no sender, and get no answers any more."""
        upstream, self.queue.upstream = self.queue.upstream, {}
        for link in upstream.values():
            self.lose(link)

    def lose(self, link: Link) -> None:
        """End a link, and tell its sender that unanswered messages are lost."""
        link.end()
        link.sender.post(LinkEnded(self.queue, link, True))

    def take_back(self, effect: Any) -> None:
        """Take back an effect that is not real: a request is refused. Answers to publishes are lost
        with their links."""
        if isinstance(effect, e.Deliver):
            self.take_back_delivery(effect)
        elif not isinstance(effect, UNTOLD):
            self.refuse(effect.channel)

    def take_back_delivery(self, deliver: e.Deliver) -> None:
        """Give back the credit that the connection and the channel spent on a delivery that was not
        made."""
        consumer = deliver.consumer
        if isinstance(consumer.window, DeliveryOutflow):
            consumer.window.shared.give_back(deliver.cost)
        if deliver.run:
            consumer.limiter.give(len(deliver.contents))

    def refuse(self, channel: Actor | None) -> None:
        """Answer a request with the error "not found"; `channel` None: nobody waits for
        an answer.
        """
        if channel is not None:
            channel.post(e.Refuse(channel, 404, self.text, self.is_elsewhere))

    # -- in place of the queue's own turns

    def receive(self, message: object) -> None:
        """Answer a message in place of the queue, and handle those of the disk and the store."""
        if isinstance(message, c.Publish):
            self.lose(message.link)
        elif isinstance(message, c.Settle):
            self.settled(message)
        elif isinstance(message, c.Consume):
            self.refuse(message.consumer.channel)
        elif isinstance(message, c.Cancel):
            consumer = message.consumer
            consumer.channel.post(e.Cancelled(consumer, False))
        elif isinstance(message, c.Get | c.Inspect | c.Purge):
            self.refuse(message.channel)
        elif isinstance(message, c.Delete):
            self.delete(message)
        elif isinstance(message, Leaving):
            for answer in self.queue.unanswered_deletions:
                self.delete(c.Delete(answer.channel, False, False))
        elif isinstance(message, Flush):
            if self.is_safe:  # else the checkpoint waits until then
                self.store.post(Flushed(self.queue))
        elif isinstance(message, Resume):
            message.limiter.had_turn(self.queue)
        elif isinstance(message, TryAgain):
            self.try_again(message.job)
        elif isinstance(message, IndexWrite):
            self.services.has_space(message)  # it may have waited for space; nobody wants it now
        elif isinstance(message, Agreed):
            self.read_back(message)
        elif isinstance(message, ReadBack):
            self.was_read(message)
        elif isinstance(message, Forgotten):
            self.queue.forgotten = True
            job = FilesGone([], self.directory)
            self.services.world.disk.submit(job, self.queue, self.queue.strand)

    def try_again(self, job: DiskJob) -> None:
        """Submit again the job that reads the queue back, unless the queue is deleted or the
        storage has failed meanwhile. Other jobs that waited after a failure are dropped."""
        if not isinstance(job, ReadBack) or self.queue.gone:
            self.services.has_space(job)
        elif self.store.storage_failed:
            self.services.has_space(job)
            self.say_unread(self.store.storage_failed)
        else:
            self.services.world.disk.submit(job, self.queue, self.queue.strand)

    # -- the way back

    def read_back(self, message: Agreed) -> None:
        """Begin to read the queue back, because all its journal records are durable. If they cannot
        be, a restart has to recover it."""
        if message.refusal is not None:
            self.failed()
            return
        self.services.world.disk.submit(self.recovery(), self.queue, self.queue.strand)

    def was_read(self, job: ReadBack) -> None:
        """Go on with what a job has read back, or stay down; a job that lacked space is tried
        again."""
        queue, log = self.queue, self.services.world.log
        for level, text in job.said:
            log.write(level, f"{queue.title}: {text}")
        if job.failure is not None and job.failure.is_full:
            job.failure = None
            self.services.no_space_for(job)
            self.store.ballast.delete()
            again = TryAgain(job)
            self.services.world.clock.call_after(RETRY_FULL_MS, queue, again)
            return
        self.services.has_space(job)
        if not job.is_done:
            self.say_unread(str(job.failure) if job.fault is None else traceback_text(job.fault))
            if job.failure is not None:  # it may have been a sync
                self.store.fail_storage(str(job.failure))
            return
        if self.state == RECOVERING:
            self.goes_on(job)
        else:
            self.stays_down(job)
        self.release()

    def say_unread(self, why: str) -> None:
        """Stay down and log that the queue cannot be recovered, and why."""
        self.failed()
        text = f"{self.queue.title} cannot be recovered; {self.unread}"
        self.services.world.log.write("error", f"{text}: {why}")

    def release(self) -> None:
        """Let checkpoints and deletions wait for it no longer."""
        self.is_safe = True
        self.store.checkpoints.release(self.queue)
        self.store.post(Flushed(self.queue))
        self.delete_now()

    def delete_now(self) -> None:
        """Carry out the deletions that waited for the queue to be read back."""
        deletions, self.deletions = self.deletions, []
        for command in deletions:
            self.delete(command)

    def delete(self, command: c.Delete) -> None:
        """Delete the queue, by wish, or with its connection or virtual host; if a checkpoint may
        wait for it, once it has been read back."""
        queue = self.queue
        successor = self.vhost.queues.get(queue.name)
        if isinstance(successor, type(queue)) and successor is not queue:
            successor.post(command)
        elif queue.definition.durable and not self.is_safe and self.state == RECOVERING:
            self.deletions.append(command)
        elif queue.gone:
            self.refuse(command.channel)
        else:
            queue.gone = True
            answer = e.Deleted(command.channel, 0)
            self.vhost.forget_queue(queue)  # the answer does not wait for the other nodes
            self.vhost.crashes.pop(queue.name, None)
            if queue.definition.durable:
                self.store.checkpoints.release(queue)
                self.store.post(Flushed(queue))  # a checkpoint under way may wait for it
                self.forget_log()
                self.store.post(StoreQueueDeleted(queue, answer))
            elif command.channel is not None:
                command.channel.post(answer)


class ClassicCrash(Crash[ClassicShell]):
    """Stands in for a classic queue that has failed."""

    def cause(self) -> list[Wanted]:
        queue = self.queue
        found: list[Wanted] = []
        if queue.definition.durable:
            take(
                queue,
                [lambda: found.extend(suspects(queue.suspected(), queue.machine.unacked_runs))],
            )
        return found

    def steps(self, asked: list[object], effects: list[object]) -> list[Step]:
        queue = self.queue
        machine = queue.machine
        return [
            self.mark_deleted,
            *(partial(self.take_back, effect) for effect in effects),
            *(partial(self.receive, each) for each in asked),
            self.cancel_consumers,
            *(partial(self.refuse, channel) for channel in machine.unanswered()),
            self.let_senders_go,
            self.give_memory_back,
            partial(self.store.checkpoints.forget, queue),
            queue.storage.to_store.detach,
            queue.storage.store_inflow.detach,
            queue.storage.paging.open,
            *(partial(limiter.had_turn, queue) for limiter in queue.invitations),
            queue.dead_lettering.close,
            self.vhost.topology.has_changed,
        ]

    def begin_empty(self) -> None:
        self.vhost.replace(self.queue, self.queue.again(None))

    def settled(self, message: c.Settle) -> None:
        """Settle the messages that were not settled yet; the command that failed may be done in
        part."""
        machine = self.queue.machine
        take(self.queue, [machine.credit_settled, partial(machine.settle_rest, message)])

    @property
    def directory(self) -> str:
        return self.queue.machine.index.directory

    def recovery(self) -> QueueRecovery:
        checkpoints = self.store.checkpoints
        return QueueRecovery(
            self.queue.id,
            self.services.entry_count,
            self.services.file_id,
            checkpoints.states.get(self.queue.id),
            checkpoints.saved_cut,
            self.wanted,
            self.queue.prefix_bytes,
            self.known(),
        )

    def known(self) -> dict[str, Any]:
        """Return the facts that are kept with a message that is set aside, by name."""
        return {
            "vhost": self.vhost.name,
            "queue_name": self.queue.name,
            "time_ms": self.services.world.clock.wall_ms(),
            "fault": self.fault,
        }

    def goes_on(self, job: QueueRecovery) -> None:
        queue, log = self.queue, self.services.world.log
        if job.not_kept:
            self.state = CRASHED
            text = f"{queue.title} stays down: the message it cannot handle cannot be set aside"
            log.write("error", f"{text}: {job.not_kept}")
            self.stays_down(job)
            return
        assert job.found is not None
        self.vhost.replace(queue, queue.again(job.found))
        self.let_go(job)
        count = sum(segment.live.bit_count() for segment in job.found.index.segments.values())
        log.write("warning", f"{queue.title} goes on with {count} messages from the disk")

    def stays_down(self, job: QueueRecovery) -> None:
        assert job.found is not None
        self.store.checkpoints.keep(self.queue, job.found)

    def let_go(self, job: QueueRecovery) -> None:
        """Tell the journal that messages that were set aside have left the queue, and log it."""
        fresh = self.queue.successor
        if not job.kept or not isinstance(fresh, type(self.queue)):
            return
        removed = fresh.storage.removal()
        removed.indexed = [poison.run.positions for poison in job.kept]
        removed.persistent = job.ids
        self.store.post(removed)
        for poison in job.kept:
            self.say_set_aside(poison)

    def say_set_aside(self, poison: Poison) -> None:
        """Log that a message is set aside, and its file."""
        exchange, key = map(text_of, exchange_and_key(poison.run.traits.envelope))
        self.services.world.log.write(
            "error",
            f"{self.queue.title} cannot handle its message at position {poison.run.first},"
            f" published to exchange '{exchange}' with routing key '{key}'"
            f" ({len(poison.content)} bytes): it is set aside in {poison.path}",
        )


def batch_at(faulted_message: object, lost: list[c.Command]) -> Batch | None:
    """Return the batch that was being taken in at a fault: the faulted message, or the first lost
    command. None: the fault was elsewhere."""
    for first in (faulted_message, *lost[:1]):
        if isinstance(first, c.Publish):
            return first.batch
    return None
