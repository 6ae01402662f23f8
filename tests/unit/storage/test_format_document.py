"""Goal: the formats that are written are those that storage-format.md and raft-log.md show in docs.

Method: the examples in there are made anew and compared, byte by byte. When this fails because the
format was changed on purpose, so must its number be, once a version with the old one is out.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluicemq.cli.inspect import lines_of
from sluicemq.model.traits import message_traits
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry, noop
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.entries import Run, encode_ack, encode_run
from sluicemq.storage.inspection import inspect
from sluicemq.storage.raft.codec import (
    RaftEntries,
    RaftRecord,
    RaftSnapshot,
    TermAndVote,
    encode_raft_record,
)
from sluicemq.storage.records import GROUP, FileHeader, encode_record

DOCS = Path(__file__).resolve().parents[3] / "docs"
FILE_ID = bytes(range(16))


def example(name: str) -> tuple[bytes, list[str]]:
    """What a document shows of a file, and what `inspect` says of it."""
    text = (DOCS / name).read_text(encoding="utf-8").partition("## Example")[2]
    dump, told = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    shown = bytes.fromhex("".join(line[10:] for line in dump.splitlines()))
    return shown, told.splitlines()


def journal_of(parts: list[bytes]) -> bytes:
    """File 7 of a journal with one group."""
    data = FileHeader("journal", FILE_ID, 7).encode()
    return data + encode_record(FILE_ID, len(data), GROUP, 1, parts)


def test_the_example_is_what_is_written() -> None:
    contents = [b"hello", b"world"]
    parts: list[bytes] = []
    encode_run(
        parts, Run(5, 40, 1, 2, message_traits(b"\x00\x06orders", 1, True), True, contents, [5, 5])
    )
    encode_ack(parts, 5, [range(38, 40)])
    assert journal_of(parts) == example("storage-format.md")[0]


def test_the_example_of_raft_is_what_is_written() -> None:
    records: list[RaftRecord] = [
        RaftSnapshot(5, LogSnapshot(0, 0, Configuration((1,)))),
        TermAndVote(5, 1, 1),
        RaftEntries(5, [noop(1, 1, 0), LogEntry(2, 1, DATA, b"abc")]),
    ]
    parts: list[bytes] = []
    for record in records:
        encode_raft_record(parts, record)
    assert journal_of(parts) == example("raft-log.md")[0]


@pytest.mark.parametrize("name", ["storage-format.md", "raft-log.md"])
def test_inspect_says_what_is_shown(name: str) -> None:
    shown, told = example(name)
    assert list(lines_of(inspect(shown))) == told
