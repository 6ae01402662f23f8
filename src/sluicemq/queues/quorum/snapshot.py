"""The state of a quorum queue in bytes, and back. docs/quorum-queues.md has the rows.

A snapshot is a row of pieces, each in MessagePack: a head, then rows of each section, and an end
with the number of pieces before it. Members with equal states have equal pieces. All other state
follows from the pieces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.command_codec import UnreadableCommand, decode_settings, encode_settings
from sluicemq.queues.quorum.askers import AskedUpTo
from sluicemq.queues.quorum.commands import ConsumerKey
from sluicemq.queues.quorum.enqueuers import Enqueuer
from sluicemq.queues.quorum.fifo_state import FifoState
from sluicemq.queues.quorum.message_runs import MessageRun, StoredBatch
from sluicemq.queues.quorum.service_queue import CANCELLED, UP, QueueConsumer
from sluicemq.text import octets, text_of

MAGIC: Final = "sluicemq fifo"
MACHINE_VERSION: Final = 1
"""It grows when the same commands lead to another state, or a snapshot has another form."""

DIGEST_BYTES: Final = 16
ROWS_MAX: Final = 500
"""The most rows in a piece, which take some hundred microseconds."""

BATCHES, RETURNS, PENDING, DEAD, CONSUMERS, CHECKED_OUT, RINGS = range(1, 8)
ENQUEUERS, ENDED, INCARNATIONS, ASKERS, END = range(8, 13)

Address = tuple[int, int, int]
RunRow = tuple[int, int, int, int, int, bool, str]
"""The number of its batch; the first of its places, how many there are, and their distance, 1 when
there is one; returns, redelivered, reason."""

ROWS: Final[dict[int, Any]] = {
    BATCHES: tuple[int, int, int, int, list[int] | None, int],
    RETURNS: RunRow,
    PENDING: RunRow,
    DEAD: tuple[int, RunRow],
    CONSUMERS: tuple[Address, bytes, int, int, bool, bool, bytes, int, int],
    CHECKED_OUT: tuple[int, int, RunRow],
    RINGS: tuple[int, list[int]],
    ENQUEUERS: tuple[Address, int, int, list[tuple[int, int]]],
    ENDED: Address,
    INCARNATIONS: tuple[int, int],
    ASKERS: tuple[Address, int],
}
"""The fields of a row, for each section."""

R = TypeVar("R")


class SnapshotHead(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The beginning of a snapshot. `first_fresh` is the number of the first fresh batch, `head` its
    first fresh message; `active` and `exclusive` are numbers of consumers, -1: none."""

    magic: str
    version: int
    index: int
    now_ms: int
    used_ms: int
    rejects: bool
    is_deleted: bool
    settings: bytes
    first_fresh: int
    head: int
    next_dead_id: int
    single_active: bool
    active: int
    exclusive: int


ENCODER: Final = msgspec.msgpack.Encoder()
HEAD_DECODER: Final = msgspec.msgpack.Decoder(SnapshotHead)
PIECE_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
ROWS_DECODERS: Final = {
    section: msgspec.msgpack.Decoder(list[row])  # type: ignore[valid-type]
    for section, row in ROWS.items()
}


# -- to bytes


def pieces_of(state: FifoState) -> Iterator[bytes]:
    """Give the pieces of a snapshot of the state as it is now; it may change while they are
    taken."""
    messages = state.messages
    taken = [*messages.taken]
    numbers = {batch: number for number, batch in enumerate(taken)}
    fresh = [*messages.fresh]
    first_fresh = numbers.get(fresh[0], len(taken)) if fresh else len(taken)
    batches = taken + fresh[len(taken) - first_fresh :]
    consumers = [*state.consumers.members.values()]
    places = {consumer: number for number, consumer in enumerate(consumers)}
    head = SnapshotHead(
        MAGIC,
        MACHINE_VERSION,
        state.index,
        state.now_ms,
        state.used_ms,
        state.rejects,
        state.is_deleted,
        encode_settings(state.settings),
        first_fresh,
        messages.head,
        state.dead_letters.next_id,
        state.consumers.single_active,
        -1 if state.consumers.active is None else places[state.consumers.active],
        -1 if state.consumers.exclusive is None else places[state.consumers.exclusive],
    )
    dead = state.dead_letters.checked_out
    rows: list[tuple[int, Sequence[Any]]] = [
        (RETURNS, [run_row(run, numbers) for run in messages.returns]),
        (PENDING, [run_row(run, numbers) for run in state.dead_letters.pending]),
        (DEAD, [(first_id, run_row(run, numbers)) for first_id, run in dead.since(0)]),
        (CONSUMERS, [consumer_row(consumer) for consumer in consumers]),
        (
            CHECKED_OUT,
            [
                (number, first_id, run_row(run, numbers))
                for consumer, number in places.items()
                for first_id, run in consumer.checked_out.since(0)
            ],
        ),
        (RINGS, ring_rows(state, places)),
        *enqueuer_rows(state),
        (ASKERS, [(tuple(row.asker), row.number) for row in state.askers.members.values()]),
    ]
    return written(head, batches, rows)


