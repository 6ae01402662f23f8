"""Goal: real files do what `kernel/disk.py` promises, and what the system refuses is told by its
name. Method: temporary directories; a small tmpfs for a disk that is full (root only).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sluicemq.errors import DiskFailed
from sluicemq.host.files import HostFiles
from support.disk_space import sized_tmpfs

MIB = 1 << 20


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    return HostFiles(tmp_path, 4)


def refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def test_what_was_written_is_read_at_any_offset(files: HostFiles, tmp_path: Path) -> None:
    files.write("a", 0, b"0123456789")
    files.write("a", 12, b"end")
    assert files.read("a", 0, 100) == b"0123456789\0\0end"
    assert files.read("a", 8, 3) == b"89\0"
    assert files.read("a", 15, 4) == b""
    assert files.size("a") == 15
    files.write("empty", 0, b"")
    assert files.size("empty") == 0
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_directories_are_made_with_their_parents_and_listed_sorted(
    files: HostFiles, tmp_path: Path
) -> None:
    files.make_directory("queues/7")
    files.make_directory("queues/7")
    for name in ("b", "a"):
        files.write(f"queues/7/{name}", 0, b"x")
    assert files.names("queues/7") == ["a", "b"]
    assert files.names("") == ["queues"]
    assert files.names("absent") == []
    assert stat.S_IMODE((tmp_path / "queues" / "7").stat().st_mode) == 0o700
    files.sync_directory("queues/7")
    files.sync_directory("")
    files.delete_tree("queues")
    files.delete_tree("queues")
    assert files.names("") == []


def test_missing_files_are_told_apart(files: HostFiles) -> None:
    assert files.size("absent") == -1
    files.delete("absent")
    for act in (
        lambda: files.read("absent", 0, 1),
        lambda: files.truncate("absent", 0),
        lambda: files.sync("absent"),
        lambda: files.rename("absent", "b"),
        lambda: files.write("absent/b", 0, b""),
    ):
        with pytest.raises(DiskFailed) as told:
            act()
        assert told.value.code == "ENOENT"
    assert str(told.value) == "write absent/b: ENOENT"


def test_a_file_where_a_directory_should_be_is_told(files: HostFiles) -> None:
    files.write("a", 0, b"x")
    with pytest.raises(DiskFailed, match=r"^make directory a: EEXIST$"):
        files.make_directory("a")
    with pytest.raises(DiskFailed, match=r"^list a: ENOTDIR$"):
        files.names("a")


@pytest.mark.parametrize("path", ["/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/"])
def test_a_path_that_leaves_is_our_mistake(files: HostFiles, path: str) -> None:
    for act in (files.size, files.delete, files.delete_tree, files.names, files.sync):
        with pytest.raises(AssertionError):
            act(path)
    with pytest.raises(AssertionError):
        files.write(path, 0, b"")
    with pytest.raises(AssertionError, match="itself stays"):
        files.delete_tree("")


def test_rename_truncate_and_delete_reach_a_file_that_is_open(files: HostFiles) -> None:
    files.write("new", 0, b"old content")
    files.write("tmp", 0, b"content")
    files.rename("tmp", "new")
    assert files.read("new", 0, 100) == b"content"
    assert files.size("tmp") == -1
    files.sync("new")
    files.truncate("new", 3)
    assert files.read("new", 0, 100) == b"con"
    files.delete("new")
    files.write("new", 0, b"x")
    assert files.read("new", 0, 100) == b"x"
    assert files.names("") == ["new"]


def test_a_renamed_directory_takes_its_open_files_along(files: HostFiles) -> None:
    files.make_directory("a/b")
    files.write("a/b/c", 0, b"moved")
    files.rename("a", "z")
    assert files.read("z/b/c", 0, 9) == b"moved"
    with pytest.raises(DiskFailed):
        files.read("a/b/c", 0, 9)
    assert list(files.handles.table) == ["z/b/c"]


def test_allocated_space_is_zeroes_and_real(files: HostFiles, tmp_path: Path) -> None:
    files.write("a", 0, b"head")
    files.allocate("a", MIB)
    files.allocate("a", 10)
    assert files.size("a") == MIB
    assert files.read("a", 0, 6) == b"head\0\0"
    assert (tmp_path / "a").stat().st_blocks * 512 >= MIB
    files.allocate("none", 0)
    assert files.size("none") == 0


def test_without_fallocate_the_length_is_set(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fallocate(*_: int) -> None:
        raise refused(errno.EOPNOTSUPP)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    files.write("a", 0, b"head")
    files.allocate("a", 100)
    files.allocate("a", 50)
    assert files.size("a") == 100


def test_short_reads_and_writes_go_on(files: HostFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:4], at))
    files.write("a", 5, b"0123456789")
    assert files.read("a", 5, 10) == b"0123456789"
    totals = files.counters.totals()
    assert (totals["io_write_count"], totals["io_write_bytes"]) == (3, 10)
    assert (totals["io_read_count"], totals["io_read_bytes"]) == (4, 10)


def test_a_sync_that_failed_fails_for_ever(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells an error once and then takes the pages for written."""

    def fdatasync(_: int) -> None:
        raise refused(errno.EIO)

    files.write("a", 0, b"x")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fdatasync)
        with pytest.raises(DiskFailed, match=r"^sync a: EIO$"):
            files.sync("a")
    with pytest.raises(DiskFailed, match=r"^sync a: EIO$"):
        files.sync("a")
    files.rename("a", "b")
    with pytest.raises(DiskFailed, match=r"^sync b: EIO$"):
        files.sync("b")
    files.delete("b")
    files.write("b", 0, b"another file")
    files.sync("b")


