"""Files below the data directory, on a POSIX system. Any thread may call; each call blocks.

Modes are 0600 and 0700, so that no other user can read messages. A path that would leave the data
directory is a programming error, never a user's, so it is asserted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from sluicemq.errors import DiskFailed
from sluicemq.host.file_handles import (
    UNSUPPORTED,
    FileHandles,
    Handle,
    errno_name,
    log_nothing,
)
from sluicemq.host.io_counters import (
    READ,
    READ_BYTES,
    READ_NS,
    SEEK,
    SYNC,
    SYNC_NS,
    WRITE,
    WRITE_BYTES,
    WRITE_NS,
    IoCounters,
    now_ns,
)
from sluicemq.kernel.disk import Files, assert_inside

READ_BYTES_MAX: Final = 16 << 20
"""The most bytes of one read: Python allocates them all before it knows how many come."""

SCRATCH: Final = ("transient/", "messages/transient/")
"""Directories that are wiped at every start, so that their files need no sync."""

DSYNC: Final = getattr(os, "RWF_DSYNC", 0)
"""The flag with which Linux returns from a write when it is durable; 0 on other systems."""


class HostFiles(Files):
    """Files below `root`, which exists and belongs to this process. At most `handles_max` are open,
    unless more are in use."""

    def __init__(
        self, root: Path, handles_max: int, log: Callable[[str], object] = log_nothing
    ) -> None:
        """`log` is called once when descriptors run out, and once when there are some again."""
        self.root = root.absolute()
        self.counters = IoCounters([])
        self.handles = FileHandles(self.root, handles_max, self.counters, log)
        self.has_dsync = DSYNC != 0
        """False once the file system has refused the flag."""
        self.is_dsync_known = False
        """True once the file system has taken the flag."""

    def close(self) -> None:
        """Close every handle. The files can be used afterwards: they are opened again."""
        self.handles.close()

    def names(self, directory: str) -> list[str]:
        with as_disk_failure("list", directory):
            with suppress(FileNotFoundError):
                return sorted(self.handles.patiently(os.listdir, self._place(directory)))
            return []

    def make_directory(self, path: str) -> None:
        with as_disk_failure("make directory", path):
            place = self._place(path)
            if not place.is_dir():
                if place.parent != self.root:
                    self.make_directory(str(place.parent.relative_to(self.root)))
                place.mkdir(mode=0o700, exist_ok=True)  # others may make it at the same time
                self._sync_directory(place.parent)

    def size(self, path: str) -> int:
        with as_disk_failure("look at", path):
            with suppress(FileNotFoundError, NotADirectoryError):
                found = os.stat(self._place(path))
                return -1 if stat.S_ISDIR(found.st_mode) else found.st_size
            return -1

    def is_directory(self, path: str) -> bool:
        return self._place(path).is_dir()

    def read(self, path: str, offset: int, size: int) -> bytes:
        with self._open("read", path) as handle:
            here = self.counters.here
            chunks: list[bytes] = []
            at, end = offset, offset + size
            here[SEEK] += at != handle.position
            while at < end:
                started = now_ns()
                chunk = os.pread(handle.descriptor, min(end - at, READ_BYTES_MAX), at)
                here[READ_NS] += now_ns() - started
                here[READ] += 1
                here[READ_BYTES] += len(chunk)
                if not chunk:
                    break
                chunks.append(chunk)
                at += len(chunk)
            handle.position = at
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def write(self, path: str, offset: int, data: bytes) -> None:
        with self._open("write", path, create=True) as handle:
            here = self.counters.here
            left = memoryview(data)
            at = offset
            here[SEEK] += at != handle.position
            try:
                while left:
                    started = now_ns()
                    written = os.pwrite(handle.descriptor, left, at)
                    here[WRITE_NS] += now_ns() - started
                    here[WRITE] += 1
                    here[WRITE_BYTES] += written
                    left = left[written:]
                    at += written
            finally:
                handle.position = at
                handle.dirty = not path.startswith(SCRATCH)

    def write_durably(self, path: str, offset: int, data: bytes) -> None:
        """Write and sync by one call, unless other data of the file waits for a sync, because the
        one call makes durable only what it writes. One call saves the thread a wait for the
        interpreter."""
        written = self._write_through(path, offset, data) if data and self.has_dsync else 0
        if not data or written < len(data):
            super().write_durably(path, offset + written, data[written:])

    def _write_through(self, path: str, offset: int, data: bytes) -> int:
        """Return how many bytes were written and are durable: 0 when older data has to be synced,
        too, or the file system has no such writes."""
        with self._open("write", path, create=True) as handle:
            if handle.dirty:
                return 0
            here = self.counters.here
            here[SEEK] += offset != handle.position
            written = self.handles.write_through(handle, offset, data, DSYNC)
            self.has_dsync = self.is_dsync_known = written > 0
            here[WRITE] += 1
            here[WRITE_BYTES] += written
            handle.position = offset + written
            return written

    def allocate(self, path: str, size: int) -> None:
        with self._open("allocate", path, create=True) as handle:
            try:
                if size:
                    os.posix_fallocate(handle.descriptor, 0, size)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
                if os.fstat(handle.descriptor).st_size < size:
                    os.ftruncate(handle.descriptor, size)
            handle.dirty = not path.startswith(SCRATCH)

    def truncate(self, path: str, size: int) -> None:
        with self._open("truncate", path) as handle:
            os.ftruncate(handle.descriptor, size)
            handle.dirty = not path.startswith(SCRATCH)

    def sync(self, path: str) -> None:
        with self._open("sync", path) as handle:
            self.handles.sync(handle)

    def sync_directory(self, path: str) -> None:
        with as_disk_failure("sync directory", path):
            self._sync_directory(self._place(path))

    def rename(self, old: str, new: str) -> None:
        with as_disk_failure("rename", old):
            os.rename(self._place(old), self._place(new))
        self.handles.renamed(old, new)

    def delete(self, path: str) -> None:
        with as_disk_failure("delete", path), suppress(FileNotFoundError):
            self._place(path).unlink()
        self.handles.deleted(path)

    def delete_tree(self, path: str) -> None:
        assert path, "the data directory itself stays"
        place = self._place(path)
        with as_disk_failure("delete", path), suppress(FileNotFoundError):
            place.lstat()
            import shutil  # noqa: PLC0415 (start-up time of who has nothing to delete)

            remove = partial(shutil.rmtree, onerror=_unless_missing)
            self.handles.patiently(remove, place)
        self.handles.deleted(path)

    def free_bytes(self) -> int:
        with as_disk_failure("look at", ""):
            found = os.statvfs(self.root)
            return found.f_bavail * found.f_frsize

    def _place(self, path: str) -> Path:
        assert_inside(path)
        return self.root / path

    def _open(self, action: str, path: str, create: bool = False) -> HandleInUse:
        assert_inside(path)
        return HandleInUse(self.handles, action, path, create)

    def _sync_directory(self, place: Path) -> None:
        here = self.counters.here
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.handles.patiently(os.open, place, flags)
        try:
            started = now_ns()
            os.fsync(descriptor)
            here[SYNC] += 1
            here[SYNC_NS] += now_ns() - started
        finally:
            os.close(descriptor)


class HandleInUse:
    """A block with the handle of a path, which is given back at its end. OSError in the block
    becomes DiskFailed."""

    __slots__ = ("action", "create", "handle", "handles", "path")

    def __init__(self, handles: FileHandles, action: str, path: str, create: bool) -> None:
        self.handles = handles
        self.action = action
        self.path = path
        self.create = create

    def __enter__(self) -> Handle:
        try:
            self.handle = self.handles.take(self.path, self.create)
        except OSError as error:
            raise disk_failure(self.action, self.path, error) from error
        return self.handle

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self.handles.give(self.handle)
        if isinstance(error, OSError):
            raise disk_failure(self.action, self.path, error) from error


@contextmanager
def as_disk_failure(action: str, path: str) -> Iterator[None]:
    """Turn OSError into DiskFailed, with the action and the path in its text."""
    try:
        yield
    except OSError as error:
        raise disk_failure(action, path, error) from error


def disk_failure(action: str, path: str, error: OSError) -> DiskFailed:
    """Return the DiskFailed for an action that the system has refused."""
    return DiskFailed(action, path, errno_name(error))


def _unless_missing(_call: object, _place: str, raised: tuple[Any, BaseException, Any]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]
