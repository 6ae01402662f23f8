"""Connects with patience: decides which failures are worth another try, and reports the others."""

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
"""Seconds between two lines of the log about one outage."""

RECEIVE_BYTES: Final = 256 * 1024

TRANSIENT_CODES: Final = (320, 541)
"""Reply codes of a broker that stops, or has had an error. With other codes it would refuse
again."""

PASSING_WORDS: Final = "is down or inaccessible", "is down"
"""A node of a cluster is away, and with it its queues and virtual hosts: RabbitMQ reports that with
codes that otherwise mean that they do not exist."""

NOT_FOUND: Final = 404
PRECONDITION_FAILED: Final = 406
OVERDUE_WORDS: Final = "timed out"

Result = TypeVar("Result")


class AmqpError(SluiceError):
    """An error for Spark to show: one sentence with the queue or exchange, the broker and the
    broker's own words."""


def is_transient(error: BrokerError) -> bool:
    """Return whether the error may pass, so that another try makes sense."""
    if not isinstance(error, ClosedByBrokerError):
        return True
    return error.code in TRANSIENT_CODES or error.text.endswith(PASSING_WORDS)


def is_missing(error: BrokerError) -> bool:
    """Return whether the error says that a queue does not exist, rather than that its node is
    down."""
    return (
        isinstance(error, ClosedByBrokerError)
        and error.channel != 0
        and error.code == NOT_FOUND
        and not is_transient(error)
    )


def is_overdue(error: BrokerError) -> bool:
    """Return whether the broker closed the channel because of its `consumer_timeout`: a delivery
    was unacknowledged for too long."""
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
    """Try once to connect, to the address whose turn it is at this attempt (from 0). `poller` waits
    for the socket; None: the connection makes its own. Raises `BrokerError` on failure."""
    addresses = options.addresses
    address = addresses[attempt % len(addresses)]
    timeout_s = options.timeout_ms / 1000
    return Wire(address, timeout_s, name, options.tls, heartbeat_s, RECEIVE_BYTES, poller)


def backoff_s(options: Options, attempt: int) -> float:
    """Return how many seconds to wait after failure number `attempt`, counted from 0."""
    return min(options.retry_backoff_ms / 1000 * 2.0 ** min(attempt, 32), BACKOFF_MAX_S)


class Outage:
    """Measures how long a broker has been away, and gives up after `reconnectFor`. It logs when an
    outage begins, while it lasts and when it is over."""

    def __init__(self, options: Options, what: str) -> None:
        self.attempts = 0
        """The number of failures so far."""
        self._options = options
        self._what = what
        self._began = 0.0
        self._told_at = 0.0

    @property
    def seconds(self) -> float:
        """The time since the first failure of this outage, in seconds; 0.0 while there is none."""
        return time.monotonic() - self._began if self.attempts else 0.0

    def failed(self, error: BrokerError, transient: tuple[int, ...] = (), where: str = "") -> float:
        """Note a failure, and return how many seconds to wait before the next try. Raises
        `AmqpError` when the error cannot pass, or `reconnectFor` is over. `transient` are further
        reply codes that may pass; `where` is added to the name of what failed."""
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
        """Return the result of `work(attempt)`, called again after each `BrokerError` that may
        pass. Raises `AmqpError` when it gives up; `transient` are further reply codes that may
        pass."""
        while True:
            try:
                return work(self.attempts)
            except BrokerError as error:
                time.sleep(self.failed(error, transient))

    def over(self) -> None:
        """Note that the broker answers again, which ends an outage."""
        if self.attempts:
            log.warning("%s: there again after %.1f s", self._what, self.seconds)
        self.attempts = 0


def persistently(
    options: Options, what: str, work: Callable[[int], Result], transient: tuple[int, ...] = ()
) -> Result:
    """Return the result of `work(attempt)`, which makes its own connection; it is called again
    after each `BrokerError` that may pass, for `reconnectFor` at most. Raises `AmqpError` when it
    gives up. `what` names the subject in errors; `transient` are further reply codes that may
    pass."""
    outage = Outage(options, what)
    result = outage.reach(work, transient)
    outage.over()
    return result
