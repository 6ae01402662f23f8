"""Goal: on a node that is alone nobody is told that a change will last before the journal has it,
whoever has asked for it first; and a storage that has failed takes no change that is to last.

Method: a whole node whose disk does nothing until the test says so.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.metadata.agreement import Agreed, Agreement, NoAgreement
from sluicemq.metadata.changes import DeclareQueue, DeleteRecord, UpsertRecord
from sluicemq.metadata.events import QueueAdded, RecordUpserted
from sluicemq.model.definitions import QueueDefinition
from sluicemq.model.users import User
from support.fakes import bystander, drain

from .client import Broker, Client

DECLARE = m.QueueDeclare(queue="q", durable=True)
BIND = m.QueueBind(queue="q", exchange="amq.direct", routing_key="k")


class Bench:
    def __init__(self) -> None:
        self.broker = Broker()
        self.broker.run()
        self.node = self.broker.node.broker
        self.clients = [self.broker.connect() for _ in range(2)]
        for client in self.clients:
            client.open(1)
        self.broker.run()

    def ask(self, client: Client, method: Method) -> list[Method]:
        """The answer as long as the disk does nothing."""
        client.post_bytes(method.frame(1))
        return self.heard(client)

    def heard(self, client: Client) -> list[Method]:
        while self.broker.node.run(100):
            pass
        return [each.method for each in client.events() if isinstance(each, MethodFrame)]

    def fail(self) -> None:
        """The next sync fails."""
        files = self.broker.world.disk.files
        files.fail = lambda action, _: "EIO" if action == "sync" else None


@pytest.mark.parametrize("method", [DECLARE, BIND], ids=["queue", "binding"])
def test_who_asks_for_what_is_on_its_way_to_the_disk_waits_for_it_too(method: Method) -> None:
    """After a crash it would not be there."""
    bench = Bench()
    one, other = bench.clients
    if method is BIND:
        one.call(1, DECLARE)
    assert bench.ask(one, method) == []
    assert bench.ask(other, method) == []
    bench.broker.wait()
    assert len(bench.heard(one)) == len(bench.heard(other)) == 1
    assert len(bench.ask(other, method)) == 1, "at once, when it is durable"


def test_who_asks_for_what_is_on_its_way_to_a_disk_that_fails_is_refused() -> None:
    bench = Bench()
    one, other = bench.clients
    bench.ask(one, DECLARE)
    bench.ask(other, DECLARE)
    bench.fail()
    bench.broker.wait()
    for client in bench.clients:
        [close] = bench.heard(client)
        assert isinstance(close, m.ChannelClose)
        assert close.reply_code == 406
        assert "storage has failed" in close.reply_text


@pytest.mark.parametrize(
    "method",
    [
        m.QueueDeclare(queue="new", durable=True),
        m.QueueDeclare(queue="new", durable=True, nowait=True),
        m.ExchangeDeclare(exchange="new", exchange_type="direct", durable=True),
        m.QueueBind(queue="q", exchange="x", routing_key="new"),
        m.QueueUnbind(queue="q", exchange="x", routing_key="k"),
        m.ExchangeDelete(exchange="x"),
        m.ExchangeDelete(exchange="x", if_unused=True),
    ],
    ids=lambda method: f"{type(method).__name__}-{getattr(method, 'nowait', '')}",
)
def test_a_storage_that_has_failed_takes_nothing_that_is_to_last(method: Method) -> None:
    """What cannot be kept is refused before anything has changed, also where nobody waits."""
    bench = Bench()
    client = bench.clients[0]
    exchange = m.ExchangeDeclare(exchange="x", exchange_type="direct", durable=True)
    bind = m.QueueBind(queue="q", exchange="x", routing_key="k")
    client.call(1, DECLARE, exchange, bind)
    if getattr(method, "if_unused", False):
        client.call(1, m.QueueUnbind(queue="q", exchange="x", routing_key="k"))
    bench.node.store.fail_storage("EIO")
    before = bench.node.definitions.snapshot()
    [close] = bench.ask(client, method)
    assert isinstance(close, m.ChannelClose)
    assert "storage has failed" in close.reply_text
    assert bench.node.definitions.snapshot() == before
    assert bench.node.vhosts["/"].queues.keys() == {"q"}


def test_a_storage_that_has_failed_still_takes_what_does_not_last() -> None:
    bench = Bench()
    bench.node.store.fail_storage("EIO")
    [answer] = bench.ask(bench.clients[0], m.QueueDeclare(queue="transient"))
    assert isinstance(answer, m.QueueDeclareOk)
    [refused] = bench.broker.begin("add_user", username="u", password="p")
    assert "storage has failed" in refused.error
    assert "u" not in bench.node.definitions.users


def test_those_who_follow_hear_before_who_has_asked() -> None:
    bench = Bench()
    agreement = bench.node.agreement
    heard: list[object] = []
    agreement.follow(QueueAdded, heard.append)
    agreement.follow(RecordUpserted, heard.append)
    proposer = bystander()
    change = DeclareQueue(QueueDefinition("q", durable=True))
    assert not agreement.propose(change, proposer)
    assert [type(each) for each in heard] == [QueueAdded]
    assert not agreement.propose(UpsertRecord(User("u")), proposer)
    assert drain(proposer) == []
    bench.broker.wait()
    assert [each.refusal for each in drain(proposer) if isinstance(each, Agreed)] == [None, None]
    assert agreement.propose(change, proposer), "there is nothing to wait for"
    assert agreement.propose(DeleteRecord("user", "nobody"), proposer)
    assert drain(proposer) == []
    bench.node.store.fail_storage("EIO")
    with pytest.raises(NoAgreement, match="EIO"):
        agreement.propose(UpsertRecord(User("v")), proposer)
    assert isinstance(agreement, Agreement)
