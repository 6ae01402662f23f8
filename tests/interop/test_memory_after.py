"""After a flood the process is soon nearly as small as before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pamqp import commands
from pika_client import depth, parameters, wait_until

from support import broker
from support.broker import Target
from support.peer import Peer, body, call, header

MIB = 1 << 20
CONNECTIONS = 100
RUNS = 50
RUN = 100
KEPT_BYTES = 60 * MIB
PATIENCE_SECONDS = 240.0
MESSAGE = call(commands.Basic.Publish(routing_key="flood")) + header(100) + body(b"x" * 100)


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    with broker.serving(tmp_path) as target:
        yield target


def publish(target: Target) -> None:
    with Peer(target) as peer:
        peer.log_in().open()
        for _ in range(RUNS):
            peer.send(MESSAGE * RUN)
        peer.send(call(commands.Channel.Close(200, "", 0, 0))).expect("Channel.CloseOk")


def flood(target: Target, idle_bytes: int) -> None:
    with pika.BlockingConnection(parameters(target)) as connection:
        channel = connection.channel()
        channel.queue_declare("flood")
        threads = [threading.Thread(target=publish, args=(target,)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(connection, lambda: depth(channel, "flood") == CONNECTIONS * RUNS * RUN)
        assert target.rss_bytes() > idle_bytes + KEPT_BYTES, "this would prove nothing"
        channel.queue_purge("flood")


def test_memory_of_a_flood_is_given_back_in_a_minute(own: Target) -> None:
    """Half a million small messages from a hundred connections, in each of two floods."""
    idle = own.rss_bytes()
    for _ in range(2):
        flood(own, idle)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while own.rss_bytes() > idle + KEPT_BYTES:
        assert time.monotonic() < deadline, f"{(own.rss_bytes() - idle) // MIB} MiB more are kept"
        time.sleep(0.2)
