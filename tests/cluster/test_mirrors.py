"""Goal: new mirrors are synchronised when an operator says so, and consumers go on when the master
is killed, as clients and operators of real nodes see it.

Method: `sluicemq serve` three times, `sluicemq ctl`, pika at two nodes.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pika

from support.served import Served, three_nodes
from support.waiting import await_truth

MANUAL = {"ha-mode": "all", "ha-sync-mode": "manual"}
MESSAGES = 100


def listed(node: Served) -> dict[str, Any]:
    columns = ("name", "node", "slave_pids", "synchronised_slave_pids")
    done = node.ctl("list_queues", *columns, "-q", "--formatter", "json")
    [row] = json.loads(done.stdout)
    found: dict[str, Any] = row
    return found


def test_mirrors_are_synchronised_and_consumers_go_on(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as nodes:
        for each in nodes:
            each.start()
        await_truth(lambda: all(each.is_ready for each in nodes))
        at = [
            pika.BlockingConnection(pika.ConnectionParameters(each.host, each.port)).channel()
            for each in nodes
        ]
        at[0].queue_declare("q", durable=True)
        at[0].confirm_delivery()
        for number in range(MESSAGES):
            at[0].basic_publish("", "q", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        assert nodes[0].ctl("set_policy", "ha", "^q", json.dumps(MANUAL)).returncode == 0
        await_truth(lambda: len(listed(nodes[0])["slave_pids"]) == 2)
        assert listed(nodes[0])["synchronised_slave_pids"] == []
        done = nodes[2].ctl("sync_queue", "q")
        assert done.returncode == 0, done.stderr
        assert "Synchronising queue 'q' in vhost '/' ..." in done.stdout
        await_truth(lambda: len(listed(nodes[0])["synchronised_slave_pids"]) == 2)
        heard: list[tuple[bytes, bool]] = []
        cancelled: list[str] = []
        at[1].basic_qos(prefetch_count=5)
        at[1].add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        at[1].basic_consume(
            "q", lambda _, method, __, body: heard.append((body, method.redelivered))
        )
        at[2].add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        on_failover = {"x-cancel-on-ha-failover": True}
        at[2].basic_qos(prefetch_count=1)
        at[2].basic_consume("q", lambda *_: None, consumer_tag="hears", arguments=on_failover)

        def looked() -> None:
            for channel in at[1:]:
                channel.connection.process_data_events(0.05)

        await_truth(lambda: looked() or len(heard) == 5)
        assert not any(redelivered for _, redelivered in heard)
        assert nodes[0].end(signal.SIGKILL) == -signal.SIGKILL
        await_truth(lambda: looked() or (cancelled == ["hears"] and len(heard) == 10))
        assert all(redelivered for _, redelivered in heard[5:])
        assert {body for body, _ in heard[:5]} <= {b"%d" % number for number in range(6)}
        assert listed(nodes[1])["node"] in ("n2", "n3")
