"""Finds the knee: the smallest in-flight limit that carries nearly all a broker can carry.

A larger limit buys no throughput, only waiting messages. Prefetch and ack interval are recommended,
too, each with the run's evidence for it.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final

from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline.formats import duration, share
from sluicemq.spark.pipeline.results import Knee, Step, StepClass

WITHIN: Final = 0.05
"""The share by which the knee's throughput may be below the peak."""

ACK_SHARE: Final = 0.1
"""The ack interval as a share of the prefetch, by the post's rule."""

USED_UP: Final = 0.9
"""The share of a prefetch which, when it is filled, holds consumers up."""

NEARLY: Final = 0.97
"""The share of the wanted rate that counts as reaching it."""

SLOWER: Final = 1.5
"""The factor by which a p99 must exceed that of another limit to be worth a remark."""

UNSOUND: Final = (StepClass.COLLAPSED, StepClass.SWINGING)


def find_knee(info: RunInfo, limited: list[Step]) -> tuple[Knee | None, str]:
    """Return the knee among steps that are sorted by limit, and an empty text; or None, and the
    reason why there is no knee."""
    if info["stopped"]:
        return None, f"the run ended early ({info['stopped']}), with limits untried"
    if not limited:
        return None, "the run had no in-flight limit" if info["confirms"] else "confirms were off"
    sound = [step for step in limited if step.step_class not in UNSOUND]
    if not sound:
        return None, "every step swings or collapses: no limit of this run can be recommended"
    peak = max(sound, key=lambda step: step.sustained_per_s)
    if peak.sustained_per_s == 0:
        return None, "nothing was delivered"
    enough = (1 - WITHIN) * peak.sustained_per_s
    chosen = next(step for step in sound if step.sustained_per_s >= enough)
    return _make_knee(info, limited, sound, chosen, peak), ""


def _make_knee(
    info: RunInfo, limited: list[Step], sound: list[Step], chosen: Step, peak: Step
) -> Knee:
    prefetch, prefetch_reason = recommend_prefetch(info, chosen)
    ack_interval, ack_reason = recommend_ack_interval(info, prefetch)
    return Knee(
        in_flight_limit=chosen.in_flight_limit or 0,
        in_flight_percent=chosen.in_flight_percent,
        step=chosen.step,
        sustained_per_s=chosen.sustained_per_s,
        peak_per_s=peak.sustained_per_s,
        peak_limit=peak.in_flight_limit or 0,
        p99_ms=chosen.latencies.end_to_end_response.p99_ms,
        largest_limit=limited[-1].in_flight_limit or 0,
        largest_p99_ms=limited[-1].latencies.end_to_end_response.p99_ms,
        reason=_reason(chosen, peak, len(limited)),
        caveat=_caveats(limited, sound, chosen),
        prefetch=prefetch,
        prefetch_reason=prefetch_reason,
        ack_interval=ack_interval,
        ack_reason=ack_reason,
    )


def _reason(chosen: Step, peak: Step, tried: int) -> str:
    if tried == 1:
        return f"the only one tried: {peak.sustained_per_s:,.0f}/s"
    reason = f"the smallest of {tried} limits within {share(WITHIN)} of the peak"
    if chosen is peak:
        return f"{reason}; none carries more than its {peak.sustained_per_s:,.0f}/s"
    part = chosen.sustained_per_s / peak.sustained_per_s
    return (
        f"{reason}: {chosen.sustained_per_s:,.0f}/s, {share(part)} of the "
        f"{peak.sustained_per_s:,.0f}/s that a limit of {peak.in_flight_limit:,} reaches"
    )


def _caveats(limited: list[Step], sound: list[Step], chosen: Step) -> str:
    """Return further remarks for a reader of the recommendation."""
    remarks = []
    if all(step.sustained_per_s >= NEARLY * step.target_per_s for step in sound):
        which = "every limit" if len(sound) == len(limited) else "every limit not passed over"
        remarks.append(f"{which} reached the wanted rate, so the broker's own maximum is higher")
    if len(limited) > 1 and chosen is limited[0] and (chosen.in_flight_limit or 0) > 1:
        remarks.append("it is the smallest limit tried; a smaller one may do as well")
    elif len(limited) > 1 and chosen is limited[-1]:
        remarks.append("it is the largest limit tried; a larger one may carry more")
    quickest = min(sound, key=_p99)
    if _p99(chosen) > SLOWER * _p99(quickest):
        remarks.append(
            f"a limit of {quickest.in_flight_limit:,} has less latency: 99\u00a0% within "
            f"{duration(_p99(quickest))} of the intended time, here {duration(_p99(chosen))}"
        )
    passed = [f"{x.in_flight_limit:,} ({x.step_class})" for x in limited if x not in sound]
    if passed:
        remarks.append("passed over: " + ", ".join(passed))
    return "; ".join(remarks)


def _p99(step: Step) -> float:
    """Return the p99 of end-to-end response latency in ms; infinite when nothing was measured."""
    value = step.latencies.end_to_end_response.p99_ms
    return inf if value is None else value


def recommend_prefetch(info: RunInfo, chosen: Step) -> tuple[int, str]:
    """Return the prefetch to recommend, and why: always the run's own, with how much of it was
    used."""
    prefetch = info["prefetch"]
    if not info["ack_interval"]:
        return prefetch, "not tested: the run used automatic acks, which no prefetch bounds"
    unacked = chosen.unacked_max / info["consumers"]
    # Rounded up: the share of a large prefetch may be tiny, but it is not 0 %.
    used = max(ceil(unacked / prefetch * 1000), 1) / 1000
    seen = f"as tested; at most {share(used)} of it was seen in use"
    if unacked < USED_UP * prefetch:
        return prefetch, f"{seen}, so it held nobody up"
    return prefetch, f"{seen}: it was used up, a larger one may carry more"


def recommend_ack_interval(info: RunInfo, prefetch: int) -> tuple[int, str]:
    """Return the ack interval to recommend, and why: the run's own if it acknowledged by multiple,
    else a share of the prefetch by the post's rule."""
    interval = info["ack_interval"]
    if interval > 1:
        return interval, f"as tested, {share(interval / prefetch)} of the prefetch"
    by_rule = max(1, round(prefetch * ACK_SHARE))
    used = "single acks" if interval == 1 else "automatic acks"
    return by_rule, f"{share(ACK_SHARE)} of the prefetch, the post's rule; this run used {used}"
