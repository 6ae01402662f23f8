"""Goal: what publishers have sent is parsed behind everybody else's work, together for one address;
a fault ends the connection, and a connection that has ended is forgotten. Method: a scheduler, and
functions that note that they were called; a whole node.
"""

from __future__ import annotations

import gc
import weakref

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Publishes
from sluicemq.chain.connection.intake import Intake
from sluicemq.kernel.actor import Actor, Scheduler
from unit.chain.client import Broker


class Connection:
    """Who parses."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.done: list[str] = []
        self.intake = Intake(scheduler, self.take_in, self.broken)

    def take_in(self) -> None:
        self.done.append("taken in")

    def broken(self) -> None:
        self.done.append("broken")


class Worker(Actor):
    """Has something to do for a while."""

    turns = 0

    def turn_ended(self) -> None:
        self.turns += 1
        if self.turns < 5:
            self.schedule()


def published(exchange: str, key: str, size: int = 1) -> Publishes:
    method = m.BasicPublish(exchange=exchange, routing_key=key)
    return Publishes(1, method.frame(1), method, [bytes(size)] * 2, 2 * size, True, True)


def test_it_waits_until_nobody_else_has_anything_to_do() -> None:
    scheduler = Scheduler()
    connection, worker = Connection(scheduler), Worker(scheduler)
    connection.intake.schedule()
    worker.schedule()
    while not connection.done:
        scheduler.run(10)
    assert worker.turns == 5
    assert connection.done == ["taken in"]


def test_those_who_publish_to_one_address_have_their_turns_together() -> None:
    scheduler = Scheduler()
    one, two, other = (Connection(scheduler).intake for _ in range(3))
    one.expect(published("x", "key"))
    two.expect(published("x", "key"))
    other.expect(published("x", "key2"))
    assert one.turn_group == two.turn_group
    assert one.turn_group is not None
    assert one.turn_group != other.turn_group


def test_of_vast_contents_only_the_beginning_is_read() -> None:
    intake = Connection(Scheduler()).intake
    sizes = []
    for size in (100, 1 << 16, 1 << 20, 100):
        intake.expect(published("x", "key", size))
        sizes.append(intake.pull_bytes)
    assert sizes[0] == sizes[1] == sizes[3] > sizes[2]


def test_a_fault_closes_the_connection() -> None:
    scheduler = Scheduler()
    connection = Connection(scheduler)

    def fail() -> None:
        raise ValueError

    connection.intake.take_in = fail
    connection.intake.schedule()
    scheduler.run(10)
    assert connection.done == ["broken"]


def test_a_connection_that_has_ended_is_forgotten() -> None:
    scheduler = Scheduler()
    connection = Connection(scheduler)
    intake, gone = connection.intake, weakref.ref(connection)
    intake.release()
    del connection
    gc.collect()
    assert gone() is None
    intake.schedule()
    scheduler.run(10)


def test_nothing_is_read_ahead_of_a_publisher_that_is_held() -> None:
    broker = Broker()
    publisher, other = broker.connect(), broker.connect()
    publisher.open(1)
    other.open(1)
    publisher.publish(1, "q", b"1")
    assert broker.net.resting == set()
    broker.node.scheduler.hold(True)
    publisher.publish(1, "q", b"2")
    other.call(1, m.QueueDeclare(queue="q"))
    assert broker.net.resting == {publisher.reader.connection}
