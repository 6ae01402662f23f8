"""Figures of a run, summed over all its nodes."""

from __future__ import annotations

from typing import Final

from sluicemq.sim.links import CHANNEL, DELIVERIES, READER, STORE

FULL: Final = "full"
"""The gate of the store itself."""
KINDS: Final = (READER, CHANNEL, STORE, DELIVERIES, FULL)


class RunTotals:
    """Figures of a run over all its nodes. The maxima show whether the bounds were approached."""

    __slots__ = (
        "alarms",
        "backlog_bytes",
        "blocked_ns",
        "chain",
        "checks",
        "failed_starts",
        "queue_inbox",
        "quiet",
        "shut",
        "store_inbox",
    )

    def __init__(self) -> None:
        self.chain = 0
        self.queue_inbox = 0
        self.store_inbox = 0
        self.backlog_bytes = 0
        self.alarms = 0
        self.checks = 0
        self.quiet = 0
        self.failed_starts = 0
        self.shut = dict.fromkeys(KINDS, 0)
        """How often gates of ended nodes have been shut, by kind."""
        self.blocked_ns = dict.fromkeys(KINDS, 0)

    def add(self, shut: dict[str, int], blocked_ns: dict[str, int]) -> None:
        for kind in KINDS:
            self.shut[kind] += shut[kind]
            self.blocked_ns[kind] += blocked_ns[kind]
