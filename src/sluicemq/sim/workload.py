"""The clients of a run, and how the run ends.

First everything is declared; then publishers, consumers and the rest begin, and faults with them.
When the node has ended, the next one must have everything durable; the rest is declared again
before other clients come back. `heal` is called when faults are over: stalled clients read again,
the net is fast, every queue has a consumer that acknowledges. From then on everything must drain.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.amqp.types import Table
from sluicemq.routing.delayed import DELAYED, DELAYED_TYPE
from sluicemq.sim.commands import Steward
from sluicemq.sim.consumer import Getter, SimConsumer
from sluicemq.sim.features import GRAVES, LATE
from sluicemq.sim.history import History
from sluicemq.sim.log_reader import LogReader
from sluicemq.sim.messages import HOLDING, LATER
from sluicemq.sim.operator import NEWS, Installer, Listener, Operator
from sluicemq.sim.peer import Role, SimPeer, Stage
from sluicemq.sim.plans import QueuePlan, Target
from sluicemq.sim.publisher import SimPublisher
from sluicemq.sim.quorum_plans import QUORUM_GRAVES
from sluicemq.sim.records import DYING, GRAVE, LASTING, LOG, LOSSY, VOLATILE, WORK
from sluicemq.sim.swarm import Swarm
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.node import Node
    from sluicemq.sim.machine import Machine
    from sluicemq.sim.timeline import Timeline

TOPIC: Final = "topic"
PUBLISHER, CONSUMER, GETTER, LISTENER = "publisher", "consumer", "getter", "listener"
READER: Final = "reader"
MIXED: Final = "mixed"
"""Publishes and consumes on one connection: during an alarm its acknowledgements are
blocked, too.
"""


class Workload(Stage):
    """All clients of one run, and what they do."""

    def __init__(
        self,
        swarm: Swarm,
        timeline: Timeline,
        machine: Machine,
        begin_faults: Callable[[], None],
    ) -> None:
        """`begin_faults` is called when everyone has begun."""
        self.swarm = swarm
        self.timeline = timeline
        self.machine = machine
        self.net = machine.net
        self.begin_faults = begin_faults
        self.dice = Random(f"workload {swarm.seed}")
        self.book = History()
        self.peers: list[SimPeer] = []
        self.begun = False
        self.up = True
        """A node is up and has everything that clients need; they set this, and `crash`
        resets it.
        """
        self.away = 0
        """Connections that will come back."""
        self.healing = False
        self.leaving = False
        self.named = 0
        self.blocked_told = 0
        self.stopping = False
        """The node is being stopped orderly."""
        self.storage_may_fail = False
        """The disk has failed, or will, until the next start."""
        self.left_behind: dict[str, None] = {}
        """Auto-delete queues: one that never had a consumer stays."""
        self.steward = Steward(self)
        self.targets = self._targets()
        for plan in swarm.queues:
            history = self.book.queue(plan.name, plan.promise, plan.durable)
            history.highest = plan.max_priority
            history.is_quorum, history.refuses = plan.is_quorum, plan.rejects
            limit = plan.delivery_limit
            history.delivery_limit = None if limit == -1 else limit
        for plan in swarm.queues:
            self.book.queue(plan.name).leads_to(*map(self.book.queue, plan.graves))
        if swarm.features.delays is not None:
            holding = self.book.queue(HOLDING, DYING, swarm.features.delays.durable)
            holding.leads_to(*map(self.book.queue, self.names_at(LATER)))
        self.peers.append(self.installer(self._steps(again=False), self.begin))

    @property
    def node(self) -> Node:
        return self.machine.node

    # -- exchanges and queues

    def names_at(self, exchange: str) -> list[str]:
        """Return the names of the dead letter queues behind the exchange."""
        plans = self.swarm.queues
        return [plan.name for plan in plans if plan.bound_to and plan.bound_to[0] == exchange]

    def _targets(self) -> tuple[Target, ...]:
        names = [plan.name for plan in self.swarm.queues if plan.promise != GRAVE]
        work = [plan.name for plan in self.swarm.queues if plan.promise == WORK]
        direct = [Target("", name, (name,)) for name in names]
        first, last = work[0], work[-1]
        both = tuple(dict.fromkeys((first, last)))
        later = [Target(LATER, LATE, (HOLDING,), delays=True)] if self.names_at(LATER) else []
        return (
            *direct,
            *direct,
            *later * 3,
            Target(NEWS, "any", tuple(work[:2]), spread=True),
            Target(TOPIC, "a.x", (first,)),
            Target(TOPIC, "c.d.b", (last,)),
            Target(TOPIC, "a.b", both),
            Target(TOPIC, "nowhere", ()),
            Target("", "no-such-queue", ()),
        )

    def _steps(self, again: bool) -> list[Method]:
        """Return the methods that declare exchanges, queues and bindings. With `again` durable ones
        are declared passively."""
        work = [plan.name for plan in self.swarm.queues if plan.promise == WORK]
        lasting = [plan.name for plan in self.swarm.queues if plan.promise in LASTING]
        kept = [name for name in lasting if again and self.plan_of(name).durable]
        binds: list[tuple[str, str, str]] = [
            *[(name, NEWS, "") for name in work[:2]],
            (work[0], TOPIC, "a.*"),
            (work[-1], TOPIC, "#.b"),
            *[(plan.name, *plan.bound_to) for plan in self.swarm.queues if plan.bound_to],
        ]
        exchanges = self._exchanges(again)
        passing = [each.exchange for each in exchanges if not each.durable]
        steps: list[Method] = [
            *exchanges,
            *[
                m.QueueDeclare(
                    queue=plan.name,
                    passive=plan.name in kept,
                    durable=plan.durable,
                    arguments=plan.arguments,
                )
                for plan in self.swarm.queues
                if plan.expires_ms is None  # its users declare it
            ],
            *[
                m.QueueBind(queue=queue, exchange=exchange, routing_key=key)
                for queue, exchange, key in binds
                if exchange in passing or queue not in kept
            ],
        ]
        return steps

    def _exchanges(self, again: bool) -> list[m.ExchangeDeclare]:
        """Return the declarations of exchanges. With `again` durable ones are declared
        passively.
        """
        features = self.swarm.features
        kinds: list[tuple[str, str, bool, Table]] = [
            (NEWS, "fanout", False, {}),
            (TOPIC, "topic", True, {}),
        ]
        if features.dead_letters:
            kinds.append((GRAVES, features.dead_letters, True, {}))
        if self.names_at(QUORUM_GRAVES):
            kinds.append((QUORUM_GRAVES, "fanout", True, {}))
        if features.delays is not None:
            arguments: Table = {DELAYED_TYPE: features.delays.exchange_type}
            kinds.append((LATER, DELAYED, features.delays.durable, arguments))
        return [
            m.ExchangeDeclare(
                exchange=name,
                exchange_type=kind,
                passive=again and durable,
                durable=durable,
                arguments=arguments,
            )
            for name, kind, durable, arguments in kinds
        ]

    def plan_of(self, queue: str) -> QueuePlan:
        return next(plan for plan in self.swarm.queues if plan.name == queue)

    def declaration(self, queue: str) -> Method:
        plan = self.plan_of(queue)
        return m.QueueDeclare(queue=queue, durable=plan.durable, arguments=plan.arguments)

    # -- clients

    def begin(self) -> None:
        """Connect all clients, now that everything is declared."""
        self.begun = True
        swarm = self.swarm
        for _ in range(swarm.publishers):
            roles = [self.publisher(swarm.messages_each) for _ in range(swarm.channels_each)]
            self.connect(PUBLISHER, roles)
        for _ in range(swarm.consumers):
            self.connect(CONSUMER, [self.consumer() for _ in range(self.dice.choice((1, 1, 2)))])
        for _ in range(swarm.mixed):
            self.connect(MIXED, [self.publisher(swarm.messages_each // 4), self.consumer()])
        for _ in range(swarm.pollers):
            self.connect(GETTER, [self.getter()])
        for _ in range(swarm.listeners):
            self.connect(LISTENER, [self.listener()])
        for plan in swarm.queues:
            if plan.promise == LOG:
                readers = 1 + self.dice.randrange(3)
                self.connect(READER, [self.log_reader(plan.name) for _ in range(readers)])
        volatile = [plan.name for plan in swarm.queues if plan.promise == VOLATILE]
        for nth in range(swarm.operators if volatile else 0):
            self.connect("operator", [Operator(self, volatile[nth % len(volatile)])])
        if swarm.features.commands:
            self.steward.begin()
        self.begin_faults()

    def connect(self, kind: str, roles: list[Role]) -> SimPeer:
        self.named += 1
        peer = SimPeer(self, f"{kind}{self.named}", roles)
        self.peers.append(peer)
        return peer

    def name(self, kind: str) -> str:
        self.named += 1
        return f"{kind}{self.named}"

    def publisher(self, total: int) -> Role:
        return SimPublisher(self, self.name("stream"), total)

    def consumer(self) -> Role:
        """Make a consumer. No-ack consumers stay off connections that break, unless loss is
        allowed."""
        plan = self.dice.choice([plan for plan in self.swarm.queues if plan.promise != LOG])
        no_ack = self.dice.randrange(3) == 0 and (
            plan.promise not in LASTING or not self.swarm.breaks
        )
        no_ack = no_ack or plan.promise == LOSSY
        return SimConsumer(self, self.name("channel"), plan.name, no_ack, drains=False)

    def drain(self, queue: str) -> Role:
        return SimConsumer(self, self.name("drain"), queue, no_ack=False, drains=True)

    def log_reader(self, queue: str, drains: bool = False) -> Role:
        return LogReader(self, self.name("log reader"), queue, drains)

    def getter(self) -> Role:
        lasting = [plan for plan in self.swarm.queues if plan.promise in LASTING]
        plan = self.dice.choice([plan for plan in lasting if plan.is_got_from])
        no_ack = not self.swarm.breaks and self.dice.randrange(2) == 0
        return Getter(self, self.name("getter"), plan.name, no_ack)

    def listener(self) -> Role:
        return Listener(self, self.name("listener"))

    def replacement(self, role: Role) -> Role | None:
        """Return the role that continues where this one ended; None without one."""
        if isinstance(role, SimConsumer) and role.drains and not self.leaving:
            return self.drain(role.queue)
        if isinstance(role, LogReader) and role.drains and not self.leaving:
            return self.log_reader(role.queue, drains=True)
        if self.healing:
            return None
        if isinstance(role, SimPublisher):
            left = role.total - len(role.stream.sent)
            return self.publisher(left) if left > 0 else None
        if isinstance(role, SimConsumer):
            return self.consumer()
        if isinstance(role, Getter):
            return self.getter()
        if isinstance(role, LogReader):
            return self.log_reader(role.queue)
        if isinstance(role, Operator):
            return Operator(self, role.queue)
        return self.listener() if isinstance(role, Listener) else None

    def channel_closed(self, peer: SimPeer, channel: int, role: Role) -> None:
        successor = self.replacement(role)
        if successor is not None:
            peer.add(channel, successor)

    def gone(self, peer: SimPeer) -> None:
        """Note that a connection has ended. A broken one is reopened after a while."""
        self.peers.remove(peer)
        self.blocked_told += peer.blocked_count
        roles = [self.replacement(role) for role in peer.roles.values()]
        again = [role for role in roles if role is not None]
        if again:
            kind = peer.name.rstrip("0123456789")

            self.away += 1

            def come_again(_: object) -> None:
                if not self.up:
                    self.timeline.after(100 * MS, peer.name, "finds nobody", come_again)
                    return
                self.away -= 1
                if not self.healing:
                    self.connect(kind, again)

            delay_ns = 1 + self.dice.randrange(200 * MS)
            self.timeline.after(delay_ns, peer.name, "comes again", come_again)

    # -- the node's end, and the next one's start

    def crash(self, kind: str) -> None:
        """Cut all clients off because the node has ended; for a while nobody can connect."""
        self.up = False
        for peer in list(self.peers):
            peer.cut_off()
        self.book.crash(kind)
        self.steward.crash()
        self.storage_may_fail = self.stopping = False
        self.left_behind.clear()

    def stop(self) -> None:
        """Let the node send all clients away; for a while nobody can connect."""
        self.up = False
        self.stopping = True

    def started(self) -> None:
        """Go on with another node: check that it has everything durable, declare the
        rest, connect.
        """
        self.steward.started(self.node)
        self.peers.insert(0, self.installer(self._steps(again=True), self.go_on))

    def go_on(self) -> None:
        self.up = True

    def installer(self, steps: list[Method], done: Callable[[], None]) -> SimPeer:
        """Return the client that declares everything; it stays."""
        return SimPeer(self, "setup", [Installer(steps, done, lambda: not self.up)])

    # -- the end

    def heal(self) -> None:
        """Let all clients behave well and finish, and drain the queues: there are no
        more faults.
        """
        self.healing = True
        self.net.healed = True
        for peer in list(self.peers):
            peer.socket.unstall()
            for role in peer.roles.values():
                if role.started and not role.over:
                    role.heal()
        for plan in self.swarm.queues:
            is_log = plan.promise == LOG
            role = self.log_reader(plan.name, drains=True) if is_log else self.drain(plan.name)
            self.connect("drain", [role])
        deletes: list[Method] = [m.QueueDelete(queue=name) for name in self.left_behind]
        self.connect("cleaner", [Installer(deletes, lambda: None)])

    def is_over(self) -> bool:
        """Tell whether every client has begun, and all publishing is done."""
        roles = [role for peer in self.peers for role in peer.roles.values()]
        busy = not self.up or self.away or any(isinstance(r, SimPublisher) for r in roles)
        return self.begun and not busy

    def undone(self) -> str:
        """Return a publisher that has not closed, or a client that holds something; ""
        without any.
        """
        for name in self.steward.open.values():
            return f"{name} is not answered"
        for peer in self.peers:
            if peer.mistaken or peer.sent_away:
                return f"{peer.name} is not closed"
            for role in peer.roles.values():
                if isinstance(role, SimPublisher) or not role.is_done():
                    return f"{peer.name} is not done"
        return ""

    def leave(self) -> None:
        """Let all clients close their connections in an orderly way."""
        self.leaving = True
        for peer in list(self.peers):
            peer.close()

    def publishes(self, connection: int) -> bool:
        """Tell whether the client of that connection publishes."""
        socket = self.net.sockets.get(connection)
        return socket is None or socket.client.name.startswith((PUBLISHER, MIXED))

    def blocked_count(self) -> int:
        """Return how often clients were sent connection.blocked."""
        return self.blocked_told + sum(peer.blocked_count for peer in self.peers)
