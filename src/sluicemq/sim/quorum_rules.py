"""What clients may rely on at a quorum queue, beyond what holds at every queue.

counts       a message says how often it has come back: once more for each time that it was
             given back or its channel ended, never less than before, over every restart; what
             comes back because of a crash, or was not sent, does not count. None comes more
             often than the delivery limit says
refused      what its publisher was told that a full queue did not take is never delivered
order        as everywhere, as long as nothing that nobody has seen may have come back: that is
             behind what has come back before, and not in its old place
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.sim.records import REQUEUED, promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.sim.messages import MessageId
    from sluicemq.sim.records import Delivery, QueueHistory, SentMessage


def well_refused(queue: QueueHistory, message: MessageId, sent: SentMessage) -> None:
    """Check that a message which the queue delivers is not one that it did not take. Only of what
    goes to no other queue it is known who has refused it."""
    refused = sent.refused and queue.refuses and sent.targets == (queue.name,)
    promise(not refused or queue.had_fault, message, "was refused, and comes from", queue.name)


def well_counted(
    queue: QueueHistory,
    message: MessageId,
    before: Sequence[Delivery],
    returns: int,
    crashes: int,
) -> None:
    """Check how often a message has come back, as its header says: `returns`. It was delivered
    `before`; `crashes` is how many there have been."""
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
