"""The simulated disk: files in memory that know what a power loss would leave, and jobs as events
of the timeline.

    kill            the process dies: everything written stays
    power loss      unsynced data is kept, dropped or torn, file by file and name by name
    plan            the nth primitive fails with an errno; once
    failed sync     its pages count as clean: a second sync "succeeds", the data is lost anyway
    capacity        ENOSPC from write and allocate, after as much as fitted
    flip            bits of a file turn over at rest
    before          called at every primitive; raises Crashed to stop the node right there
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from sluicemq.errors import DiskFailed
from sluicemq.kernel.disk import SYNC_STRAND, Disk, DiskJob, Files, assert_inside
from sluicemq.sim.inode import Inode

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.sim.timeline import Timeline

ROOMY: Final = 1 << 40
MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""

CHANGES: Final = frozenset(
    (
        "allocate",
        "delete",
        "delete_tree",
        "make_directory",
        "rename",
        "sync",
        "sync_directory",
        "truncate",
        "write",
    )
)
"""Primitives that may change what a crash leaves."""

Before = Callable[[int, str, str], None]
"""(number, action, path)"""
T = TypeVar("T")


class Crashed(BaseException):
    """The node stops at this primitive; only the code that planned it catches this. `done` is how
    much of the primitive still happens: a write writes that share of its bytes, others happen only
    from 1 on."""

    def __init__(self, done: float = 0.0) -> None:
        self.done = done
        super().__init__(f"crashed with {done:.0%} of the primitive done")


def nothing(_share: float) -> None:
    """Do nothing: most primitives happen completely or not at all."""


def parent_of(path: str) -> str:
    """Return the directory that contains a name; "" is the data directory."""
    return path.rpartition("/")[0]


class NameChange:
    """A change of a name that is not durable yet: `path` now names `inode`, or nothing when that is
    None; `old` is the file's name before. A sync of any of `directories` makes it durable."""

    __slots__ = ("directories", "inode", "old", "path")

    def __init__(
        self, path: str, inode: Inode | None, old: str = "", directories: tuple[str, ...] = ()
    ) -> None:
        self.path = path
        self.inode = inode
        self.old = old
        self.directories = (parent_of(path), *directories)

    def of(self, twins: dict[Inode, Inode]) -> NameChange:
        """Return the same change for copies of the files."""
        inode = twins[self.inode] if self.inode is not None else None
        return NameChange(self.path, inode, self.old, self.directories[1:])

    def apply(self, names: dict[str, Inode]) -> None:
        """Make the change in `names`, the names that are durable."""
        if self.inode is None:
            names.pop(self.path, None)
            return
        if self.old:
            names.pop(self.old, None)
            for name in [name for name, inode in names.items() if inode is self.inode]:
                del names[name]
        names[self.path] = self.inode


