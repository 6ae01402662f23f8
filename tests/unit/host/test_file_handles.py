"""Goal: never more open files than allowed (but for those in use), and no write that the system may
still fail is forgotten. Method: real files, the process's descriptors, faults put into `os`.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from pathlib import Path

import pytest

from sluicemq.errors import DiskFailed
from sluicemq.host.files import HostFiles


def descriptors(root: Path) -> list[str]:
    """What this process has open below `root`, by name."""
    links = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{entry}"))
        except FileNotFoundError:
            continue  # the listing's own descriptor
    return sorted(link.removeprefix(f"{root}/") for link in links if link.startswith(f"{root}/"))


def test_the_least_recently_used_is_closed(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 2)
    for name in ("a", "b"):
        files.write(name, 0, b"x")
        files.sync(name)
    files.read("a", 0, 1)
    files.write("c", 0, b"x")
    assert descriptors(tmp_path) == ["a", "c"]
    files.read("b", 0, 1)
    totals = files.counters.totals()
    assert totals["io_reopen_count"] == 1
    assert totals["io_file_handle_open_attempt_count"] == 4
    files.close()
    assert descriptors(tmp_path) == []
    assert files.read("c", 0, 1) == b"x", "closed is not the end"


def test_handles_are_not_inherited(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 2)
    files.write("a", 0, b"x")
    assert not os.get_inheritable(files.handles.table["a"].descriptor)


def test_those_in_use_stay_open_beyond_the_limit(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 1)
    held = [files.handles.take(name, create=True) for name in "abc"]
    assert descriptors(tmp_path) == ["a", "b", "c"]
    for handle in held:
        files.handles.give(handle)
    files.write("d", 0, b"x")
    assert descriptors(tmp_path) == ["d"]


def test_one_in_use_outlives_its_name(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 4)
    files.write("a", 0, b"old")
    handle = files.handles.take("a")
    files.delete("a")
    files.write("a", 0, b"new")
    assert os.pread(handle.descriptor, 9, 0) == b"old"
    files.handles.give(handle)
    assert descriptors(tmp_path) == ["a"]
    assert files.read("a", 0, 9) == b"new"


def test_clean_ones_are_closed_first_and_dirty_ones_synced(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 2)
    files.write("dirty", 0, b"x")
    files.write("clean", 0, b"x")
    files.sync("clean")
    files.write("b", 0, b"x")
    assert descriptors(tmp_path) == ["b", "dirty"]
    files.write("c", 0, b"x")
    assert descriptors(tmp_path) == ["b", "c"]
    assert files.counters.totals()["io_sync_count"] == 2


def test_scratch_is_closed_without_a_sync(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 1)
    files.make_directory("transient/1")
    syncs = files.counters.totals()["io_sync_count"]
    files.write("transient/1/0.idx", 0, b"x")
    files.write("transient/1/1.idx", 0, b"x")
    assert files.counters.totals()["io_sync_count"] == syncs
    assert descriptors(tmp_path) == ["transient/1/1.idx"]


@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_an_error_found_while_closing_is_told_by_every_later_sync(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fdatasync(_: int) -> None:
        raise OSError(getattr(errno, code), "no")

    files = HostFiles(tmp_path, 1)
    files.write("a", 0, b"x")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fdatasync)
        files.write("b", 0, b"x")
    assert descriptors(tmp_path) == ["b"]
    files.sync("b")
    for _ in range(2):
        with pytest.raises(DiskFailed, match=f"^sync a: {code}$"):
            files.sync("a")


def test_when_the_system_has_no_descriptor_left_one_of_ours_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def full(path: str, flags: int, mode: int = 0o777) -> int:
        if len(descriptors(tmp_path)) >= 2:
            raise OSError(errno.EMFILE, "no")
        return real(path, flags, mode)

    said: list[str] = []
    files = HostFiles(tmp_path, 100, said.append)
    monkeypatch.setattr(os, "open", full)
    for name in "abcd":
        files.write(name, 0, b"x")
    assert descriptors(tmp_path) == ["c", "d"]
    held = [files.handles.take(name) for name in "cd"]
    writes = threading.Thread(target=files.write, args=("e", 0, b"x"))
    writes.start()
    while not said:
        time.sleep(0.01)
    assert writes.is_alive(), "it waits until one is given back"
    for handle in held:
        files.handles.give(handle)
    writes.join()
    assert files.read("e", 0, 1) == b"x"


def test_many_threads_on_few_handles_read_what_they_wrote(tmp_path: Path) -> None:
    files = HostFiles(tmp_path, 3)
    wrong: list[object] = []

    def work(seed: int) -> None:
        dice = random.Random(seed)
        try:
            for step in range(300):
                name = f"{seed}-{dice.randrange(4)}"
                data = f"{name} {step}".encode()
                files.write(f"{name}.tmp", 0, data)
                if dice.random() < 0.5:
                    files.sync(f"{name}.tmp")
                files.rename(f"{name}.tmp", name)
                if files.read(name, 0, 100) != data:
                    wrong.append(name)
                files.read("shared", 0, 4)
                if dice.random() < 0.5:
                    files.delete(name)
        except Exception as error:
            wrong.append(error)

    files.write("shared", 0, b"same")
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    files.read("shared", 0, 4)
    assert len(descriptors(tmp_path)) <= 3 + 4
    files.close()
    assert descriptors(tmp_path) == []
    assert files.counters.totals()["io_write_count"] == 1 + 4 * 300
