"""Goal: a command imports what it needs and no more; an error is one line. Method: fresh
interpreters, and what they have imported in the end.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "rich", "sluicemq.lab")
SERVE = ("sluicemq.cli.main", "sluicemq.cli.serve", "sluicemq.host.run", "sluicemq.host.data_dir")
CTL = ("sluicemq.cli.main", "sluicemq.cli.ctl", "sluicemq.cli.chain_picture")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize(("modules", "more"), [(SERVE, ()), (CTL, ("asyncio", "sluicemq.chain"))])
def test_serve_and_ctl_start_light(modules: tuple[str, ...], more: tuple[str, ...]) -> None:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    run = python("-c", program)
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert loaded & {*HEAVY, *more} == set()


def test_a_bad_option_is_one_line_and_exit_code_2() -> None:
    run = python("-m", "sluicemq", "serve", "--set", "heartbeat=soon")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "Error: command line: heartbeat = soon: must be a whole number of seconds from 0 to 65535\n"
    )


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = python("-m", "sluicemq", "serve", "--port", str(port), "--data-dir", str(tmp_path))
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert "Traceback" not in run.stderr


def test_version() -> None:
    run = python("-m", "sluicemq", "--version")
    assert run.stdout.startswith("sluicemq 0.")
