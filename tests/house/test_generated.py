"""Goal: what is generated is fresh. Method: every generator is asked with --check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATORS = sorted(path.name for path in (ROOT / "tools").glob("generate_*.py"))


def test_there_are_generators() -> None:
    assert GENERATORS


@pytest.mark.parametrize("tool", GENERATORS)
def test_generated_file_is_fresh(tool: str) -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / tool), "--check"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, f"{run.stdout}{run.stderr}\nmend it with: make generated"
