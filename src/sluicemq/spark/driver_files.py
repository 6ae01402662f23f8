"""Files of any file system that Spark knows, for the planner: through the driver's Python.

The planner has no way into the driver's JVM, where Hadoop's file systems are, with their settings
and credentials. The driver's Python has one, and the planner is the JVM's child on the same
machine. So where the source was registered (`listener.py`) the driver answers at a Unix socket that
only this user can open, named after the JVM's process. A question is a line of JSON, and so is the
answer; what files hold goes through a file of this machine, not through the line:

    {"do": "list", "folder": URL}                                     {"names": [..]}
    {"do": "read" or "write", "folder": URL, "name": .., "file": ..}  {}
    {"do": "remove", "folder": URL, "name": ..}                       {}, there or not
                                                                      {"error": ..}

Writes are those of Spark's checkpoints: a file is there whole or not at all, on every file system
that can hold a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from sluicemq.spark.commits import own_folder

log = logging.getLogger(__name__)

ANCESTORS_MAX: Final = 4
"""Between the planner and the JVM there may be a daemon of Spark's."""

LINE_MAX_BYTES: Final = 64 * 1024 * 1024
ANSWER_S: Final = 120.0
"""For one file of a slow file system."""

MANAGERS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"


def socket_of(process: int) -> str:
    """Where the driver answers whose JVM that is."""
    return str(own_folder() / f"files-{process}")


class DriverFiles:
    """The planner's side: the files of one folder. Errors are `OSError`; `LookupError` when there
    is no driver that answers."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = find_driver()

    def names(self) -> list[str]:
        """All of them; the folder is made if it is missing."""
        found: list[str] = self._ask(do="list")["names"]
        return found

    def read(self, name: str) -> str:
        """The text of one."""
        with tempfile.TemporaryDirectory(dir=own_folder()) as here:
            file = Path(here) / "read"
            self._ask(do="read", name=name, file=str(file))
            return file.read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Make one, or make it anew; returns when it is there."""
        with tempfile.TemporaryDirectory(dir=own_folder()) as here:
            file = Path(here) / "write"
            file.write_text(text, encoding="utf-8")
            self._ask(do="write", name=name, file=str(file))

    def remove(self, name: str) -> None:
        """Whether it is there or not."""
        self._ask(do="remove", name=name)

    def _ask(self, **question: str) -> dict[str, Any]:
        line = json.dumps(question | {"folder": self._folder}).encode() + b"\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(ANSWER_S)
            peer.connect(self._path)
            peer.sendall(line)
            with peer.makefile("rb") as stream:
                answer: dict[str, Any] = json.loads(stream.readline(LINE_MAX_BYTES) or b"{}")
        if "error" in answer or not answer.get("done"):
            raise OSError(answer.get("error", "the driver hung up"))
        return answer


def find_driver() -> str:
    """The socket of the driver this process belongs to; `LookupError` when nobody answers."""
    process = os.getpid()
    for _ in range(ANCESTORS_MAX):
        process = parent_of(process)
        path = socket_of(process)
        if answers(path):
            return path
    raise LookupError


def parent_of(process: int) -> int:
    """Of a process; 0 when it is not known."""
    if process == os.getpid():
        return os.getppid()
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def serve_files(session: SparkSession) -> None:
    """Answer, from now on, unless this driver does already. One that cannot is told so; its
    ledgers are directories of its machine."""
    java: Any = session
    try:
        path = socket_of(java._jvm.java.lang.ProcessHandle.current().pid())
        if not answers(path):
            FileServer(java._jvm, path)
    except Exception as error:
        log.info("the driver cannot open files for format amqp: %s", error)


def answers(path: str) -> bool:
    """Does somebody listen there? Another driver with this number may have left the file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return False
    return True


class FileServer:
    """The driver's side."""

    def __init__(self, jvm: Any, path: str) -> None:
        self._jvm = jvm
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, name="amqp files", daemon=True).start()

    def _accept(self) -> None:
        while True:
            peer, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as stream:
            try:
                answer = self._answer(json.loads(stream.readline(LINE_MAX_BYTES))) | {"done": True}
            except Exception as error:
                java = getattr(error, "java_exception", None)
                answer = {"error": java.toString() if java is not None else str(error)}
            with contextlib.suppress(OSError):  # nobody waits for it any more
                peer.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, question: dict[str, str]) -> dict[str, Any]:
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
            target = manager.createAtomic(path, True)
            try:
                copy_all(jvm, jvm.java.io.FileInputStream(question["file"]), target)
            except BaseException:
                target.cancel()
                raise
        return {}


def copy_all(jvm: Any, source: Any, target: Any) -> None:
    """From one stream of the JVM to another; both are closed, the target only when it is whole."""
    try:
        jvm.org.apache.commons.io.IOUtils.copyLarge(source, target)
    finally:
        source.close()
    target.close()
