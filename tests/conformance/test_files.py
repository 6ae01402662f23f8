"""Goal: files keep their promises (kernel/disk.py, Files), on a disk, in the simulation and in the
fake alike, so that what is seen in the latter two is true of the first.

Method: the same steps on each. A crash is tried on those that can have one: the simulation under
several seeds, and the fake, which loses all that may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import DiskFailed
from sluicemq.host.files import HostFiles
from sluicemq.host.memory_disk import MemoryFiles
from sluicemq.host.read_only_files import ReadOnlyFiles
from sluicemq.kernel.disk import Files
from sluicemq.sim.disk import SimFiles
from support.files import DictFiles

SEEDS = range(25)
MISPLACED = ["/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/"]


def on_disk(root: Path) -> Files:
    root.mkdir(exist_ok=True)
    return HostFiles(root, 4)


MAKERS: dict[str, Callable[[Path], Files]] = {
    "host": on_disk,
    "sim": lambda _: SimFiles(),
    "memory": lambda _: MemoryFiles(),
    "fake": lambda _: DictFiles(),
}


@pytest.fixture(params=MAKERS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return MAKERS[request.param](tmp_path / "data")


def fill(files: Files) -> None:
    """Something of each kind to look at."""
    files.make_directory("d/empty")
    files.write("d/b", 0, b"0123456789")
    files.write("d/a", 0, b"")
    files.write("f", 4, b"x")


@pytest.fixture(params=[*MAKERS, "read only"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """`fill`ed, and to be read only."""
    root = tmp_path / "data"
    made = MAKERS.get(request.param, on_disk)(root)
    fill(made)
    return ReadOnlyFiles(root) if request.param == "read only" else made


def refused(act: Callable[[], object]) -> str:
    """The errno's name with which it is refused."""
    with pytest.raises(DiskFailed) as told:
        act()
    return told.value.code


# Looking


def test_a_listing_is_sorted_and_has_files_and_directories(filled: Files) -> None:
    assert filled.names("") == ["d", "f"]
    assert filled.names("d") == ["a", "b", "empty"]
    assert filled.names("d/empty") == []


def test_a_directory_that_is_none_is_empty_and_a_file_is_no_directory(filled: Files) -> None:
    assert filled.names("absent") == []
    assert filled.names("absent/too") == []
    assert refused(lambda: filled.names("f")) == "ENOTDIR"


def test_only_a_file_has_a_size(filled: Files) -> None:
    paths = ["d/b", "d/a", "f", "absent", "absent/f", "d", "f/below", ""]
    assert [filled.size(path) for path in paths] == [10, 0, 5, -1, -1, -1, -1, -1]


def test_only_a_directory_is_one(filled: Files) -> None:
    paths = ["", "d", "d/empty", "f", "f/below", "absent"]
    assert [filled.is_directory(path) for path in paths] == [True, True, True, False, False, False]


def test_a_read_ends_with_the_file(filled: Files) -> None:
    assert filled.read("d/b", 0, 10) == b"0123456789"
    assert filled.read("d/b", 7, 100) == b"789"
    assert filled.read("d/b", 3, 0) == b""
    assert filled.read("d/b", 10, 1) == b""
    assert filled.read("d/b", 1000, 1) == b""
    assert filled.read("d/a", 0, 1) == b""


def test_a_gap_reads_as_zeroes(filled: Files) -> None:
    assert filled.read("f", 0, 9) == b"\0\0\0\0x"


def test_what_is_no_file_cannot_be_read(filled: Files) -> None:
    assert refused(lambda: filled.read("absent", 0, 1)) == "ENOENT"
    assert refused(lambda: filled.read("d", 0, 1)) == "EISDIR"
    assert refused(lambda: filled.read("f/below", 0, 1)) == "ENOTDIR"


@pytest.mark.parametrize("path", MISPLACED)
def test_who_looks_outside_makes_a_mistake(filled: Files, path: str) -> None:
    for look in (filled.names, filled.size, filled.is_directory):
        with pytest.raises(AssertionError, match="no path in the data directory"):
            look(path)
    with pytest.raises(AssertionError, match="no path in the data directory"):
        filled.read(path, 0, 1)


# Changing


def test_a_write_replaces_goes_on_and_leaves_the_rest(files: Files) -> None:
    files.write("f", 0, b"0123456789")
    files.write("f", 3, b"abc")
    files.write("f", 9, b"xyz")
    assert files.read("f", 0, 100) == b"012abc678xyz"


