"""The top of the report: the limit to set, why, and whether anything was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluicemq.lab.measurements import Verification
from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.results import Analysis, Knee, RunResult


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure for the answer, with its name and a remark."""

    name: str
    value: str
    remark: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about the limit to set. `facts` are the figures of the recommended limit; there
    are none without one."""

    lead: str
    why: str
    caveat: str = ""
    facts: Sequence[Fact] = ()


def answer(results: Analysis) -> Answer:
    """Return the answer for the box under the title."""
    run = results.recommended
    if run is None or run.knee is None:
        reasons = "; ".join(f"{one.label}: {one.no_knee_reason}" for one in results.runs)
        return Answer(
            "These measurements do not name an in-flight limit.",
            f"{reasons[:1].upper()}{reasons[1:]}.",
        )
    knee = run.knee
    whose = f"That is what {run.label} says. " if len(results.runs) > 1 else ""
    return Answer(
        f"Let each publisher have at most {_limit_words(knee)}.",
        f"{whose}This limit is {knee.reason}.{_price(knee)}",
        knee.caveat,
        _facts(knee),
    )


def _limit_words(knee: Knee) -> str:
    words = f"{knee.in_flight_limit:,} unconfirmed message{'s' * (knee.in_flight_limit != 1)}"
    if knee.in_flight_percent is None:
        return words
    return f"{words}, {knee.in_flight_percent:g}{formats.PERCENT} of what it sends in a second"


def _price(knee: Knee) -> str:
    """Return the latency of the recommended limit, and the cost of a larger one."""
    if knee.p99_ms is None or knee.largest_p99_ms is None:
        return ""
    if knee.largest_limit == knee.in_flight_limit or knee.largest_p99_ms < knee.p99_ms:
        return f" {_arrive(knee.p99_ms)}."
    largest = f"at {knee.largest_limit:,} within {formats.duration(knee.largest_p99_ms)}"
    return f" {_arrive(knee.p99_ms)}; {largest}."


def _arrive(p99_ms: float) -> str:
    return (
        f"At it, {formats.share(0.99)} of the messages arrive within {formats.duration(p99_ms)} "
        "of their intended time"
    )


def verified(results: Analysis) -> list[tuple[bool, str]]:
    """Return for each run whether all is well with its messages, and the findings in words."""
    found = [(run, *verified_words(run)) for run in results.runs]
    several = len(found) > 1
    return [(good, f"{run.label}: {text}" if several else text) for run, good, text in found]


def verified_words(run: RunResult) -> tuple[bool, str]:
    """Return whether all is well with the run's messages and with the record of them, and the
    findings in words."""
    good, text = verification_words(run.info["verification"], run.info["confirms"])
    gaps = [
        f"{check.from_rows:,} of {check.exact:,} {check.name} messages"
        for check in run.checks
        if not check.agrees
    ]
    if not gaps and not run.damaged:
        return good, text
    words = "its files are not whole"
    if run.damaged:
        words += f", {len(run.damaged):,} cannot be read"
    if gaps:
        words += f", they have {' and '.join(gaps)}"
    return False, f"{words}; by the counts {text}"


def verification_words(found: Verification, confirms: bool) -> tuple[bool, str]:
    """Return whether all is well with the promised messages, and the counts in words. Promised are
    the confirmed ones, or all published ones when `confirms` is false."""
    promised = found["confirmed"] if confirms else found["published"]
    word = "confirmed" if confirms else "published"
    remarks = {
        "delivered twice": found["duplicates"],
        "out of order": found["out_of_order"],
        "not from this run": found["foreign"],
        "left in the queues": found["left_in_queues"],
        "neither confirmed nor nacked": found["unsettled"],
        "nacked": found["nacked"],
        "returned": found["returned"],
    }
    seen = [f"{number:,} {remark}" for remark, number in remarks.items() if number]
    head = f"{found['lost']:,} LOST" if found["lost"] else "nothing lost"
    if found["unaccounted"]:  # the broker was gone and could not tell whether they are lost
        unknown = f"{found['unaccounted']:,} UNACCOUNTED FOR"
        head = f"{head} and {unknown}" if found["lost"] else unknown
    rest = ", ".join(seen) if seen else "none twice, none out of order"
    text = f"{head} of {promised:,} {word} messages; {found['delivered']:,} deliveries, {rest}"
    if not found["drained"]:
        text += "; not everything promised had arrived when the run stopped waiting"
    faults = ("lost", "duplicates", "out_of_order", "foreign", "unaccounted")
    wrong = any(number for name, number in found.items() if name in faults)
    return not wrong and found["drained"], text


def _facts(knee: Knee) -> list[Fact]:
    part = formats.share(knee.sustained_per_s / knee.peak_per_s)
    limit = formats.limit(knee.in_flight_limit, knee.in_flight_percent)
    return [
        Fact("In-flight limit", limit, "unconfirmed messages per publisher"),
        Fact("Sustained throughput", formats.rate(knee.sustained_per_s), f"{part} of the peak"),
        Fact("p99 end to end", formats.duration(knee.p99_ms), "from the intended time"),
        Fact("Prefetch per consumer", formats.count(knee.prefetch), knee.prefetch_reason),
        Fact("Ack interval", formats.count(knee.ack_interval), knee.ack_reason),
    ]
