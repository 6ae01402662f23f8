"""A consumer that never acknowledges loses its channel. (RabbitMQ looks once a minute only.)"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika_client import consume, parameters, publish, settle, wait_until

from support import broker
from support.broker import Target

TIMEOUT_MS = 3000


@pytest.fixture
def impatient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """A broker with a short timeout."""
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    with broker.serving(tmp_path, f"consumer_timeout={TIMEOUT_MS}") as target:
        yield target


def test_the_channel_closes_and_the_message_goes_to_another(impatient: Target) -> None:
    connection = pika.BlockingConnection(parameters(impatient))
    slow, quick = connection.channel(), connection.channel()
    quick.queue_declare("q", exclusive=True)
    slow.basic_qos(prefetch_count=1)
    reasons: list[Any] = []
    slow._impl.add_on_close_callback(lambda _, reason: reasons.append(reason))
    consume(slow, "q")
    began = time.monotonic()
    publish(quick, "q", b"1")
    wait_until(connection, lambda: reasons)
    assert time.monotonic() - began >= TIMEOUT_MS / 1000
    assert reasons[0].reply_code == 406
    assert reasons[0].reply_text == (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value"
        f" used: {TIMEOUT_MS} ms. This timeout value can be configured, see consumers doc guide to"
        " learn more"
    )
    inbox = consume(quick, "q", acks=True)
    assert inbox.exactly(1)[0].redelivered
    deadline = time.monotonic() + 2 * TIMEOUT_MS / 1000
    while time.monotonic() < deadline:
        publish(quick, "q", b"2")
        settle(connection)
    assert quick.is_open
    connection.close()
