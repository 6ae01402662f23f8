"""`sluicemq inspect FILE`: shows the content of a file of the data directory, and its damage."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from sluicemq.cli.formats import plain
from sluicemq.errors import Refused
from sluicemq.storage.inspection import Described, Description, Inspection
from sluicemq.storage.inspection import inspect as look

RANGES_SHOWN: Final = 8
"""The most ranges of positions that are printed for people; programs get all of them."""
ONE_LINE: Final = ("message", "directory", "chunk", "places", "closed")
"""Types of records that have only one entry."""


@click.command(short_help="Print the content of a file of a data directory.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--formatter",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format: text, or one JSON object.",
)
def inspect(file: Path, formatter: str) -> None:
    """Print the header and the records of FILE, and what of it is damaged.

    FILE is a journal (.jif), segment (.idx), message (.rdq), checkpoint (.ckp) or stream (.stream)
    file, or a message that was set aside (.poison). It is not changed. The exit code is 1 when
    something is damaged. A torn tail, the rest of a write that was cut off, is no damage.
    """
    try:
        found = look(file.read_bytes())
    except OSError as error:
        raise Refused(f"{file}: {error.strerror}") from error
    except Refused as refused:
        raise Refused(f"{file}: {refused}") from None
    if formatter == "json":
        click.echo(json.dumps(as_json(found)))
    else:
        click.echo("\n".join(lines_of(found)))
    sys.exit(0 if found.is_sound else 1)


def as_json(found: Inspection) -> Description:
    """Return the findings as one JSON object; a range of bytes is [first, behind the last]."""
    header = found.header
    return {
        "kind": header and header.kind,
        "number": header and header.number,
        "queue": header and header.queue,
        "file_id": header and header.file_id.hex(),
        "size": found.size,
        "end": found.end,
        "records": [record._asdict() for record in found.records],
        "damaged": found.damaged,
        "torn": found.torn,
        "problems": found.problems,
    }


def lines_of(found: Inspection) -> Iterator[str]:
    """Return the findings about a file as lines of text."""
    header = found.header
    if header is not None:
        queue = f" of queue {header.queue}" if header.queue else ""
        yield f"{header.kind} file {header.number}{queue}, {found.size} bytes"
        yield f"file id {header.file_id.hex()}"
    for record in found.records:
        yield from record_lines(record)
    for start, end in found.damaged:
        yield f"damaged: bytes {start} to {end} hold no valid record, though one follows"
    if found.torn:
        rest = "the rest of a write that was cut off"
        if header is not None and header.kind == "journal":
            rest += ", or what the file had before"
        yield f"torn tail: {rest}, from byte {found.end} on"
    for problem in found.problems:
        yield f"damaged: {problem}"
    if found.is_sound:
        yield f"sound: {len(found.records)} record{'s'[: len(found.records) != 1]}"


def record_lines(record: Described) -> Iterator[str]:
    """Yield the lines of a record; one with a single entry is one line."""
    head = f"{record.offset:>12}  {record.type} {record.sequence}, {record.size} bytes"
    if record.type in ONE_LINE:
        yield f"{head}: {', '.join(map(description_text, record.contents))}"
        return
    yield head
    for description in record.contents:
        yield f"{'':14}{description_text(description)}"


def description_text(description: Description) -> str:
    """Return a record's entry as one line, such as `run queue=3 positions=1-200`."""
    pairs = [f"{name}={shown(value)}" for name, value in description.items() if name != "entry"]
    return " ".join([description["entry"], *pairs])


def shown(value: object) -> str:
    """Return a value as text for a line."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        more = f",… ({len(value)} ranges)" if len(value) > RANGES_SHOWN else ""
        return ",".join(value[:RANGES_SHOWN]) + more
    if isinstance(value, str) and (not value or " " in value):
        return f'"{plain(value)}"'
    return plain(value)
