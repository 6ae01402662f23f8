"""The form of a dead letter: the headers that tell how it died, and the queues it must not enter.

`x-death` is an array of tables, the last death first, one for each queue and reason. Layout, order
and types are RabbitMQ 3.10's: a new entry keeps the order in which it is written here, one that is
counted up is sorted by names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from sluicemq.amqp import fields as f
from sluicemq.amqp.properties import (
    EXPIRATION,
    headers_of,
    priority_of,
    text_property,
    with_headers,
    without_text,
)
from sluicemq.chain.queue.republish_messages import RepublishMessage
from sluicemq.model.content import properties_of, with_properties
from sluicemq.queues.classic.limits import REJECTED
from sluicemq.text import octets, text_of

if TYPE_CHECKING:
    from sluicemq.amqp.fields import Field

X_DEATH: Final = b"x-death"
COPY: Final = b"CC"
COUNT: Final = b"count"


class Death:
    """How messages with one envelope die: in which queue, why, and when (seconds since the epoch);
    they were published to `exchange` with `key`, and go on with `new_key`, or their own key if it
    is None."""

    __slots__ = ("exchange", "key", "new_key", "queue", "reason", "seconds")

    def __init__(
        self,
        queue: str,
        reason: str,
        seconds: int,
        exchange: bytes,
        key: bytes,
        new_key: str | None,
    ) -> None:
        self.queue = octets(queue)
        self.reason = reason.encode()
        self.seconds = seconds
        self.exchange = exchange
        self.key = key
        self.new_key = new_key


class DeadLetterHeaders:
    """Makes dead letters of messages that die one `Death`; results for equal properties
    are shared.
    """

    def __init__(self, death: Death) -> None:
        self.death = death
        self.known: dict[bytes, tuple[bytes, tuple[str, ...], frozenset[str]]] = {}

    def letter(self, content: bytes) -> RepublishMessage:
        """Return a message as it goes on, with its headers, keys and priority."""
        raw = properties_of(content)
        found = self.known.get(raw)
        if found is None:
            found = self.known[raw] = self.read(raw)
        properties, keys, banned = found
        return RepublishMessage(
            with_properties(content, properties), keys, banned, priority_of(raw)
        )

    def read(self, raw: bytes) -> tuple[bytes, tuple[str, ...], frozenset[str]]:
        """Return properties as they go on, routing keys, and the queues the message must not enter.
        Of headers that are no valid table those before the flaw are kept: a death that was not
        recorded could recur for ever."""
        death = self.death
        lasting = without_text(raw, EXPIRATION)
        fields = f.fields_before_flaw(headers_of(raw))
        copies = copies_of(fields)
        entry = self.entry(copies, text_property(raw, EXPIRATION))
        fields, deaths = with_death(fields, entry, death)
        if death.new_key is not None:
            fields = [field for field in fields if field[0] != COPY]
        banned = frozenset() if death.reason == REJECTED.encode() else cycles(deaths)
        return with_headers(lasting, f.table_of(fields)), self.keys(copies), banned

    def keys(self, copies: Sequence[bytes]) -> tuple[str, ...]:
        """Return the routing keys of a dead letter: the new one, or those of the message, including
        `copies` of its header CC."""
        if self.death.new_key is not None:
            return (self.death.new_key,)
        return tuple(text_of(key) for key in (self.death.key, *copies))

    def entry(self, copies: Sequence[bytes], expiration: bytes | None) -> list[Field]:
        """Return a new entry of x-death. `expiration` is the text of that property; None: it has
        none."""
        death = self.death
        keys = f.array([f.long_string(key) for key in (death.key, *copies)])
        fields = [
            (COUNT, f.long(1)),
            (b"reason", f.long_string(death.reason)),
            (b"queue", f.long_string(death.queue)),
            (b"time", f.time(death.seconds)),
            (b"exchange", f.long_string(death.exchange)),
            (b"routing-keys", keys),
        ]
        if expiration is not None:
            fields.append((b"original-expiration", f.long_string(expiration)))
        return fields


def copies_of(fields: Sequence[Field]) -> list[bytes]:
    """Return the keys in the header CC; those in BCC only count for the first routing."""
    copies = f.items_in(f.value_of(fields, COPY)) or []
    return [text for item in copies if (text := f.text_in(item)) is not None]


def with_death(
    fields: list[Field], entry: list[Field], death: Death
) -> tuple[list[Field], list[list[Field]]]:
    """Return the headers with one more death, and all deaths, the last one first."""
    value = f.value_of(fields, X_DEATH)
    if value is None:
        for name, text in (
            (b"x-first-death-reason", death.reason),
            (b"x-first-death-queue", death.queue),
            (b"x-first-death-exchange", death.exchange),
        ):
            fields = f.replaced(fields, name, f.long_string(text))
    array = f.items_in(value)
    old = merged(array or [])
    others: list[bytes] = []
    deaths = [entry]
    for item in old:
        known = f.fields_before_flaw(item[5:]) if item[:1] == b"F" else []
        if died(known, b"queue") == death.queue and died(known, b"reason") == death.reason:
            count = f.number_in(f.value_of(known, COUNT)) or 0
            deaths[0] = entry = f.replaced(known, COUNT, f.long(count + 1))
        else:
            others.append(item)
            deaths.append(known)
    if array is not None:
        entry = sorted(entry, key=f.name_of)
    return f.replaced(fields, X_DEATH, f.array([f.nested(entry), *others])), deaths


def merged(items: list[bytes]) -> list[bytes]:
    """Merge old deaths of one queue and reason: the first one represents all, and counts them if it
    has no count. Old brokers, and chains of them, write one for each time."""
    if len(items) < 2:
        return items
    found: dict[object, tuple[list[Field] | None, bytes]] = {}
    times: Counter[object] = Counter()
    for index, item in enumerate(items):
        known = f.fields_before_flaw(item[5:]) if item[:1] == b"F" else None
        key: object = index
        if known is not None:
            key = f.value_of(known, b"queue"), f.value_of(known, b"reason")
        found.setdefault(key, (known, item))
        times[key] += 1
    return [
        item
        if known is None or f.value_of(known, COUNT) is not None
        else f.nested([(COUNT, f.long(times[key])), *known])
        for key, (known, item) in found.items()
    ]


def died(known: Sequence[Field], name: bytes) -> bytes | None:
    return f.text_in(f.value_of(known, name))


def cycles(deaths: Iterable[Sequence[Field]]) -> frozenset[str]:
    """Return the queues in which the message has died, with no rejection since: in these it would
    cycle on its own for ever."""
    banned: set[str] = set()
    for known in deaths:
        queue = died(known, b"queue")
        if died(known, b"reason") == REJECTED.encode():
            break
        if queue is not None:
            banned.add(text_of(queue))
    return frozenset(banned)
