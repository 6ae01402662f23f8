"""The report's tables, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.drawing import CLASS_SIGNS
from sluicemq.spark.pipeline.results import (
    ClaimResult,
    Imbalance,
    Outcome,
    RunResult,
    Step,
    StepClass,
)

CLASS_TONES: Final = {
    StepClass.STEADY: "good",
    StepClass.BACKLOG_GROWING: "fair",
    StepClass.SWINGING: "bad",
    StepClass.COLLAPSED: "bad",
}
OUTCOMES: Final = {
    Outcome.HOLDS: ("good", "✓ holds"),
    Outcome.BETTER: ("good", "★ better"),
    Outcome.FAILS: ("bad", "✕ does not hold"),
    Outcome.UNTESTED: ("dull", "not tested"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of steps."""

    title: str
    cell: Callable[[Step], str]


Group = tuple[str, Sequence[Column]]


def _latency(kind: str, percentile: str) -> Callable[[Step], str]:
    def cell(step: Step) -> str:
        percentiles = getattr(step.latencies, kind)
        return formats.duration(getattr(percentiles, f"{percentile}_ms"))

    return cell


THROUGHPUT: Final[Group] = (
    "Messages per second",
    (
        Column("published", lambda step: formats.count(step.published_per_s)),
        Column("delivered", lambda step: formats.count(step.delivered_per_s)),
        Column("of wanted", lambda step: formats.share(step.sustained_per_s / step.target_per_s)),
    ),
)
END_TO_END: Final[Group] = (
    "End-to-end latency",
    (
        Column("p50", _latency("end_to_end_response", "p50")),
        Column("p75", _latency("end_to_end_response", "p75")),
        Column("p95", _latency("end_to_end_response", "p95")),
        Column("p99", _latency("end_to_end_response", "p99")),
        Column("max", _latency("end_to_end_response", "max")),
        Column("p99 from write", _latency("end_to_end_service", "p99")),
    ),
)
CONFIRM: Final[Group] = (
    "Confirm latency",
    (
        Column("p50", _latency("confirm_response", "p50")),
        Column("p99", _latency("confirm_response", "p99")),
        Column("max", _latency("confirm_response", "max")),
        Column("p99 from write", _latency("confirm_service", "p99")),
    ),
)
WAITING: Final[Group] = (
    "Waiting messages",
    (
        Column(
            "backlog change", lambda step: formats.signed(step.backlog_last - step.backlog_first)
        ),
        Column("backlog max", lambda step: formats.count(step.backlog_max)),
        Column("unconf. max", lambda step: formats.count(step.unconfirmed_max)),
        Column("unacked max", lambda step: formats.count(step.unacked_max)),
        Column("held back", lambda step: formats.count(step.abandoned)),
    ),
)
BROKER: Final[Group] = (
    "Broker",
    (
        Column("blocked", lambda step: formats.share(step.blocked_share)),
        Column("CPU/message", lambda step: formats.microseconds(step.broker_cpu_us_per_message)),
        Column("RSS max", lambda step: formats.mebibytes(step.broker_rss_max_bytes)),
    ),
)


def steps_table(run: RunResult) -> str:
    """Two tables, so that neither is too wide to read: rates and latencies, then the rest."""
    latency: list[Group] = [THROUGHPUT, END_TO_END]
    if run.info["confirms"]:
        latency.append(CONFIRM)
    return _step_table(run, latency) + _step_table(run, [WAITING, BROKER], classes=True)


