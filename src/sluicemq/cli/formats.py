"""Rows as text: tab-separated as rabbitmqctl prints them, CSV, JSON, or a drawn table on a tty.

Any client may choose names. All formats but JSON (which escapes by itself) show control characters
as escapes, so that a queue's name cannot move the cursor of an operator's terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

FORMATTERS: Final = ("table", "pretty_table", "tsv", "csv", "json")

Row = Mapping[str, Any]


def plain(value: object) -> str:
    """Return a value as text for a cell: true/false, nothing for None, [a, b] for lists of texts,
    Erlang's terms for other structures."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return f"[{', '.join(map(escaped, value))}]"
    if isinstance(value, dict | list):
        return term(value)
    return escaped(str(value))


def term(value: object) -> str:
    """Return a structured value as rabbitmqctl prints it, which tools parse: `[{"key","text"}]`."""
    if isinstance(value, dict):
        return f"[{','.join(f'{{{term(key)},{term(each)}}}' for key, each in value.items())}]"
    if isinstance(value, list):
        return f"[{','.join(map(term, value))}]"
    if isinstance(value, str):
        return escaped('"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"')))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "undefined" if value is None else str(value)


def escaped(text: str) -> str:
    """Return `text` with unprintable characters as escapes: \t, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def write(
    rows: Sequence[Row], columns: Sequence[str], formatter: str, header: bool, out: TextIO
) -> None:
    """Write all rows in one of FORMATTERS."""
    if formatter == "json":
        picked = [{column: row[column] for column in columns} for row in rows]
        out.write("[" + "\n,".join(json.dumps(row) for row in picked) + "]\n")
    elif formatter == "csv":
        write_csv(rows, columns, header, out)
    elif formatter == "tsv":
        write_tsv(rows, columns, header, out)
    else:
        draw(rows, columns, header, out)


def write_tsv(rows: Sequence[Row], columns: Sequence[str], header: bool, out: TextIO) -> None:
    """Write rows separated by tabs, as rabbitmqctl does."""
    if header:
        out.write("\t".join(columns) + "\n")
    for row in rows:
        out.write("\t".join(plain(row[column]) for column in columns) + "\n")


def write_csv(rows: Sequence[Row], columns: Sequence[str], header: bool, out: TextIO) -> None:
    """Write rows as CSV, with quotes where they are needed."""
    import csv  # noqa: PLC0415 (start-up time)

    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows([plain(row[column]) for column in columns] for row in rows)


def draw(rows: Sequence[Row], columns: Sequence[str], header: bool, out: TextIO) -> None:
    """Draw a table with lines, as wide as the terminal."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 (start-up time: only people wait for rich)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, show_header=header, pad_edge=False)
    for column in columns:
        numbers = bool(rows) and all(type(row[column]) in (int, float) for row in rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(row[column])) for column in columns))
    Console(file=out, highlight=False).print(table)
