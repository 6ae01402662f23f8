"""Tells queues from streams that are read as queues.

AMQP does not tell. But each delivery of a stream carries its offset in a header, so such a first
delivery is suspicious, and so is a queue that counts messages and sends none: a stream sends only
new messages to a consumer that names no offset. A second consumer, which asks for the first offset,
decides: queues refuse it, or send messages without offsets. So messages of a queue that were once
in a stream, and still have its headers, are read as a queue's.
"""

from __future__ import annotations

import time
from typing import Final

from sluicemq.client.consuming import Deliveries, Subscription
from sluicemq.client.session import ClosedByBrokerError
from sluicemq.spark.connecting import AmqpError, connect, is_missing, persistently
from sluicemq.spark.option_declaration import FIRST
from sluicemq.spark.options import Options
from sluicemq.spark.raw_contents import has_offset

REFUSALS: Final = (403, 405, 406)
"""The reply codes to a consumer that asks a queue for an offset, or one that another has for
itself."""

ANSWER_S: Final = 2.0
"""Seconds to wait for the first message: an empty stream sends none."""


def check_delivery(options: Options, queue: str, event: Deliveries) -> None:
    """Look at the first deliveries of a consumer, and raise `AmqpError` when they are a
    stream's."""
    if has_offset(event.content(0)):
        refuse_stream(options, queue)


def refuse_stream(options: Options, queue: str) -> None:
    """Raise `AmqpError` when the queue is a stream. Asks the broker on a connection of its own; an
    empty stream cannot be told from an empty queue, and passes."""
    what = f"queue {queue!r}"
    if persistently(options, what, lambda attempt: is_stream(options, queue, attempt)):
        raise AmqpError(
            f"{what}: is a stream (its deliveries carry offsets); read it with queueType = stream"
        )


def is_stream(options: Options, queue: str, attempt: int) -> bool:
    """Return whether the queue's first message has a stream offset; False for an empty stream, and
    for a queue of a pattern that was deleted. Raises `BrokerError` when the broker cannot be
    asked."""
    wire = connect(options, f"sluicemq spark kind of {queue}", attempt, heartbeat_s=0)
    try:
        subscription = Subscription(wire, queue, 1, arguments={"x-stream-offset": FIRST})
        until = time.monotonic() + ANSWER_S
        while (left := until - time.monotonic()) > 0:
            for event in subscription.poll(left):
                return has_offset(event.content(0))
    except ClosedByBrokerError as closed:
        is_gone = bool(options.queue_pattern) and is_missing(closed)
        if closed.code not in REFUSALS and not is_gone:
            raise
    finally:
        wire.abandon()
    return False
