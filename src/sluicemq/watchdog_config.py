"""What a user may set about the watchdog, for a broker that answers nobody."""

from __future__ import annotations

from sluicemq.options import Section, dataclass, declared


@dataclass(frozen=True, kw_only=True)
class WatchdogConfig(Section):
    """What happens when the broker answers no client ([operation.md](operation.md)). Time in which
    the process is stopped, or gets no processor time, does not count."""

    report_after_ms: int = declared(
        5000,
        "count",
        "How long no client may get an answer before the broker logs what it is doing; 0 for"
        " never.",
        unit="milliseconds",
        low=100,
        or_zero=True,
        high=3_600_000,
    )
    end_after_ms: int = declared(
        60_000,
        "count",
        "How long no client may get an answer before the process exits with code 70, for a service"
        " manager to restart it; 0 for never.",
        unit="milliseconds",
        low=100,
        or_zero=True,
        high=3_600_000,
    )
