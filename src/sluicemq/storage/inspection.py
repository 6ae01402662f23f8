"""Describes the contents of a file, for `sluicemq inspect` and anyone who has to
understand a file.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.amqp.frames import content_body, content_header
from sluicemq.amqp.properties import PROPERTIES, BasicProperties
from sluicemq.amqp.types import Malformed
from sluicemq.errors import Corrupt
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.checkpoint import Checkpoint, QueueState, decode_checkpoint
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Delivered,
    Entry,
    QueueDeleted,
    Run,
    StreamFiles,
    decode_entries,
)
from sluicemq.storage.manifest import PAYLOAD, decode_manifest
from sluicemq.storage.message_file import decode_directory
from sluicemq.storage.quarantine import decode_poison
from sluicemq.storage.raft.codec import (
    RaftCommit,
    RaftEntries,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
)
from sluicemq.storage.raft.group_state import decode_raft_group, runs_without_gaps
from sluicemq.storage.raft.segment_file import decode_raft_entry
from sluicemq.storage.records import (
    BLOCK,
    CHECKPOINT,
    CHUNK,
    CLOSED,
    DIRECTORY,
    GROUP,
    MANIFEST,
    MESSAGE,
    PLACES,
    POISON,
    RAFT_CONTENT,
    RAFT_ENTRY,
    RAFT_TRIMMED,
    SEAL,
    TYPE_NAMES,
    any_header,
    scan,
)
from sluicemq.storage.segments import runs_of
from sluicemq.storage.stream_chunk import decode_chunk
from sluicemq.storage.stream_segment import CLOSED_PAYLOAD, decode_places

if TYPE_CHECKING:
    from sluicemq.storage.records import FileHeader, Record

Description = dict[str, Any]

EXPECTED: Final = {
    "journal": (GROUP, SEAL),
    "segment": (BLOCK,),
    "messages": (MESSAGE, DIRECTORY),
    "checkpoint": (CHECKPOINT,),
    "stream": (CHUNK, PLACES, CLOSED),
    "manifest": (MANIFEST,),
    "poison": (POISON,),
    "raft segment": (RAFT_ENTRY, RAFT_TRIMMED),
    "raft snapshot": (RAFT_CONTENT,),
}
"""The types of records in each kind of file."""

ESCAPED: Final = "backslashreplace"
"""How bytes that are not text are shown."""

BODY_SHOWN: Final = 1000
"""Shown bytes of the body of a message that was set aside."""


class Described(NamedTuple):
    """One valid record and its contents. Each of `contents` has its kind under "entry"; `offset`
    and `size` are bytes."""

    offset: int
    size: int
    type: str
    sequence: int
    contents: list[Description]


class Inspection(NamedTuple):
    """The contents of a file. `damaged` and `torn` follow the tail rule, `end` is behind the last
    valid record, and `problems` are whole sentences about everything else. A `header` of None means
    that it cannot be read."""

    size: int
    header: FileHeader | None
    records: list[Described]
    end: int
    damaged: list[tuple[int, int]]
    torn: bool
    problems: list[str]

    @property
    def is_sound(self) -> bool:
        """Tell whether everything written is there; a torn tail was never written."""
        return not self.damaged and not self.problems


def inspect(data: bytes) -> Inspection:
    """Return the contents of a whole file of any kind. Raises Refused when a newer version wrote
    it."""
    try:
        header = any_header(data)
    except Corrupt as error:
        problem = f"{error}; its records cannot be checked without the id in there"
        return Inspection(len(data), None, [], 0, [], False, [problem])
    found = scan(data, header.file_id)
    problems: list[str] = []
    if header.kind == "manifest":  # its records are apart from one another
        found = found._replace(damaged=[])
        looked = decode_manifest(data, header.file_id)
        problems += [text for text in (looked.problem, looked.note) if text]
    records: list[Described] = []
    for record in found.records:
        contents: list[Description] = []
        try:
            contents = contents_of(record, header)
        except (Corrupt, Malformed, struct.error) as error:
            problems.append(f"record at {record.offset}: {error}")
        kind = TYPE_NAMES.get(record.type, str(record.type))
        size = record.end - record.offset
        records.append(Described(record.offset, size, kind, record.sequence, contents))
    if header.kind == "checkpoint":
        try:
            records[:1] = [whole_checkpoint(records[0], data)] if records else []
        except Corrupt as error:
            problems.append(str(error))
        if not records:
            problems.append("there is no checkpoint in the file")
    return Inspection(len(data), header, records, found.end, found.damaged, found.torn, problems)


def contents_of(record: Record, header: FileHeader) -> list[Description]:
    """Return the contents of a record of a file with that header; none for a checkpoint's, which is
    described later. Raises Corrupt, Malformed or struct.error when it makes no sense."""
    if record.type not in EXPECTED[header.kind]:
        raise Corrupt(f"a {header.kind} file has no records of type {record.type}")
    if record.type == GROUP:
        return [described(entry) for entry in decode_entries(record.payload)]
    if record.type == BLOCK:
        return [described(run) for run in runs_of(record.payload)]
    if record.type == MESSAGE:
        return [{"entry": "message", "id": record.sequence, "bytes": len(record.payload)}]
    if record.type in EXPECTED["stream"]:
        return [described_stream(record)]
    if record.type == MANIFEST:
        return [described_manifest(record)]
    if record.type == POISON:
        return described_poison(record)
    if record.type in (RAFT_ENTRY, RAFT_TRIMMED):
        entry = decode_raft_entry(record)
        return [
            {"entry": TYPE_NAMES[record.type], "term": entry.term, **described_raft_kind(entry)}
        ]
    if record.type == RAFT_CONTENT:
        return [{"entry": "raft content", "bytes": len(record.payload)}]
    if record.type == DIRECTORY:
        directory = decode_directory(record.payload, record.sequence)
        return [{"entry": "directory", "messages": len(directory.ids)}]
    return []


def described_poison(record: Record) -> list[Description]:
    """Describe a message that was set aside: what is known of it, the message, its properties, its
    body. Raises Corrupt or struct.error when the record makes no sense, and Malformed when its
    content is not frames."""
    known, run = decode_poison(bytes(record.payload))
    assert run.contents is not None
    [content] = run.contents
    body = content_body(content)
    return [
        {"entry": "set aside", **known},
        described_run(run),
        {"entry": "properties", **properties_told(content_header(content).properties)},
        {"entry": "body", "bytes": len(body), "begins": body[:BODY_SHOWN].decode(errors=ESCAPED)},
    ]


def properties_told(raw: bytes) -> Description:
    """Describe the properties that are set; unreadable ones by their bytes."""
    try:
        properties = BasicProperties.decode(raw)
    except Malformed:
        return {"unreadable": raw.hex()}
    values = ((name, getattr(properties, name)) for name, _ in PROPERTIES)
    return {name: str(value) for name, value in values if value is not None}


def described_manifest(record: Record) -> Description:
    """Describe a record of the manifest. Raises struct.error when it makes no sense."""
    checkpoint, first, last, size, life = PAYLOAD.unpack(record.payload)
    files = {"journal_first": first, "journal_last": last, "journal_bytes": size}
    return {"entry": "manifest", "checkpoint": checkpoint, **files, "life": life.hex()}


def described(entry: Entry) -> Description:
    """Describe one entry of a group or a block."""
    if isinstance(entry, Run):
        return described_run(entry)
    if isinstance(entry, Ack):
        ranges = [range_text(each) for each in entry.ranges]
        return {"entry": "ack", "queue": entry.queue, "positions": ranges}
    if isinstance(entry, Delivered):
        return {"entry": "delivered", "queue": entry.queue, "below": entry.position}
    if isinstance(entry, Definition):
        return {"entry": "definition", "change": json_of(entry.change)}
    if isinstance(entry, StreamFiles):
        return {"entry": "stream files", **entry._asdict()}
    if isinstance(entry, QueueDeleted):
        return {"entry": "queue deleted", "queue": entry.queue}
    return described_raft(entry)


def described_raft(record: RaftRecord) -> Description:
    """Describe one record of a Raft group, except for the data of entries."""
    if isinstance(record, RaftEntries):
        entries = record.entries
        found: Description = {"entry": "raft entries", "group": record.group}
        found["indexes"] = range_text(range(entries[0].index, entries[-1].index + 1))
        found["terms"] = [*dict.fromkeys(entry.term for entry in entries)]
        return found | {"bytes": sum(len(entry.data) for entry in entries)}
    if isinstance(record, RaftTruncation):
        return {"entry": "raft truncation", **record._asdict()}
    if isinstance(record, RaftCommit):
        return {"entry": "raft commit", **record._asdict()}
    if isinstance(record, TermAndVote):
        return {"entry": "term and vote", **record._asdict()}
    if isinstance(record, RaftSnapshot):
        snapshot = record.snapshot
        return {
            "entry": "raft snapshot",
            "group": record.group,
            "index": snapshot.index,
            "term": snapshot.term,
            "members": str(snapshot.configuration),
            "version": snapshot.version,
            "bytes": snapshot.size_bytes,
            "live": [range_text(each) for each in record.live],
            "installed": record.is_installed,
            **({"segments": [each.number for each in record.segments]} if record.segments else {}),
        }
    return {"entry": "raft group gone", "group": record.group}


def described_raft_kind(entry: LogEntry) -> Description:
    """Describe the purpose of an entry of a Raft log; commands only by their bytes."""
    if entry.kind == DATA:
        return {"kind": entry.kind, "bytes": len(entry.data)}
    return {"kind": entry.kind, "says": bytes(entry.data).decode(errors=ESCAPED)}


def described_group(encoded: bytes) -> list[Description]:
    """Describe a Raft group of a checkpoint, each of its segments, and its carried entries. Raises
    Corrupt when it makes no sense."""
    group = decode_raft_group(encoded)
    state = {"group": group.id, "term": group.term, "vote": group.vote}
    found = [{"entry": "raft group", **state, "amnesiac": group.is_amnesiac}]
    found.append(described_raft(group.snapshot_record))
    for segment in group.segments:
        numbers = segment._asdict() | {"file_id": segment.file_id.hex()}
        found.append({"entry": "raft segment", "group": group.id, **numbers})
    carried = [each.entry for each in group.held.values()]
    runs = runs_without_gaps(sorted(carried, key=lambda entry: entry.index))
    return found + [described_raft(RaftEntries(group.id, run)) for run in runs]


def described_run(run: Run) -> Description:
    """Describe a run of messages, except for their contents."""
    exchange, key = exchange_and_key_text(run.traits.envelope)
    found: Description = {
        "entry": "run",
        "queue": run.queue,
        "positions": range_text(run.positions),
        "messages": run.count,
        "bytes": sum(run.sizes),
        "exchange": exchange,
        "routing_key": key,
        "channel": run.traits.channel_number,
        "persistent": run.traits.persistent,
    }
    if run.contents is None:
        found["ids"] = range_text(run.ids)
    if run.expiry:
        found["expiry"] = run.expiry
    return found


def described_stream(record: Record) -> Description:
    """Describe a record of a stream's segment. Raises Corrupt or struct.error when it makes no
    sense."""
    if record.type == PLACES:
        return {"entry": "places", "chunks": len(decode_places(record).offsets)}
    if record.type == CLOSED:
        end, first_ms, last_ms, *_ = CLOSED_PAYLOAD.unpack(record.payload)
        return {"entry": "closed", "below": end, "from_ms": first_ms, "to_ms": last_ms}
    chunk = decode_chunk(record)
    exchange, key = exchange_and_key_text(chunk.traits.envelope)
    return {
        "entry": "chunk",
        "offsets": range_text(range(chunk.first, chunk.end)),
        "messages": chunk.count,
        "bytes": sum(map(len, chunk.contents)),
        "group": chunk.group,
        "timestamp_ms": chunk.timestamp_ms,
        "exchange": exchange,
        "routing_key": key,
        "channel": chunk.traits.channel_number,
    }


def whole_checkpoint(record: Described, data: bytes) -> Described:
    """Return the record of a checkpoint's file with everything in the checkpoint. Raises Corrupt
    when it makes no sense."""
    checkpoint = decode_checkpoint(data)
    contents = [described_checkpoint(checkpoint)]
    for queue in checkpoint.queues:
        contents += described_queue(queue, checkpoint.segment_entry_count)
    contents += map(described, checkpoint.streams)
    for group in checkpoint.groups:
        contents += described_group(group)
    return record._replace(contents=contents)


def described_checkpoint(checkpoint: Checkpoint) -> Description:
    """Describe a checkpoint, except for its queues and streams."""
    return {
        "entry": "checkpoint",
        "clean": checkpoint.clean,
        "journal_first": checkpoint.journal_first,
        "next_message_id": checkpoint.next_message_id,
        "next_queue_id": checkpoint.next_queue_id,
        "node_id": checkpoint.node_id.hex(),
        "segment_entry_count": checkpoint.segment_entry_count,
        "queues": len(checkpoint.queues),
        "definitions": json_of(checkpoint.definitions),
    }


def described_queue(queue: QueueState, entry_count: int) -> list[Description]:
    """Describe a queue of a checkpoint, and each of its segments of `entry_count` positions."""
    found: list[Description] = [
        {
            "entry": "queue",
            "queue": queue.id,
            "next_position": queue.next_position,
            "delivered": queue.delivered,
            "bytes": queue.size,
            "segments": len(queue.segments),
        }
    ]
    for segment in queue.segments:
        live = ranges_of(segment.live, segment.number * entry_count)
        found.append(
            {
                "entry": "segment",
                "queue": queue.id,
                "number": segment.number,
                "length": segment.length,
                "file_id": segment.file_id.hex(),
                "live": segment.live.bit_count(),
                "positions": [range_text(each) for each in live],
            }
        )
    return found


def range_text(positions: range) -> str:
    """Return a range as text: `7`, `7-9`, `7-19 step 3`."""
    if len(positions) == 1:
        return str(positions[0])
    step = f" step {positions.step}" if positions.step > 1 else ""
    return f"{positions[0]}-{positions[-1]}{step}"


def exchange_and_key_text(envelope: bytes) -> tuple[str, str]:
    """Return the exchange and the routing key of an envelope as text; "" for both when it has none,
    because each content has its own."""
    size = envelope[0] if envelope else 0
    exchange, key = envelope[1 : 1 + size], envelope[2 + size :]
    return exchange.decode(errors="replace"), key.decode(errors="replace")


def json_of(data: bytes) -> object:
    """Return the value of a JSON text; the text itself when it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")
