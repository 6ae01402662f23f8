"""The runs of the post: every scenario on both replicated types of queues.

All runs follow from a few settings, which are kept beside the runs, so that a plan that was
interrupted goes on as it began. The directories tell which runs are done.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sluicemq.errors import Refused
from sluicemq.lab.conductor import INTERRUPTED
from sluicemq.lab.measurements import read_run_info
from sluicemq.lab.plan import RunPlan, ack_interval_multiple, at_least_one
from sluicemq.lab.scenarios import SCENARIOS, Limit, Scenario

REPLICATED: Final = ("mirrored", "quorum")
"""The types of queues of the post."""

SETTINGS: Final = "post.json"

IN_MEMORY: Final = "x-max-in-memory-length"
"""The post sets it to 0 on all quorum queues; one more run goes without, for claim 5.e."""

PROFILES: Final = ("rabbitmq-3.8.3", "rabbitmq-3.8.4")
"""The profiles before and after the changes that claims 6.a and 6.b are about."""

MANY: Final = 5
"""The scenario of the runs with one changed setting: the one with the most queues and clients."""

FREE_STEPS: Final = 2
"""A run without confirms lasts as long as this many steps: queues need time to fill."""

CLAIMED_PERCENTS: Final = (10, 100)
"""Limits that claims mention, besides the smallest and the largest."""

OVERHEAD_S: Final = 10.0
"""Seconds that a run takes besides its steps, until one has been measured: nodes, connections, the
drain."""

DRAIN_S: Final = 5.0
"""Backlogs of the post's overload take minutes to drain, and nothing is measured meanwhile."""


@dataclass(frozen=True, slots=True)
class PostSettings:
    """The settings that all runs of a post share. Raises Refused when they cannot be run."""

    scale: float
    step_seconds: int
    short: bool
    """Whether to run only those in-flight limits that claims mention."""

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise Refused(f"--scale must be above 0, not {self.scale:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRun:
    """One run of the post. `mode` is "no confirms", "confirms" or "multiple"."""

    scenario: Scenario
    queue_type: str
    mode: str
    profile: str | None = None
    """The flow profile that the run is about; None: the broker's usual one."""
    in_memory: bool = False
    """Without x-max-in-memory-length, as claim 5.e has it."""

    @property
    def name(self) -> str:
        """The name of the run and of its directory."""
        words = [str(self.scenario.number), self.queue_type, self.mode.replace(" ", "-")]
        words += [self.profile] if self.profile else []
        return "-".join([*words, *(["in-memory"] if self.in_memory else [])])

    def limits(self, settings: PostSettings) -> tuple[Limit, ...] | None:
        """The in-flight limits, scaled; None without confirms."""
        if self.mode == "no confirms":
            return None
        chosen = [*self.scenario.limits]
        if settings.short:
            ends = (chosen[0], chosen[-1])
            chosen = [x for x in chosen if x in ends or x.percent in CLAIMED_PERCENTS]
        return tuple(Limit(x.percent, at_least_one(x.messages * settings.scale)) for x in chosen)

    def seconds(self, settings: PostSettings) -> int:
        """How long its steps take together."""
        limits = self.limits(settings)
        return (FREE_STEPS if limits is None else len(limits)) * settings.step_seconds

    def plan(self, settings: PostSettings, targets: Sequence[str], directory: Path) -> RunPlan:
        """Return the plan of this run, at these targets. Raises Refused when it cannot be run."""
        limits = self.limits(settings)
        prefetch = at_least_one(self.scenario.rate * settings.scale)
        multiple = min(max(ack_interval_multiple(self.scenario, settings.scale), 2), prefetch)
        bounded = self.queue_type == "quorum" and not self.in_memory
        return RunPlan(
            scenario=self.scenario,
            targets=tuple(targets),
            directory=directory,
            queue_type=self.queue_type,
            queue_arguments={IN_MEMORY: 0} if bounded else {},
            confirms=limits is not None,
            ack_interval=multiple if self.mode == "multiple" else 1,
            scale=settings.scale,
            step_seconds=settings.step_seconds * (FREE_STEPS if limits is None else 1),
            chosen_limits=limits,
            profile=self.profile,
            drain_timeout_s=DRAIN_S,
        )


def post_runs(queue_types: Sequence[str], with_profiles: bool) -> Iterator[PostRun]:
    """Yield all runs of the post, in its order; with profiles for brokers whose profile can be
    chosen."""
    for scenario in SCENARIOS:
        modes = ["no confirms", "confirms", *(["multiple"] if scenario.multiple else [])]
        for queue_type in queue_types:
            for mode in modes:
                yield PostRun(scenario=scenario, queue_type=queue_type, mode=mode)
    if "quorum" in queue_types:
        many = next(each for each in SCENARIOS if each.number == MANY)
        yield PostRun(scenario=many, queue_type="quorum", mode="confirms", in_memory=True)
        for profile in PROFILES if with_profiles else ():
            yield PostRun(scenario=many, queue_type="quorum", mode="confirms", profile=profile)


def is_done(directory: Path) -> bool:
    """Return whether the run in that directory ended without being interrupted by the user."""
    try:
        return read_run_info(directory)["stopped"] != INTERRUPTED
    except (OSError, ValueError):
        return False


def clear_unfinished(directory: Path) -> None:
    """Delete the files that an interrupted run has left in its directory."""
    shutil.rmtree(directory, ignore_errors=True)


def settle(out: Path, defaults: PostSettings, **given: Any) -> PostSettings:
    """Return the settings of the post in `out`: those it was begun with, else the defaults with the
    `given` options, which are then kept. None means not given. Raises Refused, which names the
    option, when the post was begun with others."""
    path = out / SETTINGS
    chosen = {key: value for key, value in given.items() if value is not None}
    if not path.exists():
        settings = PostSettings(**(asdict(defaults) | chosen))
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
        return settings
    try:
        kept = PostSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise Refused(f"{path} is damaged: {error}") from error
    for key, value in chosen.items():
        begun = getattr(kept, key)
        if begun != value:
            option = f"--{key.replace('_', '-')}"
            raise Refused(f"{option}: the runs in {out} were begun with {begun}, not {value}")
    return kept


class PostClock:
    """Estimates how long runs take, from the runs so far."""

    def __init__(self, settings: PostSettings) -> None:
        self._settings = settings
        self._overhead_s: list[float] = []

    def ran(self, run: PostRun, seconds: float) -> None:
        """Learn from a run that took `seconds` in all."""
        self._overhead_s.append(max(seconds - run.seconds(self._settings), 0.0))

    def estimate_s(self, runs: Sequence[PostRun]) -> float:
        """Return how many seconds these runs will take together."""
        known = self._overhead_s
        overhead = sum(known) / len(known) if known else OVERHEAD_S
        return sum(run.seconds(self._settings) + overhead for run in runs)


def duration_text(seconds: float) -> str:
    """Return a time in words that suit an estimate: 40 s, 3 min, 1 h 20 min."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
