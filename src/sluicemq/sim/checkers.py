"""What must hold inside the node after every event that touched it.

credit      initial = credit left + messages in the inbox + owed + deferred + withheld + grants
            on their way, on every link of the chain
bounds      with R, C, S the initial credit of reader -> channel, channel -> queue and
            queue -> store, D of deliveries; what a link lets through beyond its credit is
            reader -> channel    nothing: the reader hands on what credit allows
            channel -> queue     2 R - 1: a batch may overspend by R - 1, and R more may come
                                 until its grants are kept back; of dead letters a whole run goes
                                 on its way at once
            queue -> store       2 L (C + 2 R - 1) - 1: L channels have published since its
                                 gate shut, and each may fill its link twice; and what was paged
                                 out since then: a chunk, or what was requeued behind delta
            deliveries           the cost of a message, less 1
            so an inbox holds at most the initial credit and that
deferral    while a gate of the receiver stays shut, the sender gets no grant
adaptive    the windows of the active links together <= max(budget, floor * active links), and
            so in bytes; messages in the chain <= these windows + slack, which is what
            circulates above them (credit that was given is not taken back), what is overspent,
            and what waits on links that have not settled since `active` changed
memory      what is counted as in use is what queues, store, transactions and connections hold:
            read and not parsed, contents that are not whole, events behind a question, what the
            client has not taken
writer      backlog <= its limit + the delivery windows + what one turn may add
machines    see model.py; runs at queues and spans at channels agree whenever nothing is on
            its way; prefetch is the sum of what is out
gates       a reader that is not read has a shut gate, and a connection that never published
            has no alarm gate shut
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import AnyPublishes
from sluicemq.chain.channel.channel import bytes_of
from sluicemq.chain.connection.reader import RUNNING
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import CreditLink, Queue
from sluicemq.chain.queue.republish_messages import Republish
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.republish.delayer import Delayer, HoldingQueue, Safe
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.chain.store.messages import StorePaged, StoreWrite
from sluicemq.chain.writer import FRAMES_BYTES, Frames
from sluicemq.flow.budget import AdaptiveInflow
from sluicemq.flow.credit import Grant
from sluicemq.flow.delivery_window import DeliveryOutflow
from sluicemq.limits import DEAD_LETTERS_MAX
from sluicemq.queues.commands import Publish
from sluicemq.queues.consumers import cost_of
from sluicemq.queues.effects import Deliver
from sluicemq.queues.settings import settings_of
from sluicemq.sim.durable_image import DurableImage
from sluicemq.sim.history import PromiseBroken, promise
from sluicemq.sim.model import QueueModel

if TYPE_CHECKING:
    from sluicemq.amqp.connection import AmqpConnection
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.flow.credit import Inflow, Outflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.node import Node
    from sluicemq.sim.disk import SimDisk
    from sluicemq.sim.history import History
    from sluicemq.sim.net import SimNet

READER, CHANNEL, STORE, DELIVERIES = "reader", "channel", "store", "deliveries"
FULL: Final = "full"
"""The gate of the store itself."""
KINDS: Final = (READER, CHANNEL, STORE, DELIVERIES, FULL)

DEPTH_EVERY: Final = 8
CONTENTS_EVERY: Final = 64
"""Checks between two recounts, which cost time in proportion to what is queued."""

FRAME_OVERHEAD: Final = 400
"""Heads of the frames of one unit of delivery cost: basic.deliver, header, body frames."""

HEARTBEAT_BYTES: Final = 8
"""One that has not come whole is all that a client may have sent when everything is still."""

TURN_ADDS: Final = 100_000
"""What a turn may add to a writer's backlog after its reader was stopped: one got message of the
largest size, confirms for what is in the chain, answers to what a client asked at once."""


class Waiting:
    """Counts what sits in inboxes: messages and grants by the sender's half of their link."""

    __slots__ = ("empty", "grants", "messages")

    def __init__(self) -> None:
        self.messages: dict[Outflow, int] = {}
        self.grants: dict[Outflow, int] = {}
        self.empty = True

    def count(self, actor: Actor, inflow: Inflow | None = None) -> None:
        """Count one inbox; `inflow` is a channel's own, for publishes carry none."""
        if not actor.inbox:
            return
        self.empty = False
        messages = self.messages
        for message in actor.inbox:
            if isinstance(message, Grant):
                self.grants[message.outflow] = self.grants.get(message.outflow, 0) + message.amount
                continue
            if isinstance(message, Publish):
                assert isinstance(message.link, CreditLink)
                outflow, n = message.link.outflow, len(message.batch.contents)
            elif isinstance(message, AnyPublishes):
                assert inflow is not None
                outflow, n = inflow.outflow, len(message.contents)
            elif isinstance(message, StoreWrite):
                outflow, n = message.inflow.outflow, len(message.batch.contents)
            elif isinstance(message, StorePaged):
                outflow, n = message.inflow.outflow, message.chunk.left()
            elif isinstance(message, Deliver):
                outflow, n = message.consumer.window, message.cost
            else:
                continue
            messages[outflow] = messages.get(outflow, 0) + n


