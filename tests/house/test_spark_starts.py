"""Goal: a test whose Python process Spark gave too little time runs again, thrice at most, and no
other does. Method: pytest runs tests that fail so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = """
import pytest

runs = []

@pytest.fixture
def fresh():
    return []

@pytest.mark.parametrize("times", [1, 2, 3])
def test_too_late(times, fresh):
    runs.append(times)
    fresh.append(times)
    assert len(fresh) == 1
    assert runs.count(times) > times, "[STREAM_FAILED] Python worker failed to connect back."

def test_something_else():
    runs.append("else")
    assert False

def test_runs():
    assert runs == [1, 1, 2, 2, 2, 3, 3, 3, "else"]
"""


def test_only_what_came_too_late_runs_again(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.spark_starts", "-rA", "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    assert [line.split(" - ")[0] for line in said] == [
        "PASSED test_it.py::test_too_late[1]",
        "PASSED test_it.py::test_too_late[2]",
        "PASSED test_it.py::test_runs",
        "FAILED test_it.py::test_too_late[3]",
        "FAILED test_it.py::test_something_else",
    ]
