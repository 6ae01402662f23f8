"""`sluicemq lab post`: runs every experiment of the post, and writes a page about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from sluicemq.cli.analysis_options import spark_options
from sluicemq.cli.extras import require
from sluicemq.cli.lab_target import LabTarget, target_options
from sluicemq.errors import Refused

CORES_PER_SCALE: Final = 20
"""By default this many cores play the post at its own rates. On the post's cluster, 48 cores for
the broker alone, scenario 3 was within what it carried. So it is here, where three nodes share the
cores with the load and take some 600 microseconds for a message of one of hundreds of clients."""

STEP_SECONDS: Final = 20


@click.command()
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, file_okay=False))
@target_options
@click.option(
    "--queue-type",
    "queue_types",
    type=click.Choice(("classic", "mirrored", "quorum")),
    multiple=True,
    help="The types of queues to run on [default: mirrored and quorum, as in the post].",
)
@click.option(
    "--scale",
    type=float,
    metavar="F",
    help=f"A factor for the post's rates [default: the number of cores / {CORES_PER_SCALE}].",
)
@click.option(
    "--step-seconds",
    type=click.IntRange(4),
    metavar="S",
    help="How long each in-flight limit is used, in seconds; runs without confirms take two such "
    f"times [default: {STEP_SECONDS}].",
)
@click.option(
    "--short/--all-limits",
    "short",
    default=None,
    help="Only those in-flight limits that claims speak of, or all of them [default: all].",
)
@click.option(
    "--runs",
    "pattern",
    metavar="REGEX",
    default="",
    help="Only runs in whose name this is found, such as ^5-quorum.",
)
@click.option("--page", is_flag=True, help="Run nothing; write the page about what has been run.")
@spark_options()
def post(
    out: Path,
    queue_types: tuple[str, ...],
    scale: float | None,
    step_seconds: int | None,
    short: bool | None,
    pattern: str,
    page: bool,
    master: str,
    memory: str,
    **target: Any,
) -> None:
    """Run the whole of RabbitMQ's post on quorum queues and flow control, into OUT.

    Every scenario is run on mirrored and quorum queues without confirms, with them, and with
    multiple acks, scaled to this machine. What has been run already is not run again: after ^C the
    same command goes on. Run it once for each broker, with the same OUT; the page holds the post's
    claims against all of them.
    """
    require("pyarrow", "lab")
    from sluicemq.cli.post_player import PostPlayer  # noqa: PLC0415 (imports pyarrow)
    from sluicemq.lab.post_plan import PostSettings, settle  # noqa: PLC0415

    console = Console()
    chosen = LabTarget(**target)
    if target["profile"] is not None:
        raise Refused("--profile: the post chooses the profiles of its runs itself")
    cores = os.cpu_count() or 1
    defaults = PostSettings(cores / CORES_PER_SCALE, STEP_SECONDS, short=False)
    settings = settle(out, defaults, scale=scale, step_seconds=step_seconds, short=short)
    if not page:
        PostPlayer(out, chosen, settings, console).play(queue_types, pattern)
    write_pages(out, master, memory, console)


def write_pages(out: Path, master: str, memory: str, console: Console) -> None:
    """Analyse all runs in `out`, and write the page and the table of claims there."""
    require("pyspark", "spark")
    from sluicemq.spark.pipeline.post_build import build_post  # noqa: PLC0415 (imports pyspark)

    with console.status("Starting") as status:
        paths = build_post(out, master, memory, progress=status.update)
    for path in paths:
        console.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)
