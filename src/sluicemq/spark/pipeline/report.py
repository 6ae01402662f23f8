"""The report: one HTML file that needs nothing else. The answer first, then what it rests on.

The page is in `page/`, templates in which everything is escaped that is not marked as markup; that
are only the plots. What stands in them is made here, in words and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sluicemq import __version__
from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline import formats, plots
from sluicemq.spark.pipeline.display_table import Table
from sluicemq.spark.pipeline.drawing import COLOURS, HIGH, LOW, MIDDLE
from sluicemq.spark.pipeline.limit_plots import over_limit
from sluicemq.spark.pipeline.report_answer import answer, verified
from sluicemq.spark.pipeline.report_method import busiest_worker, method
from sluicemq.spark.pipeline.report_tables import (
    balance_table,
    claims_table,
    runs_table,
    steps_tables,
)
from sluicemq.spark.pipeline.results import Analysis, ClaimResult, Outcome, RunResult, Step

TEMPLATES: Final = Environment(
    loader=PackageLoader("sluicemq.spark.pipeline", "page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

WORKER_BUSY: Final = 0.9
"""A worker process that used this much of a core may have been the limit."""

ADDRESSES_SHOWN: Final = 3


def write_report(results: Analysis, path: Path) -> None:
    """Write the report into the file at `path`, as one HTML page that needs nothing else."""
    path.write_text(render(results), encoding="utf-8")


def render(results: Analysis) -> str:
    """Return the report as the text of an HTML page."""
    several = len(results.runs) > 1
    return TEMPLATES.get_template("report.html").render(
        title=_title(results),
        colours=COLOURS,
        about=_about(results),
        answer=answer(results),
        verified=verified(results),
        runs_table=runs_table(results.runs) if several else None,
        over_limit=_over_limit(results),
        runs=[_run(run, several) for run in results.runs],
        claims=_claims(results),
        method=method(results),
        cost=results.pipeline,
        version=__version__,
        directories=[str(run.directory) for run in results.runs],
    )


def _title(results: Analysis) -> str:
    """All brokers and scenarios in it, each once."""
    infos = [run.info for run in results.runs]
    brokers = dict.fromkeys(f"{info['product']} {info['version']}" for info in infos)
    scenarios = dict.fromkeys(f"{info['scenario']} ({info['name']})" for info in infos)
    return f"Stress scenario {' and '.join(scenarios)} on {' and '.join(brokers)}"


def _about(results: Analysis) -> list[str]:
    """What was played, and where, in paragraphs."""
    addresses: dict[str, dict[str, None]] = {}
    for run in results.runs:
        targets = (formats.without_password(uri) for uri in run.info["target"])
        addresses.setdefault(_what(run.info), {}).update(dict.fromkeys(targets))
    paragraphs = [f"{what}, {_brokers([*found])}." for what, found in addresses.items()]
    started = min(run.info["started_at"] for run in results.runs)
    paragraphs[-1] += f" Started {started[:16].replace('T', ' ')}."
    return paragraphs


def _what(info: RunInfo) -> str:
    """Clients, queues, messages and machine of a run, in words."""
    machine = info["machine"]
    scale = ""
    if info["scale"] != 1:
        unscaled = formats.rate(info["publishers"] * info["rate_unscaled"])
        scale = f" (the scenario's {unscaled} scaled by {info['scale']:g})"
    wanted = formats.rate(info["publishers"] * info["rate_per_publisher"])
    kind = "Persistent" if info["persistent"] else "Transient"
    return " ".join(
        [
            f"{info['publishers']:,} publishers write to {info['queues']:,} {info['queue_type']}",
            f"queues, {info['consumers']:,} consumers read them. {kind} messages of",
            f"{info['body_bytes']:,} bytes, {wanted} wanted{scale}.",
            f"Load on {machine['cores']} cores with {formats.gibibytes(machine['ram'])} of memory",
        ]
    )


def _brokers(addresses: list[str]) -> str:
    """Where they were; only how many, if that would be a long list."""
    if len(addresses) > ADDRESSES_SHOWN:
        return f"brokers at {len(addresses)} addresses"
    return f"broker at {', '.join(addresses)}"


def _over_limit(results: Analysis) -> Markup | None:
    """None: no run has tried several limits."""
    if not any(len(run.limited_steps) > 1 for run in results.runs):
        return None
    about = "Sustained throughput and p99 latency against the in-flight limit"
    return over_limit(results.runs, about)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The plots of one run over its time. A plot is None when there is nothing to show in it."""

    throughput: Markup
    end_to_end: Markup
    confirm: Markup | None
    backlog: Markup
    in_flight: Markup | None
    cpu: Markup | None
    memory: Markup | None


