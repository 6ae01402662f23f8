"""A disk in this process's memory (`storage.kind = memory`); its files end with the process.

Its callers work as with a data directory. No job is slow, so none needs a thread: jobs run between
the turns of the actors.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.errors import DiskFailed
from sluicemq.kernel import disk
from sluicemq.kernel.disk import DiskJob, Files, assert_inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.actor import Actor

ROOM_BYTES: Final = 1 << 40
"""The bytes that are reported as free; the memory alarm bounds the stored data."""


def parent_of(path: str) -> str:
    """Return the directory of a path; "" is the data directory."""
    return path.rpartition("/")[0]


class MemoryFiles(Files):
    """The files of one data directory, in memory."""

    def __init__(self) -> None:
        self.contents: dict[str, bytearray] = {}
        """Each file's bytes by its path."""
        self.directories: set[str] = {""}
        self.is_full = False
        """True: there is no room for anything more, as on a full disk."""

    def names(self, directory: str) -> list[str]:
        if directory in self.contents:
            raise DiskFailed("list", directory, "ENOTDIR")
        assert_inside(directory)
        start = f"{directory}/" if directory else ""
        below = [
            path[len(start) :]
            for path in (*self.contents, *self.directories)
            if path.startswith(start)
        ]
        return sorted({name.partition("/")[0] for name in below if name})

    def make_directory(self, path: str) -> None:
        assert_inside(path)
        while path:
            if path in self.contents:
                raise DiskFailed("make directory", path, "EEXIST")
            self.directories.add(path)
            path = parent_of(path)

    def size(self, path: str) -> int:
        assert_inside(path)
        content = self.contents.get(path)
        return -1 if content is None else len(content)

    def is_directory(self, path: str) -> bool:
        assert_inside(path)
        return path in self.directories

    def read(self, path: str, offset: int, size: int) -> bytes:
        return bytes(self._content("read", path)[offset : offset + size])

    def write(self, path: str, offset: int, data: bytes) -> None:
        content = self._made("write", path)
        self._grow("write", path, content, offset if data else 0)
        if offset + len(data) > len(content) and self.is_full:
            raise DiskFailed("write", path, "ENOSPC")
        content[offset : offset + len(data)] = data

    def allocate(self, path: str, size: int) -> None:
        self._grow("allocate", path, self._made("allocate", path), size)

    def truncate(self, path: str, size: int) -> None:
        content = self._content("truncate", path)
        del content[size:]
        self._grow("truncate", path, content, size)

    def sync(self, path: str) -> None:
        self._content("sync", path)

    def sync_directory(self, path: str) -> None:
        assert_inside(path)
        if path not in self.directories:
            raise DiskFailed("sync directory", path, "ENOENT")

    def rename(self, old: str, new: str) -> None:
        assert_inside(new)
        content = self._content("rename", old)
        if new in self.directories or parent_of(new) not in self.directories:
            raise DiskFailed("rename", old, self._why_not(new))
        del self.contents[old]
        self.contents[new] = content

    def delete(self, path: str) -> None:
        assert_inside(path)
        if path in self.directories:
            raise DiskFailed("delete", path, "EISDIR")
        self.contents.pop(path, None)

    def delete_tree(self, path: str) -> None:
        assert path, "the data directory itself stays"
        assert_inside(path)
        if path in self.contents:
            raise DiskFailed("delete", path, "ENOTDIR")
        start = f"{path}/"
        for name in [name for name in self.contents if name.startswith(start)]:
            del self.contents[name]
        self.directories -= {
            name for name in self.directories if name == path or name.startswith(start)
        }

    def free_bytes(self) -> int:
        return 0 if self.is_full else ROOM_BYTES

    def _content(self, action: str, path: str) -> bytearray:
        assert_inside(path)
        content = self.contents.get(path)
        if content is None:
            raise DiskFailed(action, path, self._why_not(path))
        return content

    def _made(self, action: str, path: str) -> bytearray:
        """Return a file's bytes; makes the file when it is missing."""
        assert_inside(path)
        content = self.contents.get(path)
        if content is None:
            if path in self.directories or parent_of(path) not in self.directories:
                raise DiskFailed(action, path, self._why_not(path))
            content = self.contents[path] = bytearray()
        return content

    def _grow(self, action: str, path: str, content: bytearray, size: int) -> None:
        """Fill a file up with zeroes to `size` bytes, if it is shorter."""
        lacking = size - len(content)
        if lacking > 0:
            if self.is_full:
                raise DiskFailed(action, path, "ENOSPC")
            content.extend(bytes(lacking))

    def _why_not(self, path: str) -> str:
        """Return the name of the errno for a path at which there is no file."""
        if path in self.directories:
            return "EISDIR"
        return "ENOTDIR" if parent_of(path) in self.contents else "ENOENT"


class MemoryDisk(disk.Disk):
    """Runs jobs in the event loop's own thread, in the order in which they were submitted.
    `crashed` is called with an exception of a job that is no DiskFailed, which is a programming
    error. No job runs after that one."""

    place: Final = "in memory: all that is stored is gone when the broker ends"
    """The place of the files, for the log."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        files: MemoryFiles,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.loop = loop
        self.files: MemoryFiles = files
        self.crashed = crashed
        self.jobs: deque[tuple[DiskJob, Actor]] = deque()
        self.succeeded = 0
        """The number of jobs that came back without a failure."""
        self.is_stopped = False

    def submit(self, job: DiskJob, actor: Actor, strand: int) -> None:
        """Queue a job. After `stop` no job runs, as if the broker had been killed then."""
        if self.is_stopped:
            return
        if not self.jobs:
            self.loop.call_soon(self.post_done)
        self.jobs.append((job, actor))

    def counters(self) -> dict[str, int]:
        return {}

    def post_done(self) -> None:
        """Run the waiting jobs, and post them to their actors."""
        jobs = self.jobs
        while jobs:
            job, actor = jobs.popleft()
            try:
                job.run(self.files)
            except DiskFailed as failure:
                job.failure = failure
            except BaseException as error:
                self.is_stopped = True
                jobs.clear()
                self.crashed(error)
                return
            self.succeeded += job.failure is None
            actor.post(job)

    async def stop(self) -> None:
        """Finish the submitted jobs, and post them."""
        self.is_stopped = True
        self.post_done()
