"""`sluicemq fsck DIR`: checks that a data directory is complete."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from sluicemq.cli.formats import escaped
from sluicemq.storage.fsck import Check, Finding, Verdict

HANDLES: Final = 64
"""The most files that a repair has open at a time."""


@click.command(short_help="Check a data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--formatter",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format: text, or one JSON object.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Give up what is lost and rewrite damaged files, so that a broker starts; the old files"
    " are moved to DIR/quarantine. Then check.",
)
def fsck(directory: Path, formatter: str, repair: bool) -> None:
    """Check the data directory DIR of a broker that is not running. Nothing is written without
    --repair.

    It reads everything: the newest checkpoint, the journal, every segment and every message file,
    and looks for the content of each live message. The exit code is 1 when something is damaged or
    missing. A torn tail, the rest of a write that was cut off, is reported as a note and is no
    damage. A broker refuses to start without what is reported as lost, unless it is started with
    `sluicemq serve --accept-loss`.
    """
    from sluicemq.host.data_dir import unheld  # noqa: PLC0415 (a bad option is refused at once)
    from sluicemq.host.read_only_files import ReadOnlyFiles  # noqa: PLC0415

    if repair:
        mend(directory)
    with unheld(directory):
        verdict = Check(ReadOnlyFiles(directory)).run()
    if formatter == "json":
        click.echo(json.dumps(as_json(verdict)))
    else:
        click.echo("\n".join(lines_of(verdict)))
    sys.exit(1 if verdict.findings else 0)


def mend(directory: Path) -> None:
    """Repair a data directory, and report each step on standard error."""
    from sluicemq.host.clock import HostDice  # noqa: PLC0415
    from sluicemq.host.data_dir import held_existing  # noqa: PLC0415
    from sluicemq.host.files import HostFiles  # noqa: PLC0415
    from sluicemq.storage.repair import Repair  # noqa: PLC0415

    dice = HostDice()

    def log(level: str, text: str) -> None:
        click.echo(escaped(f"{level}: {text.removeprefix('recovery: ')}"), err=True)

    with held_existing(directory):
        files = HostFiles(directory, HANDLES)
        try:
            Repair(files, lambda: dice.token(16), log).run()
        finally:
            files.close()


def as_json(verdict: Verdict) -> dict[str, object]:
    """Return the verdict as one JSON object."""
    return {
        "checked": verdict.counted,
        "losses": [loss._asdict() for loss in verdict.losses],
        "notes": [note._asdict() for note in verdict.notes],
        "findings": [finding._asdict() for finding in verdict.findings],
    }


def lines_of(verdict: Verdict) -> Iterator[str]:
    """Return the verdict as lines of text: what was checked, notes, losses, damage, and the
    result."""
    counted = (f"{number} {what.replace('_', ' ')}" for what, number in verdict.counted.items())
    yield f"checked: {', '.join(counted)}"
    for note in verdict.notes:
        yield f"note: {line_of(note)}"
    for loss in verdict.losses:
        yield escaped(f"lost: {loss}")
    for finding in verdict.findings:
        yield f"damaged: {line_of(finding)}"
    total = len(verdict.findings)
    yield f"{total} finding{'s'[: total != 1]}" if total else "sound"


def line_of(finding: Finding) -> str:
    """Return a finding as one line. Control characters are escaped, because any client may choose
    the names of queues."""
    return escaped(f"{finding.path}: {finding.text}")
