"""Transfers the files of a worker to the conductor, in pieces of bounded size.

A worker elsewhere writes its rows to a directory of its own, which the conductor may be unable to
read. When it is done it sends the files over its connection; the conductor puts them where a worker
on its own machine would have written them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sluicemq.errors import SluiceError
from sluicemq.lab.measurements import TABLES
from sluicemq.lab.messages import FilePiece

PIECE_BYTES: Final = 1 << 20


class HandoverError(SluiceError):
    """A worker has sent something that is no file of measurements."""


def pieces(directory: Path) -> Iterator[FilePiece]:
    """Yield all files of measurements in `directory`, in order, piece by piece."""
    for table in TABLES:
        for path in sorted((directory / table).glob("*.parquet")):
            with path.open("rb") as file:
                while data := file.read(PIECE_BYTES):
                    yield FilePiece(table, path.name, data)


def put(directory: Path, piece: FilePiece) -> None:
    """Append a piece to its file in `directory`. Raises HandoverError."""
    if piece.table not in TABLES or "/" in piece.name or not piece.name.endswith(".parquet"):
        raise HandoverError(f"not a file of measurements: {piece.table}/{piece.name}")
    folder = directory / piece.table
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / piece.name).open("ab") as file:
        file.write(piece.data)