def test_a_write_of_nothing_makes_a_file_and_does_not_grow_one(files: Files) -> None:
    files.write("new", 100, b"")
    files.write("f", 0, b"12")
    files.write("f", 100, b"")
    assert (files.size("new"), files.size("f")) == (0, 2)


def test_a_durable_write_is_a_write(files: Files) -> None:
    files.write_durably("a", 4, b"4567")
    files.write_durably("a", 0, b"0123")
    files.write_durably("a", 8, b"")
    files.write_durably("empty", 0, b"")
    assert files.read("a", 0, 100) == b"01234567"
    assert files.size("empty") == 0


def test_allocated_space_is_zeroes_where_nothing_was(files: Files) -> None:
    files.write("f", 0, b"head")
    files.allocate("f", 10)
    assert files.read("f", 0, 100) == b"head\0\0\0\0\0\0"
    files.allocate("f", 2)
    assert files.size("f") == 10
    files.allocate("new", 0)
    assert files.size("new") == 0


def test_truncation_cuts_and_fills_up(files: Files) -> None:
    files.write("f", 0, b"0123456789")
    files.truncate("f", 4)
    files.truncate("f", 6)
    assert files.read("f", 0, 100) == b"0123\0\0"
    files.truncate("f", 0)
    assert files.size("f") == 0


def test_a_renamed_file_replaces_another(files: Files) -> None:
    files.make_directory("d")
    files.write("old", 0, b"old content")
    files.write("d/new", 0, b"new")
    files.rename("d/new", "old")
    assert files.read("old", 0, 100) == b"new"
    assert (files.size("d/new"), files.names("d")) == (-1, [])
    files.rename("old", "old")
    assert files.read("old", 0, 100) == b"new"


def test_a_deleted_file_is_gone_and_a_new_one_is_another(files: Files) -> None:
    files.write("f", 0, b"0123456789")
    files.delete("f")
    files.delete("f")
    assert files.size("f") == -1
    files.write("f", 0, b"x")
    assert files.read("f", 0, 100) == b"x"


def test_a_deleted_tree_takes_all_with_it_and_nothing_else(files: Files) -> None:
    for path in ("d/e/f", "d/g", "dd/f"):
        files.make_directory(path.rpartition("/")[0])
        files.write(path, 0, b"x")
    files.delete_tree("d")
    files.delete_tree("d")
    files.delete_tree("absent")
    assert files.names("") == ["dd"]
    assert [files.size(path) for path in ("d/e/f", "d/g", "dd/f")] == [-1, -1, 1]
    assert not files.is_directory("d/e")
    with pytest.raises(AssertionError, match="itself stays"):
        files.delete_tree("")


def test_a_directory_is_made_with_its_parents_and_twice(files: Files) -> None:
    files.make_directory("a/b/c")
    files.make_directory("a/b/c")
    assert [files.is_directory(path) for path in ("a", "a/b", "a/b/c")] == [True] * 3


def test_what_is_missing_is_said_so(files: Files) -> None:
    acts: list[Callable[[], object]] = [
        lambda: files.truncate("absent", 0),
        lambda: files.sync("absent"),
        lambda: files.rename("absent", "b"),
        lambda: files.write("absent/f", 0, b"x"),
        lambda: files.allocate("absent/f", 1),
        lambda: files.sync_directory("absent"),
    ]
    assert {refused(act) for act in acts} == {"ENOENT"}
    files.write("f", 0, b"x")
    assert refused(lambda: files.rename("f", "absent/f")) == "ENOENT"
    assert files.read("f", 0, 1) == b"x"


def test_what_is_of_the_wrong_kind_is_said_so(files: Files) -> None:
    files.make_directory("d")
    files.write("f", 0, b"x")
    assert refused(lambda: files.write("d", 0, b"x")) == "EISDIR"
    assert refused(lambda: files.delete("d")) == "EISDIR"
    assert refused(lambda: files.rename("f", "d")) == "EISDIR"
    assert refused(lambda: files.write("f/below", 0, b"x")) == "ENOTDIR"
    assert refused(lambda: files.delete_tree("f")) == "ENOTDIR"
    assert refused(lambda: files.make_directory("f")) == "EEXIST"
    assert refused(lambda: files.make_directory("f/below")) == "EEXIST"
    assert (files.names(""), files.size("f")) == (["d", "f"], 1)


