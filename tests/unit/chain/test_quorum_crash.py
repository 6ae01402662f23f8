"""Goal: a fault in a quorum queue's own code, at any step, loses nothing that was confirmed and
holds up nobody: publishers are answered, consumers cancelled, credit and memory given back. A new
life, after a fault or a restart, does nothing again that was done.

Method: a whole node; one method of the queue is made to raise while something is under way: an
entry that is not synced, a snapshot, a read, a rewrite.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.chain.queue.quorum.shell import SETTLES_WAIT_MS, QuorumShell
from sluicemq.chain.store.raft_answers import RaftSnapshotKept

from .client import Broker, Client
from .test_quorum_queue import again, declare, deliveries, depth, get, ready, said, shell


class Mistake(Exception):
    """One of ours."""


def fail_in(queue: QuorumShell, name: str) -> None:
    """The next call of that method raises; later ones do not."""

    def fail(*_: Any, **__: Any) -> None:
        delattr(queue, name)
        raise Mistake

    setattr(queue, name, fail)


def without_disk(broker: Broker) -> None:
    """Everything happens but what waits for the disk."""
    while broker.node.run(1000):
        pass


def fault_without_disk(broker: Broker) -> None:
    """In the next turn of the queue "q"; what it has written is not durable yet."""
    queue = shell(broker)
    fail_in(queue, "effects_real")
    queue.schedule()
    without_disk(broker)
    assert queue.crash is not None


def stranger(broker: Broker) -> Client:
    """Another client, with two channels."""
    client = broker.connect()
    client.open(1, 2)
    return client


def with_grave(**arguments: object) -> tuple[Broker, Client]:
    """The queue "q", whose dead letters go to the classic queue "grave"."""
    broker, client = ready(
        x_dead_letter_exchange="", x_dead_letter_routing_key="grave", **arguments
    )
    client.call(1, m.QueueDeclare(queue="grave", durable=True))
    return broker, client


# -- what is under way at a fault


def test_who_began_to_consume_at_a_fault_gets_nothing_afterwards() -> None:
    """Its consumer comes to be agreed on when nobody waits for it any more."""
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.post_bytes(m.BasicConsume(queue="q", consumer_tag="c").frame(2))
    without_disk(broker)
    fault_without_disk(broker)
    broker.run()
    assert [each.NAME for each in said(client)][-1:] == ["channel.close"]
    assert depth(stranger(broker)) == (2, 0)
    assert not shell(broker).fifo.consumers.members


def test_what_somebody_gets_at_a_fault_is_there_afterwards() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.events()
    client.post_bytes(m.BasicGet(queue="q").frame(2))
    without_disk(broker)
    fault_without_disk(broker)
    broker.run()
    assert [each.NAME for each in said(client)] == ["channel.close"]
    assert depth(stranger(broker)) == (2, 0)


def test_who_published_at_a_fault_is_forgotten_afterwards() -> None:
    broker, client = ready()
    client.post_bytes(m.BasicConsume(queue="q", consumer_tag="c").frame(2))
    client.publish(1, "q", b"one")
    client.events()
    fault_without_disk(broker)
    broker.run()
    client.lose()
    assert not shell(broker).fifo.addresses()


def test_a_snapshot_that_was_kept_just_before_a_fault_is_kept_once() -> None:
    broker, client = ready()
    queue = shell(broker)
    receive = queue.receive
    witnessed: list[Exception] = []
    broker.node.scheduler.witness = lambda _, error: witnessed.append(error)

    def fail_behind(message: object) -> None:
        receive(message)
        if isinstance(message, RaftSnapshotKept):
            raise Mistake

    queue.receive = fail_behind  # type: ignore[method-assign]
    client.publish(1, "q", b"one", b"two")
    queue.snapshots.begin()
    queue.schedule()
    broker.run()
    broker.wait()
    assert shell(broker) is not queue
    assert [type(each) for each in witnessed] == [Mistake]
    assert depth(stranger(broker)) == (2, 0)


def test_the_depth_counts_what_was_published_before_though_there_was_a_fault() -> None:
    """What was agreed on in an earlier life is not counted for this one."""
    broker, client = ready()
    client.publish(1, "q", b"one")
    fault_without_disk(broker)
    broker.run()
    other = stranger(broker)
    other.publish(1, "q", b"two")
    assert depth(other) == (2, 0)
    assert shell(broker).done == shell(broker).submitted


def test_a_deletion_at_which_there_is_a_fault_is_carried_out() -> None:
    """It is agreed on; whoever has asked is told of it or of the fault."""
    broker, client = ready()
    client.publish(1, "q", b"one")
    client.events()
    fail_in(shell(broker), "leave")
    client.send(1, m.QueueDelete(queue="q"))
    assert [each.NAME for each in said(client)][-1:] in (["queue.delete-ok"], ["channel.close"])
    assert "q" not in broker.node.broker.vhosts["/"].queues
    after, other = again(broker)
    assert not after.node.broker.store.raft.table.groups
    declare(other)
    assert depth(other) == (0, 0)


# -- the end


def test_one_that_is_down_can_be_deleted() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    fault_without_disk(broker)
    broker.run()
    fault_without_disk(broker)
    broker.run()
    client.events()
    client.send(1, m.QueueDelete(queue="q"))
    assert [each.NAME for each in said(client)] == ["queue.delete-ok"]
    assert not broker.node.broker.store.raft.table.groups
    after, other = again(broker)
    assert not after.node.broker.store.raft.table.groups
    declare(other)
    assert depth(other) == (0, 0)


def test_one_that_is_being_read_back_can_be_deleted() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    client.events()
    fault_without_disk(broker)
    client.post_bytes(m.QueueDelete(queue="q").frame(1))
    without_disk(broker)
    broker.run()
    assert [each.NAME for each in said(client)] == ["queue.delete-ok"]
    after, _ = again(broker)
    assert not after.node.broker.store.raft.table.groups


def test_what_is_settled_as_the_queue_is_deleted_does_no_harm() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    queue = shell(broker)
    leave, queue.leave = queue.leave, lambda _: None  # type: ignore[method-assign]
    client.send(1, m.QueueDelete(queue="q"))
    client.send(2, m.BasicAck(delivery_tag=1), m.BasicReject(delivery_tag=2))
    assert queue.crash is None
    broker.do("set_policy", name="p", pattern="q", definition='{"max-length": 3}')
    assert queue.crash is None
    del leave


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (m.QueuePurge(queue="q"), ["channel.close"]),
        (m.BasicGet(queue="q"), ["channel.close"]),
        (m.QueueDeclare(queue="q", passive=True), ["channel.close"]),
        (m.QueueDelete(queue="q"), ["queue.delete-ok", "basic.cancel"]),
        (m.BasicCancel(consumer_tag="c"), ["basic.cancel-ok"]),
    ],
)
def test_a_consumer_that_asks_as_the_queue_is_deleted_is_answered(
    question: Method, answers: list[str]
) -> None:
    broker, client = ready()
    other = stranger(broker)
    other.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    other.events()
    client.post_bytes(m.QueueDelete(queue="q").frame(1))
    other.post_bytes(question.frame(1))
    broker.run()
    assert [each.NAME for each in said(client)] == ["queue.delete-ok"]
    assert [each.NAME for each in said(other)] == answers


# -- after a restart


def test_a_deletion_that_was_agreed_on_and_not_carried_out_is_after_a_restart() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    client.events()
    shell(broker).leave = lambda _: None  # type: ignore[method-assign]
    client.send(1, m.QueueDelete(queue="q"))
    after, _ = again(broker)
    assert "q" not in after.node.broker.vhosts["/"].queues
    assert not after.node.broker.store.raft.table.groups


def test_what_has_died_dies_once() -> None:
    broker, client = with_grave()
    client.publish(1, "q", b"one")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.send(2, m.BasicReject(delivery_tag=1, requeue=False))
    broker.world.clock.advance(SETTLES_WAIT_MS)
    broker.run()
    broker.wait()
    client.events()
    assert depth(client, "grave") == (1, 0)
    after, other = again(broker)
    after.wait()
    other.publish(1, "grave", b"behind", raw=b"\x10\0\2")
    assert depth(other, "grave") == (2, 0) or depth(other, "grave") == (1, 0)


def test_the_depth_counts_what_was_published_before_after_a_restart() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    after, other = again(broker)
    assert shell(after).done == shell(after).submitted
    other.publish(1, "q", b"three")
    assert depth(other) == (3, 0)
    assert deliveries(other) == []
    assert get(other) is not None
