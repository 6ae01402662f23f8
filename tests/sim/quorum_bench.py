"""Quorum queues of a whole node over simulated files: clients that do everything by chance, and
what each message must have become after a crash.

`QuorumFacts` are what clients know at one moment; they go with the files to the next life. There a
message that was confirmed is found once, unless somebody is done with it and may have been heard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from sim.crash_bench import CONFIG, Bench, State
from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import BasicProperties
from sluicemq.config import RaftConfig
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.sim.disk import SimFiles
from sluicemq.sim.history import History
from sluicemq.sim.messages import PERSISTENT, TRANSIENT, MessageId, content_of, id_of_body
from sluicemq.sim.peer import FRAME_MAX, Role, SimPeer
from sluicemq.sim.records import promise

QUORUM_CONFIG: Final = replace(CONFIG, raft=RaftConfig(segment_max_entries=5))
"""So that there are several segments."""
EVENTS_MAX: Final = 6_000
"""What does not happen within so many events never happens."""

GRAVE: Final = "grave"
DYING: Final = "dying"
"""What is rejected here, or comes back too often, goes to GRAVE, at least once."""
CLASSIC: Final = "classic"
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"x-queue-type": "quorum"},
    "paged": {"x-queue-type": "quorum", "x-max-in-memory-bytes": 0},
    DYING: {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": GRAVE,
    },
    CLASSIC: {},
    GRAVE: {},
}
QUORUM: Final = ("plain", "paged", DYING)

THERE, ASKED, DELETING = "there", "asked for", "being deleted"

WAITING: Final = "waiting"
"""Nobody is done with it."""
SETTLED: Final = "settled"
"""Somebody has said to be done with it; the broker may not have heard of that."""
IN_DOUBT: Final = "in doubt"
"""It may be there or not, for nobody knows whether that was heard."""
GONE: Final = "gone"
"""It was heard, and that is durable."""


class MessageFact:
    """One message that was published to `queue`. `count`: it has come back so often, at least."""

    __slots__ = ("confirmed", "count", "fate", "holder", "is_dead", "queue", "seen")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.confirmed = False
        self.fate = WAITING
        self.holder = ""
        self.seen = False
        """A client has had it."""
        self.count = 0
        self.is_dead = False
        """It was found in the grave."""


class QuorumFacts:
    """What clients know."""

    def __init__(self) -> None:
        self.queues: dict[str, str] = {}
        self.messages: dict[MessageId, MessageFact] = {}
        self.streams = 0
        self.taking: Counter[str] = Counter()
        """So many messages of a queue may have gone by a basic.get without acknowledgement that was
        not answered."""
        self.shuffled: dict[str, None] = {}
        """Queues to which something may have come back that was not sent, out of order."""

    def of(self, queue: str) -> list[MessageFact]:
        return [fact for fact in self.messages.values() if fact.queue == queue]

    def crashed(self) -> None:
        """All channels are gone. What was not answered may have been heard."""
        for fact in self.messages.values():
            fact.holder = ""
            if fact.fate == SETTLED:
                fact.fate = IN_DOUBT

    def delivered(
        self, message: MessageId | None, queue: str, holder: str, flagged: bool, count: int
    ) -> MessageFact:
        """Hold what a client gets against what is known of it."""
        fact = self.messages.get(message) if message is not None else None
        promise(fact is not None, holder, "gets what nobody sent, from", queue)
        assert fact is not None
        if queue == GRAVE:
            promise(fact.queue == DYING, message, "of", fact.queue, "is in the grave")
            fact.is_dead = True
            return fact
        promise(fact.queue == queue, message, "of", fact.queue, "comes from", queue)
        promise(not fact.holder, message, "comes to", holder, "while it is at", fact.holder)
        promise(fact.fate in (WAITING, IN_DOUBT), message, "comes again, and is", fact.fate)
        promise(flagged or not fact.seen, message, "comes again without being flagged")
        promise(count >= fact.count, message, "came back", fact.count, "times, now", count)
        fact.count = count
        fact.seen = True
        fact.holder = holder
        return fact


def first_quorum_state(capacity: int | None = None) -> State:
    """Nothing is there yet."""
    facts: Any = QuorumFacts()
    return State(SimFiles(capacity), History(), facts)


class QuorumHand(Role):
    """One channel. It publishes with confirms, and consumes from at most one queue."""

    def __init__(self, bench: QuorumBench, name: str) -> None:
        self.bench = bench
        self.facts = bench.facts
        self.name = name
        self.answers: list[Method] = []
        self.stream = self.facts.streams
        self.facts.streams += 1
        self.sent: list[MessageId] = []
        self.unconfirmed: dict[int, MessageFact] = {}
        self.queue = ""
        self.is_consuming = False
        self.held: dict[int, MessageFact] = {}
        self.unsure: list[MessageFact] = []
        """Settled, and not surely heard of."""
        self.returned: list[MessageFact] = []
        """The same of what was given back."""
        self.last_of: dict[tuple[str, int], int] = {}
        self.takes = False
        """It gets without acknowledgement."""

    def opened(self) -> None:
        """Now it can be moved."""

    def ended(self, how: str) -> None:
        for fact in self.held.values():
            fact.holder = ""
        self.held.clear()
        self.is_consuming = False

    def on_method(self, method: Method) -> None:
        if isinstance(method, m.BasicAck):
            tags = [method.delivery_tag]
            if method.multiple:
                tags = [tag for tag in self.unconfirmed if tag <= method.delivery_tag]
            for tag in tags:
                promise(tag in self.unconfirmed, self.name, "is told again of", tag)
                self.unconfirmed.pop(tag).confirmed = True
        elif isinstance(method, m.BasicNack):
            promise(self.bench.storage_may_fail, self.name, "is refused", method.delivery_tag)
        elif isinstance(method, m.BasicCancel):
            self.is_consuming = False
        else:
            self.answers.append(method)

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        assert isinstance(method, m.BasicDeliver | m.BasicGetOk)
        headers = BasicProperties.decode(properties).headers or {}
        count = headers.get("x-delivery-count", 0)
        assert isinstance(count, int)
        message = id_of_body(properties, body)
        fact = self.facts.delivered(message, self.queue, self.name, method.redelivered, count)
        assert message is not None
        if self.takes:
            fact.holder = ""
            fact.fate = GONE if self.queue in QUORUM else SETTLED
        else:
            self.held[method.delivery_tag] = fact
        stream, sequence = message
        ordered = self.queue in QUORUM and self.queue not in self.facts.shuffled
        if ordered and not method.redelivered:
            last = self.last_of.get((self.queue, stream), -1)
            promise(last < sequence, self.name, "gets", message, "after", last)
            self.last_of[self.queue, stream] = sequence
        if isinstance(method, m.BasicGetOk):
            self.answers.append(method)

    # -- moves

    def ask(self, method: Method) -> Method:
        """A question and its answer."""
        self.send(method)
        self.bench.until(lambda: bool(self.answers), f"{self.name} hears nothing on {method}")
        return self.answers.pop(0)

    def publish(self, queue: str, count: int, size: int, kind: int) -> None:
        for _ in range(count):
            sequence = len(self.sent)
            self.sent.append((self.stream, sequence))
            fact = MessageFact(queue)
            self.facts.messages[self.stream, sequence] = fact
            self.unconfirmed[sequence + 1] = fact
            self.send(m.BasicPublish(exchange="", routing_key=queue))
            size += sequence % 3
            self.peer.send(content_of(self.number, self.stream, sequence, kind, size, FRAME_MAX))

    def confirmed(self) -> None:
        self.bench.until(lambda: not self.unconfirmed, f"{self.name} waits for confirms")

    def consume(self, queue: str, prefetch: int) -> None:
        self.queue = queue
        self.is_consuming = True
        if prefetch:
            self.ask(m.BasicQos(prefetch_count=prefetch))
        self.ask(m.BasicConsume(queue=queue, consumer_tag="c"))

    def get(self, queue: str, takes: bool) -> None:
        self.queue = queue
        self.takes = takes
        self.facts.taking[queue] += takes
        self.ask(m.BasicGet(queue=queue, no_ack=takes))
        self.facts.taking[queue] -= takes

    def ack(self, count: int) -> None:
        for tag in [*self.held][:count]:
            fact = self.held.pop(tag)
            fact.holder = ""
            if fact.fate in (WAITING, IN_DOUBT):
                fact.fate = SETTLED
            self.unsure.append(fact)
            self.send(m.BasicAck(delivery_tag=tag))

    def give_back(self, count: int) -> None:
        """The newest first."""
        for tag in [*self.held][::-1][:count]:
            fact = self.held.pop(tag)
            fact.holder = ""
            self.returned.append(fact)
            self.send(m.BasicNack(delivery_tag=tag, requeue=True))

    def reject(self, count: int) -> None:
        for tag in [*self.held][:count]:
            fact = self.held.pop(tag)
            fact.holder = ""
            if self.queue != DYING:
                fact.fate = SETTLED
                self.unsure.append(fact)
            self.send(m.BasicReject(delivery_tag=tag, requeue=False))

    def sure(self) -> None:
        """Wait until all that was settled is durable: who asks for the depth hears it then."""
        settled, self.unsure = self.unsure, []
        returned, self.returned = self.returned, []
        for queue in {**dict.fromkeys(fact.queue for fact in (*settled, *returned))}:
            self.ask(m.QueueDeclare(queue=queue, passive=True))
        for fact in settled:
            if fact.fate == SETTLED and fact.queue in QUORUM:
                fact.fate = GONE
        for fact in returned:
            if fact.queue in QUORUM and not fact.holder:
                fact.count += 1  # as if it had been seen


class QuorumBench(Bench):
    """One life of a node with quorum queues."""

    def __init__(self, state: State, seed: int = 0) -> None:
        super().__init__(state, seed, QUORUM_CONFIG)
        facts: Any = state.facts
        self.facts: QuorumFacts = facts
        self.facts.crashed()
        self.hands: list[QuorumHand] = []
        self.names = 0

    def new_hand(self, confirming: bool = True) -> QuorumHand:
        """A client with one channel."""
        (hand,) = self.new_hands(1)
        if confirming:
            hand.ask(m.ConfirmSelect())
        return hand

    def new_hands(self, count: int) -> list[QuorumHand]:
        """Clients with one channel each, of one connection."""
        self.names += 1
        name = f"hand {self.names}"
        hands = [QuorumHand(self, f"{name}.{n}" if n else name) for n in range(count)]
        peer: Any = SimPeer(self, name, hands)  # type: ignore[arg-type]
        self.peers.append(peer)
        self.until(lambda: all(hand.started for hand in hands), f"{name} waits for its channels")
        self.hands += hands
        return hands

    def declare(self, by: QuorumHand, queue: str) -> None:
        known = self.facts.queues
        if known.get(queue) != THERE:
            known[queue] = ASKED
        by.ask(m.QueueDeclare(queue=queue, durable=True, arguments=ARGUMENTS[queue]))
        known[queue] = THERE

    def delete(self, by: QuorumHand, queue: str) -> None:
        """With all that is in it."""
        self.facts.queues[queue] = DELETING
        by.ask(m.QueueDelete(queue=queue))
        for fact in self.facts.of(queue):
            fact.fate = GONE
            fact.holder = ""
        del self.facts.queues[queue]
        for hand in self.hands:
            hand.held = {tag: fact for tag, fact in hand.held.items() if fact.queue != queue}
            hand.unsure = [fact for fact in hand.unsure if fact.queue != queue]
            hand.returned = [fact for fact in hand.returned if fact.queue != queue]

    def purge(self, by: QuorumHand, queue: str) -> None:
        """What may be somewhere else than in the queue may be there afterwards."""
        used = any(fact.queue == queue for hand in self.hands for fact in hand.returned)
        used |= any(hand.queue == queue and hand.is_consuming for hand in self.hands)
        ready = [each for each in self.facts.of(queue) if each.fate == WAITING and not each.holder]
        sure = [each for each in ready if each.confirmed and not used and queue in QUORUM]
        for fact in ready:
            fact.fate = IN_DOUBT
        by.ask(m.QueuePurge(queue=queue))
        for fact in sure:
            fact.fate = GONE

    def do(self, command: str, **arguments: Any) -> None:
        answers: list[CommandAnswer] = []
        start(self.node, ACTIONS, command, arguments, answers.append)
        self.until(lambda: bool(answers), f"{command} is answered")
        promise(not answers[0].error, command, answers[0].error)

    def live(self, steps: int, random: Random) -> None:
        """Clients do everything."""
        admin = self.new_hand(confirming=False)
        for queue in ARGUMENTS:
            self.declare(admin, queue)
        publishers = [self.new_hand() for _ in range(2)]
        for _ in range(steps):
            self.move(random, admin, publishers)
        for hand in publishers:
            hand.confirmed()
        self.rest(300)

    def move(self, random: Random, admin: QuorumHand, publishers: list[QuorumHand]) -> None:
        """One of them does something."""
        queue = random.choice((*QUORUM, *QUORUM, CLASSIC))
        consumers = [hand for hand in self.hands if hand.is_consuming]
        action = random.choice("pppppppcsssaaaaannrgtxudl")
        if action == "p":
            lasting = queue in (CLASSIC, DYING)  # the grave is no quorum queue
            kind = PERSISTENT if lasting else random.choice((PERSISTENT, TRANSIENT))
            by = random.choice(publishers)
            by.publish(queue, random.randint(1, 5), random.choice((10, 60, 300)), kind)
            if random.random() < 0.6:
                by.confirmed()
        elif action == "c" and len(consumers) < 3:
            self.new_hand(confirming=False).consume(queue, random.choice((0, 1, 4)))
        elif action in "sanrl" and consumers:
            self.move_consumer(action, random.choice(consumers), random)
        elif action in "gt":
            admin.get(queue, takes=action == "t")
            admin.takes = False
            if admin.held and random.random() < 0.7:
                admin.ack(1)
                admin.sure()
        elif action == "x":
            for by in publishers:
                by.confirmed()
            admin.give_back(len(admin.held))
            self.purge(admin, queue)
        elif action == "u":
            limit = random.choice((20, 30))
            definition = f'{{"max-in-memory-length": {limit}}}'
            self.do("set_policy", name="p", pattern="plain", definition=definition)
        elif action == "d" and random.random() < 0.5:
            for by in publishers:
                by.confirmed()
            self.delete(admin, queue)
            self.declare(admin, queue)
        else:
            self.rest(random.choice((1, 20, 100)))

    def move_consumer(self, action: str, by: QuorumHand, random: Random) -> None:
        self.rest(random.choice((1, 5, 20)))
        count = random.randint(1, 4)
        if action == "s":
            by.sure()
        elif action == "a":
            by.ack(count)
        elif action == "n":
            by.give_back(count)
        elif action == "r":
            by.reject(count)
        else:
            self.facts.shuffled[by.queue] = None
            by.close()

    # -- what must be there

    def drain(self) -> None:
        """Take everything out, and see that it is what must be there."""
        drained = (*QUORUM, CLASSIC, GRAVE)
        heir, *takers = self.new_hands(1 + len(drained))
        heir.ask(m.ConfirmSelect())
        if DELETING in self.facts.queues.values():
            self.rest(300)  # it may be over only now
        for queue in ARGUMENTS:
            known = self.facts.queues.get(queue)
            if known == THERE:
                heir.ask(m.QueueDeclare(queue=queue, passive=True))
                continue
            for fact in self.facts.of(queue):
                fact.fate = GONE if known is None else IN_DOUBT
            self.declare(heir, queue)
        for queue in QUORUM:
            heir.publish(queue, 1, 60, PERSISTENT)
        heir.confirmed()
        for queue, by in zip(drained, takers, strict=True):
            self.drain_queue(queue, by)
        for queue in (*QUORUM, CLASSIC):
            self.hold_up(queue)
        self.without_errors()

    def drain_queue(self, queue: str, by: QuorumHand) -> None:
        by.consume(queue, 0)
        while self.depth(queue):
            self.until(lambda: bool(by.held or not self.depth(queue)), f"{queue} is drained")
            by.ack(len(by.held))
            by.sure()

    def until(self, reached: Callable[[], bool], waiting: str) -> None:
        """Let time pass, not for as long as others need."""
        limit = self.timeline.happened + EVENTS_MAX
        while not reached():
            promise(self.timeline.happened < limit, "never:", waiting)
            self.timeline.step()

    def depth(self, queue: str) -> int:
        """How much is in it, and at consumers, and on the way there."""
        depth = self.node.broker.vhosts["/"].queues[queue].machine.depth
        return depth.ready + depth.unacked

    def hold_up(self, queue: str) -> None:
        """Hold what has come out of a queue against what was published to it."""
        lost = []
        gaps: dict[int, MessageId] = {}
        for message, fact in self.facts.messages.items():
            if fact.queue != queue:
                continue
            there = fact.fate in (GONE, SETTLED) or fact.is_dead
            if there and not fact.confirmed:
                gap = gaps.get(message[0])
                promise(gap is None, message, "is in", queue, "and", gap, "before it is not")
            if there or fact.fate == IN_DOUBT:
                continue
            if fact.confirmed:
                lost.append(message)
            else:
                gaps.setdefault(message[0], message)
        text = f"{len(lost)} messages of {queue} are lost though they were confirmed:"
        promise(len(lost) <= self.facts.taking[queue], text, *lost[:3])

    @property
    def confirmed(self) -> list[MessageFact]:
        return [fact for fact in self.facts.messages.values() if fact.confirmed]

    def without_errors(self) -> None:
        """The node has found no fault."""
        log: Any = self.node.world.log
        promise(not log.errors, "the node finds fault:", *log.errors)
