"""Celery, and kombu below it: a worker in a thread, results by RPC, and a queue that is looked at.

python -m pytest test_celery.py
"""

from __future__ import annotations

from celery import Celery
from celery.contrib.testing.worker import start_worker
from kombu import Connection

from sluicemq.testing import Admin

PATIENCE_S = 60


def application(url: str) -> Celery:
    """An application with one task."""
    app = Celery("shop", broker=url, backend="rpc://")
    app.conf.update(task_default_queue="work", worker_enable_remote_control=False)

    @app.task(name="price", shared=False)
    def price(pieces: int, each: int) -> int:
        return pieces * each

    return app


def test_a_task_is_done(amqp_url: str, amqp_admin: Admin) -> None:
    app = application(amqp_url)
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=PATIENCE_S):
        assert app.tasks["price"].delay(3, 4).get(timeout=PATIENCE_S) == 12
    amqp_admin.assert_nothing_left("work")
    app.close()


def test_a_task_waits_for_a_worker(amqp_url: str, amqp_admin: Admin) -> None:
    app = application(amqp_url)
    app.tasks["price"].apply_async((3, 4), ignore_result=True)
    (message,) = amqp_admin.peek("work")
    assert message.properties.headers is not None
    assert message.properties.headers["task"] == "price"
    app.close()


def test_kombu_alone(amqp_url: str, amqp_admin: Admin) -> None:
    with Connection(amqp_url) as connection, connection.SimpleQueue("letters") as letters:
        letters.put({"to": "you"})
        amqp_admin.wait_until("letters", ready=1)
        letter = letters.get(timeout=PATIENCE_S)
        assert letter.payload == {"to": "you"}
        letter.ack()
    amqp_admin.assert_nothing_left()
