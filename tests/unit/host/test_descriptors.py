"""Goal: clients never get every descriptor, and want of one is waited out. Method: the shares over
all limits; files whose opening fails for a while.
"""

from __future__ import annotations

import os
from errno import EIO, EMFILE, ENFILE, errorcode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import DiskFailed
from sluicemq.host.descriptors import SOCKETS_MIN, shares
from sluicemq.host.files import HostFiles
from sluicemq.host.memory import HostMemory


@given(st.integers(64, 1 << 20), st.integers(8, 10_000), st.integers(1, 65535))
def test_something_is_left_for_the_broker_itself(limit: int, handles: int, backlog: int) -> None:
    got = shares(limit, handles, backlog)
    assert got.sockets >= SOCKETS_MIN
    assert 1 <= got.handles <= handles
    left = limit - got.sockets - got.handles
    assert left >= min(64, limit // 4)
    assert got.sockets >= limit * 3 // 8, "most of it is for clients"


def test_usual_limits() -> None:
    assert shares(1024, 256, 128) == (576, 256)
    assert shares(20_000, 256, 128) == (19_552, 256)


class Scarce:
    """In the place of a call of the system that fails so many times."""

    def __init__(self, call: Any, times: int, error: int = EMFILE) -> None:
        self.call = call
        self.times = times
        self.error = error

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.times:
            self.times -= 1
            raise OSError(self.error, os.strerror(self.error))
        return self.call(*arguments, **named)


@pytest.mark.parametrize("error", [EMFILE, ENFILE])
def test_want_of_descriptors_is_waited_out_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    said: list[str] = []
    files = HostFiles(tmp_path, 8, said.append)
    monkeypatch.setattr(os, "open", Scarce(os.open, 3, error))
    files.write("a", 0, b"x")
    assert said == [
        f"no file descriptor is left ({errorcode[error]}): waiting for one",
        "file descriptors are available again",
    ]
    files.make_directory("d")
    files.write("d/b", 0, b"x")
    for name in ("open", "listdir"):
        files.close()
        said.clear()
        scarce = Scarce(getattr(os, name), 2, error)
        monkeypatch.setattr(os, name, scarce)
        files.sync_directory("d")
        assert files.names("d") == ["b"]
        assert files.read("d/b", 0, 1) == b"x"
        assert (scarce.times, len(said)) == (0, 2)
    files.close()
    monkeypatch.setattr(os, "open", Scarce(os.open, 1, error))
    files.delete_tree("d")
    assert files.names("") == ["a"]


def test_other_errors_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = HostFiles(tmp_path, 8)
    monkeypatch.setattr(os, "open", Scarce(os.open, 1, EIO))
    with pytest.raises(DiskFailed, match="EIO"):
        files.write("a", 0, b"x")


def test_memory_is_read_without_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = HostMemory()
    monkeypatch.setattr(os, "open", Scarce(os.open, 10))
    assert memory.resident_bytes() > 1 << 20
    assert memory.resident_bytes() > 1 << 20
