"""Goal: the history knows what may be gone, and what may come again, after the broker's end.

Method: tell it a short story; it must accept it, or name what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluicemq.sim.history import History
from sluicemq.sim.records import (
    ACKED,
    KILL,
    POWER,
    REQUEUED,
    STOP,
    WORK,
    Consumption,
    Delivery,
    Holder,
    PromiseBroken,
    PublishedStream,
)

CRASHES = (KILL, POWER)


class Story:
    """One durable queue "q" and one that is not, "n"; a confirming publisher."""

    def __init__(self) -> None:
        self.book = History()
        self.book.told_what_is_safe = False
        self.book.queue("q", WORK)
        self.book.queue("n", WORK, durable=False)
        self.stream: PublishedStream = self.book.stream("publisher", True)

    def send(self, count: int, queue: str = "q", persistent: bool = True) -> None:
        for _ in range(count):
            self.book.publish(self.stream, (queue,), persistent=persistent)

    def confirm(self, tag: int) -> None:
        self.book.confirm(self.stream, tag, multiple=True)

    def again(self) -> None:
        """A publisher after the crash."""
        self.stream = self.book.stream("publisher again", True)

    def consumer(self, queue: str = "q") -> Consumption:
        return Consumption(Holder("consumer"), queue, 0)

    def get(
        self, by: Consumption, *sequences: int, flag: bool = False, no_ack: bool = False
    ) -> list[Delivery]:
        """Of the first stream."""
        return [self.book.deliver((0, each), by, flag, no_ack) for each in sequences]

    def ack(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.book.settle(delivery, ACKED)


def broken(words: str, call: Callable[[], object]) -> None:
    with pytest.raises(PromiseBroken, match=words):
        call()


@pytest.mark.parametrize("kind", CRASHES)
def test_confirmed_and_persistent_must_be_there(kind: str) -> None:
    story = Story()
    story.send(3)
    story.confirm(2)
    story.book.crash(kind)
    by = story.consumer()
    story.get(by, 0, flag=True)
    broken("lost in q in a crash, though it was confirmed", story.book.all_is_well)
    story.get(by, 1, flag=True)
    story.book.all_is_well()


@pytest.mark.parametrize("kind", CRASHES)
def test_each_unconfirmed_or_transient_message_may_be_there_or_not(kind: str) -> None:
    story = Story()
    story.send(4)
    story.send(4, persistent=False)
    story.send(4, "n")
    story.book.confirm(story.stream, 12, multiple=False)
    story.book.crash(kind)
    story.get(story.consumer(), 1, 3, 5, flag=True)
    story.book.all_is_well()


def test_what_is_sent_after_a_crash_must_be_there_again() -> None:
    story = Story()
    story.send(1)
    story.book.crash(POWER)
    story.again()
    story.send(2)
    story.confirm(2)
    by = story.consumer()
    story.book.deliver((1, 0), by, False, False)
    broken("1.* never hears|lost", story.book.all_is_well)
    broken("nobody can have had it", lambda: story.book.deliver((1, 1), by, True, False))


def test_nothing_is_invented_after_a_crash() -> None:
    story = Story()
    story.send(1)
    story.book.crash(KILL)
    broken("was not sent yet", lambda: story.get(story.consumer(), 1, flag=True))
    broken("nobody sent", lambda: story.book.deliver(None, story.consumer(), True, False))


@pytest.mark.parametrize("kind", CRASHES)
def test_what_was_acknowledged_lately_may_come_again_but_flagged(kind: str) -> None:
    story = Story()
    story.send(2)
    story.confirm(2)
    story.ack(story.get(story.consumer(), 0, 1))
    story.book.crash(kind)
    by = story.consumer()
    story.get(by, 0, flag=True)
    broken("without being flagged", lambda: story.get(by, 1))


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("confirmed", [0, 1, 2])
def test_an_acknowledgement_before_two_confirmed_publishes_is_durable(
    answered: bool, confirmed: int
) -> None:
    story = Story()
    story.send(1)
    story.confirm(1)
    by = story.consumer()
    asked = story.book.now()
    delivered = story.get(by, 0)
    story.ack(delivered)
    story.book.answered(by.holder, asked)  # a question asked before proves nothing
    if answered:
        story.book.answered(by.holder)
    for tag in range(2, 2 + confirmed):
        story.send(1)
        story.confirm(tag)
    story.book.crash(POWER)
    if answered and confirmed == 2:
        broken("it is durable that", lambda: story.get(story.consumer(), 0, flag=True))
    else:
        story.get(story.consumer(), 0, flag=True)


def test_what_only_becomes_durable_after_a_crash_proves_nothing_about_it() -> None:
    story = Story()
    story.send(1)
    story.confirm(1)
    story.get(story.consumer(), 0, no_ack=True)
    story.book.crash(POWER)
    story.again()
    for tag in (1, 2):
        story.send(1)
        story.confirm(tag)
    story.book.crash(KILL)
    story.get(story.consumer(), 0, flag=True)


def test_no_ack_deliveries_are_durable_like_acknowledgements() -> None:
    story = Story()
    story.send(1)
    story.confirm(1)
    story.get(story.consumer(), 0, no_ack=True)
    for tag in (2, 3):
        story.send(1)
        story.confirm(tag)
    story.book.crash(POWER)
    broken("it is durable that", lambda: story.get(story.consumer(), 0, flag=True))


def test_the_first_deliveries_after_a_crash_are_in_order() -> None:
    story = Story()
    story.send(4)
    story.confirm(4)
    story.get(story.consumer(), 0, 1)
    story.book.crash(KILL)
    by = story.consumer()
    story.get(by, 0, 2, flag=True)
    broken("after 2", lambda: story.get(by, 1, flag=True))


def test_what_is_given_back_after_a_crash_comes_out_of_order() -> None:
    story = Story()
    story.send(3)
    story.confirm(3)
    story.book.crash(KILL)
    by, other = story.consumer(), story.consumer()
    (first,) = story.get(by, 0, flag=True)
    story.get(other, 1, flag=True)
    story.book.settle(first, REQUEUED)
    story.get(other, 0, flag=True)
    story.book.end(by.holder, "broken")  # 2 was on its way to it
    last = story.get(story.consumer(), 2, flag=True)
    assert last[0].crashes == 1


def test_nobody_holds_anything_after_a_crash() -> None:
    story = Story()
    story.send(2)
    story.confirm(2)
    by = story.consumer()
    story.get(by, 0)
    broken("holds it", lambda: story.get(story.consumer(), 0, flag=True))
    story.book.crash(KILL)
    assert by.holder.ended and story.stream.ended
    story.get(story.consumer(), 0, flag=True)


def test_after_a_stop_what_is_persistent_is_there_without_gaps() -> None:
    story = Story()
    story.send(1)
    story.send(1, persistent=False)
    story.send(3)
    story.book.crash(STOP)
    by = story.consumer()
    story.get(by, 0)
    story.book.all_is_well()  # the stop may have cut off the rest
    story.get(by, 3)
    broken("2 is lost in q, 3 is not", story.book.all_is_well)


def test_after_a_stop_acknowledgements_that_had_arrived_are_final() -> None:
    story = Story()
    story.send(2)
    story.confirm(2)
    by = story.consumer()
    story.ack(story.get(by, 0))
    story.book.answered(by.holder)
    story.ack(story.get(by, 1))
    story.book.crash(STOP)
    story.get(story.consumer(), 1, flag=True)
    broken("it is durable that", lambda: story.get(story.consumer(), 0, flag=True))
