"""Sets aside messages that made their queue fault whenever it handled them.

Each message has its own file in the quarantine. Its name has the queue's id and the position, which
no other message ever has, so that repeating an interrupted attempt writes the same file. It has one
record: what is known of the message (JSON), and the message as a run with its content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sluicemq.amqp.types import encode_shortstr
from sluicemq.errors import Corrupt
from sluicemq.kernel.disk import Files
from sluicemq.limits import QUARANTINE_BYTES_MAX, QUARANTINE_MESSAGES_MAX
from sluicemq.model.batch import ENVELOPED, exchange_and_key, separate
from sluicemq.model.traits import message_traits
from sluicemq.storage.compaction import QUARANTINE
from sluicemq.storage.entries import Run, decode_entries, encode_run
from sluicemq.storage.queue_index import IndexRead, QueueIndex, picked
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    POISON,
    U32,
    FileHeader,
    decode_header,
    encode_record,
    read_record,
)

EXTENSION: Final = ".poison"
KIND: Final = "poison"
NO_ENVELOPE: Final = encode_shortstr("") * 2


class Wanted(NamedTuple):
    """A message to set aside: its position, and the content that the queue had in RAM, which is
    needed when the body is in the message store."""

    position: int
    content: bytes


class Poison(NamedTuple):
    """A message that was set aside. `known` says in words for users what is known of it. `run` is
    the message as in its queue, but its content lacks the bytes that the queue had put before it.
    """

    known: dict[str, Any]
    run: Run

    @property
    def content(self) -> bytes:
        """Return the message's frames as its publisher sent them."""
        assert self.run.contents is not None
        return self.run.contents[0]

    @property
    def path(self) -> str:
        """Return the path of the file that has the message."""
        return f"{QUARANTINE}/{self.run.queue}-{self.run.first}{EXTENSION}"


class NotKept(Exception):
    """A message cannot be set aside; the text says why."""


def poison_of(run: Run, prefix: int, known: dict[str, Any]) -> Poison:
    """Return a run of one message with its content as it is set aside; the queue has put `prefix`
    bytes before the content."""
    assert run.contents is not None and run.count == 1
    [content] = run.contents
    traits = run.traits
    if traits.envelope == ENVELOPED:
        envelope, content = separate(content)
        traits = message_traits(envelope, traits.channel_number, traits.persistent)
    before, content = content[:prefix], content[prefix:]
    if before:
        known = {**known, "delayed_until_ms": int.from_bytes(before)}
    kept = run.part(0, 1)
    kept.traits, kept.contents, kept.sizes, kept.first_id = traits, [content], [len(content)], 0
    return Poison(known, kept)


def encode_poison(poison: Poison, file_id: bytes) -> bytes:
    """Return the bytes of the whole file for one message."""
    run = poison.run
    known = json.dumps(poison.known).encode()
    parts = [U32.pack(len(known)), known]
    encode_run(parts, run)
    header = FileHeader(KIND, file_id, run.first, run.queue).encode()
    return header + encode_record(file_id, FILE_HEADER_SIZE, POISON, 1, parts)


def decode_poison(payload: bytes) -> Poison:
    """Return the message in the payload of a record. Raises Corrupt when it makes no sense."""
    if len(payload) < U32.size:
        raise Corrupt("the record is cut off")
    end = U32.size + int(U32.unpack_from(payload)[0])
    try:
        known = json.loads(payload[U32.size : end])
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"what is known of the message does not parse: {error}") from error
    entries = decode_entries(payload[end:])
    if len(entries) != 1 or not isinstance(entries[0], Run) or not isinstance(known, dict):
        raise Corrupt("it holds no message")
    run = entries[0]
    if run.contents is None or run.count != 1:
        raise Corrupt("it holds no content")
    return Poison(known, run)


def told(data: bytes) -> str:
    """Return the contents of a whole file of that kind as text. Raises Corrupt when they are not
    whole."""
    header = decode_header(data, KIND)
    record = read_record(data, FILE_HEADER_SIZE, header.file_id)
    if record is None:
        raise Corrupt("its record is damaged")
    known, run = poison = decode_poison(bytes(record.payload))
    exchange, key = (
        name.decode(errors="replace") for name in exchange_and_key(run.traits.envelope)
    )
    queue = f"queue '{known.get('queue_name')}' in vhost '{known.get('vhost')}'"
    return (
        f"is a message that {queue} cannot handle: position {run.first}, exchange '{exchange}',"
        f" routing key '{key}', {len(poison.content)} bytes"
    )


class Quarantine:
    """Sets aside messages of one queue, in a job on the disk. The queue has put `prefix` bytes
    before each content; `known` says in words for users what is known of the messages."""

    def __init__(
        self,
        files: Files,
        index: QueueIndex,
        new_file_id: Callable[[], bytes],
        prefix: int,
        known: dict[str, Any],
    ) -> None:
        self.files = files
        self.index = index
        self.new_file_id = new_file_id
        self.prefix = prefix
        self.known = known

    def set_aside(self, wanted: Sequence[Wanted]) -> tuple[list[Poison], list[Run]]:
        """Write those of the messages that are still in the queue durably here, and take them out
        of its index. Returns them, and the runs they were in the queue. Raises NotKept when there
        is no room or one cannot be read, and DiskFailed; then all of them stay in the queue."""
        runs = [run for run in map(self.read, wanted) if run is not None]
        kept = [poison_of(run, self.prefix, self.known) for run in runs]
        self.check_room(kept)
        for poison in kept:
            self.write(poison)
        for poison in kept:
            self.index.acknowledge(poison.run.positions)
        return kept, runs

    def read(self, wanted: Wanted) -> Run | None:
        """Return a message as it is on the disk; None when it has left the queue. Raises NotKept
        when it cannot be read or its body is nowhere, and DiskFailed."""
        position = wanted.position
        number = position // self.index.entry_count
        segment = self.index.segments.get(number)
        base = number * self.index.entry_count
        if segment is None or not segment.live >> (position - base) & 1:
            return None
        job = IndexRead(segment, position, position + 1, 1, keep_bodies=True)
        job.run(self.files)
        for run in picked(job.runs, 1 << (position - base), base):
            if run.contents is None:
                if run.sizes != [len(wanted.content)]:
                    raise NotKept(f"the body of the one at position {position} is not in RAM")
                run.contents = [wanted.content]
            return run
        raise NotKept(f"the one at position {position} cannot be read")

    def check_room(self, kept: list[Poison]) -> None:
        """Raise NotKept when there is no room for these messages besides those set aside already. A
        message that is there already counts once."""
        again = {poison.path for poison in kept}
        names = [name for name in self.files.names(QUARANTINE) if name.endswith(EXTENSION)]
        paths = [path for name in names if (path := f"{QUARANTINE}/{name}") not in again]
        used = sum(map(self.files.size, paths))
        size = used + sum(len(poison.content) for poison in kept)
        if len(paths) + len(kept) > QUARANTINE_MESSAGES_MAX or size > QUARANTINE_BYTES_MAX:
            have = f"{len(paths)} messages of {used} bytes"
            raise NotKept(f"the quarantine has no room besides its {have}")

    def write(self, poison: Poison) -> None:
        """Write the file of one message, durably. A file that a crash has cut off is rewritten: the
        queue still has that message. Raises DiskFailed."""
        files = self.files
        files.make_directory(QUARANTINE)
        files.delete(poison.path)
        files.write(poison.path, 0, encode_poison(poison, self.new_file_id()))
        files.sync(poison.path)
        files.sync_directory(QUARANTINE)
