"""Goal: the simulated disk loses what a real one may lose, and nothing else.

Method: one script under many seeds; what must hold in all of them, and what must be met in one.
"""

from __future__ import annotations

from random import Random

import pytest

from sluicemq.errors import DiskFailed
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.disk import SYNC_STRAND, DiskJob, Files
from sluicemq.sim.disk import CHANGES, Crashed, SimDisk, SimFiles, stop_at
from sluicemq.sim.inode import SECTOR
from sluicemq.sim.timeline import Timeline

SEEDS = range(200)


def content(files: SimFiles, path: str) -> bytes | None:
    size = files.size(path)
    return None if size < 0 else files.read(path, 0, size)


def test_what_is_synced_with_its_name_survives() -> None:
    for seed in SEEDS:
        files = SimFiles()
        files.make_directory("a/b")
        files.write("a/b/f", 0, b"x" * 700)
        files.sync("a/b/f")
        files.sync_directory("a/b")
        files.write("a/b/f", 700, b"y" * 700)
        files.crash(Random(seed))
        left = content(files, "a/b/f")
        assert left is not None and left[:700] == b"x" * 700
        assert set(left[700:]) <= {ord("y"), 0}


def test_a_synced_file_without_its_name_may_be_gone() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.write("f", 0, b"x")
        files.sync("f")
        files.crash(Random(seed))
        found.add(content(files, "f"))
    assert found == {None, b"x"}


def test_unsynced_writes_are_kept_dropped_and_torn_in_any_order() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.write("f", 0, b"1" * SECTOR)
        files.write("f", SECTOR, b"2" * SECTOR)
        files.write("f", 2 * SECTOR, b"3" * 2 * SECTOR)
        files.sync_directory("")
        files.crash(Random(seed))
        left = content(files, "f")
        assert left is not None
        sectors = [left[at : at + SECTOR] for at in range(0, len(left), SECTOR)]
        assert all(len(set(sector)) == 1 for sector in sectors)
        found.add("".join(chr(sector[0] or ord("-")) for sector in sectors))
    assert {"", "1233", "1-33", "-2", "-23"} <= found
    assert "12-3" in found and "1-" in found, "torn, and a length without its data"


def test_a_sector_holds_all_that_was_written_to_it_before() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.allocate("f", SECTOR)
        files.sync("f")
        files.sync_directory("")
        files.write("f", 0, b"a")
        files.write("f", 1, b"b")
        files.crash(Random(seed))
        found.add((content(files, "f") or b"")[:2])
    assert found == {b"\0\0", b"a\0", b"ab"}


def test_a_rename_whose_source_was_never_synced_may_give_an_old_or_an_empty_file() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.write("f", 0, b"old")
        files.sync("f")
        files.sync_directory("")
        files.write("f.tmp", 0, b"new")
        files.rename("f.tmp", "f")
        files.crash(Random(seed))
        found.add(content(files, "f"))
        assert files.size("f.tmp") < 0 or content(files, "f") == b"old"
    assert found == {b"old", b"new", b"", b"\0\0\0"}


def test_a_proper_replacement_is_all_or_nothing() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.write("f", 0, b"old")
        files.sync("f")
        files.sync_directory("")
        files.write("f.tmp", 0, b"new")
        files.sync("f.tmp")
        files.rename("f.tmp", "f")
        if seed % 2:
            files.sync_directory("")
        files.crash(Random(seed))
        found.add((seed % 2, content(files, "f")))
    assert found == {(0, b"old"), (0, b"new"), (1, b"new")}


def test_a_deleted_file_may_come_back_until_its_directory_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        files = SimFiles()
        files.make_directory("d")
        files.write("d/f", 0, b"x")
        files.sync("d/f")
        files.sync_directory("d")
        files.delete_tree("d") if seed % 4 < 2 else files.delete("d/f")
        if seed % 2:
            files.sync_directory("" if seed % 4 < 2 else "d")
        files.crash(Random(seed))
        found.add((seed % 2, content(files, "d/f")))
    assert found == {(0, None), (0, b"x"), (1, None)}


