"""Tables as data, for the page and for a terminal: columns, their cells, and how to set them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Row = TypeVar("Row")


class Tone(StrEnum):
    """Tells how something is to be taken, as good or bad; it is never told by colour alone."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    DULL = "dull"


@dataclass(frozen=True, slots=True)
class Chip:
    """A word or two that stand out in a cell."""

    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Cell:
    """The contents of a cell: chips, then text, then a note."""

    text: str = ""
    chips: Sequence[Chip] = ()
    note: str = ""
    """Further text for the page only. Its line breaks are kept."""


class ColumnKind(StrEnum):
    """The content of a column, which decides how it is set."""

    NUMBER = "number"
    TEXT = "text"
    PROSE = "prose"
    """A sentence or more."""
    CLASS = "class"
    """A chip with a note."""
    CHANGE = "change"
    """A number below a chip."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column's title, the function for its cells, and how it is set."""

    title: str
    make: Callable[[Row], str | Cell]
    kind: ColumnKind = ColumnKind.NUMBER
    terminal: str = ""
    """Its title on a terminal; empty: a terminal does not show it."""
    ratio: int = 0
    """Its share of a terminal's width; 0: the width of its longest cell."""

    def cell(self, row: Row) -> Cell:
        """Return the cell of this column in one row."""
        made = self.make(row)
        return Cell(made) if isinstance(made, str) else made


@dataclass(frozen=True, slots=True)
class Group(Generic[Row]):
    """Columns under a common title; an empty title shows none."""

    title: str
    columns: Sequence[Column[Row]]


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows of figures, each with its name in the first column."""

    name: Column[Row]
    groups: Sequence[Group[Row]]
    rows: Sequence[Row]
    chosen: Callable[[Row], bool] = lambda _: False
    """Whether a row stands out."""

    @property
    def columns(self) -> list[Column[Row]]:
        """The columns of all groups: all but the first column."""
        return [column for group in self.groups for column in group.columns]
