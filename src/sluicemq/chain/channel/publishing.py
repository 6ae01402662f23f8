"""The publishing half of a channel: from a run of publishes to batches at queues.

What is known of a run is looked up by its raw method frame and its raw properties (look_ups.py).

Messages are routed one by one only where an exchange on the way looks at the content, or a message
names further receivers; consecutive ones that go the same way form a batch again. So a run is sent
in one of two ways, depending on the run and its route:

    messages of the run           the queues are known      they depend on the message
    equal headers                 all alike                 all alike, but where chance decides
    one length and traits         all alike                 one by one, grouped
    any                           one by one, grouped       one by one, grouped
    keys of their own             divided among the queues  each by itself, all alike
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import MixedKeyPublishes, Publishes
from sluicemq.amqp.methods import BasicReturn
from sluicemq.chain.channel.confirm_frames import ConfirmFrames
from sluicemq.chain.channel.look_ups import LookUps, Spent
from sluicemq.chain.channel.reply_to import send_replies
from sluicemq.chain.channel.transaction_port import PendingPublishes, TransactionPort
from sluicemq.chain.queue.queue import TARGET_WORK, TARGETS_MAX
from sluicemq.chain.splitting import stretches
from sluicemq.errors import NO_ROUTE
from sluicemq.flow.confirms import WATCH_EVERY, Unconfirmed
from sluicemq.model.batch import ENVELOPED, Batch, size_of
from sluicemq.model.content import with_properties
from sluicemq.model.traits import message_traits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sluicemq.amqp.events import AnyPublishes
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.routes import Route, Targets
    from sluicemq.chain.queue.queue import LinkEnded, PublishLink, Queue
    from sluicemq.model.traits import PropertyTraits
    from sluicemq.queues.effects import Confirm, Rejected

NS_PER_S: Final = 1_000_000_000


class Publishing:
    """The publishing half of one channel: what it sends to queues, and what it confirms."""

    __deletable__ = ("channel",)

    def __init__(self, channel: ChannelPort) -> None:
        self.channel = channel
        self.services = channel.services
        self.directory = channel.directory
        self.vhost_traffic = channel.vhost.traffic
        self.look_ups = LookUps(channel)
        self.links = self.look_ups.links
        self.confirming = False
        self.confirm_frames = ConfirmFrames(channel.number)
        self.unnumbered = 0
        """Messages that were published before there were confirms: they have numbers here, which
        the client does not know of."""
        self.transaction: TransactionPort | None = None
        self.next_seq = 1
        self.unconfirmed = Unconfirmed()
        self.pending: deque[tuple[Batch, Targets, int]] = deque()
        """Batches that go to so many queues, or came behind such a one, that they are posted in
        pieces (`spread`); each with its first number."""
        self.watched_seq = 0
        """The number of the message that is watched for how long its confirm takes; 0: none is."""
        self.watch_from = 0  # the smallest number that may be watched next
        self.watched_ns = 0  # when it was published

    def publish_any(self, event: AnyPublishes) -> int:
        """Route a run of either kind, and return how many of its messages went out. The rest is
        left when routing these took all the work of a turn; all are left when the first one needs a
        `search`. A refused message raises its violation after those before it have gone out."""
        try:
            if isinstance(event, Publishes):
                done = self.publish(event)
            else:
                assert isinstance(event, MixedKeyPublishes)
                done = self.publish_mixed_keys(event)
        except Spent:
            return 0  # the first message needs a search
        if done:
            self.look_ups.message_out()
        return done

    def publish(self, event: Publishes) -> int:
        """Route a run with one method frame, and return how many of its messages went out. A
        refused message raises its violation after those before it have gone out."""
        contents = event.contents
        look_ups = self.look_ups
        route = look_ups.route_of(event.raw_method, event.method, contents[0])
        if event.same_size:
            properties = look_ups.read_properties(contents[0])
            if event.same_properties or (route.targets is not None and properties.is_plain):
                return self.send_alike(route, properties, contents)
        return self.send_grouped(route, contents)

    def publish_mixed_keys(self, event: MixedKeyPublishes) -> int:
        """Route messages that differ only in their routing keys, and return how many went out. When
        each goes to one queue, without anything special, there is a batch for each queue; otherwise
        each message goes alone. A refused one raises its violation after those before it have gone
        out."""
        contents = event.contents
        properties = self.look_ups.read_properties(contents[0])
        routes, refusal = self.look_ups.routes_of(event)
        by_link: dict[PublishLink | None, list[bytes]] = {}
        large = len(contents[0]) >= self.services.large_from_bytes
        if large or not properties.is_plain or self.transaction is not None:
            by_link[None] = []
        else:
            for route, content in zip(routes, contents, strict=False):
                some = by_link.get(route.lone)
                if some is None:
                    some = by_link[route.lone] = []
                some.append(route.envelope + content)
        if None in by_link:
            scheduler = self.channel.scheduler
            for done, (route, content) in enumerate(zip(routes, contents, strict=False)):
                if done and scheduler.work <= 0:
                    return done
                try:
                    self.send_alike(route, properties, [content])
                except Spent:
                    return done
        elif routes:
            for route in routes:
                route.traffic.publish_in += 1
                route.traffic.publish_out += 1
            self.send_divided(by_link, len(routes), properties)
        if refusal is not None:
            raise refusal
        return len(routes)

    def send_divided(
        self,
        by_link: Mapping[PublishLink | None, list[bytes]],
        count: int,
        properties: PropertyTraits,
    ) -> None:
        """Send each queue its part of `count` messages, which are confirmed when all parts are
        safe."""
        links = [link for link in by_link if link is not None]
        first_seq = self.number(count, links)
        self.channel.spend(TARGET_WORK * len(links))
        traits = message_traits(ENVELOPED, self.channel.number, properties.persistent)
        for link in links:
            contents = by_link[link]
            size = size_of(contents, False)
            link.send(Batch(traits, properties, contents, size, False), first_seq, self.confirming)

    def send_alike(self, route: Route, properties: PropertyTraits, contents: list[bytes]) -> int:
        """Send contents of one length, whose properties say the same, to the targets of the first
        one; one by one if chance decides. Returns how many went out."""
        if properties.is_plain and route.targets is not None:
            targets = route.targets
        else:
            targets, lasting = self.look_ups.choose(route, properties, contents[0])
            if not lasting:
                return self.send_grouped(route, contents)
            contents = self.prepared(route, properties, contents)
        large = len(contents[0]) >= self.services.large_from_bytes
        self.send(route, contents, targets, True, properties, large)
        return len(contents)

    def send_grouped(self, route: Route, contents: list[bytes]) -> int:
        """Read and route messages one by one; consecutive ones with the same results go together,
        large ones, which are stored elsewhere, apart from small ones. Returns how many went out; a
        refused one raises its violation after those before it have gone out."""
        found, refusal = self.look_ups.gather(map(self.look_ups.read_properties, contents))
        is_large = self.services.large_from_bytes.__le__
        done = 0
        for properties, same in stretches(found, contents):
            count = len(same)
            refused = None
            if route.targets is not None and properties.is_plain:
                ways: Iterable[tuple[Targets, list[bytes]]] = [(route.targets, same)]
            else:
                chosen, refused = self.look_ups.gather(self.ways_of(route, properties, same))
                same = self.prepared(route, properties, same[: len(chosen)])
                ways = stretches(chosen, same)
            for targets, some in ways:
                for large, part in stretches(map(is_large, map(len, some)), some):
                    self.send(route, part, targets, False, properties, large)
            done += len(same)
            if refused is not None:
                raise refused
            if len(same) < count:
                return done
        if refusal is not None:
            raise refusal
        return done

    def ways_of(
        self, route: Route, properties: PropertyTraits, contents: list[bytes]
    ) -> Iterator[Targets]:
        """Yield the targets of each message, found on demand."""
        for content in contents:
            yield self.look_ups.choose(route, properties, content)[0]

    def prepared(
        self, route: Route, properties: PropertyTraits, contents: list[bytes]
    ) -> list[bytes]:
        """Return the contents as queues get them, with other properties if theirs require it. Reply
        consumers among their receivers are sent them at once."""
        if properties.rewritten is not None:
            contents = [with_properties(content, properties.rewritten) for content in contents]
        if route.replies or properties.further_keys:
            self.reply(route, properties, contents)
        return contents

    def number(self, count: int, links: Sequence[PublishLink], to_come: int = 0) -> int:
        """Number the next `count` messages, which go over these links now and over `to_come` others
        later. Returns the first number."""
        self.services.counters.published += count
        self.channel.traffic.publish += count
        self.vhost_traffic.publish += count
        first_seq = self.next_seq
        self.next_seq = first_seq + count
        if self.confirming and not self.watched_seq and first_seq >= self.watch_from:
            self.watched_seq = first_seq
            self.watch_from = first_seq + WATCH_EVERY
            self.watched_ns = self.services.world.clock.now_ns()
        if self.confirming or self.transaction is not None:
            self.unconfirmed.expect(first_seq, count, links, to_come)
        return first_seq

    def send(
        self,
        route: Route,
        contents: list[bytes],
        targets: Targets,
        same_size: bool,
        properties: PropertyTraits,
        large: bool,
    ) -> None:
        """Send one batch to all its queues or, in a transaction, keep it until the commit. `spread`
        does it if there are many queues, or batches that wait to go out."""
        transaction = self.transaction
        size = size_of(contents, same_size)
        if transaction is not None and not transaction.passing:
            names = [link.queue.name for link in targets]
            transaction.keep(
                PendingPublishes(route, contents, names, size, same_size, properties, large)
            )
            return
        count = len(contents)
        copies = len(targets)
        later = bool(self.pending) or copies > TARGETS_MAX
        first_seq = self.number(count, (), copies) if later else self.number(count, targets)
        route.traffic.publish_in += count
        route.traffic.publish_out += count * copies
        if not targets:
            self.unroutable(route, contents)
        first_id = self.services.message_ids(count) if large else 0
        traits = route.traits_of(properties.persistent, copies)
        batch = Batch(traits, properties, contents, size, same_size, first_id)
        if later:
            self.pending.append((batch, targets, first_seq))
            return
        confirm = self.confirming or transaction is not None
        for link in targets:
            link.send(batch, first_seq, confirm)
        if copies > 1:
            self.channel.spend(TARGET_WORK * copies)

    def spread(self) -> Iterator[int]:
        """Post the pending batches, each to some of its queues in each piece, and yield its work.
        The channel does nothing else meanwhile, so that batches stay in order; what is due to their
        publisher is known already."""
        pending = self.pending
        confirm = self.confirming or self.transaction is not None
        while pending:
            batch, targets, first_seq = pending[0]
            for at in range(0, len(targets), TARGETS_MAX):
                some = targets[at : at + TARGETS_MAX]
                for target in some:
                    link = self.look_ups.link(target.queue)
                    if confirm:
                        self.unconfirmed.sent(first_seq, link)
                    link.send(batch, first_seq, confirm)
                yield TARGET_WORK * len(some)
            pending.popleft()

    def reply(self, route: Route, properties: PropertyTraits, contents: list[bytes]) -> None:
        """Send the contents to the reply consumers among their receivers: at once, as in RabbitMQ,
        in a transaction too."""
        method = route.method
        if not method.exchange:
            keys = (method.routing_key, *properties.further_keys)
            traits = route.traits or route.traits_of(False, 0)
            dropped = send_replies(self.directory, keys, contents, traits)
            self.services.counters.dropped += dropped

    def unroutable(self, route: Route, contents: list[bytes]) -> None:
        """Return mandatory messages without a queue to their publisher, before any confirm; drop
        others."""
        counters = self.services.counters
        if not route.mandatory:
            if not route.replies:
                counters.dropped += len(contents)
                self.channel.traffic.drop_unroutable += len(contents)
                self.vhost_traffic.drop_unroutable += len(contents)
            return
        counters.returned += len(contents)
        self.channel.traffic.return_unroutable += len(contents)
        self.vhost_traffic.return_unroutable += len(contents)
        method = route.method
        returned = BasicReturn(
            reply_code=NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=method.exchange,
            routing_key=method.routing_key,
        ).frame(self.channel.number)
        for content in contents:
            self.channel.out.append(returned)
            self.channel.out.append(content)

    def begin_confirms(self) -> None:
        """Confirm publishes from here on, which the client counts from 1; a second confirm.select
        changes nothing."""
        if not self.confirming:
            self.confirming = True
            self.unnumbered = self.next_seq - 1

    def confirm(self, answer: Confirm) -> None:
        """Note that a queue has made publishes safe."""
        self.unconfirmed.confirm(answer.link, answer.first_seq, answer.count)

    def reject(self, answer: Rejected) -> None:
        """Note that a queue has rejected publishes, because it was full."""
        self.unconfirmed.reject(answer.first_seq, answer.count, answer.offset)

    def acknowledge(self, out: list[bytes]) -> None:
        """Append the basic.ack and basic.nack frames that are due or, in a transaction, the answer
        to its commit."""
        if self.transaction is not None:
            out += self.transaction.answers()
            return
        lone = self.unconfirmed.take_lone()
        confirmed, rejected = (1, 0) if lone else self.unconfirmed.answered
        self.services.counters.confirmed += confirmed
        self.channel.traffic.confirm += confirmed
        self.vhost_traffic.confirm += confirmed
        if self.watched_seq and (confirmed or rejected):
            self.watch()
        self.services.counters.nacked += rejected
        frames, before = self.confirm_frames, self.unnumbered
        if lone:
            out.append(frames.lone(lone - before))
            return
        for last, multiple, nack in self.unconfirmed.drain():
            out.append(frames.frame(last - before, multiple, nack))

    def watch(self) -> None:
        """Measure the time to the confirm of the watched message, when it has come."""
        smallest = self.unconfirmed.smallest()
        if smallest is None or smallest > self.watched_seq:
            passed_ns = self.services.world.clock.now_ns() - self.watched_ns
            self.services.confirm_latency.add(passed_ns / NS_PER_S)
            self.watched_seq = 0

    def link_ended(self, message: LinkEnded) -> None:
        """Forget the link to a queue that was deleted or has failed: it holds up nobody. Publishes
        that a failed queue has not answered are rejected. Routes may still use the link, even those
        that were found since."""
        link = message.link
        if self.links.get(message.queue) is link:
            self.links.pop(message.queue).end()
            self.look_ups.forget_routes()
        if message.is_lost:
            self.unconfirmed.lose(link)

    def release(self) -> None:
        """Drop the reference to the channel, which has had its last turn that matters."""
        if hasattr(self, "channel"):
            del self.channel
        self.look_ups.release()
        self.transaction = None

    def close(self) -> list[Queue]:
        """End all links at the end of the channel, and return the queues that must be told."""
        for link in self.links.values():
            link.end()
        queues = list(self.links)
        self.links.clear()
        self.look_ups.forget_routes()
        return queues
