"""Goal: `sluicemq inspect` tells what is in a file. Method: exact output for a small journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicemq.cli.inspect import inspect
from sluicemq.errors import Refused
from sluicemq.model.traits import message_traits
from sluicemq.storage.entries import Run, encode_ack, encode_run
from sluicemq.storage.records import GROUP, MESSAGE, FileHeader, encode_record, with_crc

FILE_ID = bytes(range(16))


def journal() -> bytes:
    data = FileHeader("journal", FILE_ID, 4).encode()
    parts: list[bytes] = []
    address = b"\x00\x07or\x1bders"
    encode_run(
        parts, Run(5, 8, 1, 3, message_traits(address, 1, True), True, [b"abc"] * 3, [3] * 3)
    )
    data += encode_record(FILE_ID, len(data), GROUP, 1, parts)
    acks: list[bytes] = []
    encode_ack(acks, 5, [range(n, n + 1) for n in range(0, 20, 2)])
    return data + encode_record(FILE_ID, len(data), GROUP, 2, acks)


def run(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(inspect, [str(path), *options], catch_exceptions=False)
    return result.exit_code, result.output


HEAD = "journal file 4, 360 bytes\nfile id 000102030405060708090a0b0c0d0e0f\n"
FIRST = """\
          64  group 1, 96 bytes
              run queue=5 positions=8-10 messages=3 bytes=9 exchange="" routing_key=or\\x1bders\
 channel=1 persistent=true
"""
SECOND = """\
         160  group 2, 200 bytes
              ack queue=5 positions=0,2,4,6,8,10,12,14,… (10 ranges)
"""


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "00000004.jif"
    path.write_bytes(journal())
    assert run(path) == (0, f"{HEAD}{FIRST}{SECOND}sound: 2 records\n")


def test_damage_and_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "00000004.jif"
    changed = bytearray(journal())
    changed[100] ^= 1
    path.write_bytes(changed)
    code, text = run(path)
    assert code == 1
    assert "\ndamaged: bytes 64 to 160 hold no valid record, though one follows\n" in text
    path.write_bytes(journal()[:-8])
    code, text = run(path)
    assert code == 0
    torn = "torn tail: the rest of a write that was cut off, or what the file had before"
    assert f"\n{torn}, from byte 160 on\n" in text
    path.write_bytes(b"hello")
    assert run(path) == (
        1,
        "damaged: the file ends after 5 bytes, within its header; its records cannot be checked"
        " without the id in there\n",
    )


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "00000004.jif"
    path.write_bytes(journal())
    code, text = run(path, "--formatter", "json")
    told = json.loads(text)
    assert code == 0
    assert (told["kind"], told["number"], told["queue"]) == ("journal", 4, 0)
    assert told["file_id"] == FILE_ID.hex()
    assert (told["size"], told["end"], told["torn"]) == (len(journal()), len(journal()), False)
    assert (told["damaged"], told["problems"]) == ([], [])
    assert [record["offset"] for record in told["records"]] == [64, 160]
    assert len(told["records"][1]["contents"][0]["positions"]) == 10


def test_a_message_is_one_line(tmp_path: Path) -> None:
    data = FileHeader("messages", FILE_ID, 0).encode()
    path = tmp_path / "00000000.rdq"
    path.write_bytes(data + encode_record(FILE_ID, len(data), MESSAGE, 77, [b"x" * 40]))
    assert "          64  message 77, 64 bytes: message id=77 bytes=40\n" in run(path)[1]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"none\.jif: No such file or directory"):
        run(tmp_path / "none.jif")
    newer = bytearray(journal()[:60])
    newer[8] = 9
    path = tmp_path / "00000004.jif"
    path.write_bytes(with_crc(bytes(newer)))
    with pytest.raises(Refused, match=r"00000004\.jif: the file is of a newer format 9"):
        run(path)
