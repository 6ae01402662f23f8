"""Simulated TCP between machines, with faults of the network.

Each direction of a connection is a Pipe: bytes in order, in seeded fragments with seeded delays, a
bound on the bytes in flight, an end behind the last byte. A way between two machines can be cut,
also in one direction only: nothing passes until it is whole again, and then what was sent arrives,
because TCP retransmits. A machine that crashes cannot say so over a way that is cut: the other end
finds out when it sends something and the way is whole.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Connected, Received, Writable
from sluicemq.kernel.world import Net
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.kernel.socket_owner import Acceptor, SocketOwner
    from sluicemq.sim.timeline import Timeline

FIRST_CHOSEN_PORT: Final = 40_000
RETRY_NS: Final = 50 * MS
"""Between two attempts to reach a machine over a cut way."""
LINGER_NS: Final = 5000 * MS
CLOGGED_TIMES: Final = 40
"""A step over a clogged way takes this many times as long."""
RESET: Final = "connection reset by peer"


class PipeEnd:
    """One machine's end of a connection."""

    def __init__(self, net: PipeNet, number: int) -> None:
        self.net = net
        self.number = number
        self.owner: SocketOwner
        self.out: Pipe | None = None
        """Takes the written bytes; None when not connected."""
        self.is_paused = False
        self.unparsed = 0
        self.is_full = False
        self.is_closing = False
        self.is_gone = False

    @property
    def reads(self) -> bool:
        """Tell whether the owner takes more bytes now."""
        return self.is_closing or not (self.is_paused or self.rests)

    @property
    def rests(self) -> bool:
        """Tell whether the owner has to handle what has arrived before it gets more."""
        return self.unparsed >= self.net.network.window_bytes

    def came(self, data: bytes) -> None:
        """Hand over bytes that have arrived."""
        if not self.is_closing:
            self.unparsed += len(data)
            self.owner.post(Received(data))

    def finish(self, reason: str) -> None:
        """Tell the owner once that the connection has ended."""
        if not self.is_gone:
            self.is_gone = True
            self.net.ends.pop(self.number, None)
            self.owner.post(Closed(reason))


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: PipeNetwork, source: PipeEnd, target: PipeEnd) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.data = bytearray()
        self.has_end = False
        """True when the connection ends behind the bytes in it."""
        self.is_planned = False

    def kick(self) -> None:
        """Plan the next arrival, if anything is in flight."""
        if not self.is_planned and (self.data or self.has_end):
            self.is_planned = True
            network = self.network
            delay_ns = network.delay_ns()
            if (self.source.net.host, self.target.net.host) in network.clogs:
                delay_ns *= CLOGGED_TIMES
            network.timeline.after(delay_ns, self._name(), "bytes pass", self._pass)

    def _name(self) -> str:
        return f"{self.source.net.host}>{self.target.net.host}"

    def _pass(self, _: object) -> None:
        self.is_planned = False
        network, target = self.network, self.target
        if network.is_cut(self.source.net.host, target.net.host):
            return
        if target.is_gone:
            self.data.clear()
            network.reset(self.source)
            return
        if not target.reads:
            return
        data = self._fragment()
        if data:
            target.came(data)
            self.kick()
        elif self.has_end:
            self.has_end = False
            target.finish("closed by the other end")
            if self.source.is_closing:
                self.source.finish("closed")

    def _fragment(self) -> bytes:
        size = self.network.fragment()
        data = bytes(self.data[:size])
        del self.data[:size]
        if data and self.network.flips and self.network.random.random() < self.network.flips:
            where = self.network.random.randrange(len(data))
            data = data[:where] + bytes([data[where] ^ 4]) + data[where + 1 :]
            self.network.flipped += 1
        if self.source.is_full and len(self.data) <= self.network.high_bytes // 4:
            self.source.is_full = False
            if not self.source.is_gone:
                self.source.owner.writer.post(Writable())
        return data


