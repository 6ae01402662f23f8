"""Connecting with patience: which failures are worth another try, and what to say of the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from sluicemq.client.poller import Poller
from sluicemq.client.session import HEARTBEAT_S, BrokerError, ClosedByBrokerError
from sluicemq.client.wire import Wire
from sluicemq.errors import SluiceError
from sluicemq.spark.options import Options

log = logging.getLogger(__name__)

BACKOFF_MAX_S: Final = 5.0
TELL_S: Final = 10.0
"""Between two lines of the log on one outage."""

RECEIVE_BYTES: Final = 256 * 1024

TRANSIENT_CODES: Final = (320, 541)
"""The broker stops, or stumbled. What else it says it will say again."""

PASSING_WORDS: Final = "is down or inaccessible", "is down"
"""A node of a cluster is away, and its queues and virtual hosts with it: RabbitMQ says so with
codes that otherwise mean that they are not there."""

NOT_FOUND: Final = 404
PRECONDITION_FAILED: Final = 406
OVERDUE_WORDS: Final = "timed out"

Result = TypeVar("Result")


class AmqpError(SluiceError):
    """What Spark is told: one sentence with the queue or exchange, the broker and its own words."""


def is_transient(error: BrokerError) -> bool:
    """Worth another try."""
    if not isinstance(error, ClosedByBrokerError):
        return True
    return error.code in TRANSIENT_CODES or error.text.endswith(PASSING_WORDS)


def is_missing(error: BrokerError) -> bool:
    """A queue is asked for that is not there, nor away with its node."""
    return (
        isinstance(error, ClosedByBrokerError)
        and error.channel != 0
        and error.code == NOT_FOUND
        and not is_transient(error)
    )


def is_overdue(error: BrokerError) -> bool:
    """The broker's `consumer_timeout`: something was out for longer than that."""
    return (
        isinstance(error, ClosedByBrokerError)
        and error.code == PRECONDITION_FAILED
        and OVERDUE_WORDS in error.text
    )


def connect(
    options: Options,
    name: str,
    attempt: int = 0,
    heartbeat_s: int = HEARTBEAT_S,
    poller: Poller | None = None,
) -> Wire:
    """One try to connect, with the address whose turn it is; `poller` as `Wire` has it."""
    addresses = options.addresses
    address = addresses[attempt % len(addresses)]
    timeout_s = options.timeout_ms / 1000
    return Wire(address, timeout_s, name, options.tls, heartbeat_s, RECEIVE_BYTES, poller)


def backoff_s(options: Options, attempt: int) -> float:
    """How long to wait after failure number `attempt`, from 0."""
    return min(options.retry_backoff_ms / 1000 * 2.0 ** min(attempt, 32), BACKOFF_MAX_S)


class Outage:
    """How long a broker has been away for one who wants it: `reconnectFor` at most. The log is told
    when it begins, while it lasts and when it is over."""

    def __init__(self, options: Options, what: str) -> None:
        self.attempts = 0
        """Failures so far."""
        self._options = options
        self._what = what
        self._began = 0.0
        self._told_at = 0.0

    @property
    def seconds(self) -> float:
        """Since the first failure; 0.0: there is no outage."""
        return time.monotonic() - self._began if self.attempts else 0.0

    def failed(self, error: BrokerError, transient: tuple[int, ...] = (), where: str = "") -> float:
        """Seconds to wait before the next try; `AmqpError` when there shall be none. `transient`
        are further reply codes that may pass, `where` says more of what could not be done."""
        now = time.monotonic()
        if not self.attempts:
            self._began = self._told_at = now
        self.attempts += 1
        budget_s = self._options.reconnect_for_ms / 1000
        left_s = self._began + budget_s - now
        passing = isinstance(error, ClosedByBrokerError) and error.code in transient
        if not (passing or is_transient(error)) or left_s <= 0:
            tried = ""
            if self.attempts > 1:
                tried = f" (tried {self.attempts} times in {now - self._began:.1f} s: reconnectFor)"
            raise AmqpError(f"{self._what}{where}: {error}{tried}") from error
        if self.attempts == 1 or now - self._told_at >= TELL_S:
            self._told_at = now
            log.warning("%s: %s; tried again for %.0f s (reconnectFor)", self._what, error, left_s)
        return min(backoff_s(self._options, self.attempts - 1), left_s)

    def reach(self, work: Callable[[int], Result], transient: tuple[int, ...] = ()) -> Result:
        """The result of `work(attempt)`, tried again while that makes sense."""
        while True:
            try:
                return work(self.attempts)
            except BrokerError as error:
                time.sleep(self.failed(error, transient))

    def over(self) -> None:
        """The broker is there."""
        if self.attempts:
            log.warning("%s: there again after %.1f s", self._what, self.seconds)
        self.attempts = 0


def persistently(
    options: Options, what: str, work: Callable[[int], Result], transient: tuple[int, ...] = ()
) -> Result:
    """The result of `work(attempt)`, which connects by itself; tried again while that makes sense.

    `transient` are further reply codes that may pass.
    """
    outage = Outage(options, what)
    result = outage.reach(work, transient)
    outage.over()
    return result
