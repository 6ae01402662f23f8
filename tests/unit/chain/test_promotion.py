"""Goal: where a policy wants that, a queue goes on with the member that has most when no majority
of them is left, and only then; who was left behind forgets what it had.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.cluster.cluster_port import STOPS
from sluicemq.kernel.address import node_of, number_of
from sluicemq.limits import MIRROR_PROMOTE_MS
from sluicemq.metadata.changes import MoveLeader
from sluicemq.raft.messages import RaftMessage
from sluicemq.replication.raft_post import RaftPost
from support.linked_brokers import LinkedBroker
from support.mirrored_brokers import Mirrored, Turned, bodies_left, numbered

MANUAL: Final[dict[str, Any]] = {"ha-mode": "all", "ha-sync-mode": "manual"}
ALWAYS: Final = "always"
LONG_MS: Final = 4 * MIRROR_PROMOTE_MS


def held(policy: dict[str, Any]) -> Turned:
    """Return nodes whose queue has messages, and two mirrors that lack them."""
    run = Turned()
    client = run.brokers[0].connect()
    client.publish(*numbered(0, 40))
    run.until(client.all_confirmed)
    run.set_policy(policy)
    master = run.member(run.master_broker())
    run.until(lambda: len(master.mirror.in_sync.held) == 2)
    return run


def stop(broker: LinkedBroker) -> None:
    """Have a node end in order."""
    assert broker.node.membership is not None
    broker.node.membership.cluster.leave(STOPS)
    broker.run.rest(100)
    broker.crash()


def members(run: Mirrored, at: int = 1) -> tuple[int, ...]:
    """Return the members that are declared, as a node knows."""
    host = run.brokers[at].node.broker.definitions.hosts["/"]
    return host.queues["q"].members


def test_a_mirror_without_messages_takes_over_when_the_master_has_failed() -> None:
    run = held(MANUAL | {"ha-promote-on-failure": ALWAYS})
    for _ in range(3):  # so that its term is higher than one that mirrors would come to
        run.brokers[0].crash(power=True)
        run.brokers[0].start()
        run.until(lambda: run.listed(run.brokers[2])["state"] == "running")
    run.brokers[0].crash(power=True)
    run.rest(MIRROR_PROMOTE_MS / 2)
    assert run.masters() == [], "it may start again"
    run.until(run.masters)
    run.until(lambda: run.listed(run.brokers[2])["state"] == "running")
    client = run.brokers[2].connect()
    assert client.depth() == 0
    client.publish(*numbered(100, 110))
    run.until(client.all_confirmed)
    run.brokers[0].start()
    master = run.member(run.master_broker())
    run.until(lambda: len(master.mirror.in_sync.held) == 2)
    run.ctl(run.brokers[1], "sync_queue", queue="q")
    run.in_sync(3)
    run.master_broker().crash(power=True)
    run.master()
    fresh = run.running[0].connect()
    assert [body for body, _ in bodies_left(fresh, 10)] == numbered(100, 110)
    run.no_faults()


@pytest.mark.parametrize(
    ("policy", "takes_over"),
    [
        ({"ha-promote-on-failure": ALWAYS}, False),
        ({"ha-promote-on-shutdown": ALWAYS}, True),
    ],
    ids=["on failure", "on shutdown"],
)
def test_what_counts_when_the_master_was_stopped(policy: dict[str, Any], takes_over: bool) -> None:
    run = held(MANUAL | policy)
    stop(run.brokers[0])
    if takes_over:
        run.until(run.masters)
    else:
        run.rest(LONG_MS)
        assert run.masters() == []
        run.brokers[0].start()
        run.in_sync(1)
        run.until(lambda: run.listed(run.brokers[1])["state"] == "running")
        fresh = run.brokers[1].connect()
        assert [body for body, _ in bodies_left(fresh, 40)] == numbered(0, 40)
    run.no_faults()


@pytest.mark.parametrize("crashes", [False, True], ids=["at once", "after a restart"])
def test_who_is_left_of_more_goes_on_with_all_messages(
    crashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = {"ha-mode": "exactly", "ha-params": 3, "ha-promote-on-failure": ALWAYS}
    run = Mirrored(policy, size=5)
    run.in_sync(3)
    client = run.brokers[0].connect()
    client.publish(*numbered(0, 30))
    run.until(client.all_confirmed)
    mirrors = [each for each in run.brokers if run.is_mirror(each)]
    left = mirrors[-1]
    for each in mirrors[:-1]:
        each.crash(power=True)
    at = run.brokers.index(left)
    if crashes:
        with monkeypatch.context() as before:
            before.setattr(MirrorMember, "go_on_alone", lambda *_: None)
            run.until(lambda: len(members(run, at)) == 1)
            run.rest(1000)
            assert run.masters() == []
            left.crash(power=True)
        left.start()
    run.until(lambda: run.masters() == [left])
    run.in_sync(3)
    other = next(each for each in run.running if each is not left)
    run.until(lambda: run.listed(other)["state"] == "running")
    fresh = other.connect()
    assert [body for body, _ in bodies_left(fresh, 30)] == numbered(0, 30)
    for each in mirrors[:-1]:
        each.start()
    run.until(lambda: all(each.has("q") for each in run.running))
    run.rest(5000)
    assert run.masters() == [left]
    run.no_faults()


def test_who_goes_on_sends_again_what_new_mirrors_have_not_got(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Mirrored({"ha-mode": "exactly", "ha-params": 3, "ha-promote-on-failure": ALWAYS}, size=5)
    run.in_sync(3)
    mirrors = [each for each in run.brokers if run.is_mirror(each)]
    original = RaftPost.send
    lost: set[int] = set()

    def send(self: RaftPost, group: int, messages: list[RaftMessage]) -> None:
        new = {each.to for each in messages if number_of(each.to)} - lost
        lost.update(new)
        original(self, group, [each for each in messages if each.to not in new])

    monkeypatch.setattr(RaftPost, "send", send)
    for each in mirrors[:-1]:
        each.crash(power=True)
    run.until(lambda: run.masters() == mirrors[-1:])
    master = run.member(mirrors[-1])
    run.until(lambda: len(master.in_sync) == 3 and all(map(number_of, master.in_sync)))
    assert len(lost) >= 2
    run.no_faults()


def test_who_has_nothing_takes_over_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    run = held(MANUAL | {"ha-promote-on-failure": ALWAYS})
    run.brokers[0].crash()
    with monkeypatch.context() as before:
        before.setattr(MirrorMember, "go_on_alone", lambda *_: None)
        run.until(lambda: len(members(run)) == 1)
        run.rest(1000)
        heir = run.brokers[node_of(members(run)[0]) - 1]
        heir.crash(power=True)
    heir.start()
    run.until(lambda: run.masters() == [heir])
    [other] = [each for each in run.running if each is not heir]
    run.until(lambda: run.listed(other)["state"] == "running")
    assert other.connect().depth() == 0
    run.no_faults()


def test_a_master_that_loses_its_majority_goes_on_though_another_mirror_has_as_much() -> None:
    policy = {"ha-mode": "exactly", "ha-params": 4, "ha-promote-on-failure": ALWAYS}
    run = Mirrored(policy | {"ha-promote-on-shutdown": ALWAYS}, size=5)
    run.in_sync(4)
    mirrors = [each for each in run.brokers if run.is_mirror(each)]
    first, master = mirrors[0], mirrors[-1]
    move = MoveLeader("/", "q", run.member(first).id, master.number)
    first.node.broker.agreement.propose(move)
    run.until(lambda: run.masters() == [master])
    client = master.connect()
    client.publish(*numbered(0, 30))
    run.until(client.all_confirmed)
    for each in mirrors[1:-1]:
        each.crash(power=True)
    run.until(lambda: not run.masters())
    run.until(lambda: run.masters() == [master])
    run.until(lambda: run.listed(first)["state"] == "running")
    fresh = first.connect()
    assert [body for body, _ in bodies_left(fresh, 30)] == numbered(0, 30)
    run.no_faults()


def test_nobody_takes_over_while_the_others_could_elect_somebody() -> None:
    run = Mirrored({"ha-mode": "all", "ha-promote-on-failure": ALWAYS})
    run.in_sync(3)
    before = members(run)
    run.brokers[0].crash()
    run.rest(LONG_MS)
    assert members(run) == before and len(run.masters()) == 1
    run.no_faults()


def test_a_minority_of_the_cluster_promotes_nobody() -> None:
    run = held(MANUAL | {"ha-promote-on-failure": ALWAYS})
    run.brokers[0].crash()
    run.brokers[1].crash()
    before = members(run, 2)
    run.rest(LONG_MS)
    assert members(run, 2) == before and run.masters() == []
    run.no_faults()


def test_what_a_minority_wanted_is_forgotten_when_it_is_back() -> None:
    run = Mirrored({"ha-mode": "exactly", "ha-params": 3, "ha-promote-on-failure": ALWAYS}, size=5)
    run.in_sync(3)
    mirrors = [each for each in run.brokers if run.is_mirror(each)]
    former, before = run.master_broker(), members(run)
    others = [each for each in run.brokers if each is not former]
    run.cut_off(former)
    run.until(lambda: any(each in run.masters() for each in others))
    client = next(each for each in mirrors if each is not former).connect()
    client.publish(*numbered(0, 30))
    run.until(client.all_confirmed)
    run.rest(2 * MIRROR_PROMOTE_MS)
    run.network.cut({})
    run.rest(5000)
    assert members(run) == before
    fresh = former.connect()
    assert [body for body, _ in bodies_left(fresh, 30)] == numbered(0, 30)
    run.no_faults()


class LateMirror:
    """Five nodes, and the queue `q` with three mirrors. One of them, `late`, has not heard of the
    master for `waited_ms`, and reaches two nodes without mirrors or, as it `is_alone`, nobody."""

    def __init__(self, waited_ms: float, *, is_alone: bool) -> None:
        policy = {"ha-mode": "exactly", "ha-params": 3, "ha-promote-on-failure": ALWAYS}
        self.run = run = Mirrored(policy, size=5)
        run.in_sync(3)
        self.mirrors = [each for each in run.brokers if run.is_mirror(each)]
        self.before = members(run)
        self.master = run.master_broker()
        self.late = next(each for each in self.mirrors if each is not self.master)
        self.ask_post = run.member(self.late).ask_post
        if is_alone:
            run.cut_off(self.late)
        else:
            self.cut_off_from_mirrors()
        run.until(lambda: not self.ask_post.leader_of(run.member(self.late).id))
        run.rest(waited_ms)

    def cut_off_from_mirrors(self) -> None:
        """Let nothing through between it and the other mirrors, and all else."""
        others = [each for each in self.mirrors if each is not self.late]
        ways = [(self.late.host, each.host) for each in others]
        self.run.network.cut(dict.fromkeys([*ways, *((other, one) for one, other in ways)]))

    def comes_back(self) -> None:
        """Let everything through again, and check that nothing is lost."""
        run = self.run
        client = self.master.connect()
        client.publish(*numbered(0, 30))
        run.until(client.all_confirmed)
        run.network.cut({})
        run.rest(LONG_MS)
        assert members(run) == self.before
        fresh = self.late.connect()
        assert [body for body, _ in bodies_left(fresh, 30)] == numbered(0, 30)
        run.no_faults()


def test_who_reaches_no_other_mirror_asks_the_nodes_that_reach_the_master() -> None:
    cluster = LateMirror(2 * MIRROR_PROMOTE_MS, is_alone=False)
    assert members(cluster.run) == cluster.before
    cluster.comes_back()


def test_who_reaches_no_other_mirror_takes_over_when_nobody_reaches_the_master() -> None:
    cluster = LateMirror(2 * MIRROR_PROMOTE_MS, is_alone=False)
    for each in cluster.mirrors:
        if each is not cluster.late:
            each.crash(power=True)
    cluster.run.until(lambda: cluster.run.masters() == [cluster.late])
    cluster.run.no_faults()


def test_who_stood_still_while_it_waited_waits_anew() -> None:
    cluster = LateMirror(1000, is_alone=False)
    cluster.late.freeze()
    cluster.run.cut_off(cluster.late)
    cluster.run.rest(MIRROR_PROMOTE_MS)
    cluster.late.freeze(is_frozen=False)
    cluster.run.rest(1500)
    cluster.comes_back()


def test_who_has_just_come_back_waits_anew() -> None:
    cluster = LateMirror(MIRROR_PROMOTE_MS - 5000, is_alone=True)
    cluster.cut_off_from_mirrors()
    cluster.run.rest(7000)
    cluster.comes_back()
