"""Goal: members of quorum queues come and go, and leaders move, under clients on all nodes: nothing
confirmed is lost, everything is answered, and what people are told of it is so on every node.

Method: `sluicemq serve` three times for the whole file, `sluicemq ctl`, and the clients of
`torture.py`.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.faults import Fault, stop
from cluster.sites import Site
from cluster.torture import Run
from cluster.workers import Consumer, Publisher, Registrar
from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient
from support.served import Served, three_nodes
from support.waiting import await_truth

QUORUM = {"x-queue-type": "quorum"}
RATE = 10.0
LOOK_S = 0.5
LONE = QUORUM | {"x-quorum-initial-group-size": 1}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Served]]:
    with three_nodes(Path(tmp_path_factory.mktemp("members"))) as made:
        for each in made:
            each.start()
        await_truth(lambda: all(each.is_ready for each in made))
        yield made


def rows(node: Served, *command: str) -> list[dict[str, Any]]:
    done = node.ctl(*command, "-q", "--formatter", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def refused(node: Served, *command: str) -> str:
    done = node.ctl(*command)
    assert done.returncode in {65, 69}, done
    return done.stderr


def declare(node: Served, queue: str, arguments: dict[str, Any]) -> None:
    with BlockingClient(Address(node.host, node.port), 60.0, "declarer") as client:
        client.declare_queue(queue, arguments=arguments)


def members(node: Served, queue: str) -> dict[str, str]:
    """The state of the queue's members as they see it, by node."""
    return {row["node"]: row["raft_state"] for row in rows(node, "quorum_status", queue)}


def are_members(node: Served, queue: str, *names: str) -> bool:
    """Whether these have members that take part, one of which leads."""
    found = members(node, queue)
    states = sorted(found.values())
    return {*found} == {*names} and states == ["follower"] * (len(names) - 1) + ["leader"]


def test_every_node_says_who_the_members_are_and_refuses_nonsense(nodes: list[Served]) -> None:
    one, _, three = nodes
    declare(one, "lone", LONE)
    declare(one, "classic", {})
    await_truth(lambda: members(three, "lone") == {"n1": "leader"})
    for each in nodes:
        found = rows(each, "list_queues", "name", "leader", "members", "online")
        listed = {row.pop("name"): row for row in found}
        assert listed["lone"] == {"leader": "n1", "members": ["n1"], "online": ["n1"]}
        assert listed["classic"] == {"leader": "", "members": [], "online": []}
    assert "'n9' is not a member of the cluster" in refused(one, "add_member", "lone", "n9")
    assert "has a member on node 1 already" in refused(three, "add_member", "lone", "n1")
    assert "is the last one of queue 'lone'" in refused(three, "delete_member", "lone", "n1")
    assert "has no member on node 2" in refused(one, "delete_member", "lone", "n2")
    assert "Cannot add members to a classic queue" in refused(one, "add_member", "classic", "n2")
    assert "neither all nor even" in refused(one, "grow", "n2", "odd")
    [left] = [row for row in rows(three, "shrink", "n1") if row["name"] == "lone"]
    assert left["result"] == "error: it is the last member"
    with BlockingClient(Address(three.host, three.port), 60.0, "deleter") as client:
        for queue in ("lone", "classic"):
            client.delete_queue(queue)


class Members:
    """Changes of members under clients of two queues, few of these, for they cost."""

    def __init__(self, site: Site) -> None:
        self.run = Run(site, 3, {"lone": LONE, "three": QUORUM})
        self.run.declare()
        for queue in self.run.queues:
            for home in range(3):
                name = f"publisher at {home} of {queue}"
                Publisher(self.run.crowd, name, queue, RATE, 100, home)
            Consumer(self.run.crowd, f"consumer of {queue}", queue, 20, None)
        Registrar(self.run.crowd, "registrar", self.run.ledger)
        self.run.book.set_mark()
        self.run.pump(self.run.all_confirm, "nothing is confirmed")

    def change(self, node: Served, *command: str, done: Callable[[], bool]) -> None:
        """Have the members changed, and wait until it is done."""

        def begin() -> None:
            said = node.ctl(*command)
            assert said.returncode == 0, said.stderr

        def end() -> None:
            while not done():
                self.run.rest(LOOK_S)

        self.run.hurt(Fault(" ".join(command), "", begin, end))


def test_members_come_and_go_and_leaders_move_under_clients(nodes: list[Served]) -> None:
    one, two, three = nodes
    site = Site("sluicemq", nodes, None)
    members = Members(site)
    all_three = ("n1", "n2", "n3")

    def leaders() -> list[str]:
        return sorted(row["leader"] for row in rows(one, "list_queues", "leader"))

    members.change(three, "grow", "n2", "all", done=lambda: are_members(two, "lone", "n1", "n2"))
    members.change(
        one, "add_member", "lone", "n3", done=lambda: are_members(three, "lone", *all_three)
    )
    members.run.hurt(stop(site, 1))
    members.change(
        two, "delete_member", "lone", "n1", done=lambda: are_members(one, "lone", "n2", "n3")
    )
    members.change(one, "shrink", "n2", done=lambda: are_members(two, "three", "n1", "n3"))
    members.change(three, "rebalance", "quorum", done=lambda: leaders() == ["n1", "n3"])
    verdict = members.run.drain()
    print(verdict.line(), *members.run.table(), sep="\n")
    assert verdict.is_well(), verdict.examples
    assert verdict.counts["confirmed"] >= 100, "hardly anything was confirmed"
    assert not [line for each in nodes for line in each.log.splitlines() if "fault" in line]
    for each in nodes:
        assert each.end(signal.SIGTERM) == 0
