"""The predicates behind the post's claims: each looks at one run, or compares several.

Rates are held against the run's own target, so that a scaled run is judged like the post's. Latency
is end-to-end service latency at p99 unless said otherwise: the post's clients stamped a message
when they sent it. A claim about trouble "holds" when the trouble is there; where it is not, the
outcome is "better".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sluicemq.spark.pipeline.claims import Compare, Finding, Judge
from sluicemq.spark.pipeline.formats import SPACE, duration, limit, share
from sluicemq.spark.pipeline.results import Outcome, RunResult, Step, StepClass

MET: Final = 0.97
"""Share of the target that counts as reaching it."""

ALIKE: Final = 0.05
"""Rates this close are the same."""

MUCH: Final = 5.0
"""A latency that grew by this factor has shot up."""

SLIGHTLY_UNDER: Final = 0.85
FULL_LIMIT: Final = 100
OVERFULL_LIMIT: Final = 200
ACCEPTABLE: Final = (3, 4)
"""Of the post's scale."""


def decide(holds: bool, better: bool, evidence: str) -> Finding:
    """Better counts before holds."""
    outcome = Outcome.BETTER if better else Outcome.HOLDS if holds else Outcome.FAILS
    return Finding(outcome, evidence)


def p95(step: Step) -> float:
    """End-to-end service latency, ms."""
    return step.latencies.end_to_end_service.p95_ms or 0.0


def p99(step: Step) -> float:
    """End-to-end service latency, ms."""
    return step.latencies.end_to_end_service.p99_ms or 0.0


def met(step: Step) -> bool:
    """Both rates reach the target."""
    return step.sustained_per_s >= MET * step.target_per_s


def calm(step: Step) -> bool:
    """3 or 4 on the post's scale."""
    return step.scale in ACCEPTABLE


def by_limit(run: RunResult) -> list[Step]:
    """The steps, smallest limit first; the one step of a run without limits."""
    return run.limited_steps or run.steps


def peak(run: RunResult) -> float:
    """The best rate a step sustained."""
    return max(step.sustained_per_s for step in run.steps)


def figures(step: Step) -> str:
    """A step in a line of evidence."""
    if step.in_flight_limit is None:
        name = ""
    else:
        name = f"limit {limit(step.in_flight_limit, step.in_flight_percent)}: "
    return (
        f"{name}{step.published_per_s:,.0f}/s in, {step.delivered_per_s:,.0f}/s out of "
        f"{step.target_per_s:,.0f}/s wanted, p99{SPACE}{duration(p99(step))}, {step.step_class}"
    )


def ends(run: RunResult) -> str:
    """The smallest and the largest limit in a line of evidence."""
    steps = by_limit(run)
    return "; ".join(figures(step) for step in (steps[:1] + steps[1:][-1:]))


def meets_target_under(limit_ms: float) -> Judge:
    """Every step at the target, evenly, with latency below the limit; better: below a tenth."""

    def judge(run: RunResult) -> Finding:
        even = all(met(step) and step.step_class is StepClass.STEADY for step in run.steps)
        slowest = max(p99(step) for step in run.steps)
        return decide(even and slowest < limit_ms, even and slowest < limit_ms / 10, ends(run))

    return judge


def limits_alike(run: RunResult) -> Finding:
    """The rate does not depend on the limit, and no step is unsteady."""
    rates = [step.sustained_per_s for step in run.steps]
    alike = min(rates) >= (1 - ALIKE) * max(rates)
    return decide(
        alike and all(calm(step) for step in run.steps),
        False,
        f"{min(rates):,.0f} to {max(rates):,.0f}/s over {len(rates)} limits; {ends(run)}",
    )


def rises_to_target(run: RunResult) -> Finding:
    """Slightly under the target at the smallest limit, at it later; latency rises, below 1 s."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    low = first.sustained_per_s >= SLIGHTLY_UNDER * first.target_per_s and p99(first) < 200
    under = all(p99(step) < 1000 for step in run.steps)
    at_once = all(met(step) and p99(step) < 200 for step in run.steps)
    return decide(low and met(last) and under and p99(last) > p99(first), at_once, ends(run))


def runs_away(run: RunResult) -> Finding:
    """Rates settle under the target, more goes in than out, queues fill."""
    step = run.steps[0]
    fills = step.published_per_s > step.delivered_per_s
    holds = not met(step) and fills and step.step_class is StepClass.BACKLOG_GROWING
    return decide(holds, calm(step) and p99(step) < 1000, figures(step))


def peak_at_once(run: RunResult) -> Finding:
    """The smallest limit carries the peak; p95 shoots up with the limit."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    at_once = first.sustained_per_s >= (1 - ALIKE) * peak(run)
    shoots = p95(last) > MUCH * p95(first)
    evidence = f"p95 {duration(p95(first))} to {duration(p95(last))}; {ends(run)}"
    return decide(at_once and shoots, at_once and not shoots and calm(last), evidence)


