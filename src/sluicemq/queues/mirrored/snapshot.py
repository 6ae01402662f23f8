"""The state of a mirror in bytes, and back: pieces in MessagePack. Mirrors with equal states have
equal pieces.

    head    magic, version, index, time, master, in-sync set, held mirrors each with [priority,
            position], rows each with [priority, next position, delivered]
    runs    priority, then at most 500 of its runs: first position, count, index, place, expiry,
            bytes of each content, or of all (nil: they are alike), bits of the messages that are
            there, lowest first (nil: all are), channel, persistent, exchange and routing key
    end     -1, and how many pieces were before it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec

from sluicemq.model.traits import message_traits
from sluicemq.queues.mirrored.in_sync_set import InSyncSet
from sluicemq.queues.mirrored.mirror_state import MirrorState
from sluicemq.queues.mirrored.mirrored_rows import MirroredRow, MirroredRun

MAGIC: Final = "sluicemq mirror"
MACHINE_VERSION: Final = 1
"""It grows when the same commands lead to another state, or a snapshot has another form."""
ROWS_MAX: Final = 500
"""The most runs in a piece, which take some hundred microseconds."""
END: Final = -1

RunRow = tuple[int, int, int, int, int, int, list[int] | None, bytes | None, int, bool, bytes]


class MirrorHead(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The beginning of a snapshot of a mirror."""

    magic: str
    version: int
    index: int
    now_ms: int
    master: int
    in_sync: tuple[int, ...]
    held: list[tuple[int, list[tuple[int, int]]]]
    rows: list[tuple[int, int, int]]


ENCODER: Final = msgspec.msgpack.Encoder()
HEAD_DECODER: Final = msgspec.msgpack.Decoder(MirrorHead)
PIECE_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
RUNS_DECODER: Final = msgspec.msgpack.Decoder(list[RunRow])
COUNT_DECODER: Final = msgspec.msgpack.Decoder(int)


# -- to bytes


def pieces_of(state: MirrorState) -> Iterator[bytes]:
    """Give the pieces of a snapshot of the state as it is now; it may change while they are
    taken."""
    in_sync = state.in_sync
    rows = sorted(state.rows.items())
    head = MirrorHead(
        MAGIC,
        MACHINE_VERSION,
        state.index,
        state.now_ms,
        in_sync.master,
        in_sync.members,
        [(member, sorted(nexts.items())) for member, nexts in sorted(in_sync.held.items())],
        [(priority, row.next, row.delivered) for priority, row in rows],
    )
    runs = [(priority, [*map(row_of_run, row.runs())]) for priority, row in rows]
    return encoded(head, runs)


def encoded(head: MirrorHead, runs: list[tuple[int, list[RunRow]]]) -> Iterator[bytes]:
    yield ENCODER.encode(head)
    count = 1
    for priority, of_row in runs:
        for start in range(0, len(of_row), ROWS_MAX):
            yield ENCODER.encode((priority, of_row[start : start + ROWS_MAX]))
            count += 1
    yield ENCODER.encode((END, count))


def row_of_run(run: MirroredRun) -> RunRow:
    """Return the snapshot's row for a run."""
    bits = None if run.is_whole else run.alive.to_bytes((run.count + 7) // 8, "little")
    traits = run.traits
    return (
        run.first,
        run.count,
        run.index,
        run.place,
        run.expiry,
        run.size,
        run.sizes,
        bits,
        traits.channel_number,
        traits.persistent,
        traits.envelope,
    )


def digest_of(state: MirrorState) -> bytes:
    """Return 16 bytes that are equal for equal states, and differ otherwise."""
    digest = blake2b(digest_size=16)
    for piece in pieces_of(state):
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.digest()


# -- and back


def restore_from(state: MirrorState, pieces: Iterable[bytes]) -> None:
    """Replace the state by that of a snapshot. Raises ValueError, and changes nothing, when the
    pieces are no snapshot, or one of an unknown version."""
    given = iter(pieces)
    head = decoded(HEAD_DECODER, next(given, b""))
    if head.magic != MAGIC or head.version != MACHINE_VERSION:
        raise ValueError(f"a snapshot of version {head.version} of '{head.magic}'")
    rows = {priority: MirroredRow(0) for priority, _, _ in head.rows}
    for count, piece in enumerate(given, 1):
        kind, raw = decoded(PIECE_DECODER, piece)
        if kind == END:
            if decoded(COUNT_DECODER, raw) != count or next(given, None) is not None:
                raise ValueError("pieces of a snapshot are missing, or too many")
            break
        if kind not in rows:
            raise ValueError(f"a snapshot has no row {kind}")
        for run_row in decoded(RUNS_DECODER, raw):
            add(rows[kind], run_row)
    else:
        raise ValueError("a snapshot without its end")
    for priority, following, delivered in head.rows:
        rows[priority].next, rows[priority].delivered = following, delivered
    in_sync = InSyncSet()
    in_sync.master, in_sync.members = head.master, head.in_sync
    in_sync.held = {member: dict(nexts) for member, nexts in head.held}
    state.index, state.now_ms = head.index, head.now_ms
    state.in_sync, state.rows = in_sync, rows


def add(row: MirroredRow, run_row: RunRow) -> None:
    """Add a run to a row. Raises ValueError when it is malformed."""
    first, count, index, place, expiry, size, sizes, bits, *traits = run_row
    channel_number, persistent, envelope = traits
    alive = (1 << max(0, count)) - 1 if bits is None else int.from_bytes(bits, "little")
    is_one = first >= row.next and (sizes is None or len(sizes) == count)
    if not (is_one and 0 < alive < 1 << count):
        raise ValueError(f"a snapshot has no run of {count} messages at {first}")
    of_all = message_traits(envelope, channel_number, persistent)
    run = MirroredRun(first, count, index, place, of_all, size, sizes, expiry)
    run.alive = alive
    row.add(run)


def decoded(decoder: Any, raw: bytes) -> Any:
    """Return the decoded bytes. Raises ValueError when the decoder cannot read them."""
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"a piece of a snapshot is none: {error}") from error
