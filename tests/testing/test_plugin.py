"""Goal: pytest finds the fixtures by itself; each test has a virtual host of its own, also with
pytest-xdist, and one that fails shows what was in its queues.

Method: a suite of a user, run by a pytest of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = """
import pika
import pytest

@pytest.fixture(scope="session")
def amqp_broker_options():
    return {"max_message_size": "1kB"}

@pytest.fixture
def channel(amqp_url):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        yield connection.channel()

@pytest.mark.parametrize("number", range(4))
def test_that_passes(channel, amqp_admin, number):
    assert amqp_admin.queues() == []
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"order")
    amqp_admin.wait_until("orders", ready=1)

def test_that_leaves_its_mess(amqp_broker, amqp_url):
    amqp_broker.block()
    amqp_broker.delay(10)
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    connection.channel().queue_declare("orders")  # and is never closed

def test_after_that(channel, amqp_admin):
    channel.confirm_delivery()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"order")
    amqp_admin.assert_nothing_left()
"""


def test_a_users_suite(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", str(tmp_path)]
    path = f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: messages are left" in done.stdout
    assert "SluiceMQ, virtual host test-" in done.stdout
    assert "orders: 1 ready, 0 unacknowledged, 0 consumers\n  orders: b'order'\n" in done.stdout
    assert "MESSAGE STORE" in done.stdout
