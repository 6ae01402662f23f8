"""State that commands change: the interface of the state of one member, or of all members of a
group.

Who agreed on a command, and when, is decided elsewhere (`replication/`). A machine never waits and
posts nothing: what has to be done comes out as effects, which are data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

C = TypeVar("C")
E = TypeVar("E")


class StateMachine(Generic[C, E]):
    """State that commands of type C change, with effects of type E."""

    rest: Iterator[int] | None = None
    """The rest of a command that takes long: each step does a piece and gives the units of work
    that it has cost. Until it has come to its end and somebody has set this to None, no other
    command is applied. None: the last command is done."""

    def apply(self, command: C, effects: list[E]) -> None:
        """Change state by `command`, and append what has to be done to `effects`, in order.

        Implementations promise that a command is done when this returns, or when `rest` is at its
        end; that they leave earlier `effects` as they are; and that nothing they call calls this
        again. A command that cannot be carried out is answered by an effect: an exception is a
        fault of the machine, and ends it.
        """
        raise NotImplementedError


class Replicated(StateMachine[C, E]):
    """State that each member of a group makes for itself from the same log.

    Implementations promise, beside what every machine does:

    inputs      there are none but the commands in their order, and `index` and `now_ms`. It reads
                no clock, no chance, no window, no memory and no disk; what it does depends neither
                on the order of a set nor on the identity of an object. Chance and salts are in
                commands.
    likeness    members that have applied the same entries have equal effects, and snapshots that
                are equal byte by byte, whether they have applied all of them or restored a
                snapshot on the way.
    confirms    what tells somebody that a command is safe is an effect of that command, or of a
                later one: nothing is applied before it is agreed.
    liveness    what it needs of the log to go on, beside its snapshot, it names in `live`. What it
                has ceased to name it never names again.

    Effects come out on every member. Those that speak to somebody are for the leader's shell; the
    others drop them.
    """

    index = 0
    """The index of the log entry that was applied last; 0: none was."""
    now_ms = 0
    """The machine's time, in milliseconds since the epoch. It never goes back."""

    def entered(self, index: int, stamp_ms: int) -> None:
        """Announce that the next commands of `apply` are those of the entry at `index`, to which
        its leader gave the time `stamp_ms`, in milliseconds since the epoch. Entries without
        commands, such as changes of members, may be left out."""
        assert index > self.index, f"entry {index} after entry {self.index}"
        assert self.rest is None, "an entry before the one before it was done"
        self.index = index
        self.now_ms = max(self.now_ms, stamp_ms)

    def entry_ended(self, effects: list[E]) -> None:
        """Do what follows from the commands of the entry together, all of which were applied, and
        append its effects. A machine whose commands may have a `rest` has nothing to do here."""

    def snapshot(self) -> Iterator[bytes]:
        """Yield the state as of `index`, with `index` and `now_ms`, in pieces that each take a turn
        at most. Commands applied before the last piece was taken are not in it. Bodies in the log
        are named, not contained. A snapshot is not asked for while there is a `rest`."""
        raise NotImplementedError

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Become the state in a snapshot, replacing any other. The entries that `live` names then
        are in this member's log already. Raises ValueError, and changes nothing, when the pieces
        are no snapshot, or one of an unknown version."""
        raise NotImplementedError

    def live(self) -> Iterator[tuple[int, Sequence[range]]]:
        """Name the entries up to `index` that are still needed, in ascending order, each with the
        places of its messages that are: a place counts from 0 in its entry, the ranges are
        ascending and none is empty."""
        raise NotImplementedError

    @property
    def released(self) -> int:
        """Return the index up to which no entry is needed any more, inclusive. `live` names the
        entries behind it that are: an old message keeps only itself, not the log behind it."""
        first = next(self.live(), None)
        return self.index if first is None else first[0] - 1
