"""The mail about queues from this node to one other node, gathered until the post's turn ends."""

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
    """The mail to the node `node`, carried by `carrier`. Senders name the `reach` that they know:
    mail for an earlier one is dropped."""

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
        """Tell whether a section with bodies may be put in. Short ones always may: their number is
        bounded by requests."""
        return not self.gates_shut and self.gathered_bytes < QUEUE_FRAME_BYTES

    def wait_for_room(self, actor: Actor) -> None:
        """Give `actor` a turn when there is room again."""
        self.waiting[actor] = None

    def put(self, reach: int, frame_type: FrameType, parts: list[bytes]) -> None:
        """Add a section to the next frame of this type, behind the others. It goes over the link
        named `reach`, or is lost with it."""
        if reach and reach == self.reach:
            self.gathered.setdefault(frame_type, []).extend(parts)
            self.gathered_bytes += sum(map(len, parts))
            self.carrier.schedule()

    def link_began(self, reach: int) -> None:
        """Use a new link from now on."""
        self.reach = reach

    def link_ended(self) -> None:
        """Drop everything, because nobody would get it. Actors that wait for room have
        their turns."""
        self.reach = 0
        self.clear()
        self.let_in()

    def clear(self) -> None:
        """Forget the gathered mail, which is sent or lost."""
        self.gathered.clear()
        self.gathered_bytes = 0

    def let_in(self) -> None:
        """Give actors that wait for room their turns, if there is some."""
        if self.waiting and self.has_room:
            waiting, self.waiting = self.waiting, {}
            for actor in waiting:
                actor.schedule()
