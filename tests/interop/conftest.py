"""Connections and channels of pika, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError
from pika_client import Connect, Declare, parameters

from support.broker import Target


@pytest.fixture
def connect(target: Target) -> Iterator[Connect]:
    """Opens connections, with pika's connection parameters as options."""
    opened: list[BlockingConnection] = []

    def opener(**options: Any) -> BlockingConnection:
        opened.append(pika.BlockingConnection(parameters(target, **options)))
        return opened[-1]

    yield opener
    for connection in opened:
        with suppress(AMQPError):  # the test may have broken it on purpose
            connection.close()


@pytest.fixture
def connection(connect: Connect) -> BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    """An exclusive queue of `channel`'s connection."""
    channel.queue_declare(name, exclusive=True)
    return name


@pytest.fixture
def declare(channel: BlockingChannel, name: str) -> Declare:
    """Exclusive queues with arguments: `declare("-a", message_ttl=5)` gives the name."""

    def declared(suffix: str = "", **arguments: Any) -> str:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        channel.queue_declare(name + suffix, exclusive=True, arguments=given)
        return name + suffix

    return declared


@pytest.fixture
def shared_queue(connect: Connect, name: str) -> Iterator[str]:
    """A queue that all connections may use, deleted after the test."""
    owner = connect().channel()
    owner.queue_declare(name)
    yield name
    owner.queue_delete(name)


@pytest.fixture
def exchange(connect: Connect, name: str) -> Iterator[Callable[..., str]]:
    """Declares exchanges and deletes them after the test: `exchange("fanout")` gives the name."""
    owner = connect().channel()
    declared: list[str] = []

    def declare(kind: str = "direct", **options: Any) -> str:
        declared.append(f"{name}-x{len(declared)}")
        owner.exchange_declare(declared[-1], kind, **options)
        return declared[-1]

    yield declare
    for declared_name in declared:
        owner.exchange_delete(declared_name)
