"""Goal: TLS changes nothing of how the broker behaves under pressure, and its certificates can be
replaced while it runs. Method: the same hostile peers as without TLS, SIGHUP, SIGTERM.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from pamqp import commands

from support import broker
from support.broker import Target
from support.peer import PROTOCOL, Peer, body, call, header, start_ok
from support.waiting import PATIENCE_S, await_truth
from tls.pki import Pki, make_pki

Basic, Queue = commands.Basic, commands.Queue
MIB = 1 << 20
BODY_BYTES = 100_000
MESSAGE = header(BODY_BYTES) + body(b"x" * BODY_BYTES)
SMALL_BUFFER = 16384


def await_log(log: Path, text: str) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while text not in (said := log.read_text()):
        assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{said}"
        time.sleep(0.02)
    return said


def serial_of(target: Target, context: ssl.SSLContext) -> str:
    with Peer(target.over_tls(context)) as peer:
        peer.log_in()
        found = peer.socket.getpeercert()  # type: ignore[attr-defined]
        return str(found["serialNumber"])


def test_a_client_that_does_not_read_holds_up_its_queue_only(over_tls: Target) -> None:
    """60 MB for somebody who reads nothing; the broker keeps a few of it in its writer."""
    with Peer(over_tls, SMALL_BUFFER) as slow, Peer(over_tls) as publisher:
        slow.log_in().open().send(call(Queue.Declare(queue="slow", exclusive=False)))
        slow.expect("Queue.DeclareOk")
        slow.send(call(Basic.Consume(queue="slow", no_ack=True))).expect("Basic.ConsumeOk")
        publisher.log_in().open()
        for _ in range(600):
            publisher.send(call(Basic.Publish(routing_key="slow")) + MESSAGE)
        publisher.send(call(Queue.Declare(queue="slow", passive=True)))
        waiting = publisher.expect("Queue.DeclareOk").message_count
        assert waiting > 450, "far more was handed to the writer than a window"
        publisher.send(call(Queue.Delete(queue="slow"))).expect("Queue.DeleteOk")


def test_a_client_that_asks_and_does_not_read_is_not_read(over_tls: Target) -> None:
    """4 MiB of answers wait for it; then its questions stay where they are."""
    with Peer(over_tls, SMALL_BUFFER) as peer:
        peer.log_in().open().send(call(Queue.Declare(queue="big", exclusive=True)))
        peer.expect("Queue.DeclareOk")
        peer.send(call(Basic.Publish(routing_key="big")) + MESSAGE)
        peer.socket.settimeout(1.0)
        question = call(Basic.Get(queue="big", no_ack=False)) + call(Basic.Recover(requeue=True))
        with pytest.raises(TimeoutError):
            for _ in range(100_000):
                peer.socket.sendall(question * 10)
    with Peer(over_tls) as newcomer:
        newcomer.log_in().open()


def test_a_client_that_ends_its_half_is_let_go(over_tls: Target) -> None:
    """With TLS's goodbye it gets ours; without one the socket ends as well."""
    polite = Peer(over_tls).log_in().open()
    assert isinstance(polite.socket, ssl.SSLSocket)
    with polite.socket.unwrap() as plain:
        plain.settimeout(240)
        assert plain.recv(100) == b""
    with Peer(over_tls) as rude:
        rude.log_in().open().socket.shutdown(socket.SHUT_WR)
        assert rude.verdict() == "end"


def test_half_a_handshake_is_not_waited_for(pki: Pki, tmp_path: Path) -> None:
    """Longer than by default, so that a slow machine makes no difference."""
    settings = pki.settings("ssl_handshake_timeout=6000", "handshake_timeout=500")
    with broker.serving(tmp_path, *settings) as target:
        begun = time.monotonic()
        with socket.create_connection((target.host, target.tls_port or 0), 240) as silent:
            silent.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
            assert silent.recv(100) == b""
            assert time.monotonic() - begun > 5.9
        with Peer(target.over_tls(pki.context())) as idle:
            assert idle.verdict() == "end"


def is_let_in(target: Target) -> bool:
    """Whether there is a place for one more."""
    try:
        with Peer(target) as peer:
            return peer.send(PROTOCOL).verdict() == "Connection.Start"
    except (ssl.SSLError, ConnectionError):
        return False


def test_those_who_fail_give_their_place_back(pki: Pki, tmp_path: Path) -> None:
    """Of three places, after twenty bad handshakes and resets."""
    limits = ("net.half_open_max=3", "net.half_open_per_address_max=3")
    with broker.serving(tmp_path, *pki.settings(*limits)) as target:
        for number in range(20):
            place = target.host, target.tls_port or 0
            with socket.create_connection(place, PATIENCE_S) as made, suppress(ConnectionError):
                if number % 2:
                    made.sendall(b"AMQP\0\0\x09\x01 is not TLS")
                    made.recv(100)
                else:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(0.02)
        secure = target.over_tls(pki.context())
        await_truth(lambda: is_let_in(secure))


