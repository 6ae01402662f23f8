"""The broker with a bug: `python planted.py NAME serve ...` is `sluicemq serve ...` with that bug.

Each breaks the storage in a way that only shows when the process is killed at the wrong moment.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sluicemq.chain.store import local_agreement, store_group
from sluicemq.chain.store.checkpoints import Checkpoints
from sluicemq.cli.main import main
from sluicemq.host.disk import HostDisk
from sluicemq.kernel.disk import DiskJob, Files
from sluicemq.metadata.changes import Change
from sluicemq.storage.journal import GroupWrite
from sluicemq.storage.recovery import Recovery

LATE_S: Final = 0.05
"""What comes too late, comes so much too late: kills find the gap."""

BUGS: Final[dict[str, Callable[[], None]]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    """Register a bug under its function's name."""
    BUGS[plant.__name__] = plant
    return plant


def program(name: str) -> tuple[str, ...]:
    """What stands before `serve`."""
    return (sys.executable, str(Path(__file__)), name)


def drop(name: str, one_in: int) -> None:
    """Every so often a group of the message store leaves something out of the journal."""
    original = getattr(store_group, name)
    times = 0

    def encode(parts: list[bytes], *arguments: Any) -> Any:
        nonlocal times
        times += 1
        return 0 if times % one_in == 0 else original(parts, *arguments)

    setattr(store_group, name, encode)


class Nobody:
    """An actor that does not listen."""

    def post(self, message: object) -> None:
        pass


class Late(DiskJob):
    """Another job, after a while."""

    def __init__(self, job: DiskJob) -> None:
        self.job = job

    def run(self, files: Files) -> None:
        time.sleep(LATE_S)
        self.job.run(files)


@bug
def confirm_before_the_write() -> None:
    submit = HostDisk.submit

    def at_once(self: HostDisk, job: DiskJob, actor: Any, strand: int) -> None:
        if isinstance(job, GroupWrite):
            submit(self, Late(job), Nobody(), strand)  # type: ignore[arg-type]
            actor.post(job)
        else:
            submit(self, job, actor, strand)

    HostDisk.submit = at_once  # type: ignore[method-assign]


@bug
def index_ahead_of_the_store() -> None:
    run = GroupWrite.run

    def without_bodies(self: GroupWrite, files: Files) -> None:
        before, self.before = self.before, []
        run(self, files)
        self.before = before
        for job in before:
            threading.Timer(LATE_S, job.run, (files,)).start()

    GroupWrite.run = without_bodies  # type: ignore[method-assign]


@bug
def ack_lost() -> None:
    drop("encode_ack", 10)


@bug
def publish_not_journalled() -> None:
    drop("encode_run", 20)


@bug
def definition_not_journalled() -> None:
    original = local_agreement.encoded
    times = 0

    def encoded(durable: list[Change]) -> bytes:
        nonlocal times
        times += 1
        return b"" if times % 5 == 0 else original(durable)

    local_agreement.encoded = encoded


@bug
def journal_deleted_too_early() -> None:
    start = Checkpoints._start
    Checkpoints._start = lambda self, cut, _: start(self, cut, {})  # type: ignore[method-assign]


@bug
def redelivered_without_its_flag() -> None:
    match = Recovery.match_definitions

    def trusting(self: Recovery) -> None:
        clean, self.clean = self.clean, True
        match(self)
        self.clean = clean

    Recovery.match_definitions = trusting  # type: ignore[method-assign]


if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()
