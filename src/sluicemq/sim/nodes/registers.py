"""Exchanges as registers: the moves of each client with a name, their answers, and whether all
moves have an order in which every answer is right (Wing and Gong's search).

A move that changes a name takes effect between question and answer, on any node. A move that only
looks is answered by its own node, which may be behind others: it sees nothing older than what its
node has answered before, in its present life; and while all nodes are well, it sees every change
that was answered before anywhere. An unanswered move may have taken effect at any later time.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.sim.records import promise

if TYPE_CHECKING:
    from collections.abc import Iterator

DECLARE, DELETE, LOOK = "declares", "deletes", "looks for"
DONE, OTHER, MISSING = "done", "there is another", "there is none"
MOVES_MAX: Final = 200_000
"""A search that takes more moves gives up, and finds nothing wrong."""
State = str | None
"""The value of a name; None for nothing."""


class RegisterMove(NamedTuple):
    """A move of a client at `node`, in that life of the node, with a name, from `began` to `ended`,
    which is inf without an answer. `is_exact`: all nodes were well. `answer` "" is none."""

    node: int
    life: int
    what: str
    value: str
    began: float
    is_exact: bool
    ended: float = inf
    answer: str = ""

    def is_behind(self, other: RegisterMove) -> bool:
        """Tell whether it can only have been made after the other one."""
        if other.ended >= self.began:
            return False
        if self.what != LOOK or (self.node, self.life) == (other.node, other.life):
            return True
        return self.is_exact and other.what != LOOK and other.answer == DONE


class NameHistory:
    """The moves with one name until none is under way, when the value of the name is known."""

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
        self.lives: Counter[int] = Counter()
        """How often each node has ended. After a start it may apply less than it has answered
        before."""
        self.answers = 0
        self.is_calm = False
        """Nothing has gone wrong yet: all nodes are up, so that answers have waited for them."""

    def lost(self, node: int) -> None:
        """Note that a node has ended."""
        self.lives[node] += 1

    def done(self, name: str, move: RegisterMove) -> None:
        """Note a move that is over, or that its client has given up."""
        self.names.setdefault(name, NameHistory(name)).moves.append(move)
        self.answers += bool(move.answer)

    def check(self) -> None:
        """Check the moves with each name."""
        for history in self.names.values():
            history.check()


def shown(move: RegisterMove) -> str:
    """Return a move as text, with times in milliseconds."""
    ended = "never" if move.ended == inf else f"{move.ended / 1e6:.2f}"
    answer = move.answer or "no answer"
    return f"[{move.began / 1e6:.2f}-{ended} node {move.node} {move.what} {move.value}: {answer}]"


def after(move: RegisterMove, state: State) -> Iterator[State]:
    """Yield the possible values of a name after a move from that state, if its answer is right; a
    move without an answer took effect here or not at all."""
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
    """Tell whether there is such an order. The search goes move by move: the next one is behind
    none of the remaining moves."""
    before = [
        sum(1 << at for at, other in enumerate(moves) if move.is_behind(other)) for move in moves
    ]
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
        for at, move in enumerate(moves):
            if left >> at & 1 and not left & before[at]:
                stack += [(left & ~(1 << at), state_after) for state_after in after(move, state)]
    return False
