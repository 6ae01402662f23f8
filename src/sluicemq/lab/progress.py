"""What the conductor tells whoever watches a run. The base says nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.lab.plan import Plan, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One second of a run, of all workers together."""

    second: int
    step: Step | None
    """None: all steps are over, the rest is draining."""
    intended: int
    written: int
    confirmed: int
    delivered: int
    unconfirmed: int
    unacked: int
    blocked_connections: float
    """On average over the second."""
    messages_ready: int
    """At the last look, which may be some seconds old."""
    p50_ns: int | None
    """From intended to delivered, of a sample; None: nothing was delivered."""
    p99_ns: int | None


class Progress:
    """Override what is of interest. Called from the thread of `run_scenario`."""

    def run_planned(self, plan: Plan) -> None:
        """Before anything is done."""

    def note(self, text: str) -> None:
        """Something worth a line: a phase that begins, a sampling, a fault."""

    def second_passed(self, snapshot: Snapshot) -> None:
        """Once a second."""

    def run_ended(self) -> None:
        """No further calls."""