def test_a_file_has_one_name_after_a_crash() -> None:
    for seed in SEEDS:
        files = SimFiles()
        files.make_directory("d")
        files.write("a", 0, b"x")
        files.rename("a", "b")
        files.rename("b", "d/c")
        if seed % 2:
            files.sync_directory("d")
        files.crash(Random(seed))
        there = [name for name in ("a", "b", "d/c") if files.size(name) >= 0]
        assert len(there) <= 1
        assert not seed % 2 or there == ["d/c"]


def test_after_a_failed_sync_the_next_one_succeeds_and_the_data_is_lost() -> None:
    files = SimFiles()
    files.write("f", 0, b"x" * SECTOR)
    files.sync_directory("")
    files.sync_failures = 1
    with pytest.raises(DiskFailed, match="sync f: EIO"):
        files.sync("f")
    files.write("f", SECTOR, b"y" * SECTOR)
    files.sync("f")
    assert content(files, "f") == b"x" * SECTOR + b"y" * SECTOR, "it is still in the page cache"
    files.crash(Random(1))
    assert content(files, "f") == bytes(SECTOR) + b"y" * SECTOR


def test_kill_leaves_everything_that_was_written() -> None:
    files = SimFiles()
    files.write("f", 0, b"abc")
    files.rename("f", "g")
    files.before = stop_at(files.number + 1, done=0.5)
    with pytest.raises(Crashed):
        files.write("g", 3, b"defg")
    with pytest.raises(Crashed):
        files.delete("g")
    files.kill()
    assert content(files, "g") == b"abcde"


@pytest.mark.parametrize("done", [0.0, 1.0])
def test_a_crash_is_before_or_after_the_primitive(done: float) -> None:
    files = SimFiles()
    files.write("f", 0, b"x")
    files.before = stop_at(files.number + 1, done)
    with pytest.raises(Crashed):
        files.rename("f", "g")
    assert (files.size("g") >= 0) == (done == 1.0)


def test_the_nth_primitive_fails_once() -> None:
    files = SimFiles()
    files.plan = {2: "EIO", 4: "EDQUOT"}
    files.write("f", 0, b"x")
    with pytest.raises(DiskFailed, match="write f: EIO"):
        files.write("f", 1, b"x")
    files.write("f", 1, b"x")
    with pytest.raises(DiskFailed) as failed:
        files.allocate("f", 10)
    assert failed.value.is_full
    files.allocate("f", 10)


def test_a_full_disk_refuses_and_heals() -> None:
    files = SimFiles(capacity=10)
    files.allocate("f", 8)
    files.write("f", 4, b"four")
    with pytest.raises(DiskFailed, match="allocate g: ENOSPC"):
        files.allocate("g", 3)
    with pytest.raises(DiskFailed, match="write g: ENOSPC"):
        files.write("g", 0, b"abc")
    assert content(files, "g") == b"ab" and files.free_bytes() == 0
    files.truncate("f", 6)
    files.write("g", 0, b"abc")
    assert files.free_bytes() == 1
    files.write("h", 0, b"h")
    files.rename("h", "g")
    assert files.free_bytes() == 3
    files.delete("g")
    assert files.free_bytes() == 4
    files.capacity = 20
    assert files.free_bytes() == 14


def test_names_and_missing_files() -> None:
    files = SimFiles()
    files.make_directory("a/b")
    files.write("a/f", 0, b"x")
    assert files.names("") == ["a"]
    assert files.names("a") == ["b", "f"]
    assert files.names("nowhere") == []
    assert files.size("nowhere") == -1
    files.delete("nowhere")
    files.delete_tree("nowhere")
    for call in (
        lambda: files.read("nowhere", 0, 1),
        lambda: files.sync("nowhere"),
        lambda: files.truncate("nowhere", 0),
        lambda: files.rename("nowhere", "x"),
        lambda: files.write("nowhere/f", 0, b"x"),
        lambda: files.sync_directory("nowhere"),
    ):
        with pytest.raises(DiskFailed, match="ENOENT"):
            call()
    files.delete_tree("a")
    assert files.names("") == []


