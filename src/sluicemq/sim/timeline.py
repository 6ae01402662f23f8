"""Virtual time: the coming events, and a digest of all past ones.

Events happen in order of time and, at the same time, in the order in which they were planned, so
nothing depends on hashes or addresses. Every event and every byte the node writes goes into the
digest: two runs with equal digests were equal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

EventRow = tuple[int, str, str]
"""(virtual nanoseconds, who, what), for the short log."""

LINES_MAX: Final = 1000
"""Lines of the trace that go into the digest at once."""


class Timeline:
    """The events to come. `after` plans one, `step` makes the next one happen."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.happened = 0
        self.last: EventRow = (0, "", "")
        self._heap: list[tuple[int, int, str, str, Callable[[Any], None], Any]] = []
        self._asked = 0
        self._digest = blake2b(digest_size=8)
        self._lines: list[str] = []
        """The end of the trace, which the digest does not have yet."""

    def after(
        self,
        delay_ns: int,
        who: str,
        what: str,
        call: Callable[[Any], None],
        argument: object = None,
    ) -> None:
        """Call `call(argument)` in `delay_ns`; `who` and `what` are for the short log."""
        self._asked += 1
        entry = (self.now_ns + delay_ns, self._asked, who, what, call, argument)
        heapq.heappush(self._heap, entry)

    @property
    def is_due(self) -> bool:
        """Tell whether another event is planned."""
        return bool(self._heap)

    def step(self) -> None:
        """Make the next event happen; there must be one."""
        at_ns, order, who, what, call, argument = heapq.heappop(self._heap)
        self.now_ns = at_ns
        self.happened += 1
        self.last = (at_ns, who, what)
        self._note(f"{at_ns} {order} {who} {what}\n")
        call(argument)

    def saw(self, number: int, data: bytes) -> None:
        """Add to the trace that `data` was written to socket `number`."""
        self._note(f"{number} {len(data)} {crc32(data)}\n")

    def _note(self, line: str) -> None:
        lines = self._lines
        lines.append(line)
        if len(lines) >= LINES_MAX:
            self._add_lines()

    def _add_lines(self) -> None:
        self._digest.update("".join(self._lines).encode())
        self._lines.clear()

    def digest(self) -> str:
        """Return the digest of everything until now, in hexadecimal."""
        self._add_lines()
        return self._digest.hexdigest()
