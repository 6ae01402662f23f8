"""What this node has to say to one other node about queues, gathered until the post's turn ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.flow.gate import GateKeeper
from sluicemq.limits import QUEUE_FRAME_BYTES

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import ClusterPort, FrameType
    from sluicemq.flow.gate import Gate
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.world import Clock


class QueueMail(GateKeeper):
    """The mail to the node `node`, carried by `carrier`. Who puts something into it names the
    `reach` that it knows of: what belongs to an earlier one is dropped."""

    __slots__ = ("carrier", "gate", "gathered", "gathered_bytes", "node", "reach", "waiting")

    def __init__(self, clock: Clock, carrier: Actor, cluster: ClusterPort, node: int) -> None:
        super().__init__(clock)
        self.carrier = carrier
        self.node = node
        self.reach = 0
        """Names the link to the node, for this node alone; 0: there is none."""
        self.gathered: dict[FrameType, list[bytes]] = {}
        self.gathered_bytes = 0
        self.waiting: dict[Actor, None] = {}
        """Who has something that there was no room for."""
        self.gate: Gate = cluster.feed(node, self)

    def flow_resumed(self) -> None:
        self.carrier.schedule()

    @property
    def has_room(self) -> bool:
        """Tell whether something with bodies in it may be put in. What is short always may: there
        is no more of it than was asked for, or is answered."""
        return not self.gates_shut and self.gathered_bytes < QUEUE_FRAME_BYTES

    def wait_for_room(self, actor: Actor) -> None:
        """Give `actor` a turn when there is room again."""
        self.waiting[actor] = None

    def put(self, reach: int, frame_type: FrameType, parts: list[bytes]) -> None:
        """Have a section go in the next frame of this type, behind those that are there. What is
        put in over one `reach` goes over that, or is lost with it."""
        if reach and reach == self.reach:
            self.gathered.setdefault(frame_type, []).extend(parts)
            self.gathered_bytes += sum(map(len, parts))
            self.carrier.schedule()

    def link_began(self, reach: int) -> None:
        """Send what is put in from now on, over a new link."""
        self.reach = reach

    def link_ended(self) -> None:
        """Drop what is there: nobody would get it. Who waits for room has its turn."""
        self.reach = 0
        self.clear()
        self.let_in()

    def clear(self) -> None:
        """Forget what was gathered, for it is sent or lost."""
        self.gathered.clear()
        self.gathered_bytes = 0

    def let_in(self) -> None:
        """Give those who wait for room their turns, if there is some."""
        if self.waiting and self.has_room:
            waiting, self.waiting = self.waiting, {}
            for actor in waiting:
                actor.schedule()
