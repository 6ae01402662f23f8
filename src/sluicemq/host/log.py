"""The broker's log: one line an event on standard error, in UTC, as service managers like it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from sluicemq.kernel.world import Log
from sluicemq.text import printable


class HostLog(Log):
    """`2026-11-21T08:00:00.123Z [warning] memory alarm raised: ...`"""

    def write(self, level: str, text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        print(f"{now} [{level}] {printable(text)}", file=sys.stderr, flush=True)
