"""Goal: what once broke an invariant never does again, and the fuzzing targets themselves work.

Method: every target's seeds, its corpus in fuzz/corpus and what clients sent in the transcripts are
run through the target's checks, without atheris.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from targets.all_targets import TARGETS
from targets.target import Target

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fuzz" / "corpus"
FILES_MAX = 300
BYTES_MAX = 300_000


def inputs(target: Target) -> Iterator[tuple[str, bytes]]:
    """All that is replayed, each with a name."""
    for number, seed in enumerate(target.seeds()):
        yield f"seed {number}", seed
    for path in sorted((CORPUS / target.name).iterdir()):
        yield path.name, path.read_bytes()


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_an_invariant(name: str) -> None:
    target = TARGETS[name]
    for what, data in inputs(target):
        try:
            target.check(data)
        except Exception as error:
            raise AssertionError(f"{name}: {what}: {data[:80]!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_memory_follows_the_input(name: str) -> None:
    target = TARGETS[name]
    target.decode(next(iter(target.seeds())))  # what is made once and kept is no input's fault
    for what, data in inputs(target):
        try:
            target.check_memory(data)
        except AssertionError as error:
            raise AssertionError(f"{name}: {what}: {data[:80]!r}") from error


def test_every_corpus_has_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_the_corpus_stays_small() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert len(files) < FILES_MAX
    assert sum(path.stat().st_size for path in files) < BYTES_MAX