@pytest.mark.parametrize("path", MISPLACED)
def test_who_writes_outside_makes_a_mistake(files: Files, path: str) -> None:
    for act in (files.delete, files.delete_tree, files.sync, files.sync_directory):
        with pytest.raises(AssertionError, match="no path in the data directory"):
            act(path)
    with pytest.raises(AssertionError, match="no path in the data directory"):
        files.write(path, 0, b"x")


def test_there_is_space_and_a_number_for_it(files: Files) -> None:
    assert files.free_bytes() > 0


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.sampled_from("fg"), st.integers(0, 20), st.binary(max_size=8)
        ),
        st.tuples(st.just("truncate"), st.sampled_from("fg"), st.integers(0, 20)),
        st.tuples(st.just("allocate"), st.sampled_from("fg"), st.integers(0, 20)),
        st.tuples(st.just("rename"), st.sampled_from("fg"), st.sampled_from("fg")),
        st.tuples(st.just("delete"), st.sampled_from("fg")),
        st.tuples(st.just("sync"), st.sampled_from("fg")),
    ),
    max_size=15,
)


@given(steps=STEPS)
def test_any_steps_leave_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, ...]]
) -> None:
    root = tmp_path_factory.mktemp("any")
    all_files = [make(root / name) for name, make in MAKERS.items()]
    for action, *arguments in steps:
        told = []
        for files in all_files:
            try:
                getattr(files, action)(*arguments)
                told.append("")
            except DiskFailed as failure:
                told.append(failure.code)
        assert len(set(told)) == 1, (action, arguments, told)
    found = [{name: files.read(name, 0, 100) for name in files.names("")} for files in all_files]
    assert found[0] == found[1] == found[2]


# After a crash


def crashed(make: Callable[[Files], None]) -> list[Files]:
    """What `make` leaves when the power goes: each possibility that there is a machine for."""
    left: list[Files] = []
    for seed in SEEDS:
        simulated = SimFiles()
        make(simulated)
        simulated.crash(Random(seed))
        left.append(simulated)
    fake = DictFiles()
    make(fake)
    return [*left, fake.crash()]


def test_synced_data_under_a_synced_name_survives() -> None:
    def make(files: Files) -> None:
        files.make_directory("d")
        files.write("d/f", 0, b"kept")
        files.sync("d/f")
        files.sync_directory("d")
        files.write("d/f", 4, b"perhaps")

    for files in crashed(make):
        assert files.read("d/f", 0, 4) == b"kept"


def test_a_name_is_durable_by_its_directory_alone() -> None:
    def make(files: Files) -> None:
        files.make_directory("d")
        files.write("d/f", 0, b"kept")
        files.sync("d/f")
        files.sync_directory("")  # of the wrong one

    sizes = {files.size("d/f") for files in crashed(make)}
    assert sizes == {-1, 4}


def test_a_synced_rename_leaves_one_name() -> None:
    def make(files: Files) -> None:
        files.write("f", 0, b"old")
        files.sync("f")
        files.sync_directory("")
        files.write("f.tmp", 0, b"new")
        files.sync("f.tmp")
        files.rename("f.tmp", "f")
        files.sync_directory("")

    for files in crashed(make):
        assert files.names("") == ["f"]
        assert files.read("f", 0, 9) == b"new"


def test_a_deletion_is_durable_when_its_directory_was_synced() -> None:
    def make(files: Files) -> None:
        for name in ("f", "g"):
            files.write(name, 0, b"x")
            files.sync(name)
        files.sync_directory("")
        files.delete("f")
        files.sync_directory("")
        files.delete("g")

    left = [files.names("") for files in crashed(make)]
    assert sorted(map(tuple, left))[0] == ()
    assert {tuple(names) for names in left} == {(), ("g",)}


def test_a_deleted_tree_is_gone_when_the_directory_it_was_in_was_synced() -> None:
    def make(files: Files) -> None:
        files.make_directory("d/e")
        files.write("d/e/f", 0, b"x")
        files.sync("d/e/f")
        files.sync_directory("d/e")
        files.delete_tree("d/e")
        files.sync_directory("d")

    for files in crashed(make):
        assert files.size("d/e/f") == -1


def test_a_directory_that_was_made_survives() -> None:
    for files in crashed(lambda files: files.make_directory("a/b")):
        assert files.is_directory("a/b")
