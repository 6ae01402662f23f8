"""Goal: the format that is written is the one that docs/storage-format.md shows.

Method: the example in there is made anew and compared, byte by byte. When this fails because the
format was changed on purpose, so must its number be, once a version with the old one is out.
"""

from __future__ import annotations

import re
from pathlib import Path

from sluicemq.cli.inspect import lines_of
from sluicemq.model.traits import message_traits
from sluicemq.storage.entries import Run, encode_ack, encode_run
from sluicemq.storage.inspection import inspect
from sluicemq.storage.records import GROUP, FileHeader, encode_record

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "storage-format.md"
EXAMPLE = DOCUMENT.read_text(encoding="utf-8").partition("## Example")[2]
DUMP, TOLD = re.findall(r"```text\n(.*?)```", EXAMPLE, re.DOTALL)
SHOWN = bytes.fromhex("".join(line[10:] for line in DUMP.splitlines()))


def test_the_example_is_what_is_written() -> None:
    file_id = bytes(range(16))
    contents = [b"hello", b"world"]
    parts: list[bytes] = []
    encode_run(
        parts, Run(5, 40, 1, 2, message_traits(b"\x00\x06orders", 1, True), True, contents, [5, 5])
    )
    encode_ack(parts, 5, [range(38, 40)])
    data = FileHeader("journal", file_id, 7).encode()
    assert data + encode_record(file_id, len(data), GROUP, 1, parts) == SHOWN


def test_inspect_says_what_is_shown() -> None:
    assert list(lines_of(inspect(SHOWN))) == TOLD.splitlines()
