"""Plays a whole post on one broker, run after run, and reports the progress."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from sluicemq.cli.lab_target import LabTarget
from sluicemq.client.blocking import connect
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.conductor import INTERRUPTED, run_scenario
from sluicemq.lab.post_plan import (
    REPLICATED,
    PostClock,
    PostRun,
    PostSettings,
    clear_unfinished,
    duration_text,
    is_done,
    post_runs,
)
from sluicemq.lab.progress import Progress, progress_for

OWN: Final = "sluicemq"
"""The directory of the runs of our nodes; another broker's has its product's name."""

EXIT_INTERRUPTED: Final = 130


def matches(pattern: str, name: str) -> bool:
    """Return whether the pattern is found in a run's name. Raises Refused when it is no regular
    expression."""
    try:
        return re.search(pattern, name) is not None
    except re.error as error:
        raise Refused(f"--runs {pattern!r} is no regular expression: {error}") from error


class QuietProgress(Progress):
    """Shows notes, but nothing for each second, for logs and pipes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def note(self, text: str) -> None:
        self._say(f"  {text}")


class PostPlayer:
    """Plays those runs of a post that are not done yet, on one broker, and reports the progress."""

    def __init__(
        self, out: Path, target: LabTarget, settings: PostSettings, console: Console
    ) -> None:
        self._target = target
        self._settings = settings
        self._console = console
        self._place = out / (OWN if target.cluster else product_at(target.urls[0]))

    def play(self, queue_types: Sequence[str], pattern: str) -> None:
        """Play the runs that are not done, on these types of queues (none: the post's), whose names
        match the pattern. An interrupt ends the process; the next call repeats the interrupted run.
        """
        has_own = self._target.cluster is not None
        planned = post_runs(queue_types or REPLICATED, with_profiles=has_own)
        runs = [run for run in planned if matches(pattern, run.name)]
        left = [run for run in runs if not is_done(self._place / run.name)]
        clock = PostClock(self._settings)
        self._say(
            f"{self._place.name}: {len(left)} of {len(runs)} runs to do, rates scaled by "
            f"{self._settings.scale:g}: about {duration_text(clock.estimate_s(left))}"
        )
        for position, run in enumerate(left):
            rest = duration_text(clock.estimate_s(left[position:]))
            self._say(f"{position + 1}/{len(left)} {run.name}; {rest} left")
            began = time.monotonic()
            stopped = self._play(run)
            if stopped == INTERRUPTED:
                self._say("interrupted; the same command goes on with this run")
                sys.exit(EXIT_INTERRUPTED)
            clock.ran(run, time.monotonic() - began)

    def _play(self, run: PostRun) -> str | None:
        """Play a run, and return why it ended early; None when it did not."""
        directory = self._place / run.name
        clear_unfinished(directory)
        target = self._target.with_profile(run.profile)
        plan = run.plan(self._settings, target.urls, directory)
        progress = (
            progress_for(self._console) if self._console.is_terminal else QuietProgress(self._say)
        )
        try:
            with target.opened(directory) as there:
                plan = replace(
                    plan,
                    targets=there.urls,
                    broker_pids=there.pids,
                    profile=target.profile,
                )
                result = run_scenario(plan, progress, admin=there.admin)
        except BrokerError as error:
            raise click.ClickException(f"{run.name}: {error}") from error
        if result.problems:
            words = ", ".join(f"{count:,} {name}" for name, count in result.problems.items())
            self._say(f"  verification FAILED: {words}")
        if result.failed:
            self._say(f"  ended early: {result.info['stopped']}")
        return result.info["stopped"]

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def product_at(url: str) -> str:
    """Return the product name of the broker at this URL, in a form for a directory."""
    try:
        with connect(url) as client:
            return re.sub(r"[^a-z0-9.]+", "-", client.product.lower())
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
