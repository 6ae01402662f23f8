"""Connecting with patience: which failures are worth another try, and what to say of the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sluicemq.client.session import HEARTBEAT_S, BrokerError, ClosedByBrokerError
from sluicemq.client.wire import Wire
from sluicemq.errors import SluiceError
from sluicemq.spark.options import Options

BACKOFF_MAX_S: Final = 5.0

RECEIVE_BYTES: Final = 256 * 1024

TRANSIENT_CODES: Final = (320, 541)
"""The broker stops, or stumbled. What else it says it will say again."""

Result = TypeVar("Result")


class AmqpError(SluiceError):
    """What Spark is told: one sentence with the queue or exchange, the broker and its own words."""


def is_transient(error: BrokerError) -> bool:
    """Worth another try."""
    return not isinstance(error, ClosedByBrokerError) or error.code in TRANSIENT_CODES


def connect(options: Options, name: str, attempt: int = 0, heartbeat_s: int = HEARTBEAT_S) -> Wire:
    """One try to connect, with the address whose turn it is."""
    addresses = options.addresses
    address = addresses[attempt % len(addresses)]
    return Wire(address, options.timeout_ms / 1000, name, options.tls, heartbeat_s, RECEIVE_BYTES)


def backoff_s(options: Options, attempt: int) -> float:
    """How long to wait after failure number `attempt`, from 0."""
    return min(options.retry_backoff_ms / 1000 * 2.0 ** min(attempt, 32), BACKOFF_MAX_S)


def persistently(
    options: Options, what: str, work: Callable[[int], Result], transient: tuple[int, ...] = ()
) -> Result:
    """The result of `work(attempt)`, which connects by itself; tried again while that makes sense.

    `transient` are further reply codes that may pass.
    """
    attempt = 0
    while True:
        try:
            return work(attempt)
        except BrokerError as error:
            passing = isinstance(error, ClosedByBrokerError) and error.code in transient
            if not (passing or is_transient(error)) or attempt >= options.retries:
                tries = f" (after {attempt + 1} tries)" if attempt else ""
                raise AmqpError(f"{what}: {error}{tries}") from error
        time.sleep(backoff_s(options, attempt))
        attempt += 1
