"""Keeps a bounded number of files open: the least recently used is closed when one more is wanted.

A path is a file's name relative to the data directory. A caller that reads or writes takes the
handle of a path and gives it back; in between it stays open, even if the file is renamed or
deleted. Several threads may hold the same handle, because reads and writes name their offset.

A handle that was written to and not synced is *dirty*. If it were closed, the system could report
an error of a later write-back to no one; so clean handles are closed first, and a dirty one is
synced before. The paths of failed syncs are remembered: the system reports a failure once, and then
treats the data as written. Only after a lack of space may a sync be tried again, by a caller that
has written all of the data again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from errno import EINVAL, EMFILE, ENFILE, ENOSYS, EOPNOTSUPP, errorcode
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from sluicemq.errors import DiskFailed
from sluicemq.host.io_counters import OPEN, OPEN_NS, REOPEN, SYNC, SYNC_NS, IoCounters, now_ns

FILE_MODE: Final = 0o600

P = ParamSpec("P")
T = TypeVar("T")

UNSUPPORTED: Final = (EINVAL, ENOSYS, EOPNOTSUPP)
"""The errors for a call, or for flags, that the system or the file system does not know."""

WAIT_SECONDS: Final = 0.05
"""Seconds between two attempts to open a file, when there is no descriptor."""


def log_nothing(_: str) -> None:
    """Report nothing, for callers that do not log."""


CLOSED_PATHS_MAX: Final = 65_536
"""Paths remembered as closed for want of handles, to tell a reopen from an open: some 100 bytes
each. Beyond it a few reopens are not counted as such."""


def errno_name(error: OSError) -> str:
    """Return the name of an OSError's number, such as EIO; EIO also for an error without a
    number."""
    return errorcode.get(error.errno or 0, "EIO")


class Handle:
    """An open file. `position` is where the last read or write ended, -1 before the first."""

    __slots__ = ("descriptor", "dirty", "gone", "path", "position", "syncing", "users")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.position = -1
        self.dirty = False
        """Set after a write, by the caller that has the handle; cleared when a sync begins."""
        self.gone = False
        """True when the handle is out of the table; the last user that gives it back closes it."""
        self.users = 1
        self.syncing = threading.Lock()
        """One sync at a time: of two on a descriptor the system reports an error to only one."""


class FileHandles:
    """The open files below `root`: at most `limit`, unless more are in use."""

    def __init__(
        self,
        root: Path,
        limit: int,
        counters: IoCounters,
        log: Callable[[str], object] = log_nothing,
    ) -> None:
        self.log = log
        self.is_short = False
        """True when a thread waits for a descriptor, and the log has said so."""
        self.root = f"{root}/"
        self.limit = limit
        self.counters = counters
        self.lock = threading.Lock()
        """Guards the tables and the users of handles; it is never held during a call that may
        wait."""
        self.table: OrderedDict[str, Handle] = OrderedDict()
        self.closed: dict[str, None] = {}
        self.failed: dict[str, str] = {}
        """The errno name of the sync that failed, by path."""
        self.names_changed = 0
        """Counts renames and deletions: a file opened meanwhile may be another one."""

    def take(self, path: str, create: bool = False) -> Handle:
        """Return the path's handle for use, opened if need be. Raises OSError when it cannot be
        opened."""
        with self.lock:
            handle = self._find(path)
        return handle or self._open(path, create)

    def give(self, handle: Handle) -> None:
        """Give back a handle that `take` returned."""
        with self.lock:
            handle.users -= 1
            over = handle.gone and not handle.users
        if over:
            os.close(handle.descriptor)

    def sync(self, handle: Handle) -> None:
        """Make a file durable. Raises DiskFailed when this sync, or an earlier one of the same
        path, did not succeed."""

        def call() -> None:
            handle.dirty = False
            os.fdatasync(handle.descriptor)

        self._durably(handle, call)

    def write_through(self, handle: Handle, offset: int, data: bytes, flags: int) -> int:
        """Write to a file with these flags of pwritev2, one of which makes the call return when the
        data is durable. Returns how many bytes were written, 0 when the file system has no such
        writes. Raises DiskFailed as `sync` does."""
        return self._durably(handle, lambda: write_if_known(handle.descriptor, offset, data, flags))

    def _durably(self, handle: Handle, call: Callable[[], T]) -> T:
        """Make a call that makes a file's data durable, and remember if it fails."""
        with handle.syncing:
            code = self.failed.get(handle.path)
            if code is not None:
                raise DiskFailed("sync", handle.path, code)
            here = self.counters.here
            started = now_ns()
            try:
                result = call()
            except OSError as error:
                failure = DiskFailed("sync", handle.path, errno_name(error))
                if not failure.is_full:
                    with self.lock:
                        self.failed[handle.path] = failure.code
                raise failure from error
            here[SYNC] += 1
            here[SYNC_NS] += now_ns() - started
            return result

    def begin_write(self, path: str) -> Handle | None:
        """Return a path's handle for a durable write that goes on after this call, and ends by
        `end_write`. None: the file is not open, has older data that is not durable, or has failed,
        or somebody syncs it now, so that the write would have to wait."""
        with self.lock:
            handle = self._find(path)
        if handle is None:
            return None
        if handle.dirty or path in self.failed or not handle.syncing.acquire(blocking=False):
            self.give(handle)
            return None
        return handle

    def end_write(self, handle: Handle, code: int = 0) -> DiskFailed | None:
        """Give back the handle of a write that `begin_write` has begun. Returns the failure for an
        errno, and remembers it as `sync` does; None for 0."""
        failure = None
        if code:
            failure = DiskFailed("sync", handle.path, errorcode.get(code, "EIO"))
            if not failure.is_full:
                with self.lock:
                    self.failed[handle.path] = failure.code
        handle.syncing.release()
        self.give(handle)
        return failure

    def renamed(self, old: str, new: str) -> None:
        """Note that a file, or a directory with everything in it, has another name, and that the
        file that had this name is gone."""
        with self.lock:
            idle = self._drop(new)
            for path in _within(old, self.table):
                handle = self.table.pop(path)
                handle.path = new + path[len(old) :]
                self.table[handle.path] = handle
            for path in _within(old, self.failed):
                self.failed[new + path[len(old) :]] = self.failed.pop(path)
        _close(idle)

    def deleted(self, path: str) -> None:
        """Note that a file, or a directory with everything in it, is gone: its handles close, so
        that the system frees the space."""
        with self.lock:
            idle = self._drop(path)
        _close(idle)

    def close(self) -> None:
        """Close all handles; one in use is closed when it is given back."""
        self.deleted("")

    def _find(self, path: str) -> Handle | None:
        handle = self.table.get(path)
        if handle is not None:
            self.table.move_to_end(path)
            handle.users += 1
        return handle

    def _open(self, path: str, create: bool) -> Handle:
        """Open a file without holding the lock, then check that the path still leads to it."""
        while True:
            names_changed = self.names_changed
            descriptor = self._descriptor(path, create)
            with self.lock:
                handle = self._find(path)
                if handle is None and names_changed == self.names_changed:
                    handle = self.table[path] = Handle(path, descriptor)
                    if self.closed.pop(path, self) is None:
                        self.counters.here[REOPEN] += 1
            if handle is None or handle.descriptor != descriptor:
                os.close(descriptor)
            if handle is not None:
                for _ in range(len(self.table) - self.limit):
                    self._close_one()
                return handle

    def _descriptor(self, path: str, create: bool) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return self.patiently(self._open_file, self.root + path, flags)

    def _open_file(self, place: str, flags: int) -> int:
        here = self.counters.here
        here[OPEN] += 1
        started = now_ns()
        try:
            return os.open(place, flags, FILE_MODE)
        finally:
            here[OPEN_NS] += now_ns() - started

    def patiently(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call that needs a descriptor. When the process has none left, close one of these
        handles and try again; if all are in use, wait. A lack of descriptors is no failure of the
        disk."""
        while True:
            try:
                result = call(*args, **kwargs)
            except OSError as error:
                if error.errno not in (EMFILE, ENFILE):
                    raise
                if not self._close_one():
                    self._wait(error)
            else:
                if self.is_short:
                    self.is_short = False
                    self.log("file descriptors are available again")
                return result

    def _wait(self, error: OSError) -> None:
        """Wait a moment for a descriptor to become free, and log once that there is none."""
        if not self.is_short:
            self.is_short = True
            self.log(f"no file descriptor is left ({errno_name(error)}): waiting for one")
        time.sleep(WAIT_SECONDS)

    def _close_one(self) -> bool:
        """Close the least recently used handle, a clean one if there is one. Returns False when all
        are in use."""
        with self.lock:
            idle = [handle for handle in self.table.values() if not handle.users]
            if not idle:
                return False
            victim = next((handle for handle in idle if not handle.dirty), idle[0])
            victim.users = 1
        if victim.dirty:
            try:
                self.sync(victim)
            except DiskFailed as failure:  # the next sync of this path reports the failure
                with self.lock:
                    self.failed[victim.path] = failure.code
        with self.lock:
            if victim.users == 1 and not victim.dirty and not victim.gone:
                victim.gone = True
                del self.table[victim.path]
                self.closed[victim.path] = None
                if len(self.closed) > CLOSED_PATHS_MAX:
                    del self.closed[next(iter(self.closed))]
        self.give(victim)
        return True

    def _drop(self, top: str) -> list[Handle]:
        """Forget a path and all paths below it; returns the handles to close."""
        self.names_changed += 1
        self.closed.pop(top, None)
        for path in _within(top, self.failed):
            del self.failed[path]
        dropped = [self.table.pop(path) for path in _within(top, self.table)]
        for handle in dropped:
            handle.gone = True
        return [handle for handle in dropped if not handle.users]


def write_if_known(descriptor: int, offset: int, data: bytes, flags: int) -> int:
    """Write with flags that the file system may not know; return 0 when it does not."""
    try:
        return os.pwritev(descriptor, (data,), offset, flags)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return 0
        raise


def _within(top: str, paths: Iterable[str]) -> list[str]:
    """Return those of `paths` that are `top` or below it; all paths are below the empty one."""
    below = f"{top}/" if top else ""
    return [path for path in paths if path == top or path.startswith(below)]


def _close(handles: list[Handle]) -> None:
    for handle in handles:
        os.close(handle.descriptor)
