"""Goal: a start says how many messages it has found, those of quorum queues among them, once, also
when one of these cannot answer. Method: a whole node on the files of another one.
"""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest

from sluicemq.amqp import methods as m
from sluicemq.broker.recovery_report import RecoveryReport
from sluicemq.kernel.world import Log
from sluicemq.queues.quorum.fifo import Fifo
from support.files import DictFiles

from .client import PERSISTENT, Broker
from .test_quorum_queue import declare, shell

RECOVERED = re.compile(
    r"recovered (\d+) queues with (\d+) messages in \d+ ms; the last run ended without shutting"
    r" down"
)


def found(files: DictFiles) -> list[tuple[int, int]]:
    """What a start on these files says: queues, messages; each time it says so."""
    lines: list[str] = []
    with patch.object(Log, "write", lambda _self, _level, text: lines.append(text)):
        Broker(files=files).run()
    return [
        (int(match[1]), int(match[2])) for line in lines if (match := RECOVERED.fullmatch(line))
    ]


@pytest.fixture
def before() -> Broker:
    """Three messages in a classic queue, and seven in a quorum queue, two of them at a consumer."""
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="classic", durable=True))
    declare(client, x_expires=60_000)
    client.call(1, m.ConfirmSelect())
    client.publish(1, "classic", *(b"%d" % n for n in range(3)), raw=PERSISTENT)
    client.publish(1, "q", *(b"%d" % n for n in range(7)))
    client.send(1, m.BasicQos(prefetch_count=2), m.BasicConsume(queue="q"))
    broker.wait()
    return broker


def test_messages_of_quorum_queues_are_counted(before: Broker) -> None:
    assert found(before.world.disk.files.crash()) == [(2, 10)]


def test_it_says_so_at_once_without_quorum_queues() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="classic", durable=True))
    assert found(broker.world.disk.files.crash()) == [(1, 0)]


def test_a_queue_that_is_down_keeps_it_from_nothing(before: Broker) -> None:
    with patch.object(Fifo, "entered", side_effect=ZeroDivisionError):
        assert found(before.world.disk.files.crash()) == [(2, 3)]


def test_to_be_counted_is_no_use(before: Broker) -> None:
    after = Broker(files=before.world.disk.files.crash())
    after.run()
    used_ms = shell(after).fifo.used_ms
    after.world.clock.advance(1000)
    RecoveryReport(after.node.broker, 0, True)
    after.run()
    assert shell(after).fifo.used_ms == used_ms
