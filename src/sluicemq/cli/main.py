"""The command `sluicemq`: starts what the command line names, and says in a line what it refuses.

A broker is to be ready in a fifth of a second of CPU time, and click takes a twentieth of that to
be imported. So `serve` goes without it, as long as its arguments are plain (plain_serve.py).
"""

from __future__ import annotations

import gc
import sys

from sluicemq.cli.plain_serve import plain
from sluicemq.errors import Refused

ABORTED = 1
"""The exit code after ^C, as click has it."""


def main() -> None:
    """Run the command line. A Refused is for the user to fix: one message, no traceback."""
    try:
        run(sys.argv[1:])
    except Refused as refused:
        print(f"Error: {refused}", file=sys.stderr)
        sys.exit(refused.exit_code)
    except KeyboardInterrupt:
        print("Aborted!", file=sys.stderr)
        sys.exit(ABORTED)


def run(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    if arguments[:1] == ["serve"]:
        given = plain(arguments[1:])
        if given is not None:
            gc.disable()  # as `start` does, a little earlier
            from sluicemq.cli.start import start  # noqa: PLC0415 (only what is asked for)

            start(**given)
    from sluicemq.cli.group import sluicemq  # noqa: PLC0415 (only what is asked for)

    sluicemq(prog_name="sluicemq")
