"""Goal: a process that gathers can be reached by whoever has its address, and ends with its
executor, whenever that ends.

Method: what a task hands over to the process it starts, without starting it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from sluicemq.spark import gatherer_start
from sluicemq.spark.gatherer import Gatherer
from sluicemq.spark.gatherer_start import GathererCall, life_of, own_place, start_on_executor
from sluicemq.spark.options import Options
from sluicemq.spark.transfer import Endpoint


def call(**options: str) -> GathererCall:
    given = {"queue": "orders", "gather": "executors"} | options
    return GathererCall(uuid.uuid4().hex, Options.parse(given, "source"), Endpoint("", 1, "", ""))


@pytest.mark.parametrize(
    ("reached_from", "place"),
    [
        ("127.0.0.1", ("driver.example", "0.0.0.0")),
        ("127.0.1.1", ("driver.example", "0.0.0.0")),
        ("::1", ("driver.example", "0.0.0.0")),
        ("10.0.0.3", ("10.0.0.3", "")),
        ("fd00::3", ("fd00::3", "")),
    ],
)
def test_nobody_is_told_a_loopback_address(reached_from: str, place: tuple[str, str]) -> None:
    """An executor on the driver's machine listens where the driver does."""
    given = call(transferHost="driver.example", transferBind="0.0.0.0")
    assert own_place(given, reached_from) == place


def test_a_process_is_handed_the_life_of_its_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it starts, the executor may end, and its number become another process's."""
    started: list[str] = []

    def start(call: GathererCall, *handles: int) -> None:
        assert call.lives_with in handles
        started.append(Path(f"/proc/self/fdinfo/{call.lives_with}").read_text())
        Path(call.lock).unlink()

    monkeypatch.setattr(gatherer_start, "start", start)
    start_on_executor(call())
    assert [f"Pid:\t{os.getppid()}\n" in each for each in started] == [True]


def test_a_task_whose_executor_has_ended_starts_nothing() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(ProcessLookupError), life_of(stranger.pid):
            raise AssertionError
    finally:
        stranger.communicate()


def test_an_executor_that_ended_before_it_was_watched_ends_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    life = os.pidfd_open(executor.pid)
    executor.communicate()
    ends: list[bool] = []
    monkeypatch.setattr(Gatherer, "end", lambda _: ends.append(True))
    Gatherer.watch(object.__new__(Gatherer), life)
    os.close(life)
    assert ends == [True]
