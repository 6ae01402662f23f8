"""`sluicemq fsck DIR`: is everything in a data directory that should be there?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sluicemq.cli.formats import escaped
from sluicemq.storage.fsck import Check, Finding, Verdict


@click.command(short_help="Check a data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--formatter",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print it: for people, or one JSON object.",
)
def fsck(directory: Path, formatter: str) -> None:
    """Check the data directory DIR of a broker that is not running; nothing is written.

    Reads everything: the newest checkpoint, the journal, every segment and every message file, and
    looks for each message that is alive. The exit code is 1 when something is damaged or missing.
    A torn tail, the rest of a write that was cut off, is noted and no damage.
    """
    from sluicemq.host.data_dir import unheld  # noqa: PLC0415 (a bad option is told at once)
    from sluicemq.host.read_only_files import ReadOnlyFiles  # noqa: PLC0415

    with unheld(directory):
        verdict = Check(ReadOnlyFiles(directory)).run()
    if formatter == "json":
        click.echo(json.dumps(as_json(verdict)))
    else:
        click.echo("\n".join(lines_of(verdict)))
    sys.exit(1 if verdict.findings else 0)


def as_json(verdict: Verdict) -> dict[str, object]:
    """One object."""
    return {
        "checked": verdict.counted,
        "notes": [note._asdict() for note in verdict.notes],
        "findings": [finding._asdict() for finding in verdict.findings],
    }


def lines_of(verdict: Verdict) -> Iterator[str]:
    """The same for people."""
    counted = (f"{number} {what.replace('_', ' ')}" for what, number in verdict.counted.items())
    yield f"checked: {', '.join(counted)}"
    for note in verdict.notes:
        yield f"note: {line_of(note)}"
    for finding in verdict.findings:
        yield f"damaged: {line_of(finding)}"
    total = len(verdict.findings)
    yield f"{total} finding{'s'[: total != 1]}" if total else "sound"


def line_of(finding: Finding) -> str:
    """Names of queues come from whoever declared them."""
    return escaped(f"{finding.path}: {finding.text}")
