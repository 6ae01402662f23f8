"""Keeps the ids of the latest batches on disk, so that `exactlyOnce` survives the driver.

They are kept in a *ledger* (the option `ledger`): a directory of this machine, or of any file
system that Spark can have a checkpoint on. It has one file for each batch, `batch-SERIAL.json`:
`[["queue", rows, ["id", ..]], ..]`, a part for each chunk. The file is written and synced before
Spark gets the batch, so each batch in Spark's offset log has its file. A file whose batch Spark
does not know was never handed out, and is removed.

The names of two more files say which query the ledger belongs to: `owner-N-LEDGER-SESSION.json`, of
which the highest N counts, and `known-LEDGER.json`, which exists once Spark has committed a batch.
LEDGER is an id that is in the offsets of the query, too, and so in its checkpoint: a query whose
offsets have another id is another query, and is refused. A query without offsets may take over a
ledger whose LEDGER is not known: it is its own, from an interrupted start. SESSION is the session
that has opened the ledger last; earlier ones can no longer record batches.

No file is ever replaced: some file systems delete the old one first, so that for a moment there is
none, and others do nothing at all. (Earlier versions did replace `owner.json`, which is still read,
and then removed.)
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from sluicemq.client.address import without_password
from sluicemq.errors import Refused
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.driver_files import DriverFiles


class BatchPart(NamedTuple):
    """A chunk of a batch: its queue, its number of messages, and the ids of those that had not come
    before, in order."""

    queue: str
    rows: int
    ids: list[str]


class Owner(NamedTuple):
    """The owner of a ledger: its id, the session that opened it last, and whether Spark has
    committed a batch of it. `number` is how many sessions have opened it before."""

    number: int
    ledger: str
    session: str
    is_known: bool


log = logging.getLogger(__name__)

NAME: Final = "batch-{:020d}.json"
NAME_PATTERN: Final = re.compile(r"batch-\d{20}\.json")
OWNER_PATTERN: Final = re.compile(r"owner-(\d+)-(\w+)-(\w+)\.json")
OWNER_BEFORE: Final = "owner.json"
"""The owner's file of an earlier version: `{"ledger": id, "session": id, "is_known": bool}`."""

BATCHES_KEPT_MIN: Final = 2
"""Batches that are kept, however many ids they have: the one that Spark may replay, and the one
before."""


class TextFiles(Protocol):
    """The text files of one folder. Methods raise `OSError`, or `ValueError` for contents that
    cannot be understood."""

    def names(self) -> list[str]: ...
    def read(self, name: str) -> str: ...
    def write(self, name: str, text: str) -> None: ...
    def remove(self, name: str) -> None: ...


class LocalFiles:
    """The text files of a directory of this machine, which is made if it is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""
        return [path.name for path in self._folder.iterdir()]

    def read(self, name: str) -> str:
        """Return the text of the file with that name; raises `OSError` when it cannot be read."""
        return (self._folder / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all, and return when it is on disk."""
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
        """Remove the file with that name; it need not exist."""
        (self._folder / name).unlink(missing_ok=True)


def open_files(location: str) -> TextFiles:
    """Return the files at a path or URL. Paths and `file:` URLs are on this machine; all others are
    opened by Spark's driver. Raises `LookupError` when no driver answers."""
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return LocalFiles(location)
    if scheme == "file":
        return LocalFiles("/" + path.lstrip("/"))
    return DriverFiles(location)


