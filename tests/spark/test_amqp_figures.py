"""Goal: the progress of a query says of each queue how much is there, waits, and came again.

Method: a session on a real broker, with no Spark around it.
"""

from __future__ import annotations

import time
from typing import Any

from sluicemq.spark.commits import Offset
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.figures import LOOK_S
from sluicemq.spark.options import Options
from sluicemq.spark.stream_planner import START, StreamPlanner
from spark.amqp_messages import Broker, numbered

WAIT_S = 240.0


def options(amqp: Broker, queue: str, **more: object) -> Options:
    given = {"uri": amqp.url, "queue": queue} | {name: str(value) for name, value in more.items()}
    return Options.parse(given, "source")


def figures_when(session: StreamPlanner, queue: str, **wanted: int) -> dict[str, Any]:
    """As soon as they have these values."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found: dict[str, Any] = session.gathered()["queues"][queue]
        if wanted.items() <= found.items() or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def plan(session: StreamPlanner, start: Offset) -> Offset:
    end = start
    deadline = time.monotonic() + WAIT_S
    while end == start and time.monotonic() < deadline:
        end = session.plan(start, 2**40)
    return end


def test_figures_follow_messages_from_the_broker_to_the_commit(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(30))
    session = StreamPlanner(options(amqp, name, prefetch=20))
    quiet = {"redelivered": 0, "reconnects": 0}
    try:
        wanted = {"depth": 30, "lag": 30, "unacknowledged": 0}
        assert figures_when(session, name, **wanted) == quiet | wanted
        session.open()
        wanted = {"depth": 10, "lag": 30, "unacknowledged": 20}
        assert figures_when(session, name, **wanted) == quiet | wanted
        end = plan(session, dict(START))
        taken = end["pos"][name]
        wanted |= {"lag": 30 - taken}
        assert figures_when(session, name, **wanted) == quiet | wanted
        while taken < 20:
            end = plan(session, end)
            taken = end["pos"][name]
        session.confirm(end)
        wanted = {"depth": 0, "lag": 10, "unacknowledged": 10}
        assert figures_when(session, name, **wanted) == quiet | wanted
    finally:
        session.close()


def test_what_comes_again_and_lost_connections_are_counted(amqp: Broker, name: str) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(10))
    session = StreamPlanner(options(amqp, name, retryBackoff=1))
    try:
        end = plan(session, dict(START))
        (consumer,) = session._consumers
        assert isinstance(consumer, ConsumerThread)
        assert consumer._subscription is not None
        consumer._subscription.wire.sever()
        assert figures_when(session, name, reconnects=1)["reconnects"] == 1
        end = plan(session, end)
        assert figures_when(session, name)["redelivered"] == 10
    finally:
        session.close()


def test_a_queue_that_is_not_known_has_no_depth(amqp: Broker, name: str) -> None:
    """A broker that is away, or does not answer, delays nobody."""
    session = StreamPlanner(options(amqp, name, uri="amqp://127.0.0.1:1/"))
    try:
        for _ in range(2):
            found = session.gathered()["queues"][name]
            assert found == {"unacknowledged": 0, "redelivered": 0, "reconnects": 0}
            time.sleep(LOOK_S + 0.1)
    finally:
        session.close()
