"""A member of a mirrored queue's group: it is a mirror, and has the queue while it is master."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluicemq.chain.queue.group.member_log import joined_pieces, pieces_in
from sluicemq.queues.mirrored.command_codec import decode_entry, encode_entry
from sluicemq.queues.mirrored.commands import MirrorEffect
from sluicemq.queues.mirrored.group_standing import may_serve, standing_of
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.snapshot import digest_of
from sluicemq.sim.raft.host import SETTINGS, SimMember
from sluicemq.sim.raft.register import Register
from sluicemq.sim.raft.sim_master import MasterHost, SimMaster

if TYPE_CHECKING:
    from sluicemq.queues.mirrored.group_standing import GroupStanding
    from sluicemq.sim.raft.mirrored_checkers import MirroredCheckers


class MirrorRegister(Register):
    """A mirror as state machine, in place of the registers."""

    def __init__(self) -> None:
        super().__init__()
        self.mirror = Mirror()

    def apply(self, data: bytes, index: int) -> None:
        effects: list[MirrorEffect] = []
        self.mirror.entered(index, 0)
        for command in decode_entry(data):
            self.mirror.apply(command, effects)
        self.digest = self.digested()

    def digested(self) -> int:
        """Return a number that is equal for equal mirrors."""
        return int.from_bytes(digest_of(self.mirror), "little")

    def content(self) -> bytes:
        return joined_pieces([*self.mirror.snapshot()])

    def restore(self, content: bytes) -> None:
        if content:
            self.mirror.restore(pieces_in(content))
            self.digest = self.digested()


class MirroredMember(SimMember, MasterHost):
    """A member that is a mirror, or a witness."""

    register_type = MirrorRegister
    settings = replace(SETTINGS, piece_bytes=4000)
    register: MirrorRegister
    checkers: MirroredCheckers
    master: SimMaster | None

    def start(self) -> None:
        self.master = None
        super().start()

    @property
    def mirrors(self) -> set[int]:
        """Return all members except the witnesses."""
        return {*self.raft.configuration.members} - self.checkers.witnesses

    def standing(self) -> GroupStanding:
        return standing_of(self.raft)

    def entries(self, indexes: list[int]) -> list[bytes]:
        """Return committed entries, which are the same in all logs."""
        return [self.checkers.entries[index] for index in indexes]

    def pump(self) -> None:
        super().pump()
        while self.is_up and self._look():
            super().pump()

    def _look(self) -> bool:
        """Begin or end serving; propose an entry. Returns whether Raft has work."""
        raft = self.raft
        if self.master is not None and not (raft.is_leader and self.is_of_this_term(self.master)):
            self.master = None
        if self.name in self.checkers.witnesses:
            self.master = None
            return may_serve(raft) and self._hand_over()
        if self.master is None:
            if not may_serve(raft):
                return False
            self.master = SimMaster(self.name, raft.member.term, self.register.mirror, self)
            self.checkers.serves(self.name, self.master.term, {*self.master.ids.values()})
        self.master.turn()
        return self._propose(self.master)

    def is_of_this_term(self, master: SimMaster) -> bool:
        """Tell whether that mastership is still valid."""
        return master.term == self.raft.member.term

    def _hand_over(self) -> bool:
        """Hand the lead to a mirror: a witness serves no clients, even if it served before a policy
        made it one."""
        raft = self.raft
        heir = raft.best_heir(self.mirrors)
        if raft.is_handing_over or heir not in self.mirrors:
            return False
        self.checkers.happened["handed over"] += 1
        raft.transfer(heir)
        return True

    def _propose(self, master: SimMaster) -> bool:
        mastership = master.queue.mastership
        if not (self.raft.takes_proposals and master.is_entry_due):
            return False
        commands = mastership.take_entry()
        if not commands:
            return False
        data = encode_entry(commands)
        index = self.raft.propose(data)
        assert index, "a leader that takes proposals has taken one"
        mastership.proposed(index, len(data))
        master.written(index, commands)
        return True