def test_certificates_are_read_again(tmp_path: Path) -> None:
    """Connections that are there go on; files that cannot be used change nothing."""
    pki = make_pki(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    log = data / "stderr.txt"
    with broker.serving(data, *pki.settings()) as target:
        assert target.pid is not None
        context = pki.context()
        first = serial_of(target, context)
        with Peer(target.over_tls(context)) as old:
            old.log_in().open()
            pki.write_server()
            os.kill(target.pid, signal.SIGHUP)
            await_log(log, "certificates loaded for new connections")
            second = serial_of(target, context)
            assert second != first
            (tmp_path / "cert.pem").write_text("nonsense")
            os.kill(target.pid, signal.SIGHUP)
            said = await_log(log, "cannot reload the configuration")
            assert f"ssl_options.certfile = {tmp_path / 'cert.pem'}: holds no certificate" in said
            assert serial_of(target, context) == second
            old.send(call(Queue.Declare(exclusive=True))).expect("Queue.DeclareOk")


def test_settings_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text("heartbeat = 30\n")
    command = [*broker.OWN, "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    log = tmp_path / "stderr.txt"
    environment = broker.BROKER_ENVIRONMENT
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--config", str(file)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
    try:
        target = broker.await_ready(process, log)
        file.write_text("heartbeat = 7\nframe_max = 8192\n")
        process.send_signal(signal.SIGHUP)
        said = await_log(log, "configuration reloaded")
        assert "changed for new connections: net.heartbeat = 7" in said
        assert "need a restart: net.frame_max" in said
        with Peer(target) as peer:
            tune = peer.start().send(start_ok()).expect("Connection.Tune")
            assert (tune.heartbeat, tune.frame_max) == (7, 131072)
        file.write_text("heartbeat = never\n")
        process.send_signal(signal.SIGHUP)
        await_log(log, "heartbeat = never: must be")
    finally:
        assert broker.stop(process) == 0


def test_sigterm_under_load(pki: Pki, tmp_path: Path) -> None:
    """Clients that publish and one that reads nothing; `serving` demands exit code 0 in time."""
    ended: list[str] = []
    publishing = threading.Barrier(4, timeout=PATIENCE_S)

    def publish(target: Target) -> None:
        with Peer(target) as peer:
            peer.log_in().open()
            publishing.wait()
            while not peer.is_at_end:
                peer.send((call(Basic.Publish(routing_key="q")) + MESSAGE) * 10)
            ended.append(peer.verdict())

    with broker.serving(tmp_path, *pki.settings()) as target:
        secure = target.over_tls(pki.context())
        setting_up = Peer(secure, SMALL_BUFFER).log_in().open()
        setting_up.send(call(Queue.Declare(queue="q"))).expect("Queue.DeclareOk")
        setting_up.send(call(Basic.Consume(queue="q"))).expect("Basic.ConsumeOk")
        threads = [threading.Thread(target=publish, args=(secure,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        publishing.wait()
        setting_up.expect("Basic.Deliver")
        time.sleep(1)  # nobody reads what comes after it
    for thread in threads:
        thread.join()
    assert len(ended) == 3


def test_only_tls(pki: Pki, tmp_path: Path) -> None:
    with broker.serving(tmp_path, *pki.settings("listeners.tcp=none")) as target:
        assert target.port == 0
        with Peer(target.over_tls(pki.context())) as peer:
            peer.log_in()


def started_with(*settings: str) -> str:
    """What a broker that cannot start says, and only that."""
    command = [*broker.OWN, "serve", "--port", "0"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "[info]" not in line]
    assert len(lines) == 1, lines
    return lines[0]


def test_what_cannot_be_is_told_in_one_line(pki: Pki, tmp_path: Path) -> None:
    folder = pki.folder
    stranger = tmp_path / "other.pem"
    trustme.CA().issue_cert("other").private_key_pem.write_to_path(str(stranger))
    right = [f"ssl_options.certfile={folder}/cert.pem", f"ssl_options.keyfile={folder}/key.pem"]
    on = "listeners.ssl.default=0"
    assert "ssl_options.certfile must be" in started_with(on)
    said = started_with(on, "ssl_options.certfile=/nowhere.pem")
    assert said.endswith("ssl_options.certfile = /nowhere.pem: No such file or directory")
    said = started_with(on, right[0], f"ssl_options.keyfile={stranger}")
    assert said.endswith(f"{stranger}: is not the key of {folder}/cert.pem")
    said = started_with(on, *right, "ssl_options.verify=verify_peer")
    assert "ssl_options.cacertfile must be set" in said
    said = started_with(on, *right, "ssl_options.ciphers=NONSENSE")
    assert "ssl_options.ciphers = NONSENSE" in said
    assert "listeners.ssl.default must be set" in started_with("listeners.tcp=none")
