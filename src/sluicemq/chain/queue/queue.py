"""What queues of all types share: an actor around a machine, with credit, and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

from sluicemq.chain.queue.replicator_types import R_co
from sluicemq.chain.queue.vhost_port import BINDING_WORK, BINDINGS_MAX, NamedQueue
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.model.traffic import Traffic
from sluicemq.queues.commands import Delete, Publish
from sluicemq.queues.machine_types import M_co

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.fault_history import CrashPort
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.flow.gate import Gate
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.model.policies import EffectivePolicy
    from sluicemq.queues.classic.memory_target import QueueLoad
    from sluicemq.queues.effects import Deleted

FIRST_STRAND: Final = 2
"""The disk's strand of the queue with id 0, behind those of the journal and the message store."""

TARGETS_MAX: Final = 20
"""The most queues to which a batch is posted at a time."""

TARGET_WORK: Final = 60
"""The units of work for each of them, including the turn that the queue then needs."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishLink(Link):
    """The link over which somebody publishes to one queue, as the publisher sees it. The queue
    makes it (`Queue.link_from`), because its type determines how much may be under way: the link
    has a gate of the sender, which it shuts at that bound. Each batch is answered, or the link
    ends: then the sender rejects the unanswered ones (`LinkEnded`), or sends them again over
    another link, with the same numbers, if the queue recognises these."""

    __slots__ = ("queue",)

    def __init__(self, sender: Actor, queue: Queue) -> None:
        super().__init__(sender)
        self.queue = queue

    def send(self, batch: Batch, first_seq: int, confirm: bool) -> None:
        """Send a batch. Its messages have the numbers from `first_seq` on, above all that were sent
        before; with `confirm` the queue answers them. A batch is never refused: senders wait for
        the gate before the next one."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class CreditLink(PublishLink):
    """A link to a queue of this node, which admits as many messages as the queue has given credit
    for."""

    __slots__ = ("inflow", "outflow")

    def __init__(self, sender: FlowActor, queue: Queue) -> None:
        super().__init__(sender, queue)
        name = f"queue {queue.name}"
        self.outflow, self.inflow = queue.services.credit_link(sender, queue, name)

    def send(self, batch: Batch, first_seq: int, confirm: bool) -> None:
        self.outflow.spend(len(batch.contents))
        self.queue.post(Publish(batch, self, first_seq, confirm))

    def taken(self, count: int, size_bytes: int) -> None:
        self.inflow.settle(count, size_bytes)

    def end(self) -> None:
        self.outflow.detach()
        self.inflow.detach()


class LinkEnded:
    """Tells the sender on a link to `queue` that the queue was deleted; or, when `is_lost`, that it
    has failed and will not answer what was sent over the link."""

    __slots__ = ("is_lost", "link", "queue")

    def __init__(self, queue: Queue, link: Link, is_lost: bool) -> None:
        self.queue = queue
        self.link = link
        self.is_lost = is_lost


class Leaving:
    """Tells a deleted queue to remove some more of its bindings, then to go."""


class SetTarget:
    """Tells a queue how many seconds' worth of messages to keep in RAM; infinity keeps all. The
    number follows from the queue's rates (`queues/classic/memory_target.py`)."""

    __slots__ = ("duration_s",)

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s


class PolicyChanged:
    """Tells a queue that this policy applies to it from now on; None: no policy does."""

    __slots__ = ("policy",)

    def __init__(self, policy: EffectivePolicy | None) -> None:
        self.policy = policy


class FilesGone(DiskJob):
    """Deletes the segments at `paths`, and `directory` with everything in it; "" is none."""

    def __init__(self, paths: list[str], directory: str = "") -> None:
        self.paths = paths
        self.directory = directory

    def run(self, files: Files) -> None:
        for path in self.paths:
            files.delete(path)
        if self.directory:
            files.delete_tree(self.directory)


