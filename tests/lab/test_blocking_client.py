"""Goal: the small client for declaring and counting. Method: against a real broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from sluicemq.client.blocking import BlockingClient, connect
from sluicemq.client.session import BrokerError, ClosedByBrokerError


@pytest.fixture
def client(broker_url: str) -> Iterator[BlockingClient]:
    with connect(broker_url) as connected:
        yield connected


def test_a_queue_is_declared_counted_purged_and_deleted(client: BlockingClient, name: str) -> None:
    assert client.count_queue(name) is None
    assert client.declare_queue(name).name == name
    counts = client.count_queue(name)
    assert counts is not None
    assert (counts.messages_ready, counts.consumers) == (0, 0)
    assert client.count_queues([name, name]) == 0
    assert client.purge_queue(name) == 0
    assert client.delete_queue(name) == 0
    assert client.delete_queue(name) == 0
    assert client.count_queue(name) is None


def test_a_refusal_has_the_brokers_words_and_the_client_goes_on(
    client: BlockingClient, name: str
) -> None:
    client.declare_queue(name, durable=True)
    with pytest.raises(ClosedByBrokerError, match="406 PRECONDITION_FAILED - inequivalent arg"):
        client.declare_queue(name, durable=False)
    assert client.delete_queue(name) == 0


def test_the_broker_says_who_it_is(client: BlockingClient) -> None:
    assert client.product
    assert client.version[0].isdigit()


def test_wrong_credentials_are_refused_in_the_brokers_words(broker_url: str) -> None:
    with pytest.raises(ClosedByBrokerError, match="403 ACCESS_REFUSED"):
        connect(broker_url.replace("guest:guest", "guest:wrong"))


def test_a_port_nobody_listens_on_says_so() -> None:
    with pytest.raises(BrokerError, match="cannot connect to amqp://guest@127"):
        connect("amqp://127.0.0.1:1")


def test_a_peer_that_hangs_up_or_says_nothing_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"amqp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BrokerError, match="did not answer in time"):
            connect(url, timeout_s=0.1)
        server.accept()[0].close()
        hangs_up = threading.Thread(target=_accept_and_close, args=(server,))
        hangs_up.start()
        with pytest.raises(BrokerError, match=r"closed the socket|was lost"):
            connect(url, timeout_s=240)
        hangs_up.join()


def _accept_and_close(server: socket.socket) -> None:
    server.accept()[0].close()
