"""Files of any file system that Spark knows, which the planner reaches through the driver's Python.

The planner has no way into the driver's JVM, where Hadoop's file systems are, with their settings
and credentials. The driver's Python has one, and answers where the source was registered
(`driver_lines.py`, `listener.py`). The content of files goes through a file of this machine, not
through the line:

    {"do": "list", "folder": URL}                                     {"names": [..]}
    {"do": "read" or "write", "folder": URL, "name": .., "file": ..}  {}
    {"do": "remove", "folder": URL, "name": ..}                       {}, there or not
                                                                      {"error": ..}

Files are written as those of Spark's checkpoints: whole or not at all, on every file system that
can hold a checkpoint. None is replaced, because some file systems only seem to do that.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from sluicemq.spark.driver_lines import LineServer, ancestors, answers, ask, jvm_process
from sluicemq.spark.own_folder import COPIES, own_folder

log = logging.getLogger(__name__)

ANSWER_S: Final = 120.0
"""Seconds to wait for an answer about one file of a slow file system."""

MANAGERS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"


def socket_of(process: int) -> str:
    """Return the path of the socket at which a driver answers, given the process id of its JVM."""
    return str(own_folder() / f"files-{process}")


class DriverFiles:
    """Reads and writes the files of one folder through the driver, on the planner's side. Methods
    raise `OSError`; the constructor raises `LookupError` when no driver answers."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = find_driver()

    def names(self) -> list[str]:
        """Return the names of all files in the folder, which is made if it is missing."""
        found: list[str] = self._ask(do="list")["names"]
        return found

    def read(self, name: str) -> str:
        """Return the text of the file with that name; raises `OSError` when it cannot be read."""
        with tempfile.TemporaryDirectory(prefix=COPIES, dir=own_folder()) as here:
            file = Path(here) / "read"
            self._ask(do="read", name=name, file=str(file))
            return file.read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Make a new file, and return when it is complete. Raises `OSError` when there is one of
        that name."""
        with tempfile.TemporaryDirectory(prefix=COPIES, dir=own_folder()) as here:
            file = Path(here) / "write"
            file.write_text(text, encoding="utf-8")
            self._ask(do="write", name=name, file=str(file))

    def remove(self, name: str) -> None:
        """Remove the file with that name; it need not exist."""
        self._ask(do="remove", name=name)

    def _ask(self, **question: str) -> dict[str, Any]:
        return ask(self._path, question | {"folder": self._folder}, ANSWER_S)


def find_driver() -> str:
    """Return the path of the socket of the driver that this process belongs to. Raises
    `LookupError` when none answers."""
    for process in ancestors():
        path = socket_of(process)
        if answers(path):
            return path
    raise LookupError


def serve_files(session: SparkSession) -> None:
    """Answer planners' questions about files from now on, unless this driver does already. A driver
    that cannot logs why; its queries can then keep ledgers only on its own machine."""
    java: Any = session
    try:
        path = socket_of(jvm_process(java._jvm))
        if not answers(path):
            LineServer(path, HadoopFiles(java._jvm).answer)
    except Exception as error:
        log.info("the driver cannot open files for format amqp: %s", error)


class HadoopFiles:
    """Answers questions about files on the driver's side, through Py4J."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def answer(self, question: dict[str, str]) -> dict[str, Any]:
        """Carry out the question: list a folder, or read, write or remove a file. Errors of the JVM
        are raised as they are."""
        jvm = self._jvm
        folder = jvm.org.apache.hadoop.fs.Path(question["folder"])
        session = jvm.org.apache.spark.sql.classic.SparkSession.active()
        settings = session.sessionState().newHadoopConf()
        manager = getattr(jvm, MANAGERS).__getattr__("MODULE$").create(folder, settings)
        if question["do"] == "list":
            manager.mkdirs(folder)
            return {"names": [status.getPath().getName() for status in manager.list(folder)]}
        path = jvm.org.apache.hadoop.fs.Path(folder, question["name"])
        if question["do"] == "remove":
            manager.delete(path)
        elif question["do"] == "read":
            copy_all(jvm, manager.open(path), jvm.java.io.FileOutputStream(question["file"]))
        else:
            target = manager.createAtomic(path, False)
            try:
                copy_all(jvm, jvm.java.io.FileInputStream(question["file"]), target)
            except BaseException:
                target.cancel()
                raise
        return {}


def copy_all(jvm: Any, source: Any, target: Any) -> None:
    """Copy one stream of the JVM to another. The source is always closed, the target only when all
    was copied."""
    try:
        jvm.org.apache.commons.io.IOUtils.copyLarge(source, target)
    finally:
        source.close()
    target.close()
