"""Where a queue's messages are, in RAM or on disk, as list_queues shows it.

A queue counts what it needs for itself; sizes by kind are no part of that. They follow from the
counts and from the mean size, which is exact in a queue whose messages are all of one kind.
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
    """Return the share of `whole` that falls to `part` out of `of`; 0 when `of` is 0."""
    return whole * part // of if of else 0


def persistent_bytes(depth: Depth) -> int:
    """Estimate the bytes of a queue's persistent messages from their number and the average
    size."""
    return share(all_bytes(depth), depth.persistent, depth.ready + depth.unacked)


def ram_bytes(machine: ClassicQueue) -> int:
    """Return the bytes of a queue's messages in RAM; of one that is in several queues, this queue's
    share. What is being written still counts."""
    depth = machine.depth
    held = depth.ram_messages + depth.ram_unacked + leaving(machine.backing)
    return max(0, depth.footprint - held * OVERHEAD_BYTES)


def paged_out(machine: ClassicQueue) -> int:
    """Return how many transient messages are on disk only, or nearly so."""
    delta = machine.backing.delta
    return delta.count - delta.persistent


def paged_out_bytes(machine: ClassicQueue) -> int:
    """Estimate the bytes of the messages that `paged_out` counts."""
    delta = machine.backing.delta
    return share(delta.bytes, paged_out(machine), delta.count)


def backing_queue_status(machine: ClassicQueue) -> dict[str, Any]:
    """Return the column of that name, under RabbitMQ's names; rates are in messages a second, as of
    the monitor's last look."""
    rates = machine.rates
    return {
        **machine.backing.info(),
        "avg_ingress_rate": round(rates.published_rate, 3),
        "avg_egress_rate": round(rates.delivered_rate, 3),
        "avg_ack_ingress_rate": round(rates.ack_in_rate, 3),
        "avg_ack_egress_rate": round(rates.ack_out_rate, 3),
    }
