"""Goal: `sluicemq sim` replays a seed and says what happened. Method: call the command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from sim.canaries import CANARIES
from sluicemq.cli.sim import sim
from sluicemq.sim.run import simulate

STEPS = ["--steps", "800"]


def test_a_run_shows_parameters_figures_digest_and_verdict() -> None:
    result = CliRunner().invoke(sim, ["3", *STEPS])
    assert result.exit_code == 0
    shown = {
        " ".join(line.split()[:-1]): line.split()[-1] for line in result.output.splitlines() if line
    }
    assert shown["seed"] == "3"
    assert shown["digest"] == simulate(3, steps=800).digest
    assert shown["verdict"] == "passed"
    assert int(shown["published"]) > 0
    assert "blocked ms reader" in shown


def test_a_failure_shows_the_last_events_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES["credit_never_settled"](monkeypatch)
    result = CliRunner().invoke(sim, ["4"])
    assert result.exit_code == 1
    assert (
        "verdict                FAILED in safety: PromiseBroken: credit to channel" in result.output
    )
    assert "virtual ms" in result.output
    assert "Traceback" in result.output


def test_many_seeds_take_a_line_each() -> None:
    result = CliRunner().invoke(sim, ["10", "--count", "3", "--profile", "adaptive", *STEPS])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["10", "11", "12"]
    assert all("adaptive" in line and "passed" in line for line in lines[:3])
    assert lines[3] == "3 seeds, 0 failed"


def test_many_seeds_of_which_one_fails_exit_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES["credit_never_settled"](monkeypatch)
    result = CliRunner().invoke(sim, ["0", "--count", "4", *STEPS])
    assert result.exit_code == 1
    assert "FAILED" in result.output


def test_the_trace_has_a_line_for_every_event() -> None:
    result = CliRunner().invoke(sim, ["3", "--trace", *STEPS])
    numbers = [line.split()[0] for line in result.output.splitlines() if line[:7].strip().isdigit()]
    assert numbers[:3] == ["1", "2", "3"]
    assert len(numbers) == simulate(3, steps=800).events


def test_the_short_log_has_the_last_events_of_a_run_that_passed() -> None:
    result = CliRunner().invoke(sim, ["3", "--short-log", *STEPS])
    last = result.output.splitlines()[-1]
    assert int(last.split()[0]) == simulate(3, steps=800).events
