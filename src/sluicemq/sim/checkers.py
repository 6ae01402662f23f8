"""The rules that must hold inside the node after every event that touched it.

links       see links.py
bounds      R, C, S are the initial credit of reader -> channel, channel -> queue and
            queue -> store, D of deliveries; beyond its credit a link lets through
            reader -> channel    nothing: the reader keeps to its credit
            channel -> queue     2 R - 1: a batch may overspend by R - 1, and R more may come
                                 until its grants are kept back; a run of dead letters is sent
                                 as a whole
            queue -> store       2 L (C + 2 R - 1) - 1: L channels have published since its
                                 gate shut, and each may fill its link twice; and messages paged
                                 out since then: a chunk, or those requeued behind delta
            deliveries           the cost of a message, less 1
            so an inbox holds at most the initial credit and that
memory      the accounted memory is that of queues, store, transactions and connections: unparsed
            bytes, incomplete contents, events behind a question, bytes that the client has not
            taken
writer      backlog <= its limit + the delivery windows + the most that one turn may add
quorum      see quorum_checks.py
machines    see model.py; runs at queues and spans at channels agree whenever nothing is in
            flight; prefetch is the sum of unacknowledged messages
gates       a reader that is not read has a shut gate, and a connection that never published
            has no alarm gate shut

Parts that an event has not touched are as they were at their last check: after most events only
those connections and queues are checked whose actors had a turn or got a message. Everything is
checked when another actor had a turn, when anything was added or removed, and every
EVERYTHING_EVERY checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import AnyPublishes
from sluicemq.chain.channel.channel import bytes_of
from sluicemq.chain.connection.reader import RUNNING, Reader
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import CreditLink, Queue
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.queue.republish_messages import Republish
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.republish.delayer import Delayer, HoldingQueue, Safe
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.chain.writer import FRAMES_BYTES
from sluicemq.limits import DEAD_LETTERS_MAX
from sluicemq.queues.commands import Publish
from sluicemq.queues.consumers import cost_of
from sluicemq.queues.effects import Deliver
from sluicemq.queues.settings import settings_of
from sluicemq.sim.inboxes import Inboxes
from sluicemq.sim.links import CHANNEL, DELIVERIES, READER, STORE, LinkChecks
from sluicemq.sim.mistakes import seldom, vital, workers_of
from sluicemq.sim.model import QueueModel
from sluicemq.sim.records import promise
from sluicemq.sim.totals import FULL, KINDS, RunTotals
from sluicemq.sim.touched import Touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.amqp.connection import AmqpConnection
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.kernel.actor import Actor
    from sluicemq.node import Node
    from sluicemq.sim.disk import SimDisk
    from sluicemq.sim.history import History
    from sluicemq.sim.net import SimNet
    from sluicemq.sim.quorum_checks import QuorumChecks

EVERYTHING_EVERY: Final = 32
"""Everything is checked once in this many checks, even if nothing was touched."""

DEPTH_EVERY: Final = 8
CONTENTS_EVERY: Final = 64
"""Contents are recounted once in this many checks; this takes time in proportion to the queued
messages."""

FRAME_OVERHEAD: Final = 400
"""Frame headers of one unit of delivery cost: basic.deliver, header, body frames."""

HEARTBEAT_BYTES: Final = 8
"""An incomplete heartbeat is all that a client may have sent when everything is still."""

TURN_ADDS: Final = 100_000
"""The most that a turn may add to a writer's backlog after its reader was stopped: one message of
the largest size for basic.get, confirms for everything in the chain, answers to all that a client
asked at once."""


def held_by(channel: Channel) -> int:
    """Return how many messages wait in a channel behind an unanswered question, as credit counts
    them."""
    return sum(
        len(each.contents) for each in channel.queued_methods if isinstance(each, AnyPublishes)
    )


def held_by_codec(amqp: AmqpConnection) -> int:
    """Return how many bytes of a client's stream its reader holds, recounted."""
    unparsed = len(amqp._buf) + amqp._pieces.size + sum(map(len, amqp._reads.waiting()))
    return unparsed + sum(content.size() for content in amqp._contents.values())