class BatchIds:
    """Remembers the ids of the latest batches on disk, for one `session`: `window` ids, and always
    the last BATCHES_KEPT_MIN batches. One thread may use it; any may call `settle`. The constructor
    raises `Refused` when the ledger cannot be used."""

    def __init__(self, location: str, window: int, session: str) -> None:
        self._location = without_password(location)
        """The ledger's location, as errors show it."""
        self._window = window
        self._session = session
        self._writing = threading.Lock()
        """Held by a thread that reads the files and then acts on them."""
        self.id = ""
        """The ledger's id; empty before the ledger is claimed."""
        self._is_known = False
        try:
            self._files = open_files(location)
            serials = sorted(
                int(name[6:-5]) for name in self._files.names() if NAME_PATTERN.fullmatch(name)
            )
            self._batches = {serial: self._load(serial) for serial in serials}
        except LookupError:
            raise Refused(
                f"ledger = {self._location!r}: only Spark can open it, and the driver does not"
                " answer: call spark.dataSource.register(AmqpDataSource) in its Python, or give a"
                " directory of its machine"
            ) from None
        except (OSError, ValueError) as error:
            raise Refused(f"ledger = {self._location!r}: cannot be used: {error}") from error
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        """All ids that are remembered, by queue."""
        self._count = 0
        for parts in self._batches.values():
            self._learn(parts)

    def align(self, serial: int, owner: str) -> None:
        """Forget all batches after `serial`, the last one that Spark knows of. The first call
        claims the ledger for the session; `owner` is the ledger's id in Spark's offset, empty for
        none. Raises `Refused` when the ledger belongs to another query, `AmqpError` when another
        session has taken it or it cannot be written."""
        with self._using():
            if self.id:
                self._check_mine()
            else:
                self._claim(owner)
            for later in [s for s in self._batches if s > serial]:
                self._drop(later)

    def _claim(self, owner: str) -> None:
        names = self._files.names()
        found = self._owner(names)
        # A query without offsets has no id; nor has one whose offsets are older than the ids.
        is_new = not owner and found is not None and not found.is_known
        if found is not None and found.ledger != owner and not is_new:
            raise Refused(
                f"ledger = {self._location!r}: belongs to another query, or to this one with"
                " another checkpoint; give each query a ledger of its own, and a new one with a"
                " new checkpoint"
            )
        claimed = owner or uuid.uuid4().hex
        number = 0 if found is None else found.number + 1
        text = json.dumps({"ledger": claimed, "session": self._session})
        if found is not None and found.is_known and known_name(claimed) not in names:
            self._files.write(known_name(claimed), text)  # it was in a file that is removed next
        self._files.write(f"owner-{number}-{claimed}-{self._session}.json", text)
        for name in names:
            if name == OWNER_BEFORE or OWNER_PATTERN.fullmatch(name):
                self._files.remove(name)
        self._is_known = found is not None and found.is_known
        self.id = claimed

    def settle(self) -> None:
        """Note on disk that Spark has committed a batch of this ledger. A failure is only
        logged."""
        with self._writing:
            if self._is_known:
                return
            try:
                names = self._files.names()
                if not self._is_mine(names):
                    return
                if known_name(self.id) not in names:
                    self._files.write(known_name(self.id), json.dumps({"ledger": self.id}))
                self._is_known = True
            except (OSError, ValueError) as error:  # the next batch fails, too, if this lasts
                log.warning("ledger = %r: cannot be written: %s", self._location, error)

    def _owner(self, names: list[str]) -> Owner | None:
        """Return the owner of the ledger that has these files; None when it has none yet."""
        those = [found for name in names if (found := OWNER_PATTERN.fullmatch(name))]
        if those:
            last = max(those, key=lambda found: (int(found[1]), found[3]))
            return Owner(int(last[1]), last[2], last[3], known_name(last[2]) in names)
        if OWNER_BEFORE not in names:
            return None
        match json.loads(self._files.read(OWNER_BEFORE)):
            case {"ledger": str(ledger), "session": str(session), "is_known": bool(is_known)}:
                return Owner(0, ledger, session, is_known)
        raise ValueError(f"{OWNER_BEFORE} is damaged")

    def _is_mine(self, names: list[str]) -> bool:
        found = self._owner(names)
        return found is not None and found.session == self._session

    def _check_mine(self) -> None:
        if not self._is_mine(self._files.names()):
            raise AmqpError(
                f"ledger = {self._location!r}: another query, or another run of this one, has"
                " taken it; give each query a ledger of its own"
            )

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Hold the lock of the files; their errors become those of the option."""
        with self._writing:
            try:
                yield
            except (OSError, ValueError) as error:
                raise AmqpError(f"ledger = {self._location!r}: cannot be used: {error}") from error

    def repeats(self, queue: str, ids: Sequence[str], batch: set[str]) -> list[int]:
        """Return the places, from 0, of the ids that have come before: in a remembered batch, in
        `batch` (the ids of this queue in the batch being made), or earlier in `ids`. All other ids
        are added to `batch`."""
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

    def batch(self, serial: int) -> list[BatchPart] | None:
        """Return the parts that a batch was made of; None when it is not remembered."""
        return self._batches.get(serial)

    def record(self, serial: int, parts: list[BatchPart]) -> None:
        """Remember a new batch, and return when it is on disk. Raises `AmqpError` when another
        session has taken the ledger, or it cannot be written."""
        with self._using():
            self._check_mine()
            # json.dump would encode it in Python, slowly
            self._files.write(NAME.format(serial), json.dumps(parts))
            self._batches[serial] = parts
            self._learn(parts)
            self._trim()

    def _learn(self, parts: Iterable[BatchPart]) -> None:
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

    def _load(self, serial: int) -> list[BatchPart]:
        name = NAME.format(serial)
        try:
            return [
                BatchPart(queue, rows, ids)
                for queue, rows, ids in json.loads(self._files.read(name))
            ]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name} is damaged: {error}") from error


def known_name(ledger: str) -> str:
    """Return the name of the file that exists once Spark has committed a batch of that ledger."""
    return f"known-{ledger}.json"
