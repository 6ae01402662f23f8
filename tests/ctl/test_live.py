"""Goal: `sluicemq ctl` sees what clients do to a running broker. Method: a broker as a subprocess,
pika as the client, the commands as subprocesses too, as an operator would run them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from sluicemq.host.control_path import sockets_to_try
from support import broker
from support.broker import Target
from support.waiting import await_truth


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with broker.serving(tmp_path_factory.mktemp("ctl")) as target:
        yield target


def ctl(target: Target, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluicemq", "ctl", *arguments, "--port", str(target.port)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def connected(target: Target) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(target.host, target.port))


def test_queues_connections_channels_and_consumers_are_listed(own: Target) -> None:
    connection = connected(own)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("live", exclusive=True)
    for number in range(5):
        channel.basic_publish("", "live", f"message {number}".encode())
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("live", lambda *_: None, consumer_tag="tag")
    connection.process_data_events(0.2)

    listed = ctl(own, "list_queues", "name", "messages_ready", "messages_unacknowledged")
    assert listed.stdout == ("name\tmessages_ready\tmessages_unacknowledged\nlive\t2\t3\n"), (
        listed.stderr
    )
    users = ctl(own, "list_connections", "user", "channels", "state", "-s").stdout
    assert users == "guest\t1\trunning\n"
    (row,) = json.loads(
        ctl(own, "list_channels", "confirm", "prefetch_count", "--formatter", "json").stdout
    )
    assert row == {"confirm": True, "prefetch_count": 3}
    consumers = ctl(own, "list_consumers", "queue_name", "consumer_tag", "ack_required", "-s")
    assert consumers.stdout == "live\ttag\ttrue\n"
    connection.close()
    assert ctl(own, "list_queues", "-s").stdout == ""


def test_what_clients_say_of_themselves_is_listed_as_rabbitmq_lists_it(own: Target) -> None:
    said = {"connection_name": "x"}
    parameters = pika.ConnectionParameters(own.host, own.port, client_properties=said)
    connection = pika.BlockingConnection(parameters)
    listed = ctl(own, "list_connections", "client_properties", "-s").stdout
    connection.close()
    assert listed.startswith('[{"'), listed
    assert listed.endswith("]\n")
    assert '{"connection_name","x"}' in listed
    assert '{"product","Pika Python Client Library"}' in listed


def test_chain_and_status_run_and_are_clear(own: Target) -> None:
    drawn = ctl(own, "chain", "--width", "80").stdout
    assert drawn.startswith("READERS ---> CHANNELS ---> QUEUES ---> MESSAGE STORE\n")
    assert drawn.endswith("Nobody is held up.\n")
    assert "    product: SluiceMQ\n" in ctl(own, "status").stdout


def test_a_refusal_is_one_message_and_an_exit_code(own: Target) -> None:
    refused = ctl(own, "list_queues", "-p", "/other")
    assert (refused.returncode, refused.stdout) == (65, "")
    assert refused.stderr == "Error: Virtual host '/other' does not exist\n"


def test_a_publisher_held_up_by_the_memory_alarm_is_named(tmp_path: Path) -> None:
    with broker.serving(tmp_path, "vm_memory_high_watermark.absolute=0") as blocked:
        connection = connected(blocked)
        connection.channel().basic_publish("", "nowhere", b"x")
        deadline = time.monotonic() + 240
        drawn = ""
        while "held up by the memory alarm" not in drawn and time.monotonic() < deadline:
            drawn = ctl(blocked, "chain").stdout
        assert "is held up by the memory alarm (" in drawn
        state = ctl(blocked, "list_connections", "state", "-s").stdout
        assert state == "blocked\n"


def test_the_socket_is_private_and_goes_with_the_broker(tmp_path: Path) -> None:
    with broker.serving(tmp_path) as target:
        (path,) = [p for p in sockets_to_try(target.port, os.environ, os.getuid()) if p.exists()]
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()


def test_a_client_that_sends_rubbish_to_the_control_socket_gets_an_answer(own: Target) -> None:
    (path,) = [p for p in sockets_to_try(own.port, os.environ, os.getuid()) if p.exists()]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(240)
        client.connect(str(path))
        lines = client.makefile("rb")
        for rubbish in (
            b'{"command": 5}',
            b"rubbish",
            b"[]",
            b"\xff",
            b'{"command": "ping", "arguments": %b' % (b"[" * 100_000),
            b'{"command": "list_queues", "arguments": {"a": %b%b}' % (b"[" * 900, b"]" * 900),
            b'{"command": "add_user", "arguments": {"username": "\\ud800", "password": "x"}}',
            b'{"command": "list_queues", "arguments": {"vhost": [], "columns": [[]]}}',
            b'{"command": "\\udcff"}',
        ):
            client.sendall(rubbish + b"\n")
            assert json.loads(lines.readline())["ok"] is False


def test_a_second_broker_on_the_port_at_another_address_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with broker.serving(tmp_path / "one") as target:
        command = [sys.executable, "-m", "sluicemq", "serve", "--host", "127.0.0.2"]
        command += ["--port", str(target.port), "--data-dir", str(tmp_path / "other")]
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert second.returncode == 2
        assert f"another broker of this user uses port {target.port}" in second.stderr
        assert ctl(target, "ping").returncode == 0


def test_a_second_broker_on_the_data_directory_is_refused(tmp_path: Path) -> None:
    with broker.serving(tmp_path):
        command = [sys.executable, "-m", "sluicemq", "serve", "--port", "0"]
        command += ["--data-dir", str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert second.returncode == 2
    assert "another broker uses it" in second.stderr


def test_commands_of_clients_that_have_gone_leave_room_for_others(own: Target) -> None:
    (path,) = [p for p in sockets_to_try(own.port, os.environ, os.getuid()) if p.exists()]
    request = json.dumps({"command": "ping", "arguments": {}}).encode()
    for _ in range(100):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(request + b"\n" + request)
    await_truth(lambda: ctl(own, "ping").returncode == 0)
