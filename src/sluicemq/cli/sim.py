"""`sluicemq sim SEED`: runs the simulation of one seed, or of several from there on."""

from __future__ import annotations

import sys

import click

from sluicemq.cluster_config import NODES_MAX
from sluicemq.config import PROFILES
from sluicemq.sim.nodes.run import simulate_nodes
from sluicemq.sim.report import HEADING, RunReport, ShortLog
from sluicemq.sim.run import STEPS, simulate

TAIL_LINES = 40


@click.command(short_help="Run the broker in a simulation, from a seed.")
@click.argument("seed", type=click.IntRange(min=0))
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The number of seeds to run, from SEED on; each prints one line.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=STEPS,
    show_default=True,
    help="The number of events in the phase with faults; the phases after it have no limit.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="The flow profile [default: chosen by the seed].",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Leave out features that only some seeds have, such as dead letters. A seed then gives"
    " a different run.",
)
@click.option("--short-log", is_flag=True, help="Print the last events too, one line each.")
@click.option("--trace", is_flag=True, help="Print every event, one line each.")
@click.option(
    "--nodes",
    type=click.IntRange(min=2, max=NODES_MAX),
    help="Run a cluster of so many nodes, with clients at each. A seed then gives a different run,"
    " and only --count can be given besides.",
)
def sim(
    seed: int,
    count: int,
    steps: int,
    profile: str | None,
    plain: bool,
    short_log: bool,
    trace: bool,
    nodes: int | None,
) -> None:
    """Run the broker in a simulation in which everything follows from SEED.

    Prints the run's parameters, figures of what happened, the digest of the trace and the verdict.
    When a promise was broken it prints the last events too, and the exit code is 1.
    """
    if nodes is not None:
        if steps != STEPS or profile or plain or short_log or trace:
            raise click.UsageError("--nodes goes with --count alone.")
        sys.exit(1 if of_nodes(range(seed, seed + count), nodes) else 0)
    if count > 1:
        sys.exit(1 if several(range(seed, seed + count), steps, profile, plain) else 0)
    log = ShortLog(kept=0 if trace else TAIL_LINES)
    if trace:
        click.echo(HEADING)
    report = simulate(seed, steps, profile, log, plain)
    click.echo("\n".join(report.lines()))
    if report.failure or short_log:
        click.echo("\n".join(["", HEADING, *log.lines]))
    if report.failure:
        click.echo("\n" + report.trace)
        sys.exit(1)


def several(seeds: range, steps: int, profile: str | None, plain: bool) -> int:
    """Run several seeds, print a line for each and a sum; returns how many failed."""
    failed = 0
    for seed in seeds:
        report = simulate(seed, steps, profile, plain=plain)
        failed += bool(report.failure)
        click.echo(one_line(report))
    click.echo(f"{len(seeds)} seeds, {failed} failed")
    return failed


def of_nodes(seeds: range, nodes: int) -> int:
    """Run seeds of a cluster, and print a line for each, or the whole report of a single one;
    returns how many failed."""
    failed = 0
    for seed in seeds:
        report = simulate_nodes(seed, nodes)
        click.echo(report.line() if len(seeds) > 1 else "\n".join(report.lines()))
        if report.failure:
            failed += 1
            click.echo(report.trace)
    if len(seeds) > 1:
        click.echo(f"{len(seeds)} seeds, {failed} failed")
    return failed


def one_line(report: RunReport) -> str:
    """Return the line of one run in the table of several."""
    figures = report.figures
    verdict = f"FAILED in {report.phase}: {report.failure}" if report.failure else "passed"
    return (
        f"seed {report.seed:6} {report.digest} {report.profile:12} {report.events:6} events"
        f" {figures['published']:5} published {figures['reader paused']:4} times a reader stopped"
        f"  {verdict}"
    )
