"""Goal: `lab post` runs what is left of the post, and goes on after an interrupt. Method: the
command itself, with one small run on a node that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sluicemq.cli import lab_post, post_player
from sluicemq.cli.lab import lab
from sluicemq.lab.conductor import LabResult
from sluicemq.lab.measurements import read_run_info

SMALL = (
    *("--cluster", "1", "--queue-type", "classic", "--runs", "^1-classic-no"),
    *("--scale", "0.01", "--step-seconds", "4"),
)


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where pages were asked for; none is written."""
    asked: list[Path] = []
    monkeypatch.setattr(lab_post, "write_pages", lambda out, *_: asked.append(out))
    return asked


def post(out: Path, *options: str) -> Result:
    return CliRunner().invoke(lab, ["post", str(out), *options])


def test_a_run_is_run_once(tmp_path: Path, pages: list[Path]) -> None:
    first = post(tmp_path / "out", *SMALL)
    assert first.exit_code == 0, first.output
    assert "sluicemq: 1 of 1 runs to do, rates scaled by 0.01: about 18 s" in first.output
    assert "1/1 1-classic-no-confirms; 18 s left" in first.output
    info = read_run_info(tmp_path / "out" / "sluicemq" / "1-classic-no-confirms")
    assert (info["scale"], info["confirms"], info["profile"]) == (0.01, False, "adaptive")
    assert info["verification"]["lost"] == 0
    again = post(tmp_path / "out", *SMALL)
    assert "0 of 1 runs to do" in again.output
    assert pages == [tmp_path / "out"] * 2


def test_an_interrupted_run_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str | None] = ["interrupted", None, None]
    ran: list[str] = []

    def pretended(_: post_player.PostPlayer, run: Any) -> str | None:
        ran.append(run.name)
        return stopped.pop(0)

    monkeypatch.setattr(post_player.PostPlayer, "_play", pretended)
    options = ("--cluster", "1", "--runs", "^1-quorum")
    first = post(tmp_path / "out", *options)
    assert first.exit_code == 130
    assert "the same command goes on" in first.output
    assert post(tmp_path / "out", *options).exit_code == 0
    assert ran == ["1-quorum-no-confirms", "1-quorum-no-confirms", "1-quorum-confirms"]


def test_a_page_is_written_without_a_broker(tmp_path: Path, pages: list[Path]) -> None:
    assert post(tmp_path / "out", "--page").exit_code == 0
    assert pages == [tmp_path / "out"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "3", "--profile", "adaptive"), "--profile: the post chooses"),
        (("--cluster", "3", "--runs", "("), "--runs '(' is no regular expression"),
        (("--cluster", "3", "--scale", "0"), "--scale must be above 0"),
        (("--target", "amqp://127.0.0.1:1"), "cannot connect to"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, options: Any, said: str) -> None:
    result = post(tmp_path / "out", *options)
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)


def test_a_failed_verification_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the conductor found is told at once, and the post goes on."""
    counts = {"lost": 3, "duplicates": 0, "out_of_order": 0, "foreign": 0}
    info: Any = {"stopped": "the broker went away", "verification": counts}
    monkeypatch.setattr(
        post_player, "run_scenario", lambda *_, **__: LabResult(tmp_path / "run", info)
    )
    result = post(tmp_path / "out", *SMALL)
    assert result.exit_code == 0
    assert "verification FAILED: 3 lost" in result.output
    assert "ended early: the broker went away" in result.output
