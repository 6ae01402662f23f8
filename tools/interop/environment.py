"""The virtual environment with the clients and what their tests need, all pinned."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sources import call

PINS = Path(__file__).with_name("requirements.txt")


def prepare(cache: Path) -> Path:
    """Its Python; made anew when the pins have changed."""
    place = cache / "environment"
    python = place / "bin" / "python"
    stamp = place / "pins.txt"
    if stamp.exists() and stamp.read_text() == PINS.read_text():
        return python
    print("Installing the clients and their test tools ...", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    call([sys.executable, "-m", "venv", str(place)], cache)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    call([*pip, "--no-deps", "--requirement", str(PINS)], cache)
    stamp.write_text(PINS.read_text())
    return python
