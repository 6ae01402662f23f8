"""The data directory: its choice, its making, and its lock against a second broker."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.host.memory_disk import MemoryFiles

if TYPE_CHECKING:
    from sluicemq.config import Config


@contextmanager
def chosen(config: Config, env: Mapping[str, str]) -> Iterator[Path | MemoryFiles]:
    """Yield the data directory of a broker with this configuration, held while inside; or memory.
    When no directory is configured its name has the port, so that two brokers of a user have
    different ones. A broker whose port the system chooses gets a directory that is deleted when it
    ends."""
    if config.storage.kind == "memory":
        if config.storage.data_dir is not None:
            raise Refused("storage.kind = memory: there must be no storage.data_dir then")
        if config.cluster.takes_part:
            raise Refused("storage.kind = memory: a node of a cluster needs a disk")
        yield MemoryFiles()
        return
    if config.storage.data_dir is not None:
        path = Path(config.storage.data_dir).absolute()
    elif config.net.port:
        path = user_data(env) / "sluicemq" / str(config.net.port)
    else:
        import tempfile  # noqa: PLC0415 (start-up time of who has a directory)

        with tempfile.TemporaryDirectory(prefix="sluicemq-") as name, held(Path(name)):
            yield Path(name)
        return
    with held(path):
        yield path


def user_data(env: Mapping[str, str]) -> Path:
    """Return the directory for a user's data: the XDG base directory (a relative one does not
    count)."""
    place = Path(env.get("XDG_DATA_HOME", ""))
    return place if place.is_absolute() else Path(env.get("HOME", "/")) / ".local" / "share"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Own the directory while inside. The lock is the kernel's: it ends with the process. A
    directory made here, and its new parents, survive a power loss."""
    try:
        make(path)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"data_dir {path}: {error.strerror}") from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held_existing(path: Path) -> Iterator[None]:
    """Own a directory that exists, while inside. Raises Refused when there is none, or a broker
    uses it."""
    _require(path)
    with held(path):
        yield


def _require(path: Path) -> None:
    if not path.is_dir():
        raise Refused(f"{path}: there is no such directory")


def make(path: Path) -> None:
    """Make the directory, with those above it that are missing, durably. Raises OSError when that
    fails."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def unheld(path: Path) -> Iterator[None]:
    """Make sure that no broker has the directory, and that none takes it while inside. Nothing is
    written."""
    _require(path)
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # a copy of a data directory need not have a lock file
        return
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        raise Refused(f"{path}: a broker uses it, process {holder}; stop that first") from None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        raise Refused(f"data_dir {path}: another broker uses it, process {holder}") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
