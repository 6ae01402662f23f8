"""The class of a step. The rules are one table, tried from the top; the first that holds counts.

    class            scale  holds when, over the step's measured seconds
    collapsed        1      the last third delivers or accepts under COLLAPSE_THIRD of the best
                            third, and so do all of the last seconds, more than STALL_SECONDS; or
                            delivery is under COLLAPSE_VERSUS_BEST of an earlier step's, or nothing
                            at all
    swinging         2      delivered or published per second varies by more than SWING_CV
    backlog growing  4      backlog rises by over GROWTH_SHARE of what is published, and in all by
                            over GROWTH_SECONDS worth of publishing
    swinging         2      p95 latency moves by SWING_LATENCY_RATIO or more, beyond SLOW_MS
    steady           4      none of these, but messages wait: p95 latency is SLOW_MS or more
    steady           3      none of these

Latency here is service latency: the broker's own, without the time for which publishers wait before
they may write. The post accepts 3 and 4 and aims for 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluicemq.spark.pipeline.formats import duration, share
from sluicemq.spark.pipeline.results import StepClass
from sluicemq.spark.pipeline.spread import mean, median, slope, variation

COLLAPSE_THIRD: Final = 0.5
COLLAPSE_VERSUS_BEST: Final = 0.25
THIRDS_MIN_SECONDS: Final = 3
STALL_SECONDS: Final = 3
"""A pause is a swing wherever it lies, however long, if the step recovers from it; at the end of a
step there is no time for that, so a pause of at most this many seconds there is a swing, too."""
SWING_CV: Final = 0.25
SWING_LATENCY_RATIO: Final = 10.0
SLOW_MS: Final = 1000.0
GROWTH_SHARE: Final = 0.02
GROWTH_SECONDS: Final = 0.25

RULES: Final = (
    (
        "collapsed",
        "1",
        f"the last third of the step delivers or accepts less than {share(COLLAPSE_THIRD)} of its "
        f"best third, and so does each of its last {STALL_SECONDS + 1} s; or the step delivers "
        f"less than {share(COLLAPSE_VERSUS_BEST)} of an earlier step, or nothing",
    ),
    (
        "swinging",
        "2",
        "delivered or published messages per second have a coefficient of variation above "
        f"{SWING_CV:g}; or p95 service latency moves by a factor of {SWING_LATENCY_RATIO:g} or "
        f"more and beyond {SLOW_MS / 1000:g} s",
    ),
    (
        "backlog growing",
        "4",
        f"the backlog rises by more than {share(GROWTH_SHARE)} of the publish rate, and over the "
        f"step by more than {GROWTH_SECONDS:g} s of publishing",
    ),
    (
        "steady",
        "3 or 4",
        f"none of these; 4 when p95 service latency is {SLOW_MS / 1000:g} s or more (an old "
        "backlog stands), else 3",
    ),
)
"""Class, the post's scale, definition: for the report and the docs."""


@dataclass(frozen=True, slots=True)
class StepSeries:
    """The figures of a step that decide its class, with a value for each measured second."""

    published: Sequence[float]
    delivered: Sequence[float]
    backlog: Sequence[float]
    p95_ms: Sequence[float | None]
    """End-to-end service latency; None: nothing was delivered."""
    best_before: float = 0.0
    """Mean delivered per second of the best earlier step."""


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The class of a step, its number on the post's scale, and the reason in words."""

    step_class: StepClass
    scale: int
    reason: str


def classify(series: StepSeries) -> StepVerdict:
    """Return the class of a step, by the first rule that holds."""
    return (
        _collapsed(series)
        or _swinging_rate(series)
        or _backlog_growing(series)
        or _swinging_latency(series)
        or _steady(series)
    )


def _collapsed(series: StepSeries) -> StepVerdict | None:
    for word, values in (("delivered", series.delivered), ("published", series.published)):
        if len(values) < THIRDS_MIN_SECONDS:
            continue
        third = len(values) // 3
        thirds = [
            median(values[:third]),
            median(values[third:-third]),
            median(values[-third:]),
        ]
        best, last = max(thirds), thirds[-1]
        end = values[-(STALL_SECONDS + 1) :]
        if max(last, *end) < COLLAPSE_THIRD * best and len(end) > STALL_SECONDS:
            reason = f"{word} fell from {best:,.0f}/s to {last:,.0f}/s within the step"
            return StepVerdict(StepClass.COLLAPSED, 1, reason)
    rate = mean(series.delivered)
    if rate == 0:
        return StepVerdict(StepClass.COLLAPSED, 1, "nothing was delivered")
    if rate < COLLAPSE_VERSUS_BEST * series.best_before:
        reason = f"delivers {rate:,.0f}/s where an earlier step had {series.best_before:,.0f}/s"
        return StepVerdict(StepClass.COLLAPSED, 1, reason)
    return None


def _swinging_rate(series: StepSeries) -> StepVerdict | None:
    for word, values in (("delivered", series.delivered), ("published", series.published)):
        cv = variation(values)
        if cv is not None and cv > SWING_CV:
            span = f"{min(values):,.0f} to {max(values):,.0f}"
            reason = f"{word} per second goes from {span} (cv {cv:.2f})"
            return StepVerdict(StepClass.SWINGING, 2, reason)
    return None


def _backlog_growing(series: StepSeries) -> StepVerdict | None:
    rise, rate = slope(series.backlog), mean(series.published)
    total = rise * max(len(series.backlog) - 1, 0)
    if rise <= GROWTH_SHARE * rate or total <= GROWTH_SECONDS * rate or total <= 0:
        return None
    reason = f"backlog grows by {rise:,.0f} messages/s, {total:,.0f} over the step"
    return StepVerdict(StepClass.BACKLOG_GROWING, 4, reason)


def _swinging_latency(series: StepSeries) -> StepVerdict | None:
    known = [value for value in series.p95_ms if value is not None]
    if not known or max(known) < SLOW_MS or max(known) < SWING_LATENCY_RATIO * min(known):
        return None
    reason = f"p95 service latency goes from {duration(min(known))} to {duration(max(known))}"
    return StepVerdict(StepClass.SWINGING, 2, reason)


def _steady(series: StepSeries) -> StepVerdict:
    cv = variation(series.delivered)
    evenness = "" if cv is None else f" (cv {cv:.3f})"
    p95 = median([value for value in series.p95_ms if value is not None])
    if p95 >= SLOW_MS:
        reason = f"even throughput{evenness}, but messages wait: p95 {duration(p95)}"
        return StepVerdict(StepClass.STEADY, 4, reason)
    return StepVerdict(StepClass.STEADY, 3, f"even throughput{evenness}, p95 {duration(p95)}")
