"""Acts at the broker in a user's name, over AMQP: declare, delete, bind, publish, get.

So the broker checks the user's permissions, by the same code as for every client. Each request has
a connection of its own, in a thread; at most SESSIONS_MAX at a time.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import ContentMethod, MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import NO_PROPERTIES
from sluicemq.client.address import Address
from sluicemq.client.messages import BasicProperties, body_of, content, properties_of, publish_frame
from sluicemq.client.session import BrokerError, ClosedByBrokerError
from sluicemq.client.tls import TlsFiles
from sluicemq.client.wire import Wire
from sluicemq.errors import Refused
from sluicemq.management.api_error import ApiError, bad_request, not_authorised, not_found

SESSIONS_MAX: Final = 16
TIMEOUT_S: Final = 10.0
GOT_MAX: Final = 10_000
"""The most messages of one `get`."""

GOT_BYTES_MAX: Final = 64 << 20
"""The most bytes of bodies in one answer to `get`, which ends early then."""

PROPERTY_NAMES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
NUMBERS: Final = ("delivery_mode", "priority", "timestamp")

__all__ = ["NO_PROPERTIES", "T", "UserSession", "UserSessions"]

T = TypeVar("T")


class UserSession:
    """One AMQP connection of a user in a virtual host, within a thread."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def call(self, method: Method, answer: type[Method]) -> Any:
        """Send a method and return its answer."""
        return self.wire.call(method, answer)

    def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> bool:
        """Publish one message, wait for its confirm, and return whether it was routed."""
        wire = self.wire
        self.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        wire.send_bytes(
            publish_frame(exchange, key, True) + content(properties, body, wire.frame_max)
        )
        routed = True
        while True:
            for event in wire.poll(TIMEOUT_S):
                if isinstance(event, ContentMethod):
                    routed = False
                elif isinstance(event, MethodFrame):
                    if isinstance(event.method, m.ConnectionBlocked):
                        raise ApiError(503, "blocked", event.method.reason)
                    return routed
                else:
                    return routed  # the confirm, an event of its own kind

    def get(self, queue: str, count: int, ackmode: str) -> list[dict[str, Any]]:
        """Get up to `count` messages of a queue: the `method` and the `content` of each."""
        wire = self.wire
        found: list[tuple[m.BasicGetOk, bytes]] = []
        size = 0
        is_over = False
        while len(found) < count and not is_over and size < GOT_BYTES_MAX:
            wire.send(m.BasicGet(queue=queue, no_ack=False))
            before = len(found)
            while len(found) == before and not is_over:
                for event in wire.poll(TIMEOUT_S):
                    if isinstance(event, ContentMethod):
                        assert isinstance(event.method, m.BasicGetOk)
                        found.append((event.method, event.content))
                        size += len(event.content)
                    elif isinstance(event, MethodFrame):
                        is_over = isinstance(event.method, m.BasicGetEmpty)
        if found:
            last = found[-1][0].delivery_tag
            requeue = ackmode.endswith("requeue_true")
            if ackmode.startswith("ack"):
                wire.send(
                    m.BasicNack(last, multiple=True, requeue=True)
                    if requeue
                    else m.BasicAck(last, multiple=True)
                )
            else:
                wire.send(m.BasicNack(last, multiple=True, requeue=requeue))
            self.call(m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk)
        return [{"method": got, "content": frames} for got, frames in found]


class UserSessions:
    """Opens sessions at the broker's listener, one of `urls`."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(SESSIONS_MAX)

    async def run(
        self,
        urls: list[str],
        user: str,
        password: str,
        vhost: str,
        work: Callable[[UserSession], T],
    ) -> T:
        """Do `work` in a session of that user, and return its result. Raises ApiError in RabbitMQ's
        words when the broker refuses it."""
        address = address_of(urls, user, password, vhost)
        async with self.room:
            return await asyncio.to_thread(in_session, address, work)


def address_of(urls: list[str], user: str, password: str, vhost: str) -> Address:
    """Return the address of a listener of the broker, without TLS if it has one. Raises ApiError
    when it has no listener yet."""
    if not urls:
        raise ApiError(503, "not_ready", "the broker does not accept clients yet")
    parts = urlsplit(sorted(urls)[0])
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    secure = parts.scheme == "amqps"
    files = TlsFiles(verify=False)  # this is our own broker on this machine
    return Address(host, parts.port or 5672, user, password, vhost, secure, files)


def in_session(address: Address, work: Callable[[UserSession], T]) -> T:
    """Open a session, do the work, close it. Raises ApiError in RabbitMQ's words."""
    try:
        wire = Wire(address, TIMEOUT_S, "management", address.tls)
    except (ClosedByBrokerError, BrokerError) as error:
        raise not_authorised(f"Access refused: {error}") from error
    except Refused as error:
        raise bad_request(str(error)) from error
    try:
        return work(UserSession(wire))
    except ClosedByBrokerError as closed:
        raise answer_to(closed) from closed
    except BrokerError as error:
        raise ApiError(503, "broker", str(error)) from error
    finally:
        wire.close()


def answer_to(closed: ClosedByBrokerError) -> ApiError:
    """Return RabbitMQ's answer for a refusal of AMQP: the code and the text."""
    if closed.code == 404:
        return not_found()
    if closed.code == 403:
        return not_authorised(closed.text)
    return bad_request(closed.text)


def encoded_properties(given: dict[str, Any]) -> bytes:
    """Return properties of a JSON object in AMQP's form. Raises ApiError for unknown ones."""
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name not in PROPERTY_NAMES:
            raise bad_request(f"unknown property {name}")
        wanted: type = dict if name == "headers" else int if name in NUMBERS else str
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise bad_request(f"property {name} must be of the type {wanted.__name__}")
        chosen[name] = value
    try:
        return BasicProperties(**chosen).encode()
    except (ValueError, TypeError, OverflowError) as error:
        raise bad_request(f"properties that cannot be sent: {error}") from error


def shown_message(
    got: m.BasicGetOk, frames: bytes, encoding: str, truncate: int | None
) -> dict[str, Any]:
    """Return a message as `get` shows it, with its payload as text if it is UTF-8 and `encoding`
    is "auto", else as base64; at most `truncate` bytes of it."""
    body = body_of(frames)
    properties = BasicProperties.decode(properties_of(frames))
    shown = {
        name: jsonable(getattr(properties, name))
        for name in PROPERTY_NAMES
        if getattr(properties, name) is not None
    }
    kept = body if truncate is None else body[:truncate]
    try:
        payload, used = kept.decode(), "string"
    except UnicodeDecodeError:
        payload, used = "", "base64"
    if used == "base64" or encoding == "base64":
        payload, used = base64.b64encode(kept).decode(), "base64"
    return {
        "payload_bytes": len(body),
        "redelivered": got.redelivered,
        "exchange": got.exchange,
        "routing_key": got.routing_key,
        "message_count": got.message_count,
        "properties": shown,
        "payload": payload,
        "payload_encoding": used,
    }


def jsonable(value: Any) -> Any:
    """Return a property's value in a form that JSON has."""
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "seconds", str(value))
