"""The content of an entry of a quorum queue's log: the time its leader gave it, and commands.

    stamp u64, milliseconds since the epoch | commands, as in `command_codec`; of an entry that was
    trimmed what is left of them, as in `trimming`

An entry proposed here is kept as commands with batches, from which deliveries are made; its bytes
are made when it is written. An entry that was read is kept as bytes: its commands would be many
objects, which live long and are looked through for garbage. Either can be dropped once the log's
segments have it, and the bodies as soon as their messages have left the queue.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.queues.command_codec import UnreadableCommand
from sluicemq.queues.log_content import LogContent
from sluicemq.queues.quorum.command_codec import decode_entry, encode_entry, without_bodies
from sluicemq.queues.quorum.commands import Enqueue, FifoCommand
from sluicemq.queues.quorum.placed_contents import PlacedContents, of_commands, placed_in
from sluicemq.queues.quorum.trimming import PlacedBatch, bodies_of, trimmed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluicemq.raft.entry_data import EntryData

STAMP: Final = Struct("<Q")
UNKNOWN: Final = -1
"""The value of a size that is computed on demand."""
COMMAND_BYTES: Final = 64
"""The weight of a command without bodies where bytes are bounded."""


class EntryContent(LogContent):
    """The content of one entry, of `size` bytes: `data`, or the commands that become them, with
    their bodies, proposed at `stamp_ms`. Both are None when it was dropped. `messages` and
    `body_bytes` count the messages that it enqueues; for an entry that was read they are known once
    it was decoded."""

    __slots__ = ("body_bytes", "commands", "data", "messages", "size", "stamp_ms")

    def __init__(
        self, data: bytes, commands: list[FifoCommand] | None = None, stamp_ms: int = 0
    ) -> None:
        self.data: bytes | None = data
        self.commands = commands
        self.stamp_ms = stamp_ms
        self.size = len(data)
        self.messages = self.body_bytes = 0
        if commands is not None:
            self.count(commands)

    def __len__(self) -> int:
        if self.size == UNKNOWN:
            # Who asks is about to write the entry, which then need not be encoded again.
            self.data = bytes(self)
            self.size = len(self.data)
        return self.size

    def __bytes__(self) -> bytes:
        if self.data is not None:
            return self.data
        assert self.commands is not None, "an entry is written before it is let go"
        return encoded(self.commands, self.stamp_ms)

    @property
    def is_there(self) -> bool:
        return self.data is not None or self.commands is not None

    def count(self, commands: list[FifoCommand]) -> None:
        """Count the messages that its commands enqueue, and the bytes of their bodies."""
        self.messages = self.body_bytes = 0
        for each in commands:
            if isinstance(each, Enqueue):
                self.messages += each.count
                self.body_bytes += each.count * each.size if each.sizes is None else sum(each.sizes)

    def was_written(self) -> None:
        """Drop the bytes if they can be made again, because the entry was written."""
        if self.commands is not None:
            self.data = None

    def messages_gone(self) -> None:
        """Drop the bodies, because all messages of this entry have left the queue by later entries:
        from now on it is shorter, and still makes the same state. Told again, it does nothing."""
        if self.commands is None:
            if self.data is not None and self.messages:
                self.data = self.data[: STAMP.size] + without_bodies(self.data, STAMP.size)
                self.size = len(self.data)
        else:
            for each in self.commands:
                if isinstance(each, Enqueue) and each.batch is not None:
                    assert self.data is None, "what is proposed is written whole"
                    each.batch = None
                    self.size = UNKNOWN

    def let_go(self) -> None:
        """Drop the whole content from RAM."""
        if self.size == UNKNOWN and self.commands is not None:
            self.size = COMMAND_BYTES * len(self.commands)
        self.data = self.commands = None

    def decoded(self) -> tuple[int, list[FifoCommand]]:
        """Return its time and its commands. Raises UnreadableCommand when the bytes are not of a
        form that this version writes."""
        if self.commands is not None:
            return self.stamp_ms, self.commands
        data = bytes(self)
        if len(data) < STAMP.size:
            raise UnreadableCommand(f"{len(data)} bytes are too few for an entry")
        (stamp_ms,) = STAMP.unpack_from(data)
        commands = decode_entry(data, STAMP.size)
        self.count(commands)
        return stamp_ms, commands

    def placed(self) -> list[PlacedContents]:
        """Return the same as `batches`, with contents that are cut out when they are wanted."""
        if self.commands is None:
            return placed_in(bytes(self), STAMP.size)
        return of_commands(self.commands)

    def batches(self) -> list[PlacedBatch]:
        """Return the batches with their bodies, in the order of their places. The entry may be
        trimmed. Raises UnreadableCommand as `decoded` does."""
        if self.commands is None:
            return bodies_of(bytes(self), STAMP.size)
        found: list[PlacedBatch] = []
        place = 0
        for each in self.commands:
            if isinstance(each, Enqueue):
                end = place + each.count
                if each.batch is not None:
                    found.append(PlacedBatch(place, end, each.batch))
                place = end
        return found


def content_of(data: EntryData) -> EntryContent:
    """Return the content of an entry, which may have been read from the disk."""
    return data if isinstance(data, EntryContent) else EntryContent(bytes(data))


def trimmed_entry(data: bytes, places: Sequence[range]) -> bytes:
    """Return the bytes of an entry, whole or trimmed, with only the messages at these places.
    Raises UnreadableCommand when they are neither."""
    return data[: STAMP.size] + trimmed(data[STAMP.size :], places)


def encoded(commands: list[FifoCommand], stamp_ms: int) -> bytes:
    """Return the bytes of an entry with these commands and that time."""
    return encode_entry(commands, STAMP.pack(stamp_ms))


class FifoCodec:
    """Turns commands of a quorum queue into entries, and back (`replication/majority.py`)."""

    __slots__ = ()

    def encode(self, commands: list[FifoCommand], stamp_ms: int) -> EntryContent:
        """Return the content of an entry with these commands and that time."""
        assert all(each.batch is not None for each in commands if isinstance(each, Enqueue)), (
            "what is proposed has its bodies"
        )
        return EntryContent(encoded(commands, stamp_ms), commands, stamp_ms)

    def decode(self, data: EntryData) -> tuple[int, list[FifoCommand]]:
        """Return the time and the commands of an entry. Raises UnreadableCommand when the bytes are
        not of a form that this version writes."""
        return content_of(data).decoded()

    def weigh(self, command: FifoCommand) -> int:
        """Return the approximate bytes of a command in an entry."""
        batch = command.batch if isinstance(command, Enqueue) else None
        return COMMAND_BYTES if batch is None else COMMAND_BYTES + batch.size