@dataclass(frozen=True, slots=True)
class RunSection:
    """All that the page says of one run."""

    heading: str
    warnings: list[str]
    pictures: Pictures
    is_shaded: bool
    """Does a step stand out, as the one whose limit is recommended?"""
    steps: list[Table[Step]]
    balance: Table[Step]


def _run(run: RunResult, named: bool) -> RunSection:
    return RunSection(
        f"Run: {run.label}" if named or run.info.get("label") else "The run",
        warnings(run),
        _pictures(run),
        run.knee is not None,
        steps_tables(run),
        balance_table(run),
    )


def _pictures(run: RunResult) -> Pictures:
    def drawn(draw: plots.Draw, about: str, height: float, wanted: bool) -> Markup | None:
        return plots.over_time(run, draw, about, height) if wanted else None

    confirms = run.info["confirms"]
    in_flight = confirms or any(second.unacked for second in run.seconds)
    cpu = any(second.broker_cpu_cores is not None for second in run.seconds)
    memory = any(second.broker_rss_bytes is not None for second in run.seconds)
    end_to_end, flight = "end-to-end latency over time", "messages in flight over time"
    return Pictures(
        plots.over_time(run, plots.draw_throughput, "throughput over time", MIDDLE),
        plots.over_time(run, plots.draw_end_to_end, end_to_end, HIGH),
        drawn(plots.draw_confirm, "confirm latency over time", HIGH, confirms),
        plots.over_time(run, plots.draw_backlog, "backlog over time", LOW),
        drawn(plots.draw_in_flight, flight, MIDDLE, in_flight),
        drawn(plots.draw_broker, "broker CPU", LOW, cpu),
        drawn(plots.draw_memory, "broker memory", LOW, memory),
    )


def warnings(run: RunResult) -> list[str]:
    """Return what a reader must know before trusting the run's figures, a sentence each."""
    found = []
    if run.info["stopped"]:
        found.append(f"The run ended early: {run.info['stopped']}")
    found += [f"Damaged, and left out: {file}" for file in run.damaged]
    found += [
        f"Counters and recorded rows disagree on messages {check.name}: {check.exact:,} counted, "
        f"{check.from_rows:,} recorded, {formats.share(check.difference)} apart. The latencies "
        "may not stand for all messages."
        for check in run.checks
        if not check.agrees
    ]
    latencies = run.latencies
    negative = latencies.end_to_end_service.negative + latencies.confirm_service.negative
    if negative:
        found.append(f"{negative:,} latencies were below 0 and are left out: clocks disagreed.")
    if run.info["confirms"] and latencies.confirm_service.never:
        never = latencies.confirm_service.never
        found.append(f"{never:,} of the messages after warm-up were never confirmed.")
    busiest = busiest_worker(run.info)
    if busiest >= WORKER_BUSY:
        found.append(
            f"A worker process of the load client used {formats.share(busiest)} of a core: the "
            "client, not the broker, may be the limit."
        )
    short = [str(step.step) for step in run.steps if step.warm_up_included]
    if short:
        steps = ", ".join(short)
        found.append(f"Too short to leave out their warm-up: step {steps} (counted from 0).")
    return found


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims about the scenarios that were played, how many of these could be tested, and the
    claims about other scenarios."""

    own: Table[ClaimResult]
    tested: int
    others: Table[ClaimResult]


def _claims(results: Analysis) -> Claims:
    own = {claim for run in results.runs for claim in run.info["claims"]}
    mine = [claim for claim in results.claims if claim.claim in own]
    others = [claim for claim in results.claims if claim.claim not in own]
    tested = sum(claim.outcome is not Outcome.UNTESTED for claim in mine)
    return Claims(claims_table(mine), tested, claims_table(others))
