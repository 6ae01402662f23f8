"""The rules that must hold for quorum queues inside a node.

quanta      a group of the journal with an append to a log has at most one quantum of
            writes for classic queues
memory      a queue accounts for bodies in RAM and uncommitted commands, in the end for none
links       as of any queue; the credit of a channel's excess batches is kept back
at rest     channel and state agree on the channel's unacknowledged messages, except for those
            assigned to it that wait for room in its window
settings    the effective settings of policy and arguments are committed
after       the state is the same as in the life before (quorum_model.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.store.store_group import StoreGroup
from sluicemq.queues.settings import settings_of
from sluicemq.sim.quorum_model import QuorumModel
from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.queue.queue import CreditLink, Queue
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.flow.gate import GateKeeper
    from sluicemq.sim.durable_image import DurableImage
    from sluicemq.sim.history import History
    from sluicemq.sim.quorum_model import QuorumRecords
    from sluicemq.sim.quorum_plans import QuorumBounds


class QuorumChecks:
    """Checks the quorum queues of one node. `bounds` None: there are none."""

    def __init__(
        self,
        book: History,
        durable_image: DurableImage,
        records: QuorumRecords,
        bounds: QuorumBounds | None,
    ) -> None:
        self.book = book
        self.durable_image = durable_image
        self.records = records
        self.bounds = bounds
        self.models: dict[QuorumShell, QuorumModel] = {}
        self.crashed: dict[QuorumShell, None] = {}
        """The remains of queues that have had a fault."""
        self.groups = 0
        """The number of groups of the journal at the last look."""

    def quanta(self, store: MessageStore) -> None:
        """Check that no append to a log waits for too many writes of classic queues."""
        commits = store.commits
        if commits.groups == self.groups:
            return
        self.groups = commits.groups
        group = commits.committing
        quanta = [append for append in group if isinstance(append, StoreGroup)]
        if any(append.raft_bytes for append in group):
            promise(len(quanta) <= 1, "an append to a log waits for", len(quanta), "quanta")
        for quantum in quanta:
            size = sum(write.batch.size for write in quantum.writes[:-1])
            promise(size < store.quantum_bytes, "a quantum was full and got more, at", size)

    def watch(self, queue: Queue) -> None:
        """Watch a queue if it is a quorum queue, and make its bounds small."""
        if not isinstance(queue, QuorumShell):
            return
        self.models[queue] = QuorumModel(queue, self.book, self.durable_image, self.records)
        bounds = self.bounds
        assert bounds is not None, "a quorum queue in a run without"
        queue.backlog_bytes_max = bounds.backlog_bytes
        queue.snapshots.entries_max = bounds.snapshot_entries
        queue.deliveries_due.bodies_bytes_max = bounds.bodies_bytes
        queue.deliveries_due.read_bytes_max = bounds.read_bytes

    def replaced(self, queue: Queue, fresh: Queue) -> None:
        """Note that a queue has had a fault, and the queue that replaces it, rebuilt from the same
        log."""
        if isinstance(queue, QuorumShell) and isinstance(fresh, QuorumShell):
            same = queue.fifo.index == fresh.fifo.index and not queue.replicator._left
            right = not same or queue.fifo.digest() == fresh.fifo.digest()
            promise(right, queue.name, "is another after its fault, at", fresh.fifo.index)

    def forget(self, channels: dict[Channel, None]) -> None:
        """Forget deleted queues once no channel has a link to them."""
        for queue in [q for q in self.models if q.crash is not None]:
            del self.models[queue]
            self.crashed[queue] = None
        for queue in [q for q in self.models if q.machine.deleted and not q.scheduled]:
            if not any(channel.publishing.links.get(queue) for channel in channels):
                del self.models[queue]

    def queues(self) -> list[QuorumShell]:
        """Return the queues, and the remains of those that have had a fault."""
        return [*self.models, *self.crashed]

    def over(self) -> None:
        """Remember the states when the node ends."""
        for queue, model in self.models.items():
            if queue.crash is None:
                model.remember()

    @property
    def is_waiting(self) -> bool:
        """Tell whether a queue waits for more messages, or for the disk."""
        return any(
            queue.replicator.gathered or queue.replicator.unagreed_bytes or queue.snapshots.steps
            for queue in self.models
        )

    def accounted(self) -> int:
        """Return the bytes that the queues account for, after checking them against
        what they hold.
        """
        total = 0
        for queue in self.models:
            bodies = queue.bodies
            kept = (bodies.fresh, bodies.stored, bodies.read_back)
            held = sum(each.size for entries in kept for each in entries.values())
            promise(held == bodies.ram_bytes, queue.name, "counts", bodies.ram_bytes, "not", held)
            if not queue.scheduled and not queue.gone:
                held += queue.replicator.unagreed_bytes
                promise(held == queue.accounted, queue.name, "counts", queue.accounted, "not", held)
            total += queue.accounted
            under_way = sum(each.messages for end in queue.ends.values() for each in end.pending)
            promise(queue.under_way == under_way, queue.name, "has under way", queue.under_way)
            self.prefetched(queue)
        return total

    def prefetched(self, queue: QuorumShell) -> None:
        """Check that consumers count their unacknowledged messages, and have no more than they
        want."""
        for end in queue.ends.values():
            for tag, consumer in end.consumers.items():
                key = end.key(tag)
                held = sum(run.left for run in end.runs.values() if run.key == key)
                prefetch = consumer.prefetch
                promise(consumer.no_ack or prefetch.unacked == held, tag, "holds", held)
                promise(not 0 < prefetch.limit < held, tag, "holds", held, "of", prefetch.limit)

    def kept_back(self, link: CreditLink) -> int:
        """Return for how many messages of the link no credit has been given back yet."""
        queue = link.queue
        end = queue.ends.get(link.sender) if isinstance(queue, QuorumShell) else None
        return sum(count for each, count, _ in end.withheld if each is link) if end else 0

    def at_rest(self, channel: Channel) -> None:
        """Check that the state and a channel agree on the channel's unacknowledged messages."""
        here: dict[tuple[str, str], set[int]] = {}
        unacked = channel.consuming.unacked
        for span in unacked.spans[unacked.head :]:
            queue = span.source.queue
            if isinstance(queue, QuorumShell) and queue in self.models and span.open():
                self._held(queue, channel, span.parts(span.count), here)
        there: dict[tuple[str, str], set[int]] = {}
        for queue in self.models:
            self._out(queue, channel, there)
        promise(here == there, channel.name, "has out", here, "quorum queues say", there)

    def _held(
        self,
        queue: QuorumShell,
        channel: Channel,
        parts: list[tuple[int, int, int]],
        found: dict[tuple[str, str], set[int]],
    ) -> None:
        end = queue.ends.get(channel)
        for number, start, stop in parts:
            run = end.runs.get(number) if end is not None else None
            if run is not None:
                ids = found.setdefault((queue.name, run.key.tag), set())
                ids.update(range(run.first_id + start, run.first_id + stop))

    def _out(
        self, queue: QuorumShell, channel: Channel, found: dict[tuple[str, str], set[int]]
    ) -> None:
        end = queue.ends.get(channel)
        if end is None or queue.machine.deleted:
            return
        for consumer in queue.fifo.consumers.of(end.address):
            ids: set[int] = set()
            for first_id, run in consumer.checked_out.since(0):
                ids.update(range(first_id, first_id + len(run.places)))
            for due in end.outbox:
                if due.consumer.tag == consumer.key.tag:
                    first = due.part.first_id
                    ids.difference_update(range(first, first + len(due.part.places)))
            if ids:
                found[queue.name, consumer.key.tag] = ids

    def do_as_told(self) -> None:
        """Check that the settings from policies are committed."""
        for queue in self.models:
            policy = queue.policy
            says = settings_of(queue.definition.arguments, policy.definition if policy else {})
            right = queue.settings == queue.fifo.settings == says or queue.machine.deleted
            promise(right, queue.name, "does not do what its policy says:", says)

    def gates(self) -> list[tuple[str, GateKeeper]]:
        """Return the gates of the queues, by their names."""
        return [(queue.name, queue.keeper) for queue in self.models if not queue.machine.deleted]

    def all_is_still(self) -> None:
        """Check that drained queues hold nothing, and that each has the state from before the node
        ended."""
        for queue, model in self.models.items():
            promise(not queue.accounted, queue.name, "still accounts", queue.accounted)
            if queue.id in self.records.states:
                model.compare()