def prefetched(queue: ClassicShell) -> None:
    """Check that consumers count their unacknowledged messages, and have no more than they want."""
    for consumer in queue.machine.consumers.all():
        runs = queue.machine.unacked_runs.values()
        held = sum(run.left for run in runs if run.consumer is consumer)
        prefetch = consumer.prefetch
        if not consumer.no_ack:
            promise(prefetch.unacked == held, consumer.tag, "holds", held, prefetch.unacked)
        promise(not 0 < prefetch.limit < held, consumer.tag, "holds", held)


def on_its_way(delayer: Delayer) -> int:
    """Return the cost of messages that are due and not safe elsewhere yet, outside the delayer's
    inbox."""
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
        quorum: QuorumChecks,
    ) -> None:
        """`publishes` tells whether the client of a connection ever publishes."""
        self.node = node
        self.broker = node.broker
        self.book = book
        self.disk = disk
        self.net = net
        self.quorum = quorum
        self.durable_image = quorum.durable_image
        self.publishes = publishes
        self.cost_max = cost_of(body_bytes_max + 200)
        self.channels: dict[Channel, None] = {}
        self.connections: dict[Reader, None] = {}
        """Includes those that still hold something after the broker has forgotten them."""
        self.queues: dict[ClassicShell, QueueModel] = {}
        self.crashed: dict[ClassicShell, None] = {}
        """The remains of queues that have had a fault."""
        self.crashed_streams: list[StreamShell] = []
        self.totals = totals
        self.checks = 0
        self.alarmed = False
        self.republishers: list[Republisher] = []
        self.delayers: list[Delayer] = []
        self.streams: list[StreamShell] = []
        self.inboxes = Inboxes()
        self.links = LinkChecks(self.inboxes)
        self.touched = Touched(node.scheduler)
        self.budget_was = (0, 0)
        """Epoch and active links of the budget at the last check; the links' shares of the sums
        depend on them."""
        self.has_changed = True
        """True when something has come or gone since everything was checked."""
        self.known_queue_actors: list[Actor] = []
        """The queues and the actors that worked for them then."""
        self.queue_count = 0
        """The number of queues that the broker had then."""
        self.since_recount: dict[Actor, None] = {}
        """Parts that may have changed since queues were recounted."""
        self.since_rest: dict[Actor, None] = {}
        """Parts that may have changed since nothing was in flight."""
        self.opened = 0
        """The number of sockets ever opened, as of the last look at them."""
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
            quorum.watch(queue)

    def add(self, queue: Queue) -> None:
        """Add a queue as the virtual host does, and put a model beside it."""
        self._add(queue)
        if isinstance(queue, ClassicShell):
            self.watch(queue)
        self.quorum.watch(queue)

    def add_holding(self, queue: HoldingQueue) -> None:
        """Add the queue of an exchange that delays messages, and put a model beside it."""
        self._add_holding(queue)
        self.watch(queue)

    def replace(self, queue: Queue, fresh: Queue) -> None:
        """Replace a queue that has had a fault, and put a model beside its replacement."""
        self._replace(queue, fresh)
        self.book.read_back(queue.name)
        self.quorum.replaced(queue, fresh)
        self.quorum.watch(fresh)
        if isinstance(fresh, ClassicShell):
            self.watch(fresh)
        elif isinstance(queue, StreamShell):
            self.crashed_streams.append(queue)

    def watch(self, queue: ClassicShell) -> None:
        """Put a model beside the queue."""
        self.queues[queue] = QueueModel(queue, self.book, self.durable_image)

    def check(self) -> None:
        """Check everything that must hold after an event that touched the node."""
        self.checks += 1
        self.totals.checks += 1
        parts = self.discover()
        for part in parts:
            self.since_recount[part] = self.since_rest[part] = None
            for actor in self.touched.parts[part]:
                self.inboxes.count(actor)
        self.check_links(parts)
        self.quorum.quanta(self.broker.store)
        self.totals.chain = max(self.totals.chain, self.links.in_chain(self.broker.budget))
        for reader in parts:
            if isinstance(reader, Reader):
                self.connection(reader)
        if self.checks % DEPTH_EVERY == 0:
            self.machines(self.checks % CONTENTS_EVERY == 0)
        if not (self.inboxes.filled or self.node.scheduler.is_busy or self.waits_for_disk()):
            self.totals.quiet += 1
            self.nothing_on_its_way()
        alarmed = bool(self.broker.alarms.reasons)
        self.totals.alarms += alarmed and not self.alarmed
        self.alarmed = alarmed

    def all_republishers(self) -> list[Republisher]:
        """Return the republishers of all queues that have one."""
        found = [queue.dead_lettering.republisher for queue in self.queues]
        found += [queue.dead_lettering.republisher for queue in self.quorum.models]
        found += [q.delayer.republisher for q in self.queues if isinstance(q, HoldingQueue)]
        return [republisher for republisher in found if isinstance(republisher, Republisher)]

    def waits_for_disk(self) -> bool:
        """Tell whether a disk job is running, or will start soon or once there is space."""
        store = self.broker.store
        if self.disk.busy() or store.retrying or store.rereads or store.commits.is_held:
            return True
        if self.quorum.is_waiting:
            return True
        return any(queue.machine.index.busy for queue in self.queues)

    def discover(self) -> list[Actor]:
        """Return the parts of the node that may have changed since the last check, or are new."""
        parts = self.touched.take()
        self.has_changed |= self.has_budget_changed()
        self.has_changed |= self.queue_count != self.broker.queue_count
        if parts is None or self.has_changed or self.checks % EVERYTHING_EVERY == 0:
            return self.everything()
        if self.net.opened != self.opened:
            parts += self.new_connections()
        for reader in parts:
            if isinstance(reader, Reader):
                self.note_channels(reader)
        if any(isinstance(part, Queue) for part in parts):
            self.note_queues()
        return self.everything() if self.has_changed else parts

    def everything(self) -> list[Actor]:
        """Return all parts of the node, except those that have ended."""
        for clear in (self.touched.clear, self.inboxes.clear, self.links.shares.clear):
            clear()
        self.connections = {r: None for r in self.connections if not self.is_over(r)}
        self.channels = {c: None for c in self.channels if not c.gone or c.inbox}
        for reader in self.connections:
            self.touched.watch(reader, [reader, reader.writer], [reader.share, reader.intake])
        for channel in self.channels:
            self.touched.watch(channel.reader, [channel])
        for reader in [*self.connections, *self.new_connections()]:
            self.note_channels(reader)
        self.note_queues()
        self.has_changed = False
        self.known_queue_actors = self.queue_actors()
        self.queue_count = self.broker.queue_count
        for queue in self.all_queues():
            self.touched.watch(queue, [queue, *workers_of(queue)])
        self.touched.watch(self.broker.store, [self.broker.store])
        for actor in (*vital(self.node), *seldom(self.node)):
            self.touched.watch(actor, [], [actor])  # they change others only by messages
        return [*self.touched.parts]

    def is_over(self, reader: Reader) -> bool:
        """Tell whether a connection that the broker has forgotten is completely gone."""
        writer = reader.writer
        left = writer.scheduled or writer.accounted or reader.accounted
        return reader.connection not in self.broker.connections and writer.closed and not left

    def new_connections(self) -> list[Reader]:
        """Note the connections that are new since the last call."""
        self.opened = self.net.opened
        readers = [socket.reader for socket in self.net.sockets.values()]  # one may have ended
        readers += self.broker.connections.values()
        found = [reader for reader in readers if reader not in self.connections]
        for reader in found:
            if reader not in self.connections:
                self.connections[reader] = None
                self.touched.watch(reader, [reader, reader.writer], [reader.share, reader.intake])
        return found

    def note_channels(self, reader: Reader) -> None:
        """Note the channels of a connection that are new since the last call."""
        for channel in reader.channels.values():
            if channel not in self.channels:
                self.channels[channel] = None
                self.touched.watch(reader, [channel])

    def has_budget_changed(self) -> bool:
        """Tell whether epoch or active links of the budget have changed since the last call."""
        budget = self.broker.budget
        now = (budget.epoch, budget.active) if budget is not None else (0, 0)
        before, self.budget_was = self.budget_was, now
        return before != now

    def queue_actors(self) -> list[Actor]:
        """Return the queues and the actors that work for them."""
        return [*self.all_queues(), *self.republishers, *self.delayers]

    def all_queues(self) -> list[Actor]:
        """Return the queues, and the remains of those that have had a fault."""
        crashed = (*self.crashed, *self.crashed_streams)
        return [*self.queues, *self.streams, *self.quorum.queues(), *crashed]

    def note_queues(self) -> None:
        """Note the actors that work for queues, and the streams; forget queues that have been
        deleted."""
        for queue in [q for q in self.queues if q.crash is not None]:
            del self.queues[queue]  # it only answers
            self.crashed[queue] = None
        self.quorum.forget(self.channels)
        others = len(self.streams) + len(self.quorum.models)
        if len(self.queues) > self.broker.queue_count - others + len(self.delayers):
            for queue in [q for q in self.queues if q.machine.deleted and not q.scheduled]:
                if not any(c.publishing.links.get(queue) for c in self.channels):
                    del self.queues[queue]
        self.republishers = self.all_republishers()
        self.delayers = [q.delayer for q in self.queues if isinstance(q, HoldingQueue)]
        self.streams = [q for q in self.broker.all_queues() if isinstance(q, StreamShell)]
        self.has_changed |= self.queue_actors() != self.known_queue_actors

    def gate_figures(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return, by kind of gate, how often gates have been shut and for how many nanoseconds."""
        now_ns = self.broker.world.clock.now_ns()
        shut = dict.fromkeys(KINDS, 0)
        blocked_ns = dict.fromkeys(KINDS, 0)
        for gate, kind in [*self.links.gates.items(), (self.broker.store.full, FULL)]:
            shut[kind] += gate.shut_count
            blocked_ns[kind] += gate.blocked_ns(now_ns)
        return shut, blocked_ns

    def over(self) -> None:
        """Add the totals of a node that has ended."""
        self.totals.add(*self.gate_figures())
        self.quorum.over()

    # -- links

    def check_links(self, parts: list[Actor]) -> None:
        """Check conservation and bounds of every link whose two halves are attached, and which
        begins or ends in one of the parts."""
        queues = [part for part in parts if isinstance(part, Queue)]
        touched = dict.fromkeys(parts)
        for reader in parts:
            if isinstance(reader, Reader) and self.is_connected(reader):
                for channel in reader.channels.values():
                    held = held_by(channel) if channel.queued_methods else 0
                    self.links.check(READER, channel.outflow, channel.inflow, 0, held)
        for channel in self.channels:
            if channel.reader in touched:
                self.publishes_to(channel, channel.publishing.links)
                self.deliveries(channel, channel.consuming.windows)
            elif queues:
                self.publishes_to(channel, queues)
                self.deliveries(channel, queues)
        if queues:
            self.republished()
        for queue, model in self.queues.items():
            if queue in touched or self.broker.store in touched:
                self.to_store(queue, model)

    def publishes_to(self, channel: Channel, queues: Iterable[Queue]) -> None:
        """Check the links from a channel to those of the queues to which it has one."""
        links = channel.publishing.links
        overspend_max = 2 * channel.inflow.initial - 1
        for queue in queues:
            link = links.get(queue)
            if link is not None:
                assert isinstance(link, CreditLink)
                extra = self.quorum.kept_back(link)
                self.links.check(CHANNEL, link.outflow, link.inflow, overspend_max, extra)

    def deliveries(self, channel: Channel, queues: Iterable[Queue]) -> None:
        """Check the links from the queues to a channel, if there are any: a delivery is in flight
        until the socket has it."""
        if channel.closing:
            return
        windows = channel.consuming.windows
        for queue in queues:
            halves = windows.get(queue)
            if halves is not None and not queue.machine.deleted:
                outflow, inflow = halves
                unwritten = channel.consuming.unwritten
                extra = sum(each.cost for each in unwritten if each.inflow is inflow)
                self.links.check(DELIVERIES, outflow, inflow, self.cost_max - 1, extra)

    def republished(self) -> None:
        """Check the links of messages that the broker publishes itself."""
        for republisher in self.republishers:
            for link in republisher.links.values():
                assert isinstance(link, CreditLink)
                extra = self.quorum.kept_back(link)
                self.links.check(CHANNEL, link.outflow, link.inflow, DEAD_LETTERS_MAX, extra)
        for delayer in self.delayers:
            if not delayer.gone:
                inflow = delayer.inflow
                extra = on_its_way(delayer)
                self.links.check(DELIVERIES, inflow.outflow, inflow, self.cost_max - 1, extra)

    def to_store(self, queue: ClassicShell, model: QueueModel) -> None:
        """Check the link from a queue to the store; the senders determine how much may come before
        the grants are kept back."""
        outflow = queue.storage.to_store
        initial = self.broker.profile.credit_flow_default_credit.initial
        overspend = 2 * len(model.senders) * (3 * initial - 1) - 1 + model.handed_over
        self.links.check(STORE, outflow, queue.storage.store_inflow, max(0, overspend))
        if not outflow.is_shut:
            model.senders.clear()
            model.handed_over = 0
        waiting = sum(len(each.batch.contents) for each in queue.inbox if isinstance(each, Publish))
        totals = self.totals
        totals.queue_inbox = max(totals.queue_inbox, waiting)
        totals.store_inbox = max(totals.store_inbox, self.inboxes.messages.get(outflow, 0))

    # -- connections

    def is_connected(self, reader: Reader) -> bool:
        """Tell whether the broker knows the connection."""
        return self.broker.connections.get(reader.connection) is reader

    def connection(self, reader: Reader) -> None:
        """Check the rules that hold for every connection."""
        channels = [channel for channel in self.channels if channel.reader is reader]
        if self.is_connected(reader):
            self.connection_window(reader, channels)
            self.backlog(reader)
        self.connection_memory(reader, channels)

    def connection_window(self, reader: Reader, channels: list[Channel]) -> None:
        """Check that the deliveries in flight to one socket are counted, and that every queue
        waiting for the window has a reason to. In a connection that ends because of a fault nobody
        waits."""
        if reader.faults:
            return
        window = reader.window
        on_its_way = sum(frames.cost for frames in reader.writer.pending)
        for channel in channels:
            on_its_way += channel.out_cost
            on_its_way += sum(m.cost for m in channel.inbox if isinstance(m, Deliver))
        known = window.spent >= on_its_way  # more: to a channel that has ended meanwhile
        promise(known, reader.name, "sent", on_its_way, "not", window.spent)
        waiting = not window.waiting or window.spent > 0
        promise(waiting, reader.name, "lets windows wait for nothing")

    def backlog(self, reader: Reader) -> None:
        """Check the bound on bytes that wait to be written."""
        writer = reader.writer
        backlog = writer.pending_bytes
        limit = writer.backlog_bytes_max + TURN_ADDS
        for channel in reader.channels.values():
            for outflow, _ in channel.consuming.windows.values():
                limit += (outflow.initial + self.cost_max) * (4096 + FRAME_OVERHEAD)
        # The channels of a closing connection are gone, but not yet everything that they had sent.
        bounded = backlog <= limit or reader.phase != RUNNING
        promise(bounded, reader.name, "has a backlog of", backlog, "of", limit)
        self.totals.backlog_bytes = max(self.totals.backlog_bytes, backlog)
        promise(writer.pending_bytes >= 0, reader.name, "has a negative backlog")

    def connection_memory(self, reader: Reader, channels: list[Channel]) -> None:
        """Check that a connection is accounted with the bytes it holds. Between two turns these are
        the bytes it held after the last one; the socket may have taken some since then."""
        if not reader.scheduled and not reader.inbox:
            held = held_by_codec(reader.amqp)
            held += reader.rest.size if reader.rest is not None else 0
            promise(reader.accounted == held, reader.name, "counts", reader.accounted, held)
        writer = reader.writer
        if not writer.scheduled and not writer.inbox:
            held = sum(frames.size + FRAMES_BYTES for frames in writer.pending)
            unsent = writer.accounted - held
            least = self.broker.world.net.unsent_bytes(reader.connection)
            least = least if writer.choked else 0
            right = unsent >= least if writer.choked else unsent == 0
            promise(right, reader.name, "counts", unsent, "bytes as unsent, of", least)
        for channel in channels:
            if not channel.scheduled and not channel.inbox:
                held = sum(map(bytes_of, channel.queued_methods))
                promise(channel.accounted == held, channel.name, "counts", channel.accounted, held)

    # -- machines

    def machines(self, contents: bool) -> None:
        """Recount the queues that may have changed since they were recounted, and the node's
        accounted bytes; with `contents` recount every queue message by message."""
        accounted = self.broker.store.paged_bytes + self.broker.store.paging_bytes
        for reader in self.connections:
            accounted += reader.accounted + reader.writer.accounted
        for channel in self.channels:
            accounted += channel.accounted
            if channel.publishing.transaction is not None:
                accounted += channel.publishing.transaction.pending_bytes
        for queue, model in self.queues.items():
            if contents or queue in self.since_recount:
                model.compare_depth()
                prefetched(queue)
            if contents:
                model.compare_contents()
            accounted += queue.accounted
        self.since_recount = {}
        accounted += self.of_streams() + self.quorum.accounted()
        reported = self.broker.accounted_bytes
        promise(accounted == reported, "accounted bytes", reported, "are", accounted)

    def of_streams(self) -> int:
        """Return the bytes of streams that are not written yet, and those kept after they were
        read."""
        chunks = {*self.broker.stream_cache.chunks.values()}
        for stream in self.streams:
            for reader in stream.machine.readers.values():
                chunks.update(reader.pieces)
                chunks.update([reader.chunk] if reader.chunk is not None else ())
        return sum(chunk.size for chunk in chunks) + sum(s.accounted for s in self.streams)

    def nothing_on_its_way(self) -> None:
        """Check that the two ends of every link agree while all inboxes are empty and the disk is
        idle."""
        touched, self.since_rest = self.since_rest, {}
        for reader in self.broker.connections.values():
            if reader in touched and reader.phase == RUNNING:
                self.reader_at_rest(reader)
        has_queues = any(isinstance(part, Queue) for part in touched)
        for channel in self.channels:
            if (has_queues or channel.reader in touched) and not channel.closing:
                self.channel_at_rest(channel)
                self.quorum.at_rest(channel)
        self.quorum.do_as_told()
        for queue in [queue for queue in self.queues if queue in touched]:
            policy = queue.policy
            says = settings_of(queue.definition.arguments, policy.definition if policy else {})
            right = queue.settings == queue.machine.settings == says or queue.machine.deleted
            promise(right, queue.name, "does not do what its policy says:", says)

    def reader_at_rest(self, reader: Reader) -> None:
        """Check that a connection is being read, or that something holds it up."""
        shut = reader.keeper.gates_shut + reader.halts.gates_shut
        promise(not reader.tap.is_shut or shut > 0, reader.name, "is not read for no reason")
        promise(reader.rest is None or shut > 0, reader.name, "keeps a run for no reason")
        unsent = sum(frames.cost for frames in reader.writer.pending)
        right = reader.window.spent == unsent or reader.faults > 0
        promise(right, reader.name, "sent", unsent, "not", reader.window.spent)
        blocked = reader.throttle.alarm_gate.is_shut
        published = self.publishes(reader.connection)
        promise(not blocked or published, reader.name, "is blocked without ever publishing")

    def channel_at_rest(self, channel: Channel) -> None:
        """Check that a channel and its queues agree on which messages it has unacknowledged."""
        promise(channel.question is None, channel.name, "waits for an answer for ever")
        promise(not channel.queued_methods, channel.name, "holds methods for ever")
        for linked in channel.publishing.links:
            there_still = not linked.machine.deleted
            promise(there_still, channel.name, "keeps a link to the deleted", linked.name)
        unacked = channel.consuming.unacked
        here = {}
        for span in unacked.spans[unacked.head :]:
            queue = span.source.queue
            if isinstance(queue, StreamShell | QuorumShell):
                continue  # the first knows only the number
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
        """Check that nothing is held back or held up once everything is drained."""
        self.has_changed = True  # so everything is checked
        self.check()
        self.machines(contents=True)
        self.quorum.all_is_still()
        promise(not self.inboxes.filled, "something is still in an inbox")
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
                continue  # messages in flight to it belong to nobody now
            for source, (outflow, _) in channel.consuming.windows.items():
                promise(source.machine.deleted or not outflow.is_shut, outflow.name, "are shut")
        gates = [(q.name, q.keeper) for q in self.queues if not q.machine.deleted]
        for name, keeper in (*gates, *self.quorum.gates()):
            promise(keeper.gates_shut == 0, name, "has a shut gate")
        promise(self.broker.store.keeper.gates_shut == 0, "the store has a shut gate")

    def may_stay(self, sender: Actor) -> bool:
        """Tell whether a sender may outlive its clients: a republisher may, and so may the sender
        to a queue that had a fault, until the refused messages are taken."""
        still_offers = isinstance(sender, Republisher) and bool(sender.refused)
        return sender in self.republishers or still_offers

    def everyone_has_left(self) -> None:
        """Check that the broker has forgotten all clients once they have left."""
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
