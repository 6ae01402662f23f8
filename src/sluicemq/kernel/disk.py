"""The World's disk, as the core sees it: plain files under one directory, and jobs on them.

`Files` has the primitives; they block, and are called directly only while a node starts. From then
on the World runs each piece of work as a `DiskJob` (host: in a pool of threads; sim: as an event),
which comes back to its actor's inbox when it is done. A path is relative to the data directory,
with "/" between its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sluicemq.errors import DiskFailed
    from sluicemq.kernel.actor import Actor

SYNC_STRAND: Final = 0
"""The strand of the journal and of checkpoints: the one thread that makes confirms wait."""


class Files:
    """The primitives on files below the data directory.

    Each raises DiskFailed with the errno's name: ENOENT when the file, or the directory to make it
    in, does not exist; ENOTDIR, EISDIR and EEXIST when something of the wrong kind does. How much
    was written before a failure is undefined. A path that leaves the data directory is a mistake of
    ours: see `assert_inside`.
    """

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none when there is no such directory. "" is the
        data directory itself."""
        raise NotImplementedError

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents, durably; one that exists is left as it is."""
        raise NotImplementedError

    def size(self, path: str) -> int:
        """Return the bytes of a file; -1 when it does not exist, or is a directory."""
        raise NotImplementedError

    def is_directory(self, path: str) -> bool:
        """Tell whether there is a directory at `path`; False for a file."""
        raise NotImplementedError

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset` on: fewer at the end of the file, none behind
        it."""
        raise NotImplementedError

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`. The file is created if missing, and grows as needed:
        zeroes fill a gap before `offset`. Empty `data` creates a file, but does not make one grow.
        """
        raise NotImplementedError

    def write_durably(self, path: str, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`, and make all of the file durable. A failure leaves the
        file as one of `write` or of `sync` does."""
        self.write(path, offset, data)
        self.sync(path)

    def allocate(self, path: str, size: int) -> None:
        """Reserve `size` bytes for a file, so that they can be written without ENOSPC. The file is
        created if missing and is `size` bytes long afterwards, filled up with zeroes. On a file
        system that cannot promise space, only the length is set."""
        raise NotImplementedError

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes, or fill it up with zeroes."""
        raise NotImplementedError

    def sync(self, path: str) -> None:
        """Make a file's data durable, and the metadata needed to read it (fdatasync). Never tried
        twice: after a failure nothing is known about the file."""
        raise NotImplementedError

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable. "" is the data directory itself."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing a file that has it. Durable after sync_directory:
        after a crash before that the file has one of its names, and `new` is one file or the other.
        """
        raise NotImplementedError

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is fine. Durable after sync_directory."""
        raise NotImplementedError

    def delete_tree(self, path: str) -> None:
        """Delete a directory and everything in it; a missing one is fine. Durable after
        sync_directory of its parent."""
        raise NotImplementedError

    def free_bytes(self) -> int:
        """Return how many bytes an unprivileged writer could still write."""
        raise NotImplementedError


def assert_inside(path: str) -> None:
    """Raise AssertionError for a path with a part that is empty, "." or "..", which might lead out
    of the data directory. The path "" is the directory itself."""
    parts = path.split("/") if path else []
    assert not {"", ".", ".."}.intersection(parts), f"{path!r} is no path in the data directory"


class DurableWrite(NamedTuple):
    """What `Files.write_durably` is called with."""

    path: str
    offset: int
    data: bytes


class DiskJob:
    """Work on files. `run` is called once, elsewhere, and touches only its own fields; then the job
    itself is posted to the actor that submitted it."""

    failure: DiskFailed | None = None
    """The error that `run` raised; None: it raised none."""

    def durable_write(self) -> DurableWrite | None:
        """Return the write that is all there is to this job, so that a disk may do it in another
        way than by `run`; None: there is more to it."""
        return None

    def run(self, files: Files) -> None:
        raise NotImplementedError


class Disk:
    """The files, and the threads that run jobs on them."""

    files: Files

    def submit(self, job: DiskJob, actor: Actor, strand: int) -> None:
        """Run the job, then post it to `actor`. Jobs of one strand run in order; strands run
        beside one another (on the host as far as there are threads)."""
        raise NotImplementedError

    def counters(self) -> dict[str, int]:
        """Return totals since the start: io_{read,write,seek,sync,reopen}_{count,bytes,time} as far
        as they make sense; times in microseconds, as RabbitMQ's file_handle_cache counts them."""
        raise NotImplementedError
