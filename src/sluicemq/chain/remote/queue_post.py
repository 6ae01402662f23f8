"""queues of other nodes <---sections---> QUEUE POST <---frames---> the posts of these nodes

Each node of a cluster has one. One frame a turn carries everything from the channels of this node
to the queues of another node, and one everything from the queues of this node to that node's
channels. Arriving answers are posted to the queue's stand-in here, arriving requests to the
channel's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sluicemq.chain.remote.figures_teller import FiguresTeller
from sluicemq.chain.remote.pace_teller import PaceTeller
from sluicemq.chain.remote.post_port import PostPort
from sluicemq.chain.remote.queue_mail import QueueMail
from sluicemq.chain.remote.remote_channel import (
    PeerLost,
    RemoteChannel,
)
from sluicemq.chain.remote.remote_end import RemoteEnd
from sluicemq.chain.remote.sections import (
    FIGURES,
    FIGURES_ROW,
    LAG,
    LAGS,
    OPEN,
    BrokenSection,
    QueueFigures,
    SectionCame,
    decode_open,
    rows,
    sections,
)
from sluicemq.cluster.cluster_port import (
    QUEUE_ANSWERS,
    QUEUE_ASKS,
    NodeDown,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerMessage,
)
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import ActorAddress

if TYPE_CHECKING:
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.remote.home_follower import HomeFollower
    from sluicemq.chain.remote.sections import OpenedEnd
    from sluicemq.chain.services import Services
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.metadata.events import DeclaredQueue

QueuePlace: TypeAlias = "tuple[str, str]"
"""The virtual host and the name of a queue."""


class RemoteAnswer:
    """Posted to the stand-in of a queue: its node's answer to one of the ends there."""

    __slots__ = ("end", "section")

    def __init__(self, end: RemoteEnd, section: SectionCame) -> None:
        self.end = end
        self.section = section


class HomeReached(NamedTuple):
    """Posted to the stand-in of a queue: there is a link to the node `home`, named `reach`."""

    home: int
    reach: int


class HomeLost(NamedTuple):
    """Posted to the stand-in of a queue: the link to the node `home` has ended."""

    home: int