def enqueuer_rows(state: FifoState) -> list[tuple[int, Sequence[Any]]]:
    enqueuers = state.enqueuers
    members = [
        (tuple(address), each.next_seq, each.heard_seq, [*each.rejected])
        for address, each in enqueuers.members.items()
    ]
    ended = [tuple(address) for address in enqueuers.ended]
    return [
        (ENQUEUERS, members),
        (ENDED, ended),
        (INCARNATIONS, [*enqueuers.incarnations.items()]),
    ]


def ring_rows(state: FifoState, numbers: dict[QueueConsumer, int]) -> list[tuple[int, list[int]]]:
    rings = state.consumers.rings
    return [(key, [numbers[each] for each in rings[key]]) for key in state.consumers.busy]


def consumer_row(consumer: QueueConsumer) -> tuple[object, ...]:
    return (
        tuple(consumer.key.channel),
        octets(consumer.key.tag),
        consumer.prefetch,
        consumer.priority,
        consumer.exclusive,
        consumer.no_ack,
        consumer.arguments,
        consumer.status,
        consumer.next_id,
    )


def run_row(run: MessageRun, numbers: dict[StoredBatch, int]) -> RunRow:
    places = run.places
    count = len(places)
    step = places.step if count > 1 else 1  # equal ranges may end differently
    number = numbers[run.batch]
    return number, places.start, count, step, run.returns, run.redelivered, run.reason


def written(
    head: SnapshotHead, batches: list[StoredBatch], rows: list[tuple[int, Sequence[Any]]]
) -> Iterator[bytes]:
    encode = ENCODER.encode
    yield encode(head)
    pieces = 1
    for at in range(0, len(batches), ROWS_MAX):
        some = [
            (each.index, each.first, each.count, each.size, each.sizes, each.expiry)
            for each in batches[at : at + ROWS_MAX]
        ]
        yield encode((BATCHES, some))
        pieces += 1
    for section, all_rows in rows:
        for at in range(0, len(all_rows), ROWS_MAX):
            yield encode((section, all_rows[at : at + ROWS_MAX]))
            pieces += 1
    yield encode((END, pieces))


