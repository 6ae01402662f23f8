"""Goal: an operator whose cluster has lost its majority goes on with the node that is left.

Method: three processes, SIGKILL, the command, and one of the lost nodes that comes back.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pika

from support.served import Served, three_nodes
from support.waiting import await_truth


def force_boot(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluicemq", "force-boot", str(directory), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def channel_at(node: Served) -> pika.adapters.blocking_connection.BlockingChannel:
    to = pika.ConnectionParameters(node.host, node.port)
    channel = pika.BlockingConnection(to).channel()
    channel.confirm_delivery()
    return channel


def test_one_node_that_is_left_goes_on(tmp_path: Path) -> None:
    assert "there is no such directory" in force_boot(tmp_path / "none").stderr
    damaged = tmp_path / "damaged" / "cluster"
    damaged.mkdir(parents=True)
    (damaged / "node").write_text("{}")
    refused = force_boot(damaged.parent, "--yes")
    assert refused.returncode == 2
    assert "cluster/node is damaged" in refused.stderr
    assert "Traceback" not in refused.stderr
    with three_nodes(tmp_path) as nodes:
        one, two, _ = nodes
        for each in nodes:
            each.start()
        await_truth(lambda: all(each.is_ready for each in nodes))
        channel = channel_at(two)
        channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("of two", durable=True)
        for body in (b"1", b"2"):
            channel.basic_publish("", "kept", body)
        assert "another broker uses it" in force_boot(one.data).stderr
        await_truth(lambda: channel_at(one).queue_declare("kept", passive=True).method)
        for each in nodes:
            each.end(signal.SIGKILL)

        looked = force_boot(one.data)
        assert looked.returncode == 0
        assert "Left behind, for good: node 2 (n2), node 3 (n3)." in looked.stdout
        assert "Queues of which something may be lost: 1 quorum queues." in looked.stdout
        assert "  classic queue 'of two' in vhost '/'" in looked.stdout
        assert "Nothing was changed" in looked.stdout
        done = force_boot(one.data, "--yes")
        assert "n1 is the cluster " in done.stdout
        two.start()  # first: node 1 connects to it only until it has read that it is alone
        await_truth(lambda: "this is node 2 (n2) in life 2" in two.log)
        one.start()
        await_truth(lambda: one.is_ready)
        await_truth(lambda: [row["node"] for row in one.rows] == ["n1"])
        channel = channel_at(one)
        assert [channel.basic_get("kept", auto_ack=True)[2] for _ in range(2)] == [b"1", b"2"]
        channel.basic_publish("", "kept", b"3")
        await_truth(lambda: "it belongs to the cluster" in one.log + two.log)
        assert not two.is_ready
