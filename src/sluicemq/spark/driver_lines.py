"""The questions of a planner to its driver's Python, and the answers: a line of JSON each.

The planner is a child of the driver's JVM, on the same machine, but has no access to it. The
driver's Python has, where the source was registered: it answers at Unix sockets that only this user
can open, named after the JVM's process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sluicemq.spark.own_folder import UNHEARD

ANCESTORS_MAX: Final = 4
"""The most parents to look at: a daemon of Spark's may be between the planner and the JVM."""

LINE_MAX_BYTES: Final = 64 * 1024 * 1024


def ancestors() -> Iterator[int]:
    """Yield the process ids of the parent, its parent and so on, one of which is the JVM; 0 where
    one is not known."""
    process = os.getpid()
    for _ in range(ANCESTORS_MAX):
        process = parent_of(process)
        yield process


def parent_of(process: int) -> int:
    """Return the process id of a process's parent; 0 when it is not known."""
    if process == os.getpid():
        return os.getppid()
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def jvm_process(jvm: Any) -> int:
    """Return the process id of the driver's JVM, by way of Py4J."""
    process: int = jvm.java.lang.ProcessHandle.current().pid()
    return process


def answers(path: str) -> bool:
    """Return whether a process listens at the socket with that path. If none does, the file is
    removed, unless another has taken its path meanwhile."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            before = mark_of(path)
            probe.connect(path)
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                if mark_of(path) == before:
                    os.unlink(path)
            return False
        except OSError:
            return False
    return True


def mark_of(path: str) -> tuple[int, int]:
    """Return what tells a file from a later one at its path: its inode and its time. Inode numbers
    alone are soon used again. Raises OSError when there is no file."""
    found = os.lstat(path)
    return found.st_ino, found.st_mtime_ns


def ask(path: str, question: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Send a question and return the answer. Raises OSError with the driver's words when it failed,
    or when there is no answer within `timeout_s` seconds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(timeout_s)
        peer.connect(path)
        peer.sendall(json.dumps(question).encode() + b"\n")
        with peer.makefile("rb") as stream:
            line = stream.readline(LINE_MAX_BYTES)
    answer: dict[str, Any] = json.loads(line or b"{}")
    if "error" in answer or not answer.get("done"):
        raise OSError(answer.get("error", "the driver hung up"))
    return answer


class LineServer:
    """Serves a socket at `path` on the driver's side. Each question goes to `answer` in a thread of
    its own; an exception that it raises is sent as the answer."""

    def __init__(self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Others remove a socket at which no process listens; this one they find only when it does.
        fresh = f"{path.rpartition('/')[0]}/{UNHEARD}{uuid.uuid4().hex[:16]}"
        self._listener.bind(fresh)
        try:
            self._listener.listen()
            os.link(fresh, path)
        except BaseException:
            self._listener.close()
            raise
        finally:
            os.unlink(fresh)
        threading.Thread(target=self._accept, name="amqp answers", daemon=True).start()

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
            with contextlib.suppress(OSError):  # the planner no longer waits for it
                peer.sendall(json.dumps(answer).encode() + b"\n")
