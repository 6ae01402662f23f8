"""Goal: brokers that are configured as one cluster found it once, whoever starts or dies when, and
who does not belong to it hears why and loses nothing.

Method: `sluicemq serve` three times, each on a loopback address of its own; what they print and
log, what `sluicemq ctl cluster_status` says, SIGKILL, data directories that go and come back.
"""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support.served import NODES_PORT, SECRET, Served, three_nodes
from support.thorough import thorough
from support.waiting import await_truth


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Served]]:
    with three_nodes(tmp_path) as made:
        yield made


def found(nodes: list[Served]) -> str:
    """Have all of them be members; the id of their cluster, which is one."""
    for each in nodes:
        if each.process is None:
            each.start()
    await_truth(lambda: all(each.is_ready for each in nodes))
    await_truth(lambda: all(each.states == ["up"] * 3 for each in nodes), every_s=0.1)
    (cluster,) = {row["cluster"] for each in nodes for row in each.rows}
    assert len(cluster) == 32
    return str(cluster)


def channel_at(node: Served) -> BlockingChannel:
    """Open a channel in confirm mode."""
    to = pika.ConnectionParameters(node.host, node.port)
    channel = pika.BlockingConnection(to).channel()
    channel.confirm_delivery()
    return channel


def got(channel: BlockingChannel) -> list[tuple[bytes, bool]]:
    """Take what is in the queue `fifo`: each body, and whether it was out before."""
    found: list[tuple[bytes, bool]] = []
    while (answer := channel.basic_get("fifo"))[0] is not None:
        found.append((answer[2], answer[0].redelivered))
    return found


@pytest.mark.parametrize("order", thorough([(2, 1, 0)], [(0, 1, 2), (2, 1, 0)]), ids=str)
def test_three_found_one_cluster_in_any_order(nodes: list[Served], order: tuple[int, ...]) -> None:
    *early, late = order
    for place in early:
        nodes[place].start()
    first = nodes[early[0]]
    await_truth(lambda: sorted(first.states) == ["down", "up", "up"])
    assert first.rows[late]["state"] == "down"
    assert {row["cluster"] for row in first.rows} == {None}
    refused = first.ctl("add_user", "u", "p")
    assert refused.returncode == 69
    assert "is not a member of its cluster yet" in refused.stderr
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((first.host, first.port))
    assert not any(nodes[place].is_ready for place in early)
    cluster = found(nodes)
    names = [row["node"] for row in nodes[1].rows]
    assert names == ["n1", "n2", "n3"]
    assert nodes[0].ctl("await_startup").returncode == 0
    assert [each.end() for each in nodes] == [0, 0, 0]
    assert found(nodes[::-1]) == cluster, "founded again"
    assert "error" not in "".join(each.log for each in nodes)


def test_who_is_killed_while_it_is_founded_is_a_member_of_the_same(nodes: list[Served]) -> None:
    """Each of them once, when a line of the log says how far it is. Then each as a member: what it
    has in a quorum queue is there in its next life, and goes on."""
    steps = ["in life 1", "(n2) is up", "(n1) is up", "is a member of the cluster"]
    for each in nodes:
        each.start()
    for each, step in zip([nodes[2], nodes[0], nodes[1], nodes[0]], steps, strict=True):
        await_truth(lambda each=each, step=step: step in each.log, 0.001)
        each.end(signal.SIGKILL)
        each.start()
    cluster = found(nodes)
    channel = channel_at(nodes[1])
    channel.queue_declare("fifo", durable=True, arguments={"x-queue-type": "quorum"})
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "fifo", body)
    assert channel.basic_get("fifo")[2] == b"1"
    for each in nodes:
        each.end(signal.SIGKILL)
        others = [other for other in nodes if other is not each]
        place = each.number - 1
        await_truth(
            lambda others=others, place=place: all(o.states[place] == "down" for o in others)
        )
        each.start()
        assert found(nodes) == cluster
    channel = channel_at(nodes[1])
    channel.basic_publish("", "fifo", b"4")
    assert got(channel) == [(b"1", True), (b"2", False), (b"3", False), (b"4", False)]


