"""Goal: nothing in the broker counts on a queue that does at once what it is told.

Method: the whole simulation, with its models, over queues whose commands are agreed on later; and
the moments at which it makes a difference. (tests/unit/chain/conftest.py runs the tests of single
queues so, too.)
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import MethodFrame
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.chain.queue.queue_timers import LookUnused
from sluicemq.chain.store.messages import Written
from sluicemq.queues.commands import Consume, Inspect, Publish, Settle
from sluicemq.sim.run import STEPS, simulate
from support.fakes import bystander
from support.late import Late
from support.thorough import thorough
from unit.chain.client import PERSISTENT, Broker, Client

SEEDS = thorough(8, 24)
RUN_STEPS = thorough(2000, STEPS)


class Counted(Late[Any, Any]):
    __slots__ = ()

    batches = 0

    def receive(self, message: object) -> bool:
        is_own = super().receive(message)
        Counted.batches += is_own
        return is_own


def late(queue: LocalQueue) -> Counted:
    return Counted(queue.machine, queue.effects, queue, queue)


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (LocalQueue, ClassicShell):
        monkeypatch.setattr(kind, "replicate", late)
    monkeypatch.setattr(Counted, "batches", 0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_are_kept(seed: int) -> None:
    report = simulate(seed, RUN_STEPS)
    assert not report.failure
    assert Counted.batches


def bench(**arguments: Any) -> tuple[Broker, Client, ClassicShell]:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q", durable=True, arguments=arguments))
    shell = broker.node.broker.vhosts["/"].queues["q"]
    assert isinstance(shell, ClassicShell)
    return broker, client, shell


def test_a_queue_that_will_be_used_is_not_deleted_as_unused() -> None:
    """It has been asked for something, which is not agreed on yet, as its time comes."""
    broker, _, shell = bench(**{"x-expires": 1000})
    broker.world.clock.time_ns += 10**9
    shell.post(Inspect(bystander()))
    shell.post(LookUnused())
    broker.run()
    assert not shell.is_deleted


def test_a_queue_that_has_a_consumer_by_then_is_not_deleted_as_unused() -> None:
    """Its deletion is submitted, and a consumer is agreed on before that."""
    broker, client, shell = bench(**{"x-expires": 1000})
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    (consumer,) = shell.machine.consumers.all()
    shell.machine.drop(consumer)
    broker.world.clock.time_ns += 10**9
    shell.timers.look_unused()
    assert shell.replicator.figures()["pending"]
    shell.machine.apply(Consume(consumer), [])
    broker.run()
    assert not shell.is_deleted


def test_of_a_transaction_acknowledgements_go_when_its_messages_are_safe() -> None:
    """Though one queue gets both: only one that does at once what it is told does so in order."""
    broker, client, shell = bench()
    client.publish(1, "q", b"first", raw=PERSISTENT)
    client.call(1, m.TxSelect())
    client.send(1, m.BasicGet(queue="q"))
    client.events()
    heard: list[type] = []
    receive = shell.receive

    def hearing(message: object) -> None:
        heard.append(type(message))
        receive(message)

    shell.receive = hearing  # type: ignore[method-assign]
    client.publish(1, "q", b"second", raw=PERSISTENT)
    client.send(1, m.BasicAck(delivery_tag=1), m.TxCommit())
    broker.wait()
    assert heard.index(Publish) < heard.index(Written) < heard.index(Settle)


def test_what_was_not_agreed_on_is_refused_at_a_fault() -> None:
    """Who has published hears it, though the fault has come at something else."""
    broker, client, shell = bench()
    client.call(1, m.ConfirmSelect())

    def mistaken(*_: object) -> None:
        raise ZeroDivisionError

    shell.machine.serve = mistaken  # type: ignore[method-assign]
    client.publish(1, "q", b"lost", raw=PERSISTENT)
    broker.wait()
    told = [event.method for event in client.events() if isinstance(event, MethodFrame)]
    assert [type(method) for method in told] == [m.BasicNack]
