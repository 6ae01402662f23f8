"""The bounds on the lag of an in-sync mirror, and on one that does not keep up."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.limits import (
    MIRROR_BEHIND_BYTES,
    MIRROR_CLOSE_BYTES,
    MIRROR_GATE_BYTES,
    MIRROR_MARK_AHEAD,
    MIRROR_REJOIN_MAX_MS,
    MIRROR_REJOIN_MS,
    MIRROR_STALLED_MS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorBounds:
    """The bounds of one master; `limits.py` has the reasons."""

    gate_bytes: int = MIRROR_GATE_BYTES
    close_bytes: int = MIRROR_CLOSE_BYTES
    behind_bytes: int = MIRROR_BEHIND_BYTES
    stalled_ms: int = MIRROR_STALLED_MS
    rejoin_ms: int = MIRROR_REJOIN_MS
    rejoin_max_ms: int = MIRROR_REJOIN_MAX_MS
    mark_ahead: int = MIRROR_MARK_AHEAD

    def __post_init__(self) -> None:
        assert 0 < self.close_bytes <= self.gate_bytes <= self.behind_bytes
        assert 0 < self.rejoin_ms <= self.rejoin_max_ms
        assert self.stalled_ms > 0
        assert self.mark_ahead > 0
