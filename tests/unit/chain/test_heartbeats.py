"""Goal: a client that lives is not cut off, one that is silent is. Method: ticks of the heartbeat,
delivered by hand, on a connection that is not read because its client reads slowly."""

from __future__ import annotations

import pytest

from sluicemq.amqp.frames import HEARTBEAT_FRAME
from sluicemq.chain.connection.reader import TICK
from sluicemq.chain.writer import Frames

from .client import Broker, Client


def clogged() -> Client:
    """One with a second's heartbeat to whom more is written than it reads for now."""
    broker = Broker()
    client = broker.connect(heartbeat=1)
    net = broker.net
    backlog = broker.node.broker.writer_backlog_bytes
    net.full = True
    net.unsent = backlog
    for size in (backlog, backlog + 1):
        client.reader.writer.post(Frames(b"x" * size))
        broker.run()
    client.send_bytes(HEARTBEAT_FRAME)
    assert client.number in net.paused
    return client


def tick(client: Client, count: int, read_bytes: int) -> bool:
    """So many half intervals, in each of which the client reads so much; is it connected?"""
    for _ in range(count):
        client.broker.net.unsent -= read_bytes
        client.reader.post(TICK)
        client.broker.run()
    return not client.broker.net.closed


@pytest.mark.parametrize("read_bytes", [1, 1000])
def test_a_client_that_reads_one_large_write_slowly_lives(read_bytes: int) -> None:
    client = clogged()
    assert tick(client, 20, read_bytes)
    assert not tick(client, 5, 0), "then it reads no more"


def test_a_client_that_reads_nothing_is_cut_off() -> None:
    client = clogged()
    assert tick(client, 3, 0)
    assert not tick(client, 2, 0)


def test_a_silent_client_is_cut_off() -> None:
    broker = Broker()
    client = broker.connect(heartbeat=1)
    assert not tick(client, 6, 0)
    assert client.reader.writer.sent_bytes
