"""source ---messages---> REPUBLISHER ---batches---> queues: publishing by the broker itself.

Dead letters and delayed messages stay where they are until every queue they are routed to has made
them safe; then the source is told, and may remove them. So nothing is lost when the broker is
killed in between, but messages that had arrived already come a second time. Dead letters that are
sent at most once have left their source: they never come a second time, and may be lost.

A node that has just started, or is behind, may lack queues and bindings that its cluster has agreed
on, and what is routed to no queue is dropped. So what the source still has waits at a start until
the node has all definitions, and later, if it is routed to no queue, until the node is known to be
current; then it is routed once more.

A message that a queue refuses (reject-publish) is offered to it again after a while. The source
bounds what is under way: it passes on only a certain amount that is not answered; links to queues
have credit as those of channels do.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from sluicemq.amqp.types import SHORTSTR_MAX, Malformed, encode_shortstr
from sluicemq.chain.flow_actor import ActorKeeper
from sluicemq.chain.queue.poison_messages import PLAIN, places_in, unmanageable
from sluicemq.chain.queue.queue import TARGET_WORK, TARGETS_MAX, LinkEnded
from sluicemq.chain.queue.republish_messages import (
    Republish,
    RepublisherPort,
    RepublishMessage,
    SourceGone,
)
from sluicemq.kernel.cleanup_steps import take
from sluicemq.limits import RETRY_REFUSED_MS
from sluicemq.model.batch import Batch, are_same_size, part_of, size_of
from sluicemq.model.content import properties_of
from sluicemq.model.traits import message_traits, property_traits
from sluicemq.queues.commands import Down
from sluicemq.queues.effects import Confirm, Rejected
from sluicemq.routing.message import Message, TakesLong
from sluicemq.text import cut

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.poison_messages import Place
    from sluicemq.chain.queue.queue import PublishLink, Queue
    from sluicemq.flow.link import Link
    from sluicemq.kernel.actor import Actor

Way: TypeAlias = "tuple[tuple[str, ...], str, int, bool]"
"""Queues, routing key, priority, and whether the bodies belong into the message store."""


class Sent:
    """A batch on its way to one queue over a link; without one (None) it waits to be offered again.
    The first `left` of its messages are not answered."""

    __slots__ = ("batch", "left", "link", "queue", "republish")

    def __init__(
        self, republish: Republish, batch: Batch, queue: Queue, link: Link | None = None
    ) -> None:
        self.republish = republish
        self.batch = batch
        self.queue = queue
        self.link = link
        self.left = len(batch.contents)


class OfferAgain:
    """Tells the republisher that a while has passed: refused messages may be accepted now."""

    __slots__ = ()


class Unrouted:
    """Letters of a Republish, which is to be told of them, that go to no queue by what this node
    knows. They come back to the republisher when the node is current."""

    __slots__ = ("letters", "republish")

    def __init__(self, republish: Republish, letters: list[RepublishMessage]) -> None:
        self.republish = republish
        self.letters = letters


class Republisher(RepublisherPort):
    """Publishes the messages of one source, and tells it when they are safe."""

    kind = "republisher"
    is_vital = False

    def __init__(self, vhost: NamespacePort, source: Actor, name: str) -> None:
        services = vhost.services
        super().__init__(services.scheduler, services.world.clock)
        self.keeper = ActorKeeper(services.world.clock, self)
        self.services = services
        self.vhost = vhost
        self.source = source
        self.name = name
        self.links: dict[Queue, PublishLink] = {}
        self.waiting = deque()
        self.sent: dict[int, Sent] = {}
        """By the sequence number of the first message."""
        self.refused: list[Sent] = []
        self.unrouted = 0
        """The number of Unrouted that wait."""
        self.parts: dict[Republish, Republish] = {}
        """Letters that are routed once more, and what they are a part of."""
        self.next_seq = 1
        self.ending = False
        self.publishing: Republish | None = None
        """What is being published."""
        if not services.agreement.is_ready:
            services.agreement.when_ready(self.schedule)

    def receive(self, message: object) -> None:
        """Take messages from the source, answers of queues, and grants."""
        if isinstance(message, Republish):
            self.waiting.append(message)
        elif isinstance(message, Confirm):
            self.answered(message.first_seq, message.count)
        elif isinstance(message, Rejected):
            self.refuse(message)
        elif isinstance(message, LinkEnded):
            self.link_ended(message)
        elif isinstance(message, OfferAgain):
            self.offer_again()
        elif isinstance(message, Unrouted):
            self.route_again(message)
        elif isinstance(message, SourceGone):
            self.ending = True
        else:
            super().receive(message)

    def flow_resumed(self) -> None:
        self.schedule()

    def turn_ended(self) -> None:
        """Publish what waits, as far as credit goes, and in pieces; close when the source is gone
        and all is done."""
        if self.underway is None and self.may_publish():
            self.begin(self.publish_waiting())
        is_busy = self.waiting or self.publishing or self.sent or self.refused or self.unrouted
        if self.ending and not is_busy:
            self.close()

    def may_publish(self) -> bool:
        """Tell whether the first of what waits may be published now. What has left its source waits
        for no definitions: much of it would be dropped."""
        if not self.waiting or self.keeper.gates_shut:
            return False
        return self.services.agreement.is_ready or self.waiting[0].done is None

    def publish_waiting(self) -> Iterator[int]:
        """Publish what waits, one Republish after the other, while there is credit. Each step gives
        its units of work."""
        while self.may_publish():
            yield from self.publish(self.waiting.popleft())

    def publish(self, republish: Republish) -> Iterator[int]:
        """Route each letter, and send consecutive ones with the same way and key as one batch. Each
        step yields its units of work."""
        republish.open += 1
        self.publishing = republish
        contents: list[bytes] = []
        unrouted: list[RepublishMessage] = []
        common: Way | None = None
        for letter in republish.letters:
            names = yield from self.names_in_pieces(republish.exchange, letter)
            if not names and republish.done is not None and not self.services.agreement.is_current:
                unrouted.append(letter)
                continue
            way = self.way_by(names, letter)
            if way != common and common is not None:
                yield from self.send(republish, common, contents)
                contents = []
            common = way
            contents.append(letter.content)
        if common is not None:
            yield from self.send(republish, common, contents)
        self.publishing = None
        if unrouted:
            republish.open += 1
            self.unrouted += 1
            again = Unrouted(republish, unrouted)
            self.services.agreement.when_current(lambda: self.post(again))
        self.settled(republish)

    def route_again(self, unrouted: Unrouted) -> None:
        """Publish letters to the queues that they go to by what this node knows now, if any."""
        self.unrouted -= 1
        whole = unrouted.republish
        part = Republish(
            whole.exchange,
            unrouted.letters,
            whole.channel_number,
            whole.persistent,
            None,
            whole.ttl_ms,
            whole.at_most_once,
        )
        self.parts[part] = whole
        self.waiting.append(part)

    def names_in_pieces(
        self, exchange: str, letter: RepublishMessage
    ) -> Generator[int, None, tuple[str, ...]]:
        """Return the queues of a letter, as `route` does, after steps that yield their units of
        work: routing may take long."""
        message = self.message(letter)
        message.is_hasty = True
        try:
            names = self.route(exchange, message)
        except TakesLong:
            names = yield from self.search(exchange, message)
        yield len(names) + message.work
        return names

    def search(self, exchange: str, message: Message) -> Generator[int, None, tuple[str, ...]]:
        """Return the queues of a message, as `route` does, after steps that yield their units of
        work."""
        try:
            return (yield from self.vhost.topology.search(exchange, message))
        except Malformed:
            return ()

    def way(self, exchange: str, letter: RepublishMessage) -> Way:
        """Return the way of a letter; those with the same may be in one batch."""
        return self.way_by(self.route(exchange, self.message(letter)), letter)

    def way_by(self, names: tuple[str, ...], letter: RepublishMessage) -> Way:
        """Return the way to these queues, except those to which the letter must not go."""
        if letter.banned:
            names = tuple(name for name in names if name not in letter.banned)
        large = len(letter.content) >= self.services.large_from_bytes
        return names, letter.keys[0], letter.priority, large

    def message(self, letter: RepublishMessage) -> Message:
        """Return what exchanges may look at in a letter."""
        return Message(letter.keys, properties_of(letter.content), self.services.world.dice.below)

    def route(self, exchange: str, message: Message) -> tuple[str, ...]:
        """Return the names of a message's queues; none when the exchange does not exist, or the
        headers cannot be read."""
        topology = self.vhost.topology
        if exchange and exchange not in topology.exchanges:
            return ()
        try:
            return topology.route_message(exchange, message)
        except Malformed:  # a headers exchange would have to read them
            return ()

    def send(self, republish: Republish, way: Way, contents: list[bytes]) -> Iterator[int]:
        """Send one batch to its queues, some at a time; queues deleted meanwhile are left out. A
        key that a policy or an argument has made too long for AMQP is cut, after routing."""
        names, key, priority, large = way
        known = self.vhost.queues
        found = [known.get(name) or known.holding.get(name) for name in names]
        queues = [queue for queue in found if queue is not None]
        if not queues:
            return
        count = len(contents)
        size = size_of(contents, False)
        envelope = encode_shortstr(republish.exchange) + encode_shortstr(cut(key, SHORTSTR_MAX))
        persistent = republish.persistent
        batch = Batch(
            message_traits(envelope, republish.channel_number, persistent, len(queues)),
            property_traits(persistent, republish.ttl_ms, priority),
            contents,
            size,
            are_same_size(contents),
            self.services.message_ids(count) if large else 0,
        )
        for at in range(0, len(queues), TARGETS_MAX):
            some = queues[at : at + TARGETS_MAX]
            for queue in some:
                self.offer(republish, batch, queue)
            yield TARGET_WORK * len(some)

    def offer(self, republish: Republish, batch: Batch, queue: Queue) -> None:
        """Send a batch to one queue, with sequence numbers of its own."""
        count = len(batch.contents)
        first_seq = self.next_seq
        self.next_seq += count
        link = self.link(queue)
        self.sent[first_seq] = Sent(republish, batch, queue, link)
        republish.open += 1
        link.send(batch, first_seq, True)

    def link(self, queue: Queue) -> PublishLink:
        """Return the one link to that queue, made on first use."""
        link = self.links.get(queue)
        if link is None:
            link = self.links[queue] = queue.link_from(self)
        return link

    def faulted(self, error: Exception) -> None:
        """Stop, and treat a fault here as one of its source, which has everything that was under
        way."""
        self.go_deaf()
        take(self, [self.close])
        self.source.faulted(error)

    def suspected(self) -> list[Place]:
        """Return, after a fault, the messages of the source that cannot be routed."""
        republish = self.publishing
        if republish is None or republish.done is None:
            return []
        way_of = partial(self.way, republish.exchange)
        places = places_in(republish.done.parts)
        found = unmanageable(way_of, republish.letters, RepublishMessage(PLAIN, ("",)))
        return [places[each] for each in found]

    # -- answers

    def answered(self, first_seq: int, count: int) -> None:
        """Account for `count` messages that are safe in one queue, or wait to be offered to it
        again; `first_seq` is the number of their batch there."""
        sent = self.sent[first_seq]
        sent.left -= count
        assert sent.left >= 0
        if not sent.left:
            del self.sent[first_seq]
            self.settled(sent.republish)

    def settled(self, republish: Republish) -> None:
        """Count one thing less to wait for; tell the source when it was the last."""
        republish.open -= 1
        if republish.open:
            return
        if republish.done is not None:
            self.source.post(republish.done)
        whole = self.parts.pop(republish, None)
        if whole is not None:
            self.settled(whole)

    def refuse(self, answer: Rejected) -> None:
        """Keep messages that a full queue has refused, to be offered to it again; in halves,
        because one of them may be the reason, which is then alone in the end."""
        sent = self.sent[answer.first_seq]
        start, end = answer.offset, answer.offset + answer.count
        middle = (start + end) // 2 if answer.mixed else start
        for first, last in (start, middle), (middle, end):
            if first < last:
                part = part_of(sent.batch, first, last)
                self.keep_for_later(Sent(sent.republish, part, sent.queue))
                sent.republish.open += 1
        self.answered(answer.first_seq, answer.count)

    def keep_for_later(self, sent: Sent) -> None:
        """Keep a batch, to be offered again after RETRY_REFUSED_MS milliseconds."""
        if not self.refused:
            self.services.world.clock.call_after(RETRY_REFUSED_MS, self, OfferAgain())
        self.refused.append(sent)

    def offer_again(self) -> None:
        """Offer refused messages again, unless their queue is deleted; a queue that is being read
        back is waited for."""
        refused = self.refused
        self.refused = []
        for each in refused:
            queue = self.present(each.queue)
            if queue.crash is not None and not queue.gone:
                self.keep_for_later(each)
                continue
            if not queue.machine.deleted:
                self.offer(each.republish, each.batch, queue)
            self.settled(each.republish)

    def present(self, queue: Queue) -> Queue:
        """Return what has the place of a queue now: its successor after faults or, on a node that
        its member or master has left, what stands for it there."""
        latest = queue.latest
        there = self.vhost.queues.get(latest.name)
        return there if there is not None and there.id == latest.id else latest

    def link_ended(self, message: LinkEnded) -> None:
        """End the link to a queue that was deleted, or has failed: it holds up nobody. A deleted
        queue still answers what it has not answered yet; what a failed one has not answered is
        offered to its successor, unless it is sent at most once: it may have arrived."""
        link = message.link
        if self.links.get(message.queue) is link:
            self.links.pop(message.queue).end()
        if message.is_lost:
            lost = [first_seq for first_seq, sent in self.sent.items() if sent.link is link]
            for sent in map(self.sent.pop, lost):
                if sent.republish.at_most_once:
                    self.services.counters.dropped += sent.left
                    self.settled(sent.republish)
                    continue
                sent.batch = part_of(sent.batch, 0, sent.left)
                self.keep_for_later(sent)

    def close(self) -> None:
        """End all links, for nothing is left to do."""
        for queue, link in self.links.items():
            link.end()
            queue.post(Down(self))
        self.links = {}
        self.keeper.release()
