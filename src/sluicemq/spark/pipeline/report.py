"""The report: one HTML file that needs nothing else. The answer first, then what it rests on."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline import formats, plots
from sluicemq.spark.pipeline.drawing import HIGH, LOW, MIDDLE
from sluicemq.spark.pipeline.limit_plots import over_limit
from sluicemq.spark.pipeline.report_answer import answer
from sluicemq.spark.pipeline.report_method import busiest_worker, footer, method
from sluicemq.spark.pipeline.report_tables import (
    balance_table,
    claims_table,
    runs_table,
    steps_table,
)
from sluicemq.spark.pipeline.results import Analysis, Outcome, RunResult
from sluicemq.spark.pipeline.style import CSS

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

WORKER_BUSY: Final = 0.9
"""A worker process that used this much of a core may have been the limit."""

LIMITS_CAPTION: Final = (
    "<b>What each in-flight limit buys.</b> Left: what went in and came out again. Right: what "
    "99\u00a0% of the messages took from the write to the delivery. The recommended limit is "
    "shaded: beyond it the left curve gains next to nothing."
)
THROUGHPUT_CAPTION: Final = (
    "<b>Throughput.</b> A line marks the start of each step, shading its warm-up. Where both "
    "curves lie on each other, consumers keep up."
)
LATENCY_CAPTION: Final = (
    "<b>End-to-end latency</b>, log scale, from the moment a message was meant to be sent, so that "
    "waiting in the publisher counts. The dashed line counts from the write: where p99 is above "
    "it, publishers were held up."
)
CONFIRM_CAPTION: Final = (
    "<b>Confirm latency</b>, log scale, counted likewise, by the second the message was written in."
)
BACKLOG_CAPTION: Final = "<b>Backlog</b> at the end of each second."
IN_FLIGHT_CAPTION: Final = (
    "<b>In flight</b> at the end of each second, all clients together, log scale. “Allowed” is "
    "the limit times the publishers: where unconfirmed reaches it, the limit holds publishers back."
)
CPU_CAPTION: Final = "<b>CPU of the broker</b>, in cores."
MEMORY_CAPTION: Final = "<b>Memory of the broker</b>, resident set (RSS)."

SIDE_BY_SIDE_NOTE: Final = (
    "Rates are means over the measured seconds of all steps; latencies are end to end, over the "
    "whole run without warm-up."
)
STEPS_NOTE: Final = (
    "End-to-end and confirm latencies count from the intended time, unless the column says “from "
    "write”. “Held back” are intended messages whose publisher was held up until the step ended: "
    "they are in no percentile."
)
BALANCE_NOTE: Final = (
    "Largest share over mean share, and coefficient of variation (cv), between clients or queues: "
    "1.00 and 0.000 when all are alike. Jitter: cv of the seconds of a step."
)
CLAIMS_NOTE: Final = (
    "What RabbitMQ's post “Quorum Queues and Flow Control – Stress Tests” (May 2020) found, held "
    "against this measurement: {tested} of {count} claims of the scenario could be tested. "
    "“Better” means that trouble the post reports did not occur, or that a bound it states was met "
    "with a wide margin."
)


ADDRESSES_SHOWN: Final = 3


def write_report(results: Analysis, path: Path) -> None:
    """Write the page."""
    path.write_text(render(results), encoding="utf-8")


def render(results: Analysis) -> str:
    """The page."""
    parts = [_header(results), answer(results), _side_by_side(results)]
    parts += [_run_section(run, len(results.runs) > 1) for run in results.runs]
    parts += [_claims(results), method(results), footer(results)]
    return PAGE.format(title=escape(_title(results)), css=CSS, body="\n".join(parts))


def _title(results: Analysis) -> str:
    """All brokers and scenarios in it, each once."""
    infos = [run.info for run in results.runs]
    brokers = dict.fromkeys(f"{info['product']} {info['version']}" for info in infos)
    scenarios = dict.fromkeys(f"{info['scenario']} ({info['name']})" for info in infos)
    return f"Stress scenario {' and '.join(scenarios)} on {' and '.join(brokers)}"


def _header(results: Analysis) -> str:
    addresses: dict[str, dict[str, None]] = {}
    for run in results.runs:
        targets = (formats.without_password(uri) for uri in run.info["target"])
        addresses.setdefault(_what(run.info), {}).update(dict.fromkeys(targets))
    paragraphs = [f"{what}, {_brokers([*found])}." for what, found in addresses.items()]
    started = min(run.info["started_at"] for run in results.runs)
    paragraphs[-1] += f" Started {started[:16].replace('T', ' ')}."
    return (
        f'<header><p class="kicker">SluiceMQ stress lab</p><h1>{escape(_title(results))}</h1>'
        + "".join(f'<p class="what">{escape(text)}</p>' for text in paragraphs)
        + "</header>"
    )


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


def _side_by_side(results: Analysis) -> str:
    parts = []
    if len(results.runs) > 1:
        parts += [
            f'<h2>The runs side by side</h2><p class="note">{SIDE_BY_SIDE_NOTE}</p>',
            runs_table(results.runs),
        ]
    if any(len(run.limited_steps) > 1 for run in results.runs):
        about = "Sustained throughput and p99 latency against the in-flight limit"
        parts.append(_figure(LIMITS_CAPTION, over_limit(results.runs, about)))
    return f"<section>{''.join(parts)}</section>" if parts else ""


def _figure(caption: str, picture: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption><div>{picture}</div></figure>"


def _run_section(run: RunResult, named: bool) -> str:
    heading = f"Run: {run.label}" if named else "The run"
    shaded = " The recommended limit is shaded." if run.knee is not None else ""
    return "".join(
        [
            f"<section><h2>{escape(heading)}</h2>",
            *(f'<p class="warning">{escape(text)}</p>' for text in warnings(run)),
            *_run_figures(run),
            f'<h3>Step by step</h3><p class="note">{STEPS_NOTE}{shaded}</p>',
            steps_table(run),
            f'<h3>Balance and jitter</h3><p class="note">{BALANCE_NOTE}</p>',
            balance_table(run),
            "</section>",
        ]
    )


def _run_figures(run: RunResult) -> list[str]:
    def figure(caption: str, draw: plots.Draw, about: str, height: float) -> str:
        return _figure(caption, plots.over_time(run, draw, about, height))

    figures = [
        figure(THROUGHPUT_CAPTION, plots.draw_throughput, "throughput over time", MIDDLE),
        figure(LATENCY_CAPTION, plots.draw_end_to_end, "end-to-end latency over time", HIGH),
    ]
    if run.info["confirms"]:
        about = "confirm latency over time"
        figures.append(figure(CONFIRM_CAPTION, plots.draw_confirm, about, HIGH))
    figures.append(figure(BACKLOG_CAPTION, plots.draw_backlog, "backlog over time", LOW))
    if run.info["confirms"] or any(second.unacked for second in run.seconds):
        about = "messages in flight over time"
        figures.append(figure(IN_FLIGHT_CAPTION, plots.draw_in_flight, about, MIDDLE))
    if any(second.broker_cpu_cores is not None for second in run.seconds):
        figures.append(figure(CPU_CAPTION, plots.draw_broker, "broker CPU", LOW))
    if any(second.broker_rss_bytes is not None for second in run.seconds):
        figures.append(figure(MEMORY_CAPTION, plots.draw_memory, "broker memory", LOW))
    return figures


def warnings(run: RunResult) -> list[str]:
    """What a reader must know before trusting the figures."""
    found = []
    if run.info["stopped"]:
        found.append(f"The run ended early: {run.info['stopped']}")
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


def _claims(results: Analysis) -> str:
    own = {claim for run in results.runs for claim in run.info["claims"]}
    mine = [claim for claim in results.claims if claim.claim in own]
    others = [claim for claim in results.claims if claim.claim not in own]
    tested = sum(claim.outcome is not Outcome.UNTESTED for claim in mine)
    rest = ""
    if others:
        summary = f"<summary>The {len(others)} claims of other scenarios</summary>"
        rest = f"<details>{summary}{claims_table(others)}</details>"
    note = CLAIMS_NOTE.format(tested=tested, count=len(mine))
    return f"<section><h2>Claims</h2><p>{note}</p>{claims_table(mine)}{rest}</section>"
