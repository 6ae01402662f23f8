"""The content of an entry of a mirrored queue's log: the time its leader gave it, and commands.

    stamp u64, milliseconds since the epoch | commands, as in `command_codec`; of an entry that was
    trimmed the writes that are left of them

An entry proposed here is kept as commands, which share contents with the master's queue; its bytes
are made when it is written. An entry that arrived is kept as bytes. Either is dropped once the
log's segments have it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.queues.command_codec import UnreadableCommand
from sluicemq.queues.log_content import LogContent
from sluicemq.queues.mirrored.command_codec import decode_entry, encode_entry, trimmed
from sluicemq.queues.mirrored.commands import MirrorCommand, WriteMessages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.raft.entry_data import EntryData

STAMP: Final = Struct("<Q")
COMMAND_BYTES: Final = 64
"""The weight of a command without bodies where bytes are bounded."""


class MirrorContent(LogContent):
    """The content of one entry, of `size` bytes: `data`, or the commands that become them, proposed
    at `stamp_ms`. Both are None when it was dropped."""

    __slots__ = ("commands", "data", "size", "stamp_ms")

    def __init__(
        self, data: bytes, commands: list[MirrorCommand] | None = None, stamp_ms: int = 0
    ) -> None:
        self.data: bytes | None = data
        self.commands = commands
        self.stamp_ms = stamp_ms
        self.size = len(data)

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        if self.data is not None:
            return self.data
        assert self.commands is not None, "an entry is written before it is let go"
        return encode_entry(self.commands, STAMP.pack(self.stamp_ms))

    @property
    def is_there(self) -> bool:
        return self.data is not None or self.commands is not None

    def was_written(self) -> None:
        """Drop the bytes if they can be made again, because the entry was written."""
        if self.commands is not None:
            self.data = None

    def let_go(self) -> None:
        """Drop the whole content from RAM."""
        self.data = self.commands = None

    def decoded(self) -> tuple[int, list[MirrorCommand]]:
        """Return its time and its commands. Raises UnreadableCommand when the bytes are not of a
        form that this version writes."""
        if self.commands is not None:
            return self.stamp_ms, self.commands
        data = bytes(self)
        if len(data) < STAMP.size:
            raise UnreadableCommand(f"{len(data)} bytes are too few for an entry")
        (stamp_ms,) = STAMP.unpack_from(data)
        return stamp_ms, decode_entry(data, STAMP.size)


def content_of(data: EntryData) -> MirrorContent:
    """Return the content of an entry, which may have arrived as bytes."""
    return data if isinstance(data, MirrorContent) else MirrorContent(bytes(data))


def trimmed_entry(data: bytes, places: Sequence[range]) -> bytes:
    """Return the bytes of an entry, whole or trimmed, with only the messages at these places.
    Raises UnreadableCommand when they are neither."""
    return data[: STAMP.size] + trimmed(data[STAMP.size :], places)


class MirrorCodec:
    """Turns commands of a mirrored queue into entries, and back (`replication/majority.py`)."""

    __slots__ = ()

    def encode(self, commands: list[MirrorCommand], stamp_ms: int) -> MirrorContent:
        """Return the content of an entry with these commands and that time."""
        data = encode_entry(commands, STAMP.pack(stamp_ms))
        return MirrorContent(data, commands, stamp_ms)

    def decode(self, data: EntryData) -> tuple[int, list[MirrorCommand]]:
        """Return the time and the commands of an entry. Raises UnreadableCommand when the bytes are
        not of a form that this version writes."""
        return content_of(data).decoded()

    def weigh(self, command: MirrorCommand) -> int:
        """Return the approximate bytes of a command in an entry."""
        if isinstance(command, WriteMessages):
            return COMMAND_BYTES + sum(command.run.sizes)
        return COMMAND_BYTES
