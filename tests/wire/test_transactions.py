"""Transactions, seen frame by frame: nothing happens before the commit, and then all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import NO_PROPERTIES, PATIENCE_SECONDS, Peer, call, channel_open, publish

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Queue, Tx = commands.Queue, commands.Tx

PERSISTENT = b"\x10\x00\x02"
REFUSED = "channel 406 PRECONDITION_FAILED - "
COMMITTING = "connection 504 CHANNEL_ERROR - unexpected command while processing 'tx.commit'"


@pytest.fixture
def peer(target: Target, name: str) -> Iterator[Peer]:
    """Channels 1 and 2 open, an exclusive queue, channel 1 in a transaction."""
    with Peer(target) as opened:
        opened.log_in().open(1, 2)
        opened.send(call(Queue.Declare(queue=name, exclusive=True))).expect("Queue.DeclareOk")
        opened.send(call(Tx.Select())).expect("Tx.SelectOk")
        yield opened


def commit(peer: Peer) -> None:
    peer.send(call(Tx.Commit())).expect("Tx.CommitOk")


def rollback(peer: Peer) -> None:
    peer.send(call(Tx.Rollback())).expect("Tx.RollbackOk")


def ready(peer: Peer, name: str) -> int:
    """Seen by channel 2."""
    peer.send(call(Queue.Declare(queue=name, passive=True), 2))
    return int(peer.expect("Queue.DeclareOk").message_count)


def wait_for(peer: Peer, name: str, count: int) -> None:
    """Until so many are ready: what a channel had returns when it is gone."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ready(peer, name) != count:
        assert time.monotonic() < deadline


def take(peer: Peer, name: str, count: int, channel: int = 1) -> list[tuple[int, bytes]]:
    """So many by basic.get: tag and body."""
    taken = []
    for _ in range(count):
        peer.send(call(Basic.Get(queue=name), channel))
        taken.append((peer.expect("Basic.GetOk").delivery_tag, peer.content()))
    return taken


@pytest.mark.parametrize("properties", [NO_PROPERTIES, PERSISTENT], ids=["transient", "persistent"])
def test_a_commit_delivers_in_order(peer: Peer, name: str, properties: bytes) -> None:
    peer.send(*[publish(name, b"%d" % n, properties=properties) for n in range(20)])
    assert peer.is_silent()
    assert ready(peer, name) == 0
    commit(peer)
    assert ready(peer, name) == 20
    assert [body for _, body in take(peer, name, 20)] == [b"%d" % n for n in range(20)]


def test_an_empty_commit_and_an_empty_rollback_are_fine(peer: Peer) -> None:
    commit(peer)
    rollback(peer)
    peer.send(call(Tx.Select())).expect("Tx.SelectOk")
    commit(peer)


def test_a_rollback_drops_what_was_published(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"lost"))
    rollback(peer)
    peer.send(publish(name, b"kept"))
    commit(peer)
    assert [body for _, body in take(peer, name, ready(peer, name))] == [b"kept"]


def test_a_second_select_changes_nothing(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"x"), call(Tx.Select())).expect("Tx.SelectOk")
    assert ready(peer, name) == 0
    commit(peer)
    assert ready(peer, name) == 1


def test_a_mandatory_publish_returns_at_the_commit(peer: Peer) -> None:
    peer.send(publish("nobody", b"x", mandatory=True))
    assert peer.is_silent()
    peer.send(call(Tx.Commit()))
    assert peer.expect("Basic.Return").reply_code == 312
    assert peer.content() == b"x"
    peer.expect("Tx.CommitOk")
    peer.send(publish("nobody", b"x", mandatory=True))
    rollback(peer)


def test_a_queue_deleted_before_the_commit_is_no_queue(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"x", mandatory=True))
    peer.send(call(Queue.Delete(queue=name), 2)).expect("Queue.DeleteOk")
    peer.send(call(Tx.Commit())).expect("Basic.Return")
    assert peer.content() == b"x"
    peer.expect("Tx.CommitOk")


def test_a_message_is_routed_when_it_arrives(peer: Peer, name: str) -> None:
    """A queue bound between publish and commit does not get it. The default exchange finds the
    name of a queue, which may be declared until the commit."""
    late = name + "-late"
    peer.send(publish(late, b"direct", "amq.direct"), publish(late, b"default"))
    assert peer.is_silent()
    peer.send(call(Queue.Declare(queue=late, exclusive=True), 2)).expect("Queue.DeclareOk")
    bind = Queue.Bind(queue=late, exchange="amq.direct", routing_key=late)
    peer.send(call(bind, 2)).expect("Queue.BindOk")
    commit(peer)
    assert [body for _, body in take(peer, late, ready(peer, late))] == [b"default"]


def test_a_publish_to_a_missing_exchange_is_refused_when_it_arrives(peer: Peer) -> None:
    peer.send(publish("key", exchange="nosuch"))
    assert peer.verdict().startswith("channel 404 NOT_FOUND - no exchange 'nosuch'")


def test_acks_wait_for_the_commit(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"1"), publish(name, b"2"))
    commit(peer)
    (one, _), (two, _) = take(peer, name, 2)
    peer.send(call(Basic.Ack(one)), call(Basic.Reject(two, requeue=True)))
    assert ready(peer, name) == 0
    commit(peer)
    assert ready(peer, name) == 1
    assert [body for _, body in take(peer, name, 1)] == [b"2"]


