"""Goal: nothing stays for ever in the folder in which a query's processes meet, and nothing is
taken from one that lives; what goes wrong there is said with the option.

Method: files and sockets of all ages in a folder of the test's own, swept; two who want one lock.
No Spark session, no broker.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from sluicemq.spark import own_folder as folders
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.driver_lines import LineServer, answers, ask
from sluicemq.spark.gatherer_start import GathererCall, start_beside
from sluicemq.spark.options import Options
from sluicemq.spark.own_folder import is_at, lock_file, own_folder
from sluicemq.spark.queue_stream import ChunkPartition, QueueStreamReader
from sluicemq.spark.transfer import Endpoint

HOURS_AGO = time.time() - 2 * 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the own folder will be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = tmp_path / f"sluicemq-{os.getuid()}"
    found.mkdir(mode=0o700)
    return found


def socket_at(path: Path, kind: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made


SOCKETS = {
    "spark-a": socket.SOCK_DGRAM,
    "files-1": socket.SOCK_STREAM,
    "listener-1-a": socket.SOCK_STREAM,
}


def test_what_nobody_has_any_more_goes_when_it_is_old(folder: Path) -> None:
    (folder / "gather-a-1").touch()
    (folder / "copy-a").mkdir()
    (folder / "copy-a" / "write").touch()
    for name, kind in SOCKETS.items():
        socket_at(folder / name, kind).close()
    for path in folder.iterdir():
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    (folder / "gather-a-2").touch()
    (folder / "copy-b").mkdir()
    socket_at(folder / "spark-b", socket.SOCK_DGRAM).close()
    own_folder()
    assert {path.name for path in folder.iterdir()} == {"gather-a-2", "copy-b", "spark-b"}


def test_what_somebody_has_stays_however_old(folder: Path) -> None:
    """And what others put there: the sockets of brokers."""
    lock = lock_file(folder / "gather-a-1")
    assert lock is not None
    those = [socket_at(folder / name, kind) for name, kind in SOCKETS.items()]
    socket_at(folder / "sluicemq-5672.sock", socket.SOCK_STREAM).close()
    (folder / "gather-a-2").symlink_to(folder / "gather-a-1")
    names = set()
    for path in folder.iterdir():
        os.utime(path, (HOURS_AGO, HOURS_AGO), follow_symlinks=False)
        names.add(path.name)
    own_folder()
    assert {path.name for path in folder.iterdir()} == names
    those[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        those[0].recv(1)
    for each in those:
        each.close()
    os.close(lock)


def test_the_lock_is_one_persons(folder: Path) -> None:
    path = folder / "gather-a-1"
    lock = lock_file(path)
    assert lock is not None
    assert lock_file(path) is None
    os.close(lock)
    again = lock_file(path)
    assert again is not None
    os.close(again)


@pytest.mark.parametrize("is_free", [True, False])
def test_a_lock_whose_file_has_been_removed_is_nobodys(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_free: bool
) -> None:
    """One who has it removes the file as he ends, between the opening and the locking of the next
    one; that one, and nobody else, has the lock then."""
    path = folder / "gather-a-1"
    first = lock_file(path)
    assert first is not None
    flock = fcntl.flock

    def flock_late(file: int, how: int) -> None:
        monkeypatch.setattr(folders.fcntl, "flock", flock)
        path.unlink()
        if is_free:
            os.close(first)
        flock(file, how)

    monkeypatch.setattr(folders.fcntl, "flock", flock_late)
    second = lock_file(path)
    assert second is not None
    assert is_at(second, path)
    assert lock_file(path) is None
    os.close(second)
    if not is_free:
        os.close(first)


def test_an_executor_that_cannot_start_a_process_says_that(folder: Path) -> None:
    """And not that the driver cannot be reached, of which it has heard nothing yet."""
    folder.chmod(0o755)
    options = Options.parse({"queue": "q", "gather": "executors"}, "source")
    planner = Endpoint("127.0.0.1", 1, "token", "")
    reader = QueueStreamReader(options, StructType([StructField("body", BinaryType())]))
    partition = ChunkPartition(planner, [], GathererCall("session", options, planner))
    with pytest.raises(AmqpError) as caught:
        list(reader.read(partition))
    assert str(caught.value) == (
        "gather = executors: this executor cannot start a process that gathers:"
        f" {folder} is not this user's alone"
    )


def test_a_socket_that_is_looked_for_while_it_is_made_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between bind and listen nobody answers, as at what a driver left that was killed."""
    path = str(folder / "listener-1-a")
    listen = socket.socket.listen

    def looked_for(made: socket.socket) -> None:
        assert not answers(path)
        listen(made)

    monkeypatch.setattr(socket.socket, "listen", looked_for, raising=False)
    LineServer(path, lambda question: {"heard": question["say"]})
    assert answers(path)
    assert ask(path, {"say": "yes"}, 20.0)["heard"] == "yes"
    assert [each.name for each in folder.iterdir()] == ["listener-1-a"]


def test_what_a_killed_driver_left_goes_and_what_came_to_its_place_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "files-1"
    socket_at(path, socket.SOCK_STREAM).close()
    assert not answers(str(path))
    assert not path.exists()
    socket_at(path, socket.SOCK_STREAM).close()
    os.utime(path, (HOURS_AGO, HOURS_AGO))
    connect = socket.socket.connect

    def overtaken(made: socket.socket, where: str) -> None:
        """Another has found it silent too, removed it, and made his own."""
        try:
            connect(made, where)
        finally:
            path.unlink()
            path.touch()

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", overtaken, raising=False)
        assert not answers(str(path))
    assert path.exists()


@pytest.mark.parametrize("what", ["socketpair", "Popen"])
def test_a_driver_that_cannot_start_a_process_says_so(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket if what == "socketpair" else subprocess, what, fail)
    call = GathererCall("a", Options.parse({"queue": "q"}, "source"), Endpoint("", 0, "", ""))
    words = "gather = driver: this machine cannot start a process that gathers: .*Too many open"
    with pytest.raises(AmqpError, match=words):
        start_beside(call)
