"""How much may wait on the links of a node; tests make it less."""

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
    """All are bytes. When so many wait for a node the gates shut, and open again; with so many
    waiting nothing more is sent, but the link ends; so many are written at a time."""

    gate_shut_bytes: int = LINK_GATE_SHUT_BYTES
    gate_open_bytes: int = LINK_GATE_OPEN_BYTES
    queue_bytes: int = LINK_QUEUE_BYTES
    write_bytes: int = LINK_WRITE_BYTES
