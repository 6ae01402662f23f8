"""Which seed notices a planted bug: the one that is known to is tried before all others.

A canary passes when any of its seeds fails, so their order changes nothing but how long that takes.
What is known is in FILE; it goes stale with every change of the simulation, and then costs time,
nothing else. `python -m pytest --rewrite tests/sim -k planted` looks for the cheapest seeds anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FILE: Final = Path(__file__).with_suffix(".json")

CHEAP_S: Final = 0.3
"""A seed that notices a bug as fast as that is as good as any."""

COMPARED_S: Final = 5.0
"""CPU time after which nothing cheaper is looked for."""


@cache
def known() -> dict[str, int]:
    """The seed of each canary, by its name."""
    found: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@contextmanager
def planted(plant: Callable[[pytest.MonkeyPatch], None]) -> Iterator[None]:
    """A bug, for one seed: what a bug counts begins anew with each, so that a seed notices it
    whatever ran before."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        yield


def is_caught(
    name: str, seeds: Iterable[int], fails: Callable[[int], object], rewrite: bool
) -> bool:
    """Tell whether one of the seeds fails. With `rewrite` note the cheapest of the first of them
    that do."""
    if rewrite:
        return note_cheapest(name, seeds, fails)
    ordered = list(seeds)
    first = known().get(name)
    if first in ordered:
        ordered.remove(first)
        ordered.insert(0, first)
    return any(fails(seed) for seed in ordered)


def note_cheapest(name: str, seeds: Iterable[int], fails: Callable[[int], object]) -> bool:
    """Tell whether one of the seeds fails, and write a cheap one that does to FILE."""
    began = time.process_time()
    cheapest: tuple[float, int] | None = None
    for seed in seeds:
        before = time.process_time()
        has_failed = fails(seed)
        now = time.process_time()
        if has_failed and (cheapest is None or now - before < cheapest[0]):
            cheapest = (now - before, seed)
        if cheapest is not None and (cheapest[0] < CHEAP_S or now - began > COMPARED_S):
            break
    seeds_of = known()
    seeds_of.pop(name, None)
    if cheapest is not None:
        seeds_of[name] = cheapest[1]
    text = json.dumps(dict(sorted(seeds_of.items())), indent=2)
    FILE.write_text(text + "\n", encoding="utf-8")
    return cheapest is not None
