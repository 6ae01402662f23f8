"""Commands of mirrored queues as bytes, for the log. docs/command-format.md has each byte.

An entry of the log is one or more commands, one behind the other. Applying a command needs no
content: a master that begins reads contents by `runs_of`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final

from sluicemq.queues.command_codec import HEAD, CommandBody, UnreadableCommand
from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    DropMirror,
    HoldMirror,
    JoinMirror,
    MarkDelivered,
    MirrorCommand,
    ReleaseMirror,
    RemoveMessages,
    WriteMessages,
)
from sluicemq.storage.entries import Run, decode_run, encode_run
from sluicemq.text import octets, text_of

WRITE: Final = 21
PLACE: Final = Struct("<I4x")
RANGE: Final = Struct("<QII")
POSITION: Final = Struct("<Q")
MEMBER: Final = Struct("<Q")


# -- to bytes


def encode_entry(commands: list[MirrorCommand], head: bytes = b"") -> bytes:
    """Return the bytes of an entry with these commands, in the order of application,
    behind `head`.
    """
    parts = [head]
    place = 0
    for command in commands:
        if isinstance(command, WriteMessages):
            parts += written(command.run, place)
            place += command.run.count
        else:
            kind, encode = ENCODERS[type(command)]
            body = encode(command)
            parts += [HEAD.pack(kind, 0, len(body)), body]
    return b"".join(parts)


def written(run: Run, place: int) -> list[bytes]:
    """Return a write of these messages, the first of which has that place in its entry."""
    assert run.contents is not None and run.step == 1, "messages of one batch, with their contents"
    parts: list[bytes] = []
    size = encode_run(parts, run)
    return [HEAD.pack(WRITE, 0, PLACE.size + size), PLACE.pack(place), *parts]


def encode_remove(command: RemoveMessages) -> bytes:
    assert all(command.positions), "a remove of nothing cannot be read"
    return b"".join(RANGE.pack(each.start, each.step, len(each)) for each in command.positions)


def encode_delivered(command: MarkDelivered) -> bytes:
    return POSITION.pack(command.position)


def encode_member(command: BeginMastership | JoinMirror | HoldMirror | ReleaseMirror) -> bytes:
    return MEMBER.pack(command.member)


def encode_drop(command: DropMirror) -> bytes:
    return MEMBER.pack(command.member) + octets(command.reason)


ENCODERS: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    RemoveMessages: (22, encode_remove),
    MarkDelivered: (23, encode_delivered),
    BeginMastership: (24, encode_member),
    JoinMirror: (25, encode_member),
    DropMirror: (26, encode_drop),
    HoldMirror: (27, encode_member),
    ReleaseMirror: (28, encode_member),
}
"""The number of each type except a write, which is never reused; see `queues/command_codec.py`."""


# -- and back


def decode_entry(data: bytes, at: int = 0) -> list[MirrorCommand]:
    """Return the commands of an entry, without contents; the entry is in `data` from `at` on.
    Raises UnreadableCommand when it is none, or has an unknown command."""
    return [DECODERS[kind](body) for kind, body in split(data, at)]


def runs_of(data: bytes, at: int = 0) -> list[tuple[int, Run]]:
    """Return the messages of an entry, whole or trimmed, that is in `data` from `at` on, each run
    with the place of its first. Raises UnreadableCommand when it is none."""
    return [read_run(body) for kind, body in split(data, at) if kind == WRITE]


def trimmed(data: bytes, places: Sequence[range]) -> bytes:
    """Return the rest of an entry, or of a trimmed one, when only the messages at these places are
    needed, which are ascending and have no step: their writes. Raises UnreadableCommand when it is
    neither."""
    parts: list[bytes] = []
    for first, run in runs_of(data):
        for each in places:
            start, end = max(first, each.start), min(first + run.count, each.stop)
            if start < end:
                parts += written(run.part(start - first, end - first), start)
    return b"".join(parts)


def split(data: bytes, at: int) -> Iterator[tuple[int, CommandBody]]:
    """Give the commands of an entry, each with its type; contents are not copied. Raises
    UnreadableCommand when one is cut off or unknown."""
    while at < len(data):
        if len(data) - at < HEAD.size:
            raise UnreadableCommand(f"{len(data) - at} bytes are too few for a command")
        kind, flags, length = HEAD.unpack_from(data, at)
        if kind not in DECODERS or flags:
            raise UnreadableCommand(f"type {kind}, flags {flags} of a command are not known here")
        start, at = at, at + HEAD.size + length
        if at > len(data):
            there = len(data) - start - HEAD.size
            raise UnreadableCommand(f"a command of {length} bytes has {there}")
        yield kind, CommandBody("command of a mirrored queue", flags, data, start, at)


def decode_write(body: CommandBody) -> WriteMessages:
    return WriteMessages(read_run(body, has_bodies=False)[1])


def read_run(body: CommandBody, has_bodies: bool = True) -> tuple[int, Run]:
    """Return the place of the first message of a write, and the messages; without their contents
    unless `has_bodies`."""
    (place,) = body.take(PLACE)
    try:
        run, end = decode_run(memoryview(body.data), body.at, has_bodies)
    except (struct.error, ValueError) as error:
        raise UnreadableCommand(f"a write has no run of messages: {error}") from error
    if end != body.stop or run.step != 1 or run.first_id:
        raise UnreadableCommand("a write has another run of messages than those of a batch")
    return place, run


def decode_remove(body: CommandBody) -> RemoveMessages:
    raw = body.rest()
    if not raw or len(raw) % RANGE.size:
        raise UnreadableCommand(f"a remove has {len(raw)} bytes of positions")
    ranges = [
        range(first, first + step * count, step) if step else range(0)
        for first, step, count in RANGE.iter_unpack(raw)
    ]
    if not all(ranges):
        raise UnreadableCommand("a remove has a range of no positions")
    return RemoveMessages((*ranges,))


def decode_delivered(body: CommandBody) -> MarkDelivered:
    (position,) = body.take(POSITION)
    body.end()
    return MarkDelivered(position)


def member_in(body: CommandBody) -> int:
    """Return the member, which is the only field of the command."""
    (member,) = body.take(MEMBER)
    body.end()
    return int(member)


def decode_drop(body: CommandBody) -> DropMirror:
    (member,) = body.take(MEMBER)
    return DropMirror(member, text_of(body.rest()))


DECODERS: Final[dict[int, Callable[[CommandBody], MirrorCommand]]] = {
    WRITE: decode_write,
    22: decode_remove,
    23: decode_delivered,
    24: lambda body: BeginMastership(member_in(body)),
    25: lambda body: JoinMirror(member_in(body)),
    26: decode_drop,
    27: lambda body: HoldMirror(member_in(body)),
    28: lambda body: ReleaseMirror(member_in(body)),
}
"""By number: the reader of a type."""
