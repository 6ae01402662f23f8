"""Replies to channels of other nodes, and from them to channels of this one.

A reply comes without any promise: one to a node that is not up, or that reads slowly, is dropped,
because a client must not hold up a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.channel.delivery_frames import DirectReply
from sluicemq.chain.channel.reply_to import listener, place_of
from sluicemq.chain.remote.sections import BrokenSection, decode_delivery, encode_delivery
from sluicemq.cluster.cluster_port import REPLIES, NodeStanding, PeerMessage
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.actor import Actor
from sluicemq.limits import WIRE_BATCH_BYTES

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel_directory import ChannelDirectory
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.services import Services
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.metadata.changes import Life
    from sluicemq.model.traits import MessageTraits


class ReplyPost(Actor):
    """The reply post of a node, which `cluster` links to others. `directory` has its channels."""

    def __init__(
        self, services: Services, cluster: ClusterPort, directory: ChannelDirectory[ChannelPort]
    ) -> None:
        super().__init__(services.scheduler)
        self.services = services
        self.cluster = cluster
        self.directory = directory
        self.keepers: dict[int, GateKeeper] = {}
        """One for each other node, with a gate that is shut while too much waits for it."""
        cluster.each_node(self._know)
        cluster.handle(REPLIES, self)

    def _know(self, node: int) -> None:
        keeper = self.keepers[node] = GateKeeper(self.services.world.clock)
        self.cluster.feed(node, keeper)

    def node_of(self, address: str) -> int:
        """Return the node that an address belongs to; 0 if no such node is known in that life."""
        place = place_of(address)
        life: Life | None = None if place is None else place.life
        if life is None or life.node not in self.keepers:
            return 0
        is_that_life = self.cluster.incarnation_of(life.node) == life.incarnation
        return life.node if is_that_life else 0

    def is_node_up(self, address: str) -> bool:
        """Tell whether an address belongs to a node that is up, or may be."""
        node = self.node_of(address)
        return node > 0 and self.cluster.standing(node) is not NodeStanding.DOWN

    def send(self, address: str, contents: list[bytes], traits: MessageTraits) -> bool:
        """Send a reply to the node of its address. Returns False when it is dropped here."""
        node = self.node_of(address)
        size = sum(map(len, contents))
        if not node or self.keepers[node].gates_shut or size > WIRE_BATCH_BYTES:
            return False
        flags, parts = encode_delivery(address, 0, 1, contents, traits, False)
        return self.cluster.send(node, REPLIES, b"".join([bytes([flags]), *parts]))

    def receive(self, message: object) -> None:
        assert isinstance(message, PeerMessage), f"the reply post got {message!r}"
        payload = message.payload
        node = message.source.node
        try:
            reply = decode_delivery(payload[0] if payload else 0, payload, 1, len(payload))
        except BrokenSection as error:
            text = f"node {node} has sent {error}: its link is set up again"
            self.services.world.log.write("error", text)
            self.cluster.end_link(node, str(error))
            return
        channel = listener(self.directory, reply.tag)
        if channel is None:
            self.services.counters.dropped += len(reply.contents)
        else:
            channel.post(DirectReply(reply.tag, reply.contents, reply.traits))
