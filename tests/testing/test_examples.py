"""Goal: the examples of tests run as they are, by each framework's own runner.

Method: pytest over all of them, without this project's settings; pytest-xdist and unittest over
theirs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "testing"
PATIENCE_S = 600


def run(*arguments: str) -> str:
    """What a module of Python's says, which must succeed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=EXAMPLES,
        env=clean | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


ALONE = ("-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider")


def test_pytest_runs_the_examples() -> None:
    assert "16 passed" in run("pytest", *ALONE, "-p", "no:xdist")


def test_pytest_xdist_runs_its_example() -> None:
    assert "4 passed" in run("pytest", *ALONE, "-n", "2", "test_parallel.py")


def test_unittest_runs_its_example() -> None:
    assert "Ran 2 tests" in run("unittest", "test_unittest.py")


def test_there_is_one_for_each_framework() -> None:
    names = {path.stem.removeprefix("test_") for path in EXAMPLES.glob("test_*.py")}
    asyncio, threads = {"aio_pika", "faststream", "taskiq"}, {"celery", "dramatiq"}
    assert names == {"pika", "parallel", "unittest"} | asyncio | threads
