"""The command line, run in the process of a test: a Python of its own costs twenty times as much.

tests/ctl/test_live.py and tests/unit/cli/test_main.py start it as operators do.
"""

from __future__ import annotations

import subprocess

from click.testing import CliRunner

from sluicemq.cli.group import sluicemq
from sluicemq.errors import Refused


def run_command(
    *arguments: str, given: str = "", runtime: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`sluicemq` with these arguments, as it ended. `given` is its standard input, `runtime` where
    it looks for the sockets of brokers; None: where this process would."""
    env = {} if runtime is None else {"XDG_RUNTIME_DIR": runtime}
    done = CliRunner(env=env).invoke(sluicemq, arguments, input=given, prog_name="sluicemq")
    code, errors = done.exit_code, done.stderr
    if isinstance(done.exception, Refused):
        code, errors = done.exception.exit_code, f"{errors}Error: {done.exception}\n"
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([*arguments], code, done.stdout, errors)
