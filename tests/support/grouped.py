"""A Raft group of one for tests of replicators: its log becomes durable when the owner is told so.

`Grouped` is Majority with what a host adds: it schedules its owner, whose turn may be over, and
takes from the owner's inbox what the log says.
"""

from __future__ import annotations

import json
from typing import Any

from sluicemq.kernel.actor import Actor
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.messages import RaftMessage
from sluicemq.raft.raft import Raft
from sluicemq.raft.ready import RaftReady
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication.majority import Majority
from sluicemq.replication.member_log import MemberLog
from sluicemq.replication.state_owner import StateOwner
from support.echo import EchoCommand
from support.fakes import FakeClock

ALONE = Configuration((1,))


class Synced:
    """To the owner of `replicator`: what its member has written as append `number` is durable."""

    def __init__(self, replicator: Majority[Any, Any], number: int) -> None:
        self.replicator = replicator
        self.number = number


class Said(bytes):
    """The data of an entry, which knows the commands it was made of."""

    commands: list[EchoCommand]
    stamp_ms: int


class EchoCodec:
    """Keeps commands as they are: they are told apart by who they are."""

    def encode(self, commands: list[EchoCommand], stamp_ms: int) -> EntryData:
        said = Said(json.dumps([type(each).__name__ for each in commands]).encode())
        said.commands, said.stamp_ms = [*commands], stamp_ms
        return said

    def decode(self, data: EntryData) -> tuple[int, list[EchoCommand]]:
        assert isinstance(data, Said)
        return data.stamp_ms, data.commands

    def weigh(self, command: EchoCommand) -> int:
        return len(type(command).__name__)


class PromptLog(MemberLog):
    """Says of each append that it is durable, in a later turn of the owner."""

    def __init__(self, owner: Actor) -> None:
        self.owner = owner
        self.replicator: Majority[Any, Any] | None = None
        self.commit = 0

    def write(self, ready: RaftReady) -> None:
        assert self.replicator is not None
        self.owner.post(Synced(self.replicator, ready.number))

    def send(self, messages: list[RaftMessage]) -> None:
        raise AssertionError("a group of one has nobody to send to")

    def committed(self, index: int) -> None:
        assert index > self.commit, "what is committed is told once"
        self.commit = index


class JoinedSyncs(PromptLog):
    """Syncs one time after the other: what is written meanwhile becomes durable together."""

    def __init__(self, owner: Actor) -> None:
        super().__init__(owner)
        self.written = 0
        self.syncing = 0
        """The append that the sync covers which is under way; 0: there is none."""

    def write(self, ready: RaftReady) -> None:
        self.written = ready.number
        if not self.syncing:
            self.begin()

    def begin(self) -> None:
        assert self.replicator is not None
        self.syncing = self.written
        self.owner.post(Synced(self.replicator, self.syncing))

    def was_synced(self) -> None:
        """A sync is over; the next one begins if something was written meanwhile."""
        done, self.syncing = self.syncing, 0
        if self.written > done:
            self.begin()


class Grouped(Majority[EchoCommand, str]):
    """The only member of a group, of an owner with an inbox."""

    __slots__ = ("actor", "log")

    def __init__(self, machine: Any, effects: list[str], actor: Any, log: PromptLog) -> None:
        assert isinstance(actor, Actor)
        assert isinstance(actor, StateOwner)
        durable = Durable(0, 0, LogSnapshot(0, 0, ALONE))
        raft = Raft(1, durable, RaftSettings(), 1, lambda _: 0)
        super().__init__(machine, effects, actor, raft, log, EchoCodec(), FakeClock())
        self.actor = actor
        self.log = log

    def submit(self, command: EchoCommand) -> None:
        super().submit(command)
        self.actor.schedule()  # its turn may be over

    def receive(self, message: object) -> bool:
        if not isinstance(message, Synced):
            return super().receive(message)
        if message.replicator is not self:
            return False
        if not self.is_closed:
            self.synced(message.number)
            if isinstance(self.log, JoinedSyncs):
                self.log.was_synced()
        return True


def grouped(
    kind: type[Grouped], owner: Any, log_kind: type[PromptLog] = PromptLog
) -> Majority[EchoCommand, str]:
    """Make one of an owner with a machine and effects, and have it elected."""
    log = log_kind(owner)
    made = kind(owner.machine, owner.effects, owner, log)
    log.replicator = made
    made.raft.campaign()
    while (ready := made.raft.ready()).number:
        made.raft.synced(ready.number)
    log.commit = made.raft.member.log.commit
    assert made.raft.is_leader
    return made
