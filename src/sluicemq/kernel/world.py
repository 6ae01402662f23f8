"""The outside of the broker: a few interfaces, which enter at one place, `Node(world, config)`.

`host/` implements them over asyncio, `sim/` over a seeded event queue. Nothing below `host/` and
`sim/` reads a clock, throws dice, opens a file or a socket in any other way. Nothing here blocks:
work that takes time comes back as a message in the asking actor's inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import Disk
    from sluicemq.kernel.socket_owner import Acceptor, SocketOwner


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """The broker's clock: it tells the time, and posts messages as timers."""

    def now_ns(self) -> int:
        """Return nanoseconds of a clock that never goes back, counted from an arbitrary moment."""
        raise NotImplementedError

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for people and for the `timestamp` of reports."""
        raise NotImplementedError

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        """Post `message` to `actor` once, `delay_ms` from now."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Dice:
    """The source of the broker's random numbers."""

    def below(self, limit: int) -> int:
        """Return a random whole number, 0 <= n < limit."""
        raise NotImplementedError

    def token(self, size: int) -> bytes:
        """Return `size` random bytes, unpredictable on the real host."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Net:
    """Sockets. A connection is a positive int that the World chooses; an actor owns it.

    The owner receives `Received(data)` for incoming bytes, and `Closed(reason)` once, last; its
    writer receives `Writable()` some time after a write returned False.
    """

    sockets_max = 1 << 30
    """The most sockets that there may be."""

    def is_full(self) -> bool:
        """Tell whether the node has as many connections as it may have."""
        return False

    def listen(self, acceptor: Acceptor, host: str, port: int, tls: bool = False) -> int:
        """Pass connections to `host` and `port` to `acceptor`; port 0 lets the system choose. With
        `tls` a connection is accepted after its TLS handshake. Returns the port. Raises Refused
        when the broker cannot listen on that address."""
        raise NotImplementedError

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        """Begin a connection to a listener elsewhere; returns its number. The owner receives
        `Connected()`, and may write from then on, or `Closed(reason)` when it cannot be made. The
        owner limits how long that may take: `close` ends the attempt, too."""
        raise NotImplementedError

    def write(self, connection: int, data: bytes) -> bool:
        """Queue `data`. Returns False when the socket's buffer is over its high-water mark:
        `Writable` comes to the connection's writer when it has drained. The data is queued either
        way."""
        raise NotImplementedError

    def write_pieces(self, connection: int, pieces: list[bytes]) -> bool:
        """Queue `pieces`, one behind the other, as `write` does; where the system can take them as
        they are, they are not joined first."""
        return self.write(connection, b"".join(pieces))

    def unsent_bytes(self, connection: int) -> int:
        """Return how many queued bytes the system has not taken yet; 0 when there is no such
        connection."""
        raise NotImplementedError

    def taken(self, connection: int, pulls: bool) -> bool:
        """Note that the owner has handled all received bytes, so that more may be read. Returns
        True when so much came that the socket rests and the owner has to `pull`; with `pulls` False
        it never does."""
        return False

    def rest(self, connection: int) -> None:
        """Let the socket rest: its owner has more than it can handle soon, so that nothing is read
        of it before the owner calls `taken`, or pulls."""

    def pull(self, connection: int, size_max: int) -> bytes:
        """Return the bytes that a resting socket has now, at most `size_max`. Returns none when it
        stops resting: further bytes come as `Received` again."""
        return b""

    def pull_into(self, connection: int, room: memoryview) -> int:
        """Read the bytes that a resting socket has now into `room`, as far as it goes. Returns how
        many they were, and 0 in place of none. Not for connections over TLS."""
        data = self.pull(connection, len(room))
        room[: len(data)] = data
        return len(data)

    def pause_reading(self, connection: int) -> None:
        """Stop reading the socket until `resume_reading`, so that TCP holds the peer up."""
        raise NotImplementedError

    def resume_reading(self, connection: int) -> None:
        """Read the socket again; does nothing when it was not paused."""
        raise NotImplementedError

    def close(self, connection: int, linger_ms: int = 0) -> None:
        """Write out what is queued, then close; give up after `linger_ms` milliseconds (0: the
        World's default). An attempt to connect is given up."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Memory:
    """The figures of the memory alarm: the process's memory."""

    def total_bytes(self) -> int:
        """Return how many bytes this process may use at most: RAM or the control group's limit."""
        raise NotImplementedError

    def resident_bytes(self) -> int:
        """Return the process's resident set size in bytes."""
        raise NotImplementedError

    def trim(self) -> None:
        """Give freed memory back to the system, so that RSS shows what is really in use."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Log:
    """The log, line by line; this base class writes nothing."""

    def write(self, level: str, text: str) -> None:
        """Write one line. `level` is info, warning or error; `text` must contain no secrets."""


@mypyc_attr(allow_interpreted_subclasses=True)
class World:
    """Everything outside the broker: clock, dice, disk, network, memory and log."""

    def __init__(
        self,
        clock: Clock,
        dice: Dice,
        disk: Disk,
        net: Net,
        memory: Memory,
        log: Log | None = None,
    ) -> None:
        self.clock = clock
        self.dice = dice
        self.disk = disk
        self.net = net
        self.memory = memory
        self.log = log or Log()
