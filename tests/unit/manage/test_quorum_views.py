"""Goal: operators see of a quorum queue who is in its group, how far its log is, where its messages
are and what holds it up.

Method: the node of bench.py.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

from sluicemq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicQos,
    BasicReject,
    QueueDeclare,
    QueuePurge,
)
from sluicemq.chain.queue.quorum.entry_bodies import BodyLimits
from sluicemq.chain.queue.quorum.shell import QuorumShell

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    arguments = {"x-queue-type": "quorum"}
    bench.say(QueueDeclare(queue="agreed", durable=True, arguments=arguments).frame(1))
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    return bench


def queue_of(bench: Bench) -> QuorumShell:
    queue = bench.node.broker.vhosts["/"].queues["agreed"]
    assert isinstance(queue, QuorumShell)
    return queue


def break_down(bench: Bench) -> None:
    """In the next turn of the queue."""
    queue = queue_of(bench)
    with patch.object(queue, "effects_real", side_effect=ZeroDivisionError):
        queue.schedule()
        bench.settle()


def test_who_is_in_its_group(bench: Bench) -> None:
    rows = bench.rows("list_queues", "name", "type", "leader", "members", "online", "state")
    quorum, classic = rows
    assert quorum == {
        "name": "agreed",
        "type": "quorum",
        "leader": "node1",
        "members": ["node1"],
        "online": ["node1"],
        "state": "running",
    }
    assert (classic["leader"], classic["members"], classic["online"]) == ("", [], [])


def test_how_far_its_log_is(bench: Bench) -> None:
    (before,) = bench.do("quorum_status", queue="agreed")
    bench.publish("agreed", 3)
    (row,) = bench.do("quorum_status", queue="agreed")
    raft = queue_of(bench).replicator.raft
    assert row == {
        "node": "node1",
        "raft_state": "leader",
        "log_index": raft.member.log.last_index,
        "commit_index": raft.member.log.commit,
        "snapshot_index": raft.member.log.snapshot.index,
        "term": raft.member.term,
        "machine_version": 1,
        "pending": 0,
    }
    assert row["commit_index"] == row["log_index"] > before["log_index"]  # type: ignore[operator]


def test_what_waits_for_a_sync_is_pending(bench: Bench) -> None:
    bench.disk.slow = True
    bench.publish("agreed", 3)
    (row,) = bench.do("quorum_status", queue="agreed")
    assert row["pending"]
    assert row["commit_index"] < row["log_index"]  # type: ignore[operator]
    bench.disk.catch_up()
    bench.settle()
    (row,) = bench.do("quorum_status", queue="agreed")
    assert (row["pending"], row["commit_index"]) == (0, row["log_index"])


def test_other_queues_have_no_such_status(bench: Bench) -> None:
    refused = bench.ask("quorum_status", queue="orders")
    assert (refused.error, refused.code) == ("Cannot get quorum status of a classic queue", 69)
    assert bench.ask("quorum_status", queue="nothing").code == 69


def test_what_it_is_after_a_fault(bench: Bench) -> None:
    bench.disk.slow = True  # so that it stays down for now
    break_down(bench)
    (row, _) = bench.rows("list_queues", "state", "leader", "members", "online")
    assert row == {"state": "recovering", "leader": "", "members": ["node1"], "online": []}
    assert bench.do("quorum_status", queue="agreed")[0]["raft_state"] == "recovering"


def test_where_its_messages_are(bench: Bench) -> None:
    bench.publish("agreed", 4)
    bench.say(BasicQos(prefetch_count=1).frame(1))
    bench.say(BasicConsume(queue="agreed", consumer_tag="c").frame(1))
    columns = (
        "messages messages_ram messages_ready_ram messages_unacknowledged_ram message_bytes"
        " message_bytes_ram messages_persistent"
    )
    row = bench.rows("list_queues", *columns.split())[0]
    counts = [row[name] for name in columns.split()[:4]]
    assert counts == [4, 4, 3, 1]
    assert row["message_bytes_ram"] == row["message_bytes"]
    assert row["messages_persistent"] == 4


def test_what_the_disk_alone_has_is_not_in_ram(bench: Bench) -> None:
    columns = "messages_ready_ram messages_unacknowledged_ram messages_ram message_bytes_ram"

    def in_ram() -> list[object]:
        return [*bench.rows("list_queues", *columns.split())[0].values()]

    for _ in range(4):
        bench.publish("agreed", 3)
    bodies, messages = queue_of(bench).bodies, queue_of(bench).fifo.messages
    size = messages.bytes // 12
    assert in_ram() == [12, 0, 12, 12 * size]
    last = [*bodies.fresh][-1]
    bodies.were_stored(last - 1)
    bodies.shrink(BodyLimits(1 << 40, messages=6))
    assert in_ram() == [6, 0, 6, 6 * size]
    bench.say(BasicQos(prefetch_count=2).frame(1))
    bench.say(BasicConsume(queue="agreed", consumer_tag="c").frame(1))
    assert in_ram() == [4, 2, 6, 6 * size]
    bench.say(BasicReject(delivery_tag=2, requeue=True).frame(1))
    assert in_ram() == [4, 2, 6, 6 * size]
    bench.say(BasicCancel(consumer_tag="c").frame(1))
    bench.say(BasicReject(delivery_tag=1, requeue=True).frame(1))
    assert (messages.count, messages.out) == (11, 1)
    assert in_ram() == [5, 1, 6, 6 * size]
    bench.say(QueuePurge(queue="agreed").frame(1))
    assert in_ram() == [0, 1, 1, size]


def test_the_chain_shows_what_waits_for_a_sync(bench: Bench) -> None:
    own = "queue 'agreed' in vhost '/'"
    bench.disk.slow = True
    with patch.object(queue_of(bench), "backlog_bytes_max", 1):
        bench.publish("agreed", 3)
    (row,) = bench.rows("chain")
    stages = {stage["id"]: stage for stage in row["stages"]}  # type: ignore[attr-defined]
    assert stages[own]["gates_shut"] == 1
    links = row["links"]
    assert isinstance(links, list)
    (link,) = [each for each in links if each["sender"] == own]
    assert (link["receiver"], link["shut"]) == ("message store", True)
    assert [each["sender"] for each in links if each["receiver"] == own] == [
        f"{bench.reader.name} (1)"
    ]
    bench.disk.catch_up()
    bench.settle()
    (row,) = bench.rows("chain")
    assert all(each["sender"] != own for each in row["links"])  # type: ignore[attr-defined]
