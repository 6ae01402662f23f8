"""Goal: a run knows what of it is out. Method: a run is settled and given back in pieces and
compared with a list.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.model.traits import message_traits
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.unacked_runs import UnackedRun
from sluicemq.queues.commands import LinkId
from support.fakes import bystander

TRAITS = message_traits(b"envelope", 3, True, 2)


def run_of(count: int, step: int = 1, first: int = 100) -> UnackedRun:
    contents = [b"%d" % n for n in range(count)]
    chunk = Chunk(TRAITS, [], False, first, False)
    return UnackedRun(LinkId(1, 1), bystander(), None, chunk, contents, first, step)


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(1, 4))))
def test_open_parts_are_what_was_not_settled(count: int, picks: list[tuple[int, int]]) -> None:
    run = run_of(count)
    is_open = [True] * count
    for start, length in picks:
        end = min(count, start + length)
        if start < end and all(is_open[start:end]):
            assert run.take(start, end) == [b"%d" % n for n in range(start, end)]
            is_open[start:end] = [False] * (end - start)
    covered = [index for start, end in run.open_parts() for index in range(start, end)]
    assert covered == [index for index, o in enumerate(is_open) if o]
    assert run.left == sum(is_open)


def test_nothing_is_settled_twice() -> None:
    run = run_of(3)
    run.take(1, 2)
    with pytest.raises(AssertionError):
        run.take(0, 3)
    assert run.open_parts() == [(0, 1), (2, 3)]


def test_what_one_consumer_had_returns_as_one_chunk() -> None:
    [chunk] = run_of(5).give_back(1, 4)
    assert chunk.contents == [b"1", b"2", b"3"]
    assert (chunk.position, chunk.redelivered) == (101, True)
    assert chunk.traits is TRAITS


def test_what_was_dealt_in_turn_returns_message_by_message() -> None:
    """The others' messages lie between."""
    chunks = run_of(4, step=3).give_back(1, 4)
    assert [chunk.contents for chunk in chunks] == [[b"1"], [b"2"], [b"3"]]
    assert [chunk.position for chunk in chunks] == [103, 106, 109]
    assert all(chunk.redelivered for chunk in chunks)


def test_forgotten_messages_are_still_counted() -> None:
    """Of a deleted queue only the number of what is out matters."""
    run = run_of(4)
    run.take(1, 2)
    run.forget()
    assert run.contents == [b"", None, b"", b""]
    assert run.take(2, 4) == [b"", b""]
    assert run.left == 1
