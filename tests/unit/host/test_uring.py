"""Goal: a write by io_uring is what pwritev2 would have done, and its result is told once.
Method: real rings and real files, where the system has them; a ring that the system refuses.
"""

from __future__ import annotations

import os
import platform
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicemq.host.files import DSYNC
from sluicemq.host.uring import WriteRing
from support.rings import has_ring

WAIT_SECONDS = 240

needs_ring = pytest.mark.skipif(not has_ring(), reason="NO IO_URING HERE")


def awaited(ring: WriteRing) -> int | None:
    """The result, when the ring says that there is one."""
    assert select.select([ring.descriptor], [], [], WAIT_SECONDS)[0], "the ring says nothing"
    return ring.result()


@pytest.fixture
def ring() -> Iterator[WriteRing]:
    made = WriteRing()
    yield made
    made.close()


@needs_ring
def test_writes_are_done_where_they_belong_and_told_once(ring: WriteRing, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    expected = b""
    for number in range(20):  # more than the ring has places for
        data = bytes([number, 0, 255]) * (number + 1)
        assert ring.result() is None
        ring.write(descriptor, len(expected), data, DSYNC)
        expected += data
        assert awaited(ring) == len(data)
        assert ring.result() is None
        assert path.read_bytes() == expected
    assert not select.select([ring.descriptor], [], [], 0)[0], "it is readable without a result"
    os.close(descriptor)


@needs_ring
def test_what_the_system_says_of_a_write_is_its_result(ring: WriteRing, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    descriptor = os.open(path, os.O_RDONLY)
    ring.write(descriptor, 0, b"new", DSYNC)
    assert awaited(ring) == -9  # EBADF
    assert path.read_bytes() == b"old"
    os.close(descriptor)


@needs_ring
def test_a_request_that_is_not_taken_is_an_error(ring: WriteRing) -> None:
    ring.enter[1].value = -1
    with pytest.raises(OSError, match="io_uring_enter"):
        ring.write(0, 0, b"x", DSYNC)
    assert ring.result() is None


def test_a_processor_of_another_kind_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(OSError, match="processor"):
        WriteRing()
