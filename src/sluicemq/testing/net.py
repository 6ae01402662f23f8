"""The network of a broker under test: what the broker sends can be held back for a time."""

from __future__ import annotations

from typing import Final

from sluicemq.host.net import HostNet

MS_PER_S: Final = 1000


class DelayingNet(HostNet):
    """The machine's network. What goes to clients leaves `delay_ms` milliseconds later than it
    would, and never before what was to leave earlier."""

    delay_ms = 0
    last_leaves = 0.0
    """When the last of what is held back leaves, as the loop's time."""

    def leaves(self) -> float:
        """Return when what is to be sent now may leave; 0: at once."""
        now = self.loop.time()
        at = max(now + self.delay_ms / MS_PER_S, self.last_leaves)
        if at <= now:
            return 0
        self.last_leaves = at
        return at

    def write(self, connection: int, data: bytes) -> bool:
        at = self.leaves()
        if not at:
            return super().write(connection, data)
        self.loop.call_at(at, super().write, connection, data)
        return True

    def close(self, connection: int, linger_ms: int = 0) -> None:
        at = self.leaves()
        if not at:
            super().close(connection, linger_ms)
        else:
            self.loop.call_at(at, super().close, connection, linger_ms)
