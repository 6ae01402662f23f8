"""How much may wait on the links of a node; tests lower it."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.limits import (
    LINK_GATE_OPEN_BYTES,
    LINK_GATE_SHUT_BYTES,
    LINK_QUEUE_BYTES,
    LINK_WRITE_BYTES,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkBounds:
    """Bounds in bytes: when that many wait for a node the gates shut, and open again; when that
    many wait the link ends; that many are written at a time."""

    gate_shut_bytes: int = LINK_GATE_SHUT_BYTES
    gate_open_bytes: int = LINK_GATE_OPEN_BYTES
    queue_bytes: int = LINK_QUEUE_BYTES
    write_bytes: int = LINK_WRITE_BYTES
