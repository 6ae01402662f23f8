"""The publishing half of a channel: from a run of publishes to batches at queues.

One look-up leads from the raw method frame of a run to its Route: the queues and their links.
Another leads from the raw properties to what the broker must know of them. Neither is decoded again
for as long as producers repeat themselves; a change of topology makes routes stale.

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
from typing import TYPE_CHECKING, Final, TypeVar

from sluicemq.amqp.events import MixedKeyPublishes, Publishes
from sluicemq.amqp.methods import BasicReturn
from sluicemq.amqp.types import Malformed
from sluicemq.chain.channel.confirm_frames import ConfirmFrames
from sluicemq.chain.channel.reply_to import ReplyConsumer, send_replies
from sluicemq.chain.channel.routes import LinkToCome, Route
from sluicemq.chain.channel.transaction_port import PendingPublishes, TransactionPort
from sluicemq.chain.property_traits import BASIC_PUBLISH, traits_in, undecodable
from sluicemq.chain.queue.queue import TARGET_WORK, TARGETS_MAX
from sluicemq.chain.splitting import stretches
from sluicemq.errors import NO_ROUTE, ChannelViolation, ConnectionViolation, ProtocolViolation
from sluicemq.flow.confirms import WATCH_EVERY, Unconfirmed
from sluicemq.limits import CHOICES_MAX, REMEMBERED_BYTES_MAX, ROUTES_MAX, TRAITS_MAX
from sluicemq.model.batch import ENVELOPED, Batch, size_of
from sluicemq.model.content import properties_of, with_properties
from sluicemq.model.traits import message_traits
from sluicemq.routing.exchange import PIECE
from sluicemq.routing.message import Message, TakesLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sluicemq.amqp.events import AnyPublishes
    from sluicemq.amqp.methods import BasicPublish
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.routes import Targets
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import LinkEnded, PublishLink, Queue
    from sluicemq.model.traits import PropertyTraits
    from sluicemq.queues.effects import Confirm, Rejected


NS_PER_S: Final = 1_000_000_000

LARGE_BYTES_PER_UNIT: Final = 8
"""Octets of large properties that are looked at for a unit of work."""

T = TypeVar("T")


class Spent(Exception):
    """Raised when the turn has no work left to decode or route more messages."""


class Search:
    """A search, in pieces, for the queues that one message goes to. Its result holds for that
    message, whatever has changed meanwhile; for others only while the topology's epoch is `epoch`.
    """

    __slots__ = ("epoch", "exchange", "message", "names", "targets")

    def __init__(self, exchange: str, message: Message, epoch: int) -> None:
        self.exchange = exchange
        self.message = message
        self.epoch = epoch
        self.names: tuple[str, ...] = ()
        self.targets: Targets = []

    def pieces(self, vhost: NamespacePort, channel: ChannelPort) -> Iterator[int]:
        """Find the targets for this channel, and yield the work of each piece. Queues deleted
        meanwhile are left out."""
        names = yield from vhost.topology.search(self.exchange, self.message)
        there: list[str] = []
        for at in range(0, len(names), PIECE):
            yield PIECE // 4
            for name in names[at : at + PIECE]:
                queue = vhost.queues.get(name) or vhost.queues.holding.get(name)
                if queue is not None:
                    there.append(name)
                    self.targets.append(LinkToCome(channel, queue))
        self.names = tuple(there)

    def linked(self, link: Callable[[Queue], PublishLink]) -> Targets:
        """Return the targets with links made by `link`; without links if they are more than
        TARGETS_MAX, because `spread` makes the links of so many."""
        if len(self.targets) > TARGETS_MAX:
            return self.targets
        return [link(each.queue) for each in self.targets]


class Publishing:
    """The publishing half of one channel: its routes, its links to queues, and its confirms."""

    __deletable__ = ("channel",)

    def __init__(self, channel: ChannelPort) -> None:
        self.channel = channel
        self.services = channel.services
        self.directory = channel.directory
        self.vhost = channel.vhost
        self.topology = channel.vhost.topology
        self.vhost_traffic = channel.vhost.traffic
        self.routes: dict[bytes, Route] = {}
        self.routes_epoch = 0
        self.known_properties: dict[bytes, PropertyTraits] = {}
        self.choices: dict[tuple[Route, bytes], Targets] = {}
        self.destinations: dict[tuple[str, ...], Targets] = {}
        self.links: dict[Queue, PublishLink] = {}
        self.access_epoch = -1
        self.checked: str | None = None
        """The exchange to which the user may publish with any key; None: none is known."""
        self.checked_epoch = 0
        """The topology's epoch in which that was so."""
        self.user: str | None = ""
        """In whose name messages are published; None: in anybody's."""
        self.confirming = False
        self.confirm_frames = ConfirmFrames(channel.number)
        self.unnumbered = 0
        """Messages that were published before there were confirms: they have numbers here, which
        the client does not know of."""
        self.transaction: TransactionPort | None = None
        self.replies_at = ""
        self.next_seq = 1
        self.unconfirmed = Unconfirmed()
        self.pending: deque[tuple[Batch, Targets, int]] = deque()
        """Batches that go to so many queues, or came behind such a one, that they are posted in
        pieces (`spread`); each with its first number."""
        self.gathered: Sequence[object] = ()
        """See `gather`."""
        self.wanted: Search | None = None
        """What the next message cannot go out without."""
        self.found: dict[tuple[str, tuple[str, ...], bytes], Search] = {}
        """What was; it is forgotten when the message is out."""
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
        if self.found and done:
            self.found.clear()
        return done

    def search(self) -> Iterator[int]:
        """Find whatever the next message cannot go out without, if anything, and yield the work of
        each piece. Raises ConnectionViolation (501) when its headers cannot be decoded."""
        search, self.wanted = self.wanted, None
        if search is not None:
            try:
                yield from search.pieces(self.vhost, self.channel)
            except Malformed as error:
                raise undecodable(error) from error
            message = search.message
            self.found[search.exchange, message.keys, message.raw] = search

    def publish(self, event: Publishes) -> int:
        """Route a run with one method frame, and return how many of its messages went out. A
        refused message raises its violation after those before it have gone out."""
        contents = event.contents
        route = self.routes.get(event.raw_method)
        if route is None or route.epoch != self.topology.epoch:
            route = self.resolve(event.raw_method, event.method, contents[0])
        if event.same_size:
            properties = self.read_properties(contents[0])
            if event.same_properties or (route.targets is not None and properties.is_plain):
                return self.send_alike(route, properties, contents)
        return self.send_grouped(route, contents)

    def gather(self, found: Iterator[T]) -> tuple[list[T], ProtocolViolation | None]:
        """Return what is found for message after message, as far as the turn's work goes; and the
        violation of the message behind these, None when it was not refused."""
        gathered: list[T] = []
        self.gathered = gathered
        try:
            gathered += found  # which, unlike extend, keeps what came before an error if compiled
        except Spent:
            pass
        except ProtocolViolation as violation:
            return gathered, violation
        finally:
            self.gathered = ()
        return gathered, None

    def look_up(self) -> None:
        """Raise Spent if the turn has no work left for a look-up; the first message of a run always
        has some."""
        if self.gathered and self.channel.scheduler.work <= 0:
            raise Spent

    def publish_mixed_keys(self, event: MixedKeyPublishes) -> int:
        """Route messages that differ only in their routing keys, and return how many went out. When
        each goes to one queue, without anything special, there is a batch for each queue; otherwise
        each message goes alone. A refused one raises its violation after those before it have gone
        out."""
        contents = event.contents
        properties = self.read_properties(contents[0])
        routes, refusal = self.routes_of(event)
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
            targets, lasting = self.choose(route, properties, contents[0])
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
        found, refusal = self.gather(map(self.read_properties, contents))
        is_large = self.services.large_from_bytes.__le__
        done = 0
        for properties, same in stretches(found, contents):
            count = len(same)
            refused = None
            if route.targets is not None and properties.is_plain:
                ways: Iterable[tuple[Targets, list[bytes]]] = [(route.targets, same)]
            else:
                chosen, refused = self.gather(self.ways_of(route, properties, same))
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
            yield self.choose(route, properties, content)[0]

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
                    link = self.link(target.queue)
                    if confirm:
                        self.unconfirmed.sent(first_seq, link)
                    link.send(batch, first_seq, confirm)
                yield TARGET_WORK * len(some)
            pending.popleft()

    def routes_of(self, event: MixedKeyPublishes) -> tuple[list[Route], ProtocolViolation | None]:
        """Return the routes of messages with a method frame each, from the cache or from `resolve`,
        as far as the turn's work goes; and the violation of the message behind these, None when it
        was not refused."""
        routes: list[Route] = []
        self.gathered = routes
        methods, contents = event.methods, event.contents
        try:
            for index, raw_method in enumerate(event.raw_methods):
                route = self.routes.get(raw_method)
                if route is None or route.epoch != self.topology.epoch:
                    route = self.resolve(raw_method, methods[index], contents[index])
                routes.append(route)
        except Spent:
            pass
        except ProtocolViolation as violation:
            return routes, violation
        finally:
            self.gathered = ()
        return routes, None

    def resolve(self, raw_method: bytes, method: BasicPublish, content: bytes) -> Route:
        """Ask the topology for the route of a method frame, make missing links, and cache the
        route. Raises ConnectionViolation (540) for `immediate`, and ChannelViolation when there is
        no such exchange (404) or the user may not publish to it (403); else as `targets_of` does.
        """
        if method.immediate:
            raise ConnectionViolation(540, "immediate=true", *BASIC_PUBLISH)
        topology = self.topology
        rights = self.channel.rights
        if self.access_epoch != rights.access.epoch:
            self.access_epoch = rights.access.epoch
            self.user = None if rights.is_impersonator else rights.user
            self.known_properties.clear()
            self.checked = None
        if self.checked != method.exchange or self.checked_epoch != topology.epoch:
            self.check(method)
        if len(self.routes) >= ROUTES_MAX or self.routes_epoch != topology.epoch:
            self.routes.clear()  # stale ones would keep deleted queues
            self.choices.clear()
            self.destinations.clear()
            self.routes_epoch = topology.epoch
        epoch = topology.epoch
        targets = None if self.found else self.targets_by_key(method)
        if targets is None:
            message = self.message(method, (), properties_of(content))
            targets = self.targets_of(method, message)
            if message.read_content or message.by_chance:
                targets = None
            found = self.found_for(method.exchange, message)
            if found is not None:
                epoch = found.epoch
        traffic = self.vhost.traffic_of(method.exchange)
        route = Route(raw_method, method, self.channel.number, epoch, targets, traffic)
        self.routes[raw_method] = route
        return route

    def check(self, method: BasicPublish) -> None:
        """Raise ChannelViolation when there is no such exchange (404) or the user may not publish
        to it (403) with that key."""
        rights, topology = self.channel.rights, self.topology
        try:
            rights.check_publish(topology, method.exchange, method.routing_key)
        except ChannelViolation as violation:
            violation.class_id, violation.method_id = BASIC_PUBLISH
            raise
        self.checked = None if rights.looks_at_keys(topology, method.exchange) else method.exchange
        self.checked_epoch = topology.epoch

    def targets_by_key(self, method: BasicPublish) -> Targets | None:
        """Return the targets of all messages with that exchange and key; None when more has to be
        asked to find them. Raises Spent when the turn has no work left."""
        self.look_up()
        there = self.topology.queues_by_key(method.exchange, method.routing_key)
        if there is None:
            return None
        names = self.here(there)
        self.channel.spend(len(names) + (len(there) + 1 if len(there) > 1 else 1))
        return self.targets_named(names, None)

    def message(self, method: BasicPublish, further_keys: tuple[str, ...], raw: bytes) -> Message:
        """Return what exchanges may look at in one message with these raw properties, which goes by
        `further_keys` too."""
        message = Message((method.routing_key, *further_keys), raw, self.services.world.dice.below)
        message.is_hasty = True
        return message

    def targets_of(self, method: BasicPublish, message: Message) -> Targets:
        """Ask the topology where a message goes, and make missing links; equal answers are one
        list. Raises Spent when that takes too long for this turn, and ConnectionViolation (501)
        when headers cannot be decoded."""
        found = self.found_for(method.exchange, message)
        if found is None:
            self.look_up()
            try:
                names = self.here(self.topology.route_message(method.exchange, message))
            except TakesLong:
                self.wanted = Search(method.exchange, message, self.topology.epoch)
                raise Spent from None
            except Malformed as error:
                raise undecodable(error) from error
        else:
            message.read_content = found.message.read_content
            message.by_chance = found.message.by_chance
            if found.epoch != self.topology.epoch:
                message.by_chance = True  # others like it may go elsewhere
                return found.linked(self.link)
            names = found.names
        targets = self.targets_named(names, found)
        self.channel.spend(len(names) + len(message.keys) + message.work)
        return targets

    def targets_named(self, names: tuple[str, ...], found: Search | None) -> Targets:
        """Return links to the queues of these names, made if there are none; the same list for the
        same names. With a search that has `found` the queues they are those that it knows."""
        targets = self.destinations.get(names)
        if targets is None:
            if len(self.destinations) >= CHOICES_MAX:
                self.destinations.clear()
            queues = self.vhost.queues
            if found is not None:
                targets = found.linked(self.link)
            elif len(names) > TARGETS_MAX:  # `spread` makes their links, some at a time
                targets = [LinkToCome(self.channel, queues[name]) for name in names]
            else:
                targets = [self.link(queues[name]) for name in names]
            self.destinations[names] = targets
        return targets

    def here(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the queues that this node has made, or has a stand-in for. In a cluster
        there may be others."""
        if self.services.is_alone:
            return names
        queues = self.vhost.queues
        return tuple(name for name in names if name in queues or name in queues.holding)

    def found_for(self, exchange: str, message: Message) -> Search | None:
        """Return the finished search for that message's targets; None when there was none."""
        return self.found.get((exchange, message.keys, message.raw)) if self.found else None

    def choose(
        self, route: Route, properties: PropertyTraits, content: bytes
    ) -> tuple[Targets, bool]:
        """Return the targets of one message, and whether others with equal properties
        go there too."""
        if not properties.further_keys and (route.targets is not None or route.replies):
            return route.targets or [], True
        raw = properties_of(content)
        targets = self.choices.get((route, raw))
        if targets is not None:
            return targets, True
        message = self.message(route.method, properties.further_keys, raw)
        targets = self.targets_of(route.method, message)
        if message.by_chance:
            return targets, False
        if len(raw) <= REMEMBERED_BYTES_MAX:
            if len(self.choices) >= CHOICES_MAX:
                self.choices.clear()
            self.choices[route, raw] = targets
        return targets, True

    def link(self, queue: Queue) -> PublishLink:
        """Return the channel's one link to that queue, after making it if there is none."""
        link = self.links.get(queue)
        if link is None:
            link = self.links[queue] = queue.link_from(self.channel)
        return link

    def read_properties(self, content: bytes) -> PropertyTraits:
        """Return what the broker must know of the message's properties, from the cache or decoded.
        Raises the violation with which RabbitMQ refuses such properties, and Spent when the turn
        has no work left."""
        raw = content[19 : 7 + int.from_bytes(content[3:7])]
        known = self.known_properties.get(raw)
        if known is not None:
            return known
        self.look_up()
        properties = traits_in(raw, self.user, self.replies_at)
        if len(raw) > REMEMBERED_BYTES_MAX:
            self.channel.spend(len(raw) // LARGE_BYTES_PER_UNIT)
            return properties
        if len(self.known_properties) >= TRAITS_MAX:
            self.known_properties.clear()
        self.known_properties[raw] = properties
        return properties

    def reply(self, route: Route, properties: PropertyTraits, contents: list[bytes]) -> None:
        """Send the contents to the reply consumers among their receivers: at once, as in RabbitMQ,
        in a transaction too."""
        method = route.method
        if not method.exchange:
            keys = (method.routing_key, *properties.further_keys)
            traits = route.traits or route.traits_of(False, 0)
            dropped = send_replies(self.directory, keys, contents, traits)
            self.services.counters.dropped += dropped

    def hear_replies(self, consumer: ReplyConsumer | None) -> None:
        """Put the address of this consumer into requests that ask for a reply from now on; None
        when the channel has none any more."""
        self.replies_at = "" if consumer is None else consumer.at
        self.known_properties.clear()

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

    def acknowledgements(self) -> list[bytes]:
        """Return the basic.ack and basic.nack frames that are due or, in a transaction, the answer
        to its commit."""
        if self.transaction is not None:
            return self.transaction.answers()
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
            return [frames.lone(lone - before)]
        return [
            frames.frame(last - before, multiple, nack)
            for last, multiple, nack in self.unconfirmed.drain()
        ]

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
            self.forget_routes()
        if message.is_lost:
            self.unconfirmed.lose(link)

    def release(self) -> None:
        """Drop the reference to the channel, which has had its last turn that matters."""
        if hasattr(self, "channel"):
            del self.channel
        self.transaction = None

    def close(self) -> list[Queue]:
        """End all links at the end of the channel, and return the queues that must be told."""
        for link in self.links.values():
            link.end()
        queues = list(self.links)
        self.links.clear()
        self.forget_routes()
        return queues

    def forget_routes(self) -> None:
        """Clear the cache of routes."""
        self.routes.clear()
        self.choices.clear()
        self.destinations.clear()
