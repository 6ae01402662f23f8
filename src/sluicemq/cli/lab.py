"""`sluicemq lab`: put a broker under load, measure it, report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from sluicemq.amqp.types import Table
from sluicemq.cli.analysis_options import page_options, spark_options
from sluicemq.cli.extras import require
from sluicemq.cli.lab_post import post
from sluicemq.cli.lab_target import LabTarget, target_options
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.plan import QUEUE_TYPES, RunPlan, ack_interval_multiple, choose_limits
from sluicemq.lab.scenarios import SCENARIOS, Scenario, scenario_named

if TYPE_CHECKING:
    from sluicemq.lab.engine import Engine
    from sluicemq.lab.target_admin import TargetAdmin

ENGINES: Final = ("processes", "spark")

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


@click.group()
def lab() -> None:
    """Run load tests against a broker, measure, and report.

    Any AMQP 0-9-1 broker can be measured. A run writes its raw measurements as Parquet files into
    a directory; a report covers one run or several.
    """


@lab.command()
@click.argument("scenario_word", metavar="SCENARIO")
@target_options
@click.option(
    "--queue-type",
    type=click.Choice(QUEUE_TYPES),
    default="classic",
    show_default=True,
    help="The type of the queues. mirrored: classic queues named ha-..., for which --cluster and"
    " --management set a policy; else the broker must have one.",
)
@click.option(
    "--queue-argument",
    "queue_arguments",
    metavar="KEY=VALUE",
    multiple=True,
    help="An argument of queue.declare; whole numbers, true and false become numbers and booleans.",
)
@click.option(
    "--confirms/--no-confirms",
    default=True,
    show_default=True,
    help="Use confirms with an in-flight limit that rises in steps, or run one step without them.",
)
@click.option(
    "--ack-interval",
    type=click.IntRange(0),
    metavar="N",
    help="The number of messages an ack covers; 0 means automatic acks [default: 1].",
)
@click.option("--multiple", is_flag=True, help="Acknowledge 10 % of the prefetch at a time.")
@click.option(
    "--scale",
    type=float,
    default=1.0,
    show_default=True,
    metavar="F",
    help="A factor for the rate, the in-flight limits and the prefetch.",
)
@click.option(
    "--step-seconds",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="S",
    help="How long each in-flight limit is used, in seconds; the first fifth is warm-up.",
)
@click.option(
    "--steps",
    metavar="LIMITS",
    help="In-flight limits instead of the scenario's: 10,50 in messages or 1%,5% of the rate.",
)
@click.option(
    "--body-bytes",
    type=int,
    default=1024,
    show_default=True,
    metavar="N",
    help="The size of a message's body in bytes.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="The number of processes for publishers, and the same number for consumers.",
)
@click.option(
    "--record-rate",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Above this rate in messages per second only a sample is recorded. Counts stay exact.",
)
@click.option(
    "--drain-timeout",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait at the end for promised messages, in seconds.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory for the measurements [default: out/lab-SCENARIO-TIME].",
)
@click.option(
    "--label",
    default="",
    metavar="TEXT",
    help="What reports call the run, beside others [default: by its settings].",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="processes",
    show_default=True,
    help="Where the workers run: on this machine, or as tasks of a Spark cluster.",
)
@click.option(
    "--master",
    metavar="URL",
    help="The Spark master for --engine spark; each worker needs two slots [default: local[*]].",
)
def run(
    scenario_word: str,
    queue_type: str,
    queue_arguments: tuple[str, ...],
    confirms: bool,
    ack_interval: int | None,
    multiple: bool,
    scale: float,
    step_seconds: int,
    steps: str | None,
    body_bytes: int,
    workers: int,
    record_rate: int,
    drain_timeout: float,
    out: Path | None,
    label: str,
    engine: str,
    master: str | None,
    **target: Any,
) -> None:
    """Run SCENARIO, given by number or name, against a broker.

    \b
    {scenarios}

    The exit code is 0; 1 when the run ended early or messages were lost, duplicated or out of
    order; 130 after ^C. What was measured until then is kept.
    """
    scenario = scenario_named(scenario_word)
    if multiple and ack_interval is not None:
        raise Refused("--multiple and --ack-interval exclude each other")
    if multiple:
        ack_interval = ack_interval_multiple(scenario, scale)
    if steps is not None and not confirms:
        raise Refused("--steps sets in-flight limits, which need confirms")
    chosen = LabTarget(**target)
    plan = RunPlan(
        scenario=scenario,
        targets=chosen.urls,
        directory=out or default_directory(scenario),
        queue_type=queue_type,
        queue_arguments=parse_arguments(queue_arguments),
        confirms=confirms,
        ack_interval=1 if ack_interval is None else ack_interval,
        scale=scale,
        step_seconds=step_seconds,
        chosen_limits=None if steps is None else choose_limits(scenario, scale, steps),
        body_bytes=body_bytes,
        workers=workers,
        broker_pids=chosen.pids,
        profile=chosen.profile,
        record_rate=record_rate,
        drain_timeout_s=drain_timeout,
        label=label,
    )
    require("pyarrow", "lab")
    if master is not None and engine != "spark":
        raise Refused("--master is for --engine spark")
    with chosen.opened(plan.directory) as there:
        plan = replace(plan, targets=there.urls, broker_pids=there.pids)
        code = run_plan(plan, Console(), make_engine(engine, master or "local[*]"), there.admin)
    sys.exit(code)


def make_engine(name: str, master: str) -> Engine | None:
    """Return the engine of that name; None stands for processes on this machine. Raises Refused
    when Spark is chosen and pyspark is not installed."""
    if name != "spark":
        return None
    require("pyspark", "spark")
    from sluicemq.spark.lab_engine import SparkEngine  # noqa: PLC0415 (imports pyspark)

    return SparkEngine(master)


def run_plan(
    plan: RunPlan, console: Console, engine: Engine | None, admin: TargetAdmin | None
) -> int:
    """Run a plan, print its result, and return the exit code."""
    from sluicemq.lab.conductor import run_scenario  # noqa: PLC0415 (imports pyarrow)
    from sluicemq.lab.display import print_result  # noqa: PLC0415
    from sluicemq.lab.progress import progress_for  # noqa: PLC0415
    from sluicemq.lab.summary import summarize  # noqa: PLC0415

    try:
        result = run_scenario(plan, progress_for(console), engine, admin)
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    print_result(result, summarize(result.directory, result.info), console)
    if result.failed or result.problems:
        return EXIT_FAILED
    return EXIT_INTERRUPTED if result.info["stopped"] else 0


@lab.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@spark_options("local[2]", "1g")
def watch(directory: Path, master: str, memory: str) -> None:
    """Show throughput and latency of the run in DIRECTORY while it runs.

    A streaming query on Spark computes one line a second; it ends with the run.
    """
    require("pyspark", "spark")
    from sluicemq.lab.progress import ms_text  # noqa: PLC0415
    from sluicemq.spark.lab_watch import WatchedSecond  # noqa: PLC0415 (imports pyspark)
    from sluicemq.spark.lab_watch import watch as watch_run  # noqa: PLC0415
    from sluicemq.spark.session import spark_session  # noqa: PLC0415

    def show(each: WatchedSecond) -> None:
        step = f"step {each.step + 1}" if each.step >= 0 else "draining"
        click.echo(
            f"{each.second + 1:>4} s  {step:<9} pub {each.written:>8,}/s  "
            f"conf {each.confirmed:>8,}/s  del {each.delivered:>8,}/s  "
            f"p50 {ms_text(each.p50_ns):>6}  p99 {ms_text(each.p99_ns):>6} ms  "
            f"unconfirmed {each.unconfirmed:>7,}"
        )

    with spark_session(master, memory) as session:
        watch_run(session, directory, show)


@lab.command()
@page_options("DIR...", "the run's own directory")
def report(
    directories: Sequence[Path], out: Path | None, master: str, memory: str, open_browser: bool
) -> None:
    """Analyse the runs in DIR... with Spark, and write tables, plots and one HTML file."""
    require("pyspark", "spark")
    from sluicemq.spark.pipeline.build import build_report  # noqa: PLC0415 (imports pyspark)
    from sluicemq.spark.pipeline.console import print_tables  # noqa: PLC0415

    console = Console()
    with console.status("Starting") as status:
        paths = build_report(
            directories,
            master,
            memory,
            out=out,
            open_browser=open_browser,
            progress=status.update,
        )
    print_tables(paths.analysis, console)
    console.print(f"report: {paths.report}", highlight=False, soft_wrap=True)


@lab.command()
@page_options("DIR DIR...", "out/compare-TIME")
def compare(
    directories: Sequence[Path], out: Path | None, master: str, memory: str, open_browser: bool
) -> None:
    """Put the runs in DIR DIR... side by side: what each has more or less of than the first.

    They may differ in the broker, its version, profile or number of nodes, in the type of queues,
    in confirms, acks and limits; or in nothing but what was changed between them: before and after.
    `lab run --label` names them.
    """
    require("pyspark", "spark")
    from sluicemq.spark.pipeline.build import build_comparison  # noqa: PLC0415 (imports pyspark)
    from sluicemq.spark.pipeline.console import print_comparison  # noqa: PLC0415

    console = Console()
    with console.status("Starting") as status:
        paths = build_comparison(
            directories,
            master,
            memory,
            out=out or Path("out") / f"compare-{datetime.now():%Y%m%d-%H%M%S}",
            open_browser=open_browser,
            progress=status.update,
        )
    print_comparison(paths.analysis, console)
    console.print(f"comparison: {paths.report}", highlight=False, soft_wrap=True)


def default_directory(scenario: Scenario) -> Path:
    """Return a new directory name for a run of this scenario."""
    return Path("out") / f"lab-{scenario.number}-{datetime.now():%Y%m%d-%H%M%S}"


def parse_arguments(pairs: Sequence[str]) -> Table:
    """Parse KEY=VALUE pairs into arguments of queue.declare. Raises Refused."""
    arguments: Table = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise Refused(f"a queue argument is KEY=VALUE, not {pair!r}")
        if text in ("true", "false"):
            arguments[key] = text == "true"
        else:
            arguments[key] = int(text) if text.removeprefix("-").isdecimal() else text
    return arguments


def _scenario_lines() -> str:
    return "\n    ".join(
        f"{s.number}  {s.name:<18} {s.publishers} publishers x {s.rate}/s, {s.queues} queues, "
        f"{s.consumers} consumers"
        for s in SCENARIOS
    )


lab.add_command(post)

run.help = (run.help or "").replace("{scenarios}", _scenario_lines())
