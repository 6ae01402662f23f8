"""The flow control chain as rows: a stage for each actor, a link for each pair with credit.

Besides reader, channel, queue and message store there are the writers (which may wait for a client
to read), the disk when the store waits for it, each raised alarm, and each other node that holds up
publishers of its queues.
"""

from __future__ import annotations

from itertools import chain as joined
from typing import TYPE_CHECKING, Any, Final

from sluicemq.amqp.events import AnyPublishes
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.queue import CreditLink
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.chain.store.messages import StoreWrite
from sluicemq.flow.credit import Inflow
from sluicemq.manage.lists import holding_queues, queues, readers
from sluicemq.model.definitions import DEFAULT_VHOST
from sluicemq.queues.commands import Publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.broker.broker import Broker
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.flow_actor import FlowActor
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.chain.services import Services
    from sluicemq.flow.credit import Outflow
    from sluicemq.flow.gate import Gate, GateKeeper
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.world import Clock
    from sluicemq.manage.tables import ChainLink, ChainStage
    from sluicemq.node import Node

STORE = "message store"
DISK = "disk"
PACER = "pacer"
NODE = "node"
NS_PER_MS = 1_000_000

LOOK_WORK: Final = 1
"""Units of work that it costs to check whether there is something to draw."""

STAGE_WORK: Final = 3
LINK_WORK: Final = 2
MESSAGES_PER_UNIT: Final = 8
"""Messages of an inbox that are counted for a unit of work."""

Row = dict[str, Any]


def chain(node: Node, found: list[Row]) -> Iterator[int]:
    """Put one row with all stages and all links into `found`. Each shows the moment at which it was
    drawn; actors that have started meanwhile may be missing, though a link may lead to them."""
    broker = node.broker
    drawing = Drawing(broker.world.clock)
    for reader in readers(broker):
        if reader is not None:
            yield from drawing.add_connection(reader)
        yield LOOK_WORK
    for vhost in [*broker.vhosts.values()]:
        for queue in joined(queues(broker, vhost), holding_queues(vhost)):
            yield LOOK_WORK if queue is None else drawing.add_queue(queue)
    if broker.queue_post is not None:
        yield from drawing.add_channels_of_others(broker.queue_post)
    drawing.add_stage(STORE, broker.store, STORE, broker.store.flow_state(drawing.now_ns))
    if broker.store.full.is_shut:
        state = "no space, tried again" if broker.store.retrying else "a sync is running"
        drawing.add_other(DISK, "disk", state)
        drawing.add_gate(STORE, DISK, broker.store.full)
    yield from drawing.add_pacer(broker)
    for source, reason in alarms_of(broker):
        drawing.add_other(alarm_id(source), "alarm", reason, f"{source} alarm")
    found.append({"stages": drawing.stages, "links": drawing.links})


def alarms_of(broker: Services) -> Iterator[tuple[str, str]]:
    """Yield the alarms that stop publishers here: the source and the reason of each."""
    yield from broker.alarms.reasons.items()
    for node, reasons in broker.alarms.elsewhere.items():
        for source, reason in reasons.items():
            yield f"node {node}: {source}", reason


def alarm_id(source: str) -> str:
    """Return the id of an alarm's stage."""
    return f"alarm {source}"


def node_id(name: str) -> str:
    """Return the id of the stage of another node."""
    return f"node {name}"


def messages_in(actor: Actor) -> int:
    """Return how many messages of publishes wait in an inbox; other commands do not count."""
    count = 0
    for message in actor.inbox:
        if isinstance(message, AnyPublishes):
            count += len(message.contents)
        elif isinstance(message, Publish | StoreWrite):
            count += len(message.batch.contents)
    return count


def inbox_work(actor: Actor) -> int:
    """Return the units of work that it costs to count the messages in an inbox."""
    return len(actor.inbox) // MESSAGES_PER_UNIT


def held_back(keeper: GateKeeper) -> int:
    """Return how much credit this keeper will grant upstream once its gates open."""
    return sum(holder.deferred for holder in keeper.deferred if isinstance(holder, Inflow))


