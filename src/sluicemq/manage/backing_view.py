"""The columns of list_queues that tell how many messages are in RAM and on disk.

Queues count what they need for themselves, which sizes by kind are not. These are estimates from
the counts and the mean size, exact in a queue whose messages are all of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicemq.chain.queue.classic import leaving
from sluicemq.model.batch import OVERHEAD_BYTES

if TYPE_CHECKING:
    from sluicemq.queues.classic.machine import ClassicQueue
    from sluicemq.queues.machine import Depth


def all_bytes(depth: Depth) -> int:
    """Return the bytes of all messages of a queue, in RAM or on disk, ready or unacknowledged."""
    return depth.ready_bytes + depth.unacked_bytes


def share(whole: int, part: int, of: int) -> int:
    """Return the proportional share of `whole` for `part` out of `of`; 0 when `of` is 0."""
    return whole * part // of if of else 0


def persistent_bytes(depth: Depth) -> int:
    """Estimate the bytes of a queue's persistent messages from their number and the average
    size."""
    return share(all_bytes(depth), depth.persistent, depth.ready + depth.unacked)


def ram_bytes(machine: ClassicQueue) -> int:
    """Return the bytes of a queue's messages in RAM; of a message in several queues, only this
    queue's share. Messages that are being written still count."""
    depth = machine.depth
    held = depth.ram_messages + depth.ram_unacked + leaving(machine.backing)
    return max(0, depth.footprint - held * OVERHEAD_BYTES)


def paged_out(machine: ClassicQueue) -> int:
    """Return about how many transient messages are only on disk."""
    delta = machine.backing.delta
    return delta.count - delta.persistent


def paged_out_bytes(machine: ClassicQueue) -> int:
    """Estimate the bytes of the messages that `paged_out` counts."""
    delta = machine.backing.delta
    return share(delta.bytes, paged_out(machine), delta.count)


def backing_queue_status(machine: ClassicQueue) -> dict[str, Any]:
    """Return the column of that name, under RabbitMQ's names; rates are in messages a second, as
    the monitor last measured them."""
    rates = machine.rates
    return {
        **machine.backing.info(),
        "avg_ingress_rate": round(rates.published_rate, 3),
        "avg_egress_rate": round(rates.delivered_rate, 3),
        "avg_ack_ingress_rate": round(rates.ack_in_rate, 3),
        "avg_ack_egress_rate": round(rates.ack_out_rate, 3),
    }
