"""Goal: a node joins a cluster that runs, and one that is lost is removed and replaced, as the
commands of `sluicemq` have it; what was confirmed is where it was.

Method: three processes that have founded a cluster, a fourth that joins, SIGKILL, a data directory
that is wiped, a bit of a journal that is not what it was.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support.served import NODES_PORT, Served, own_hosts, three_nodes
from support.waiting import await_truth

FORGET = "forget_cluster_node"
QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Served]]:
    """Three that have founded a cluster, and a fourth that was not started."""
    root: Path = tmp_path_factory.mktemp("nodes")
    with three_nodes(root) as made:
        addresses = [*made[0].addresses, f"{own_hosts(4)[3]}:{NODES_PORT + 4}"]
        fourth = Served(4, root, addresses, made[0].env["XDG_RUNTIME_DIR"])
        for each in made:
            each.start()
        try:
            await_truth(lambda: all(each.is_ready for each in made))
            yield [*made, fourth]
        finally:
            fourth.close()


def joining(node: Served, *more: str) -> list[str]:
    """The options of a node that joins."""
    return [
        *("--name", f"n{node.number}", "--cluster-host", node.host),
        *("--cluster-port", str(NODES_PORT + node.number)),
        *("--cluster-secret-file", str(node.secret)),
        *("--set", "loopback_users=none", *more),
    ]


def channel_at(node: Served) -> BlockingChannel:
    to = pika.ConnectionParameters(node.host, node.port)
    channel = pika.BlockingConnection(to).channel()
    channel.confirm_delivery()
    return channel


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def test_a_node_joins_one_is_lost_and_comes_back_as_a_new_one(nodes: list[Served]) -> None:
    one, two, three, four = nodes
    channel = channel_at(three)
    channel.queue_declare("lost", durable=True)
    channel.queue_declare("kept", durable=True, arguments=QUORUM)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "kept", body)

    four.start(*joining(four, "--cluster-join", two.addresses[1]))
    await_truth(lambda: four.is_ready)
    await_truth(lambda: [row["voter"] for row in one.rows] == [True] * 4)
    assert channel_at(four).basic_get("kept", auto_ack=True)[2] == b"1"
    assert "4" in said(one.ctl("await_online_nodes", "4"))

    assert "node n3 is running" in said(one.ctl(FORGET, "n3"))
    assert "the cluster has no node n9" in said(one.ctl(FORGET, "n9"))
    assert "n1 is this node" in said(one.ctl(FORGET, "n1"))
    three.end(signal.SIGKILL)
    await_truth(lambda: one.states[2] == "down")
    rows = one.ctl(FORGET, "n3", "--formatter", "json").stdout
    assert '"lost"' in rows
    assert '"kept"' not in rows
    await_truth(lambda: [row["node"] for row in four.rows] == ["n1", "n2", "n4"])
    three.start()
    assert three.wait() == 2
    assert (
        "node 3 (n3) was removed from the cluster by forget_cluster_node or force-boot" in three.log
    )

    shutil.rmtree(three.data)
    three.start(*joining(three))
    await_truth(lambda: [row["state"] for row in three.rows] == ["joining"])
    assert "waits to join" in said(three.ctl("list_queues"))
    assert three.ctl("join_cluster", one.addresses[0]).returncode == 0
    await_truth(lambda: three.is_ready)
    assert "is a member of a cluster already" in said(three.ctl("join_cluster", "127.0.0.1:1"))
    await_truth(lambda: [row["node"] for row in one.rows] == ["n1", "n2", "n4", "n3"])
    channel = channel_at(three)
    assert channel.queue_declare("lost", durable=True).method.message_count == 0
    assert [channel.basic_get("kept", auto_ack=True)[2] for _ in range(2)] == [b"2", b"3"]


def test_every_node_starts_again_with_the_old_list_or_a_new_one(nodes: list[Served]) -> None:
    one, two, three, four = nodes
    one.end()
    one.start()
    two.end()
    two.addresses = four.addresses
    two.start()
    four.end(signal.SIGKILL)
    four.start()  # with a list of all, though it has joined
    three.end()
    three.start(*joining(three))
    for each in nodes:
        await_truth(lambda each=each: each.is_ready)
        await_truth(lambda each=each: each.states == ["up"] * 4)


def test_a_node_with_a_damaged_journal_is_replaced_by_a_new_one(nodes: list[Served]) -> None:
    """As docs/cluster.md says it: what it has may not be all that it has said."""
    one, two, *_ = nodes
    bodies = [b"this is damaged", b"a", b"b", b"c"]
    channel = channel_at(two)
    channel.queue_declare("agreed", durable=True, arguments=QUORUM)
    for body in bodies:
        channel.basic_publish("", "agreed", body)
    two.end(signal.SIGKILL)
    assert [flipped(path, bodies[0]) for path in (two.data / "journal").iterdir()].count(True) == 1

    two.start()
    await_truth(lambda: "replace it: stop it, run forget_cluster_node n2" in two.log)
    await_truth(lambda: one.states[1] == "up")
    assert "node n2 is running" in said(one.ctl(FORGET, "n2"))
    assert not two.is_ready
    two.end()
    await_truth(lambda: one.states[1] == "down")
    assert one.ctl(FORGET, "n2").returncode == 0

    shutil.rmtree(two.data)
    two.start(*joining(two, "--cluster-join", one.addresses[0]))
    await_truth(lambda: two.is_ready)
    channel = channel_at(two)
    assert [channel.basic_get("agreed", auto_ack=True)[2] for _ in bodies] == bodies


def flipped(path: Path, text: bytes) -> bool:
    """Flip a bit of the first byte of the text, if it is in the file."""
    data = bytearray(path.read_bytes())
    at = data.find(text)
    if at >= 0:
        data[at] ^= 1
        path.write_bytes(data)
    return at >= 0
