"""The broker's log: one line an event, in UTC, on standard error or in a file.

The file is opened for appending and never truncated or renamed here: to rotate it, move it away and
send SIGHUP.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from sluicemq.errors import Refused
from sluicemq.kernel.world import Log
from sluicemq.log_config import LogConfig
from sluicemq.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

STDERR: Final = 2

RANKS: Final = {
    "debug": 0,
    "info": 1,
    "notice": 2,
    "warning": 3,
    "error": 4,
    "critical": 5,
    "none": 6,
}
"""The levels, the least important first."""


def now() -> str:
    """Return the time of an event, such as 2026-11-21T08:00:00.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line_of(level: str, text: str) -> str:
    """Return an event as a line of text, without the line's end."""
    return f"{now()} [{level}] {printable(text)}"


def json_of(level: str, text: str) -> str:
    """Return an event as a line of JSON, in ASCII, without the line's end."""
    return json.dumps({"time": now(), "level": level, "msg": text})


FORMATTERS: Final[dict[str, Callable[[str, str], str]]] = {"plaintext": line_of, "json": json_of}


class HostLog(Log):
    """Writes a line such as `2026-11-21T08:00:00.123Z [warning] memory alarm raised: ...` to
    standard error, or to the configured file. Raises Refused when the file cannot be opened."""

    def __init__(self, config: LogConfig | None = None) -> None:
        config = config or LogConfig()
        self.line = FORMATTERS[config.formatter]
        self.least = RANKS[config.level]
        self.path = Path(config.dir or "", config.file).absolute() if config.file else None
        """The file; None: standard error."""
        self.file: TextIO | None = None
        try:
            self.reopen()
        except OSError as error:
            raise Refused(f"log.file = {self.path}: {error.strerror}") from error

    def reopen(self) -> None:
        """Open the file anew, under its name. Raises OSError when that fails, and goes on with the
        open one. The descriptor stays the same."""
        if self.path is None:
            return
        opened = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        if self.file is None:
            self.file = opened
            return
        with opened:  # the descriptor stays, because another thread may be about to write to it
            os.dup2(opened.fileno(), self.file.fileno(), inheritable=False)

    @property
    def descriptor(self) -> int:
        """The descriptor of standard error or the file."""
        return STDERR if self.file is None else self.file.fileno()

    def shows(self, level: str) -> bool:
        """Tell whether events of this level are logged."""
        return RANKS[level] >= self.least

    def write(self, level: str, text: str) -> None:
        """Write one line. When standard error is closed or the disk is full the line is lost: the
        caller must not fail for that."""
        if self.shows(level):
            with suppress(OSError, ValueError):
                print(self.line(level, text), file=self.file or sys.stderr, flush=True)
