"""Publishes rows that the broker did not take as dead letters, instead of ending the task.

They have a connection of their own, so that the state of the connection that returned them does not
matter. A task is done when the broker has confirmed them, too.
"""

from __future__ import annotations

import time
from typing import Final

from sluicemq.client.messages import (
    BasicProperties,
    body_of,
    content,
    properties_of,
    publish_frame,
)
from sluicemq.client.publishing import Publisher, RefusedMessage
from sluicemq.client.session import BrokerError
from sluicemq.spark.connecting import AmqpError, Outage, connect
from sluicemq.spark.options import Options

REASON_HEADER: Final = "x-spark-refused"
EXCHANGE_HEADER: Final = "x-spark-exchange"
ROUTING_KEY_HEADER: Final = "x-spark-routing-key"


class DeadLetters:
    """Publishes rows of one task that the broker did not take to the dead-letter exchange of the
    options."""

    def __init__(self, options: Options) -> None:
        self._options = options
        given = {
            "deadLetterExchange": options.dead_letter_exchange,
            "deadLetterRoutingKey": options.dead_letter_routing_key,
        }
        self._what = ", ".join(f"{name} = {value!r}" for name, value in given.items() if value)
        self._outage = Outage(options, self._what)
        self._publisher: Publisher | None = None
        self._refused: list[RefusedMessage] = []
        self.rows = 0
        """The number of rows confirmed so far."""

    def add(self, refused: RefusedMessage) -> None:
        """Keep a refused message for the next call of `settle`."""
        self._refused.append(refused)

    def settle(self) -> None:
        """Publish the added messages, and return when the broker has confirmed them. Raises
        `AmqpError` when it does not take one of them there either, or stays away."""
        while self._refused:
            try:
                if self._publisher is None:
                    self._publisher = self._open()
                wire = self._publisher.wire
                messages = [self._letter(each, wire.frame_max) for each in self._refused]
                self._publisher.publish(messages)
                self._publisher.settle()
            except RefusedMessage as refused:
                raise AmqpError(f"{self._what}: {refused}") from refused
            except BrokerError as error:
                wait_s = self._outage.failed(error)
                self._abandon()
                time.sleep(wait_s)
            else:
                self._outage.over()
                self.rows += len(self._refused)
                self._refused.clear()

    def close(self) -> None:
        """Close the connection, in order if no message is unconfirmed."""
        if self._publisher is not None and not self._publisher.waiting():
            self._publisher.wire.close()
        self._abandon()

    def _open(self) -> Publisher:
        wire = connect(self._options, "sluicemq spark dead letters", self._outage.attempts, 0)
        try:
            return Publisher(wire, self._options.max_in_flight)
        except BaseException:
            wire.abandon()
            raise

    def _abandon(self) -> None:
        if self._publisher is not None:
            self._publisher.wire.abandon()
            self._publisher = None

    def _letter(self, refused: RefusedMessage, frame_max: int) -> bytes:
        properties = BasicProperties.decode(properties_of(refused.content))
        properties.headers = dict(properties.headers or {}) | {
            REASON_HEADER: str(refused),
            EXCHANGE_HEADER: refused.exchange,
            ROUTING_KEY_HEADER: refused.routing_key,
        }
        key = self._options.dead_letter_routing_key or refused.routing_key
        frames = content(properties.encode(), body_of(refused.content), frame_max)
        return publish_frame(self._options.dead_letter_exchange, key, True) + frames