def _step_table(run: RunResult, groups: Sequence[Group], classes: bool = False) -> str:
    chosen = run.knee.step if run.knee is not None else None
    group_row = "".join(
        f'<th scope="colgroup" colspan="{len(columns)}">{title}</th>' for title, columns in groups
    )
    titles = "".join(f'<th scope="col">{x.title}</th>' for _, columns in groups for x in columns)
    if classes:
        group_row += "<th></th>"
        titles += '<th class="text" scope="col">class, and the post\'s scale</th>'
    body = []
    for step in run.steps:
        name = formats.limit(step.in_flight_limit, step.in_flight_percent)
        cells = "".join(
            f'<td class="number">{x.cell(step)}</td>' for _, columns in groups for x in columns
        )
        cells += f'<td class="text class">{_class_cell(step)}</td>' if classes else ""
        mark = ' class="chosen"' if step.step == chosen else ""
        body.append(f'<tr{mark}><th scope="row">{name}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table><thead><tr class="group"><th></th>{group_row}</tr>'
        f'<tr><th scope="col">in-flight limit</th>{titles}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _class_cell(step: Step) -> str:
    return f"{class_chip(step)} {step.scale}<br>{escape(step.class_reason)}"


def class_chip(step: Step) -> str:
    """The class with its sign: colour is never the only difference."""
    tone = CLASS_TONES[step.step_class]
    return f'<span class="chip {tone}">{CLASS_SIGNS[step.step_class]} {step.step_class}</span>'


def balance_table(run: RunResult) -> str:
    """Imbalance between clients and queues, jitter between seconds."""
    kinds = ("publishers", "queues", "consumers", "queue latency")
    group_row = "".join(f'<th scope="colgroup" colspan="2">{kind}</th>' for kind in kinds)
    titles = '<th scope="col">max/mean</th><th scope="col">cv</th>' * len(kinds)
    body = []
    for step in run.steps:
        balance = step.imbalance
        parts = (balance.publishers, balance.queues, balance.consumers, balance.queue_latency)
        jitter = (step.published_cv, step.delivered_cv, step.latency_cv)
        cells = "".join(_imbalance_cells(part) for part in parts)
        cells += "".join(f"<td>{formats.variation(value)}</td>" for value in jitter)
        name = formats.limit(step.in_flight_limit, step.in_flight_percent)
        body.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table><thead><tr class="group"><th></th>{group_row}'
        f'<th scope="colgroup" colspan="3">jitter (cv)</th></tr><tr><th scope="col">in-flight limit'
        f'</th>{titles}<th scope="col">published</th><th scope="col">delivered</th>'
        f'<th scope="col">p95 latency</th></tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _imbalance_cells(part: Imbalance) -> str:
    return f"<td>{formats.ratio(part.max_over_mean)}</td><td>{formats.variation(part.cv)}</td>"


def runs_table(runs: Sequence[RunResult]) -> str:
    """A row a run."""
    titles = (
        "wanted",
        "published",
        "delivered",
        "p50",
        "p99",
        "max",
        "p99 from write",
        "recommended limit",
        "lost",
    )
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(_run_row(run) for run in runs)
    return (
        f'<div class="wide"><table><thead><tr><th scope="col">run</th>{head}'
        f'<th class="text" scope="col">steps</th></tr></thead><tbody>{body}</tbody></table></div>'
    )


def _run_row(run: RunResult) -> str:
    response = run.latencies.end_to_end_response
    cells = (
        formats.rate(run.target_per_s),
        formats.rate(_mean_rate(run, lambda step: step.published_per_s)),
        formats.rate(_mean_rate(run, lambda step: step.delivered_per_s)),
        formats.duration(response.p50_ms),
        formats.duration(response.p99_ms),
        formats.duration(response.max_ms),
        formats.duration(run.latencies.end_to_end_service.p99_ms),
        formats.count(run.knee.in_flight_limit if run.knee else None),
        formats.count(run.info["verification"]["lost"]),
    )
    tally = {
        step.step_class: sum(x.step_class is step.step_class for x in run.steps)
        for step in run.steps
    }
    steps = "".join(
        f'<span class="chip {CLASS_TONES[name]}">{CLASS_SIGNS[name]} {number} {name}</span> '
        for name, number in tally.items()
    )
    return (
        f'<tr><th scope="row">{escape(run.label)}</th>'
        + "".join(f'<td class="number">{cell}</td>' for cell in cells)
        + f'<td class="text">{steps}</td></tr>'
    )


def _mean_rate(run: RunResult, value: Callable[[Step], float]) -> float:
    """Over the measured seconds of all steps."""
    seconds = sum(step.measured_s for step in run.steps)
    return sum(value(step) * step.measured_s for step in run.steps) / max(seconds, 1)


def claims_table(claims: Iterable[ClaimResult]) -> str:
    """A row a claim."""
    body = []
    for claim in claims:
        tone, word = OUTCOMES[claim.outcome]
        words = "; ".join(part for part in (claim.evidence, claim.elsewhere) if part)
        evidence = escape(words[:1].upper() + words[1:])
        body.append(
            f'<tr><th scope="row">{claim.claim}</th><td class="text">{escape(claim.text)}</td>'
            f'<td class="text"><span class="chip {tone}">{word}</span></td>'
            f'<td class="text">{evidence}.</td></tr>'
        )
    return (
        '<div class="wide"><table><thead><tr><th scope="col">id</th><th class="text" scope="col">'
        'the post says</th><th class="text" scope="col">here</th><th class="text" scope="col">'
        f"evidence</th></tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def rules_table(rules: Iterable[tuple[str, str, str]]) -> str:
    """The definitions of the classes."""
    body = "".join(
        f'<tr><th scope="row">{name}</th><td class="text">{scale}</td>'
        f'<td class="text">{escape(text)}</td></tr>'
        for name, scale, text in rules
    )
    titles = ("the post's scale", "when, over its measured seconds; the first that applies")
    head = "".join(f'<th class="text" scope="col">{title}</th>' for title in titles)
    return (
        f'<div class="wide"><table><thead><tr><th scope="col">class</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
