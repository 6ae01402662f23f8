"""The publishing half of a channel: from a run of publishes to batches at queues.

The raw method frame of a run leads, by one look-up, to its Route: the queues and their links. The
raw properties lead, by another, to what the broker must know of them. Neither is looked at again
for as long as producers repeat themselves; a change of topology makes routes stale.
"""

from __future__ import annotations

import struct
from itertools import groupby
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.methods import BasicReturn
from sluicemq.amqp.properties import (
    DELIVERY_MODE,
    EXPIRATION,
    USER_ID,
    delivery_mode,
    text_property,
)
from sluicemq.chain.deliveries import short_string
from sluicemq.chain.queue import Enqueue
from sluicemq.errors import NO_ROUTE, ChannelViolation, ConnectionViolation
from sluicemq.flow.confirms import Unconfirmed
from sluicemq.limits import KINDS_MAX, ROUTES_MAX
from sluicemq.model.batch import Batch, size_of
from sluicemq.queues.commands import Publish

if TYPE_CHECKING:
    from sluicemq.amqp.connection import Publishes
    from sluicemq.amqp.methods import BasicPublish
    from sluicemq.chain.channel import Channel
    from sluicemq.chain.queue import Queue
    from sluicemq.flow.credit import Inflow, Outflow

BASIC_PUBLISH: Final = (60, 40)
NEEDS_LOOK: Final = DELIVERY_MODE | EXPIRATION | USER_ID
"""Others are none of the broker's business."""
PERSISTENT: Final = 2


class Route:
    """Where the publishes of one raw method frame go."""

    __slots__ = ("address", "epoch", "mandatory", "method", "targets")

    def __init__(
        self, method: BasicPublish, epoch: int, targets: list[tuple[Queue, Outflow, Inflow]]
    ) -> None:
        self.method = method
        self.address = short_string(method.exchange) + short_string(method.routing_key)
        self.mandatory = method.mandatory
        self.epoch = epoch
        self.targets = targets


