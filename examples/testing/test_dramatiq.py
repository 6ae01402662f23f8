"""dramatiq: an actor and a worker of its own, in threads.

python -m pytest test_dramatiq.py
"""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from sluicemq.testing import Admin

PATIENCE_MS = 60_000


def test_an_actor_is_called_again_after_a_failure(amqp_url: str, amqp_admin: Admin) -> None:
    broker = RabbitmqBroker(url=amqp_url)
    calls: list[int] = []

    def ship(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise ConnectionError("the carrier does not answer")

    actor = dramatiq.actor(ship, broker=broker, queue_name="orders", min_backoff=10, max_backoff=10)
    worker = dramatiq.Worker(broker, worker_timeout=100)
    worker.start()
    try:
        actor.send(7)
        broker.join("orders", timeout=PATIENCE_MS)
        worker.join()
    finally:
        worker.stop()
        broker.close()
    assert calls == [7, 7]
    amqp_admin.assert_nothing_left()