class PipeNetwork:
    """The network that connects all machines of a run."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self.random = random
        self.listeners: dict[tuple[str, int], tuple[PipeNet, Acceptor]] = {}
        self.cuts: dict[tuple[str, str], int] = {}
        """The cut ways, from one host to another, with the time of the cut."""
        self.clogs: set[tuple[str, str]] = set()
        """Ways that carry everything slowly."""
        self.pipes: list[Pipe] = []
        self.delay_ns_max = 2 * MS
        self.slow = 0.01
        """The probability that a step takes fifty times as long."""
        self.fragment_max = 8000
        self.high_bytes = 16_000
        self.window_bytes = 16_000
        self.flips = 0.0
        """The probability that one bit of a fragment is flipped on arrival."""
        self.flipped = 0

    def is_cut(self, source: str, target: str) -> bool:
        """Tell whether the way from one host to another is cut."""
        return (source, target) in self.cuts

    def cut(self, ways: dict[tuple[str, str], None]) -> None:
        """Cut these ways, and restore all others."""
        now_ns = self.timeline.now_ns
        self.cuts = {way: self.cuts.get(way, now_ns) for way in ways}
        self.pipes = [each for each in self.pipes if not each.source.is_gone or each.data]
        for pipe in self.pipes:
            pipe.kick()

    def is_carrying(self, source: str) -> bool:
        """Tell whether bytes that this host has sent are still in flight."""
        return any(each.data and each.source.net.host == source for each in self.pipes)

    def delay_ns(self) -> int:
        """Return how long the next step takes."""
        delay_ns = 1 + self.random.randrange(self.delay_ns_max)
        return delay_ns * 50 if self.random.random() < self.slow else delay_ns

    def fragment(self) -> int:
        """Return how many bytes arrive at once."""
        if self.random.randrange(20) == 0:
            return 1 + self.random.randrange(9)
        return 1 + self.random.randrange(self.fragment_max)

    def join(self, one: PipeEnd, other: PipeEnd) -> None:
        """Connect two ends to each other."""
        one.out, other.out = Pipe(self, one, other), Pipe(self, other, one)
        self.pipes += [one.out, other.out]

    def reset(self, end: PipeEnd) -> None:
        """Tell this end that the other end is gone, once the way to it is whole."""
        if end.out is not None and not end.is_gone:
            self.timeline.after(self.delay_ns(), end.net.host, "reset", self._reset, end)

    def _reset(self, end: PipeEnd) -> None:
        assert end.out is not None
        if not self.is_cut(end.out.target.net.host, end.net.host):
            end.finish(RESET)

    def tear(self, end: PipeEnd) -> None:
        """Break a connection: bytes in flight are lost, and each end finds out by itself."""
        assert end.out is not None
        other = end.out.target
        for each in (end, other):
            if each.out is not None:
                each.out.data.clear()
                each.out.has_end = False
            each.is_closing = True
        for each in (end, other):
            self.timeline.after(self.delay_ns(), each.net.host, "torn", self._torn, each)

    def _torn(self, end: PipeEnd) -> None:
        end.finish("broken pipe")


class PipeNet(Net):
    """The sockets of one machine, in one life of its process."""

    def __init__(self, network: PipeNetwork, host: str) -> None:
        self.network = network
        self.host = host
        self.ends: dict[int, PipeEnd] = {}
        self.last = 0

    def crash(self) -> None:
        """End the process together with all its sockets."""
        for key in [key for key, (net, _) in self.network.listeners.items() if net is self]:
            del self.network.listeners[key]
        for end in self.ends.values():
            end.is_gone = True
            if end.out is not None:
                end.out.data.clear()
                self.network.reset(end.out.target)
        self.ends.clear()

    def listen(self, acceptor: Acceptor, host: str, port: int, tls: bool = False) -> int:
        assert not tls, "there is no TLS here"
        listeners = self.network.listeners
        if port and (host, port) in listeners:
            raise Refused(f"cannot listen on {host}:{port}: Address already in use")
        port = port or FIRST_CHOSEN_PORT + len(listeners)
        listeners[host, port] = self, acceptor
        return port

    def _end(self) -> PipeEnd:
        self.last += 1
        end = self.ends[self.last] = PipeEnd(self, self.last)
        return end

    def connect(self, owner: SocketOwner, host: str, port: int) -> int:
        end = self._end()
        end.owner = owner
        self._try(end, host, port, self.network.delay_ns())
        return end.number

    def _try(self, end: PipeEnd, host: str, port: int, delay_ns: int) -> None:
        asked = (end, host, port)
        self.network.timeline.after(delay_ns, self.host, "connects", self._reach, asked)

    def _reach(self, asked: tuple[PipeEnd, str, int]) -> None:
        end, host, port = asked
        network = self.network
        if end.is_gone:
            return
        if network.is_cut(self.host, host) or network.is_cut(host, self.host):
            self._try(end, host, port, RETRY_NS)
            return
        there, acceptor = network.listeners.get((host, port), (None, None))
        if there is None or acceptor is None or not acceptor.admits(self.host):
            end.finish(f"cannot connect to {host}:{port}: Connection refused")
            return
        other = there._end()
        network.join(end, other)
        end.owner.post(Connected())
        peer = Peer(self.host, FIRST_CHOSEN_PORT + end.number, host, port)
        other.owner = acceptor.accept(other.number, peer)

    def write(self, connection: int, data: bytes) -> bool:
        end = self.ends.get(connection)
        if end is None or end.is_closing:
            return True
        assert end.out is not None, "written to before it is connected"
        assert not end.is_full, "written to while its socket is full"
        self.network.timeline.saw(connection, data)
        end.out.data += data
        end.is_full = len(end.out.data) > self.network.high_bytes
        end.out.kick()
        return not end.is_full

    def unsent_bytes(self, connection: int) -> int:
        end = self.ends.get(connection)
        return 0 if end is None or end.out is None else len(end.out.data)

    def taken(self, connection: int, pulls: bool) -> bool:
        end = self.ends.get(connection)
        if end is None:
            return False
        rested = end.rests
        if pulls:
            return rested
        end.unparsed = 0
        self._read_on(end)
        return False

    def _read_on(self, end: PipeEnd) -> None:
        if end.out is not None and end.out.target.out is not None:
            end.out.target.out.kick()

    def pause_reading(self, connection: int) -> None:
        end = self.ends.get(connection)
        if end is not None:
            end.is_paused = True

    def resume_reading(self, connection: int) -> None:
        end = self.ends.get(connection)
        if end is not None:
            end.is_paused = False
            self._read_on(end)

    def close(self, connection: int, linger_ms: int = 0) -> None:
        end = self.ends.get(connection)
        if end is None or end.is_closing:
            return
        end.is_closing = True
        timeline = self.network.timeline
        if end.out is None:
            timeline.after(1, self.host, "given up", self._given_up, end)
            return
        end.out.has_end = True
        end.out.kick()
        self._read_on(end)
        linger_ns = linger_ms * MS or LINGER_NS
        timeline.after(linger_ns, self.host, "linger is over", self._lingered, end)

    def _given_up(self, end: PipeEnd) -> None:
        end.finish("given up")

    def _lingered(self, end: PipeEnd) -> None:
        if end.is_gone or end.out is None:
            return
        end.out.data.clear()
        end.out.has_end = False
        end.finish("closed")
        self.network.reset(end.out.target)
