"""Goal: `sluicemq fsck` says what is wrong, changes nothing, and keeps off a running broker.

Method: a real directory with one checkpoint; the lock is held by the test.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicemq.cli.fsck import fsck
from sluicemq.errors import Refused
from sluicemq.host.data_dir import held
from sluicemq.storage.checkpoint import (
    Checkpoint,
    QueueState,
    SegmentState,
    checkpoint_path,
    encode_checkpoint,
)
from sluicemq.storage.manifest import Manifest

DEFINITIONS = {
    "exchanges": [],
    "queues": [{"id": 5, "name": "a\x1bb", "auto_delete": False, "arguments": "AAAAAA=="}],
    "bindings": [],
}
NOTHING = (
    "checked: 0 journal files, 0 groups, 1 queues, {} segments, 0 blocks, 0 message files,"
    " 0 messages, {} live messages, 0 streams, 0 stream segments, 0 chunks,"
    " 0 raft groups, 0 raft segments, 0 raft entries\n"
)


def data_directory(path: Path, segments: list[SegmentState]) -> Path:
    with held(path):
        (path / "checkpoint").mkdir()
    state = QueueState(5, 8, 2, segments)
    definitions = json.dumps(DEFINITIONS).encode()
    checkpoint = Checkpoint(4, True, 2, 100, 6, bytes(16), definitions, [state], 8)
    (path / checkpoint_path(4)).write_bytes(encode_checkpoint(checkpoint))
    (path / "manifest").write_bytes(Manifest(bytes(16), 0, 4).encode())
    return path


def run(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(fsck, [str(path), *options], catch_exceptions=False)
    return result.exit_code, result.output


def test_a_sound_directory(tmp_path: Path) -> None:
    path = data_directory(tmp_path, [])
    (path / "quarantine").mkdir()
    (path / "quarantine" / "old").write_bytes(b"?")
    note = "note: quarantine/old: was put aside because it was damaged\n"
    assert run(path) == (0, f"{NOTHING.format(0, 0)}{note}sound\n")


def test_findings_and_exit_code_1(tmp_path: Path) -> None:
    path = data_directory(tmp_path, [SegmentState(0, 640, bytes(16), 0b110)])
    assert run(path) == (
        1,
        f"{NOTHING.format(0, 2)}"
        "lost: queues/5/00000000.idx is missing, 2 messages of queue 'a\\x1bb' in '/' are lost\n"
        "damaged: queues/5/00000000.idx: is missing, with 2 live messages\n"
        "damaged: queues/5: 2 live messages of queue 'a\\x1bb' cannot be read: positions 1-2\n"
        "2 findings\n",
    )


def test_repair(tmp_path: Path) -> None:
    path = data_directory(tmp_path, [SegmentState(0, 640, bytes(16), 0b110)])
    code, text = run(path, "--repair")
    assert code == 0
    assert "error: queues/5/00000000.idx is missing, 2 messages" in text
    assert text.endswith("0 raft entries\nsound\n")


def test_json(tmp_path: Path) -> None:
    path = data_directory(tmp_path, [SegmentState(0, 640, bytes(16), 0b110)])
    code, text = run(path, "--formatter", "json")
    told = json.loads(text)
    assert code == 1
    assert told["checked"]["live_messages"] == 2
    assert told["notes"] == []
    assert [finding["path"] for finding in told["findings"]] == [
        "queues/5/00000000.idx",
        "queues/5",
    ]


def test_a_running_broker_is_left_alone(tmp_path: Path) -> None:
    path = data_directory(tmp_path / "data", [])
    with held(path), pytest.raises(Refused, match=f"a broker uses it, process {os.getpid()}; stop"):
        run(path)
    assert run(path)[0] == 0


def test_nothing_is_made(tmp_path: Path) -> None:
    """Not even in a copy without a lock, or where nothing may be written."""
    path = data_directory(tmp_path, [])
    (path / "lock").unlink()
    before = sorted(path.rglob("*"))
    (path / "checkpoint").chmod(0o500)
    path.chmod(0o500)
    assert run(path)[0] == 0
    path.chmod(0o700)
    (path / "checkpoint").chmod(0o700)
    assert sorted(path.rglob("*")) == before


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no such directory"):
        run(tmp_path / "none")
