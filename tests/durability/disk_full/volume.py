"""A broker whose data directory is a disk of some MiB, with a ballast file on it that can be taken
away: what an operator does who makes space."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support import broker
from support.broker import Target
from support.disk_space import sized_tmpfs

MIB: Final = 1 << 20
VOLUME_BYTES: Final = 32 * MIB
BALLAST_BYTES: Final = 10 * MIB
SMALL_FILES: Final = (
    "storage.reserve_bytes=4MiB",
    "storage.journal_file_size_limit=2MiB",
    "storage.msg_store_file_size_limit=2MiB",
)
"""So that a disk of this size holds several files of each sort."""


class Volume:
    """The disk, and the broker on it, if one runs. Its log is kept elsewhere, in `log`."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root = root
        self.log = log
        self.data_dir = root / "data"
        self.data_dir.mkdir()
        self.ballast = root / "ballast"
        with self.ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
        self.process: broker.Process | None = None

    def start(self, *settings: str) -> Target:
        """A broker on it; NotReady when it does not get that far."""
        errors = self.log
        self.process = broker.start(self.data_dir, *SMALL_FILES, *settings, errors=errors)
        return broker.await_ready(self.process, errors)

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        process, self.process = self.process, None
        return broker.stop(process)

    def make_space(self) -> None:
        """Take the ballast away."""
        self.ballast.unlink()

    def free_bytes(self) -> int:
        """What can still be written."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def logged(self) -> str:
        """What the broker has said so far."""
        return self.log.read_text(errors="replace")


@contextmanager
def volume(elsewhere: Path, size: int = VOLUME_BYTES) -> Iterator[Volume]:
    """Mounted while inside; the broker on it is killed at the end if it still runs."""
    with sized_tmpfs(size) as root:
        made = Volume(root, elsewhere / "stderr.txt")
        try:
            yield made
        finally:
            made.kill()
