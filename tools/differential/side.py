"""One broker in the course of a script, as pika sees it: how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    AMQPChannelError,
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)

from scripts import CHANNELS, Step

Address = tuple[str, int]
"""Host and port."""
FINAL = ("answer", "channel closed", "connection closed")
"""Events that do not become the same by waiting."""


@dataclass
class Line:
    """One channel of a script."""

    mode: str
    channel: BlockingChannel
    out: list[int] = field(default_factory=list)
    """Delivery tags that are not settled."""
    held: list[int] = field(default_factory=list)
    """Settled in the transaction that is open."""


class Side:
    """One broker in the course of one script. `addresses` are where it is reached: the first is
    everybody's but the stranger's, whose is the last."""

    def __init__(self, addresses: Sequence[Address], vhost: str, prefix: str) -> None:
        self.addresses = addresses
        self.vhost = vhost
        self.prefix = prefix
        self.hurried = False
        self.events: list[tuple[Any, ...]] = []
        """What came in this step."""
        self.names: set[str] = set()
        self.quorum: set[str] = set()
        """Those of `names` that may be quorum queues."""
        self.single: set[str] = set()
        """Those of them that may have a single active consumer."""
        self.exchanges: set[str] = set()
        self.bound: list[dict[str, Any]] = []
        """Bindings between exchanges; some of these stay."""
        self.lines: dict[str, Line] = {}
        self.connections: dict[bool, BlockingConnection] = {}
        self.open()

    def open(self) -> None:
        """Connections and channels that are not there."""
        for stranger in (False, True):
            known = self.connections.get(stranger)
            if known is None or not known.is_open:
                address = self.addresses[-1 if stranger else 0]
                self.connections[stranger] = connected(address, self.vhost)
        for mode in (*CHANNELS, "watch", "declare"):
            known_line = self.lines.get(mode)
            if known_line is None or not known_line.channel.is_open:
                self.lines[mode] = self.new_line(mode)

    def new_line(self, mode: str) -> Line:
        channel = self.connections[mode == "stranger"].channel()
        if mode == "confirm":
            channel.confirm_delivery()
        elif mode == "tx":
            channel.tx_select()
        if mode != "confirm":
            channel.add_on_return_callback(self.returned)
        channel.add_on_cancel_callback(
            lambda frame: self.events.append(("cancelled", frame.method.consumer_tag))
        )
        return Line(mode, channel)

    def close(self) -> None:
        """Delete everything and go."""
        with suppress(AMQPConnectionError, AMQPChannelError):
            self.open()
            for mode in CHANNELS:  # so that nothing is held, nor anybody consumes
                self.lines[mode].channel.close()
            channel = self.lines["declare"].channel
            for binding in self.bound:
                channel.exchange_unbind(**binding)
            for name in self.names:
                channel.queue_delete(name)
            for name in self.exchanges:
                channel.exchange_delete(name)
        for connection in self.connections.values():
            with suppress(AMQPConnectionError):
                connection.close()

    # -- a step

    def do(self, step: Step) -> None:
        """One step; what it brings is in `events`."""
        what, given = step
        self.events = []
        given = named(given, self.prefix)
        line = self.lines[given.pop("channel", "declare")]
        try:
            answer = getattr(self, what)(line, **given)
            self.events.append(("answer", answer))
            if line.channel.is_open:  # and stays so, when all before it is done
                line.channel.exchange_declare("amq.direct", passive=True)
        except ChannelClosedByBroker as closed:
            if line.mode != "confirm" and what in ("publish", "settle"):  # nobody waited for it
                self.events = [event for event in self.events if event[0] != "answer"]
            self.events.append(("channel closed", closed.reply_code, closed.reply_text))
        except ConnectionClosedByBroker as closed:
            self.events.append(("connection closed", closed.reply_code, closed.reply_text))
        self.open()

    def view(self) -> tuple[list[tuple[Any, ...]], list[tuple[str, int, int] | None]]:
        """All that came in this step, and every queue as it is now."""
        counts = [self.counts(name) for name in sorted(self.names)]
        for connection in self.connections.values():
            connection.process_data_events(time_limit=0)
        cancelled = [event for event in self.events if event[0] == "cancelled"]
        others = [event for event in self.events if event[0] not in ("cancelled", *FINAL)]
        if self.quorum:
            others.sort(key=by_channel)
        final = [event for event in self.events if event[0] in FINAL]
        return final + others + sorted(cancelled), counts

    def counts(self, name: str) -> tuple[str, int, int] | None:
        """Messages and consumers, None when there is no such queue."""
        try:
            method = self.lines["watch"].channel.queue_declare(name, passive=True).method
        except ChannelClosedByBroker as closed:
            self.lines["watch"] = self.new_line("watch")
            return None if closed.reply_code == 404 else (closed.reply_text, 0, 0)
        return name, method.message_count, self.consumers(method)

    def consumers(self, method: Any) -> int:
        """The consumers of a queue that was declared. RabbitMQ's quorum queues count as one, too,
        who has got messages or has cancelled, and not those that wait for the single active one:
        then there are none here."""
        if method.queue in self.single:
            return 0
        held = any(line.out or line.held for line in self.lines.values())
        return 0 if held and method.queue in self.quorum else int(method.consumer_count)

    def hurry(self, _: Line) -> None:
        self.hurried = True

    def declare_queue(self, line: Line, queue: str, **given: Any) -> tuple[str, int, int]:
        self.names.add(queue)
        arguments = given.get("arguments", {})
        if arguments.get("x-queue-type") == "quorum":
            self.quorum.add(queue)
            if "x-single-active-consumer" in arguments:
                self.single.add(queue)
        method = line.channel.queue_declare(queue, **given).method
        return method.queue, method.message_count, self.consumers(method)

    def declare_exchange(self, line: Line, exchange: str, **given: Any) -> None:
        self.exchanges.add(exchange)
        line.channel.exchange_declare(exchange, **given)

    def bind_queue(self, line: Line, **given: Any) -> None:
        line.channel.queue_bind(**given)

    def unbind_queue(self, line: Line, **given: Any) -> None:
        line.channel.queue_unbind(**given)

    def bind_exchange(self, line: Line, **given: Any) -> None:
        line.channel.exchange_bind(**given)
        self.bound.append(given)

    def unbind_exchange(self, line: Line, **given: Any) -> None:
        line.channel.exchange_unbind(**given)

    def publish(
        self,
        line: Line,
        exchange: str,
        key: str,
        mandatory: bool,
        bodies: list[str],
        properties: dict[str, Any],
    ) -> list[str]:
        """ack, nack, or sent when nobody says."""
        said = []
        for body in bodies:
            try:
                line.channel.basic_publish(
                    exchange, key, body.encode(), pika.BasicProperties(**properties), mandatory
                )
                said.append("ack" if line.mode == "confirm" else "sent")
            except NackError:
                said.append("nack")
            except UnroutableError as error:
                for each in error.messages:
                    self.returned(None, each.method, each.properties, each.body)
                said.append("returned")
        return said

    def returned(self, _: object, method: Any, properties: Any, body: bytes) -> None:
        text = (method.reply_code, method.reply_text, method.exchange, method.routing_key)
        self.events.append(("returned", *text, seen(properties), body))

    def get(self, line: Line, queue: str, auto_ack: bool) -> object:
        method, properties, body = line.channel.basic_get(queue, auto_ack)
        if method is None:
            return "empty"
        if not auto_ack:
            line.out.append(method.delivery_tag)
        where = (method.delivery_tag, method.exchange, method.routing_key, method.message_count)
        return (method.redelivered, *where, seen(properties), body)

    def consume(self, line: Line, queue: str, tag: str, auto_ack: bool, **given: Any) -> object:
        def delivered(_: object, method: Any, properties: Any, body: bytes) -> None:
            if not auto_ack:
                line.out.append(method.delivery_tag)
            where = (method.delivery_tag, method.exchange, method.routing_key)
            mark = "again" if method.redelivered else "new"
            self.events.append(("delivered", line.mode, tag, mark, *where, seen(properties), body))

        if tag in line.channel.consumer_tags:
            return "has it"
        return line.channel.basic_consume(queue, delivered, auto_ack, consumer_tag=tag, **given)

    def cancel(self, line: Line, tag: str) -> None:
        if tag in line.channel.consumer_tags:
            line.channel.basic_cancel(tag)

    def settle(
        self, line: Line, how: str, nth: int, multiple: bool, requeue: bool, twice: bool
    ) -> str:
        if not line.out:
            return "nothing is out"
        line.out.sort()
        tag = line.out[nth % len(line.out)]
        done = [each for each in line.out if each == tag or (multiple and each < tag)]
        if how == "reject":
            done = [tag]
        line.out = [each for each in line.out if each not in done]
        for _ in range(2 if twice else 1):
            if how == "ack":
                line.channel.basic_ack(tag, multiple)
            elif how == "nack":
                line.channel.basic_nack(tag, multiple, requeue)
            else:
                line.channel.basic_reject(tag, requeue)
        if line.mode == "tx":
            line.held += done
        return f"{how} {done}"

    def qos(self, line: Line, **given: Any) -> None:
        line.channel.basic_qos(**given)

    def recover(self, line: Line, requeue: bool) -> None:
        line.out = []
        line.channel.basic_recover(requeue)

    def purge(self, line: Line, queue: str) -> int:
        return int(line.channel.queue_purge(queue).method.message_count)

    def delete_queue(self, line: Line, **given: Any) -> int:
        return int(line.channel.queue_delete(**given).method.message_count)

    def delete_exchange(self, line: Line, **given: Any) -> None:
        line.channel.exchange_delete(**given)

    def commit(self, line: Line) -> None:
        line.held = []
        line.channel.tx_commit()

    def rollback(self, line: Line) -> None:
        line.out, line.held = line.out + line.held, []
        line.channel.tx_rollback()

    def close_channel(self, line: Line) -> None:
        line.channel.close()


def named(value: Any, prefix: str) -> Any:
    """With `@` replaced, in copies of tables and lists too."""
    if isinstance(value, dict):
        return {key: named(each, prefix) for key, each in value.items()}
    if isinstance(value, list):
        return [named(each, prefix) for each in value]
    return value.replace("@", prefix) if isinstance(value, str) else value


def by_channel(event: tuple[Any, ...]) -> tuple[str, int]:
    """What puts deliveries in order by channel, behind everything else: queues that agree first
    take their time."""
    return (event[1], event[4]) if event[0] == "delivered" else ("", 0)


def seen(properties: pika.BasicProperties) -> dict[str, Any]:
    """Properties that are there; times of deaths are masked."""

    def masked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: masked(each) for key, each in sorted(value.items())}
        if isinstance(value, list):
            return [masked(each) for each in value]
        return "some time" if isinstance(value, datetime) else value

    found = {key: masked(value) for key, value in vars(properties).items() if value is not None}
    return dict(sorted(found.items()))


def connected(address: Address, vhost: str) -> BlockingConnection:
    return BlockingConnection(pika.ConnectionParameters(*address, vhost, heartbeat=0))