def held_by(channel: Channel) -> int:
    """Return how many messages a channel keeps behind a question: not taken yet, as far as credit
    goes."""
    return sum(
        len(each.contents) for each in channel.queued_methods if isinstance(each, AnyPublishes)
    )


def held_by_codec(amqp: AmqpConnection) -> int:
    """Return how many bytes of a client's stream its reader holds, counted anew."""
    unparsed = len(amqp._buf) + len(amqp._partial) + sum(map(len, amqp._chunks))
    return unparsed + sum(content.size() for content in amqp._contents.values())


def on_its_way(delayer: Delayer) -> int:
    """Return the cost of what is due and not safe elsewhere yet, outside of the delayer's inbox."""
    republisher = delayer.republisher
    assert isinstance(republisher, Republisher)
    there = [each for each in republisher.inbox if isinstance(each, Republish)]
    there += [*republisher.waiting, *(each.republish for each in republisher.sent.values())]
    there += [each.republish for each in republisher.refused]
    if republisher.publishing is not None:
        there.append(republisher.publishing)
    safe = [each.done for each in {*there}]
    safe += [each for each in delayer.inbox if isinstance(each, Safe)]
    return delayer.due_cost + sum(each.cost for each in safe if isinstance(each, Safe))


class RunTotals:
    """Figures of a run over all its nodes. The highest ones show that the bounds were neared."""

    __slots__ = (
        "alarms",
        "backlog_bytes",
        "blocked_ns",
        "chain",
        "checks",
        "failed_starts",
        "queue_inbox",
        "quiet",
        "shut",
        "store_inbox",
    )

    def __init__(self) -> None:
        self.chain = 0
        self.queue_inbox = 0
        self.store_inbox = 0
        self.backlog_bytes = 0
        self.alarms = 0
        self.checks = 0
        self.quiet = 0
        self.failed_starts = 0
        self.shut = dict.fromkeys(KINDS, 0)
        """How often gates have been shut, by kind; of nodes that are no more."""
        self.blocked_ns = dict.fromkeys(KINDS, 0)

    def add(self, shut: dict[str, int], blocked_ns: dict[str, int]) -> None:
        for kind in KINDS:
            self.shut[kind] += shut[kind]
            self.blocked_ns[kind] += blocked_ns[kind]