def test_what_was_acked_without_a_commit_returns_when_the_channel_closes(
    peer: Peer, name: str
) -> None:
    peer.send(publish(name, b"1"), publish(name, b"2"))
    commit(peer)
    tag = take(peer, name, 2)[-1][0]
    peer.send(call(Basic.Ack(tag, multiple=True)), publish(name, b"3"))
    peer.send(call(Channel.Close(200, "", 0, 0))).expect("Channel.CloseOk")
    wait_for(peer, name, 2)
    assert [body for _, body in take(peer, name, ready(peer, name), 2)] == [b"1", b"2"]


def test_after_a_rollback_the_tags_can_be_acked_again(peer: Peer, name: str) -> None:
    peer.send(*[publish(name, b"%d" % n) for n in range(6)])
    commit(peer)
    tags = [tag for tag, _ in take(peer, name, 6)]
    peer.send(call(Basic.Ack(tags[2])), call(Basic.Nack(tags[4], requeue=False)))
    peer.send(call(Basic.Ack(tags[3], multiple=True)), call(Basic.Reject(tags[5], requeue=False)))
    rollback(peer)
    peer.send(call(Basic.Ack(tags[3], multiple=True)))
    commit(peer)
    peer.send(call(Basic.Recover(requeue=True))).expect("Basic.RecoverOk")
    assert [body for _, body in take(peer, name, 2)] == [b"4", b"5"]


def test_a_tag_acked_in_a_transaction_is_unknown_until_the_rollback(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"1"))
    commit(peer)
    [(tag, _)] = take(peer, name, 1)
    peer.send(call(Basic.Ack(tag)), call(Basic.Ack(tag)))
    assert peer.verdict() == f"{REFUSED}unknown delivery tag {tag} (60.80)"
    peer.send(call(Channel.CloseOk()))
    wait_for(peer, name, 1)


def test_recover_does_not_wait_and_leaves_what_was_acked(peer: Peer, name: str) -> None:
    peer.send(publish(name, b"1"), publish(name, b"2"))
    commit(peer)
    (one, _), _ = take(peer, name, 2)
    peer.send(call(Basic.Ack(one)), call(Basic.Recover(requeue=True))).expect("Basic.RecoverOk")
    assert ready(peer, name) == 1
    rollback(peer)
    assert ready(peer, name) == 1
    peer.send(call(Basic.Reject(one, requeue=True)))
    commit(peer)
    assert [body for _, body in take(peer, name, 2)] == [b"1", b"2"]


def test_a_commit_makes_room_for_deliveries(peer: Peer, name: str) -> None:
    peer.send(*[publish(name, b"%d" % n) for n in range(3)])
    commit(peer)
    peer.send(call(Basic.Qos(prefetch_count=1))).expect("Basic.QosOk")
    peer.send(call(Basic.Consume(queue=name))).expect("Basic.ConsumeOk")
    tag = peer.expect("Basic.Deliver").delivery_tag
    assert peer.content() == b"0"
    peer.send(call(Basic.Ack(tag)))
    assert peer.is_silent()
    commit(peer)
    peer.expect("Basic.Deliver")
    assert peer.content() == b"1"


@pytest.mark.parametrize(
    "command",
    [
        call(Queue.Declare(queue="q", passive=True)),
        call(Tx.Commit()),
        call(Basic.Ack(1)),
        publish("key"),
        call(Tx.Rollback()),
    ],
    ids=["declare", "commit", "ack", "publish", "rollback"],
)
def test_no_command_may_follow_a_commit_before_its_answer(
    peer: Peer, target: Target, name: str, command: bytes
) -> None:
    durable = name + "-d"
    peer.send(call(Queue.Declare(queue=durable, durable=True))).expect("Queue.DeclareOk")
    try:
        large = bytes(100_000)  # that takes a while to sync
        peer.send(*[publish(durable, large, properties=PERSISTENT) for _ in range(80)])
        peer.send(call(Tx.Commit()) + command)
        assert peer.verdict().startswith(COMMITTING)
    finally:
        with Peer(target) as other:
            other.log_in().open().send(call(Queue.Delete(queue=durable))).expect("Queue.DeleteOk")


def test_a_channel_may_be_closed_while_it_commits(peer: Peer, name: str) -> None:
    durable = name + "-d"
    peer.send(call(Queue.Declare(queue=durable, durable=True))).expect("Queue.DeclareOk")
    peer.send(publish(durable, bytes(100_000), properties=PERSISTENT))
    peer.send(call(Tx.Commit()) + call(Channel.Close(200, "", 0, 0)))
    while (said := peer.verdict()) != "Channel.CloseOk":
        assert said in ("Tx.CommitOk", "content")
    peer.send(call(Queue.Delete(queue=durable), 2)).expect("Queue.DeleteOk")


@pytest.mark.parametrize(
    ("commands", "answers"),
    [
        ([Tx.Commit()], [f"{REFUSED}channel is not transactional (90.20)"]),
        ([Tx.Rollback()], [f"{REFUSED}channel is not transactional (90.30)"]),
        (
            [Tx.Select(), Confirm.Select()],
            ["Tx.SelectOk", f"{REFUSED}cannot switch from tx to confirm mode (85.10)"],
        ),
        (
            [Confirm.Select(), Tx.Select()],
            ["Confirm.SelectOk", f"{REFUSED}cannot switch from confirm to tx mode (90.10)"],
        ),
    ],
    ids=["commit", "rollback", "tx, confirm", "confirm, tx"],
)
def test_modes_exclude_each_other(
    peer: Peer, commands: list[commands.Basic], answers: list[str]
) -> None:
    peer.send(channel_open(3)).expect("Channel.OpenOk")
    peer.send(*[call(command, 3) for command in commands])  # type: ignore[arg-type]
    assert [peer.verdict() for _ in answers] == answers
