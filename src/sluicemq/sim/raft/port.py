"""A member's process as the checkers see it."""

from __future__ import annotations

from sluicemq.raft.raft import Raft
from sluicemq.sim.raft.disk import RaftDisk
from sluicemq.sim.raft.register import Register


class CheckedMember:
    """A member's state, without any means to change it."""

    name: int
    raft: Raft
    register: Register
    disk: RaftDisk
    is_up: bool
    is_amnesiac: bool
