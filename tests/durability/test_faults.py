"""Goal: the real process contains faults as the simulation's does. One of a connection costs that
connection; one of what all share ends the process with 70, and so does a loop that stands still.

Method: the broker with faults that are called for by name (tests/support/faults.py), real
sockets; another client works on all the while.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from support import faults
from support.broker import Ctl, await_ready, start, stop
from support.commands import run_command
from support.peer import Peer, call, channel_open, publish

DURABLE = b"\x10\x00\x02"


class Bench:
    """A broker, and a client that works."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.errors = directory / "stderr.txt"
        self.process = start(directory, *settings, program=faults.PROGRAM, errors=self.errors)
        self.target = await_ready(self.process, self.errors)
        self.ctl = Ctl(self.target)
        self.worker = self.client()
        declare = call(commands.Queue.Declare(queue="work", durable=True))
        self.worker.send(declare).expect("Queue.DeclareOk")
        self.worker.send(call(commands.Confirm.Select())).expect("Confirm.SelectOk")

    def client(self) -> Peer:
        """Logged in, with channel 1."""
        return Peer(self.target).log_in().open()

    def work(self) -> None:
        """One message is published and confirmed."""
        self.worker.send(publish("work", properties=DURABLE)).expect("Basic.Ack")

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def ends(self) -> int:
        """The exit code, when the broker ends by itself."""
        return self.process.wait(240)

    def call_for(self, name: str) -> Peer:
        """A client that sets a fault off."""
        peer = self.client()
        peer.send(call(commands.Queue.Declare(queue=name)))
        return peer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    if bench.process.poll() is None:
        assert stop(bench.process) == 0


@pytest.mark.parametrize("fault", ["channel", "memory", "deep", "reader", "writer", "frames"])
def test_a_fault_of_a_connection_costs_that_connection(bench: Bench, fault: str) -> None:
    peer = bench.call_for(f"fault-{fault}")
    assert peer.verdict() == "connection 541 INTERNAL_ERROR (0.0)"
    peer.send(call(commands.Connection.CloseOk(), 0))
    assert peer.verdict() == "end"
    bench.work()
    assert bench.said().count("a fault of the broker's own") == 1
    assert "contained in" in bench.said()


def test_a_fault_before_log_in_closes_the_socket(bench: Bench) -> None:
    peer = Peer(bench.target)
    peer.send(b"AMQP\0\0\x09\x01fault-reader")
    assert peer.verdict() == "end"
    bench.work()


def test_a_fault_in_a_callback_of_a_socket_closes_it(bench: Bench) -> None:
    peer = bench.call_for("fault-socket")
    assert peer.verdict() == "end"
    bench.work()
    assert bench.ctl("list_connections", "-s", "state").split() == ["running"]


def test_a_fault_in_a_command_is_its_answer(bench: Bench) -> None:
    failed = bench.ctl.run("environment")
    assert failed.returncode == 70
    assert "the broker has failed in this command" in failed.stderr
    bench.work()


def test_a_queue_is_read_back_after_a_fault_and_stays_down_after_two(bench: Bench) -> None:
    bench.work()
    bench.work()
    for messages, state in (("2", "running"), ("2", "crashed")):
        bench.call_for("fault-queue").expect("Queue.DeclareOk")
        deadline = time.monotonic() + 240
        while bench.ctl("list_queues", "-s", "name", "state").split("work\t")[1][:7] != state:
            assert time.monotonic() < deadline
        assert bench.said().count("has crashed") == (1 if state == "running" else 2)
        if state == "running":
            assert f"goes on with {messages} messages" in bench.said()
    bench.worker.send(publish("work", properties=DURABLE)).expect("Basic.Nack")
    assert stop(bench.process) == 0
    again = Bench(bench.directory)
    again.work()
    counts = dict(line.split() for line in again.ctl("list_queues", "-s").splitlines())
    assert counts["work"] == "3"
    assert stop(again.process) == 0


