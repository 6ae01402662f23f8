"""The bounds and periods of a group; times are in ticks, whose length the host chooses."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.limits import (
    RAFT_APPEND_BYTES,
    RAFT_APPEND_ENTRIES,
    RAFT_ELECTION_TICKS,
    RAFT_HEARTBEAT_TICKS,
    RAFT_IN_FLIGHT_BYTES,
    RAFT_IN_FLIGHT_ENTRIES,
    RAFT_LATE_BYTES,
    RAFT_LATE_ENTRIES,
    RAFT_LATE_TICKS,
    RAFT_LEARNER_PATIENCE,
    RAFT_PIECE_BYTES,
    RAFT_PROMOTE_LAG_ENTRIES,
    RAFT_QUIET_TICKS,
    RAFT_UNCOMMITTED_BYTES,
    RAFT_UNCOMMITTED_ENTRIES,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RaftSettings:
    """Settings that all members of a group share; `limits.py` has the reasons."""

    election_ticks: int = RAFT_ELECTION_TICKS
    stagger_ticks: int = 3
    """Between the candidacies of two members that miss the same leader, and at least before a
    member's next one after a lost election: within that time a vote is requested, synced and
    granted, unless a disk is very slow."""
    turn: int = 0
    """Shifts, by group, the order in which members that miss a leader stand for election, so that
    not one node gets to lead all groups of a dead one."""
    learner_patience: int = RAFT_LEARNER_PATIENCE
    heartbeat_ticks: int = RAFT_HEARTBEAT_TICKS
    quiet_ticks: int = RAFT_QUIET_TICKS
    append_entries: int = RAFT_APPEND_ENTRIES
    append_bytes: int = RAFT_APPEND_BYTES
    in_flight_entries: int = RAFT_IN_FLIGHT_ENTRIES
    in_flight_bytes: int = RAFT_IN_FLIGHT_BYTES
    uncommitted_entries: int = RAFT_UNCOMMITTED_ENTRIES
    uncommitted_bytes: int = RAFT_UNCOMMITTED_BYTES
    late_entries: int = RAFT_LATE_ENTRIES
    late_bytes: int = RAFT_LATE_BYTES
    late_ticks: int = RAFT_LATE_TICKS
    piece_bytes: int = RAFT_PIECE_BYTES
    promote_lag_entries: int = RAFT_PROMOTE_LAG_ENTRIES

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_ticks < self.election_ticks
        assert 0 < self.stagger_ticks <= self.election_ticks
        assert 0 < self.append_entries <= self.in_flight_entries
        assert min(self.append_bytes, self.in_flight_bytes, self.piece_bytes) > 0
