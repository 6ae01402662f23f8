"""One connection with one channel, for a single blocking thread; the base of blocking clients.

The wire reads only in `poll` and `call`, or while a write is stuck: a broker that cannot send may
not read either. So it reads while a write waits, up to READ_AHEAD_BYTES_MAX.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ChannelOpenOk
from sluicemq.client.address import NO_FILES, Address
from sluicemq.client.poller import NS, Poller
from sluicemq.client.resolved_address import ResolvedAddress
from sluicemq.client.session import (
    HEARTBEAT_S,
    BrokerError,
    ClosedByBrokerError,
    CloseFinished,
    Opened,
    SessionEvent,
)
from sluicemq.client.tls import TlsFiles
from sluicemq.client.transport import RECEIVE_BYTES, Transport

CHANNEL: Final = 1

READ_AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes read from a broker that does not read before it could send."""

KEPT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes that may come before the answer to a call: everything in flight to a consumer without a
limit."""

LOOK_NS: Final = NS
"""Nanoseconds between two looks at the clock while a write waits."""

Answer = TypeVar("Answer", bound=Method)


class Wire:
    """One connection with one channel, for a single blocking thread. `timeout_s`, in seconds, is
    for connecting to each address, for each answer of the broker and for each step of a write.

    Every method may raise `BrokerError` (`ClosedByBrokerError` with the broker's own text); if only
    the channel was closed, the next call opens a new one. `poller` is one of the same thread that
    outlives the wire, for callers that also wait for other things; with None the wire has its own.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        name: str,
        tls: TlsFiles | None = None,
        heartbeat_s: int = HEARTBEAT_S,
        receive_bytes: int = RECEIVE_BYTES,
        poller: Poller | None = None,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._events: deque[SessionEvent] = deque()
        """The events that came before the answers to calls."""
        self._heard_bytes = 0
        """Bytes that the transport had received when `poll` last yielded everything."""
        self._channel_open = False
        try:
            resolved = ResolvedAddress(address, tls or NO_FILES)
        except OSError as error:
            raise BrokerError(f"cannot connect to {address}: {error}") from error
        self._is_own_poller = poller is None
        self._poller = Poller() if poller is None else poller
        try:
            self._transport = Transport(resolved, self._poller, name, heartbeat_s, receive_bytes)
        except BaseException:
            self._give_back()
            raise
        try:
            self._await_connected()
            opened = self._await(Opened)
        except BaseException:
            self.abandon()
            raise
        self.server_properties = opened.server_properties
        self.frame_max = opened.frame_max

    def send(self, method: Method) -> None:
        """Queue a method on the channel; `flush` writes it."""
        self._ensure_channel()
        self._transport.session.send(CHANNEL, method)

    def send_bytes(self, frames: bytes) -> None:
        """Queue whole frames of the channel; `flush` writes them."""
        self._ensure_channel()
        self._transport.session.send_bytes(frames)

    def call(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a method, wait for its answer and return that; other events are kept for `poll`."""
        self.send(method)
        return self._await_method(answer)

    def call_all(self, calls: Sequence[tuple[Method, type[Method]]]) -> None:
        """Send methods together, each with the type of its answer, and wait for all answers; other
        events are kept for `poll`. The answers may come in any order: RabbitMQ's queues answer
        independently."""
        for method, _ in calls:
            self.send(method)
        wanted = [answer for _, answer in calls]
        deadline = time.monotonic() + self.timeout_s
        while wanted:
            event = self._read_event(deadline)
            if isinstance(event, MethodFrame) and type(event.method) in wanted:
                wanted.remove(type(event.method))
            else:
                self._events.append(event)

    def poll(self, timeout_s: float) -> Iterator[SessionEvent]:
        """Yield the events that have come, after waiting up to `timeout_s` seconds if there is
        none; reads the socket once. A caller that stops early gets the rest the next time."""
        self.flush()
        while self._events:
            yield self._events.popleft()
            timeout_s = 0.0
        while (event := self._next_event()) is not None:
            yield event
            timeout_s = 0.0
        self._receive(timeout_s)
        while (event := self._next_event()) is not None:
            yield event
        self._heard_bytes = self._transport.received_bytes
        self.keep_alive()

    @property
    def received_bytes(self) -> int:
        """Return the number of bytes read from the broker so far."""
        return self._transport.received_bytes

    def kept_events(self) -> list[SessionEvent]:
        """Return the events that came before the answers to calls, and that `poll` yields next."""
        return list(self._events)

    def pause(self) -> None:
        """Stop the poller from reading until the next `poll` or call; it only tells of a loss."""
        self._transport.listen(False)

    def keep_alive(self, listening: bool = True) -> None:
        """Send a heartbeat when one is due. Raises BrokerError when too many of the broker's are
        missing. `listening` is False while nobody reads: then missing ones do not count."""
        self._transport.keep_alive(time.monotonic_ns(), listening)
        self._await_written()

    def flush(self) -> None:
        """Write everything that is queued, and return when the socket has taken it."""
        self._transport.flush()
        self._await_written()

    def close(self) -> None:
        """Close the connection and the socket. A broker that is gone already is no error."""
        session = self._transport.session
        if session.is_open:
            with contextlib.suppress(BrokerError):
                session.close()
                self._await(CloseFinished)
        self.abandon()

    def abandon(self) -> None:
        """Close the socket at once: the broker requeues unacknowledged messages."""
        self._transport.abandon()
        self._give_back()

    def sever(self) -> None:
        """End the connection from any thread; the wire's own thread gets a `BrokerError`."""
        self._transport.sever()

    def _give_back(self) -> None:
        if self._is_own_poller:
            self._poller.close()

    def _await_connected(self) -> None:
        deadline = time.monotonic() + self.timeout_s
        while self._transport.is_connecting:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self._transport.give_up_address(TimeoutError("timed out"))
                deadline = time.monotonic() + self.timeout_s
            self._poller.poll(max(int(left_s * NS), 0))

    def _ensure_channel(self) -> None:
        if not self._channel_open:
            self._transport.session.open_channel(CHANNEL)
            self._await_method(ChannelOpenOk)
            self._channel_open = True

    def _await(self, kind: type[Opened] | type[CloseFinished]) -> Opened:
        """Return the next event of that kind; others are dropped."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            event = self._read_event(deadline)
            if isinstance(event, kind):
                return event  # type: ignore[return-value]

    def _await_method(self, answer: type[Answer]) -> Answer:
        deadline = time.monotonic() + self.timeout_s
        while True:
            event = self._read_event(deadline)
            if isinstance(event, MethodFrame) and isinstance(event.method, answer):
                return event.method
            self._events.append(event)

    def _read_event(self, deadline: float) -> SessionEvent:
        while (event := self._next_event()) is None:
            self.flush()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise BrokerError(f"{self.address} did not answer in time")
            kept_bytes = self._transport.received_bytes - self._heard_bytes
            if kept_bytes > KEPT_BYTES_MAX:
                raise BrokerError(f"{self.address} sent {kept_bytes} bytes and no answer")
            self._receive(left_s)
        return event

    def _next_event(self) -> SessionEvent | None:
        try:
            return self._transport.next_event()
        except ClosedByBrokerError as closed:
            self._channel_open = False
            with contextlib.suppress(BrokerError):
                self.flush()  # close-ok
            if not closed.channel:
                self.abandon()
            raise

    def _receive(self, timeout_s: float) -> None:
        """Read the socket once, after waiting at most `timeout_s` seconds for something to read."""
        self._transport.listen(True)
        if not self._transport.receive() and timeout_s > 0:
            self._poller.poll(int(timeout_s * NS))

    def _await_written(self) -> None:
        """Return when everything is written. A broker that blocks publishers (an alarm) does not
        read, but still sends heartbeats, so only silence counts as a failure."""
        transport = self._transport
        timeout_ns = int(self.timeout_s * NS)
        left_bytes, since_ns = transport.unsent_bytes, time.monotonic_ns()
        while transport.unsent_bytes:
            transport.listen(transport.session.held_bytes < READ_AHEAD_BYTES_MAX)
            self._poller.poll(LOOK_NS)
            now_ns = time.monotonic_ns()
            if transport.unsent_bytes != left_bytes:
                left_bytes, since_ns = transport.unsent_bytes, now_ns
            elif now_ns > max(since_ns, transport.received_ns) + timeout_ns:
                raise BrokerError(f"{self.address} has read nothing for {self.timeout_s:g} s")
