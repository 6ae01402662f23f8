"""A message of a simulated mirrored queue, as those see it who check what becomes of it."""

from __future__ import annotations

from typing import NamedTuple


class MirrorMessage(NamedTuple):
    """A message, by its position and the entry that has it, with the term of that."""

    position: int
    entry: int
    term: int
