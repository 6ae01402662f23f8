"""Goal: a ledger keeps what Spark knows, belongs to one query and to its latest run, and lies
wherever Spark can have a checkpoint.

Method: ledgers in a directory, and in files that behave as some file systems of Hadoop do, with no
Spark around; a query whose ledger only Hadoop can open.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicemq.client.messages import BasicProperties
from sluicemq.errors import Refused
from sluicemq.spark import batch_ids
from sluicemq.spark.batch_ids import OWNER_BEFORE, BatchIds, BatchPart, LocalFiles
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.driver_files import DriverFiles
from sluicemq.spark.listener import listen
from spark.amqp_messages import Broker, Files, numbered, numbers, streaming
from support.thorough import only_thorough

BEFORE = {"ledger": "a1", "session": "one", "is_known": True}


class MemoryFiles:
    """Those of a file system that does nothing when a file that is there is renamed to, and does
    not say so: HDFS under Spark's FileSystemBasedCheckpointFileManager."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def names(self) -> list[str]:
        return list(self.texts)

    def read(self, name: str) -> str:
        try:
            return self.texts[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def write(self, name: str, text: str) -> None:
        self.texts.setdefault(name, text)

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)


class DeletingFiles(MemoryFiles):
    """Those of one that deletes what is there, and then renames: Hadoop's DelegateToFileSystem, so
    S3A and ABFS. `meanwhile` happens between the two."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = int

    def write(self, name: str, text: str) -> None:
        if name in self.texts:
            del self.texts[name]
            self.meanwhile()
        self.texts[name] = text


class CrowdedFiles(MemoryFiles):
    """Those where a second writer would be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.most = 0
        self.second = threading.Event()

    def write(self, name: str, text: str) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside > 1:
            self.second.set()
        self.second.wait(0.2)
        super().write(name, text)
        self.inside -= 1


class FullFiles(LocalFiles):
    """Those of a disk that is full."""

    def write(self, name: str, text: str) -> None:
        raise OSError(28, "No space left on device")


class OddFiles(LocalFiles):
    """Those of a driver that says what is no JSON."""

    def write(self, name: str, text: str) -> None:
        json.loads("{")


def owners(folder: Path) -> list[str]:
    """The names of the files that say whose it is."""
    return sorted(path.name for path in folder.glob("owner*"))


