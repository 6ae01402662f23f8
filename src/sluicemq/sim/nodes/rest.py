"""Checks a node when everything is delivered and nothing is in flight: credit is whole, and no gate
is shut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import CreditLink
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.queue.stream import StreamShell
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.sim.inboxes import Inboxes
from sluicemq.sim.links import CHANNEL, DELIVERIES, LinkChecks
from sluicemq.sim.records import PromiseBroken, promise

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.node import Node

ANY: Final = 1 << 30
"""An unlimited overspend, which does not matter at rest."""


def unrest(node: Node) -> str:
    """Return what on a node is not at rest: a shut gate, or credit in flight or lost; "" when
    nothing is."""
    try:
        node_at_rest(node)
    except PromiseBroken as broken:
        return str(broken)
    return ""


def to_deliver(queue: Queue) -> int:
    """Return how many messages of a queue wait for consumers. A stream also has those for readers
    that it is still to write: nobody waits for a message without a confirm."""
    ready: int = queue.machine.depth.ready
    if isinstance(queue, StreamShell):
        ready += queue.log.next_offset - queue.log.durable_end
    return ready


def sends_letters(queue: Queue) -> bool:
    """Tell whether dead letters of a queue are on their way, or wait to be offered again to a queue
    that has refused them or is away: they are in no queue, and will come to one yet."""
    if not isinstance(queue, ClassicShell | QuorumShell):
        return False
    letters = queue.dead_lettering.republisher
    return isinstance(letters, Republisher) and bool(
        letters.backlog or letters.sent or letters.refused or letters.unrouted
    )


def kept_of_streams(broker: Broker) -> int:
    """Return how many bytes of streams a broker keeps without readers."""
    streams = [each for each in broker.all_with_messages() if isinstance(each, StreamShell)]
    chunks = broker.stream_cache.chunks.values()
    return sum(each.size for each in chunks) + sum(each.accounted for each in streams)


def kept_of_mirrors(broker: Broker) -> int:
    """Return how many bytes of the newest entries members of mirrored queues keep, until a snapshot
    or a checkpoint no longer needs them."""
    tables = [each.mirrored.members for each in broker.vhosts.values() if each.mirrored is not None]
    members = [each for table in tables for each in table.values()]
    for each in members:
        held = each.replicator.ram_bytes
        promise(each.accounted <= held, each.title, f"accounts {each.accounted} bytes of {held}")
    return sum(each.accounted for each in members)


def node_at_rest(node: Node) -> None:
    """Check the links of all channels of a node, and its gates."""
    broker = node.broker
    checks = LinkChecks(Inboxes())
    for reader in broker.connections.values():
        shut = reader.keeper.gates_shut + reader.halts.gates_shut
        promise(not shut, reader.name, "has a shut gate")
        for channel in reader.channels.values():
            if not channel.closing:
                channel_at_rest(checks, channel)
    promise(not broker.store.keeper.gates_shut, "the store has a shut gate")


def channel_at_rest(checks: LinkChecks, channel: Channel) -> None:
    """Check that all credit of a channel's links has come back."""
    promise(not channel.keeper.gates_shut, channel.name, "has a shut gate")
    promise(not channel.queued_methods, channel.name, "holds methods for ever")
    for link in channel.publishing.links.values():
        assert isinstance(link, CreditLink)
        checks.check(CHANNEL, link.outflow, link.inflow, ANY)
    for queue, (outflow, inflow) in channel.consuming.windows.items():
        if queue.machine.deleted:
            continue  # it takes no grants any more, and its windows are forgotten some time
        due = channel.consuming.unwritten
        unwritten = sum(each.cost for each in due if each.inflow is inflow)
        checks.check(DELIVERIES, outflow, inflow, ANY, unwritten)