def digest_of(pieces: Iterable[bytes]) -> bytes:
    """Return 16 bytes that are equal for equal states, and differ otherwise."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(len(piece).to_bytes(4))
        digest.update(piece)
    return digest.digest()


# -- and back

UNREADABLE: Final = (
    msgspec.MsgspecError,
    UnreadableCommand,
    LookupError,
    OverflowError,
    AssertionError,
)
"""The errors that malformed snapshots may cause."""


def restored(pieces: Iterable[bytes]) -> FifoState:
    """Return the state that pieces_of was given. Raises ValueError when the pieces are not a whole
    snapshot of this version."""
    try:
        return state_of(*read_pieces(pieces))
    except UNREADABLE as error:
        raise ValueError(f"no snapshot of a quorum queue: {error}") from error


def read_pieces(pieces: Iterable[bytes]) -> tuple[SnapshotHead, dict[int, list[Any]]]:
    """Return the head, and the rows of each section. Raises ValueError, and msgspec's errors for
    malformed pieces."""
    each = iter(pieces)
    head = HEAD_DECODER.decode(next(each, b""))
    if head.magic != MAGIC:
        raise ValueError("this is no snapshot of a quorum queue")
    if head.version != MACHINE_VERSION:
        text = f"a snapshot of a quorum queue has version {head.version}, which is not known here"
        raise ValueError(text)
    rows: dict[int, list[Any]] = {section: [] for section in ROWS}
    count = 1
    for piece in each:
        section, raw = PIECE_DECODER.decode(piece)
        if section == END:
            if msgspec.msgpack.decode(raw, type=int) != count or next(each, None) is not None:
                raise ValueError("a snapshot of a quorum queue lacks a piece")
            return head, rows
        rows[section] += ROWS_DECODERS[section].decode(raw)
        count += 1
    raise ValueError("a snapshot of a quorum queue has no end")


def state_of(head: SnapshotHead, rows: dict[int, list[Any]]) -> FifoState:
    state = FifoState(decode_settings(head.settings))
    state.configure(state.settings)
    state.index = head.index
    state.now_ms = head.now_ms
    state.used_ms = head.used_ms
    state.rejects = head.rejects
    state.is_deleted = head.is_deleted
    batches = [StoredBatch(*row) for row in rows[BATCHES]]
    read_messages(state, head, batches, rows)
    read_dead_letters(state, head, batches, rows)
    read_consumers(state, head, batches, rows)
    read_enqueuers(state, rows)
    for address, number in rows[ASKERS]:
        asker = ActorAddress(*address)
        state.askers.members[asker.node] = AskedUpTo(asker, number)
    check_counts(state)
    return state


def run_of(row: RunRow, batches: list[StoredBatch]) -> MessageRun:
    number, start, count, step, returns, redelivered, reason = row
    batch, places = batches[number], range(start, start + count * step, step)
    assert places and batch.first <= start and places[-1] < batch.end, "places outside of a batch"
    return MessageRun(batch, places, returns, redelivered, reason)


def read_messages(
    state: FifoState, head: SnapshotHead, batches: list[StoredBatch], rows: dict[int, list[Any]]
) -> None:
    messages = state.messages
    fresh = batches[head.first_fresh :]
    messages.fresh.extend(fresh)
    messages.head = head.head
    messages.returns.extend(run_of(row, batches) for row in rows[RETURNS])
    for run in messages.returns:
        hold(run)
    runs = [*messages.returns]
    if fresh:
        assert fresh[0].first <= head.head < fresh[0].end, "a first message of no batch"
        runs.append(MessageRun(fresh[0], range(head.head, fresh[0].end)))
    runs += [MessageRun(each, range(each.first, each.end)) for each in fresh[1:]]
    messages.count = sum(len(run.places) for run in runs)
    messages.bytes = sum(run.bytes for run in runs)


def hold(run: MessageRun) -> None:
    """Count the messages of a run as taken, and not gone."""
    run.batch.taken += len(run.places)
    assert run.batch.taken <= run.batch.count, "a message is in two places"


def read_dead_letters(
    state: FifoState, head: SnapshotHead, batches: list[StoredBatch], rows: dict[int, list[Any]]
) -> None:
    dead = state.dead_letters
    dead.next_id = head.next_dead_id
    for row in rows[PENDING]:
        dead.pending.append(run_of(row, batches))
    for first_id, row in rows[DEAD]:
        dead.checked_out.add(first_id, run_of(row, batches))
    runs = [*dead.pending, *dead.checked_out.runs]
    dead.count = sum(len(run.places) for run in runs)
    dead.bytes = sum(run.bytes for run in runs)


def read_consumers(
    state: FifoState, head: SnapshotHead, batches: list[StoredBatch], rows: dict[int, list[Any]]
) -> None:
    service = state.consumers
    service.single_active = head.single_active
    consumers: list[QueueConsumer] = []
    for address, tag, *row, status, next_id in rows[CONSUMERS]:
        consumer = service.holder(ConsumerKey(ActorAddress(*address), text_of(tag)))
        assert len(service.members) > len(consumers), "a consumer is there twice"
        assert UP <= status <= CANCELLED, "a consumer of no status"
        (
            consumer.prefetch,
            consumer.priority,
            consumer.exclusive,
            consumer.no_ack,
            consumer.arguments,
        ) = row
        consumer.status = status
        consumer.next_id = next_id
        consumers.append(consumer)
    for number, first_id, row in rows[CHECKED_OUT]:
        consumers[number].checked_out.add(first_id, run_of(row, batches))
    for key, numbers in rows[RINGS]:
        service.rings[key] = OrderedDict.fromkeys(consumers[number] for number in numbers)
        service.busy.append(key)
    service.active = consumers[head.active] if head.active >= 0 else None
    service.exclusive = consumers[head.exclusive] if head.exclusive >= 0 else None
    for run in state.runs_out():
        hold(run)
        state.messages.out += len(run.places)
        state.messages.out_bytes += run.bytes
    for batch in batches:
        if batch.taken:
            state.messages.taken[batch] = None


def read_enqueuers(state: FifoState, rows: dict[int, list[Any]]) -> None:
    enqueuers = state.enqueuers
    for address, next_seq, heard_seq, rejected in rows[ENQUEUERS]:
        enqueuer = enqueuers.members[ActorAddress(*address)] = Enqueuer(next_seq, heard_seq)
        enqueuer.rejected = rejected
    enqueuers.ended = {ActorAddress(*address): None for address in rows[ENDED]}
    enqueuers.incarnations = dict(rows[INCARNATIONS])


def check_counts(state: FifoState) -> None:
    """Check a state that was read against the invariants."""
    messages = state.messages
    taken = sum(batch.taken for batch in messages.taken)
    returned = sum(len(run.places) for run in messages.returns)
    assert taken == messages.out + returned, "a message is nowhere"
    for consumer in state.consumers.members.values():
        ring = state.consumers.rings.get(-consumer.priority, ())
        is_due = consumer.status == UP and consumer.credit > 0
        assert is_due is (consumer in ring), "a consumer waits for a turn that is not its own"
    indexes = [batch.index for batch in (*messages.taken, *messages.fresh)]
    assert all(a <= b for a, b in pairwise(indexes)), "not in the log's order"
    assert not indexes or indexes[-1] <= state.index, "an entry yet to come"
