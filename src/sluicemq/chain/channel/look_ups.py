"""What a channel has found out for the messages published on it: where they go, and what the broker
must know of their properties.

One look-up leads from the raw method frame of a run to its Route: the queues and their links.
Another leads from the raw properties to their traits. Neither is decoded again for as long as
producers repeat themselves; a change of topology makes routes stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from sluicemq.amqp.types import Malformed
from sluicemq.chain.channel.routes import LinkToCome, Route
from sluicemq.chain.property_traits import BASIC_PUBLISH, traits_in, undecodable
from sluicemq.chain.queue.queue import TARGETS_MAX
from sluicemq.errors import ChannelViolation, ConnectionViolation, ProtocolViolation
from sluicemq.limits import CHOICES_MAX, REMEMBERED_BYTES_MAX, ROUTES_MAX, TRAITS_MAX
from sluicemq.model.content import properties_of
from sluicemq.routing.exchange import PIECE
from sluicemq.routing.message import Message, TakesLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.amqp.events import MixedKeyPublishes
    from sluicemq.amqp.methods import BasicPublish
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.reply_to import ReplyConsumer
    from sluicemq.chain.channel.routes import Targets
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import PublishLink, Queue
    from sluicemq.model.traits import PropertyTraits

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


class LookUps:
    """The routes that one channel has found, what it knows of properties, and its links to
    queues."""

    __deletable__ = ("channel",)

    def __init__(self, channel: ChannelPort) -> None:
        self.channel = channel
        self.services = channel.services
        self.vhost = channel.vhost
        self.topology = channel.vhost.topology
        self.routes: dict[bytes, Route] = {}
        self.last_route: Route | None = None
        """The one that was looked up last: most channels publish in one way."""
        self.routes_epoch = 0
        self.known_properties: dict[bytes, PropertyTraits] = {}
        self.last_raw = b""
        """The properties that were looked up last, and what is known of them; None: nothing is."""
        self.last_properties: PropertyTraits | None = None
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
        self.replies_at = ""
        self.gathered: Sequence[object] = ()
        """See `gather`."""
        self.wanted: Search | None = None
        """What the next message cannot go out without."""
        self.found: dict[tuple[str, tuple[str, ...], bytes], Search] = {}
        """What was; it is forgotten when the message is out."""

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

    def message_out(self) -> None:
        """Forget what was found for a message that is out."""
        if self.found:
            self.found.clear()

    def route_of(self, raw_method: bytes, method: BasicPublish, content: bytes) -> Route:
        """Return the route of a method frame, from the cache or from `resolve`."""
        route = self.last_route
        if route is None or route.raw_method is not raw_method:
            route = self.routes.get(raw_method)
        if route is None or route.epoch != self.topology.epoch:
            route = self.resolve(raw_method, method, content)
        self.last_route = route
        return route

    def routes_of(self, event: MixedKeyPublishes) -> tuple[list[Route], ProtocolViolation | None]:
        """Return the routes of messages with a method frame each, from the cache or from `resolve`,
        as far as the turn's work goes; and the violation of the message behind these, None when it
        was not refused."""
        routes: list[Route] = []
        self.gathered = routes
        methods, contents = event.methods, event.contents
        try:
            for index, raw_method in enumerate(event.raw_methods):
                routes.append(self.route_of(raw_method, methods[index], contents[index]))
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
            self.forget_properties()
            self.checked = None
        if self.checked != method.exchange or self.checked_epoch != topology.epoch:
            self.check(method)
        if len(self.routes) >= ROUTES_MAX or self.routes_epoch != topology.epoch:
            self.forget_routes()  # stale ones would keep deleted queues
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
        size = content[3] << 24 | content[4] << 16 | content[5] << 8 | content[6]
        raw = content[19 : 7 + size]
        known = self.last_properties
        if known is not None and raw == self.last_raw:
            return known
        known = self.known_properties.get(raw)
        if known is not None:
            self.last_raw = raw
            self.last_properties = known
            return known
        self.look_up()
        properties = traits_in(raw, self.user, self.replies_at)
        if len(raw) > REMEMBERED_BYTES_MAX:
            self.channel.spend(len(raw) // LARGE_BYTES_PER_UNIT)
            return properties
        if len(self.known_properties) >= TRAITS_MAX:
            self.forget_properties()
        self.known_properties[raw] = properties
        return properties

    def forget_properties(self) -> None:
        """Clear the cache of properties."""
        self.last_properties = None
        self.known_properties.clear()

    def forget_routes(self) -> None:
        """Clear the cache of routes."""
        self.last_route = None
        self.routes.clear()
        self.choices.clear()
        self.destinations.clear()

    def hear_replies(self, consumer: ReplyConsumer | None) -> None:
        """Put the address of this consumer into requests that ask for a reply from now on; None
        when the channel has none any more."""
        self.replies_at = "" if consumer is None else consumer.at
        self.forget_properties()

    def release(self) -> None:
        """Drop the reference to the channel, which has had its last turn that matters."""
        if hasattr(self, "channel"):
            del self.channel