class Publishing:
    """Routes, links to queues and confirms of one channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.broker = channel.broker
        self.routes: dict[bytes, Route] = {}
        self.routes_epoch = 0
        self.kinds: dict[bytes, bool] = {}
        self.links: dict[Queue, tuple[Outflow, Inflow]] = {}
        self.confirming = False
        self.next_seq = 1
        self.unconfirmed = Unconfirmed()
        self.published = 0

    def publish(self, event: Publishes) -> None:
        """Route a run. A message that is refused closes the channel; those before it went out."""
        route = self.routes.get(event.raw_method)
        if route is None or route.epoch != self.broker.topology.epoch:
            route = self.resolve(event)
        contents = event.contents
        if event.uniform or len(contents) == 1:
            persistent = self.is_persistent(contents[0])
            large = len(contents[0]) >= self.broker.large_from_bytes
            self.send(route, contents, event.size, True, persistent, large)
            return
        refusal: ChannelViolation | None = None
        kinds: list[bool] = []
        try:
            kinds.extend(map(self.is_persistent, contents))
        except ChannelViolation as violation:
            refusal = violation  # `kinds` has those before it
        start = 0
        for persistent, run in groupby(kinds):
            end = start + sum(1 for _ in run)
            self.send_uneven(route, contents[start:end], persistent)
            start = end
        if refusal is not None:
            raise refusal

    def send_uneven(self, route: Route, contents: list[bytes], persistent: bool) -> None:
        """Contents of different sizes: large ones are kept elsewhere than small ones."""
        limit = self.broker.large_from_bytes
        start = 0
        for large, run in groupby(contents, lambda content: len(content) >= limit):
            end = start + sum(1 for _ in run)
            same = contents[start:end]
            self.send(route, same, size_of(same, False), False, persistent, large)
            start = end

    def send(
        self,
        route: Route,
        contents: list[bytes],
        size: int,
        even: bool,
        persistent: bool,
        large: bool,
    ) -> None:
        """One batch to all its queues."""
        count = len(contents)
        self.published += count
        self.broker.counters.published += count
        targets = route.targets
        first_seq = 0
        if self.confirming:
            first_seq = self.next_seq
            self.next_seq += count
        if not targets:
            self.unroutable(route, contents)
        if first_seq:
            self.unconfirmed.expect(first_seq, count, len(targets))
        channel = self.channel
        number = channel.number
        first_id = self.broker.message_ids(count) if large else 0
        batch = Batch(
            route.address, contents, size, even, persistent, number, len(targets), first_id
        )
        for queue, outflow, inflow in targets:
            outflow.spend(count)
            queue.post(Enqueue(Publish(batch, channel, first_seq), inflow))

    def resolve(self, event: Publishes) -> Route:
        """Ask the topology, make the links that are missing, remember the route."""
        method = event.method
        if method.immediate:
            raise ConnectionViolation(540, "immediate=true", *BASIC_PUBLISH)
        topology = self.broker.topology
        try:
            topology.check_publish(method.exchange)
        except ChannelViolation as violation:
            violation.class_id, violation.method_id = BASIC_PUBLISH
            raise
        names = topology.route(method.exchange, method.routing_key)
        targets = [
            (queue, *self.link(queue)) for queue in map(self.broker.queues.__getitem__, names)
        ]
        if len(self.routes) >= ROUTES_MAX or self.routes_epoch != topology.epoch:
            self.routes.clear()  # stale ones would keep deleted queues
        self.routes_epoch = topology.epoch
        route = Route(method, topology.epoch, targets)
        self.routes[event.raw_method] = route
        return route

    def link(self, queue: Queue) -> tuple[Outflow, Inflow]:
        """The channel's one link to that queue."""
        halves = self.links.get(queue)
        if halves is None:
            halves = self.links[queue] = self.broker.link_to_queue(self.channel, queue)
        return halves

    def is_persistent(self, content: bytes) -> bool:
        """delivery-mode 2. Refuses what RabbitMQ refuses in properties: 406."""
        size = int.from_bytes(content[3:7])
        raw = content[19 : 7 + size]
        known = self.kinds.get(raw)
        if known is not None:
            return known
        if int.from_bytes(raw[:2]) & NEEDS_LOOK:
            persistent = self.look(raw)
        else:
            persistent = False
        if len(self.kinds) >= KINDS_MAX:
            self.kinds.clear()
        self.kinds[raw] = persistent
        return persistent

    def look(self, raw: bytes) -> bool:
        """Check the properties that concern the broker."""
        mode = delivery_mode(raw)
        if mode > PERSISTENT:
            raise refused(f"invalid message: {{delivery_mode_unknown,{mode}}}")
        expiration = text_property(raw, EXPIRATION)
        if expiration is not None:
            check_expiration(expiration.decode(errors="replace"))
        user = self.channel.reader.user
        claimed = text_property(raw, USER_ID)
        if claimed is not None and claimed != user.encode():
            name = claimed.decode(errors="replace")
            text = f"user_id property set to '{name}' but authenticated user was '{user}'"
            raise refused(text)
        return mode == PERSISTENT

    def unroutable(self, route: Route, contents: list[bytes]) -> None:
        """mandatory: back to the publisher, before any confirm; else dropped."""
        counters = self.broker.counters
        if not route.mandatory:
            counters.dropped += len(contents)
            return
        counters.returned += len(contents)
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

    def confirm(self, first_seq: int, count: int) -> None:
        """A queue has made publishes safe."""
        self.broker.counters.confirmed += count
        self.unconfirmed.confirm(first_seq, count)

    def acknowledgements(self) -> list[bytes]:
        """The basic.ack and basic.nack frames that are due."""
        number = self.channel.number
        return [
            CONFIRM(1, number, 13, 60, 120 if nack else 80, tag, multiple, 0xCE)
            for tag, multiple, nack in self.unconfirmed.drain()
        ]

    def forget(self, queue: Queue) -> None:
        """A queue was deleted: it holds up nobody."""
        halves = self.links.pop(queue, None)
        if halves is not None:
            for half in halves:
                half.detach()

    def close(self) -> list[Queue]:
        """The channel ends; returns the queues that must hear of it."""
        for outflow, inflow in self.links.values():
            outflow.detach()
            inflow.detach()
        queues = list(self.links)
        self.links.clear()
        self.routes.clear()
        return queues


CONFIRM: Final = struct.Struct(">BHIHHQBB").pack
"""A whole basic.ack or basic.nack frame; the bits octet is multiple alone."""


def refused(text: str) -> ChannelViolation:
    """406 for a publish."""
    return ChannelViolation(406, text, *BASIC_PUBLISH)


def check_expiration(text: str) -> None:
    """`expiration` must be a whole number of milliseconds, not negative."""
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit():
        raise refused(f"invalid expiration '{text}': no_integer")
    if text.startswith("-"):
        raise refused(f"invalid expiration '{text}': {{value_negative,{text}}}")
