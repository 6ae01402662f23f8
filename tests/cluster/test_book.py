"""Goal: the checker of clusters sees each thing that must not be, and nothing else.

Method: histories that are told to it by hand, one with each mistake, beside those without that look
like it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.book import HEARD_S, MUST_NOT_BE, Book, Sent, Session, Stream


class Told:
    """A queue, a publisher with so many confirmed messages, and the time."""

    def __init__(self, messages: int = 3) -> None:
        self.now = 1.0
        self.book = Book(lambda: self.now)
        self.stream: Stream = self.book.stream("publisher", "q", 10)
        self.contents = [self.book.publish(self.stream) for _ in range(messages)]
        self.book.confirm(self.stream, messages, True)
        self.now += 1

    def deliver(self, number: int, to: Session, redelivered: bool = False) -> Sent:
        self.now += 0.01
        sent = self.book.deliver(to, "q", self.contents[number], redelivered)
        assert sent is not None
        return sent

    def all_to(self, session: Session) -> None:
        for number in range(len(self.contents)):
            self.book.ack(self.deliver(number, session))

    def fault(self) -> None:
        self.now += 2 * HEARD_S
        self.book.fault_begins()
        self.now += 1
        self.book.fault_is_over()
        self.now += 1

    def found(self) -> set[str]:
        counts = self.book.closed().counts
        return {each for each in MUST_NOT_BE if counts[each]}


def well() -> Told:
    told = Told()
    told.all_to(Session("a"))
    return told


def lost() -> Told:
    told = Told()
    told.deliver(0, Session("a"))
    return told


def skipped() -> Told:
    told = well()
    told.contents += [told.book.publish(told.stream) for _ in range(2)]
    told.deliver(4, Session("b"))
    return told


def unheard() -> Told:
    told = well()
    told.book.publish(told.stream)
    told.book.give_up(told.stream)
    return told


def refused_and_gone() -> Told:
    told = well()
    told.book.publish(told.stream)
    told.book.refuse(told.stream, 4, False)
    return told


def in_doubt_and_gone() -> Told:
    told = well()
    told.book.publish(told.stream)
    return told


def changed() -> Told:
    told = well()
    content = bytearray(told.contents[0])
    content[-3] ^= 1
    told.book.deliver(Session("b"), "q", bytes(content), False)
    return told


def never_sent() -> Told:
    told = well()
    told.book.deliver(Session("b"), "q", told.stream.content(7), False)
    return told


def elsewhere() -> Told:
    told = well()
    told.book.stream("another", "other", 10)
    told.book.deliver(Session("b"), "other", told.contents[0], False)
    return told


def as_dead_letter() -> Told:
    told = Told()
    told.book.leads_to["q"] = "other"
    for content in (*told.contents, told.contents[0]):
        told.book.deliver(Session("b"), "other", content, False)
    return told


def confirmed_twice() -> Told:
    told = well()
    told.book.confirm(told.stream, 3, False)
    return told


def unflagged() -> Told:
    told = Told()
    first = Session("a")
    told.all_to(first)
    told.deliver(2, Session("b"))
    return told


def unflagged_to_the_same() -> Told:
    told = Told(1)
    first = Session("a")
    told.deliver(0, first, True)
    told.fault()
    told.deliver(0, first)
    return told


def read_late() -> Told:
    """Its node has died, and another consumer has it already."""
    told = Told(1)
    told.deliver(0, Session("b"), True)
    told.fault()
    told.deliver(0, Session("a"))
    return told


def read_late_twice() -> Told:
    told = read_late()
    told.fault()
    told.deliver(0, Session("c"))
    return told


def flagged_after_its_holder_is_gone() -> Told:
    told = well()
    first = Session("c")
    told.deliver(0, first, True)
    first.is_open = False
    told.deliver(0, Session("d"), True)
    return told


def disorder() -> Told:
    told, session = Told(), Session("a")
    for number in (0, 2, 1):
        told.book.ack(told.deliver(number, session))
    return told


def what_a_consumer_had_not_seen_goes_back() -> Told:
    told, session = Told(), Session("a")
    for number in (0, 2):
        told.book.ack(told.deliver(number, session))
    told.book.gone(Session("b"), "q")
    told.book.ack(told.deliver(1, session))
    return told


def order_of_two_consumers() -> Told:
    told, one, other = Told(), Session("a"), Session("b")
    told.deliver(0, one)
    told.deliver(2, other)
    told.deliver(1, one)
    return told


def revived() -> Told:
    told = well()
    told.fault()
    told.deliver(1, Session("b"), True)
    return told


def again_soon_after_the_acknowledgement() -> Told:
    told = well()
    told.book.fault_begins()
    told.deliver(1, Session("b"), True)
    told.book.fault_is_over()
    return told


def again_when_the_connection_broke() -> Told:
    told, session = Told(), Session("a")
    told.all_to(session)
    session.is_open = False
    told.fault()
    told.deliver(1, Session("b"), True)
    return told


def shared() -> Told:
    told = Told(1)
    told.deliver(0, Session("a"))
    told.deliver(0, Session("b"), True)
    return told


def shared_across_a_fault() -> Told:
    told = Told(1)
    told.deliver(0, Session("a"))
    told.fault()
    told.deliver(0, Session("b"), True)
    return told


def given_back() -> Told:
    told = Told(1)
    told.book.give_back(told.deliver(0, Session("a")))
    told.deliver(0, Session("b"), True)
    return told


MISTAKES: dict[Callable[[], Told], str] = {
    lost: "lost",
    unheard: "unheard",
    skipped: "skipped",
    changed: "unexpected",
    never_sent: "unexpected",
    elsewhere: "unexpected",
    confirmed_twice: "unexpected",
    unflagged: "unflagged",
    unflagged_to_the_same: "unflagged",
    read_late_twice: "unflagged",
    disorder: "disorder",
    revived: "revived",
    shared: "shared",
}
NONE: tuple[Callable[[], Told], ...] = (
    well,
    refused_and_gone,
    in_doubt_and_gone,
    as_dead_letter,
    flagged_after_its_holder_is_gone,
    what_a_consumer_had_not_seen_goes_back,
    order_of_two_consumers,
    again_soon_after_the_acknowledgement,
    again_when_the_connection_broke,
    shared_across_a_fault,
    given_back,
    read_late,
)


@pytest.mark.parametrize("tell", MISTAKES, ids=lambda each: each.__name__)
def test_what_must_not_be_is_seen(tell: Callable[[], Told]) -> None:
    assert tell().found() == {MISTAKES[tell]}


@pytest.mark.parametrize("tell", NONE, ids=lambda each: each.__name__)
def test_what_may_be_is_not_taken_for_it(tell: Callable[[], Told]) -> None:
    assert tell().found() == set()


def test_silence_is_measured_from_the_last_confirm_before_the_fault() -> None:
    told = Told(0)
    for moment in (1.0, 1.5, 2.0, 5.0, 5.5):
        told.now = moment
        if moment == 2.0:
            told.book.fault_begins()
        told.book.publish(told.stream)
        told.book.confirm(told.stream, len(told.stream.sent), False)
    told.now = 6.0
    (silence,) = told.book.fault_is_over()
    assert silence.seconds == 3.0
    assert told.book.news["q"] == 2
