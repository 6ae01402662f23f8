"""How the planner learns that a batch is committed before Spark plans the next one.

Spark tells a Python source of a commit when it plans the next batch, which with a trigger of an
hour is an hour later, and at the end of a query never. Two sources tell at once:

    the driver's Python   a listener (`listener.py`) hears of each batch that is committed, and
                          tells the planner through a socket that only this user can open
    the checkpoint        has `commits/N` when batch N is committed, and its offsets in `offsets/N`

Spark ends a planner when its query has stopped: then the checkpoint has the last commit, and the
listener once Spark has reported the end. So a planner that is ended asks both, and does not guess
how long that may take.

Both give the offset at which a batch ended. It has the session that planned it, so that offsets of
other queries, and of earlier runs of this one, are ignored.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sluicemq.client.address import without_password
from sluicemq.errors import Refused
from sluicemq.spark.driver_lines import ancestors, answers, ask
from sluicemq.spark.own_folder import own_folder

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

log = logging.getLogger(__name__)

Offset = dict[str, Any]

LAST_WORD_S: Final = 20.0
"""Seconds that a planner that is ended waits for the driver, which reports the end of a query at
once unless it has a fault. It must be shorter than a lease (`planner_link.py`)."""

LOOK_S: Final = 0.25
"""Seconds between two looks at the checkpoint, while a batch waits to be acknowledged."""

OFFSET_MAX_BYTES: Final = 60_000
"""The largest message of the listener: an offset takes about a hundred bytes for each queue and
consumer."""

SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems that pyarrow calls by another one."""


class CommitSigns:
    """Watches for signs that batches of one session were committed: messages from the driver's
    listener, and the checkpoint if its place is known. One thread may use it."""

    def __init__(self, session: str, checkpoint: str) -> None:
        self._session = session
        self._log = CommitLog(checkpoint) if checkpoint else None
        self._ear = open_ear(session)
        self._looked_at = 0.0

    def wait(self, seconds: float, *, is_looking: bool) -> Offset | None:
        """Wait at most `seconds` for news, and return the end offset of a batch that is known to be
        committed; None when there is no news. The checkpoint is read only when `is_looking` is
        true."""
        heard = self._hear(min(seconds, LOOK_S) if is_looking and self._log else seconds)
        if heard is not None or not is_looking or self._log is None:
            return heard
        now = time.monotonic()
        if now - self._looked_at < min(seconds, LOOK_S):
            return None
        self._looked_at = now
        return self._log.committed(self._session)

    def last_words(self) -> list[Offset]:
        """Return the end offsets of all commits that can still be learnt of, now that Spark has
        ended this planner. Asks the checkpoint and the driver, and waits for the driver's answer.
        """
        found = [] if self._log is None else [self._log.committed(self._session)]
        if self._ear is not None:
            found += [offset_of(line, self._session) for line in ask_listeners(self._session)]
            found += [offset_of(words, self._session) for words in self._heard()]
        return [offset for offset in found if offset is not None]

    def interrupt(self) -> None:
        """End a `wait` of another thread."""
        if self._ear is not None:
            say(self._session, b"")

    def close(self) -> None:
        """Close the socket for news of commits, and remove its file."""
        if self._ear is not None:
            path = self._ear.getsockname()
            self._ear.close()
            self._ear = None
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _hear(self, seconds: float) -> Offset | None:
        if self._ear is None:
            time.sleep(seconds)
            return None
        self._ear.settimeout(max(seconds, 0.001))
        try:
            return offset_of(self._ear.recv(OFFSET_MAX_BYTES).decode(), self._session)
        except (OSError, ValueError):
            return None

    def _heard(self) -> Iterator[str]:
        """Yield the messages that have arrived and were not read yet."""
        assert self._ear is not None
        self._ear.setblocking(False)
        while True:
            try:
                yield self._ear.recv(OFFSET_MAX_BYTES).decode()
            except OSError:
                return


