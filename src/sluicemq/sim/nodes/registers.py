"""Exchanges as registers: what each client has done with a name and was answered, and whether there
is an order of all that in which every answer is right (Wing and Gong's search).

What changes a name takes effect between question and answer, on any node. One that only looks is
answered by its own node, which may be behind: it sees a state that was there at any time since its
node last answered something; while all nodes are well, at its own time. What was not answered may
have taken effect, at any time later.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from collections.abc import Iterator

DECLARE, DELETE, LOOK = "declares", "deletes", "looks for"
DONE, OTHER, MISSING = "done", "there is another", "there is none"
MOVES_MAX: Final = 200_000
"""A search that takes more moves than that gives up, and finds nothing wrong."""
State = str | None
"""What a name stands for; None: nothing."""


class RegisterMove(NamedTuple):
    """Something that a client at `node` did with a name, from `began` to `ended`, inf if it never
    heard. A look sees what was there from `sees_from` on. `answer` "" is none."""

    node: int
    what: str
    value: str
    began: float
    sees_from: float
    ended: float = inf
    answer: str = ""


class NameHistory:
    """What was done with one name, until there is nothing under way: then what it stands for is
    known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.moves: list[RegisterMove] = []

    def check(self) -> None:
        """Check that there is an order in which every answer is right."""
        moves = sorted(self.moves, key=lambda each: each.began)
        promise(is_linearizable(moves), self.name, "is not linearizable:", *map(shown, moves))


class RegisterBook:
    """All names of a run. Times are events of the run, in nanoseconds."""

    def __init__(self) -> None:
        self.names: dict[str, NameHistory] = {}
        self.answered_at: dict[int, float] = {}
        """When each node answered last, in this life."""
        self.answers = 0
        self.is_calm = False
        """Nothing has gone wrong yet: all nodes are up, so that answers have waited for them."""

    def lost(self, node: int) -> None:
        """A node has ended: what it applies after its start may be older than what it said."""
        self.answered_at.pop(node, None)

    def done(self, name: str, move: RegisterMove) -> None:
        """Note a move that is over, or whose client has given up."""
        self.names.setdefault(name, NameHistory(name)).moves.append(move)
        if move.answer:
            self.answers += 1
            self.answered_at[move.node] = move.ended

    def check(self) -> None:
        """Check what was done with each name."""
        for history in self.names.values():
            history.check()


def shown(move: RegisterMove) -> str:
    """Return a move as text, with times in milliseconds."""
    ended = "never" if move.ended == inf else f"{move.ended / 1e6:.2f}"
    answer = move.answer or "no answer"
    return f"[{move.began / 1e6:.2f}-{ended} node {move.node} {move.what} {move.value}: {answer}]"


def after(move: RegisterMove, state: State) -> Iterator[State]:
    """Give what a name may stand for after a move that was made on that state, if its answer is
    right; without an answer it took effect here or had none."""
    if move.what == LOOK:
        if move.answer == (MISSING if state is None else DONE):
            yield state
    elif move.what == DELETE:
        yield None
    elif state is None or state == move.value:
        if move.answer != OTHER:
            yield move.value
    elif move.answer in (OTHER, ""):
        yield state


def is_linearizable(moves: list[RegisterMove]) -> bool:
    """Tell whether there is such an order. It is looked for move by move: next is one that began
    before any of those that are left has ended."""
    everything = (1 << len(moves)) - 1
    answered = sum(1 << at for at, move in enumerate(moves) if move.answer)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(everything, None)]
    while stack:
        left, state = stack.pop()
        if not left & answered or len(seen) > MOVES_MAX:
            return True
        if (left, state) in seen:
            continue
        seen.add((left, state))
        there = [at for at in range(len(moves)) if left >> at & 1]
        first_end = min(moves[at].ended for at in there)
        for at in there:
            move = moves[at]
            began = move.sees_from if move.what == LOOK else move.began
            if began <= first_end:
                stack += [(left & ~(1 << at), state_after) for state_after in after(move, state)]
    return False