class Checkers:
    """All checkers of one node."""

    def __init__(
        self,
        node: Node,
        book: History,
        disk: SimDisk,
        net: SimNet,
        body_bytes_max: int,
        publishes: Callable[[int], bool],
        totals: RunTotals,
    ) -> None:
        """`publishes` tells whether the client of a connection ever publishes."""
        self.node = node
        self.broker = node.broker
        self.book = book
        self.disk = disk
        self.net = net
        self.durable_image = DurableImage(disk.files)
        self.publishes = publishes
        self.cost_max = cost_of(body_bytes_max + 200)
        self.channels: dict[Channel, None] = {}
        self.connections: dict[Reader, None] = {}
        """Those that hold something after the broker has forgotten them, too."""
        self.queues: dict[ClassicShell, QueueModel] = {}
        self.crashed: dict[ClassicShell, None] = {}
        """What is left of queues that have had a fault."""
        self.crashed_streams: list[StreamShell] = []
        self.gates: dict[Outflow, str] = {}
        """Every sender's half there ever was, by kind."""
        self.held_up: dict[Outflow, tuple[int, int]] = {}
        """Links whose receiver has a shut gate: since when, and what the sender had then."""
        self.totals = totals
        self.checks = 0
        self.alarmed = False
        self.waiting = Waiting()
        self.republishers: list[Republisher] = []
        self.delayers: list[Delayer] = []
        self.streams: list[StreamShell] = []
        self.in_chain = self.windows = self.window_bytes = self.slack = 0
        vhost = self.broker.vhosts["/"]
        self._add = vhost.add
        vhost.add = self.add  # type: ignore[method-assign]
        self._replace = vhost.replace
        vhost.replace = self.replace  # type: ignore[method-assign]
        self._add_holding = vhost.add_holding
        vhost.add_holding = self.add_holding  # type: ignore[method-assign]
        for queue in self.broker.all_with_messages():
            if isinstance(queue, ClassicShell):
                self.watch(queue)

    def add(self, queue: Queue) -> None:
        """Add a queue as the virtual host does, and put a model beside it."""
        self._add(queue)
        if isinstance(queue, ClassicShell):
            self.watch(queue)

    def add_holding(self, queue: HoldingQueue) -> None:
        """Add the queue of an exchange that delays messages, and put a model beside it."""
        self._add_holding(queue)
        self.watch(queue)

    def replace(self, queue: Queue, fresh: Queue) -> None:
        """Replace a queue that has had a fault, and put a model beside what replaces it."""
        self._replace(queue, fresh)
        self.book.read_back(queue.name)
        if isinstance(fresh, ClassicShell):
            self.watch(fresh)
        elif isinstance(queue, StreamShell):
            self.crashed_streams.append(queue)

    def watch(self, queue: ClassicShell) -> None:
        """Put a model beside the queue."""
        model = QueueModel(queue, self.book, self.durable_image)
        self.queues[queue] = model
        page_bodies = queue.storage.page_bodies

        def page() -> None:
            model.handed_over += queue.machine.to_store_count
            page_bodies()

        queue.storage.page_bodies = page  # type: ignore[method-assign]

    def check(self) -> None:
        """Check everything that must hold after each event that touched the node."""
        self.checks += 1
        self.totals.checks += 1
        self.discover()
        self.waiting = Waiting()
        for reader in self.broker.connections.values():
            self.waiting.count(reader)
            self.waiting.count(reader.writer)
        for channel in self.channels:
            self.waiting.count(channel, channel.inflow)
        for each in (*self.queues, *self.crashed):
            self.waiting.count(each)
        self.republishers = self.all_republishers()
        for republisher in self.republishers:
            self.waiting.count(republisher)
        self.delayers = [q.delayer for q in self.queues if isinstance(q, HoldingQueue)]
        for delayer in self.delayers:
            self.waiting.count(delayer)
        self.streams = [q for q in self.broker.all_queues() if isinstance(q, StreamShell)]
        for stream in (*self.streams, *self.crashed_streams):
            self.waiting.count(stream)
        self.waiting.count(self.broker.store)
        self.in_chain = self.windows = self.window_bytes = self.slack = 0
        self.links()
        self.budget()
        self.readers()
        self.connections_memory()
        if self.checks % DEPTH_EVERY == 0:
            self.machines(self.checks % CONTENTS_EVERY == 0)
        if self.waiting.empty and not self.node.scheduler.is_busy and not self.waits_for_disk():
            self.totals.quiet += 1
            self.nothing_on_its_way()
        alarmed = bool(self.broker.alarms.reasons)
        self.totals.alarms += alarmed and not self.alarmed
        self.alarmed = alarmed

    def all_republishers(self) -> list[Republisher]:
        """Return the republishers of all queues that have one."""
        found = [queue.timers.republisher for queue in self.queues]
        found += [q.delayer.republisher for q in self.queues if isinstance(q, HoldingQueue)]
        return [republisher for republisher in found if isinstance(republisher, Republisher)]

    def waits_for_disk(self) -> bool:
        """Tell whether a disk job is under way, or will be started again when there is space."""
        store = self.broker.store
        if self.disk.busy() or store.retrying or store.rereads:
            return True
        return any(queue.machine.index.busy for queue in self.queues)

    def discover(self) -> None:
        """Note new channels, and forget channels and queues that are no more."""
        connections = self.broker.connections
        for socket in self.net.sockets.values():
            self.connections.setdefault(socket.reader)  # one may have left before it was seen here
        for reader in connections.values():
            self.connections.setdefault(reader)
            for channel in reader.channels.values():
                self.channels.setdefault(channel)
        for reader in [r for r in self.connections if r.connection not in connections]:
            writer = reader.writer
            if writer.closed and not (writer.scheduled or writer.accounted or reader.accounted):
                del self.connections[reader]
        for channel in [c for c in self.channels if c.gone and not c.inbox]:
            del self.channels[channel]
        for queue in [q for q in self.queues if q.crash is not None]:
            del self.queues[queue]  # it only answers
            self.crashed[queue] = None
        if len(self.queues) > self.broker.queue_count - len(self.streams) + len(self.delayers):
            for queue in [q for q in self.queues if q.machine.deleted and not q.scheduled]:
                if not any(c.publishing.links.get(queue) for c in self.channels):
                    del self.queues[queue]

    def gate_figures(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return, by kind of gate, how often gates have been shut and for how many nanoseconds."""
        now_ns = self.broker.world.clock.now_ns()
        shut = dict.fromkeys(KINDS, 0)
        blocked_ns = dict.fromkeys(KINDS, 0)
        for gate, kind in [*self.gates.items(), (self.broker.store.full, FULL)]:
            shut[kind] += gate.shut_count
            blocked_ns[kind] += gate.blocked_ns(now_ns)
        return shut, blocked_ns

    def over(self) -> None:
        """Take the totals of a node that is no more."""
        self.totals.add(*self.gate_figures())

    # -- links

    def links(self) -> None:
        """Check conservation and bounds of every link whose two halves are attached."""
        for reader in self.broker.connections.values():
            for number, outflow in reader.outflows.items():
                channel = reader.channels[number]
                held = held_by(channel) if channel.queued_methods else 0
                self.link(READER, outflow, channel.inflow, 0, held)
        for channel in self.channels:
            double = 2 * channel.inflow.initial
            for link in channel.publishing.links.values():
                assert isinstance(link, CreditLink)
                self.link(CHANNEL, link.outflow, link.inflow, double - 1)
            if not channel.closing:
                self.deliveries(channel)
        for republisher in self.republishers:
            for link in republisher.links.values():
                assert isinstance(link, CreditLink)
                self.link(CHANNEL, link.outflow, link.inflow, DEAD_LETTERS_MAX)
        for delayer in self.delayers:
            if not delayer.gone:
                inflow = delayer.inflow
                self.link(
                    DELIVERIES, inflow.outflow, inflow, self.cost_max - 1, on_its_way(delayer)
                )
        for queue, model in self.queues.items():
            self.to_store(queue, model)

    def link(
        self, kind: str, outflow: Outflow, inflow: Inflow, overspend_max: int, extra: int = 0
    ) -> None:
        """Check one link. `extra` messages are on their way outside of inboxes."""
        if outflow not in self.gates:
            self.gates[outflow] = kind
        if not (outflow.attached and inflow.attached):
            return
        credit = outflow.credit
        owed = inflow.owed
        waiting = self.waiting.messages.get(outflow, 0)
        grants = self.waiting.grants.get(outflow, 0)
        there = credit + waiting + owed + inflow.deferred + inflow.withheld + grants + extra
        if there != outflow.initial:
            raise PromiseBroken(
                f"credit to {outflow.name}: {credit} left + {waiting} waiting + {owed} owed"
                f" + {inflow.deferred} deferred + {inflow.withheld} withheld + {grants} granted"
                f" + {extra} elsewhere = {there}, not {outflow.initial}"
            )
        shut = credit <= 0
        if isinstance(outflow, DeliveryOutflow) and outflow.is_shut:
            shut |= outflow.is_waiting or outflow in self.waiting.grants
        if outflow.is_shut != shut:
            raise PromiseBroken(f"the gate of {outflow.name} is wrong at {credit}")
        if -credit > overspend_max:
            raise PromiseBroken(f"{outflow.name} is overspent by {-credit}")
        if owed >= inflow.more_after:
            raise PromiseBroken(f"{outflow.name} is owed {owed} and gets no grant")
        if inflow.keeper.gates_shut or inflow.deferred or outflow in self.held_up:
            self.deferral(outflow, inflow, credit + grants)
        if kind in (READER, CHANNEL):
            self.in_chain += waiting + extra
            if credit < 0:
                self.slack -= credit
            if isinstance(inflow, AdaptiveInflow):
                self.adaptive(outflow, inflow, waiting + extra)

    def deferral(self, outflow: Outflow, inflow: Inflow, with_sender: int) -> None:
        """Check that nothing more comes to the sender while a gate of the receiver stays shut."""
        keeper = inflow.keeper
        if not keeper.gates_shut:
            promise(not inflow.deferred, outflow.name, "has deferred grants for no reason")
            self.held_up.pop(outflow, None)
            return
        since_ns, most = self.held_up.get(outflow, (-1, 0))
        if since_ns == keeper.shut_since_ns:
            promise(with_sender <= most, outflow.name, "gets a grant of one that is held up")
        self.held_up[outflow] = (keeper.shut_since_ns or 0, with_sender)

    def adaptive(self, outflow: Outflow, inflow: AdaptiveInflow, waiting: int) -> None:
        """Check a link whose window follows the budget."""
        circulating = inflow.initial - inflow.withheld
        well = circulating >= inflow.window >= inflow.more_after >= 1
        promise(well, outflow.name, "circulates", circulating, "window", inflow.window)
        withholds = inflow in inflow.budget.shrunk
        promise(withholds == (inflow.withheld > 0), outflow.name, "is on the wrong list")
        budget = inflow.budget
        if inflow.epoch >= budget.epoch - 1 and inflow.sharers == budget.active:
            self.windows += inflow.window
            if inflow.window > budget.floor:
                self.window_bytes += inflow.window * inflow.average_bytes
            self.slack += circulating - inflow.window
        else:
            self.slack += waiting

    def deliveries(self, channel: Channel) -> None:
        """Check the links from queues to a channel: a delivery is on its way until the socket has
        it."""
        unwritten: dict[Inflow, int] = {}
        for inflow, cost in channel.consuming.unwritten:
            unwritten[inflow] = unwritten.get(inflow, 0) + cost
        for queue, (outflow, inflow) in channel.consuming.windows.items():
            if not queue.machine.deleted:
                extra = unwritten.get(inflow, 0)
                self.link(DELIVERIES, outflow, inflow, self.cost_max - 1, extra)

    def connection_window(self, reader: Reader) -> None:
        """Check that what is on its way to one socket is counted, and that who waits for it waits
        for something. Of a connection that ends because of a fault nobody waits for anything."""
        if reader.faults:
            return
        window = reader.window
        on_its_way = sum(frames.cost for frames in reader.writer.pending)
        on_its_way += sum(each.cost for each in reader.writer.inbox if isinstance(each, Frames))
        for channel in self.channels:
            if channel.reader is reader:
                on_its_way += channel.out_cost
                on_its_way += sum(m.cost for m in channel.inbox if isinstance(m, Deliver))
        known = window.spent >= on_its_way  # more: to a channel that has gone meanwhile
        promise(known, reader.name, "sent", on_its_way, "not", window.spent)
        waiting = not window.waiting or window.spent > 0
        promise(waiting, reader.name, "lets windows wait for nothing")

    def to_store(self, queue: ClassicShell, model: QueueModel) -> None:
        """Check the link from a queue to the store; what may come before the grants are kept back
        depends on the senders."""
        outflow = queue.storage.to_store
        initial = self.broker.profile.credit_flow_default_credit.initial
        overspend = 2 * len(model.senders) * (3 * initial - 1) - 1 + model.handed_over
        self.link(STORE, outflow, queue.storage.store_inflow, max(0, overspend))
        if not outflow.is_shut:
            model.senders.clear()
            model.handed_over = 0
        waiting = sum(len(each.batch.contents) for each in queue.inbox if isinstance(each, Publish))
        totals = self.totals
        totals.queue_inbox = max(totals.queue_inbox, waiting)
        totals.store_inbox = max(totals.store_inbox, self.waiting.messages.get(outflow, 0))

    def budget(self) -> None:
        """Check the bound that `adaptive` sets for the whole chain."""
        self.totals.chain = max(self.totals.chain, self.in_chain)
        budget = self.broker.budget
        if budget is None:
            return
        share = max(budget.messages, budget.floor * budget.active)
        promise(self.windows <= share, "the windows are", self.windows, "together, not", share)
        promise(self.window_bytes <= budget.bytes, "the windows are worth", self.window_bytes)
        most = self.windows + self.slack
        promise(self.in_chain <= most, self.in_chain, "messages are in the chain, at most", most)

    # -- actors

    def readers(self) -> None:
        """Check what holds for every connection: its window and the bound of its backlog."""
        for reader in self.broker.connections.values():
            self.connection_window(reader)
            writer = reader.writer
            backlog = writer.pending_bytes
            limit = writer.backlog_bytes_max + TURN_ADDS
            for channel in reader.channels.values():
                for outflow, _ in channel.consuming.windows.values():
                    limit += (outflow.initial + self.cost_max) * (4096 + FRAME_OVERHEAD)
            # The channels of one that is being closed are gone; what they had sent is not yet.
            bounded = backlog <= limit or reader.phase != RUNNING
            promise(bounded, reader.name, "has a backlog of", backlog, "of", limit)
            self.totals.backlog_bytes = max(self.totals.backlog_bytes, backlog)
            promise(writer.pending_bytes >= 0, reader.name, "has a negative backlog")

    def connections_memory(self) -> None:
        """Check that each connection is accounted with what it holds. Between two of its turns that
        is what it held after the last one; what the socket has not taken may have become less
        since."""
        for reader in self.connections:
            if not reader.scheduled and not reader.inbox:
                held = held_by_codec(reader.amqp)
                held += reader.rest.size if reader.rest is not None else 0
                promise(reader.accounted == held, reader.name, "counts", reader.accounted, held)
            writer = reader.writer
            if not writer.scheduled and not writer.inbox:
                held = sum(len(frames.data) + FRAMES_BYTES for frames in writer.pending)
                unsent = writer.accounted - held
                least = self.broker.world.net.unsent_bytes(reader.connection)
                least = least if writer.choked else 0
                right = unsent >= least if writer.choked else unsent == 0
                promise(right, reader.name, "counts", unsent, "bytes as unsent, of", least)
        for channel in self.channels:
            if not channel.scheduled and not channel.inbox:
                held = sum(map(bytes_of, channel.queued_methods))
                promise(channel.accounted == held, channel.name, "counts", channel.accounted, held)

    def machines(self, contents: bool) -> None:
        """Recount every queue, and the node's accounted bytes; with `contents` message by
        message."""
        accounted = self.broker.store.paged_bytes + self.broker.store.paging_bytes
        for reader in self.connections:
            accounted += reader.accounted + reader.writer.accounted
        for channel in self.channels:
            accounted += channel.accounted
            if channel.publishing.transaction is not None:
                accounted += channel.publishing.transaction.pending_bytes
        for queue, model in self.queues.items():
            model.compare_depth()
            if contents:
                model.compare_contents()
            accounted += queue.accounted
            for consumer in queue.machine.consumers.all():
                held = sum(
                    run.left
                    for run in queue.machine.unacked_runs.values()
                    if run.consumer is consumer
                )
                prefetch = consumer.prefetch
                if not consumer.no_ack:
                    promise(prefetch.unacked == held, consumer.tag, "holds", held, prefetch.unacked)
                promise(not 0 < prefetch.limit < held, consumer.tag, "holds", held)
        accounted += self.of_streams()
        reported = self.broker.accounted_bytes
        promise(accounted == reported, "accounted bytes", reported, "are", accounted)

    def of_streams(self) -> int:
        """Return the bytes that streams have not written, and those that were read of them and are
        kept."""
        chunks = {*self.broker.stream_cache.chunks.values()}
        for stream in self.streams:
            for reader in stream.machine.readers.values():
                chunks.update(reader.pieces)
                chunks.update([reader.chunk] if reader.chunk is not None else ())
        return sum(chunk.size for chunk in chunks) + sum(s.accounted for s in self.streams)

    def nothing_on_its_way(self) -> None:
        """Check that the two ends of everything agree while all inboxes are empty and the disk
        rests."""
        for reader in self.broker.connections.values():
            if reader.phase == RUNNING:
                self.reader_at_rest(reader)
        for channel in self.channels:
            if not channel.closing:
                self.channel_at_rest(channel)
        for queue in self.queues:
            policy = queue.policy
            says = settings_of(queue.definition.arguments, policy.definition if policy else {})
            right = queue.settings == queue.machine.settings == says or queue.machine.deleted
            promise(right, queue.name, "does not do what its policy says:", says)

    def reader_at_rest(self, reader: Reader) -> None:
        """Check that a connection is read, or that something holds it up."""
        shut = reader.keeper.gates_shut + reader.halts.gates_shut
        promise(not reader.paused or shut > 0, reader.name, "is not read for no reason")
        promise(reader.rest is None or shut > 0, reader.name, "keeps a run for no reason")
        unsent = sum(frames.cost for frames in reader.writer.pending)
        right = reader.window.spent == unsent or reader.faults > 0
        promise(right, reader.name, "sent", unsent, "not", reader.window.spent)
        blocked = reader.throttle.alarm_gate.is_shut
        published = self.publishes(reader.connection)
        promise(not blocked or published, reader.name, "is blocked without ever publishing")

    def channel_at_rest(self, channel: Channel) -> None:
        """Check that what a channel has unacknowledged is what queues count as unacknowledged at
        it."""
        promise(channel.question is None, channel.name, "waits for an answer for ever")
        promise(not channel.queued_methods, channel.name, "holds methods for ever")
        for linked in channel.publishing.links:
            there_still = not linked.machine.deleted
            promise(there_still, channel.name, "keeps a link to the deleted", linked.name)
        unacked = channel.consuming.unacked
        here = {}
        for span in unacked.spans[unacked.head :]:
            queue = span.source.queue
            if isinstance(queue, StreamShell):
                continue  # it knows only how many
            assert isinstance(queue, ClassicShell)
            if span.open() and not queue.machine.deleted:
                here[queue.name, span.run] = [(a, b) for _, a, b in span.parts(span.count)]
        there = {
            (queue.name, number): run.open_parts()
            for queue in self.queues
            for number, run in queue.machine.unacked_runs.items()
            if run.channel is channel and not queue.machine.deleted
        }
        promise(here == there, channel.name, "has out", here, "queues say", there)

    def all_is_still(self) -> None:
        """Check that nothing is held back or held up when everything is drained and everyone is
        served."""
        self.check()
        self.machines(contents=True)
        promise(self.waiting.empty, "something is still in an inbox")
        for queue in self.queues:
            depth = queue.machine.depth
            promise(depth.footprint == 0, queue.name, "still accounts", depth.footprint)
        begun = [reader.accounted for reader in self.broker.connections.values()]
        promise(all(held < HEARTBEAT_BYTES for held in begun), "connections hold", begun)
        accounted = self.broker.accounted_bytes - self.of_streams()
        promise(
            accounted == sum(begun), "accounted", accounted, "beside heartbeats that come", begun
        )
        for reader in self.broker.connections.values():
            shut = reader.keeper.gates_shut + reader.halts.gates_shut
            promise(shut == 0, reader.name, "has a shut gate")
        for channel in self.channels:
            promise(channel.keeper.gates_shut == 0, channel.name, "has a shut gate")
            if channel.closing:
                continue  # what was on its way to it is nobody's any more
            for source, (outflow, _) in channel.consuming.windows.items():
                promise(source.machine.deleted or not outflow.is_shut, outflow.name, "are shut")
        for queue in self.queues:
            shut = queue.keeper.gates_shut
            promise(queue.machine.deleted or shut == 0, queue.name, "has a shut gate")
        promise(self.broker.store.keeper.gates_shut == 0, "the store has a shut gate")

    def may_stay(self, sender: Actor) -> bool:
        """Tell whether a sender may outlive its clients: a republisher, and that of a queue that
        had a fault until what was refused is taken."""
        still_offers = isinstance(sender, Republisher) and bool(sender.refused)
        return sender in self.republishers or still_offers

    def everyone_has_left(self) -> None:
        """Check that the broker has forgotten all clients once they have gone."""
        broker = self.broker
        promise(not broker.connections, "connections left:", len(broker.connections))
        accounted = broker.accounted_bytes - self.of_streams()
        promise(accounted == 0, "accounted", accounted)
        promise(not broker.alarms.listeners, "alarm listeners left")
        for vhost in broker.vhosts.values():
            promise(not vhost.exclusive, "exclusive queues left:", *vhost.exclusive)
        self.republishers = self.all_republishers()
        for queue in broker.all_queues():
            senders = [each for each in queue.upstream if not self.may_stay(each)]
            promise(not senders, queue.name, "still has senders")
            promise(not queue.machine.consumers.count, queue.name, "still has consumers")
        if broker.budget is not None:
            kept = sum(len(republisher.links) for republisher in self.republishers)
            left = broker.budget.links - kept
            promise(left == 0, "links left in the budget:", left)