class SimFiles(Files):
    """The files of one data directory. `number` counts the primitives, from 1."""

    def __init__(self, capacity: int | None = None) -> None:
        self.inodes: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        """The names that a power loss would leave if no pending change arrived."""
        self.entries: list[NameChange] = []
        self.directories: dict[str, None] = {"": None}
        self.removed: dict[str, None] = {}
        """Directories whose removal is not durable yet."""
        self.capacity = capacity
        self.used = 0
        self.full_code = "ENOSPC"
        self.plan: dict[int, str] = {}
        """The errno of each primitive that is to fail, by its number."""
        self.sync_failures = 0
        """This many of the next syncs of files fail with EIO."""
        self.before: Before | None = None
        self.number = 0
        self.counts: dict[str, int] = {}
        self.bytes_read = 0
        self.bytes_written = 0

    def copy(self) -> SimFiles:
        """Return the same files without planned faults, to see what would be left of them."""
        twin = SimFiles(self.capacity)
        changed = [entry.inode for entry in self.entries if entry.inode is not None]
        there = {*self.inodes.values(), *self.durable.values(), *changed}
        twins = {inode: inode.copy() for inode in there}
        twin.inodes = {path: twins[inode] for path, inode in self.inodes.items()}
        twin.durable = {path: twins[inode] for path, inode in self.durable.items()}
        twin.entries = [entry.of(twins) for entry in self.entries]
        twin.directories = self.directories.copy()
        twin.removed = self.removed.copy()
        twin.used = self.used
        return twin

    # -- faults

    def crash(self, random: Random) -> None:
        """Cut the power: only durable data is left."""
        kept = random.choice((0.0, 0.3, 0.5, 0.9, 1.0))
        names = dict(self.durable)
        for entry in self.entries:
            if random.random() < kept:
                entry.apply(names)
        left = {id(inode): inode for inode in names.values()}
        for inode in left.values():
            inode.lose_power(random, kept)
        self.inodes = dict(sorted(names.items()))
        self.durable = dict(self.inodes)
        self.entries = []
        for name in [name for name in self.removed if random.random() >= kept]:
            self._have_directory(name)
        self.removed = {}
        for name in self.inodes:
            self._have_directory(parent_of(name))
        self.used = sum(len(inode.data) for inode in left.values())
        self.rest()

    def kill(self) -> None:
        """Kill the process: the operating system keeps everything written."""
        self.rest()

    def rest(self) -> None:
        """Cancel all faults that are planned."""
        self.before = None
        self.plan = {}
        self.sync_failures = 0

    def flip(self, path: str, offset: int, mask: int = 1) -> None:
        """Flip the bits of `mask` in one byte of a durable file."""
        self.inodes[path].flip(offset, mask)

    def _do(
        self,
        action: str,
        path: str,
        act: Callable[[], T],
        partly: Callable[[float], object] = nothing,
        failed: Callable[[], object] | None = None,
    ) -> T:
        """Do one primitive. `partly` does a share of it, `failed` does what happens
        when it fails.
        """
        assert_inside(path)
        self.number += 1
        self.counts[action] = self.counts.get(action, 0) + 1
        if self.before is not None:
            try:
                self.before(self.number, action, path)
            except Crashed as crash:
                with suppress(DiskFailed):
                    act() if crash.done >= 1 else partly(crash.done)
                raise
        code = self.plan.pop(self.number, "")
        if action == "sync" and self.sync_failures:
            self.sync_failures -= 1
            code = "EIO"
        if code:
            failed() if failed is not None else partly(0.5)
            raise DiskFailed(action, path, code)
        return act()

    # -- the primitives

    def names(self, directory: str) -> list[str]:
        return self._do("names", directory, lambda: self._names(directory))

    def _names(self, directory: str) -> list[str]:
        if directory in self.inodes:
            raise DiskFailed("names", directory, "ENOTDIR")
        start = f"{directory}/" if directory else ""
        paths = [*self.inodes, *self.directories]
        below = [path[len(start) :] for path in paths if path.startswith(start)]
        return sorted({name.partition("/")[0] for name in below if name})

    def make_directory(self, path: str) -> None:
        self._do("make_directory", path, lambda: self._make_directory(path))

    def _make_directory(self, path: str) -> None:
        inside = path
        while inside:
            if inside in self.inodes:
                raise DiskFailed("make_directory", inside, "EEXIST")
            inside = parent_of(inside)
        self._have_directory(path)

    def _have_directory(self, path: str) -> None:
        while path:
            self.directories[path] = None
            self.removed.pop(path, None)
            path = parent_of(path)

    def size(self, path: str) -> int:
        assert_inside(path)
        inode = self.inodes.get(path)
        return -1 if inode is None else len(inode.data)

    def is_directory(self, path: str) -> bool:
        assert_inside(path)
        return path in self.directories

    def read(self, path: str, offset: int, size: int) -> bytes:
        return self._do("read", path, lambda: self._read(path, offset, size))

    def _read(self, path: str, offset: int, size: int) -> bytes:
        data = bytes(self._inode("read", path).data[offset : offset + size])
        self.bytes_read += len(data)
        return data

    def write(self, path: str, offset: int, data: bytes) -> None:
        def partly(share: float) -> None:
            if share > 0 and parent_of(path) in self.directories:
                self._write(path, offset, data[: int(len(data) * share)])

        self._do("write", path, lambda: self._write(path, offset, data), partly)

    def _write(self, path: str, offset: int, data: bytes) -> None:
        inode = self._made("write", path)
        lacking = offset + len(data) - len(inode.data) - self._free()
        fits = data if lacking <= 0 else data[: max(0, len(data) - lacking)]
        if fits:
            before = len(inode.data)
            inode.write(offset, fits)
            self.used += len(inode.data) - before
            self.bytes_written += len(fits)
        if lacking > 0:
            raise DiskFailed("write", path, self.full_code)

    def allocate(self, path: str, size: int) -> None:
        self._do("allocate", path, lambda: self._allocate(path, size))

    def _allocate(self, path: str, size: int) -> None:
        inode = self._made("allocate", path)
        grows = size - len(inode.data)
        if grows > self._free():
            raise DiskFailed("allocate", path, self.full_code)
        if grows > 0:
            self.used += grows
            inode.resize(size)

    def truncate(self, path: str, size: int) -> None:
        self._do("truncate", path, lambda: self._truncate(path, size))

    def _truncate(self, path: str, size: int) -> None:
        inode = self._inode("truncate", path)
        self.used += size - len(inode.data)
        inode.resize(size)

    def sync(self, path: str) -> None:
        """Make a file durable. When this fails nothing is durable, and its pages count as clean."""
        self._do(
            "sync",
            path,
            lambda: self._inode("sync", path).sync(),
            failed=lambda: self._inode("sync", path).forget_steps(),
        )

    def sync_directory(self, path: str) -> None:
        self._do("sync_directory", path, lambda: self._sync_directory(path))

    def _sync_directory(self, path: str) -> None:
        if path not in self.directories:
            raise DiskFailed("sync_directory", path, "ENOENT")
        left: list[NameChange] = []
        for entry in self.entries:
            if path not in entry.directories:
                left.append(entry)
                continue
            entry.apply(self.durable)
            if entry.old:  # its earlier names no longer count
                left = [each for each in left if each.inode is not entry.inode]
        self.entries = left
        for name in [name for name in self.removed if parent_of(name) == path]:
            del self.removed[name]

    def rename(self, old: str, new: str) -> None:
        self._do("rename", old, lambda: self._rename(old, new))

    def _rename(self, old: str, new: str) -> None:
        inode = self._inode("rename", old)
        if new in self.directories or parent_of(new) not in self.directories:
            raise DiskFailed("rename", old, self._why_not(new))
        if old == new:
            return
        replaced = self.inodes.get(new)
        if replaced is not None:
            self.used -= len(replaced.data)
        del self.inodes[old]
        self.inodes[new] = inode
        self.entries.append(NameChange(new, inode, old))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self._delete(path))

    def _delete(self, path: str, *directories: str) -> None:
        if path in self.directories:
            raise DiskFailed("delete", path, "EISDIR")
        inode = self.inodes.pop(path, None)
        if inode is not None:
            self.used -= len(inode.data)
            self.entries.append(NameChange(path, None, directories=directories))

    def delete_tree(self, path: str) -> None:
        assert path, "the data directory itself stays"
        self._do(
            "delete_tree",
            path,
            lambda: self._delete_tree(path, 1.0),
            lambda share: self._delete_tree(path, share),
        )

    def _delete_tree(self, path: str, share: float) -> None:
        """Delete the first `share` of the files in a directory; the directory itself only after all
        of them."""
        if path in self.inodes:
            raise DiskFailed("delete_tree", path, "ENOTDIR")
        names = [name for name in self.inodes if name.startswith(f"{path}/")]
        for name in names[: int(len(names) * share)]:
            self._delete(name, parent_of(path))
        if share >= 1:
            for name in [name for name in self.directories if f"{name}/".startswith(f"{path}/")]:
                del self.directories[name]
                self.removed[name] = None

    def free_bytes(self) -> int:
        return self._free()

    def _free(self) -> int:
        return ROOMY if self.capacity is None else max(0, self.capacity - self.used)

    def _inode(self, action: str, path: str) -> Inode:
        inode = self.inodes.get(path)
        if inode is None:
            raise DiskFailed(action, path, self._why_not(path))
        return inode

    def _why_not(self, path: str) -> str:
        """Return the name of the errno for a path that is not a file."""
        if path in self.directories:
            return "EISDIR"
        return "ENOTDIR" if parent_of(path) in self.inodes else "ENOENT"

    def _made(self, action: str, path: str) -> Inode:
        """Return the file, which is created when missing."""
        inode = self.inodes.get(path)
        if inode is None:
            if path in self.directories or parent_of(path) not in self.directories:
                raise DiskFailed(action, path, self._why_not(path))
            inode = self.inodes[path] = Inode()
            self.entries.append(NameChange(path, inode))
        return inode