def test_a_sync_without_space_may_be_tried_again(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fdatasync(_: int) -> None:
        raise refused(errno.ENOSPC)

    files.write("a", 0, b"x")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fdatasync)
        with pytest.raises(DiskFailed, match=r"^sync a: ENOSPC$"):
            files.sync("a")
    files.write("a", 0, b"x")
    files.sync("a")


class Calls:
    """What is asked of the system for files to be durable; `error` is what pwritev2 says, if
    anything, and `most` how many bytes it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.error = 0
        self.most = 1 << 20
        for name in ("pwrite", "pwritev", "fdatasync"):
            monkeypatch.setattr(os, name, partial(self.call, name, getattr(os, name)))

    def call(self, name: str, real: Callable[..., object], *args: object) -> object:
        self.made.append(name)
        if name == "pwritev":
            if self.error:
                raise refused(self.error)
            descriptor, (data,), *rest = args
            return real(descriptor, (data[: self.most],), *rest)
        return real(*args)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_what_is_written_durably_is_one_call(files: HostFiles, calls: Calls) -> None:
    files.write_durably("a", 3, b"0123")
    files.write_durably("a", 7, b"4567")
    assert calls.made == ["pwritev", "pwritev"]
    assert files.read("a", 0, 20) == b"\0\0\0" + b"01234567"
    totals = files.counters.totals()
    assert (totals["io_write_count"], totals["io_sync_count"]) == (2, 2)
    assert totals["io_write_bytes"] == 8


def test_what_was_written_before_becomes_durable_with_it(files: HostFiles, calls: Calls) -> None:
    """The one call would sync no more than its own range."""
    files.write("a", 0, b"seal")
    files.write_durably("a", 4, b"group")
    files.allocate("b", 100)
    files.write_durably("b", 0, b"group")
    assert calls.made == ["pwrite", "pwrite", "fdatasync", "pwrite", "fdatasync"]


@pytest.mark.parametrize("code", ["EINVAL", "ENOSYS", "EOPNOTSUPP"])
def test_a_file_system_without_such_a_call_is_asked_once(
    code: str, files: HostFiles, calls: Calls
) -> None:
    calls.error = getattr(errno, code)
    files.write_durably("a", 0, b"0123")
    files.write_durably("a", 4, b"4567")
    assert calls.made == ["pwritev", "pwrite", "fdatasync", "pwrite", "fdatasync"]
    assert files.read("a", 0, 20) == b"01234567"


def test_the_rest_of_a_short_durable_write_is_written_and_synced(
    files: HostFiles, calls: Calls
) -> None:
    calls.most = 3
    files.write_durably("a", 0, b"01234567")
    assert calls.made == ["pwritev", "pwrite", "fdatasync"]
    assert files.read("a", 0, 20) == b"01234567"


def test_a_durable_write_that_failed_fails_for_ever(files: HostFiles, calls: Calls) -> None:
    calls.error = errno.EIO
    with pytest.raises(DiskFailed, match=r"^sync a: EIO$"):
        files.write_durably("a", 0, b"x")
    calls.error = 0
    for again in (lambda: files.write_durably("a", 0, b"x"), lambda: files.sync("a")):
        with pytest.raises(DiskFailed, match=r"^sync a: EIO$"):
            again()


def test_a_durable_write_without_space_may_be_tried_again(files: HostFiles, calls: Calls) -> None:
    calls.error = errno.ENOSPC
    with pytest.raises(DiskFailed) as told:
        files.write_durably("a", 0, b"x")
    assert told.value.is_full
    calls.error = 0
    files.write_durably("a", 0, b"x")
    assert files.read("a", 0, 5) == b"x"


def test_a_full_disk_is_told_and_recovers() -> None:
    with sized_tmpfs(2 * MIB) as root:
        files = HostFiles(root, 4)
        assert files.free_bytes() <= 2 * MIB
        with pytest.raises(DiskFailed) as told:
            files.allocate("a", 3 * MIB)
        assert told.value.is_full
        files.write("reserve", 0, bytes(MIB))
        with pytest.raises(DiskFailed, match=r"^write b: ENOSPC$"):
            files.write("b", 0, bytes(2 * MIB))
        files.delete("reserve")  # although its handle is open
        files.write("b", 0, bytes(3 * MIB // 2))
        files.sync("b")
        files.close()


def test_a_read_only_file_system_is_told() -> None:
    with sized_tmpfs(MIB) as root:
        files = HostFiles(root, 4)
        files.write("a", 0, b"x")
        files.close()
        with sized_tmpfs(MIB, over=root, options="ro"), pytest.raises(DiskFailed) as told:
            files.write("a", 0, b"y")
        assert told.value.code == "EROFS"
        assert not told.value.is_full


def test_every_operation_is_counted(files: HostFiles) -> None:
    files.write("a", 0, b"01234")
    files.write("a", 5, b"56789")  # goes on: no seek
    files.read("a", 0, 5)
    files.read("a", 5, 5)
    files.sync("a")
    totals = files.counters.totals()
    assert (totals["io_write_count"], totals["io_write_bytes"]) == (2, 10)
    assert (totals["io_read_count"], totals["io_read_bytes"]) == (2, 10)
    assert (totals["io_seek_count"], totals["io_sync_count"]) == (2, 1)
    assert totals["io_file_handle_open_attempt_count"] == 1
    assert totals["io_reopen_count"] == 0
    assert totals["io_sync_time"] >= 0
