"""This user's directory on this machine, through which the processes of a query communicate: it has
sockets, and the locks of gathering processes. A process removes the files that it made; after an
hour, others remove the files of killed processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

LOCKS: Final = "gather-"
UNHEARD: Final = "bound-"
"""The prefix of sockets at which no process listens yet."""

SOCKETS: Final = "spark-", "files-", "listener-", UNHEARD
COPIES: Final = "copy-"
"""The prefix of folders with a copy of a file that is being transferred."""

OLD_S: Final = 3600.0
"""The age in seconds from which on a file may be removed; a younger one may be about to be used."""


def own_folder() -> Path:
    """Return the directory; makes it if it is missing, and sweeps it once in each process. Raises
    OSError when it is another user's, or open to others."""
    folder = Path(tempfile.gettempdir()) / f"sluicemq-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    sweep_once(folder)
    return folder


@cache
def sweep_once(folder: Path) -> None:
    """Sweep the folder at the first call in a process, and do nothing at later ones."""
    sweep(folder, time.time() - OLD_S)


def sweep(folder: Path, before: float) -> None:
    """Remove this user's locks, sockets and copies that are older than `before` (seconds of the
    clock) and no longer in use. Files that cannot be removed are left for the next sweep."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid != os.getuid() or found.st_mtime > before:
                continue
            if path.name.startswith(LOCKS) and stat.S_ISREG(found.st_mode):
                remove_free(path)
            elif path.name.startswith(SOCKETS) and stat.S_ISSOCK(found.st_mode):
                remove_silent(path)
            elif path.name.startswith(COPIES) and stat.S_ISDIR(found.st_mode):
                shutil.rmtree(path)


def remove_free(path: Path) -> None:
    """Remove a lock file, unless a process holds its lock."""
    file = lock_file(path)
    if file is not None:
        path.unlink()
        os.close(file)


def remove_silent(path: Path) -> None:
    """Remove a socket at which no process listens, without disturbing one that does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def lock_file(path: Path) -> int | None:
    """Lock the file, which is made if it is missing, and return its descriptor; None when another
    process holds the lock. A holder removes the file before it releases the lock, so when the
    locked file is no longer at its path the one that is there is tried."""
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except BlockingIOError:
            is_locked = False
        except BaseException:
            os.close(file)
            raise
        if is_at(file, path):
            if is_locked:
                return file
            os.close(file)
            return None
        os.close(file)


def is_at(file: int, path: Path) -> bool:
    """Return whether the open file is the one at the path now."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False
