"""Publishing with confirms and a bounded window, on a wire.

    publisher = Publisher(wire, window=2000)
    publisher.publish(messages)      each the frames of one message; waits while the window is full
    publisher.settle()               waits until everything is confirmed

What is not confirmed is kept (`waiting`), so that it can be published again elsewhere when the
connection is lost: some of it may then arrive twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice

from sluicemq.amqp.events import Acks, ContentMethod, MethodFrame
from sluicemq.amqp.frames import frame_end
from sluicemq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire


class RefusedMessage(BrokerError):
    """The broker did not take a message: it returned it (no route), or confirmed negatively.

    `content` is the message's.
    """

    def __init__(self, text: str, content: bytes) -> None:
        self.content = content
        super().__init__(text)


class Publisher:
    """See above. The wire is for it alone."""

    def __init__(self, wire: Wire, window: int) -> None:
        self.wire = wire
        self.confirmed = 0
        self._window = window
        self._next_tag = 1
        self._pending: dict[int, bytes] = {}
        self._unwritten: Sequence[bytes] = ()
        self._blocked = ""
        wire.call(ConfirmSelect(), ConfirmSelectOk)

    def waiting(self) -> list[bytes]:
        """Given to `publish` and not confirmed, in order."""
        return [*self._pending.values(), *self._unwritten]

    def publish(self, messages: Sequence[bytes]) -> None:
        """Write messages; returns when the last one is written, not when it is confirmed."""
        self._unwritten = messages
        while self._unwritten:
            room = self._window - len(self._pending)
            if room <= 0:
                self._read(self.wire.timeout_s)
                continue
            part = self._unwritten[:room]
            self._unwritten = self._unwritten[room:]
            self._pending.update(zip(range(self._next_tag, self._next_tag + len(part)), part))  # noqa: B905
            self._next_tag += len(part)
            self.wire.send_bytes(b"".join(part))
            self._read(0.0)

    def settle(self) -> None:
        """Wait for every confirm."""
        while self._pending:
            self._read(self.wire.timeout_s)

    def _read(self, timeout_s: float) -> None:
        """Take confirms; with a timeout at least one, or `BrokerError`."""
        before = len(self._pending)
        deadline = time.monotonic() + timeout_s
        while True:
            for event in self.wire.poll(min(timeout_s, 1.0)):
                self._on_event(event)
            if len(self._pending) < before or not timeout_s:
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
                raise _returned(event.method, event.content)
        elif isinstance(event, MethodFrame):
            method = event.method
            if isinstance(method, BasicAck):
                self._confirm(self._tags(method.delivery_tag, method.multiple))
            elif isinstance(method, BasicNack):
                tag = next(iter(self._tags(method.delivery_tag, method.multiple)), 0)
                frames = self._pending[tag]
                content = frames[frame_end(frames, 0) :]
                raise RefusedMessage("the broker answered basic.nack", content)
            elif isinstance(method, ConnectionBlocked):
                self._blocked = method.reason
            elif isinstance(method, ConnectionUnblocked):
                self._blocked = ""

    def _tags(self, tag: int, multiple: bool) -> list[int]:
        if not multiple:
            return [tag]
        oldest = next(iter(self._pending), tag + 1)
        if not tag:
            return list(self._pending)
        return [t for t in islice(self._pending, tag - oldest + 1) if t <= tag]

    def _confirm(self, tags: Iterable[int]) -> None:
        pending = self._pending
        for tag in tags:
            if pending.pop(tag, None) is None:
                raise BrokerError(f"the broker confirmed delivery tag {tag}, which is not waiting")
            self.confirmed += 1


def _returned(method: BasicReturn, content: bytes) -> RefusedMessage:
    where = f"exchange {method.exchange!r} with routing key {method.routing_key!r}"
    text = f"the broker returned it from {where}: {method.reply_code} {method.reply_text}"
    return RefusedMessage(text, content)
