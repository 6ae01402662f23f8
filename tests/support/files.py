"""Files in a dict: what is durable is kept apart from what was only written, so that tests can pull
the plug; and any primitive can be made to fail.
"""

from __future__ import annotations

from collections.abc import Callable

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import DiskJob, Files, assert_inside


class Node:
    """A file: what is written, and what of it is durable."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""


class DictFiles(Files):
    """`files` are the names in force, `durable_names` those that survive a crash. A file's data
    survives as of its last sync, a name as of the last sync_directory of its directory.

    `fail(action, path)` is asked before each primitive and answers an errno name or None;
    `actions` are all primitives done, such as "sync journal/00000001.jif".
    """

    def __init__(self) -> None:
        self.files: dict[str, Node] = {}
        self.durable_names: dict[str, Node] = {}
        self.directories: set[str] = {""}
        self.actions: list[str] = []
        self.fail: Callable[[str, str], str | None] | None = None
        self.free = 1 << 40

    def step(self, action: str, path: str) -> None:
        assert_inside(path)
        code = self.fail(action, path) if self.fail else None
        if code is not None:
            raise DiskFailed(action, path, code)
        self.actions.append(f"{action} {path}")

    def node(self, action: str, path: str) -> Node:
        if path not in self.files:
            raise DiskFailed(action, path, self.why_not(path))
        return self.files[path]

    def made(self, action: str, path: str) -> Node:
        if path in self.directories or parent_of(path) not in self.directories:
            raise DiskFailed(action, path, self.why_not(path))
        return self.files.setdefault(path, Node())

    def why_not(self, path: str) -> str:
        """Return the name of the errno for a path that is no file."""
        if path in self.directories:
            return "EISDIR"
        return "ENOTDIR" if parent_of(path) in self.files else "ENOENT"

    def names(self, directory: str) -> list[str]:
        self.step("names", directory)
        if directory in self.files:
            raise DiskFailed("names", directory, "ENOTDIR")
        inside = [*self.files, *self.directories]
        return sorted(
            {path.rpartition("/")[2] for path in inside if parent_of(path) == directory} - {""}
        )

    def make_directory(self, path: str) -> None:
        self.step("make_directory", path)
        while path:
            if path in self.files:
                raise DiskFailed("make_directory", path, "EEXIST")
            self.directories.add(path)
            path = parent_of(path)

    def size(self, path: str) -> int:
        self.step("size", path)
        return len(self.files[path].data) if path in self.files else -1

    def is_directory(self, path: str) -> bool:
        self.step("look at", path)
        return path in self.directories

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.step("read", path)
        return bytes(self.node("read", path).data[offset : offset + size])

    def write(self, path: str, offset: int, data: bytes) -> None:
        self.step("write", path)
        content = self.made("write", path).data
        if not data:
            return
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data

    def allocate(self, path: str, size: int) -> None:
        self.step("allocate", path)
        content = self.made("allocate", path).data
        content.extend(bytes(max(0, size - len(content))))

    def truncate(self, path: str, size: int) -> None:
        self.step("truncate", path)
        content = self.node("truncate", path).data
        del content[size:]
        content.extend(bytes(size - len(content)))

    def sync(self, path: str) -> None:
        self.step("sync", path)
        node = self.node("sync", path)
        node.durable = bytes(node.data)

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory", path)
        if path not in self.directories:
            raise DiskFailed("sync_directory", path, "ENOENT")
        start = f"{path}/" if path else ""
        for name in {*self.files, *self.durable_names}:
            if parent_of(name) == path and name in self.files:
                self.durable_names[name] = self.files[name]
            elif name.startswith(start) and not self.is_kept(name, path):
                del self.durable_names[name]

    def is_kept(self, name: str, synced: str) -> bool:
        """Whether a name survives now that its directory, or one above it, was synced."""
        if name in self.files or name not in self.durable_names:
            return True
        above = parent_of(name)
        return above != synced and above in self.directories

    def rename(self, old: str, new: str) -> None:
        self.step("rename", old)
        node = self.node("rename", old)
        if new in self.directories or parent_of(new) not in self.directories:
            raise DiskFailed("rename", old, self.why_not(new))
        del self.files[old]
        self.files[new] = node

    def delete(self, path: str) -> None:
        self.step("delete", path)
        if path in self.directories:
            raise DiskFailed("delete", path, "EISDIR")
        self.files.pop(path, None)

    def delete_tree(self, path: str) -> None:
        assert path, "the data directory itself stays"
        self.step("delete_tree", path)
        if path in self.files:
            raise DiskFailed("delete_tree", path, "ENOTDIR")
        inside = f"{path}/"
        for name in [name for name in self.files if name.startswith(inside)]:
            del self.files[name]
        self.directories = {
            name for name in self.directories if name != path and not name.startswith(inside)
        }

    def free_bytes(self) -> int:
        return self.free

    # For tests

    def content(self, path: str) -> bytes:
        """What a file holds now."""
        return bytes(self.files[path].data)

    def fail_after(self, count: int, code: str = "EIO") -> None:
        """The next `count` primitives work, then each one fails."""
        last = len(self.actions) + count

        def fail(action: str, path: str) -> str | None:  # noqa: ARG001 (as `fail` is called)
            return code if len(self.actions) >= last else None

        self.fail = fail

    def put(self, path: str, data: bytes) -> None:
        """Make a file, durable at once."""
        self.make_directory(parent_of(path))
        node = self.files[path] = self.durable_names[path] = Node()
        node.data[:] = data
        node.durable = bytes(data)

    def crash(self, survives: Callable[[bytes, bytes], bytes] | None = None) -> DictFiles:
        """What is there after the power failed: names and data as of their last syncs.
        `survives(durable, written)` may say that a file kept more (a part of what was written)."""
        after = DictFiles()
        after.directories = set(self.directories)
        after.free = self.free
        for name, node in self.durable_names.items():
            data = survives(node.durable, bytes(node.data)) if survives else node.durable
            after.put(name, data)
        after.actions.clear()
        return after


def parent_of(path: str) -> str:
    """The directory a path is in."""
    return path.rpartition("/")[0]


def run(files: Files, job: DiskJob) -> DiskJob:
    """What a lane does with a job."""
    try:
        job.run(files)
    except DiskFailed as failure:
        job.failure = failure
    return job
