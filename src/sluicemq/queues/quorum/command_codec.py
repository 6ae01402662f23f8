"""Commands of quorum queues as bytes, for the log. docs/command-format.md has each byte.

An entry of the log is one or more commands, one behind the other. Applying a command needs no body;
deliveries read bodies by `trimming.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeVar

from sluicemq.amqp.types import Malformed, decode_table
from sluicemq.kernel.address import ADDRESS_BYTES, NOBODY, ActorAddress, decode_address
from sluicemq.model.batch import ENVELOPED, Batch, body_size, separate
from sluicemq.queues.command_codec import (
    CONSUME_HEAD,
    EXCLUSIVE,
    HAS_TTL,
    HEAD,
    IF_EMPTY,
    IF_UNUSED,
    NO_ACK,
    PERSISTENT,
    SAME_SIZE,
    TAG_HEAD,
    CommandBody,
    UnreadableCommand,
    decode_settings,
    encode_settings,
)
from sluicemq.queues.commands import Configure
from sluicemq.queues.quorum.commands import (
    UNSENT,
    AddConsumer,
    AddressDown,
    Asked,
    CancelConsumer,
    CompareState,
    ConsumerKey,
    DeleteFifo,
    Enqueue,
    FifoCommand,
    GetMessage,
    NodeRestarted,
    PassTime,
    PurgeQueue,
    RegisterEnqueuer,
    ResumeConsumer,
    SettleDelivered,
    UseQueue,
)
from sluicemq.queues.quorum.snapshot import DIGEST_BYTES
from sluicemq.queues.quorum.usual_commands import (
    BODILESS,
    ENQUEUE_KIND,
    SAME_BODIES,
    SEQ_MAX,
    put_usual,
    put_usual_bodiless,
    raw_address,
    usual_command,
)
from sluicemq.text import octets, text_of

ENQUEUE_HEAD: Final = Struct("<QQQIIIHHBxxx")
SETTLE_HEAD: Final = Struct("<III")
IDS: Final = Struct("<QQ")
RESUME_HEAD: Final = Struct("<QI")
NODE: Final = Struct("<II")
ROW: Final = Struct("<Q")
COMPARED: Final = Struct(f"<Q{DIGEST_BYTES}s")

C = TypeVar("C")

IS_LOST: Final = 1


def enqueue_of(batch: Batch, sender: ActorAddress, first_seq: int, heard_seq: int) -> Enqueue:
    """Return the command that enqueues a batch."""
    contents = batch.contents
    count = len(contents)
    ttl_ms = batch.properties.ttl_ms
    if batch.same_size and batch.traits.envelope != ENVELOPED:
        size = body_size(contents[0])
        return Enqueue(sender, first_seq, count, size, None, ttl_ms, heard_seq, batch)
    if batch.traits.envelope == ENVELOPED:
        sizes = [body_size(separate(each)[1]) for each in contents]
    else:
        sizes = [*map(body_size, contents)]
    if min(sizes) == max(sizes):
        return Enqueue(sender, first_seq, count, sizes[0], None, ttl_ms, heard_seq, batch)
    return Enqueue(sender, first_seq, count, 0, sizes, ttl_ms, heard_seq, batch)


def joined(enqueue: Enqueue, more: Enqueue) -> bool:
    """Extend `enqueue` by `more`, if that follows on it and is alike. Returns whether it is
    extended."""
    one, other = enqueue.batch, more.batch
    assert one is not None and other is not None, "batches are joined before they are written"
    is_alike = (
        enqueue.sender == more.sender
        and enqueue.size == more.size
        and enqueue.sizes is None
        and more.sizes is None
        and enqueue.ttl_ms == more.ttl_ms
        and one.traits is other.traits
        and one.properties is other.properties
        and one.same_size
        and other.same_size
        and len(one.contents[0]) == len(other.contents[0])
    )
    if not is_alike:
        return False
    assert more.first_seq == enqueue.first_seq + enqueue.count, "a sender leaves no gap"
    contents = one.contents + other.contents
    enqueue.count = len(contents)
    enqueue.batch = Batch(one.traits, one.properties, contents, one.size + other.size, True)
    return True


# -- to bytes


def encode_entry(commands: list[FifoCommand], head: bytes = b"") -> bytes:
    """Return the bytes of an entry with these commands, in the order of application,
    behind `head`.
    """
    parts = [head]
    for command in commands:
        if put_usual(parts, command):
            continue
        kind, encode = ENCODERS[type(command)]
        flags, body = encode(command)
        parts += [HEAD.pack(kind, flags, sum(map(len, body))), *body]
    return b"".join(parts)


def encode_enqueue(command: Enqueue) -> tuple[int, list[bytes]]:
    batch = command.batch
    if batch is None:
        return encode_bodiless(command)
    contents, sizes = batch.contents, command.sizes
    assert len(contents) == command.count
    traits = batch.traits
    flags = SAME_SIZE * batch.same_size | PERSISTENT * traits.persistent
    flags |= SAME_BODIES * (sizes is None)
    flags |= HAS_TTL * (command.ttl_ms is not None)
    head = ENQUEUE_HEAD.pack(
        command.first_seq,
        command.heard_seq,
        command.ttl_ms or 0,
        command.count,
        len(contents[0]) if batch.same_size else 0,
        command.size,
        traits.channel_number,
        len(traits.envelope),
        batch.properties.priority,
    )
    parts = [raw_address(command.sender), head, traits.envelope]
    row = Struct(f"<{command.count}I")
    if not batch.same_size:
        parts.append(row.pack(*map(len, contents)))
    if sizes is not None:
        parts.append(row.pack(*sizes))
    return flags, parts + contents


def encode_bodiless(command: Enqueue) -> tuple[int, list[bytes]]:
    """Encode what the state needs of an enqueue whose messages have all left the queue."""
    sizes = command.sizes
    flags = BODILESS | SAME_SIZE | SAME_BODIES * (sizes is None)
    flags |= HAS_TTL * (command.ttl_ms is not None)
    head = ENQUEUE_HEAD.pack(
        command.first_seq,
        command.heard_seq,
        command.ttl_ms or 0,
        command.count,
        0,
        command.size,
        0,
        0,
        0,
    )
    row = [] if sizes is None else [Struct(f"<{command.count}I").pack(*sizes)]
    return flags, [raw_address(command.sender), head, *row]


def encode_register(command: RegisterEnqueuer) -> tuple[int, list[bytes]]:
    return 0, [command.sender.encode()]


def encode_add(command: AddConsumer) -> tuple[int, list[bytes]]:
    tag = octets(command.consumer.tag)
    return NO_ACK * command.no_ack | EXCLUSIVE * command.exclusive, [
        command.consumer.channel.encode(),
        CONSUME_HEAD.pack(command.priority, command.prefetch, len(tag)),
        tag,
        command.arguments,
    ]


def encode_cancel(command: CancelConsumer) -> tuple[int, list[bytes]]:
    tag = octets(command.consumer.tag)
    return 0, [command.consumer.channel.encode(), TAG_HEAD.pack(len(tag)), tag]


def encode_settle(command: SettleDelivered) -> tuple[int, list[bytes]]:
    assert all(start < end for start, end in command.ids), "a settle of nothing cannot be read"
    tag = octets(command.consumer.tag)
    head = SETTLE_HEAD.pack(len(command.ids), command.outcome, len(tag))
    ids = [IDS.pack(*each) for each in command.ids]
    return 0, [raw_address(command.consumer.channel), head, tag, *ids]


def encode_resume(command: ResumeConsumer) -> tuple[int, list[bytes]]:
    tag = octets(command.consumer.tag)
    head = RESUME_HEAD.pack(command.next_id, len(tag))
    return 0, [command.consumer.channel.encode(), head, tag]


def encode_get(command: GetMessage) -> tuple[int, list[bytes]]:
    return NO_ACK * command.no_ack, [command.channel.encode()]


def encode_purge(command: PurgeQueue) -> tuple[int, list[bytes]]:
    return 0, [command.channel.encode()]


def encode_delete(command: DeleteFifo) -> tuple[int, list[bytes]]:
    address = NOBODY if command.channel is None else command.channel
    return IF_UNUSED * command.if_unused | IF_EMPTY * command.if_empty, [address.encode()]


def encode_down(command: AddressDown) -> tuple[int, list[bytes]]:
    return IS_LOST * command.is_lost, [command.channel.encode()]


def encode_restarted(command: NodeRestarted) -> tuple[int, list[bytes]]:
    return 0, [NODE.pack(*command)]


def encode_asked(command: Asked) -> tuple[int, list[bytes]]:
    return 0, [raw_address(command.asker), ROW.pack(command.number)]


def encode_empty(_: UseQueue | PassTime) -> tuple[int, list[bytes]]:
    return 0, []


def encode_compare(command: CompareState) -> tuple[int, list[bytes]]:
    return 0, [COMPARED.pack(*command)]


def encode_configure(command: Configure) -> tuple[int, list[bytes]]:
    return 0, [encode_settings(command.settings)]


ENCODERS: Final[dict[type, tuple[int, Callable[[Any], tuple[int, list[bytes]]]]]] = {
    AddConsumer: (3, encode_add),
    CancelConsumer: (4, encode_cancel),
    GetMessage: (5, encode_get),
    PurgeQueue: (7, encode_purge),
    DeleteFifo: (8, encode_delete),
    AddressDown: (9, encode_down),
    Configure: (10, encode_configure),
    Enqueue: (11, encode_enqueue),
    RegisterEnqueuer: (12, encode_register),
    SettleDelivered: (13, encode_settle),
    ResumeConsumer: (14, encode_resume),
    NodeRestarted: (15, encode_restarted),
    UseQueue: (16, encode_empty),
    PassTime: (17, encode_empty),
    Asked: (19, encode_asked),
    CompareState: (20, encode_compare),
}
"""The number of each type, the same as in `queues/command_codec.py` where both have it."""


def without_bodies(data: bytes, at: int) -> bytes:
    """Return the commands in `data` from `at` on, which were read before, without the contents of
    those that enqueue: see `encode_bodiless`."""
    head_bytes: int = HEAD.size
    parts: list[bytes] = []
    kept = at
    while at < len(data):
        kind = data[at] | data[at + 1] << 8
        body_at = at + head_bytes
        length = data[at + 4] | data[at + 5] << 8 | data[at + 6] << 16 | data[at + 7] << 24
        if kind == ENQUEUE_KIND:
            parts.append(data[kept:at])
            kept = body_at + length
            if not put_usual_bodiless(parts, data, body_at, data[at + 2] | data[at + 3] << 8):
                parts.append(encode_entry([decode_one(data, at)]))
        at = body_at + length
    parts.append(data[kept:])
    return b"".join(parts)


# -- and back


def decode_entry(data: bytes, at: int = 0) -> list[FifoCommand]:
    """Return the commands of an entry, without bodies; the entry is in `data` from `at` on. Raises
    UnreadableCommand when it is none, or has an unknown command."""
    kind: int
    flags: int
    length: int
    found: list[FifoCommand] = []
    head_bytes: int = HEAD.size
    size = len(data)
    while at < size or not found:
        if size - at < head_bytes:
            raise UnreadableCommand(f"{size - at} bytes are too few for a command")
        kind = data[at] | data[at + 1] << 8
        flags = data[at + 2] | data[at + 3] << 8
        length = data[at + 4] | data[at + 5] << 8 | data[at + 6] << 16 | data[at + 7] << 24
        body_at = at + head_bytes
        end = body_at + length
        command = usual_command(data, body_at, end, kind, flags) if end <= size else None
        found.append(decode_one(data, at) if command is None else command)
        at = end
    return found


def decode_one(data: bytes, at: int) -> FifoCommand:
    """Return the command that begins at `at`, where its head is complete. Bodies are not copied.
    Raises UnreadableCommand."""
    kind, flags, length = HEAD.unpack_from(data, at)
    if kind not in DECODERS:
        text = f"command type {kind} is not known here: it is of a later version of SluiceMQ"
        raise UnreadableCommand(text)
    word, known, decode = DECODERS[kind]
    if flags & ~known:
        raise UnreadableCommand(f"flags {flags & ~known} of a {word} are not known here")
    end = at + HEAD.size + length
    if end > len(data):
        there = len(data) - at - HEAD.size
        raise UnreadableCommand(f"a {word} of {length} bytes has {there}")
    view = memoryview(data)
    whole: Any = view[at:end] if decode is decode_enqueue else data[at:end]
    return decode(CommandBody(word, flags, whole))


def address_of(body: CommandBody) -> ActorAddress:
    """Read an address. Raises UnreadableCommand when there are too few bytes."""
    return decode_address(body.view(ADDRESS_BYTES), 0)


def decode_enqueue(body: CommandBody) -> Enqueue:
    sender = address_of(body)
    first_seq, heard_seq, ttl_ms, count, content, size, _, envelope_size, _ = body.take(
        ENQUEUE_HEAD
    )
    if not count or not 0 < first_seq <= SEQ_MAX - count:
        raise UnreadableCommand("an enqueue has no messages, or no number")
    body.skip(envelope_size)
    if body.flags & BODILESS and (content or not body.flags & SAME_SIZE):
        raise UnreadableCommand("an enqueue without contents says that it has some")
    total = count * content
    if not body.flags & SAME_SIZE:
        total = sum(Struct(f"<{count}I").unpack(body.view(4 * count)))
    sizes: list[int] | None = None
    if not body.flags & SAME_BODIES:
        sizes = [*Struct(f"<{count}I").unpack(body.view(4 * count))]
    there = body.left
    if there != total:
        raise UnreadableCommand(f"an enqueue with {total} bytes of contents has {there}")
    has_ttl = bool(body.flags & HAS_TTL)
    return Enqueue(sender, first_seq, count, size, sizes, ttl_ms if has_ttl else None, heard_seq)


def decode_register(body: CommandBody) -> RegisterEnqueuer:
    return done(body, RegisterEnqueuer(address_of(body)))


def decode_add(body: CommandBody) -> AddConsumer:
    channel = address_of(body)
    priority, prefetch, tag_size = body.take(CONSUME_HEAD)
    tag = text_of(body.cut(tag_size))
    arguments = body.rest()
    try:
        _, end = decode_table(arguments)
    except Malformed as error:
        raise UnreadableCommand(f"the arguments of a consume are no table: {error}") from error
    if end < len(arguments):
        raise UnreadableCommand(f"a consume has {len(arguments) - end} bytes too many")
    if not tag:
        raise UnreadableCommand("a consume has no tag")
    no_ack, exclusive = bool(body.flags & NO_ACK), bool(body.flags & EXCLUSIVE)
    key = ConsumerKey(channel, tag)
    return AddConsumer(key, prefetch, priority, exclusive, no_ack, arguments)


def decode_cancel(body: CommandBody) -> CancelConsumer:
    channel = address_of(body)
    (tag_size,) = body.take(TAG_HEAD)
    return done(body, CancelConsumer(ConsumerKey(channel, text_of(body.cut(tag_size)))))


def decode_settle(body: CommandBody) -> SettleDelivered:
    channel = address_of(body)
    count, outcome, tag_size = body.take(SETTLE_HEAD)
    key = ConsumerKey(channel, text_of(body.cut(tag_size)))
    if outcome > UNSENT:
        raise UnreadableCommand(f"outcome {outcome} of a settle is not known here")
    ids = tuple((start, end) for start, end in IDS.iter_unpack(body.cut(count * IDS.size)))
    if any(start >= end for start, end in ids):
        raise UnreadableCommand("a settle has ids from one to no later one")
    return done(body, SettleDelivered(key, ids, outcome))


def decode_resume(body: CommandBody) -> ResumeConsumer:
    channel = address_of(body)
    next_id, tag_size = body.take(RESUME_HEAD)
    key = ConsumerKey(channel, text_of(body.cut(tag_size)))
    return done(body, ResumeConsumer(key, next_id))


def decode_get(body: CommandBody) -> GetMessage:
    return done(body, GetMessage(address_of(body), bool(body.flags & NO_ACK)))


def decode_purge(body: CommandBody) -> PurgeQueue:
    return done(body, PurgeQueue(address_of(body)))


def decode_delete(body: CommandBody) -> DeleteFifo:
    address = address_of(body)
    channel = None if address == NOBODY else address
    if_unused, if_empty = bool(body.flags & IF_UNUSED), bool(body.flags & IF_EMPTY)
    return done(body, DeleteFifo(channel, if_unused, if_empty))


def decode_down(body: CommandBody) -> AddressDown:
    return done(body, AddressDown(address_of(body), bool(body.flags & IS_LOST)))


def decode_restarted(body: CommandBody) -> NodeRestarted:
    return done(body, NodeRestarted(*body.take(NODE)))


def decode_use(body: CommandBody) -> UseQueue:
    return done(body, UseQueue())


def decode_pass(body: CommandBody) -> PassTime:
    return done(body, PassTime())


def decode_asked(body: CommandBody) -> Asked:
    return done(body, Asked(address_of(body), *body.take(ROW)))


def decode_compare(body: CommandBody) -> CompareState:
    return done(body, CompareState(*body.take(COMPARED)))


def decode_configure(body: CommandBody) -> Configure:
    return Configure(decode_settings(body.rest()))


def done(body: CommandBody, command: C) -> C:
    body.end()
    return command


Decode = Callable[[CommandBody], FifoCommand]

DECODERS: Final[dict[int, tuple[str, int, Decode]]] = {
    3: ("consume", NO_ACK | EXCLUSIVE, decode_add),
    4: ("cancel", 0, decode_cancel),
    5: ("get", NO_ACK, decode_get),
    7: ("purge", 0, decode_purge),
    8: ("delete", IF_UNUSED | IF_EMPTY, decode_delete),
    9: ("down", IS_LOST, decode_down),
    10: ("configure", 0, decode_configure),
    11: ("enqueue", SAME_SIZE | PERSISTENT | HAS_TTL | SAME_BODIES | BODILESS, decode_enqueue),
    12: ("register", 0, decode_register),
    13: ("settle", 0, decode_settle),
    14: ("resume", 0, decode_resume),
    15: ("node-restarted", 0, decode_restarted),
    16: ("use", 0, decode_use),
    17: ("pass-time", 0, decode_pass),
    19: ("asked", 0, decode_asked),
    20: ("compare", 0, decode_compare),
}
"""By number: the command's name, the flags that it may have, and its reader."""
