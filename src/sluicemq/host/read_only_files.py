"""The files of a data directory for readers only; no method changes anything."""

from __future__ import annotations

import os
from pathlib import Path

from sluicemq.host.files import as_disk_failure
from sluicemq.kernel.disk import Files, assert_inside


class ReadOnlyFiles(Files):
    """Reads files below `root`; opens them anew for each read, which suffices for a check."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, directory: str) -> list[str]:
        place = self._place(directory)
        with as_disk_failure("list", directory):
            return sorted(os.listdir(place)) if place.exists() else []

    def size(self, path: str) -> int:
        place = self._place(path)
        with as_disk_failure("look at", path):
            return -1 if place.is_dir() or not place.exists() else place.stat().st_size

    def is_directory(self, path: str) -> bool:
        return self._place(path).is_dir()

    def read(self, path: str, offset: int, size: int) -> bytes:
        with as_disk_failure("read", path), self._place(path).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def _place(self, path: str) -> Path:
        assert_inside(path)
        return self.root / path
