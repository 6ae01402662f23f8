"""What those who check see of a member's process."""

from __future__ import annotations

from sluicemq.raft.raft import Raft
from sluicemq.sim.raft.disk import RaftDisk
from sluicemq.sim.raft.register import Register


class CheckedMember:
    """A member as it is, with nothing of what may be done to it."""

    name: int
    raft: Raft
    register: Register
    disk: RaftDisk
    is_up: bool
    is_amnesiac: bool
