"""Goal: what the simulation shows of links is true of real processes on real sockets.

Method: three processes on loopback addresses of their own, whose talkers check what comes; they
start in any order, are killed, stopped, robbed of their data, and strangers connect.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from cluster.linked_node import PORT
from sluicemq.cluster.introduction import HELLO, HELLO_BODY, MAGIC, handshake_message
from sluicemq.limits import LINK_HALF_OPEN_ADDRESS_MAX
from support import broker
from support.waiting import await_truth

SECRET = "a secret of some length"
TESTS = Path(__file__).resolve().parents[1]


class Process:
    """Node `number`, whether it runs or not."""

    def __init__(self, number: int, directory: Path, hosts: list[str]) -> None:
        self.number = number
        self.directory = directory
        self.hosts = hosts
        self.process: broker.Process | None = None
        directory.mkdir()

    def start(self, secret: str = SECRET) -> None:
        (self.directory / "status").unlink(missing_ok=True)
        command = [sys.executable, "-m", "cluster.linked_node", str(self.directory)]
        paths = f"{TESTS}{os.pathsep}{broker.ENVIRONMENT['PYTHONPATH']}"
        command += [str(self.number), *self.hosts, secret]
        with (self.directory / "stderr").open("ab") as errors:
            env = broker.ENVIRONMENT | {"PYTHONPATH": paths}
            self.process = broker.launch(command, env, stdout=errors, stderr=errors)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int) -> int:
        """End it by a signal; its exit code."""
        self.signal(number)
        assert self.process is not None
        code = self.process.wait(240)
        self.process = None
        return code

    @property
    def status(self) -> dict[str, Any]:
        assert self.process is None or self.process.poll() is None, self.log
        try:
            found: dict[str, Any] = json.loads((self.directory / "status").read_text())
        except FileNotFoundError:
            return {}
        return found

    def count(self, what: str) -> int:
        return int(self.status.get(what, 0))

    def sees(self, other: Process) -> str:
        """How that node stands with it; "" before it has said so."""
        return str(self.status.get("standing", {}).get(str(other.number), ""))

    @property
    def log(self) -> str:
        parts = [self.directory / "log", self.directory / "stderr"]
        return "".join(each.read_text() for each in parts if each.exists())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Process]]:
    high, low = divmod(os.getpid() % 60_000, 250)
    hosts = [f"127.{high + 1}.{low + 1}.{number}" for number in (1, 2, 3)]
    made = [Process(number, tmp_path / f"n{number}", hosts) for number in (1, 2, 3)]
    yield made
    for each in made:
        if each.process is not None:
            each.signal(signal.SIGCONT)
            each.end(signal.SIGKILL)


def all_up(nodes: list[Process]) -> bool:
    return all(one.sees(other) == "up" for one, other in permutations(nodes, 2))


def await_talk(nodes: list[Process]) -> None:
    """All are up, and what they say arrives."""
    await_truth(lambda: all_up(nodes) and all(each.status["contacts"] for each in nodes))
    before = [each.count("received") for each in nodes]
    await_truth(
        lambda: all(
            each.count("received") > count + 50 for each, count in zip(nodes, before, strict=True)
        )
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_three_find_each_other_in_any_order(nodes: list[Process], order: tuple[int, ...]) -> None:
    for place in order:
        nodes[place].start()
        await_truth(lambda place=place: nodes[place].status)
    await_talk(nodes)
    assert [each.end(signal.SIGTERM) for each in nodes] == [0, 0, 0]
    assert "ERROR" not in "".join(each.log for each in nodes).upper()


def test_one_after_another_is_killed(nodes: list[Process]) -> None:
    for each in nodes:
        each.start()
    await_talk(nodes)
    for life, killed in enumerate(nodes * 2, start=1):
        others = [each for each in nodes if each is not killed]
        killed.end(signal.SIGKILL)
        await_truth(
            lambda others=others, killed=killed: all(each.sees(killed) == "down" for each in others)
        )
        killed.start()
        await_talk(nodes)
        expected = (life + 2) // 3 + 1
        assert killed.status["incarnation"] == expected
        for each in others:
            assert each.status["incarnations"][str(killed.number)] == expected


def test_one_that_stands_still_is_suspected_then_down(nodes: list[Process]) -> None:
    for each in nodes:
        each.start()
    await_talk(nodes)
    still, *others = nodes[1], nodes[0], nodes[2]
    still.signal(signal.SIGSTOP)
    suspecting: set[int] = set()

    def have_suspected() -> bool:
        """Each for a while, though perhaps not both at once."""
        suspecting.update(each.number for each in others if each.sees(still) == "suspected")
        return len(suspecting) == len(others)

    await_truth(have_suspected)
    await_truth(lambda: all(each.sees(still) == "down" for each in others))
    still.signal(signal.SIGCONT)
    await_talk(nodes)
    assert "nothing was heard of it for 10 s" in others[0].log


def test_one_that_stops_says_goodbye(nodes: list[Process]) -> None:
    for each in nodes:
        each.start()
    await_talk(nodes)
    assert nodes[2].end(signal.SIGTERM) == 0
    await_truth(lambda: all(each.sees(nodes[2]) == "down" for each in nodes[:2]))
    for each in nodes[:2]:
        assert 'node 3 (n3) is down: it said goodbye: "this node stops"' in each.log


def test_another_secret_is_refused_by_both(nodes: list[Process]) -> None:
    nodes[0].start()
    nodes[1].start()
    nodes[2].start("another secret of some length")
    await_truth(lambda: all_up(nodes[:2]))
    sentence = "it does not know the shared secret of this cluster"
    await_truth(lambda: sentence in nodes[2].log and sentence in nodes[0].log)
    assert not nodes[2].count("ups")
    assert SECRET not in "".join(each.log for each in nodes)


def test_a_wiped_member_that_returns_is_refused(nodes: list[Process]) -> None:
    for each in nodes:
        each.start()
    await_talk(nodes)
    nodes[2].end(signal.SIGKILL)
    kept = nodes[2].directory / "kept"
    (nodes[2].directory / "data").rename(kept)
    nodes[2].start()
    sentence = "A member that has lost its data is a new node"
    await_truth(lambda: all(sentence in each.log for each in nodes))
    assert not nodes[2].count("ups")
    nodes[2].end(signal.SIGKILL)
    shutil.rmtree(nodes[2].directory / "data")
    kept.rename(nodes[2].directory / "data")
    nodes[2].start()
    await_talk(nodes)


def answer_to(host: str, said: bytes) -> bytes:
    """All that a node answers to who says that and waits."""
    with socket.create_connection((host, PORT), timeout=240) as connected:
        connected.sendall(said)
        answer = b""
        while part := connected.recv(4096):
            answer += part
        return answer


def test_strangers_hear_why_and_cost_little(nodes: list[Process]) -> None:
    nodes[0].start()
    nodes[1].start()
    await_truth(lambda: all_up(nodes[:2]))
    host = nodes[1].hosts[1]
    later = MAGIC + handshake_message(HELLO, HELLO_BODY.pack(2, 3, bytes(32)))
    sentence = b"it speaks versions 2 to 3 of the protocol between nodes, and this node 1 to 1"
    assert answer_to(host, later).endswith(sentence)
    amqp = answer_to(host, b"AMQP\x00\x00\x09\x01")
    assert amqp.endswith(b"what it sent is not how a node of a cluster begins")
    many = [socket.create_connection((host, PORT)) for _ in range(LINK_HALF_OPEN_ADDRESS_MAX + 8)]

    def are_all_there() -> bool:
        """One more comes each time, for an earlier one may still have had a place."""
        many.append(socket.create_connection((host, PORT)))
        return nodes[1].count("strangers") == LINK_HALF_OPEN_ADDRESS_MAX

    await_truth(are_all_there)
    await_truth(lambda: nodes[1].count("strangers") == 0)
    for each in many:
        each.close()
    await_truth(lambda: all_up(nodes[:2]))
    assert nodes[1].count("downs") == 0
