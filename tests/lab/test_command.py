"""Goal: the command runs a scenario and says how it went. Method: click's runner, a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicemq.cli.lab import lab, parse_arguments
from sluicemq.errors import Refused
from sluicemq.lab.measurements import read_run_info


def test_a_run_prints_its_steps_its_verification_and_its_place(
    broker_url: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    options = ["--scale", "0.05", "--step-seconds", "1", "--steps", "1%,50", "--out", str(out)]
    options += ["--label", "a trial"]
    ran = CliRunner().invoke(lab, ["run", "few-fast", "--target", broker_url, *options])
    assert ran.exit_code == 0, ran.output
    assert "20 publishers x 50/s (unscaled 1,000/s)" in ran.output
    assert "step 1/2 limit 1 (1 %)" in ran.output
    assert "step 2/2 limit 50 (100 %)" in ran.output
    assert "0 lost, 0 duplicates, 0 out of order, 0 foreign" in " ".join(ran.output.split())
    assert f"measurements: {out}" in ran.output
    assert read_run_info(out).get("label") == "a trial"


def test_a_broker_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    command = ["run", "1", "--target", "amqp://127.0.0.1:1", "--out", str(tmp_path / "run")]
    ran = CliRunner().invoke(lab, command)
    assert ran.exit_code == 1
    assert "Error: cannot connect to amqp://guest@127.0.0.1:1/" in ran.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["6"], "unknown scenario '6'"),
        (["1", "--multiple", "--ack-interval", "2"], "exclude each other"),
        (["1", "--no-confirms", "--steps", "10"], "which need confirms"),
        (["1", "--queue-argument", "x"], "a queue argument is KEY=VALUE"),
        (["1", "--target", "http://h"], "is not an AMQP URL"),
    ],
)
def test_options_that_cannot_be_are_refused(options: list[str], text: str) -> None:
    ran = CliRunner().invoke(lab, ["run", *options])
    assert isinstance(ran.exception, Refused)
    assert text in str(ran.exception)


def test_queue_arguments_have_types() -> None:
    pairs = ["x-max-length=10", "x-single-active-consumer=true", "x-queue-mode=lazy", "n=-1"]
    assert parse_arguments(pairs) == {
        "x-max-length": 10,
        "x-single-active-consumer": True,
        "x-queue-mode": "lazy",
        "n": -1,
    }