@pytest.fixture(params=["directory", MemoryFiles, DeletingFiles])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a ledger may lie."""
    if request.param != "directory":
        files = request.param()
        monkeypatch.setattr(batch_ids, "open_files", lambda _: files)
    return tmp_path


def ledger_of(folder: Path, session: str, serial: int = 0, owner: str = "") -> BatchIds:
    """As a session opens it."""
    ledger = BatchIds(str(folder), 4, session)
    ledger.align(serial, owner)
    return ledger


def record(ledger: BatchIds, *serials: int) -> None:
    for serial in serials:
        ledger.record(serial, [BatchPart("q", 3, [f"{serial}a", f"{serial}b"])])


def test_a_ledger_keeps_what_spark_knows(place: Path) -> None:
    ledger = ledger_of(place, "one")
    record(ledger, 1, 2, 3, 4)
    again = BatchIds(str(place), 4, "two")
    names = [f"{serial}a" for serial in (1, 2, 3, 4)]
    assert again.repeats("q", names, set()) == [2, 3]
    assert again.repeats("other", ["4a"], set()) == []
    again.align(3, ledger.id)
    assert (again.repeats("q", ["4a"], set()), again.batch(4)) == ([], None)
    assert BatchIds(str(place), 4, "three").batch(3) == [BatchPart("q", 3, ["3a", "3b"])]


def test_one_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"ledger = .*cannot be used"):
        BatchIds(str(tmp_path / "file"), 1, "s")


def test_one_that_only_spark_can_open_needs_a_driver_that_does() -> None:
    with pytest.raises(Refused, match=r"ledger = 's3a://b/l': only Spark .*register"):
        BatchIds("s3a://b/l", 1, "s")


def test_a_url_of_this_machine_is_a_directory(tmp_path: Path) -> None:
    ledger = BatchIds(f"file://{tmp_path}/ledger", 4, "s")
    ledger.align(0, "")
    record(ledger, 1)
    assert len(owners(tmp_path / "ledger")) == 1


def test_another_query_is_refused(place: Path) -> None:
    """A new one, and one that has a ledger elsewhere; what is in it stays."""
    ledger = ledger_of(place, "one")
    record(ledger, 1)
    ledger.settle()
    for owner in ("", "another"):
        with pytest.raises(Refused, match=r"ledger = .*: belongs to another query"):
            ledger_of(place, "two", 0, owner)
    record(ledger, 2)
    assert BatchIds(str(place), 4, "three").batch(2) is not None


def test_the_same_query_goes_on_and_its_run_before_does_not(place: Path) -> None:
    """However often it is started."""
    first = ledger_of(place, "one")
    record(first, 1)
    first.settle()
    for serial in range(1, 5):
        second = ledger_of(place, f"two{serial}", serial, first.id)
        assert second.id == first.id
        with pytest.raises(AmqpError, match="another run of this one, has taken it"):
            record(first, serial + 1)
        first.settle()
        record(second, serial + 1)
        second.settle()
        first = second
    with pytest.raises(Refused, match="belongs to another query"):
        ledger_of(place, "three")


def test_a_run_that_has_been_overtaken_drops_nothing(place: Path) -> None:
    first = ledger_of(place, "one")
    record(first, 1)
    ledger_of(place, "two", 1, first.id)
    with pytest.raises(AmqpError, match="has taken it"):
        first.align(0, first.id)
    assert BatchIds(str(place), 4, "three").batch(1) is not None


def test_a_commit_is_noted_while_the_next_batch_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread: the ledger is its query's all the time."""
    files = DeletingFiles()
    monkeypatch.setattr(batch_ids, "open_files", lambda _: files)
    ledger = ledger_of(tmp_path, "one")
    record(ledger, 1)
    files.meanwhile = lambda: record(ledger, 2)
    ledger.settle()
    record(ledger, 3)
    assert BatchIds(str(tmp_path), 4, "two").batch(3) is not None


@pytest.mark.parametrize("step", ["settle", "record"])
def test_one_thread_at_a_time_writes(tmp_path: Path, step: str) -> None:
    ledger = ledger_of(tmp_path, "one")
    files = CrowdedFiles()
    files.texts = dict.fromkeys(owners(tmp_path), "")
    ledger._files = files
    others = {"settle": ledger.settle, "record": lambda: record(ledger, 1)}
    threads = [threading.Thread(target=each) for each in (ledger.settle, others[step])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.most == 1


def test_an_earlier_versions_is_taken_on(place: Path) -> None:
    """With what it knew."""
    BatchIds(str(place), 4, "none")._files.write(OWNER_BEFORE, json.dumps(BEFORE))
    with pytest.raises(Refused, match="belongs to another query"):
        ledger_of(place, "two")
    first = ledger_of(place, "two", 0, "a1")
    assert first.id == "a1"
    record(first, 1)
    with pytest.raises(Refused, match="belongs to another query"):
        ledger_of(place, "three")
    assert OWNER_BEFORE not in first._files.names()


def test_a_start_that_was_cut_off_in_an_earlier_version_leaves_it_too(tmp_path: Path) -> None:
    (tmp_path / OWNER_BEFORE).write_text(json.dumps(BEFORE | {"is_known": False}))
    record(ledger_of(tmp_path, "two"), 1)
    (name,) = owners(tmp_path)
    assert name.startswith("owner-1-")
    assert name.endswith("-two.json")


@pytest.mark.parametrize("files", [FullFiles, OddFiles])
def test_one_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: type[LocalFiles]
) -> None:
    """Whether it is claimed or a batch is recorded; of a commit that is not noted the log tells."""
    words = r"ledger = '.*': cannot be used: "
    claimed = ledger_of(tmp_path, "one")
    claimed._files = files(str(tmp_path))
    claimed.settle()
    with pytest.raises(AmqpError, match=words):
        record(claimed, 1)
    monkeypatch.setattr(batch_ids, "open_files", files)
    with pytest.raises(AmqpError, match=words):
        ledger_of(tmp_path, "two", 0, claimed.id)


