"""Gates: everything that can hold up a publisher is one of these, open or shut.

An actor has one GateKeeper, which counts the shut gates. A channel, queue or store with a shut
gate goes on handling its inbox and only keeps back the grants it owes; the reader alone stops.
So a shut gate travels up the chain, one hop each time a sender runs out of credit:

    reader <--grant-- channel <--(deferred)-- queue  ==|gate|==> message store
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.kernel.world import Clock


class GrantHolder:
    """Withholds grants while its keeper has a shut gate."""

    __slots__ = ()

    def release_deferred(self) -> None:
        """Post the withheld grants. Called once, when the keeper's last gate has opened."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class GateKeeper:
    """Counts the gates of one actor, and holds the grants withheld while any of them is shut."""

    __slots__ = ("_blocked_ns", "clock", "deferred", "gates_shut", "shut_since_ns")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.gates_shut = 0
        self.deferred: list[GrantHolder] = []
        self.shut_since_ns: int | None = None
        """When the count last left 0; it stays after opening. None: no gate was ever shut."""
        self._blocked_ns = 0

    def gate_shut(self, now_ns: int) -> None:
        """Note that one of the gates has shut."""
        if not self.gates_shut:
            self.shut_since_ns = now_ns
        self.gates_shut += 1

    def gate_opened(self, now_ns: int) -> None:
        """Note that one of the gates has opened; when it was the last one, release everything
        withheld."""
        assert self.gates_shut > 0
        assert self.shut_since_ns is not None
        self.gates_shut -= 1
        if not self.gates_shut:
            self._blocked_ns += now_ns - self.shut_since_ns
            self.all_gates_open()

    def all_gates_open(self) -> None:
        """Post the deferred grants in the order in which they fell due, then tell the owner."""
        held = self.deferred
        if held:
            self.deferred = []
            for holder in held:
                holder.release_deferred()
        self.flow_resumed()

    def flow_resumed(self) -> None:
        """Act at once when the last gate opens; owners that need to override this."""

    def release(self) -> None:
        """Forget the owner, which has come to its end."""

    def in_flow(self, now_ns: int, sticky_ns: int) -> bool:
        """Tell whether the owner is shown as `flow`: it is held up at `now_ns`, or was less than
        `sticky_ns` (nanoseconds) before."""
        if self.gates_shut:
            return True
        return self.shut_since_ns is not None and now_ns - self.shut_since_ns < sticky_ns

    def blocked_ns(self, now_ns: int) -> int:
        """Return how long at least one gate was shut, in sum."""
        if not self.gates_shut or self.shut_since_ns is None:
            return self._blocked_ns
        return self._blocked_ns + now_ns - self.shut_since_ns


class Gate:
    """A gate, open or shut. `name` says what it is for, as shown to people."""

    __slots__ = ("_blocked_ns", "_shut_since_ns", "is_shut", "keeper", "name", "shut_count")

    def __init__(self, keeper: GateKeeper, name: str) -> None:
        self.keeper = keeper
        self.name = name
        self.is_shut = False
        self.shut_count = 0
        self._shut_since_ns = 0
        self._blocked_ns = 0

    def shut(self) -> None:
        """Shut the gate, if it is open."""
        if not self.is_shut:
            now_ns = self.keeper.clock.now_ns()
            self.is_shut = True
            self.shut_count += 1
            self._shut_since_ns = now_ns
            self.keeper.gate_shut(now_ns)

    def open(self) -> None:
        """Open the gate, if it is shut."""
        if self.is_shut:
            now_ns = self.keeper.clock.now_ns()
            self.is_shut = False
            self._blocked_ns += now_ns - self._shut_since_ns
            self.keeper.gate_opened(now_ns)

    def shut_ns(self, now_ns: int) -> int:
        """Return how long this gate has been shut now; 0 when it is open."""
        return now_ns - self._shut_since_ns if self.is_shut else 0

    def blocked_ns(self, now_ns: int) -> int:
        """Return how long this gate was shut, in sum."""
        return self._blocked_ns + self.shut_ns(now_ns)
