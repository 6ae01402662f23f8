"""The ids of the latest batches, on disk: what makes `exactlyOnce` survive the driver.

One file a batch, `batch-SERIAL.json`: `[["queue", rows, ["id", ..]], ..]`, a part for each chunk,
written and synced before Spark is told of the batch, so that a batch in Spark's offset log always
has its file. A file whose batch Spark does not know was never handed out, and is dropped.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sluicemq.errors import Refused


class Part(NamedTuple):
    """A chunk of a batch: how many messages it had, and the ids of those that had not come before,
    in order."""

    queue: str
    rows: int
    ids: list[str]


NAME: Final = "batch-{:020d}.json"
BATCHES_KEPT_MIN: Final = 2
"""However many ids: the one Spark may replay, and the one before."""


class Ledger:
    """See above. `window` ids are remembered, and the last batches in any case."""

    def __init__(self, directory: str, window: int) -> None:
        self._folder = Path(directory)
        self._window = window
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            serials = sorted(int(f.stem[6:]) for f in self._folder.glob("batch-*.json"))
            self._batches = {serial: self._load(serial) for serial in serials}
        except (OSError, ValueError) as error:
            raise Refused(f"ledger = {directory!r}: cannot be used: {error}") from error
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        """By queue."""
        self._count = 0
        for parts in self._batches.values():
            self._learn(parts)

    def align(self, serial: int) -> None:
        """Spark's last batch is `serial`: what comes after it never was."""
        for later in [s for s in self._batches if s > serial]:
            self._drop(later)

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
        """A new batch; returns when it is on disk."""
        path = self._path(serial)
        fresh = path.with_suffix(".tmp")
        with fresh.open("w") as file:
            file.write(json.dumps(parts))  # json.dump would encode it in Python
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._batches[serial] = parts
        self._learn(parts)
        self._trim()

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
        self._path(serial).unlink(missing_ok=True)

    def _load(self, serial: int) -> list[Part]:
        parts = json.loads(self._path(serial).read_text())
        return [Part(queue, rows, ids) for queue, rows, ids in parts]

    def _path(self, serial: int) -> Path:
        return self._folder / NAME.format(serial)