def test_a_flipped_bit_stays() -> None:
    files = SimFiles()
    files.write("f", 0, b"abc")
    files.sync("f")
    files.sync_directory("")
    files.flip("f", 1, 0x20)
    assert content(files, "f") == b"aBc"
    files.crash(Random(0))
    assert content(files, "f") == b"aBc"


class Append(DiskJob):
    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data

    def run(self, files: Files) -> None:
        files.write(self.path, max(0, files.size(self.path)), self.data)
        files.sync(self.path)
        files.sync_directory("")


class Owner(Actor):
    def __init__(self) -> None:
        super().__init__(Scheduler())
        self.heard: list[Append] = []

    def receive(self, message: object) -> None:
        assert isinstance(message, Append)
        self.heard.append(message)

    def news(self) -> bytes:
        self.scheduler.run(10)
        return b"".join(job.data for job in self.heard)


def disk_of(seed: int) -> SimDisk:
    return SimDisk(Timeline(), Random(seed), SimFiles())


def test_jobs_of_a_strand_run_in_order_and_lanes_beside_one_another() -> None:
    orders = set()
    for seed in range(20):
        disk, owner = disk_of(seed), Owner()
        for n in range(4):
            disk.submit(Append("f", b"%d" % n), owner, SYNC_STRAND)
        disk.submit(Append("g", b"g"), owner, 1)
        assert disk.busy() and not owner.inbox
        while disk.busy():
            disk.timeline.step()
        assert content(disk.files, "f") == b"0123"
        orders.add(owner.news())
    assert {order.replace(b"g", b"") for order in orders} == {b"0123"}
    assert len(orders) > 2


def test_a_stall_holds_a_job_up_until_it_is_over() -> None:
    disk, owner = disk_of(1), Owner()
    disk.stalled_until_ns = 5_000_000_000
    disk.submit(Append("f", b"x"), owner, SYNC_STRAND)
    disk.timeline.step()
    assert disk.timeline.now_ns == 5_000_000_000
    assert owner.news() == b"x"


def test_a_failure_comes_back_with_its_job() -> None:
    disk, owner = disk_of(1), Owner()
    disk.files.sync_failures = 1
    disk.submit(Append("f", b"x"), owner, SYNC_STRAND)
    disk.timeline.step()
    owner.news()
    failure = owner.heard[0].failure
    assert failure is not None and failure.action == "sync" and not failure.is_full


@pytest.mark.parametrize("power", [False, True])
def test_after_a_crash_nobody_hears_of_jobs_and_a_part_of_them_has_happened(power: bool) -> None:
    found = set()
    for seed in range(100):
        disk, owner = disk_of(seed), Owner()
        disk.submit(Append("f", b"abcd"), owner, SYNC_STRAND)
        disk.submit(Append("f", b"efgh"), owner, SYNC_STRAND)
        disk.crash(power)
        disk.timeline.step()
        assert owner.news() == b"" and not disk.busy()
        found.add(content(disk.files, "f"))
    assert {b"", b"a", b"abcd"} <= found and (None in found) == power
    assert b"abcdefgh" not in found


def test_a_job_that_is_crashed_is_not_heard_of() -> None:
    disk, owner = disk_of(3), Owner()
    disk.files.before = stop_at(2)
    disk.submit(Append("f", b"abcd"), owner, SYNC_STRAND)
    with pytest.raises(Crashed):
        disk.timeline.step()
    disk.crash(power=False)
    assert content(disk.files, "f") == b"abcd"
    assert owner.news() == b""
    assert disk.counters()["io_write_count"] == 1
    assert set(disk.files.counts) - CHANGES == {"read"}
