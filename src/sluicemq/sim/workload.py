"""Who takes part in a run, what goes wrong in it, and how it comes to an end.

First everything is declared; then publishers, consumers and the rest begin, and faults with them.
`heal` ends the faults: who stalls reads again, the disk and the net are quick, memory is there,
every queue has a consumer that acknowledges. From then on everything must drain.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.sim.consumer import Consumer, Getter
from sluicemq.sim.history import LOSSY, VOLATILE, WORK, History
from sluicemq.sim.operator import NEWS, Installer, Listener, Operator
from sluicemq.sim.peer import Peer, Role
from sluicemq.sim.publisher import Publisher, Target
from sluicemq.sim.swarm import QueuePlan, Swarm
from sluicemq.sim.world import MS, Cpu, SimDisk, SimMemory

if TYPE_CHECKING:
    from sluicemq.sim.net import SimNet
    from sluicemq.sim.timeline import Timeline

TOPIC: Final = "topic"
PUBLISHER, CONSUMER, GETTER, LISTENER = "publisher", "consumer", "getter", "listener"
MIXED: Final = "mixed"
"""Publishes and consumes on one connection: under an alarm its acknowledgements wait too."""


class Faults:
    """How many of each have happened."""

    __slots__ = (
        "broken",
        "channel_errors",
        "disk_stalls",
        "memory",
        "silent",
        "slow_cpu",
        "stalls",
    )

    def __init__(self) -> None:
        self.stalls = 0
        self.broken = 0
        self.silent = 0
        self.channel_errors = 0
        self.disk_stalls = 0
        self.slow_cpu = 0
        self.memory = 0


class Workload:
    """All clients of one run."""

    def __init__(
        self,
        swarm: Swarm,
        timeline: Timeline,
        net: SimNet,
        disk: SimDisk,
        memory: SimMemory,
        cpu: Cpu,
    ) -> None:
        self.swarm = swarm
        self.timeline = timeline
        self.net = net
        self.disk = disk
        self.memory = memory
        self.cpu = cpu
        self.dice = Random(f"workload {swarm.seed}")
        self.fate = Random(f"faults {swarm.seed}")
        self.book = History()
        self.peers: list[Peer] = []
        self.faults = Faults()
        self.begun = False
        self.away = 0
        """Connections that will come again."""
        self.healing = False
        self.leaving = False
        self.named = 0
        self.blocked_told = 0
        self.left_behind: dict[str, None] = {}
        """Auto-delete queues: one that never had a consumer stays."""
        self.targets = self._targets()
        for plan in swarm.queues:
            self.book.queue(plan.name, plan.promise, plan.durable)
        self.peers.append(Peer(self, "setup", [Installer(self._steps(), self.begin)]))

    # -- what there is

    def _targets(self) -> tuple[Target, ...]:
        names = [plan.name for plan in self.swarm.queues]
        work = [plan.name for plan in self.swarm.queues if plan.promise == WORK]
        direct = [Target("", name, (name,)) for name in names]
        first, last = work[0], work[-1]
        both = tuple(dict.fromkeys((first, last)))
        return (
            *direct,
            *direct,
            Target(NEWS, "any", tuple(work[:2]), spread=True),
            Target(TOPIC, "a.x", (first,)),
            Target(TOPIC, "c.d.b", (last,)),
            Target(TOPIC, "a.b", both),
            Target(TOPIC, "nowhere", ()),
            Target("", "no-such-queue", ()),
        )

    def _steps(self) -> list[Method]:
        """Exchanges, queues, bindings."""
        work = [plan.name for plan in self.swarm.queues if plan.promise == WORK]
        steps: list[Method] = [
            m.ExchangeDeclare(exchange=NEWS, exchange_type="fanout"),
            m.ExchangeDeclare(exchange=TOPIC, exchange_type="topic", durable=True),
            *[self.declaration(plan.name) for plan in self.swarm.queues],
            *[m.QueueBind(queue=name, exchange=NEWS) for name in work[:2]],
            m.QueueBind(queue=work[0], exchange=TOPIC, routing_key="a.*"),
            m.QueueBind(queue=work[-1], exchange=TOPIC, routing_key="#.b"),
        ]
        return steps

    def plan_of(self, queue: str) -> QueuePlan:
        return next(plan for plan in self.swarm.queues if plan.name == queue)

    def declaration(self, queue: str) -> Method:
        return m.QueueDeclare(queue=queue, durable=self.plan_of(queue).durable)

    # -- who takes part

    def begin(self) -> None:
        """Everything is declared."""
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
        if any(plan.promise == VOLATILE for plan in swarm.queues):
            for _ in range(swarm.operators):
                self.connect("operator", [Operator(self, VOLATILE)])
        self.plan_fault()

    def connect(self, kind: str, roles: list[Role]) -> Peer:
        self.named += 1
        peer = Peer(self, f"{kind}{self.named}", roles)
        self.peers.append(peer)
        return peer

    def name(self, kind: str) -> str:
        self.named += 1
        return f"{kind}{self.named}"

    def publisher(self, total: int) -> Role:
        return Publisher(self, self.name("stream"), total)

    def consumer(self) -> Role:
        """No-ack consumers stay away from connections that break, unless loss is allowed."""
        plan = self.dice.choice(self.swarm.queues)
        no_ack = self.dice.randrange(3) == 0 and (
            plan.promise != WORK or not self.swarm.break_percent
        )
        no_ack = no_ack or plan.promise == LOSSY
        return Consumer(self, self.name("channel"), plan.name, no_ack, drains=False)

    def drain(self, queue: str) -> Role:
        return Consumer(self, self.name("drain"), queue, no_ack=False, drains=True)

    def getter(self) -> Role:
        plan = self.dice.choice([p for p in self.swarm.queues if p.promise == WORK])
        no_ack = not self.swarm.break_percent and self.dice.randrange(2) == 0
        return Getter(self, self.name("getter"), plan.name, no_ack)

    def listener(self) -> Role:
        return Listener(self, self.name("listener"))

    def replacement(self, role: Role) -> Role | None:
        """Who goes on where this one ended."""
        if isinstance(role, Consumer) and role.drains and not self.leaving:
            return self.drain(role.queue)
        if self.healing:
            return None
        if isinstance(role, Publisher):
            left = role.total - len(role.stream.sent)
            return self.publisher(left) if left > 0 else None
        if isinstance(role, Consumer):
            return self.consumer()
        if isinstance(role, Getter):
            return self.getter()
        if isinstance(role, Operator):
            return Operator(self, VOLATILE)
        return self.listener() if isinstance(role, Listener) else None

    def channel_closed(self, peer: Peer, channel: int, role: Role) -> None:
        """A channel has come to its end, the connection has not."""
        successor = self.replacement(role)
        if successor is not None:
            peer.add(channel, successor)

    def gone(self, peer: Peer) -> None:
        """A connection has ended. A broken one comes again after a while."""
        self.peers.remove(peer)
        self.blocked_told += peer.blocked_count
        roles = [self.replacement(role) for role in peer.roles.values()]
        again = [role for role in roles if role is not None]
        if again:
            kind = peer.name.rstrip("0123456789")

            self.away += 1

            def come_again(_: object) -> None:
                self.away -= 1
                if not self.healing:
                    self.connect(kind, again)

            delay_ns = 1 + self.dice.randrange(200 * MS)
            self.timeline.after(delay_ns, peer.name, "comes again", come_again)

    # -- what goes wrong

    def plan_fault(self) -> None:
        delay_ns = 1 + self.fate.randrange(self.swarm.fault_interval_ns)
        self.timeline.after(delay_ns, "fate", "strikes", self.strike)

    def strike(self, _: object) -> None:
        """One fault, of a kind this run has."""
        if self.healing:
            return
        fate = self.fate
        swarm = self.swarm
        self.plan_fault()
        victims = self.peers[1:]  # not the one that set everything up
        if fate.randrange(100) < swarm.stall_percent and victims:
            self.stall(fate.choice(victims))
        if fate.randrange(100) < swarm.break_percent and victims:
            self.hurt(fate.choice(victims))
        if fate.randrange(100) < 5:
            self.faults.disk_stalls += 1
            self.disk.stalled_until_ns = self.timeline.now_ns + fate.randrange(2000 * MS)
        if fate.randrange(100) < 5:
            self.faults.slow_cpu += 1
            self.cpu.slow_until_ns = self.timeline.now_ns + fate.randrange(200 * MS)
        if fate.randrange(100) < 5:
            self.fill_memory()

    def stall(self, peer: Peer) -> None:
        """A client does not read for a while, but not until it is given up."""
        socket = peer.socket
        if socket.stalled or socket.left:
            return
        self.faults.stalls += 1
        socket.stall()
        longest_ms = 1200 * self.swarm.heartbeat_s or 3000
        stall_ns = 1 + self.fate.randrange(longest_ms * MS)
        self.timeline.after(stall_ns, peer.name, "reads again", lambda _: socket.unstall())

    def hurt(self, peer: Peer) -> None:
        """A connection breaks, perhaps inside a frame, falls silent, closes, or errs."""
        if not peer.open or peer.leaving:
            return
        fate = self.fate
        kind = fate.randrange(6)
        if kind <= 1:
            self.faults.broken += 1
            there = len(peer.socket.inbound)
            peer.break_off(fate.randrange(there + 1))
        elif kind == 2 and self.swarm.heartbeat_s:
            self.faults.silent += 1
            peer.fall_silent()
        elif kind == 3:
            peer.close()
        else:
            for role in peer.roles.values():
                if isinstance(role, Publisher | Consumer) and role.started and not role.over:
                    self.faults.channel_errors += 1
                    role.err()
                    return

    def fill_memory(self) -> None:
        """The process is large for a while."""
        self.faults.memory += 1
        memory = self.memory
        memory.resident = memory.total

        def free(_: object) -> None:
            memory.resident = 0

        self.timeline.after(1 + self.fate.randrange(500 * MS), "memory", "is freed", free)

    # -- how it ends

    def heal(self) -> None:
        """Faults are over."""
        self.healing = True
        self.disk.healed = True
        self.disk.stalled_until_ns = 0
        self.memory.resident = 0
        self.cpu.healed = True
        self.net.healed = True
        for peer in list(self.peers):
            peer.socket.unstall()
            for role in peer.roles.values():
                if role.started and not role.over:
                    role.heal()
        for plan in self.swarm.queues:
            self.connect("drain", [self.drain(plan.name)])
        deletes: list[Method] = [m.QueueDelete(queue=name) for name in self.left_behind]
        self.connect("cleaner", [Installer(deletes, lambda: None)])

    def is_over(self) -> bool:
        """Everything has begun, and all that was to be published has been."""
        roles = [role for peer in self.peers for role in peer.roles.values()]
        return self.begun and not self.away and not any(isinstance(r, Publisher) for r in roles)

    def undone(self) -> str:
        """Which publisher has not closed, or who holds something; "" when there is none."""
        for peer in self.peers:
            for role in peer.roles.values():
                if isinstance(role, Publisher) or not role.is_done():
                    return f"{peer.name} is not done"
        return ""

    def leave(self) -> None:
        """All clients go, orderly."""
        self.leaving = True
        for peer in list(self.peers):
            peer.close()

    def publishes(self, connection: int) -> bool:
        """Does the client of that connection publish?"""
        socket = self.net.sockets.get(connection)
        return socket is None or socket.client.name.startswith((PUBLISHER, MIXED))

    def blocked_count(self) -> int:
        """How often clients were told connection.blocked."""
        return self.blocked_told + sum(peer.blocked_count for peer in self.peers)
