"""Promises of quorum queues to their clients, beyond those of every queue.

counts       a message says how often it was requeued: once more whenever it was given back or its
             channel ended, never less than before, over every restart; a requeue after a crash, or
             before it was sent, does not count. None exceeds the delivery limit
refused      a message that a full queue refused by basic.nack is never delivered
order        as everywhere, as long as no message that nobody has seen was requeued: such a message
             is behind those requeued before, and not in its old place
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.sim.records import REQUEUED, promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.sim.messages import MessageId
    from sluicemq.sim.records import Delivery, QueueHistory, SentMessage


def well_refused(queue: QueueHistory, message: MessageId, sent: SentMessage) -> None:
    """Check that the queue did not refuse the message which it delivers. Only for messages that go
    to no other queue it is known which queue refused."""
    refused = sent.refused and queue.refuses and sent.targets == (queue.name,)
    promise(not refused or queue.had_fault, message, "was refused, and comes from", queue.name)


def well_counted(
    queue: QueueHistory,
    message: MessageId,
    before: Sequence[Delivery],
    returns: int,
    crashes: int,
) -> None:
    """Check `returns`, how often a message was requeued according to its header. It was delivered
    `before`; there have been `crashes` crashes."""
    comes = f"{message} comes from {queue.name} as returned {returns} times,"
    limit = queue.delivery_limit
    promise(limit is None or returns <= limit, comes, "more than", limit)
    most = len(before) + queue.given_back_unseen
    promise(returns <= most, comes, "but not more than", most, "can have been")
    if not before:
        return
    last = before[-1]
    least = last.returns
    if last.state == REQUEUED and last.crashes == crashes and not queue.had_fault:
        least += 1
    promise(returns >= least, comes, "not", least)
