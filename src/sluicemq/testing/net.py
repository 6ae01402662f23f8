"""The network of a broker under test, which can delay everything that the broker sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.host.net import HostNet
from sluicemq.host.poller import HIGH_WATER_BYTES
from sluicemq.kernel.socket_messages import Writable

if TYPE_CHECKING:
    import asyncio

    from sluicemq.config import NetConfig
    from sluicemq.kernel.world import Log

MS_PER_S: Final = 1000


class DelayingNet(HostNet):
    """The machine's network with a delay: data for clients leaves `delay_ms` milliseconds later
    than it would, in order. Delayed data fills the connection as data that a slow client has not
    read does: its channels stop, and go on when there is room."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: NetConfig, log: Log, sockets_max: int
    ) -> None:
        super().__init__(loop, config, log, sockets_max)
        self.delay_ms = 0
        self.last_leaves = 0.0
        """When the last of what is held back leaves, as the loop's time."""
        self.held_bytes: dict[int, int] = {}
        """What is held back of each connection."""

    def leaves(self) -> float:
        """Return when data that is sent now may leave; 0 means at once."""
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
        held_bytes = self.held_bytes.get(connection, 0) + len(data)
        self.held_bytes[connection] = held_bytes
        self.loop.call_at(at, self.let_go, connection, data)
        return held_bytes < HIGH_WATER_BYTES

    def write_pieces(self, connection: int, pieces: list[bytes]) -> bool:
        return self.write(connection, b"".join(pieces))

    def let_go(self, connection: int, data: bytes) -> None:
        """Send data that was delayed long enough, and have the writer go on if it waits
        for that.
        """
        before = self.held_bytes.pop(connection)
        after = before - len(data)
        if after:
            self.held_bytes[connection] = after
        has_room = super().write(connection, data)
        found = self.connections.get(connection)
        if has_room and before >= HIGH_WATER_BYTES > after and found is not None:
            assert found.owner is not None, "it has written"
            found.owner.writer.post(Writable())

    def unsent_bytes(self, connection: int) -> int:
        return super().unsent_bytes(connection) + self.held_bytes.get(connection, 0)

    def close(self, connection: int, linger_ms: int = 0) -> None:
        at = self.leaves()
        if not at:
            super().close(connection, linger_ms)
        else:
            self.loop.call_at(at, super().close, connection, linger_ms)