class Strand:
    """The jobs of one strand, in order; the first is running."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs: deque[tuple[DiskJob, Actor]] = deque()


class SimDisk(Disk):
    """Runs jobs in virtual time; some take very long. A job takes effect at the moment it ends."""

    def __init__(
        self, timeline: Timeline, random: Random, files: SimFiles, delay_ns_max: int = MS
    ) -> None:
        self.timeline = timeline
        self.random = random
        self.files: SimFiles = files
        self.delay_ns_max = delay_ns_max
        self.stalled_until_ns = 0
        self.healed = False
        self.strands: dict[int, Strand] = {}
        self.submitted = 0
        self.done = 0
        self.syncs = 0
        """Jobs of the sync strand."""
        self.waited_us = 0

    def submit(self, job: DiskJob, actor: Actor, strand: int) -> None:
        self.submitted += 1
        jobs = self.strands.setdefault(strand, Strand()).jobs
        jobs.append((job, actor))
        if len(jobs) == 1:
            self._start(strand)

    def _start(self, strand: int) -> None:
        delay_ns = MS // 10
        if not self.healed:
            delay_ns = 1 + self.random.randrange(self.delay_ns_max)
            delay_ns = max(delay_ns, self.stalled_until_ns - self.timeline.now_ns)
        self.waited_us += delay_ns // 1000
        self.syncs += strand == SYNC_STRAND
        job = type(self.strands[strand].jobs[0][0]).__name__
        self.timeline.after(delay_ns, "disk", job, self._over, (self.strands[strand], strand))

    def _over(self, begun: tuple[Strand, int]) -> None:
        """Do the first job of a strand, unless its node has ended."""
        there, strand = begun
        if self.strands.get(strand) is not there:
            return
        job, actor = there.jobs[0]
        try:
            run(job, self.files)
        except Crashed:
            del self.strands[strand]  # it has got as far as it could
            raise
        there.jobs.popleft()
        self.done += 1
        actor.post(job)
        if there.jobs:
            self._start(strand)
        else:
            del self.strands[strand]

    def busy(self) -> bool:
        """Tell whether any job is unfinished."""
        return bool(self.strands)

    def crash(self, power: bool) -> None:
        """Stop the node's jobs at this moment: some primitives of the first job of each strand have
        happened, and nobody is told. With `power` the power is lost, too."""
        files = self.files
        random = self.random
        files.rest()
        for strand in self.strands.values():
            job, _ = strand.jobs[0]
            files.before = stop_at(files.number + 1 + random.randrange(6), random.random())
            try:
                run(job, files)
            except Crashed:
                continue
        self.strands = {}
        self.stalled_until_ns = 0
        if power:
            files.crash(random)
        else:
            files.kill()

    def counters(self) -> dict[str, int]:
        files = self.files
        counts = files.counts
        return {
            "io_read_count": counts.get("read", 0),
            "io_read_bytes": files.bytes_read,
            "io_read_time": 0,
            "io_write_count": counts.get("write", 0),
            "io_write_bytes": files.bytes_written,
            "io_write_time": 0,
            "io_seek_count": 0,
            "io_seek_time": 0,
            "io_sync_count": counts.get("sync", 0) + counts.get("sync_directory", 0),
            "io_sync_time": self.waited_us,
            "io_reopen_count": 0,
        }


def run(job: DiskJob, files: Files) -> None:
    """Run the job; a disk failure is stored in it."""
    try:
        job.run(files)
    except DiskFailed as failure:
        job.failure = failure


def stop_at(number: int, done: float = 0.0) -> Before:
    """Return a hook for `before` that crashes at that primitive, and at all later ones."""

    def before(n: int, _action: str, _path: str) -> None:
        if n >= number:
            raise Crashed(done if n == number else 0.0)

    return before
