"""Publishing with confirms and a bounded window, on a wire.

    publisher = Publisher(wire, window=2000)
    publisher.publish(messages)      the frames of each message; waits while the window is full
    publisher.settle()               waits until everything is confirmed

A message that the broker refuses ends the call, unless `on_refused` takes such messages: then they
are settled, and the others go on.

Unconfirmed messages are kept (`waiting`), so that they can be published again elsewhere when the
connection is lost: some may then arrive twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sluicemq.amqp.events import Acks, ContentMethod, MethodFrame
from sluicemq.amqp.frames import frame_end
from sluicemq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from sluicemq.client.messages import Messages
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire

ROOM_PART: Final = 4
"""A full window is refilled once one part in this many is free: few large writes."""

METHOD_ARGUMENTS_AT: Final = 11
"""The offset of a method's arguments: behind the frame's head, class and method."""


class RefusedMessage(BrokerError):
    """The broker refused a message: it returned it (no route), or sent basic.nack.

    `content` is the message's; it was published to `exchange` with `routing_key`.
    """

    def __init__(self, text: str, exchange: str, routing_key: str, content: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.content = content
        super().__init__(text)


class Publisher:
    """A publisher with confirms and at most `window` messages in flight; it has the wire to itself.

    A refused message is passed to `on_refused`; with None it ends the call by RefusedMessage.
    """

    def __init__(
        self,
        wire: Wire,
        window: int,
        on_refused: Callable[[RefusedMessage], None] | None = None,
    ) -> None:
        self.wire = wire
        self._window = window
        self._on_refused = on_refused
        self._next_tag = 1
        self._oldest = 1
        """The first unconfirmed delivery tag."""
        self._ahead: set[int] = set()
        """The confirmed tags behind it."""
        self._written: deque[tuple[int, Sequence[bytes]]] = deque()
        """The first tag and the number of messages of each write that is not completely
        confirmed.
        """
        self._unwritten: Sequence[bytes] = ()
        self._blocked = ""
        wire.call(ConfirmSelect(), ConfirmSelectOk)

    @property
    def in_flight(self) -> int:
        """Return the number of messages that are written and not confirmed."""
        return self._next_tag - self._oldest - len(self._ahead)

    @property
    def confirmed(self) -> int:
        """Return the number of messages confirmed so far."""
        return self._oldest - 1 + len(self._ahead)

    def waiting(self) -> list[bytes]:
        """Return the messages given to `publish` that are not confirmed, in order."""
        written = [
            messages[tag - first]
            for first, messages in self._written
            for tag in range(max(first, self._oldest), first + len(messages))
            if tag not in self._ahead
        ]
        return [*written, *self._unwritten]

    def publish(self, messages: Sequence[bytes]) -> None:
        """Write messages, waiting while the window is full; returns when the last one is written,
        perhaps before it is confirmed. Raises BrokerError when no confirm comes within the wire's
        timeout."""
        self._unwritten = messages if isinstance(messages, Messages) else Messages.of(messages)
        while self._unwritten:
            room = self._window - self.in_flight
            if room < min(len(self._unwritten), max(1, self._window // ROOM_PART)):
                self._read(self.wire.timeout_s)
                continue
            part = self._unwritten[:room]
            self._unwritten = self._unwritten[room:]
            self._written.append((self._next_tag, part))
            self._next_tag += len(part)
            self.wire.send_bytes(part.octets())
            self._read(0.0)

    def settle(self) -> None:
        """Wait until every message is confirmed. Raises BrokerError when no confirm comes within
        the wire's timeout."""
        while self.in_flight:
            self._read(self.wire.timeout_s)

    def _read(self, timeout_s: float) -> None:
        """Handle confirms that arrive; with a timeout in seconds wait for at least one, or raise
        BrokerError."""
        before = self.in_flight
        deadline = time.monotonic() + timeout_s
        while True:
            for event in self.wire.poll(min(timeout_s, 1.0)):
                self._on_event(event)
            if self.in_flight < before or not timeout_s:
                return
            if self._blocked:
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                raise BrokerError(f"{self.wire.address} confirmed nothing for {timeout_s:g} s")

    def _on_event(self, event: object) -> None:
        if isinstance(event, Acks):
            self._confirm(event.tags)
        elif isinstance(event, ContentMethod):
            if isinstance(event.method, BasicReturn):
                self._refuse(_returned(event.method, event.content))
        elif isinstance(event, MethodFrame):
            method = event.method
            if isinstance(method, BasicAck):
                self._confirm_up_to(method.delivery_tag)
            elif isinstance(method, BasicNack):
                self._on_nack(method)
            elif isinstance(method, ConnectionBlocked):
                self._blocked = method.reason
            elif isinstance(method, ConnectionUnblocked):
                self._blocked = ""

    def _on_nack(self, method: BasicNack) -> None:
        last = method.delivery_tag or self._next_tag - 1
        for tag in range(self._oldest if method.multiple else last, last + 1):
            if tag not in self._ahead:
                self._refuse(_nacked(self._message(tag)))
        if method.multiple:
            self._confirm_up_to(last)
        else:
            self._confirm((last,))

    def _refuse(self, refused: RefusedMessage) -> None:
        if self._on_refused is None:
            raise refused
        self._on_refused(refused)

    def _message(self, tag: int) -> bytes:
        """Return the unconfirmed message with this tag; raise BrokerError if there is none."""
        for first, messages in self._written:
            if first <= tag < first + len(messages):
                return messages[tag - first]
        raise _unknown(tag)

    def _confirm(self, tags: Iterable[int]) -> None:
        for tag in tags:
            if not self._oldest <= tag < self._next_tag or tag in self._ahead:
                raise _unknown(tag)
            self._ahead.add(tag)
        self._advance()

    def _confirm_up_to(self, tag: int) -> None:
        """Confirm all tags up to and including this one; 0 is the last one published."""
        if tag >= self._next_tag:
            raise _unknown(tag)
        last = tag or self._next_tag - 1
        self._oldest = max(self._oldest, last + 1)
        self._ahead = {ahead for ahead in self._ahead if ahead > last}
        self._advance()

    def _advance(self) -> None:
        """Move to the oldest unconfirmed tag, and drop completely confirmed writes."""
        while self._oldest in self._ahead:
            self._ahead.remove(self._oldest)
            self._oldest += 1
        written = self._written
        while written and written[0][0] + len(written[0][1]) <= self._oldest:
            written.popleft()


def _unknown(tag: int) -> BrokerError:
    return BrokerError(f"the broker confirmed delivery tag {tag}, which is not waiting")


def _returned(method: BasicReturn, content: bytes) -> RefusedMessage:
    where = f"exchange {method.exchange!r} with routing key {method.routing_key!r}"
    text = f"the broker returned it from {where}: {method.reply_code} {method.reply_text}"
    return RefusedMessage(text, method.exchange, method.routing_key, content)


def _nacked(frames: bytes) -> RefusedMessage:
    """Return the refusal of a message, made from its published frames."""
    end = frame_end(frames, 0)
    method = BasicPublish.decode_args(frames, METHOD_ARGUMENTS_AT, end - 1)
    return RefusedMessage(
        "the broker answered basic.nack", method.exchange, method.routing_key, frames[end:]
    )
