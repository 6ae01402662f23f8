"""What a test does with queues and messages besides the code under test: declare, publish, look,
wait, and assert.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.amqp.events import Acks, ContentMethod, MethodFrame
from sluicemq.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
)
from sluicemq.client.blocking import connect
from sluicemq.client.messages import (
    BasicProperties,
    body_of,
    content,
    properties_of,
    publish_frame,
)
from sluicemq.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluicemq.amqp.types import Table
    from sluicemq.cli.control_client import Row
    from sluicemq.client.blocking import BlockingClient
    from sluicemq.testing.endpoint import BrokerEndpoint

WAIT_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.005
ANSWER_SECONDS: Final = 10.0


class Peeked(NamedTuple):
    """A message that was peeked at, and is still in its queue."""

    body: bytes
    properties: BasicProperties
    exchange: str
    routing_key: str
    redelivered: bool


class Counts(NamedTuple):
    """How many messages a queue holds, ready and unacknowledged, and how many were published to it
    since the broker started."""

    ready: int
    unacknowledged: int
    seen: int


class Admin:
    """Access of a test to one virtual host of its broker. Each call is done when it returns. Raises
    Refused, or ClosedByBrokerError, with the broker's words."""

    def __init__(self, broker: BrokerEndpoint, vhost: str) -> None:
        self.broker = broker
        self.vhost = vhost

    @property
    def url(self) -> str:
        """Return the URL of this virtual host, with user and password."""
        return self.broker.url_of(self.vhost)

    def client(self) -> BlockingClient:
        """Return a connection with one channel, to be closed by its `with`."""
        return connect(self.url, timeout_s=ANSWER_SECONDS, name="sluicemq.testing")

    # making things

    def declare_queue(
        self, name: str, *, durable: bool = True, arguments: Table | None = None
    ) -> None:
        """Declare a queue; one that exists with the same properties stays."""
        with self.client() as client:
            client.declare_queue(name, durable=durable, arguments=arguments)

    def declare_exchange(self, name: str, kind: str = "topic", *, durable: bool = True) -> None:
        """Declare an exchange of the type `kind`."""
        with self.client() as client:
            client.declare_exchange(name, kind, durable=durable)

    def bind_queue(self, queue: str, exchange: str, routing_key: str = "") -> None:
        """Bind a queue to an exchange."""
        with self.client() as client:
            client.bind_queue(queue, exchange, routing_key)

    def publish(
        self,
        routing_key: str,
        *bodies: bytes | str,
        exchange: str = "",
        properties: BasicProperties | None = None,
        wait: float = WAIT_SECONDS,
    ) -> None:
        """Publish messages, persistent ones unless `properties` say otherwise, and wait until the
        broker has confirmed them. Raises Refused when it has rejected one, there is no queue for
        one, or one is not confirmed within `wait` seconds."""
        raw = (properties or BasicProperties(delivery_mode=2)).encode()
        with self.client() as client:
            client.call(ConfirmSelect(), ConfirmSelectOk)
            method = publish_frame(exchange, routing_key, True)
            for body in bodies:
                octets = body.encode() if isinstance(body, str) else body
                client.send_bytes(method + content(raw, octets, client.frame_max))
            await_confirms(client, len(bodies), wait, f"exchange {exchange!r}, key {routing_key!r}")

    def purge(self, queue: str) -> None:
        """Drop the ready messages of a queue."""
        with self.client() as client:
            client.purge_queue(queue)

    def definitions(self) -> dict[str, Any]:
        """Return the definitions of the virtual host, as RabbitMQ's JSON."""
        rows = self.broker.ask("export_definitions", vhost=self.vhost)
        found: dict[str, Any] = json.loads(rows[0]["file"])
        return found

    def load(self, definitions: Mapping[str, Any]) -> None:
        """Import definitions into the virtual host. Raises Refused, with every error in the
        document, when anything is wrong, and imports nothing then."""
        self.broker.ask("import_definitions", vhost=self.vhost, file=json.dumps(definitions))

    # looking

    def queues(self, *columns: str) -> list[Row]:
        """Return the queues with these columns of `sluicemq ctl list_queues`."""
        names = columns or ("name", "messages_ready", "messages_unacknowledged", "consumers")
        return self.broker.ask("list_queues", vhost=self.vhost, columns=list(names))

    def counts(self, queue: str) -> Counts:
        """Return how many messages a queue holds and has seen. Raises Refused when it does not
        exist."""
        row = self.broker.ask("test_queue", vhost=self.vhost, queue=queue)[0]
        return Counts(row["ready"], row["unacknowledged"], row["seen"])

    def peek(self, queue: str, count: int = 1) -> list[Peeked]:
        """Return up to `count` next messages of a queue, and leave them in their places. The queue
        does not notice, unless one of them is on the disk: then they are got and put back, and are
        flagged as redelivered afterwards."""
        found = self.look(queue, count)
        return self.get_and_return(queue, count) if found is None else found

    def look(self, queue: str, count: int = 1) -> list[Peeked] | None:
        """Return the next messages of a queue as `peek` does, but None when one of them is on the
        disk."""
        answer = self.broker.ask("test_peek", vhost=self.vhost, queue=queue, count=count)[0]
        return None if answer["on_disk"] else [*map(peeked, answer["messages"])]

    def get_and_return(self, queue: str, count: int) -> list[Peeked]:
        """Get messages from a queue, put them back, and return them."""
        found: list[Peeked] = []
        with self.client() as client:
            tag = 0
            while len(found) < count and (got := get(client, queue)) is not None:
                method, frames = got
                tag = method.delivery_tag
                properties = BasicProperties.decode(properties_of(frames))
                found.append(
                    Peeked(
                        body_of(frames),
                        properties,
                        method.exchange,
                        method.routing_key,
                        method.redelivered,
                    )
                )
            if tag:
                client.send(BasicNack(tag, multiple=True, requeue=True))
            client.count_queue(queue)  # it is answered after that
        return found

    def bodies(self, queue: str, count: int = 1000) -> list[bytes]:
        """Return the bodies of the next messages of a queue, as `peek` does."""
        return [each.body for each in self.peek(queue, count)]

    # -- waiting and asserting

    def wait_until(
        self,
        queue: str,
        *,
        ready: int | None = None,
        unacknowledged: int | None = None,
        seen: int | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> Counts:
        """Wait until a queue holds exactly that many messages, and has seen at least that many;
        None does not matter. Raises AssertionError, which tells the actual figures, after `timeout`
        seconds."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.counts(queue)
            if (
                (ready is None or found.ready == ready)
                and (unacknowledged is None or found.unacknowledged == unacknowledged)
                and (seen is None or found.seen >= seen)
            ):
                return found
            if time.monotonic() > deadline:
                wanted = {"ready": ready, "unacknowledged": unacknowledged, "seen": seen}
                asked = {name: value for name, value in wanted.items() if value is not None}
                raise AssertionError(f"queue {queue!r} has {found}, not {asked}, for {timeout} s")
            time.sleep(LOOK_SECONDS)

    def assert_routed(self, exchange: str, routing_key: str, queues: Iterable[str]) -> None:
        """Raise AssertionError unless a message with that key, and no headers, would go to exactly
        these queues."""
        rows = self.broker.ask(
            "test_route", vhost=self.vhost, exchange=exchange, routing_key=routing_key
        )
        found, wanted = sorted(row["queue"] for row in rows), sorted(queues)
        assert found == wanted, (
            f"exchange {exchange!r} sends {routing_key!r} to {found}, not to {wanted}"
        )

    def assert_nothing_left(self, *queues: str) -> None:
        """Raise AssertionError when one of these queues holds a message, ready or not; without
        names, when any queue of the virtual host does."""
        left = {
            row["name"]: (row["messages_ready"], row["messages_unacknowledged"])
            for row in self.queues()
            if (not queues or row["name"] in queues)
            and row["messages_ready"] + row["messages_unacknowledged"]
        }
        assert not left, f"messages are left (ready, unacknowledged): {left}"

    def assert_no_unacknowledged(self, *queues: str) -> None:
        """Raise AssertionError when a message of one of these queues, or without names of any in
        the virtual host, was delivered and not acknowledged."""
        left = {
            row["name"]: row["messages_unacknowledged"]
            for row in self.queues()
            if (not queues or row["name"] in queues) and row["messages_unacknowledged"]
        }
        assert not left, f"messages are not acknowledged: {left}"


def peeked(row: Row) -> Peeked:
    """Return a message as the broker describes it."""
    frames = b64decode(row["content"])
    properties = BasicProperties.decode(properties_of(frames))
    where = row["exchange"], row["routing_key"]
    return Peeked(body_of(frames), properties, *where, row["redelivered"])


def get(client: BlockingClient, queue: str) -> tuple[BasicGetOk, bytes] | None:
    """Get one message with its content, None when the queue is empty. Raises ClosedByBrokerError
    when there is no such queue."""
    client.send(BasicGet(queue=queue))
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        for event in client.poll(ANSWER_SECONDS):
            if isinstance(event, ContentMethod) and isinstance(event.method, BasicGetOk):
                return event.method, event.content
            if isinstance(event, MethodFrame) and isinstance(event.method, BasicGetEmpty):
                return None
    raise Refused(f"the broker has not answered basic.get on {queue!r}")


def await_confirms(client: BlockingClient, count: int, wait: float, where: str) -> None:
    """Wait until `count` messages are confirmed. Raises Refused when one is rejected, is returned
    because there is no queue for it, or is not confirmed within `wait` seconds."""
    left = set(range(1, count + 1))
    deadline = time.monotonic() + wait
    while left:
        if time.monotonic() > deadline:
            raise Refused(f"{where}: {len(left)} messages are not confirmed")
        for event in client.poll(min(wait, 1.0)):
            if isinstance(event, ContentMethod):
                raise Refused(f"{where}: there is no queue for it")
            if isinstance(event, Acks):
                left.difference_update(event.tags)
            elif isinstance(event, MethodFrame) and isinstance(event.method, BasicAck):
                last = event.method.delivery_tag
                left = {tag for tag in left if tag > last}
            elif isinstance(event, MethodFrame) and isinstance(event.method, BasicNack):
                raise Refused(f"{where}: the broker has refused it (basic.nack)")
