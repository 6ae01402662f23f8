"""Finds the queues of a query: those that are named, or those that match a pattern now.

RabbitMQ's HTTP API lists queues (`management.py`); a name must match as a whole, as with
`subscribePattern` of Spark's Kafka source. A streaming query looks again every `discoveryInterval`,
in a thread of its own, so that no trigger waits for that; the next trigger takes in new queues. A
query stops reading a queue only when the broker tells its consumer that it does not exist, not when
a list lacks it: a list may be older than the queue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import regex

from sluicemq.client.blocking import counts_of
from sluicemq.client.session import BrokerError, ClosedByBrokerError
from sluicemq.errors import Refused, SluiceError
from sluicemq.spark.connecting import AmqpError, connect, is_missing, is_transient, persistently
from sluicemq.spark.management import Listed, fixed_begin, list_queues, server_of
from sluicemq.spark.options import Options

log = logging.getLogger(__name__)

READ: Final = "classic", "quorum"
MATCH_S: Final = 0.1
"""Seconds for the match of one name: a pattern that takes longer never ends."""

MATCHES_MAX: Final = 10_000
TOLD_MAX: Final = 20
"""The most names in a line of the log."""

OWN: Final = "SluiceMQ"


class QueueDiscovery:
    """Keeps the list of queues a streaming query reads. `queues` and the methods are for the
    planner's thread. The constructor raises `AmqpError` or `Refused` when the queues cannot be
    found."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._found: tuple[str, ...] = ()
        """The queues of the last look; set by the thread."""
        self._closing = threading.Event()
        self._trouble = ""
        self.queues: list[str] = list(options.queues or find_queues(options))
        if not options.queues:
            self._tell("reads", self.queues)

    @property
    def words(self) -> str:
        """The queues of the query, in the words with which its errors begin."""
        return words_of(self._options, self.queues)

    def open(self) -> None:
        """Begin to look for new queues every discoveryInterval, if there is a pattern."""
        if self._options.queue_pattern:
            threading.Thread(target=self._watch, name="amqp queues", daemon=True).start()

    def take_in(self) -> bool:
        """Add the queues that were found since the last call to `queues`; return whether there are
        any."""
        new = [queue for queue in self._found if queue not in self.queues]
        self.queues += new
        if new:
            self._tell("now reads also", new)
        return bool(new)

    def drop(self, queue: str) -> None:
        """Stop reading a deleted queue. If another of that name is found later, it counts as a new
        queue."""
        self._found = tuple(each for each in self._found if each != queue)
        if queue in self.queues:
            self.queues.remove(queue)
            log.warning("queue %r: is gone, and is not read any more (queuePattern)", queue)

    def close(self) -> None:
        """Stop looking for new queues."""
        self._closing.set()

    def _watch(self) -> None:
        options = replace(self._options, reconnect_for_ms=0)  # the next look tries again
        while not self._closing.wait(options.discovery_interval_ms / 1000):
            try:
                self._found = find_queues(options)
                trouble = ""
            except SluiceError as error:
                trouble = str(error)
            except Exception as error:
                log.exception("queues that came into being are not found")
                trouble = repr(error)
            if trouble and trouble != self._trouble:
                log.warning("queues that came into being are not found: %s", trouble)
            self._trouble = trouble

    def _tell(self, what: str, queues: Iterable[str]) -> None:
        names = list(queues)
        more = f" and {len(names) - TOLD_MAX} more" if len(names) > TOLD_MAX else ""
        shown = ", ".join(map(repr, names[:TOLD_MAX])) or "no queue"
        log.warning("queuePattern = %r: %s %s%s", self._options.queue_pattern, what, shown, more)


def none_matches(options: Options) -> AmqpError:
    """Return the error of a batch read whose pattern matches no queue."""
    host = options.addresses[0].virtual_host
    return AmqpError(
        f"queuePattern = {options.queue_pattern!r}: virtual host {host!r} has no queue whose whole"
        " name it matches; streams and exclusive queues are left out"
    )


def find_queues(options: Options) -> tuple[str, ...]:
    """Return the names of the queues that match the pattern now, sorted. Waits up to `reconnectFor`
    while the server or the broker is away; raises `AmqpError` or `Refused` when they cannot be
    listed."""
    server = server_of(options)

    def find(attempt: int) -> tuple[str, ...]:
        host = options.addresses[0].virtual_host
        begin = fixed_begin(options.queue_pattern)
        try:
            found = list_queues(server, host, begin, options.timeout_ms / 1000)
        except BrokerError as error:
            product = product_of(options, attempt)
            if product is None:
                raise
            why = "RabbitMQ answers there when its management plugin is enabled"
            if product == OWN:
                why = f"{OWN} answers there when it is started with --management"
            raise AmqpError(f"{server.shown}: {error}; {why}") from error
        return matching(options.queue_pattern, found)

    return persistently(options, server.shown, find)


def matching(text: str, found: Iterable[Listed]) -> tuple[str, ...]:
    """Return the sorted names that match the pattern as a whole, of classic and quorum queues that
    are not exclusive. Raises `Refused` when matching takes too long, or finds more than
    MATCHES_MAX."""
    pattern = regex.compile(text)
    names: list[str] = []
    for queue in found:
        if queue.kind not in READ or queue.is_exclusive:
            continue
        try:
            is_match = pattern.fullmatch(queue.name, timeout=MATCH_S)
        except TimeoutError:
            raise Refused(
                f"queuePattern = {text!r}: takes too long to be matched with {queue.name!r}"
            ) from None
        if is_match:
            names.append(queue.name)
    if len(names) > MATCHES_MAX:
        raise Refused(f"queuePattern = {text!r}: matches {len(names)} queues, above {MATCHES_MAX}")
    return tuple(sorted(names))


def product_of(options: Options, attempt: int) -> str | None:
    """Return the product name that the broker gives itself; None when it is away, empty when it
    refuses the connection or gives none."""
    try:
        wire = connect(options, "sluicemq spark queues", attempt, heartbeat_s=0)
    except BrokerError as error:
        return None if is_transient(error) else ""
    wire.abandon()
    return str(wire.server_properties.get("product", ""))


def count_ready(options: Options, queues: Iterable[str]) -> dict[str, int]:
    """Return how many messages are ready in each queue. Queues that do not exist are left out if
    they came of a pattern; else they raise `AmqpError`."""
    names = list(queues)
    if not names:
        return {}

    def count(attempt: int) -> dict[str, int]:
        found: dict[str, int] = {}
        wire = connect(options, "sluicemq spark count", attempt, heartbeat_s=0)
        try:
            for queue in names:
                try:
                    found[queue] = counts_of(wire, queue).messages_ready
                except ClosedByBrokerError as closed:
                    if not is_missing(closed):
                        raise
                    if not options.queue_pattern:
                        words = f"queue = {queue!r}: {wire.address} has no such queue"
                        raise AmqpError(words) from closed
            wire.close()
        finally:
            wire.abandon()
        return found

    return persistently(options, words_of(options, names), count)


def words_of(options: Options, queues: Iterable[str]) -> str:
    """Return the queues of a query, in the words with which its errors begin."""
    if options.queue_pattern:
        return f"queuePattern = {options.queue_pattern!r}"
    return f"queues {', '.join(queues)}"