def test_one_that_cannot_be_cleared_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(ledger_of(tmp_path, "one"), 1)

    def refuse(_files: LocalFiles, name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(LocalFiles, "remove", refuse)
    with pytest.raises(AmqpError, match=r"ledger = '.*': cannot be used: .*denied"):
        ledger_of(tmp_path, "two")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ledger": 5, "session": "s", "is_known": 1}'])
def test_one_whose_owner_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / OWNER_BEFORE).write_text(text)
    with pytest.raises(AmqpError, match=r"ledger = '.*': cannot be used: "):
        ledger_of(tmp_path, "one")


@pytest.mark.parametrize("text", ["", "5", "[5]", '[["q", 3'])
def test_one_whose_batch_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    record(ledger_of(tmp_path, "one"), 1)
    (batch,) = tmp_path.glob("batch-*1.json")
    batch.write_text(text)
    with pytest.raises(Refused, match=rf"ledger = '.*': cannot be used: {batch.name} is damaged"):
        BatchIds(str(tmp_path), 4, "two")


def test_a_password_in_its_url_is_not_shown() -> None:
    with pytest.raises(Refused, match=r"ledger = 's3a://me:\.\.\.@b/l': only Spark"):
        BatchIds("s3a://me:secret@b/l", 1, "s")


def test_a_start_that_was_cut_off_leaves_it_to_the_next(place: Path) -> None:
    """Killed before Spark had written down the first batch, so nobody knows of it."""
    first = ledger_of(place, "one")
    record(first, 1)
    second = ledger_of(place, "two")
    assert second.batch(1) is None
    with pytest.raises(AmqpError, match="has taken it"):
        record(first, 2)


def test_one_that_nobody_owns_becomes_its_querys(tmp_path: Path) -> None:
    record(ledger_of(tmp_path, "one"), 1, 2)
    for name in owners(tmp_path):
        (tmp_path / name).unlink()
    found = ledger_of(tmp_path, "two", 2, "")
    assert found.batch(2) is not None
    assert ledger_of(tmp_path, "three", 2, found.id).id == found.id


@only_thorough
@pytest.mark.spark
def test_one_that_only_hadoop_can_open_outlives_the_query(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path
) -> None:
    """A mount table has it, which is in Spark's configuration and nowhere else."""
    amqp.declare(name)
    ids = [BasicProperties(message_id=f"m{n}") for n in range(100)]
    amqp.publish(name, numbered(60), ids[:60])
    (tmp_path / "mounted").mkdir()
    mount = f"fs.viewfs.mounttable.{name}.link./ledgers"
    spark.conf.set(mount, f"file://{tmp_path}/mounted")
    try:
        session = spark.newSession()
        listen(session)
        files = Files(session, tmp_path)
        options = {"exactlyOnce": "true", "ledger": f"viewfs://{name}/ledgers/orders"}
        frame = streaming(session, amqp, name, **options)
        files.run(frame)
        amqp.publish(name, numbered(100), ids)
        files.run(frame)
    finally:
        spark.conf.unset(mount)
    assert numbers(files.rows()) == list(range(100))
    assert amqp.ready(name, 0) == 0
    names = [path.name for path in (tmp_path / "mounted" / "orders").iterdir()]
    assert len(owners(tmp_path / "mounted" / "orders")) == 1
    assert [each for each in names if each.startswith("known-")]
    assert not [each for each in names if each.endswith("json.tmp")]


@pytest.mark.spark
def test_what_only_hadoop_can_open_is_never_made_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(spark.newSession())
    java: object = spark
    pid = java._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[attr-defined]
    monkeypatch.setattr("sluicemq.spark.driver_lines.parent_of", lambda _: pid)
    files = DriverFiles(f"file://{tmp_path}/folder")
    assert files.names() == []
    files.write("one", "1")
    with pytest.raises(OSError, match="exists"):
        files.write("one", "2")
    assert files.read("one") == "1"


@pytest.mark.spark
def test_the_driver_says_why_it_cannot(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(spark.newSession())
    java: object = spark
    pid = java._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[attr-defined]
    monkeypatch.setattr("sluicemq.spark.driver_lines.parent_of", lambda _: pid)
    with pytest.raises(OSError, match='No FileSystem for scheme "nowhere"'):
        DriverFiles("nowhere://x/y").names()
