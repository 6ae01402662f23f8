"""The results of a whole post, broker by broker; each broker's own runs judge its claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sluicemq.lab.measurements import RunInfo
from sluicemq.spark.pipeline.claims import evaluate, is_usual
from sluicemq.spark.pipeline.post_claims import CLAIMS
from sluicemq.spark.pipeline.results import ClaimResult, Outcome, RunResult

OURS: Final = "SluiceMQ"
GOAL: Final = 3
"""The class that every step is to have, on the post's scale: ingress limited, throughput even."""

BOUND: Final = "x-max-in-memory-length"


@dataclass(frozen=True)
class PostBroker:
    """One broker's runs of the post. `name` is its product with its version."""

    name: str
    runs: Sequence[RunResult]

    @cached_property
    def claims(self) -> list[ClaimResult]:
        """All claims of the post, judged by these runs, in their order."""
        return evaluate(CLAIMS, self.runs)

    @property
    def is_ours(self) -> bool:
        """Whether the broker is SluiceMQ."""
        return self.name.startswith(OURS)

    @property
    def usual_runs(self) -> list[RunResult]:
        """The runs of the post itself, without those that change one setting for a claim."""
        return [run for run in self.runs if is_usual(run) and not is_in_memory(run.info)]

    def count(self, outcome: Outcome) -> int:
        """Return how many claims have this outcome."""
        return sum(claim.outcome is outcome for claim in self.claims)

    def run_of(self, key: RunKey) -> RunResult | None:
        """Return the run of this scenario, type of queues and mode; None when there is none."""
        return next((run for run in self.usual_runs if key_of(run.info) == key), None)


RunKey = tuple[int, str, str]
"""A scenario's number, a type of queues, and a mode: "no confirms", "confirms" or "multiple"."""


def mode_of(info: RunInfo) -> str:
    """Return how a run's clients confirmed and acknowledged, in a word or two."""
    if not info["confirms"]:
        return "no confirms"
    return "confirms" if info["ack_interval"] <= 1 else "multiple"


def key_of(info: RunInfo) -> RunKey:
    """Return the key that identifies a run among those of its broker."""
    return info["scenario"], info["queue_type"], mode_of(info)


def is_in_memory(info: RunInfo) -> bool:
    """Return whether this is the quorum run without the bound that the post's runs have."""
    return info["queue_type"] == "quorum" and BOUND not in info["queue_arguments"]


def label_of(info: RunInfo) -> str:
    """Return the name of a run in the evidence for a claim."""
    words = [f"scenario {info['scenario']}", info["queue_type"], mode_of(info)]
    profile = info.get("profile")
    if profile and profile != "adaptive":
        words.append(profile)
    if is_in_memory(info):
        words.append("in memory")
    return ", ".join(words)


@dataclass(frozen=True)
class Post:
    """All runs of the post: the brokers, ours first."""

    brokers: Sequence[PostBroker]

    @property
    def keys(self) -> list[RunKey]:
        """Every scenario, type and mode that some broker has run, in the post's order."""
        found = {key_of(run.info) for broker in self.brokers for run in broker.usual_runs}
        modes = ["no confirms", "confirms", "multiple"]
        return sorted(found, key=lambda key: (key[0], key[1], modes.index(key[2])))

    @property
    def any_info(self) -> RunInfo:
        """The run.json of any run, for the facts that all of them share."""
        return self.brokers[0].runs[0].info


def order(run: RunResult) -> tuple[RunKey, str]:
    """Return the sort key of a run among those of its broker."""
    return key_of(run.info), run.label
