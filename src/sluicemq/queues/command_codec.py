"""Commands of queues as bytes, for a log and for other nodes. docs/command-format.md has each byte.

On its own node a command is an object with references to actors, and nothing of this is done. What
is of no meaning elsewhere is left out: in how many queues of the sender's node a batch is, where
that node's message store has the bodies, how much a consumer holds, its window, and the credit of
the link that a batch came over. A consumer that is read is a new one.

A type or a flag that is not known is an error: what is written has to be what all nodes can read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any, Final, TypeVar, cast

from sluicemq.amqp.types import Malformed, decode_table, encode_table
from sluicemq.errors import SluiceError
from sluicemq.flow.credit import Outflow
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import ADDRESS_BYTES, NOBODY, AddressTable, decode_address
from sluicemq.model.batch import Batch
from sluicemq.model.traits import message_traits, property_traits
from sluicemq.queues.commands import (
    REJECT,
    Cancel,
    Command,
    Configure,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    LinkId,
    Publish,
    Purge,
    Settle,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.settings import NO_SETTINGS, QueueSettings
from sluicemq.text import octets, text_of

HEAD: Final = Struct("<HHI")
PUBLISH_HEAD: Final = Struct("<QQQQHBxIIHxx")
SETTLE_HEAD: Final = Struct("<QQII")
PART: Final = Struct("<QII")
CONSUME_HEAD: Final = Struct("<qIHxx")
TAG_HEAD: Final = Struct("<I")

SAME_SIZE, PERSISTENT, HAS_TTL, CONFIRM = 1, 2, 4, 8
NO_ACK, EXCLUSIVE = 1, 2
IF_UNUSED, IF_EMPTY = 1, 2

PART_SIZE: Final = PART.size

WORDS: Final = (
    "overflow",
    "dead_letter_exchange",
    "dead_letter_routing_key",
    "dead_letter_strategy",
)
SWITCHES: Final = ("single_active_consumer", "lazy")
SETTINGS: Final[dict[str, type]] = {
    name: str if name in WORDS else bool if name in SWITCHES else int
    for name in QueueSettings._fields
}
"""What each setting is, where it is not as by default."""

C = TypeVar("C")


class UnreadableCommand(SluiceError):
    """Raised for bytes that are no command, or a command that this node does not know."""


class CommandBody:
    """Reads the body of a command, which is in `data` from `start` to before `stop`, from its
    beginning to its end; `flags` are those of its head, `word` names the command in errors."""

    def __init__(
        self, word: str, flags: int, data: bytes, start: int = 0, stop: int | None = None
    ) -> None:
        self.word = word
        self.flags = flags
        self.data = data
        self.at = start + HEAD.size
        self.start = start
        self.stop = len(data) if stop is None else stop

    def take(self, layout: Struct) -> tuple[Any, ...]:
        """Read the next fields, as `layout` has them. Raises UnreadableCommand when there are too
        few bytes."""
        return layout.unpack(self.view(layout.size))

    def cut(self, size: int) -> bytes:
        """Read the next `size` bytes. Raises UnreadableCommand when there are fewer."""
        return bytes(self.view(size))

    def view(self, size: int) -> bytes | memoryview:
        """Read the next `size` bytes as they are: what a view of a body shows is not copied.
        Raises UnreadableCommand when there are fewer."""
        start = self.skip(size)
        return self.data[start : self.at]

    def skip(self, size: int) -> int:
        """Pass over the next `size` bytes, and return where they are. Raises UnreadableCommand when
        there are fewer."""
        start, self.at = self.at, self.at + size
        if self.at > self.stop:
            size = self.stop - self.start
            raise UnreadableCommand(f"a {self.word} ends too early, at byte {size}")
        return start

    @property
    def left(self) -> int:
        """Return how many bytes are left."""
        return self.stop - self.at

    def rest(self) -> bytes:
        """Read all bytes that are left, perhaps none."""
        return self.cut(self.left)

    def end(self) -> None:
        """Check that all was read. Raises UnreadableCommand when there is something left."""
        if self.at < self.stop:
            raise UnreadableCommand(f"a {self.word} has {self.left} bytes too many")


# -- to bytes


def encode_command(command: Command, addresses: AddressTable) -> bytes:
    """Return the command in bytes. Raises SluiceError when an actor in it cannot be given an
    address."""
    return b"".join(command_parts(command, addresses))


def command_parts(command: Command, addresses: AddressTable) -> list[bytes]:
    """Return the command in bytes as `encode_command` does, in parts that are not joined: the
    contents of a publish are as they were."""
    kind, encode = ENCODERS[type(command)]
    flags, parts = encode(command, addresses)
    return [HEAD.pack(kind, flags, sum(map(len, parts))), *parts]


def encode_publish(command: Publish, addresses: AddressTable) -> tuple[int, list[bytes]]:
    batch = command.batch
    contents = batch.contents
    traits, properties = batch.traits, batch.properties
    flags = SAME_SIZE * batch.same_size | PERSISTENT * traits.persistent | CONFIRM * command.confirm
    flags |= HAS_TTL * (properties.ttl_ms is not None)
    head = PUBLISH_HEAD.pack(
        command.first_seq,
        command.expiry,
        command.came_ms,
        properties.ttl_ms or 0,
        traits.channel_number,
        properties.priority,
        len(contents),
        len(contents[0]) if batch.same_size else 0,
        len(traits.envelope),
    )
    parts = [addresses.address_of(command.link.sender).encode(), head, traits.envelope]
    if not batch.same_size:
        parts.append(Struct(f"<{len(contents)}I").pack(*map(len, contents)))
    return flags, parts + contents


def encode_settle(command: Settle, _: AddressTable) -> tuple[int, list[bytes]]:
    parts = [PART.pack(*part) for part in command.parts]
    return 0, [SETTLE_HEAD.pack(*command.link, len(parts), command.outcome), *parts]


def encode_consume(command: Consume, addresses: AddressTable) -> tuple[int, list[bytes]]:
    consumer = command.consumer
    tag = octets(consumer.tag)
    return NO_ACK * consumer.no_ack | EXCLUSIVE * consumer.exclusive, [
        addresses.address_of(consumer.channel).encode(),
        CONSUME_HEAD.pack(consumer.priority, consumer.prefetch.limit, len(tag)),
        tag,
        encode_table(cast("Any", consumer.arguments)),
    ]


def encode_cancel(command: Cancel, addresses: AddressTable) -> tuple[int, list[bytes]]:
    consumer = command.consumer
    tag = octets(consumer.tag)
    return 0, [addresses.address_of(consumer.channel).encode(), TAG_HEAD.pack(len(tag)), tag]


def encode_get(command: Get, addresses: AddressTable) -> tuple[int, list[bytes]]:
    return NO_ACK * command.no_ack, [addresses.address_of(command.channel).encode()]


def encode_asked(
    command: Inspect | Purge | Down, addresses: AddressTable
) -> tuple[int, list[bytes]]:
    return 0, [addresses.address_of(command.channel).encode()]


def encode_delete(command: Delete, addresses: AddressTable) -> tuple[int, list[bytes]]:
    channel = command.channel
    address = NOBODY if channel is None else addresses.address_of(channel)
    return IF_UNUSED * command.if_unused | IF_EMPTY * command.if_empty, [address.encode()]


def encode_configure(command: Configure, _: AddressTable) -> tuple[int, list[bytes]]:
    return 0, [encode_settings(command.settings)]


def encode_settings(settings: QueueSettings) -> bytes:
    """Return as JSON the settings that are not as by default, by name, in the order of names."""
    default = NO_SETTINGS._asdict()
    said = {key: value for key, value in settings._asdict().items() if value != default[key]}
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def decode_settings(raw: bytes) -> QueueSettings:
    """Return the settings that encode_settings was given. Raises UnreadableCommand when `raw` is
    none of its, or has settings that are not known here."""
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableCommand(f"the settings of a configure are no JSON: {error}") from error
    if not isinstance(said, dict):
        raise UnreadableCommand("the settings of a configure are no object")
    for key, value in said.items():
        if key not in SETTINGS:
            raise UnreadableCommand(f"the setting {key!r} of a queue is not known here")
        if type(value) is not SETTINGS[key]:
            raise UnreadableCommand(f"the setting {key!r} of a queue is no {SETTINGS[key]}")
    return QueueSettings(**said)


Encode = Callable[[Any, AddressTable], tuple[int, list[bytes]]]

ENCODERS: Final[dict[type, tuple[int, Encode]]] = {
    Publish: (1, encode_publish),
    Settle: (2, encode_settle),
    Consume: (3, encode_consume),
    Cancel: (4, encode_cancel),
    Get: (5, encode_get),
    Inspect: (6, encode_asked),
    Purge: (7, encode_asked),
    Delete: (8, encode_delete),
    Down: (9, encode_asked),
    Configure: (10, encode_configure),
}
"""The number of each type, which is never given to another one."""


# -- and back


class CommandDecoder:
    """Makes commands of bytes, for one queue. `window` gives the delivery window to a channel,
    `link` the link over which answers go to whoever has published.

    A consumer is made when its Consume is read, and kept by its channel and tag until its Cancel,
    or its channel's Down, is read: so there is one for each consumer of the queue.
    """

    def __init__(
        self,
        addresses: AddressTable,
        window: Callable[[Actor], Outflow],
        link: Callable[[Actor], Link],
    ) -> None:
        self.addresses = addresses
        self.window = window
        self.link = link
        self.consumers: dict[Actor, dict[str, Consumer]] = {}

    def decode(self, data: bytes, start: int = 0, stop: int | None = None) -> Command:
        """Return the one command that `data` is, from `start` to before `stop` or its end. Raises
        UnreadableCommand when it is none, or not known here; UnknownAddress when nobody here is, or
        stands for, an actor in it, and then it may be read again when somebody does."""
        size = (len(data) if stop is None else stop) - start
        if size < HEAD.size:
            raise UnreadableCommand(f"{size} bytes are too few for a command")
        kind, flags, length = HEAD.unpack_from(data, start)
        if kind not in DECODERS:
            text = f"command type {kind} is not known here: it is of a later version of SluiceMQ"
            raise UnreadableCommand(text)
        word, known, decode = DECODERS[kind]
        if flags & ~known:
            raise UnreadableCommand(f"flags {flags & ~known} of a {word} are not known here")
        body = CommandBody(word, flags, data, start, stop)
        if length != body.left:
            raise UnreadableCommand(f"a {word} of {length} bytes has {body.left}")
        command: Command = decode(self, body)
        body.end()
        return command

    def actor(self, body: CommandBody) -> Actor:
        """Read the address that comes next and return the actor that has it. Raises
        UnreadableCommand when there are too few bytes, UnknownAddress when nobody here has it."""
        return self.addresses.actor_at(decode_address(body.cut(ADDRESS_BYTES), 0))

    def publish(self, body: CommandBody) -> Publish:
        link = self.link(self.actor(body))
        first_seq, expiry, came_ms, ttl_ms, *rest = body.take(PUBLISH_HEAD)
        channel_number, priority, count, size, envelope_size = rest
        envelope = body.cut(envelope_size)
        if body.flags & SAME_SIZE:
            start, data = body.skip(count * size), body.data
            contents = [data[at : at + size] for at in range(start, body.at, size or 1)]
        else:
            raw = body.cut(4 * count)
            ends = [0, *accumulate(Struct(f"<{count}I").unpack(raw))]
            start = body.at
            raw = body.cut(ends[-1])
            contents = [raw[a:b] for a, b in pairwise(ends)]
        if not count or len(contents) != count:
            raise UnreadableCommand("a publish has no messages")
        persistent = bool(body.flags & PERSISTENT)
        batch = Batch(
            message_traits(envelope, channel_number, persistent),
            property_traits(persistent, ttl_ms if body.flags & HAS_TTL else None, priority),
            contents,
            body.at - start,
            bool(body.flags & SAME_SIZE),
        )
        if not first_seq:
            raise UnreadableCommand("a publish has no number")
        command = Publish(batch, link, first_seq, bool(body.flags & CONFIRM))
        command.expiry = expiry
        command.came_ms = came_ms
        return command

    def settle(self, body: CommandBody) -> Settle:
        term, number, count, outcome = body.take(SETTLE_HEAD)
        if outcome > REJECT:
            raise UnreadableCommand(f"outcome {outcome} of a settle is not known here")
        raw = body.cut(count * PART_SIZE)
        parts = [(run, start, end) for run, start, end in PART.iter_unpack(raw)]
        return Settle(LinkId(term, number), parts, outcome)

    def consume(self, body: CommandBody) -> Consume:
        channel = self.actor(body)
        priority, prefetch, tag_size = body.take(CONSUME_HEAD)
        tag = text_of(body.cut(tag_size))
        raw = body.rest()
        try:
            arguments, end = decode_table(raw)
        except Malformed as error:
            raise UnreadableCommand(f"the arguments of a consume are no table: {error}") from error
        if end < len(raw):
            raise UnreadableCommand(f"a consume has {len(raw) - end} bytes too many")
        consumer = Consumer(
            channel,
            tag,
            bool(body.flags & NO_ACK),
            bool(body.flags & EXCLUSIVE),
            priority,
            Prefetch(prefetch),
            Limiter(),
            self.window(channel),
            arguments,
        )
        self.consumers.setdefault(channel, {})[tag] = consumer
        return Consume(consumer)

    def cancel(self, body: CommandBody) -> Cancel:
        channel = self.actor(body)
        (tag_size,) = body.take(TAG_HEAD)
        tag = text_of(body.cut(tag_size))
        body.end()
        same = self.consumers.get(channel, {})
        consumer = same.pop(tag, None)
        if consumer is None:
            address = self.addresses.address_of(channel)
            raise UnreadableCommand(f"a cancel names consumer '{tag}' of {address}, and none came")
        if not same:
            del self.consumers[channel]
        return Cancel(consumer)

    def get(self, body: CommandBody) -> Get:
        return Get(self.actor(body), bool(body.flags & NO_ACK))

    def inspect(self, body: CommandBody) -> Inspect:
        return Inspect(self.actor(body))

    def purge(self, body: CommandBody) -> Purge:
        return Purge(self.actor(body))

    def delete(self, body: CommandBody) -> Delete:
        address = decode_address(body.cut(ADDRESS_BYTES), 0)
        channel = None if address == NOBODY else self.addresses.actor_at(address)
        return Delete(channel, bool(body.flags & IF_UNUSED), bool(body.flags & IF_EMPTY))

    def down(self, body: CommandBody) -> Down:
        channel = self.actor(body)
        body.end()
        self.consumers.pop(channel, None)
        return Down(channel)

    def configure(self, body: CommandBody) -> Configure:
        return Configure(decode_settings(body.rest()))


DECODERS: Final[dict[int, tuple[str, int, Callable[[CommandDecoder, CommandBody], Command]]]] = {
    1: ("publish", SAME_SIZE | PERSISTENT | HAS_TTL | CONFIRM, CommandDecoder.publish),
    2: ("settle", 0, CommandDecoder.settle),
    3: ("consume", NO_ACK | EXCLUSIVE, CommandDecoder.consume),
    4: ("cancel", 0, CommandDecoder.cancel),
    5: ("get", NO_ACK, CommandDecoder.get),
    6: ("inspect", 0, CommandDecoder.inspect),
    7: ("purge", 0, CommandDecoder.purge),
    8: ("delete", IF_UNUSED | IF_EMPTY, CommandDecoder.delete),
    9: ("down", 0, CommandDecoder.down),
    10: ("configure", 0, CommandDecoder.configure),
}
"""By number: the word for it, the flags that it may have, and how it is read."""
