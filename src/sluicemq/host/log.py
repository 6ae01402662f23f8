"""The broker's log: one line an event on standard error, in UTC, as service managers like it."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime

from sluicemq.kernel.world import Log
from sluicemq.text import printable


def line_of(level: str, text: str) -> str:
    """Return an event as it is written, without the line's end."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{now} [{level}] {printable(text)}"


class HostLog(Log):
    """Writes a line such as `2026-11-21T08:00:00.123Z [warning] memory alarm raised: ...` to
    standard error."""

    def write(self, level: str, text: str) -> None:
        """Write one line. When standard error is closed or its disk is full the line is lost: that
        is no reason to fail where the event happened."""
        with suppress(OSError, ValueError):
            print(line_of(level, text), file=sys.stderr, flush=True)
