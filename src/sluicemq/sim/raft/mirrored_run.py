"""One run of a mirrored queue's group: like that of the registers, with masters, mirrors and
perhaps a witness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.settings import NO_SETTINGS, REJECT_PUBLISH, QueueSettings
from sluicemq.sim.raft.mirrored_checkers import MirroredCheckers
from sluicemq.sim.raft.mirrored_clients import CALM_PAUSE_MS, MirroredClients
from sluicemq.sim.raft.mirrored_member import MirroredMember
from sluicemq.sim.raft.run import STEPS, RaftRun, Report, outcome_of
from sluicemq.sim.raft.stored_mirror import StoredMirror

if TYPE_CHECKING:
    from sluicemq.raft.configuration import Configuration
    from sluicemq.sim.raft.checkers import RaftCheckers


SETTINGS = (
    NO_SETTINGS,
    QueueSettings(max_priority=3),
    QueueSettings(max_length=9),
    QueueSettings(max_length=9, overflow=REJECT_PUBLISH),
    QueueSettings(delivery_limit=2),
)
"""The possible settings of a run's queue."""
POLICY_MS = 500
"""The average time that a policy holds."""


class MirroredGroupRun(RaftRun):
    """A run in progress, of mirrors."""

    member_type = MirroredMember
    checkers: MirroredCheckers
    clients: MirroredClients
    hosts: dict[int, MirroredMember]  # type: ignore[assignment]

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        self.change_policy()

    def make_checkers(self, birth: Configuration) -> RaftCheckers:
        checkers = MirroredCheckers(birth)
        checkers.settings = self.events.random.choice(SETTINGS)
        return checkers

    def change_policy(self) -> None:
        """Choose the witness: none, or one member, perhaps the master. This is repeated every so
        often."""
        if self.nemesis.is_over:
            return
        name = self.events.random.choice([*self.hosts])
        self.checkers.witnesses = {name} if self.events.chance(0.5) else set()
        self.events.note(f"no mirrors are {sorted(self.checkers.witnesses)}")
        delay_ms = self.events.random.expovariate(1 / POLICY_MS)
        self.events.after(delay_ms, self.change_policy)

    def make_clients(self, count: int) -> MirroredClients:
        return MirroredClients(self.events, self.hosts, count)

    def is_repaired(self) -> bool:
        self.clients.pause_ms = CALM_PAUSE_MS
        return super().is_repaired()

    def has_answered(self, before: list[int]) -> bool:
        """Tell whether clients got answers, and all mirrors have joined again."""
        leader = self.leader()
        if leader is None or not super().has_answered(before):
            return False
        assert isinstance(leader, MirroredMember)
        in_sync = {*leader.register.mirror.in_sync.members}
        return in_sync == {*leader.raft.configuration.voters} - self.checkers.witnesses


class StoredMirrorRun(MirroredGroupRun):
    """A run in which the members keep their logs in the storage of a node."""

    member_type = StoredMirror


def simulate_mirrored(seed: int, steps: int = STEPS, *, with_storage: bool = False) -> Report:
    """Run a seed, like `simulate`, with mirrors."""
    return outcome_of((StoredMirrorRun if with_storage else MirroredGroupRun)(seed, steps))
