"""Bugs to be planted in Raft: each breaks one of its rules, and the assertion that would say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from sluicemq.raft import election
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.leading import Leading
from sluicemq.raft.log import RaftLog
from sluicemq.raft.member import RaftMember
from sluicemq.raft.messages import VoteRequest
from sluicemq.raft.raft import Raft
from sluicemq.raft.snapshot import LogSnapshot

Plant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, Plant]] = {}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def two_votes_in_a_term(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks last gets the vote."""

    def is_grantable(member: RaftMember, request: VoteRequest) -> bool:
        is_new = not request.is_pre or request.term > member.term
        return is_new and member.log.is_covered_by(request.last_index, request.last_term)

    def adopt(self: RaftMember, term: int, vote: int) -> None:
        self.term = term
        self.vote = vote
        self.state_number = self.next_number

    patch.setattr(election, "is_grantable", is_grantable)
    patch.setattr(RaftMember, "adopt", adopt)


@canary
def a_vote_is_lost_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    """The term is found again and the vote is not."""
    original = Raft.__init__

    def begin(self: Raft, name: int, durable: Durable, *rest: Any, **named: Any) -> None:
        durable.vote = 0
        original(self, name, durable, *rest, **named)

    patch.setattr(Raft, "__init__", begin)


@canary
def a_vote_is_said_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Messages wait for entries, and not for term and vote."""

    def send(self: RaftMember, message: Any, after: int = 0) -> None:
        self.outbox.send(message, self.state_number if message.to == self.name else after)

    patch.setattr(RaftMember, "send", send)


@canary
def an_old_term_is_counted(patch: pytest.MonkeyPatch) -> None:
    """Whatever a majority has is committed: Raft's figure 8."""

    def advance_commit(self: Leading) -> None:
        log = self.member.log
        log.commit_to(max(log.commit, log.configuration.agreed(self.durable_at)))

    patch.setattr(Leading, "advance_commit", advance_commit)


@canary
def acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """A follower says that it has what it has only been handed."""
    patch.setattr(RaftLog, "number_at", lambda _self, _index: 0)


@canary
def counted_before_the_own_sync(patch: pytest.MonkeyPatch) -> None:
    """A leader counts its own entries as soon as they are in its log."""
    original = Leading.durable_at

    def durable_at(self: Leading, name: int) -> int:
        return self.member.log.last_index if name == self.member.name else original(self, name)

    patch.setattr(Leading, "durable_at", durable_at)


@canary
def a_late_sync_vouches(patch: pytest.MonkeyPatch) -> None:
    """An append that is synced makes everything durable up to where it ended, whatever is there."""
    taken, synced = RaftLog.take_unwritten, RaftLog.synced

    def take_unwritten(self: Any) -> tuple[int, list[LogEntry]]:
        result = taken(self)
        if result[1]:
            self.__dict__.setdefault("ends", []).append((self.numbers[-1], self.last_index))
        return result

    def late(self: Any, number: int) -> None:
        synced(self, number)
        ends = [end for of, end in self.__dict__.get("ends", []) if of <= number]
        self.durable = max(self.durable, min(max(ends, default=0), self.last_index))

    patch.setattr(RaftLog, "take_unwritten", take_unwritten)
    patch.setattr(RaftLog, "synced", late)


@canary
def a_former_leader_answers_reads(patch: pytest.MonkeyPatch) -> None:
    """Without asking anybody whether it still leads."""

    def confirm_reads(self: Leading) -> None:
        self.due_reads += self.reads.confirmed(self.round + 1)

    patch.setattr(Leading, "confirm_reads", confirm_reads)


@canary
def a_stale_append_truncates(patch: pytest.MonkeyPatch) -> None:
    """What follows an append is cut off, though it says nothing of that."""

    def merge(self: RaftLog, entries: list[LogEntry], number: int) -> int:
        new = [entry for entry in entries if entry.index > self.commit]
        if new and new[0].index <= self.last_index:
            self.truncate(new[0].index)
        for entry in new:
            self.append(entry, number)
        return entries[-1].index if entries else 0

    patch.setattr(RaftLog, "merge", merge)


@canary
def members_change_before_the_no_op(patch: pytest.MonkeyPatch) -> None:
    """A leader takes a change though nothing of its term is committed."""

    def add(self: Leading, entry: LogEntry) -> None:
        self.member.log.append(entry, self.member.next_number)
        self.uncommitted_bytes += entry.size_bytes
        self.wake()

    patch.setattr(Leading, "check_change", lambda _self, _configuration: None)
    patch.setattr(Leading, "add", add)


@canary
def a_snapshot_forgets_its_configuration(patch: pytest.MonkeyPatch) -> None:
    """It says who was in the group at the snapshot before."""
    original = RaftLog.snapshot_at

    def snapshot_at(self: RaftLog, *arguments: int) -> LogSnapshot:
        snapshot = original(self, *arguments)
        return replace(snapshot, configuration=self.snapshot.configuration)

    patch.setattr(RaftLog, "snapshot_at", snapshot_at)


@canary
def a_learner_votes(patch: pytest.MonkeyPatch) -> None:
    """What learners have, or grant, counts as if they were voters."""

    def has_majority(self: Configuration, members: Any) -> bool:
        return len({*members}.intersection(self.members)) >= self.majority

    def agreed(self: Configuration, value_of: Callable[[int], int]) -> int:
        values = sorted(map(value_of, self.members), reverse=True)
        return values[self.majority - 1] if self.voters else 0

    patch.setattr(Configuration, "has_majority", has_majority)
    patch.setattr(Configuration, "agreed", agreed)


@canary
def a_snapshot_is_not_pinned(patch: pytest.MonkeyPatch) -> None:
    """The next snapshot takes the place of one that is being sent."""
    patch.setattr(Raft, "pinned", lambda self: [self.member.log.snapshot])


@canary
def a_forgetful_member_votes(patch: pytest.MonkeyPatch) -> None:
    """One whose disk was damaged goes on as if it had never had anything."""
    original = Raft.__init__

    def begin(self: Raft, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.is_amnesiac = False

    patch.setattr(Raft, "__init__", begin)


@canary
def quiet_though_one_lags(patch: pytest.MonkeyPatch) -> None:
    """A group falls quiet as soon as the leader has nothing to do."""

    def is_calm(self: Leading) -> bool:
        log = self.member.log
        return log.commit == log.last_index and not self.reads.are_waiting

    def heartbeat_answer(self: Leading, message: Any, progress: Any) -> None:
        original(self, message, progress)
        self.is_quiet = self.is_quiet or self.may_fall_quiet()

    original = Leading.heartbeat_answer
    patch.setattr(Leading, "is_calm", is_calm)
    patch.setattr(Leading, "heartbeat_answer", heartbeat_answer)