def no_back_pressure(run: RunResult) -> Finding:
    """The target is reached and nobody is blocked."""
    step = run.steps[0]
    evidence = f"{figures(step)}, publishers blocked {share(step.blocked_share)} of the time"
    return decide(met(step) and step.blocked_share == 0, False, evidence)


def full_limit_reaches_target(run: RunResult) -> Finding:
    """The 100 % limit reaches the target; better: a smaller one does."""
    reaching = [step for step in by_limit(run) if met(step)]
    percent = min((step.in_flight_percent or 0 for step in reaching), default=0)
    return decide(percent == FULL_LIMIT, 0 < percent < FULL_LIMIT, ends(run))


def little_jitter(run: RunResult) -> Finding:
    """The target is met; jitter at the smallest limit is gone at the largest."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    jitter = [step.delivered_cv or 0.0 for step in (first, last)]
    all_met = all(met(step) for step in run.steps)
    evidence = f"cv {jitter[0]:.3f} at the smallest limit, {jitter[1]:.3f} at the largest; "
    return decide(
        all_met and jitter[0] >= jitter[1], all_met and jitter[0] < 0.01, evidence + ends(run)
    )


def wild(run: RunResult) -> Finding:
    """Throughput swings and latency is over a minute."""
    step = run.steps[0]
    return decide(not calm(step) or p99(step) > 60_000, step.scale == 3, figures(step))


def stable_at_low_limits(run: RunResult) -> Finding:
    """All steps acceptable, consumers keep up, and the smallest limit is the best."""
    steps = by_limit(run)
    keeps_up = all(step.delivered_per_s >= MET * step.published_per_s for step in steps)
    lowest = run.knee is not None and run.knee.in_flight_limit == steps[0].in_flight_limit
    return decide(all(calm(step) for step in steps) and keeps_up and lowest, False, ends(run))


def queues_fill(run: RunResult) -> Finding:
    """Publishers reach the target, consumers do not; better: both do."""
    step = run.steps[0]
    published = step.published_per_s >= MET * step.target_per_s
    growing = step.step_class is StepClass.BACKLOG_GROWING
    return decide(published and growing, met(step) and not growing, figures(step))


def trouble_above(percent: int) -> Judge:
    """Acceptable below the limit of `percent`, trouble from there; better: no trouble at all."""

    def judge(run: RunResult) -> Finding:
        steps = by_limit(run)
        above = [step for step in steps if (step.in_flight_percent or 0) >= percent]
        below = [step for step in steps if step not in above]
        fine = all(step.step_class is StepClass.STEADY for step in below)
        trouble = any(step.step_class is not StepClass.STEADY for step in above)
        return decide(fine and trouble, fine and bool(above) and not trouble, ends(run))

    return judge


def collapses(run: RunResult) -> Finding:
    """The rate falls over; better: it does not."""
    step = run.steps[0]
    return decide(not calm(step), calm(step), f"{figures(step)}: {step.class_reason}")


def gains_to_the_middle(run: RunResult) -> Finding:
    """More throughput from low to middle limits, and trouble from 100 % on."""
    low, middle = by_limit(run)[0], by_limit(run)[len(by_limit(run)) // 2]
    gains = middle.sustained_per_s > (1 + ALIKE) * low.sustained_per_s
    later = trouble_above(FULL_LIMIT)(run)
    return decide(
        gains and later.outcome is Outcome.HOLDS,
        later.outcome is Outcome.BETTER,
        f"{figures(low)}; {figures(middle)}; {figures(by_limit(run)[-1])}",
    )


def counts_follow_limit(run: RunResult) -> Finding:
    """Unconfirmed messages fill the limit at every step; better: far from it at the last."""
    publishers = run.info["publishers"]
    rows = [(step, step.unconfirmed_max, (step.in_flight_limit or 0) * publishers)
            for step in by_limit(run)]  # fmt: skip
    follows = all(0.5 * most <= seen <= most for _, seen, most in rows)
    last, seen, most = rows[-1]
    evidence = (
        f"at limit {last.in_flight_limit or 0:,} at most {seen:,} unconfirmed of {most:,} allowed, "
        f"{last.unacked_max:,} unacknowledged"
    )
    return decide(follows, seen < 0.5 * most and calm(last), evidence)


def best_limit_is_small(run: RunResult) -> Finding:
    """The knee lies between 1 % and 10 % of the rate."""
    if run.knee is None or run.knee.in_flight_percent is None:
        return Finding(Outcome.FAILS, f"no knee: {run.no_knee_reason}")
    percent = run.knee.in_flight_percent
    evidence = (
        f"the knee is a limit of {limit(run.knee.in_flight_limit, percent)}: "
        f"{run.knee.sustained_per_s:,.0f}/s of {run.knee.peak_per_s:,.0f}/s"
    )
    return decide(1 <= percent <= 10, False, evidence)


def pick(
    runs: Sequence[RunResult],
    *,
    queue_type: str | None = None,
    confirms: bool | None = None,
    multiple: bool | None = None,
    scenarios: Sequence[int] | None = None,
) -> RunResult | None:
    """The first run that fits."""
    for run in runs:
        info = run.info
        if (
            queue_type in (None, info["queue_type"])
            and confirms in (None, info["confirms"])
            and multiple in (None, info["ack_interval"] > 1)
            and (scenarios is None or info["scenario"] in scenarios)
        ):
            return run
    return None


def multiple_flag(queue_type: str, gains: Callable[[RunResult, RunResult], Finding]) -> Compare:
    """Single acks against the multiple flag, all else alike."""

    def compare(runs: Sequence[RunResult]) -> Finding | None:
        single = pick(runs, queue_type=queue_type, confirms=True, multiple=False)
        several = pick(runs, queue_type=queue_type, confirms=True, multiple=True)
        return gains(single, several) if single and several else None

    return compare


def gap_narrows(single: RunResult, several: RunResult) -> Finding:
    """Less between publish and consume rate at the largest limit."""
    gaps = []
    for run in (single, several):
        last = by_limit(run)[-1]
        gaps.append((last.published_per_s - last.delivered_per_s) / max(last.published_per_s, 1))
    evidence = f"gap {share(gaps[0])} with single acks, {share(gaps[1])} with multiple"
    return decide(gaps[1] < gaps[0], max(gaps) < 0.01, evidence)


def quorum_beats_mirrored(runs: Sequence[RunResult]) -> Finding | None:
    """The best rate of each type, both with confirms."""
    quorum = pick(runs, queue_type="quorum", confirms=True)
    mirrored = pick(runs, queue_type="mirrored", confirms=True)
    if quorum is None or mirrored is None:
        return None
    evidence = f"quorum {peak(quorum):,.0f}/s, mirrored {peak(mirrored):,.0f}/s"
    return decide(peak(quorum) > peak(mirrored), False, evidence)


def latency_creeps_up(runs: Sequence[RunResult]) -> Finding | None:
    """Mirrored passes 1 s at the largest limit, quorum stays below; better: both stay below."""
    quorum = pick(runs, queue_type="quorum", confirms=True)
    mirrored = pick(runs, queue_type="mirrored", confirms=True)
    if quorum is None or mirrored is None:
        return None
    most = {run.info["queue_type"]: p99(by_limit(run)[-1]) for run in (quorum, mirrored)}
    evidence = ", ".join(f"{name} {duration(value)}" for name, value in most.items())
    return decide(most["quorum"] < 1000 <= most["mirrored"], max(most.values()) < 1000, evidence)


def few_need_no_confirms(runs: Sequence[RunResult]) -> Finding | None:
    """Without confirms few publishers are fine and many are not; with confirms many are too."""
    few = pick(runs, confirms=False, scenarios=(1, 2))
    many = pick(runs, confirms=False, scenarios=(3, 4, 5))
    many_limited = pick(runs, confirms=True, scenarios=(3, 4, 5))
    if few is None or many is None or many_limited is None:
        return None
    calm_few, calm_many = calm(few.steps[0]), calm(many.steps[0])
    helped = any(calm(step) for step in many_limited.steps)
    evidence = f"few: {figures(few.steps[0])}; many: {figures(many.steps[0])}"
    return decide(calm_few and not calm_many and helped, calm_few and calm_many, evidence)


def fewer_carry_more(runs: Sequence[RunResult]) -> Finding | None:
    """The peak of scenario 2 against those of 4 and 5, same queue type."""
    few = pick(runs, scenarios=(2,))
    many = pick(runs, scenarios=(4, 5), queue_type=few.info["queue_type"]) if few else None
    if few is None or many is None:
        return None
    evidence = (
        f"{few.info['publishers']} publishers {peak(few):,.0f}/s, "
        f"{many.info['publishers']} publishers {peak(many):,.0f}/s"
    )
    return decide(peak(few) > peak(many), False, evidence)


def memory_spikes(runs: Sequence[RunResult]) -> Finding | None:
    """Memory of quorum queues with and without x-max-in-memory-length."""
    quorum = [run for run in runs if run.info["queue_type"] == "quorum" and _rss(run)]
    bounded = [run for run in quorum if "x-max-in-memory-length" in run.info["queue_arguments"]]
    unbounded = [run for run in quorum if run not in bounded]
    if not bounded or not unbounded:
        return None
    low, high = _rss(bounded[0]), _rss(unbounded[0])
    evidence = f"{low / 2**20:,.0f} MiB with the argument, {high / 2**20:,.0f} MiB without"
    return decide(high > 1.5 * low, high <= 1.1 * low, evidence)


def _rss(run: RunResult) -> int:
    return max((step.broker_rss_max_bytes or 0 for step in run.steps), default=0)