class QueuePost(Actor, PostPort):
    """The post of a node, which `cluster` links to the others. `vhosts` are the virtual hosts of
    the node."""

    def __init__(
        self, services: Services, cluster: ClusterPort, vhosts: Mapping[str, NamespacePort]
    ) -> None:
        super().__init__(services.scheduler)
        self.services = services
        self.cluster = cluster
        self.vhosts = vhosts
        self.mail: dict[int, QueueMail] = {}
        self.names: dict[int, str] = {}
        """The names of other nodes that were heard of."""
        self.followers: dict[HomeFollower, None] = {}
        self.ends: dict[int, RemoteEnd] = {}
        """What channels of this node have at queues of others, by serial."""
        self.channels: dict[int, dict[int, RemoteChannel]] = {}
        """What stands here for channels of other nodes, by node and serial."""
        self.early: dict[RemoteChannel, OpenedEnd] = {}
        """Those whose queue this node has not heard of yet."""
        self.reaches = 0
        self.strays = 0
        """Sections about an end that is over, or never was."""
        self.figures = FiguresTeller(services, self.mail, vhosts)
        self.pacer = services.pacer
        if self.pacer is not None:
            PaceTeller(services, self.pacer, self.mail, self.channels)
        cluster.each_node(self._know)
        cluster.handle(QUEUE_ASKS, self)
        cluster.handle(QUEUE_ANSWERS, self)
        cluster.follow(self)

    def _know(self, node: int) -> None:
        self.mail[node] = QueueMail(self.services.world.clock, self, self.cluster, node)
        self.channels[node] = {}

    # -- queues of other nodes

    def join(self, follower: HomeFollower) -> None:
        """Post to the follower from now on which of its homes are reached, and which are lost;
        first those that are reached now."""
        self.followers[follower] = None
        self.look_for(follower, follower.homes)

    def look_for(self, follower: HomeFollower, homes: Iterable[int]) -> None:
        """Post to the follower which of these of its homes are reached now."""
        for home in homes:
            if home in self.mail and self.mail[home].reach:
                follower.post(HomeReached(home, self.mail[home].reach))

    def leave(self, follower: HomeFollower) -> None:
        """Post no more about homes to the follower."""
        self.followers.pop(follower, None)

    def enter(self, end: RemoteEnd) -> ActorAddress:
        """Give an end the address by which the other node knows it."""
        address = self.services.new_address()
        self.ends[address.serial] = end
        return address

    def forget(self, serial: int) -> None:
        """Forget an end that is over."""
        self.ends.pop(serial, None)

    def name_of(self, node: int) -> str:
        """Return the name of a node, if it is known."""
        return self.names.get(node, f"node {node}")

    # -- channels of other nodes

    def ended(self, address: ActorAddress) -> None:
        channel = self.channels[address.node].pop(address.serial, None)
        if channel is not None:
            self.early.pop(channel, None)

    def broken(self, node: int, error: BrokenSection) -> None:
        self.services.world.log.write(
            "error", f"node {node} has sent {error}: its link is set up again"
        )
        self.cluster.end_link(node, str(error))

    def queue_added(self, declared: DeclaredQueue) -> None:
        """Let channels go on that have asked for a queue before this node knew it."""
        place = declared.definition.vhost, declared.definition.name
        for channel, opened in [*self.early.items()]:
            if (opened.vhost, opened.queue) == place:
                del self.early[channel]
                self._find_queue(channel, opened)

    def _find_queue(self, channel: RemoteChannel, opened: OpenedEnd) -> None:
        """Lead a channel to its queue, or tell it that the queue is deleted. A queue that this node
        does not know yet has a number above all known ones."""
        definitions = self.services.definitions
        host = definitions.hosts.get(opened.vhost)
        declared = None if host is None else host.queues.get(opened.queue)
        vhost = self.vhosts.get(opened.vhost)
        if declared is not None and declared.id == opened.queue_id and vhost is not None:
            queue: Queue | None = vhost.queues.get(opened.queue)
            channel.found(queue)
        elif opened.queue_id >= definitions.next_queue_id:
            self.early[channel] = opened
        else:
            channel.found(None)

    # -- the other nodes

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self._hand_out(message)
        elif isinstance(message, NodeUp):
            self._node_up(message)
        elif isinstance(message, NodeDown):
            self._node_down(message.node)
        else:
            assert isinstance(message, NodeSuspected | NodeTrusted), f"the post got {message!r}"

    def _node_up(self, message: NodeUp) -> None:
        self.reaches += 1
        self.names[message.node] = message.name
        self.mail[message.node].link_began(self.reaches)
        for follower in self.followers:
            if message.node in follower.homes:
                follower.post(HomeReached(message.node, self.reaches))

    def _node_down(self, node: int) -> None:
        """End everything over a link that has ended. Both sides are told after everything that came
        over it."""
        self.mail[node].link_ended()
        if self.pacer is not None:
            self.pacer.note_other(node, lags=False)
        channels, self.channels[node] = self.channels[node], {}
        for channel in channels.values():
            self.early.pop(channel, None)
            channel.post(PeerLost())
        for follower in self.followers:
            if node in follower.homes:
                follower.post(HomeLost(node))

    def _hand_out(self, frame: PeerMessage) -> None:
        source = frame.source
        is_ask = frame.frame_type is QUEUE_ASKS
        try:
            for section in sections(frame.payload):
                self.spend(1)
                if is_ask:
                    self._take_ask(source._replace(serial=section.serial), section)
                else:
                    self._take_answer(source.node, section)
        except BrokenSection as error:
            self.broken(source.node, error)

    def _take_answer(self, node: int, section: SectionCame) -> None:
        if section.kind == FIGURES:
            self._take_figures(section.body)
            return
        if section.kind == LAG:
            if self.pacer is not None:
                self.pacer.note_other(node, lags=bool(section.flags & LAGS))
            return
        end = self.ends.get(section.serial)
        if end is None or end.mail.node != node:
            self.strays += 1
        else:
            end.queue.post(RemoteAnswer(end, section))

    def _take_figures(self, body: bytes) -> None:
        by_id = {each.declared.id: each for each in self.followers}
        for row in rows(FIGURES_ROW, body):
            follower = by_id.get(row[0])
            if follower is not None:
                follower.told(QueueFigures(*row))

    def _take_ask(self, address: ActorAddress, section: SectionCame) -> None:
        channels = self.channels[address.node]
        channel = channels.get(address.serial)
        if section.kind == OPEN:
            if channel is not None:
                raise BrokenSection("an opening of what is open")
            opened = decode_open(section.body)
            mail = self.mail[address.node]
            channel = RemoteChannel(self.services, self, mail, address, opened)
            channels[address.serial] = channel
            self._find_queue(channel, opened)
        elif channel is None:
            self.strays += 1
        else:
            channel.post(section)

    def turn_ended(self) -> None:
        for node, mail in self.mail.items():
            if mail.gathered:
                for frame_type, parts in mail.gathered.items():
                    self.cluster.send(node, frame_type, b"".join(parts))
                mail.clear()
            mail.let_in()
