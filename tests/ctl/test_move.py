"""Goal: who follows docs/from-rabbitmq.md arrives: definitions, users and messages are in SluiceMQ.

Method: the page's own commands, one script, with a RabbitMQ of the test's (bench/brokers.py, so
with `bench` on PYTHONPATH, and skipped otherwise) and other ports and paths.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from support.broker import ENVIRONMENT, STOP_SECONDS

brokers = pytest.importorskip("brokers")
pytestmark = pytest.mark.rabbitmq

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-rabbitmq.md"
BIN = brokers.RABBITMQ.parent
SHIM = """#!/bin/sh
export HOME={home} RABBITMQ_ENABLED_PLUGINS_FILE={home}/plugins RABBITMQ_CONF_ENV_FILE=/dev/null
exec {program} -n bench{port}@localhost "$@"
"""
CONF = ("vm_memory_high_watermark.relative = 0.5", "cluster_partition_handling = pause_minority")


def commands_of_page() -> str:
    """All of them, but for the last, which would stop what the test's `with` stops."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 6
    script = "trap '[ $? = 0 ] || kill $(jobs -p)' EXIT\nset -eu\n" + "".join(blocks)
    assert script.count("rabbitmqctl stop\n") == 1
    return script.replace("rabbitmqctl stop\n", "")


def fill(port: int) -> None:
    """What somebody has in RabbitMQ."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", durable=True)
        for queue in ("parked", "shipped"):
            channel.queue_declare(queue, durable=True, arguments={"x-max-length": 1000})
        channel.queue_bind("parked", "orders", "order.*")
        channel.confirm_delivery()
        for number in range(30):
            body, kept = str(number).encode(), pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("orders", "order.new", body, kept)


def taken(port: int) -> list[bytes]:
    """What is in SluiceMQ's queue, as the user whom RabbitMQ knew."""
    login = pika.PlainCredentials("mover", "mover")
    place = pika.ConnectionParameters("127.0.0.1", port, credentials=login)
    with pika.BlockingConnection(place) as connection:
        channel = connection.channel()
        found = []
        while (got := channel.basic_get("parked", auto_ack=True))[0] is not None:
            found.append(got[2])
        return found


@pytest.mark.skipif(not brokers.RABBITMQ.exists(), reason="needs Debian's rabbitmq-server")
def test_the_commands_of_the_page_move_everything(tmp_path: Path) -> None:
    old, new = brokers.free_port(), brokers.free_port()
    home = tmp_path / "rabbitmq"
    shims = tmp_path / "bin"
    shims.mkdir()
    for name in ("rabbitmqctl", "rabbitmq-plugins"):
        text = SHIM.format(home=home, program=BIN / name, port=old)
        (shims / name).write_text(text)
    (shims / "sluicemq").write_text(f'#!/bin/sh\nexec {sys.executable} -m sluicemq "$@"\n')
    for path in shims.iterdir():
        path.chmod(0o755)
    said = tmp_path / "said.txt"
    script = commands_of_page()
    for written, meant in {
        "5673": str(new),
        "/etc/rabbitmq/rabbitmq.conf": str(home / "rabbitmq.conf"),
        "/var/lib/sluicemq": str(tmp_path / "data"),
        "/tmp/definitions.json": str(tmp_path / "definitions.json"),
    }.items():
        assert written in script
        script = script.replace(written, meant)
    env = ENVIRONMENT | {"PATH": f"{shims}:{os.environ['PATH']}"}
    with brokers.rabbitmq(old, home, *CONF):
        fill(old)
        ctl = str(shims / "rabbitmqctl")
        for command in ("add_user mover mover", "set_permissions mover ^$ .* .*"):
            subprocess.run([ctl, *command.split()], check=True, capture_output=True, timeout=240)
        try:
            with said.open("wb") as output:  # no pipe: the broker that it starts goes on
                code = subprocess.call(
                    ["bash", "-c", script],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=240,
                    env=env,
                )
            assert code == 0, said.read_text()
            assert "cluster_partition_handling is passed over" in said.read_text()
            assert taken(new) == [str(number).encode() for number in range(30)]
        finally:
            stop = [str(shims / "sluicemq"), "ctl", "stop", "--port", str(new)]
            subprocess.run(stop, check=False, timeout=STOP_SECONDS, env=env)