class CommitLog:
    """Reads the checkpoint of a streaming query, in the form Spark writes it. `location` is a path,
    or a URL of a file system that pyarrow knows; the constructor raises `Refused` for any other."""

    def __init__(self, location: str) -> None:
        self._files, self._root = open_location(location)
        self._latest = -1

    def committed(self, session: str) -> Offset | None:
        """Return the end offset of the latest committed batch. Returns None when that was returned
        before, belongs to another session, or cannot be read now; then the next call reads it
        again."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - costs 20 ms, and few need it

        try:
            selector = FileSelector(f"{self._root}/commits", allow_not_found=True)
            names = [info.base_name for info in self._files.get_file_info(selector)]
            latest = max((int(name) for name in names if name.isdigit()), default=-1)
            if latest <= self._latest:
                return None
            with self._files.open_input_stream(f"{self._root}/offsets/{latest}") as file:
                text = file.read().decode()
        except (OSError, ValueError):
            return None
        self._latest = latest
        found = (offset_of(line, session) for line in text.splitlines())
        return next((offset for offset in found if offset is not None), None)


def open_location(location: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URL, and the path in it. Raises `Refused` when pyarrow
    does not know it."""
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415 - as above

    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return LocalFileSystem(), os.path.abspath(location)
    if scheme == "file":
        return LocalFileSystem(), "/" + path.lstrip("/")
    try:
        files, root = FileSystem.from_uri(f"{SCHEMES.get(scheme, scheme)}:{path}")
    except (OSError, ValueError) as error:
        given, why = without_password(location), without_password(str(error))
        raise Refused(f"checkpointLocation = {given!r}: cannot be read: {why}") from error
    return files, root.rstrip("/")


def offset_of(text: str, session: str) -> Offset | None:
    """Return the offset of this session in a line of JSON, at any depth; None when there is
    none."""
    if session not in text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return find_offset(value, session)


def find_offset(value: Any, session: str) -> Offset | None:
    """Return the offset of this session in a decoded JSON value, at any depth; None when there is
    none."""
    if isinstance(value, str):
        return offset_of(value, session) if value.startswith("{") else None
    if isinstance(value, dict):
        if value.get("session") == session and isinstance(value.get("pos"), dict):
            return value
        value = list(value.values())
    if isinstance(value, list):
        found = (find_offset(each, session) for each in value)
        return next((offset for offset in found if offset is not None), None)
    return None


def open_ear(session: str) -> socket.socket | None:
    """Open the socket at which the planner of a session gets news of commits; None when this
    machine cannot have one."""
    try:
        path = ear_of(session)
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except (AttributeError, OSError):
        return None
    try:
        ear.bind(path)
    except OSError:
        ear.close()
        return None
    return ear


def ear_of(session: str) -> str:
    """Return the path of the socket at which the planner of that session gets news of commits."""
    return str(own_folder() / f"spark-{session[:16]}")


def listener_of(jvm: int, name: str) -> str:
    """Return the path of the socket at which a listener answers, given its name and the process id
    of its driver's JVM."""
    return str(own_folder() / f"listener-{jvm}-{name[:8]}")


def ask_listeners(session: str) -> list[str]:
    """Ask all listeners of this planner's driver for the latest committed offsets of the session,
    and return these as lines of JSON. All together have LAST_WORD_S seconds to answer; a listener
    that fails is logged."""
    found: list[str] = []
    deadline = time.monotonic() + LAST_WORD_S
    for process in ancestors():
        for path in own_folder().glob(f"listener-{process}-*"):
            left_s = max(deadline - time.monotonic(), 0.001)
            try:
                if answers(str(path)):
                    found += ask(str(path), {"session": session}, left_s)["offsets"]
            except OSError as error:
                log.warning("what was committed last may come again: the driver: %s", error)
    return found


def tell_committed(end: str | Offset | None) -> None:
    """Tell the planner that made this offset that Spark has it in its checkpoint. Does nothing for
    None, for offsets of other sources, and for planners that are gone or on another machine."""
    try:
        offset = json.loads(end) if isinstance(end, str) else end
    except ValueError:
        return
    session = offset.get("session") if isinstance(offset, dict) else None
    if isinstance(session, str) and session.isalnum():
        say(session, json.dumps(offset).encode())


def say(session: str, words: bytes) -> None:
    """Send octets to the planner of a session; does nothing when it does not listen."""
    with (
        contextlib.suppress(OSError, AttributeError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth,
    ):
        mouth.setblocking(False)
        mouth.sendto(words, ear_of(session))
