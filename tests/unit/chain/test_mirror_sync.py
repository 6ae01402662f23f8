"""Goal: a new mirror is sent what is in a queue when the policy, or an operator, wants that, and
not before; what was in the queue may also go by itself.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from sluicemq.amqp import methods as m
from support.mirrored_brokers import Turned, bodies_left, numbered

MANUAL: Final[dict[str, Any]] = {"ha-mode": "all", "ha-sync-mode": "manual"}


def held(messages: int = 40, policy: dict[str, Any] = MANUAL) -> Turned:
    """Return nodes whose queue has that many messages, and two mirrors that lack them."""
    run = Turned()
    client = run.brokers[0].connect()
    client.publish(*numbered(0, messages))
    run.until(client.all_confirmed)
    run.set_policy(policy)
    master = run.member(run.master_broker())
    run.until(lambda: len(master.mirror.in_sync.held) == 2)
    return run


def test_new_mirrors_are_held_until_what_there_was_has_gone() -> None:
    run = held()
    listed = run.listed(run.brokers[0])
    assert sorted(listed["slave_pids"]) == ["n2", "n3"]
    assert (listed["synchronised_slave_pids"], listed["state"]) == ([], "running")
    client = run.brokers[1].connect()
    client.publish(*numbered(40, 50))
    run.until(client.all_confirmed)
    client.send(2, m.BasicQos(prefetch_count=40))
    client.consume()
    run.until(lambda: len(client.bodies) == 40)
    client.ack(39, multiple=True)
    run.rest(2000)
    assert len(run.member(run.master_broker()).in_sync) == 1
    client.ack(40)
    run.in_sync(3)
    assert sorted(run.listed(run.brokers[0])["synchronised_slave_pids"]) == ["n2", "n3"]
    assert run.member(run.brokers[0]).mirror.in_sync.held == {}
    client.lose()
    run.brokers[0].crash()
    run.master()
    fresh = run.running[0].connect()
    assert {body for body, _ in bodies_left(fresh, 10)} == {*numbered(40, 50)}
    run.no_faults()


def test_nodes_rest_when_a_queue_has_moved_to_its_mirrors() -> None:
    run = held()
    run.rest(500)
    before = run.timeline.happened
    run.rest(500)
    assert run.timeline.happened - before < 1000
    run.no_faults()


def test_an_operator_has_mirrors_synchronised_at_any_node() -> None:
    run = held()
    assert run.ctl(run.brokers[2], "sync_queue", queue="q").error == ""
    run.in_sync(3)
    run.until(lambda: run.member(run.brokers[0]).mirror.in_sync.held == {})
    run.brokers[0].crash()
    run.master()
    fresh = run.running[0].connect()
    assert [body for body, _ in bodies_left(fresh, 40)] == numbered(0, 40)
    run.no_faults()


def test_another_policy_has_them_synchronised() -> None:
    run = held()
    run.set_policy({"ha-mode": "all"})
    run.in_sync(3)
    run.no_faults()


def test_mirrors_of_an_empty_queue_are_in_sync_at_once() -> None:
    run = Turned()
    run.set_policy(MANUAL)
    run.in_sync(3)
    run.no_faults()


def test_a_master_that_is_alone_begins_anew_with_what_it_has() -> None:
    run = held()
    run.brokers[0].crash(power=True)
    run.rest(10_000)
    assert run.masters() == [], "nobody else has anything"
    run.brokers[0].start()
    run.in_sync(1)
    run.until(lambda: run.listed(run.brokers[1])["state"] == "running")
    fresh = run.brokers[1].connect()
    assert [body for body, _ in bodies_left(fresh, 40)] == numbered(0, 40)
    run.until(lambda: not run.ctl(run.brokers[0], "sync_queue", queue="q").error)
    run.in_sync(3)
    run.no_faults()


@pytest.mark.parametrize("policy", [MANUAL, {"ha-mode": "all"}], ids=["manual", "automatic"])
def test_a_synchronisation_is_cancelled_and_begun_anew(policy: dict[str, Any]) -> None:
    run = held(1000)
    member = run.member(run.brokers[0])
    run.brokers[2].freeze()  # it takes nothing
    if policy == MANUAL:
        run.ctl(run.brokers[0], "sync_queue", queue="q")
    else:
        run.set_policy_at(run.brokers[0], policy)
    run.until(lambda: member.is_syncing)
    run.until(lambda: run.listed(run.brokers[0])["state"] == "syncing")
    assert run.ctl(run.brokers[0], "cancel_sync_queue", queue="q").error == ""
    run.until(lambda: not member.is_syncing)
    run.brokers[2].freeze(is_frozen=False)
    run.rest(5000)
    assert len(run.member(run.master_broker()).in_sync) < 3
    assert run.ctl(run.brokers[1], "sync_queue", queue="q").error == ""
    run.in_sync(3)
    run.brokers[0].crash()
    run.master()
    fresh = run.running[0].connect()
    assert [body for body, _ in bodies_left(fresh, 1000)] == numbered(0, 1000)
    run.no_faults()


def test_only_mirrored_queues_are_synchronised() -> None:
    run = Turned()
    answer = run.ctl(run.brokers[0], "sync_queue", queue="q")
    assert answer.error == "queue 'q' in vhost '/' is not mirrored" and answer.code == 69