def test_a_member_that_has_lost_its_data_is_refused_until_it_is_back(nodes: list[Served]) -> None:
    cluster = found(nodes)
    nodes[2].end(signal.SIGKILL)
    kept = nodes[2].root / "kept"
    nodes[2].data.rename(kept)
    nodes[2].start()
    sentence = "A member that has lost its data is a new node"
    await_truth(lambda: all(sentence in each.log for each in nodes))
    assert not nodes[2].is_ready
    assert nodes[2].end() == 0, "told to stop while it waits"
    shutil.rmtree(nodes[2].data)
    kept.rename(nodes[2].data)
    assert found(nodes) == cluster


def test_a_data_directory_that_is_an_older_copy_is_refused(nodes: list[Served]) -> None:
    found(nodes)
    nodes[2].end()
    copy = nodes[2].root / "copy"
    shutil.copytree(nodes[2].data, copy)
    for _ in range(2):
        found(nodes)
        nodes[2].end()
    shutil.rmtree(nodes[2].data)
    copy.rename(nodes[2].data)
    nodes[2].start()
    sentence = "was in life 3 before: its data directory is an older copy"
    await_truth(lambda: all(sentence in each.log for each in nodes))


def test_a_node_of_another_cluster(nodes: list[Served]) -> None:
    first = found(nodes)
    assert [each.end() for each in nodes] == [0, 0, 0]
    for each in nodes:
        each.data.rename(each.root / "first")
    second = found(nodes)
    assert second != first
    nodes[2].end()
    nodes[2].data.rename(nodes[2].root / "second")
    (nodes[2].root / "first").rename(nodes[2].data)
    nodes[2].start()
    sentence = f"it belongs to the cluster '{second}', and this is '{first}'"
    await_truth(lambda: sentence in nodes[0].log and sentence in nodes[2].log)
    await_truth(lambda: nodes[0].states == ["up", "up", "down"])


def test_another_secret_and_another_list(nodes: list[Served]) -> None:
    nodes[1].secret.write_text("another secret, made by chance, too")
    nodes[2].addresses = [nodes[0].addresses[0], "127.0.0.9:25709", nodes[2].addresses[2]]
    for each in nodes:
        each.start()
    secret = "it does not know the shared secret of this cluster"
    lists = "it looks for node 3, and this is node 2 (n3)"
    await_truth(lambda: secret in nodes[0].log and secret in nodes[1].log)
    await_truth(lambda: lists in nodes[0].log or "it must be the same at all nodes" in nodes[0].log)
    assert not any(each.is_ready for each in nodes)
    nodes[1].end()
    nodes[2].end()
    nodes[1].secret.write_text(SECRET)
    nodes[2].addresses = nodes[0].addresses
    found(nodes)
    assert SECRET not in "".join(each.log for each in nodes)


def refusal(node: Served, *options: str) -> str:
    """What a start says that is refused."""
    before = len(node.log)
    node.start(*options)
    assert node.wait() == 2
    return node.log[before:]


def test_starts_that_cannot_be(nodes: list[Served]) -> None:
    """Each says which option is wrong, and changes nothing."""
    alone, node, other = nodes
    alone.start("--set", "heartbeat=30")
    await_truth(lambda: alone.is_ready)
    assert [row["address"] for row in alone.rows] == [None]
    alone.end()
    said = refusal(alone, *alone.options())
    assert "cluster.nodes is set, and the broker of this data directory has run alone" in said
    alone.start("--set", "heartbeat=30")
    await_truth(lambda: alone.is_ready)
    shutil.rmtree(other.data, ignore_errors=True)
    with socket.create_server((node.host, NODES_PORT + node.number)):
        said = refusal(node)
    assert f"cluster.port = {NODES_PORT + node.number}: cannot listen on {node.host}" in said
    assert "Address already in use" in said
    assert "is that of a node of a cluster, so cluster.nodes must be set" in refusal(
        node, "--set", "heartbeat=30"
    )
    node.secret.chmod(0o644)
    assert "its mode is 0644; it must be 0600 or 0400" in refusal(node)
