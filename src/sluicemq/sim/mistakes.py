"""Mistakes in the broker's own code: an exception ends one turn of some actor.

The required outcome depends on the actor (kernel/containment.py): that connection is closed and all
others go on, that queue is read back with everything confirmed, or the node ends and the next one
starts from the disk. Nothing else is allowed: a fault that was not planted is a finding.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.broker.policy_rounds import PolicyRounds
from sluicemq.chain.channel.consumer_timeouts import ConsumerTimeouts
from sluicemq.chain.connection.intake import Intake
from sluicemq.chain.pacer import Pacer
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.republish.delayer import Delayer, HoldingQueue
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.chain.store.checkpoints import Checkpoints
from sluicemq.chain.writer import Writer
from sluicemq.kernel.actor import TURN_OVERHEAD_WORK, StandIn
from sluicemq.sim.features import NO_FEATURES
from sluicemq.sim.peer import SimPeer
from sluicemq.sim.records import LISTENING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.actor import Actor
    from sluicemq.node import Node
    from sluicemq.sim.workload import Workload

VITAL_PERCENT: Final = 10
"""The share of mistakes in an actor that the whole node shares."""


COMMAND_PERCENT: Final = 15
"""The share of the others in a control command, if there are any."""

QUEUE_PERCENT: Final = 50
"""The share of the rest in a queue, whatever it promises."""


TURNS_ONLY: Final = (Intake, Writer, PolicyRounds, Pacer, ConsumerTimeouts, Checkpoints)
"""Actors that get messages too seldom to wait for one."""


class Mistake(Exception):
    """The exception that a planted mistake raises."""


class Mistakes:
    """Plants mistakes in one run. `happened` has the kinds of the faulty actors, in order."""

    def __init__(self, work: Workload, random: Random) -> None:
        self.work = work
        self.random = random
        self.planted: dict[Actor, None] = {}
        """Actors in whose turns a mistake is planted."""
        self.happened: list[str] = []
        self.everywhere = work.swarm.features != NO_FEATURES
        """Plant mistakes in actors of every kind, as seeds with features do."""
        self.over = False

    def plant(self, node: Node) -> None:
        """Plant a mistake in a turn that comes soon."""
        if self.random.randrange(100) < VITAL_PERCENT:
            self.plant_in_vital(node)
            return
        steward = self.work.steward
        if self.work.swarm.features.commands and self.random.randrange(100) < COMMAND_PERCENT:
            steward.plant_next = partial(self.plant_in, peer=None)
            return
        queues = self.sound(node)
        if queues and self.random.randrange(100) < QUEUE_PERCENT:
            self.plant_in(self.random.choice(self.of_one_kind(queues)), None)
            return
        victims = [peer for peer in self.work.peers[1:] if not peer.over and not peer.leaving]
        publishing = [peer for peer in victims if peer.socket.reader.publishes_now]
        if self.everywhere and publishing and self.random.randrange(2):
            peer = self.random.choice(publishing)
            self.plant_in(peer.socket.reader.intake, peer)
            peer.socket.reader.intake.schedule()
        elif victims:
            peer = self.random.choice(victims)
            reader = peer.socket.reader
            kinds = [reader, reader, reader.writer, *reader.channels.values()]
            self.plant_in(self.random.choice(kinds), peer)

    def of_one_kind(self, queues: list[Actor]) -> list[Actor]:
        """Return these queues; or all actors of one kind among them and the actors that work for
        them."""
        if not self.everywhere:
            return queues
        kinds: dict[type[Actor], list[Actor]] = {}
        for queue in queues:
            for actor in (queue, *workers_of(queue)):
                kinds.setdefault(type(actor), []).append(actor)
        return self.random.choice([*kinds.values()])

    def plant_in_vital(self, node: Node) -> None:
        """Plant a mistake in an actor that seldom has turns, and give it one."""
        idle = seldom(node) if self.everywhere else []
        actor = self.random.choice([*vital(node), *idle])
        self.plant_in(actor, None)
        if actor in idle:
            actor.schedule()

    def sound(self, node: Node) -> list[Actor]:
        """Return the queues that would be read back after a mistake: each may have one in a node's
        life."""
        known = self.work.book.queues
        return [
            queue
            for queue in node.broker.all_with_messages()
            if queue.name in known and queue.name not in queue.vhost.crashes
            if known[queue.name].promise != LISTENING
        ]

    def plant_in(self, actor: Actor, peer: SimPeer | None) -> None:
        """Make a method of the actor raise an exception, before or after its work."""
        if actor in self.planted:
            return
        self.planted[actor] = None
        name = self.random.choice(("receive", "turn_ended"))
        if isinstance(actor, TURNS_ONLY):
            name = "turn_ended"
        after = self.random.randrange(2) == 0
        if actor.stand_in is None:
            actor.stand_in = MistakenTurns(self, actor, name, after, peer)


class MistakenTurns(StandIn):
    """Runs the turns of an actor as the actor itself would, until its method of that name fails by
    a mistake, before or after its work."""

    def __init__(
        self, mistakes: Mistakes, actor: Actor, name: str, after: bool, peer: SimPeer | None
    ) -> None:
        self.mistakes = mistakes
        self.actor = actor
        self.name = name
        self.after = after
        self.peer = peer
        self.is_over = False

    def take_turn(self, actor: Actor) -> None:
        scheduler = actor.scheduler
        turn_work = scheduler.turn_work
        scheduler.work = turn_work - TURN_OVERHEAD_WORK
        actor.stand_in = None
        try:
            if actor.underway is not None:
                actor.go_on()
            if actor.underway is None and actor.inbox:
                actor.handle_inbox(self.receive)
            if actor.inbox or actor.underway is not None:
                actor.schedule_rest()
            if actor.stand_in is None:
                self.call("turn_ended", actor.turn_ended)
        finally:
            if not self.is_over and actor.stand_in is None:
                actor.stand_in = self
        scheduler.spent += turn_work - scheduler.work

    def receive(self, message: object) -> None:
        self.call("receive", partial(self.actor.receive, message))

    def call(self, name: str, original: Callable[[], None]) -> None:
        """Call a method of the actor; if it is the chosen one, make the mistake."""
        if self.is_over or name != self.name:
            original()
            return
        self.is_over = True
        mistakes, peer = self.mistakes, self.peer
        del mistakes.planted[self.actor]
        queue = queue_of(self.actor)
        is_spent = queue is not None and queue.name in queue.vhost.crashes
        is_gone = peer is not None and peer.over
        if is_spent or is_gone or mistakes.over or not mistakes.work.up:
            original()
            return
        if self.after:
            original()
        mistakes.happened.append(type(self.actor).__name__.lower())
        if peer is not None:
            peer.expect_close()
        elif queue is not None:
            mistakes.work.book.fault(queue.name)
        raise Mistake


def queue_of(actor: Actor) -> Queue | None:
    """Return the queue that must bear a mistake of the actor; None without one."""
    if isinstance(actor, Republisher):
        return queue_of(actor.source)
    if isinstance(actor, Delayer):
        return actor.queue
    return actor if isinstance(actor, Queue) else None


def workers_of(queue: Actor) -> list[Actor]:
    """Return the actors that work only for a queue."""
    if isinstance(queue, HoldingQueue):
        return [queue.delayer, queue.delayer.republisher]
    if not isinstance(queue, ClassicShell | QuorumShell):
        return []
    republisher = queue.dead_lettering.republisher
    return [] if republisher is None else [republisher]


def vital(node: Node) -> list[Actor]:
    """Return the actors that the whole node shares; a fault in one ends the node."""
    broker = node.broker
    return [broker.store, node.monitor, node.monitor.retargeting, broker.deadlines]


def seldom(node: Node) -> list[Actor]:
    """Return the vital actors that seldom have turns."""
    broker = node.broker
    pacer = broker.pacer
    idle: list[Actor] = [broker.policy_rounds, node.timeouts, broker.store.checkpoints]
    return idle if pacer is None else [*idle, pacer]