@mypyc_attr(allow_interpreted_subclasses=True)
class Queue(NamedQueue, Generic[M_co, R_co]):
    """A queue of any type: the shell around a state of type M_co, with a replicator of type
    R_co."""

    kind = "queue"
    is_vital = False
    is_local: ClassVar[bool] = True
    """This node has its messages, or a member of its group."""
    machine: M_co
    """The queue's state, as far as this node has it."""
    replicator: R_co
    """Agrees on the commands to the queue."""

    def __init__(self, vhost: VhostPort, definition: QueueDefinition, queue_id: int) -> None:
        services = vhost.services
        super().__init__(services.scheduler, services.world.clock)
        self.services = services
        self.store = vhost.store
        self.vhost = vhost
        self.definition = definition
        self.id = queue_id
        self.strand = FIRST_STRAND + queue_id
        self.name = definition.name
        self.title = f"queue '{definition.name}' in vhost '{vhost.name}'"
        self.policy = vhost.policies.for_queue(definition.name, definition.type)
        """What it was last told to hold."""
        self.effects: list[Any] = []
        """The effects of commands and calls that are not real yet. The replicator has this list,
        too: it is emptied and never replaced."""
        self.deliveries = GateKeeper(services.world.clock)
        self.upstream: dict[Actor, Link] = {}
        """The publishers of this queue, each with its last link."""
        self.gone = False
        self.unanswered_deletions: list[Deleted] = []
        """Deletions to be answered when its bindings are gone."""
        self.forgotten = False
        """It is deleted, and that is durable."""
        self.accounted = 0
        self.traffic = Traffic()
        """The channels' counts of its traffic; publishes to it are in `published`."""
        self.published = 0
        self.delivered = 0
        self.at: object = None
        """The effect that is being made real."""
        self.making: Iterator[object] = iter(())
        """The effects behind it."""
        self.crash: CrashPort | None = None
        """The stand-in after a fault, which answers, and does nothing else."""
        self.successor: Queue | None = None
        """The queue that has replaced it after a fault."""
        faults = vhost.crashes.get(definition.name)
        self.refused_messages = None if faults is None else faults.refused_messages

    @property
    def takes_enveloped(self) -> bool:
        """Tell whether it takes batches in which each message has a routing key of its own."""
        return True

    @property
    def latest(self) -> Queue:
        """Return the queue that is in its place now: itself, or its successor after faults."""
        queue: Queue = self
        while queue.successor is not None:
            queue = queue.successor
        return queue

    def link_from(self, sender: FlowActor) -> PublishLink:
        """Make a new link for an actor that publishes here."""
        return CreditLink(sender, self)

    def linked(self, publish: Publish) -> None:
        """Account for a batch that was taken out of the inbox: its sender may send more. A deleted
        queue holds up nobody."""
        link, batch = publish.link, publish.batch
        count = len(batch.contents)
        self.published += count
        if self.machine.deleted:
            link.sender.post(LinkEnded(self, link, False))
        else:
            self.upstream[link.sender] = link
        link.taken(count, batch.size)

    @property
    def is_durable(self) -> bool:
        return self.definition.durable

    @property
    def is_deleted(self) -> bool:
        return self.machine.deleted

    def state(self, now_ns: int) -> str:
        """Return its state as users see it, at `now_ns`: `running`, `flow`, or a state after a
        fault."""
        return self.flow_state(now_ns) if self.crash is None else self.crash.state

    def store_link(self) -> tuple[Outflow, Inflow] | None:
        """Return the two halves of its link to the message store; None when this type of queue does
        not use that."""
        return None

    def store_gate(self) -> Gate | None:
        """Return the gate that is shut while too much of it waits for the message store; None when
        a link to the store does that, or nothing."""
        return None

    def ram_load(self, now_ns: int) -> tuple[QueueLoad, int] | None:
        """Return how much of the queue may be paged out and how fast it moves at `now_ns`, and the
        bytes that are on their way to the disk already; None when this type of queue keeps no
        messages in RAM. A queue that returns figures is sent a `SetTarget`."""
        return None

    def leave(self, answer: Deleted) -> None:
        """Begin to go, because the queue is deleted. Many bindings are removed first, some at a
        time; commands that arrive meanwhile are answered as by a missing queue, or as if they had
        come before the deletion."""
        self.unanswered_deletions.append(answer)
        if len(self.unanswered_deletions) == 1:
            self.leave_some()

    def leave_some(self) -> None:
        """Remove some of the bindings; after the last one, go, as soon as the queue is out of the
        broker's tables."""
        if self.vhost.unbind_some(self):
            self.spend(BINDINGS_MAX * BINDING_WORK)
            self.post(Leaving())
            return
        if not self.vhost.forget_queue(self):
            return
        for answer in self.unanswered_deletions:
            self.go(answer)
        self.unanswered_deletions = []

    def undeclared(self) -> None:
        """End, because the queue is not declared any more, though it did not ask for
        that itself."""
        self.post(Delete(None, False, False))

    def go(self, answer: Deleted) -> None:
        """Release everybody who holds credit here, because the queue is deleted and in no table any
        more. The answer waits until the deletion is durable."""
        if self.gone:  # two channels have deleted it at once
            if answer.channel is not None:
                answer.channel.post(answer)
            return
        self.gone = True
        for sender, link in self.upstream.items():
            sender.post(LinkEnded(self, link, False))
        self.upstream = {}
        self.finish(answer)

    def finish(self, answer: Deleted) -> None:
        """Give back what belongs to this queue alone, and have the answer sent when the deletion is
        durable."""
        raise NotImplementedError

    def faulted(self, error: Exception) -> None:
        """Stop this queue and have it read back from the disk; after another fault it
        stays down."""
        if self.crash is None:
            self.vhost.crashed(self, error)
        else:
            self.crash.failed()

    def effects_real(self) -> None:
        """Make real, in order, the effects of commands and calls."""
        if len(self.effects) == 1:
            self.at = effect = self.effects[0]
            self.effects.clear()
            self.make_real(effect)
            self.at = None
        elif self.effects:
            effects = [*self.effects]
            self.effects.clear()
            self.making = iter(effects)
            for effect in self.making:
                self.at = effect
                self.make_real(effect)
            self.at = None

    def make_real(self, effect: Any) -> None:
        """Post an effect to its receiver; `at` is None when another part of the queue does that."""
        raise NotImplementedError
