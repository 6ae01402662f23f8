"""Goal: the unit that is delivered is one, shuts the broker in, and says what the broker does.
Method: systemd's own tools read it, where they are installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluicemq.host.control_path import SERVICE_DIR
from sluicemq.host.run import END_SECONDS

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "sluicemq.service"
EXPOSURE_MAX = 25
"""On systemd's scale of 0, shut in, to 100."""

analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@analyze
def test_systemd_reads_the_unit_without_a_complaint(tmp_path: Path) -> None:
    placed = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/opt/sluicemq/bin/sluicemq", sys.executable)
    placed.write_text(text)
    run = systemd_analyze("verify", str(placed))
    ours = [line for line in run.stderr.splitlines() if UNIT.name in line]
    assert ours == []


@analyze
def test_the_service_is_shut_in() -> None:
    run = systemd_analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", str(UNIT))
    assert run.returncode == 0, run.stdout


def test_it_says_what_the_broker_does() -> None:
    unit = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert unit["Type"] == "notify"
    assert int(unit["TimeoutStopSec"]) > END_SECONDS
    assert unit["Environment"] == f"XDG_RUNTIME_DIR={SERVICE_DIR}"
    assert unit["RuntimeDirectory"] == SERVICE_DIR.name
