"""The clients of one node: they connect when it is open, lose their connections when it ends, and
reconnect.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.sim.nodes.clients import SiteConsumer, SitePublisher, SiteRole
from sluicemq.sim.nodes.definer import SiteDefiner
from sluicemq.sim.nodes.getter import SiteGetter
from sluicemq.sim.nodes.remaker import SiteRemaker
from sluicemq.sim.nodes.setup import SiteSetup
from sluicemq.sim.nodes.site_port import SitePort
from sluicemq.sim.nodes.site_reader import SiteReader
from sluicemq.sim.nodes.transactor import SiteTransactor
from sluicemq.sim.peer import Role, SimPeer
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.node import Node
    from sluicemq.sim.nodes.book import ClusterBook
    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.plan import NodesPlan, PlannedQueue
    from sluicemq.sim.nodes.registers import RegisterBook
    from sluicemq.sim.timeline import Timeline

CHANNELS_MAX: Final = 5
"""The most clients that share a connection."""
ASKS_ONE_IN: Final = 4
"""Once in this many openings the clients also redeclare what the node already knows."""
AGAIN_NS: Final = 100 * MS
"""A client reconnects within that time, and retries after it without an answer."""


class ClientSite(SitePort):
    """All clients of one node."""

    def __init__(
        self,
        host: NodeHost,
        plan: NodesPlan,
        timeline: Timeline,
        book: ClusterBook,
        registers: RegisterBook,
    ) -> None:
        self.host = host
        self.number = host.number
        self.plan = plan
        self.timeline = timeline
        self.book = book
        self.registers = registers
        self.net = host.clients
        self.random = Random(f"site {self.number} {plan.seed}")
        self.stopping = self.storage_may_fail = False
        self.peers: list[SimPeer] = []
        self.is_up = False
        """True when clients can connect: the node is open, and knows all queues."""
        self.known: dict[str, None] = {}
        self.is_bound = not plan.fans_out
        """True when the node knows that all queues are bound to the exchange of all."""
        self.is_healing = self.is_leaving = False
        self.waiting: list[list[SiteRole]] = []
        """Clients of each connection to be made when the node is open."""
        self.named = 0

    @property
    def node(self) -> Node:
        return self.host.node

    def name(self, kind: str) -> str:
        """Return a name that no other client has."""
        self.named += 1
        return f"{kind}{self.number}-{self.named}"

    def any_queue(self) -> str:
        """Return the name of a queue that its clients use."""
        return self.random.choice(self.plan.targets).name

    def found(self, queue: str) -> None:
        self.known[queue] = None
        booked = self.book.queues[queue]
        if not booked.passes:
            declared = self.host.node.broker.definitions.hosts["/"].queues[queue]
            is_there = booked.home in (0, declared.home) or booked.is_replicated
            promise(is_there, queue, "has moved to", declared.home)
            booked.home = declared.home
        self._may_go_on()

    def life_of(self, queue: str) -> int:
        definitions = self.host.node.broker.definitions
        declared = definitions.hosts["/"].queues.get(queue)
        return definitions.next_queue_id if declared is None else declared.id

    def bound(self) -> None:
        self.is_bound = True
        self._may_go_on()

    def _may_go_on(self) -> None:
        is_ready = self.is_bound and len(self.known) == len(self.plan.queues)
        if is_ready and not self.is_up and self.host.is_open:
            self._go_on()

    # -- clients

    def bring_clients(self) -> None:
        """Have its share of the run's clients connect when the node is open, some of them over one
        connection: connecting costs as much as several messages."""
        roles = [*self.clients()]
        self.random.shuffle(roles)
        while roles:
            count = 1 + self.random.randrange(CHANNELS_MAX)
            self.come(roles[:count])
            del roles[:count]

    def clients(self) -> Iterator[SiteRole]:
        """Yield its share of the run's clients."""
        plan = self.plan
        if plan.moves_each:
            yield SiteDefiner(self, plan.moves_each)
        for _ in range(1 + self.random.randrange(plan.publishers)):
            yield SitePublisher(self, self.name("publisher"), plan.messages_each)
        for _ in range(1 + self.random.randrange(plan.consumers) if plan.consumed else 0):
            queue = self.random.choice(plan.consumed).name
            yield SiteConsumer(self, self.name("consumer"), queue, drains=False)
        for _ in range(self.random.randrange(plan.getters + 1) if plan.consumed else 0):
            queue = self.random.choice(plan.consumed).name
            yield SiteGetter(self, self.name("getter"), queue)
        if plan.log is not None:
            for _ in range(self.random.randrange(plan.readers + 1)):
                yield SiteReader(self, self.name("reader"), plan.log.name, drains=False)
        for _ in range(self.random.randrange(plan.transactors + 1)):
            yield SiteTransactor(self, self.name("transactor"), plan.messages_each)
        if plan.remakes_each:
            yield SiteRemaker(self, plan.remakes_each)

    def come(self, roles: list[SiteRole]) -> None:
        """Connect these clients when the node is open: now, or later."""
        if self.is_up:
            self.peers.append(SimPeer(self, self.name("client"), roles))
        else:
            self.waiting.append(roles)

    def opened(self) -> None:
        """Handle the node's opening: check that it still knows what it knew, set up the rest, and
        let the others connect. Definitions from other nodes meanwhile are mostly trusted."""
        declared = self.host.node.broker.definitions.hosts["/"].queues
        for name in self.known:
            there = name in declared or self.book.queues[name].passes
            promise(there, self.host.name, "does not know of", name, "any more")
        if self.random.randrange(ASKS_ONE_IN):
            for queue in self.plan.queues:
                if queue.name in declared and queue.name not in self.known:
                    self.found(queue.name)
        if not (self.is_bound and len(self.known) == len(self.plan.queues)):
            self.peers.insert(0, SimPeer(self, self.name("setup"), [SiteSetup(self)]))
        self._may_go_on()

    def _go_on(self) -> None:
        self.is_up = True
        waiting, self.waiting = self.waiting, []
        for roles in waiting:
            self.come(roles)

    # -- ends of nodes and clients

    def lost_node(self) -> None:
        """Handle the end of the node, and of all connections with it."""
        self.is_up = False
        for peer in list(self.peers):
            peer.cut_off()
        self.stopping = self.storage_may_fail = False
        self.book.outages.stopping.discard(self.number)

    def node_stops(self) -> None:
        """Note that the node begins to stop: it will close the clients' connections."""
        self.is_up = False
        self.stopping = True

    def channel_closed(self, peer: SimPeer, channel: int, role: Role) -> None:
        successor = role.successor() if isinstance(role, SiteRole) else None
        if successor is not None:
            peer.add(channel, successor)

    def gone(self, peer: SimPeer) -> None:
        self.peers.remove(peer)
        roles = [role for role in peer.roles.values() if isinstance(role, SiteRole)]
        again = [each for each in (role.successor() for role in roles) if each is not None]
        if again:
            delay_ns = 1 + self.random.randrange(AGAIN_NS)
            self.timeline.after(delay_ns, peer.name, "comes again", self._come_again, again)

    def _come_again(self, roles: list[SiteRole]) -> None:
        is_late = self.is_healing and any(isinstance(role, SitePublisher) for role in roles)
        if not (is_late or self.is_leaving):
            self.come(roles)

    # -- the end

    def heal(self, queues: list[PlannedQueue]) -> None:
        """Let all clients finish, and drain these queues: there are no more faults."""
        self.is_healing = True
        self.net.healed = True
        for peer in self.peers:
            peer.socket.unstall()
            for role in peer.roles.values():
                if role.started and not role.over:
                    role.heal()
        for queue in queues:
            self.come([self.drain(queue)])

    def drain(self, queue: PlannedQueue) -> SiteRole:
        """Return the role that gets everything a queue has."""
        name = self.name("drain")
        if queue.is_log:
            return SiteReader(self, name, queue.name, drains=True)
        return SiteConsumer(self, name, queue.name, drains=True)

    def leave(self) -> None:
        """Let all clients close their connections in an orderly way."""
        self.is_leaving = True
        for peer in list(self.peers):
            peer.close()

    def undone(self) -> str:
        """Return a client of it that is not done; "" when all are."""
        if not self.is_up:
            return f"no client can connect to node {self.number}"
        for peer in self.peers:
            for role in peer.roles.values():
                if isinstance(role, SitePublisher) or not role.is_done():
                    return f"{peer.name} is not done"
        return ""

    def lacking(self) -> str:
        """Return a queue of which the node lacks a consumer that a client believes to have; ""
        without one."""
        consumers = [
            role.queue
            for peer in self.peers
            for role in peer.roles.values()
            if isinstance(role, SiteConsumer) and role.consumes
        ]
        there = Counter(
            subscription.queue.name
            for reader in self.node.broker.connections.values()
            for channel in reader.channels.values()
            for subscription in channel.consuming.subscriptions.values()
        )
        missing = Counter(consumers) - there
        return next(iter(missing), "")
