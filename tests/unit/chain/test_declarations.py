"""Goal: what is durable is in the journal before the client is told, and nothing else is. Method: a
node whose disk stands still, then a node on what is durable.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.metadata.tables import DurableTables
from support.files import DictFiles

from .client import Broker, Client

DURABLE_WORLD = (
    m.ExchangeDeclare(exchange="x", exchange_type="topic", durable=True),
    m.ExchangeDeclare(exchange="y", exchange_type="fanout", durable=True),
    m.QueueDeclare(queue="q", durable=True),
    m.QueueBind(queue="q", exchange="x", routing_key="bound"),
    m.ExchangeBind(destination="y", source="x", routing_key="bound"),
    m.ExchangeDeclare(exchange="passing", exchange_type="fanout"),
    m.QueueDeclare(queue="passing"),
)


class Bench:
    def __init__(self, files: DictFiles | None = None) -> None:
        self.broker = Broker(files=files)
        self.broker.run()
        self.client: Client = self.broker.connect()
        self.client.open(1)

    def again(self) -> Bench:
        """After a crash."""
        return Bench(self.broker.world.disk.files.crash())

    def said(self, method: Method) -> list[Method]:
        """The answer while the disk does nothing."""
        self.client.post_bytes(method.frame(1))
        while self.broker.node.run(100):
            pass
        events = self.client.events()
        return [event.method for event in events if isinstance(event, MethodFrame)]

    def names(self) -> tuple[list[str], list[str], int]:
        broker = self.broker.node.broker
        kept = DurableTables(broker.definitions.encode())
        exchanges = [name for _, name in kept.exchanges if name]
        return (
            sorted(exchanges),
            sorted(broker.vhosts["/"].queues),
            len(kept.bindings),
        )


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    for method in DURABLE_WORLD:
        assert len(one.client.call(1, method)) == 1
    return one


def name_of(method: Method) -> str:
    return repr(method)[:60]


@pytest.mark.parametrize(
    "method",
    [
        m.ExchangeDeclare(exchange="new", exchange_type="direct", durable=True),
        m.QueueDeclare(queue="new", durable=True),
        m.QueueBind(queue="q", exchange="x", routing_key="new"),
        m.ExchangeBind(destination="y", source="x", routing_key="new"),
        m.QueueUnbind(queue="q", exchange="x", routing_key="bound"),
        m.ExchangeUnbind(destination="y", source="x", routing_key="bound"),
        m.ExchangeDelete(exchange="x"),
        m.QueueDelete(queue="q"),
    ],
    ids=name_of,
)
def test_answer_comes_when_it_is_durable(bench: Bench, method: Method) -> None:
    before = bench.again().names()
    assert bench.said(method) == []
    assert bench.again().names() == before
    bench.broker.run()
    assert len(bench.client.events()) == 1
    assert bench.again().names() != before


@pytest.mark.parametrize(
    "method",
    [
        m.ExchangeDeclare(exchange="x", exchange_type="topic", durable=True),
        m.QueueDeclare(queue="q", durable=True),
        m.QueueDeclare(queue="q", passive=True),
        m.QueueBind(queue="q", exchange="x", routing_key="bound"),
        m.QueueUnbind(queue="q", exchange="x", routing_key="not bound"),
        m.ExchangeDelete(exchange="nowhere"),
        m.ExchangeDeclare(exchange="new", exchange_type="direct"),
        m.QueueDeclare(queue="new"),
        m.QueueDeclare(queue="new", durable=True, exclusive=True),
        m.QueueBind(queue="passing", exchange="x", routing_key="new"),
        m.QueueBind(queue="q", exchange="passing"),
        m.ExchangeBind(destination="passing", source="x", routing_key="new"),
        m.QueueDelete(queue="passing"),
        m.ExchangeDelete(exchange="passing"),
    ],
    ids=name_of,
)
def test_what_changes_nothing_durable_waits_for_no_disk(bench: Bench, method: Method) -> None:
    before = bench.again().names()
    assert len(bench.said(method)) == 1
    bench.broker.run()
    assert bench.again().names() == before


def test_without_an_answer_nobody_waits_but_it_is_durable_all_the_same(bench: Bench) -> None:
    assert bench.said(m.QueueDeclare(queue="new", durable=True, nowait=True)) == []
    assert "new" in bench.broker.node.broker.vhosts["/"].queues
    bench.broker.wait()
    assert "new" in bench.again().names()[1]


def test_auto_delete_exchange_goes_durably_with_its_last_binding() -> None:
    """With the queue that was bound, or by unbinding."""
    one = Bench()
    for name in ("x", "y"):
        one.client.call(
            1,
            m.ExchangeDeclare(
                exchange=name, exchange_type="fanout", durable=True, auto_delete=True
            ),
            m.QueueDeclare(queue=name, durable=True),
            m.QueueBind(queue=name, exchange=name),
        )
    assert one.again().names() == (["x", "y"], ["x", "y"], 2)
    one.client.call(1, m.QueueUnbind(queue="x", exchange="x"), m.QueueDelete(queue="y"))
    one.broker.wait()
    assert one.again().names() == ([], ["x"], 0)


def test_a_failed_storage_refuses_what_must_be_durable(bench: Bench) -> None:
    bench.broker.node.broker.store.fail_storage("broken")
    [closed] = bench.client.call(1, m.QueueDeclare(queue="new", durable=True))
    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_code == 406
    assert "storage has failed" in closed.reply_text
    bench.client.call(1, m.ChannelCloseOk())
    bench.client.open(1)
    [answer] = bench.client.call(1, m.QueueDeclare(queue="passing too"))
    assert isinstance(answer, m.QueueDeclareOk)
