"""How a network falls apart, in the four ways of RabbitMQ's Jepsen tests: which node hears nothing
of which other one, as pairs (who speaks, who does not hear)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from random import Random
from typing import Final

Ways = list[tuple[int, int]]


def between(one: Sequence[int], other: Sequence[int]) -> Ways:
    """Nobody of the one half and nobody of the other hear each other."""
    first = set(one)
    return [
        (speaks, hears)
        for speaks, hears in permutations([*one, *other], 2)
        if (speaks in first) != (hears in first)
    ]


def halves(nodes: Sequence[int], _: Random) -> Ways:
    """The first of them, the smaller half, and the rest."""
    middle = len(nodes) // 2
    return between(nodes[:middle], nodes[middle:])


def random_halves(nodes: Sequence[int], dice: Random) -> Ways:
    """Some of them, the smaller half, and the rest."""
    return halves(dice.sample(list(nodes), len(nodes)), dice)


def random_node(nodes: Sequence[int], dice: Random) -> Ways:
    """One of them and the rest."""
    alone = dice.choice(list(nodes))
    return between([alone], [each for each in nodes if each != alone])


def majorities_ring(nodes: Sequence[int], dice: Random) -> Ways:
    """Each hears a majority, itself included, and no two the same one. With five nodes, of which
    each hears its neighbours, they are heard by these as well; with three nodes none is heard by
    the one that it hears."""
    ring = dice.sample(list(nodes), len(nodes))
    count = len(ring)
    majority = count // 2 + 1
    ways = []
    for place in range(count):
        heard = [ring[(place + step) % count] for step in range(majority)]
        hears = heard[majority // 2]
        ways += [(speaks, hears) for speaks in ring if speaks not in heard]
    return ways


STRATEGIES: Final[dict[str, Callable[[Sequence[int], Random], Ways]]] = {
    "random-partition-halves": random_halves,
    "partition-halves": halves,
    "partition-majorities-ring": majorities_ring,
    "partition-random-node": random_node,
}
