"""The ids of the latest batches, on disk: what makes `exactlyOnce` survive the driver.

One file a batch, `batch-SERIAL.json`: `[["queue", rows, ["id", ..]], ..]`, a part for each chunk,
written and synced before Spark is told of the batch, so that a batch in Spark's offset log always
has its file. A file whose batch Spark does not know was never handed out, and is dropped.

`owner.json` says whose it is: `{"ledger": id, "session": id, "is_known": bool}`. The first id is in
the offsets of the query too, and so in its checkpoint. A query whose offsets have another one is
another query. One that has no offsets yet may take over a ledger that Spark never came to know
(`is_known`: a batch was committed): its own, from a start that was cut off. The session is that
which opened it last; one before it records nothing any more.

A ledger is a directory of this machine, or anything that Spark can have a checkpoint on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from sluicemq.errors import Refused
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.driver_files import DriverFiles


class Part(NamedTuple):
    """A chunk of a batch: how many messages it had, and the ids of those that had not come before,
    in order."""

    queue: str
    rows: int
    ids: list[str]


log = logging.getLogger(__name__)

NAME: Final = "batch-{:020d}.json"
NAME_PATTERN: Final = re.compile(r"batch-\d{20}\.json")
OWNER: Final = "owner.json"
BATCHES_KEPT_MIN: Final = 2
"""However many ids: the one Spark may replay, and the one before."""


class Files(Protocol):
    """Those of a folder. Errors are `OSError`."""

    def names(self) -> list[str]: ...
    def read(self, name: str) -> str: ...
    def write(self, name: str, text: str) -> None: ...
    def remove(self, name: str) -> None: ...


class LocalFiles:
    """Those of a directory of this machine, which is made if it is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """All of them."""
        return [path.name for path in self._folder.iterdir()]

    def read(self, name: str) -> str:
        """The text of one."""
        return (self._folder / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Make one, or make it anew; returns when it is on disk."""
        path = self._folder / name
        fresh = path.with_suffix(".tmp")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """Whether it is there or not."""
        (self._folder / name).unlink(missing_ok=True)


def open_files(location: str) -> Files:
    """The files at a path, or at a URL: `file:` is the driver's machine, everything else is for
    Spark to open. `LookupError` when nobody can."""
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return LocalFiles(location)
    if scheme == "file":
        return LocalFiles("/" + path.lstrip("/"))
    return DriverFiles(location)


class Ledger:
    """See above, for one `session`. `window` ids are remembered, and the last batches always."""

    def __init__(self, location: str, window: int, session: str) -> None:
        self._location = location
        self._window = window
        self._session = session
        self.id = ""
        """In `owner.json`; empty before it is claimed."""
        self._is_known = False
        try:
            self._files = open_files(location)
            serials = sorted(
                int(name[6:-5]) for name in self._files.names() if NAME_PATTERN.fullmatch(name)
            )
            self._batches = {serial: self._load(serial) for serial in serials}
        except LookupError:
            raise Refused(
                f"ledger = {location!r}: only Spark can open it, and the driver does not answer:"
                " call spark.dataSource.register(AmqpDataSource) in its Python, or give a directory"
                " of its machine"
            ) from None
        except (OSError, ValueError) as error:
            raise Refused(f"ledger = {location!r}: cannot be used: {error}") from error
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        """By queue."""
        self._count = 0
        for parts in self._batches.values():
            self._learn(parts)

    def align(self, serial: int, owner: str) -> None:
        """Spark's last batch is `serial`: what comes after it never was. `owner` is the id of the
        ledger in its offset; `Refused` when this is another one."""
        self._claim(owner)
        for later in [s for s in self._batches if s > serial]:
            self._drop(later)

    def _claim(self, owner: str) -> None:
        found = self._owner()
        # A query without offsets has no id; nor has one whose offsets are older than ids are.
        is_new = not owner and found is not None and not found["is_known"]
        if found is not None and found["ledger"] not in (self.id, owner) and not is_new:
            raise Refused(
                f"ledger = {self._location!r}: belongs to another query, or to this one with"
                " another checkpoint; give each query a ledger of its own, and a new one with a"
                " new checkpoint"
            )
        if not self.id:
            self.id = owner or uuid.uuid4().hex
            self._is_known = bool(found and owner and found["is_known"])
            self._sign()

    def settle(self) -> None:
        """Spark has committed a batch that is in here."""
        if self._is_known:
            return
        try:
            if self._is_mine():
                self._is_known = True
                self._sign()
        except OSError as error:  # the next batch finds that out too, if it lasts
            self._is_known = False
            log.warning("ledger = %r: cannot be written: %s", self._location, error)

    def _sign(self) -> None:
        owner = {"ledger": self.id, "session": self._session, "is_known": self._is_known}
        self._files.write(OWNER, json.dumps(owner))

    def _owner(self) -> dict[str, Any] | None:
        if OWNER not in self._files.names():
            return None
        found: dict[str, Any] = json.loads(self._files.read(OWNER))
        return found

    def _is_mine(self) -> bool:
        found = self._owner()
        return found is not None and found["session"] == self._session

    def repeats(self, queue: str, ids: Sequence[str], batch: set[str]) -> list[int]:
        """Which of these ids of a queue, by their places from 0, have been in one of the batches
        remembered or are in `batch`, the ids of that queue in a batch that is being made, or stand
        here before. The others are added to it."""
        fresh = set(ids)
        known = self._known[queue]
        if len(fresh) == len(ids) and fresh.isdisjoint(known) and fresh.isdisjoint(batch):
            batch |= fresh
            return []
        found: list[int] = []
        for place, each in enumerate(ids):
            if each in batch or each in known:
                found.append(place)
            else:
                batch.add(each)
        return found

    def batch(self, serial: int) -> list[Part] | None:
        """What a batch was made of."""
        return self._batches.get(serial)

    def record(self, serial: int, parts: list[Part]) -> None:
        """A new batch; returns when it is on disk. `AmqpError` when the ledger has been taken."""
        try:
            if not self._is_mine():
                raise AmqpError(
                    f"ledger = {self._location!r}: another query, or another run of this one, has"
                    " taken it; give each query a ledger of its own"
                )
            # json.dump would encode it in Python
            self._files.write(NAME.format(serial), json.dumps(parts))
            self._batches[serial] = parts
            self._learn(parts)
            self._trim()
        except OSError as error:
            raise AmqpError(f"ledger = {self._location!r}: cannot be used: {error}") from error

    def _learn(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self._known[part.queue].update(part.ids)
            self._count += len(part.ids)

    def _trim(self) -> None:
        while self._count > self._window and len(self._batches) > BATCHES_KEPT_MIN:
            self._drop(min(self._batches))

    def _drop(self, serial: int) -> None:
        for part in self._batches.pop(serial):
            self._known[part.queue].difference_update(part.ids)
            self._count -= len(part.ids)
        self._files.remove(NAME.format(serial))

    def _load(self, serial: int) -> list[Part]:
        parts = json.loads(self._files.read(NAME.format(serial)))
        return [Part(queue, rows, ids) for queue, rows, ids in parts]