def test_a_stream_is_read_back_after_a_fault_and_stays_down_after_two(bench: Bench) -> None:
    peer = bench.client()
    arguments = {"x-queue-type": "stream"}
    declare = commands.Queue.Declare(queue="log", durable=True, arguments=arguments)
    peer.send(call(declare)).expect("Queue.DeclareOk")
    peer.send(call(commands.Confirm.Select())).expect("Confirm.SelectOk")
    peer.send(publish("log")).expect("Basic.Ack")
    for state in ("running", "crashed"):
        bench.call_for("fault-stream").expect("Queue.DeclareOk")
        deadline = time.monotonic() + 240
        while f"log\t{state}" not in bench.ctl("list_queues", "-s", "name", "state"):
            assert time.monotonic() < deadline
        if state == "running":
            assert "goes on at offset 1" in bench.said()
            peer.send(publish("log")).expect("Basic.Ack")
    peer.send(publish("log")).expect("Basic.Nack")
    bench.work()
    assert stop(bench.process) == 0
    again = Bench(bench.directory)
    counts = dict(line.split() for line in again.ctl("list_queues", "-s").splitlines())
    assert counts["log"] == "2"
    assert stop(again.process) == 0


def test_a_message_that_a_queue_cannot_handle_is_set_aside_for_good(bench: Bench) -> None:
    to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    peer = bench.client()
    declare = commands.Queue.Declare(
        queue="short", durable=True, arguments={"x-message-ttl": 100, **to_work}
    )
    peer.send(call(declare)).expect("Queue.DeclareOk")
    peer.send(call(commands.Confirm.Select())).expect("Confirm.SelectOk")
    for body in (b"1", b"fault-letter", b"2"):
        peer.send(publish("short", body, properties=DURABLE)).expect("Basic.Ack")
    deadline = time.monotonic() + 240
    while "it is set aside in" not in bench.said():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    [kept] = (bench.directory / "quarantine").iterdir()
    shown = run_command("inspect", str(kept)).stdout
    assert "begins=fault-letter" in shown
    assert "routing_key=short" in shown
    os.kill(bench.process.pid, signal.SIGKILL)
    bench.process.wait(60)
    for _ in range(2):  # the first of them may find it in the queue again, the second must not
        before = bench.said()
        again = Bench(bench.directory)
        counts: dict[str, str] = {}
        while counts.get("short") != "0" or int(counts["work"]) < 2:
            assert time.monotonic() < deadline + 240
            counts = dict(line.split() for line in again.ctl("list_queues", "-s").splitlines())
        assert stop(again.process) == 0
    assert "has crashed" not in bench.said().removeprefix(before)
    assert len(list((bench.directory / "quarantine").iterdir())) == 1


@pytest.mark.parametrize("fault", ["store", "loop"])
def test_a_fault_of_what_all_share_ends_the_process(bench: Bench, fault: str) -> None:
    bench.work()
    bench.call_for(f"fault-{fault}")
    assert bench.ends() == 70
    assert "Mistake" in bench.said() or "AssertionError" in bench.said()
    again = Bench(bench.directory)
    assert again.ctl("list_queues", "-s", "messages").split() == ["1"]
    again.work()
    assert stop(again.process) == 0


def test_a_turn_that_takes_long_is_told_and_forgiven(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "watchdog.report_after_ms=1000")
    peer = bench.call_for("fault-stall")
    peer.expect("Queue.DeclareOk")
    bench.work()
    deadline = time.monotonic() + 240
    while "answers again" not in bench.said():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "no client got an answer for" in bench.said()
    assert "in stall" in bench.said()
    assert stop(bench.process) == 0


def test_a_loop_that_stands_still_ends_the_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "watchdog.report_after_ms=500", "watchdog.end_after_ms=8000")
    bench.work()
    bench.call_for("fault-spin")
    deadline = time.monotonic() + 240
    while (late := bench.ctl.run("ping", "-t", "1")).returncode == 0:
        assert time.monotonic() < deadline, "it answers, though it was told to stand still"
    assert late.returncode == 69
    assert "it accepts connections, but did not answer within 1 s" in late.stderr
    assert bench.ends() == 70
    assert "exiting now" in bench.said()
    assert "in spin" in bench.said()
    again = Bench(tmp_path)
    assert again.ctl("list_queues", "-s", "messages").split() == ["1"]
    assert stop(again.process) == 0


def test_a_process_that_is_stopped_is_no_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "watchdog.report_after_ms=400", "watchdog.end_after_ms=1000")
    os.kill(bench.process.pid, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        bench.process.wait(3)
    os.kill(bench.process.pid, signal.SIGCONT)
    bench.work()
    assert "exiting now" not in bench.said()
    assert stop(bench.process) == 0


def test_a_broker_that_is_never_done_ends_in_time(bench: Bench) -> None:
    peer = bench.client()
    for number in range(2, 200):
        peer.send(channel_open(number))
    peer.send(call(commands.Queue.Declare(queue="fault-flood")))
    bench.work()
    assert stop(bench.process) == 0
