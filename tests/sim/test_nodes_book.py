"""Goal: what clients of several nodes cannot have seen, if all is well, is noticed.

Method: tell the book of a run what a client has seen of queues that are deleted, of one in which
messages die, and of a stream.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.sim.messages import MessageId
from sluicemq.sim.nodes.book import (
    CONFIRMED,
    BookedConsumer,
    ChannelHolder,
    ClusterBook,
    ClusterStream,
    Outages,
)
from sluicemq.sim.nodes.groups import GroupHistory
from sluicemq.sim.nodes.plan import PlannedQueue, nodes_plan
from sluicemq.sim.nodes.promotions import Promotion, Promotions
from sluicemq.sim.records import ACKED, REJECTED, PromiseBroken
from sluicemq.sim.timeline import Timeline

FIRST_LIFE, SECOND_LIFE = 1, 7


class Bench:
    """A publisher and a consumer at one node; time is what is set."""

    def __init__(self, *queues: PlannedQueue) -> None:
        self.births: dict[int, int] = {}
        self.is_disputed = False
        self.timeline = Timeline()
        self.outages = Outages()
        self.promotions = Promotions()
        plan = replace(nodes_plan(0), queues=queues)
        self.book = ClusterBook(
            plan,
            self.timeline,
            self.outages,
            lambda: 0,
            self.births,
            self.promotions,
            lambda _: self.is_disputed,
        )
        self.stream: ClusterStream = self.book.stream("publisher", 1, confirms=True)

    def publish(self, queue: str) -> MessageId:
        """Publish a message that is confirmed at once."""
        message = self.book.publish(self.stream, (queue,), True)
        self.book.answer(self.stream, message[1] + 1, False, CONFIRMED)
        return message

    def consumer(self, queue: str, life: int = FIRST_LIFE) -> BookedConsumer:
        return self.book.consumer(ChannelHolder("consumer", 1), queue, 0, life)


def test_what_was_confirmed_before_a_queue_was_declared_again_is_not_in_it() -> None:
    bench = Bench(PlannedQueue(name="q", is_quorum=False, passes=True))
    old = bench.publish("q")
    bench.timeline.now_ns = bench.births[SECOND_LIFE] = 100
    new = bench.publish("q")
    bench.book.deliver(old, bench.consumer("q", FIRST_LIFE), redelivered=False)
    consumer = bench.consumer("q", SECOND_LIFE)
    bench.book.deliver(new, consumer, redelivered=False)
    with pytest.raises(PromiseBroken, match="earlier life"):
        bench.book.deliver(old, consumer, redelivered=False)


@pytest.mark.parametrize("must_arrive", [True, False])
def test_a_message_is_in_its_queue_or_in_the_grave(must_arrive: bool) -> None:
    bench = Bench(
        PlannedQueue(name="q", is_quorum=True, grave="g", must_arrive=must_arrive),
        PlannedQueue(name="g", is_quorum=False, source="q"),
    )
    book = bench.book
    _, acknowledged, dead = (bench.publish("q") for _ in range(3))
    consumer = bench.consumer("q")
    book.settle(book.deliver(acknowledged, consumer, redelivered=False), ACKED)
    grave = bench.consumer("g")
    book.deliver(dead, grave, redelivered=False)
    if must_arrive:
        with pytest.raises(PromiseBroken, match=r"\(0, 0\) is lost in q"):
            book.all_is_well()
        book.deliver(dead, bench.consumer("g"), redelivered=False)
    else:
        book.all_is_well()
        with pytest.raises(PromiseBroken, match=r"comes from g .* acknowledged"):
            book.deliver(acknowledged, bench.consumer("g"), redelivered=False)
        with pytest.raises(PromiseBroken, match="has died there"):
            book.deliver(dead, bench.consumer("q"), redelivered=False)


def test_what_clients_of_a_node_that_stops_acknowledge_may_come_again() -> None:
    bench = Bench(PlannedQueue(name="q", is_quorum=False))
    book, message = bench.book, bench.publish("q")
    book.settle(book.deliver(message, bench.consumer("q"), redelivered=False), ACKED)
    elsewhere = book.consumer(ChannelHolder("elsewhere", 2), "q", 0, FIRST_LIFE)
    with pytest.raises(PromiseBroken, match="acknowledged"):
        book.deliver(message, elsewhere, redelivered=True)
    bench.outages.stopping.add(1)
    book.deliver(message, elsewhere, redelivered=True)


def test_what_is_in_flight_to_a_node_that_hangs_up_may_come_elsewhere_before() -> None:
    bench = Bench(PlannedQueue(name="q", is_quorum=False))
    book = bench.book
    first, second, third = (bench.publish("q") for _ in range(3))
    book.is_calm = False
    elsewhere = book.consumer(ChannelHolder("elsewhere", 2), "q", 0, FIRST_LIFE)
    late = bench.consumer("q")
    for message in (first, second):
        book.settle(book.deliver(message, elsewhere, redelivered=True), ACKED)
    book.settle(book.deliver(third, elsewhere, redelivered=False), ACKED)
    for redelivered in (False, True):
        with pytest.raises(PromiseBroken, match="acknowledged"):
            book.deliver(first, late, redelivered=redelivered)
    bench.outages.stopping.add(1)
    book.deliver(first, late, redelivered=False)
    book.deliver(second, late, redelivered=True)
    with pytest.raises(PromiseBroken, match="acknowledged"):
        book.deliver(third, late, redelivered=True)


def test_what_dies_elsewhere_may_still_be_in_flight_to_a_node_that_hangs_up() -> None:
    bench = Bench(
        PlannedQueue(name="q", is_quorum=True, grave="g", must_arrive=False),
        PlannedQueue(name="g", is_quorum=False, source="q"),
    )
    book, message = bench.book, bench.publish("q")
    book.is_calm = False
    elsewhere = book.consumer(ChannelHolder("elsewhere", 2), "q", 0, FIRST_LIFE)
    book.settle(book.deliver(message, elsewhere, redelivered=True), REJECTED)
    book.deliver(message, bench.consumer("g"), redelivered=False)
    bench.outages.stopping.add(1)
    book.deliver(message, bench.consumer("q"), redelivered=False)


def test_an_offset_has_one_message_and_there_are_no_gaps() -> None:
    bench = Bench(PlannedQueue(name="log", is_quorum=False, is_log=True))
    book = bench.book
    first, second = bench.publish("log"), bench.publish("log")
    book.read("log", 0, first)
    with pytest.raises(PromiseBroken, match="no more"):
        book.read("log", 0, second)
    with pytest.raises(PromiseBroken, match="is lost in log"):
        book.all_is_well()
    book.read("log", 2, second)
    with pytest.raises(PromiseBroken, match="has nothing at 1"):
        book.all_is_well()


def promoted(bench: Bench) -> None:
    """Have a mirror of `q` go on that lacks what the others agreed on from 200 on; these served
    until 300."""
    former = GroupHistory(1, bench.timeline)
    former.commits = [(5, 100), (6, 200)]
    former.served_ns = 300
    bench.promotions.of_queues["q"] = [Promotion(9, former, 5)]


def test_what_only_mirrors_had_that_were_left_behind_may_be_lost() -> None:
    bench = Bench(
        PlannedQueue(name="q", is_quorum=False, is_mirrored=True, promotes=True),
        PlannedQueue(name="other", is_quorum=False, is_mirrored=True),
    )
    promoted(bench)
    bench.timeline.now_ns = 250
    bench.publish("q")
    bench.book.all_is_well()
    assert bench.book.figures["lost by promotions"] == 1
    bench.publish("other")
    with pytest.raises(PromiseBroken, match=r"\(0, 1\) is lost in other"):
        bench.book.all_is_well()


@pytest.mark.parametrize("at_ns", [150, 350], ids=["before", "afterwards"])
def test_what_who_goes_on_had_or_got_may_not_be_lost(at_ns: int) -> None:
    bench = Bench(PlannedQueue(name="q", is_quorum=False, is_mirrored=True, promotes=True))
    promoted(bench)
    bench.timeline.now_ns = at_ns
    bench.publish("q")
    with pytest.raises(PromiseBroken, match="is lost in q"):
        bench.book.all_is_well()


def test_what_is_acknowledged_at_a_master_who_is_none_any_more_comes_again() -> None:
    bench = Bench(PlannedQueue(name="q", is_quorum=False, is_mirrored=True))
    one, other = bench.publish("q"), bench.publish("q")
    consumer, next_one = bench.consumer("q"), bench.consumer("q")
    bench.is_disputed = True
    bench.book.settle(bench.book.deliver(one, consumer, redelivered=True), ACKED)
    bench.is_disputed = False
    bench.book.deliver(one, next_one, redelivered=True)
    bench.book.settle(bench.book.deliver(other, consumer, redelivered=True), ACKED)
    with pytest.raises(PromiseBroken, match="acknowledged it"):
        bench.book.deliver(other, next_one, redelivered=True)
