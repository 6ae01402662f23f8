"""A file system of a chosen size, for tests of a disk that is full: a tmpfs, which needs root."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def sized_tmpfs(size: int, over: Path | None = None, options: str = "rw") -> Iterator[Path]:
    """Mounted while inside, on a directory of its own or over a given one. Without root the test
    that asks for it is skipped, and says so."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a disk that is full needs root, to mount a small tmpfs")
    with tempfile.TemporaryDirectory(prefix="sluicemq-test-") as made:
        place = over or Path(made)
        words = f"size={size},mode=0700,{options}"
        mount = ["mount", "-t", "tmpfs", "-o", words, "sluicemq-test", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"NOT TESTED: no tmpfs can be mounted here: {done.stderr.strip()}")
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