class Drawing:
    """Collects the lists of stages and links, over many turns."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stages: list[ChainStage] = []
        self.links: list[ChainLink] = []
        self.nodes: set[str] = set()
        """The other nodes that are stages, by name."""

    @property
    def now_ns(self) -> int:
        """The current time. Each stage is drawn with its own, so that no gate seems to have shut in
        the future."""
        return self.clock.now_ns()

    def add_connection(self, reader: Reader) -> Iterator[int]:
        """Add a reader, its writer, channels and the gates it waits for; a channel is a piece."""
        own = reader.name
        title = f"{reader.peer.peer_host}:{reader.peer.peer_port}"
        rest = len(reader.rest.contents) if reader.rest is not None else 0
        self.add_stage(own, reader, title, reader.state(self.now_ns), rest)
        writer = reader.writer
        state = "waiting for the client to read" if writer.choked else "running"
        self.add_other(f"writer {own}", "writer", state, title, len(writer.pending))
        if writer.backlog_gate.is_shut:
            self.add_gate(own, f"writer {own}", writer.backlog_gate)
        if reader.throttle.alarm_gate.is_shut:
            for source, _ in alarms_of(reader.broker):
                self.add_gate(own, alarm_id(source), reader.throttle.alarm_gate)
        yield 2 * STAGE_WORK + inbox_work(reader)
        for number in [*reader.channels]:
            channel = reader.channels.get(number)
            if channel is not None:
                self.add_link(own, channel.name, channel.outflow, channel.inflow)
                if channel.crowded.is_shut:
                    self.add_gate(own, channel.name, channel.crowded)
                yield from self.add_channel(channel, f"{title} ({number})")

    def add_channel(self, channel: Channel, title: str) -> Iterator[int]:
        """Add a channel and its links to queues; a link is a piece."""
        self.add_stage(channel.name, channel, title, channel.state(self.now_ns))
        yield STAGE_WORK + inbox_work(channel)
        for queue in [*channel.publishing.links]:
            link = channel.publishing.links.get(queue)
            if isinstance(link, CreditLink):
                self.add_link(channel.name, queue_id(queue), link.outflow, link.inflow)
            yield LINK_WORK

    def add_queue(self, queue: Queue) -> int:
        """Add a queue and its link to the store; returns the units of work that this cost."""
        own = queue_id(queue)
        self.add_stage(own, queue, queue_name(queue), queue.flow_state(self.now_ns))
        link = queue.store_link()
        if link is not None:
            self.add_link(own, STORE, *link)
        gate = queue.store_gate()
        if gate is not None and gate.is_shut:
            self.add_gate(own, STORE, gate)
        if isinstance(queue, RemoteQueue) and queue.behind.shut_count:
            name = queue.office.name_of(queue.home)
            self.add_node(own, name, "running" if queue.reach else "down", queue.behind)
        if isinstance(queue, MasterShell):
            for name in queue.slow:
                self.add_node(own, name, "running", queue.lagging)
        return STAGE_WORK + LINK_WORK + inbox_work(queue)

    def add_node(self, own: str, name: str, state: str, gate: Gate) -> None:
        """Add another node, unless it is there, and the gate at which a queue waits for it."""
        if name not in self.nodes:
            self.nodes.add(name)
            self.add_other(node_id(name), NODE, state, name)
        self.add_gate(own, node_id(name), gate)

    def add_channels_of_others(self, post: QueuePost) -> Iterator[int]:
        """Add the stand-ins of other nodes' channels, with their links to queues of this node; each
        is a piece."""
        for node, channels in post.channels.items():
            for serial in [*channels]:
                channel = channels.get(serial)
                if channel is not None:
                    own = f"{channel.name} {node}.{serial}"
                    name = f"{channel.name} at {post.name_of(node)}"
                    self.add_stage(own, channel, name, channel.flow_state(self.now_ns))
                    link, queue = channel.link, channel.queue
                    if isinstance(link, CreditLink) and queue is not None:
                        self.add_link(own, queue_id(queue), link.outflow, link.inflow)
                yield STAGE_WORK + LINK_WORK

    def add_pacer(self, broker: Broker) -> Iterator[int]:
        """Add the pacer and the publishers that it holds back until queues have delivered their
        backlog: see chain/pacer.py."""
        pacer = broker.pacer
        if pacer is None or not pacer.is_held:
            return
        state = f"deals out first: {pacer.lag} messages behind"
        if pacer.under_way:
            state += f", {pacer.under_way} not agreed on"
        if pacer.others and broker.queue_post is not None:
            names = ", ".join(map(broker.queue_post.name_of, pacer.others))
            state += f"; for the queues of {names}"
        self.add_other(PACER, PACER, state)
        since_ns = self.now_ns - pacer.held_since_ns
        for reader in readers(broker):
            if reader is not None and reader.intake.scheduled:
                total_ns = pacer.held_ns(self.now_ns)
                self.links.append(link_row(reader.name, PACER, True, since_ns, total_ns))
            yield LOOK_WORK

    def add_stage(
        self, stage_id: str, actor: FlowActor, name: str, state: str, waiting: int = 0
    ) -> None:
        """Add an actor of the chain; `waiting` publishes wait outside its inbox."""
        keeper = actor.keeper
        blocked_ns = 0
        if keeper.gates_shut and keeper.shut_since_ns is not None:
            blocked_ns = self.now_ns - keeper.shut_since_ns
        self.stages.append(
            {
                "id": stage_id,
                "kind": actor.kind,
                "name": name,
                "inbox": messages_in(actor) + waiting,
                "state": state,
                "gates_shut": keeper.gates_shut,
                "blocked_ms": blocked_ns // NS_PER_MS,
                "blocked_total_ms": keeper.blocked_ns(self.now_ns) // NS_PER_MS,
                "deferred": held_back(keeper),
            }
        )

    def add_other(
        self, stage_id: str, kind: str, state: str, name: str = "", inbox: int = 0
    ) -> None:
        """Add a stage that has no gates of its own."""
        self.stages.append(
            {
                "id": stage_id,
                "kind": kind,
                "name": name or stage_id,
                "inbox": inbox,
                "state": state,
                "gates_shut": 0,
                "blocked_ms": 0,
                "blocked_total_ms": 0,
                "deferred": 0,
            }
        )

    def add_link(self, sender: str, receiver: str, outflow: Outflow, inflow: Inflow) -> None:
        """Add the credit link of two actors, with the figures of both halves."""
        link = self.gate_row(sender, receiver, outflow)
        link["credit"] = outflow.credit
        link["initial"] = outflow.initial
        link["owed"] = inflow.owed
        link["withheld"] = inflow.withheld
        link["deferred"] = inflow.deferred
        self.links.append(link)

    def add_gate(self, sender: str, receiver: str, gate: Gate) -> None:
        """Add a gate without credit: an alarm, a clogged writer."""
        self.links.append(self.gate_row(sender, receiver, gate))

    def gate_row(self, sender: str, receiver: str, gate: Gate) -> ChainLink:
        """Return the fields that every gate between two stages has, credit or not."""
        shut_ns, blocked_ns = gate.shut_ns(self.now_ns), gate.blocked_ns(self.now_ns)
        return link_row(sender, receiver, gate.is_shut, shut_ns, blocked_ns)


def link_row(
    sender: str, receiver: str, is_shut: bool, shut_ns: int, blocked_total_ns: int
) -> ChainLink:
    """Return the fields of any link that can hold up a stage, with no credit in them."""
    return {
        "sender": sender,
        "receiver": receiver,
        "credit": 0,
        "initial": 0,
        "owed": 0,
        "withheld": 0,
        "deferred": 0,
        "shut": is_shut,
        "blocked_ms": shut_ns // NS_PER_MS,
        "blocked_total_ms": blocked_total_ns // NS_PER_MS,
    }


def queue_id(queue: Queue) -> str:
    """Return the id of a queue's stage, which no other queue of the node has: quotes and
    backslashes in names are escaped."""
    return f"queue {queue.name!r} in vhost {queue.vhost.name!r}"


def queue_name(queue: Queue) -> str:
    """Return the name of a queue to show to people: outside the default virtual host, with its
    virtual host."""
    vhost = queue.vhost.name
    return queue.name if vhost == DEFAULT_VHOST else f"{queue.name} in vhost {vhost}"
