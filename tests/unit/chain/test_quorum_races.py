"""Goal: what happens to a quorum queue at the same moment harms nobody. Method: a whole node
without sockets, on a disk that takes its time; the simulation has found each of these.
"""

from __future__ import annotations

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_frames
from sluicemq.config import Config, RaftConfig

from .client import NO_PROPERTIES, Broker
from .test_quorum_queue import deliveries, depth, fault, ready, said, shell

TURNS_MAX = 100


def some_turns(broker: Broker) -> None:
    """And the disk does what it has to."""
    for _ in range(TURNS_MAX):
        broker.node.run(10)
        while broker.world.disk.jobs:
            broker.world.disk.finish()


def without_the_disk(broker: Broker) -> None:
    """All that can be done until the disk has done something."""
    while broker.node.run(1000):
        pass


def test_two_who_delete_it_at_once_are_both_answered() -> None:
    broker, client = ready()
    for channel in (1, 2):
        client.post_bytes(m.QueueDelete(queue="q").frame(channel))
    broker.run()
    assert [each.NAME for each in said(client)] == ["queue.delete-ok"] * 2
    assert not broker.node.broker.vhosts["/"].crashes


def test_who_declares_it_while_it_is_being_deleted_has_it_declared_anew() -> None:
    broker, client = ready()
    client.post_bytes(m.QueueDelete(queue="q").frame(1))
    without_the_disk(broker)
    deleted = shell(broker)
    arguments = {"x-queue-type": "quorum"}
    declare = m.QueueDeclare(queue="q", durable=True, arguments=arguments)
    passive = m.QueueDeclare(queue="q", passive=True)
    client.post_bytes(declare.frame(2))
    broker.run()
    assert [each.NAME for each in said(client)] == ["queue.delete-ok", "queue.declare-ok"]
    assert shell(broker) is not deleted
    assert [each.NAME for each in client.call(2, passive)] == ["queue.declare-ok"]


def test_deliveries_go_on_when_what_comes_takes_whole_turns() -> None:
    broker, client = ready()
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    broker.node.scheduler.turn_work = 1
    publish = m.BasicPublish(exchange="", routing_key="q").frame(1)
    client.post_bytes(publish + content_frames(1, NO_PROPERTIES, b"one", 131072))
    some_turns(broker)
    assert [body for _, body, _ in deliveries(client)] == [b"one"]


def test_who_has_come_with_an_entry_that_a_fault_has_left_under_way_goes() -> None:
    broker, client = ready(config=Config(raft=RaftConfig(wal_max_batch_size=1)))
    publish = m.BasicPublish(exchange="", routing_key="q").frame(1)
    publish += content_frames(1, NO_PROPERTIES, b"one", 131072)
    for sent in (publish, publish, m.BasicConsume(queue="q", consumer_tag="c").frame(2)):
        client.post_bytes(sent)
        without_the_disk(broker)
    queue = shell(broker)
    assert len(queue.replicator.proposed) == 3
    fault(broker)
    assert shell(broker) is not queue
    client.events()
    assert depth(client) == (2, 0)
    assert not shell(broker).fifo.consumers.members
