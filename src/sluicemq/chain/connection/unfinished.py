"""Messages that have begun and not ended: the memory they take, and what happens to them under the
alarm.

During an alarm nobody can finish a message that has begun, and nobody else can free it. So the
alarm ignores bytes that were read and cannot be parsed now, which are bounded for each connection,
and a little of the unfinished messages. If there are so many that the alarm could not clear because
of them, the connections that hold most are closed (506) after a while; at once when memory in use
keeps growing beyond its limit nevertheless, as with clients that begin messages on ever new
connections.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.errors import ConnectionViolation
from sluicemq.limits import (
    OVERRUN_RATIO,
    UNFINISHED_FORGIVEN_BYTES,
    UNFINISHED_PATIENCE_NS,
    UNFINISHED_RATIO,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.connection.reader import Reader

REASON = "memory is short, and too much of it is taken by messages that this connection has begun"


class Unfinished:
    """What the connections of one node have begun and not ended, in bytes, counted at each regular
    check of the monitor."""

    def __init__(self) -> None:
        self.since_ns: int | None = None
        """When the alarm was first seen; None: there is no alarm."""
        self.bytes = 0
        """Bytes of all that is unfinished: what was read and not parsed, and the parts of
        messages."""
        self.forgiven_bytes = 0
        """Bytes of it that do not keep the alarm up."""

    def look(self, readers: Iterable[Reader], alarmed: bool, now_ns: int) -> list[Reader]:
        """Count again, and return the readers that hold unfinished messages, those with most first.
        `alarmed` tells whether there is an alarm at the time `now_ns`."""
        if not alarmed:
            self.since_ns = None
        elif self.since_ns is None:
            self.since_ns = now_ns
        holders = [reader for reader in readers if reader.accounted]
        begun = sum(reader.amqp.content_bytes for reader in holders)
        self.bytes = sum(reader.accounted for reader in holders)
        self.forgiven_bytes = self.bytes - begun
        if begun <= UNFINISHED_FORGIVEN_BYTES:
            self.forgiven_bytes += begun
        return sorted(holders, key=held_by, reverse=True)

    def too_much(self, used_bytes: int, limit_bytes: int, now_ns: int) -> int:
        """Return how many bytes have to go; 0 also if that would not end the alarm, because other
        memory keeps it up."""
        others = used_bytes - self.bytes
        bound = math.inf
        if used_bytes > OVERRUN_RATIO * limit_bytes > others:
            bound = (OVERRUN_RATIO - 1) * limit_bytes
        elif self.since_ns is not None and now_ns - self.since_ns >= UNFINISHED_PATIENCE_NS:
            bound = UNFINISHED_RATIO * limit_bytes if others < limit_bytes else math.inf
        bound = max(bound, UNFINISHED_FORGIVEN_BYTES)
        return self.bytes - int(bound) if self.bytes > bound else 0


def held_by(reader: Reader) -> int:
    """Return how many bytes a reader holds, by which readers are sorted."""
    return reader.accounted


def close_holders(holders: list[Reader], excess_bytes: int) -> None:
    """Close readers from the first on (506), until the others hold `excess_bytes` less."""
    for reader in holders:
        if excess_bytes <= 0:
            break
        excess_bytes -= reader.accounted
        reader.post(ConnectionFault(ConnectionViolation(506, REASON)))
