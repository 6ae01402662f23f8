"""Goal: an answer about what is declared waits for all nodes that are up and say something, and for
so long at most. Method: nodes that say how far they are, the clock by hand.
"""

from __future__ import annotations

from functools import partial

from sluicemq.chain.definitions.spread import Spread
from sluicemq.limits import SPREAD_WAIT_MS
from support.fakes import FakeClock


class Answers:
    """Two other nodes are up; answers are the indexes that they waited for."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.spread = Spread(self.clock)
        self.given: list[int] = []
        self.spread.node_up(2)
        self.spread.node_up(3)

    def wait(self, *indexes: int) -> None:
        for index in indexes:
            self.spread.when_applied(index, partial(self.given.append, index))
        self.spread.release()


def test_it_waits_for_the_slowest_and_answers_in_order() -> None:
    answers = Answers()
    answers.wait(5, 7)
    answers.spread.node_applied(2, 9)
    assert answers.given == []
    answers.spread.node_applied(3, 6)
    assert answers.given == [5]
    answers.spread.node_applied(3, 7)
    assert answers.given == [5, 7]
    answers.spread.node_applied(3, 4)
    answers.wait(7)
    assert answers.given == [5, 7, 7], "what a node has applied stays so"


def test_it_does_not_wait_for_who_is_down_or_says_nothing() -> None:
    answers = Answers()
    answers.wait(5)
    answers.spread.node_applied(2, 5)
    answers.spread.node_suspected(3)
    assert answers.given == [5]
    answers.spread.node_trusted(3)
    answers.wait(6)
    answers.spread.node_applied(2, 6)
    assert answers.given == [5]
    answers.spread.node_down(3)
    assert answers.given == [5, 6]
    answers.spread.node_applied(3, 7)
    answers.spread.node_down(2)
    answers.wait(8)
    assert answers.given == [5, 6, 8], "nobody else is up"


def test_it_waits_for_a_bounded_time() -> None:
    answers = Answers()
    answers.wait(5)
    answers.clock.advance(SPREAD_WAIT_MS - 1)
    answers.spread.release()
    assert answers.given == []
    answers.clock.advance(1)
    answers.spread.release()
    assert answers.given == [5]
