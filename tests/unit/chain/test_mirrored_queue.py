"""Goal: a mirrored queue is used from any node, confirms what all mirrors in sync have, and loses
nothing of that with its master.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.chain.queue.mirrored import member as member_module
from sluicemq.limits import MIRROR_REPLACE_MS
from sluicemq.manage.chain_view import Drawing
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.storage.raft.reading import RaftEntriesRead
from support.mirrored_brokers import Mirrored, Turned, bodies_left, numbered


def test_what_is_published_at_any_node_is_delivered_at_any_other() -> None:
    run = Mirrored()
    clients = [broker.connect() for broker in run.brokers]
    for client in clients:
        client.publish(*(b"%d of %d" % (n, client.broker.number) for n in range(20)))
        run.until(client.all_confirmed)
    run.in_sync(3)
    assert [client.depth() for client in clients] == [60, 60, 60]
    mirrors = [run.member(each).mirror for each in run.brokers]
    run.until(lambda: [each.messages for each in mirrors] == [60, 60, 60])
    clients[2].consume()
    run.until(lambda: len(clients[2].bodies) == 60)
    clients[2].ack(60, multiple=True)
    run.until(lambda: [each.messages for each in mirrors] == [0, 0, 0])
    assert clients[0].depth() == 0
    run.no_faults()


@pytest.mark.parametrize("power", [False, True])
def test_nothing_confirmed_is_lost_with_the_master(power: bool) -> None:
    run = Mirrored()
    run.in_sync(3)
    others = [broker.connect() for broker in run.brokers[1:]]
    publisher, consumer = others
    publisher.publish(*numbered(0, 50))
    run.until(publisher.all_confirmed)
    consumer.send(2, m.BasicQos(prefetch_count=10))
    consumer.consume(arguments={"x-cancel-on-ha-failover": True})
    run.until(lambda: len(consumer.bodies) == 10)
    run.brokers[0].crash(power=power)
    cancelled = consumer.wait_for(m.BasicCancel)
    assert isinstance(cancelled, m.BasicCancel) and cancelled.consumer_tag == "c"
    run.master()
    assert run.brokers[0] not in run.masters()
    run.in_sync(2)
    fresh = run.running[0].connect()
    found = bodies_left(fresh, 50)
    assert [body for body, _ in found] == numbered(0, 50)
    assert all(flagged for _, flagged in found[:10])
    fresh.ack(50, multiple=True)
    fresh.publish(*numbered(50, 60))
    run.until(fresh.all_confirmed)
    run.brokers[0].start()
    run.in_sync(3)
    mirrors = [run.member(each).mirror for each in run.brokers]
    run.until(lambda: [each.messages for each in mirrors] == [10, 10, 10])
    run.no_faults()


def test_a_master_in_the_minority_neither_confirms_nor_goes_on() -> None:
    run = Mirrored()
    run.in_sync(3)
    publisher = run.brokers[0].connect()
    publisher.publish(b"kept")
    run.until(publisher.all_confirmed)
    for each in run.brokers[1:]:
        each.freeze()
    publisher.publish(b"alone")
    run.until(lambda: not run.member(run.brokers[0]).served_term)
    run.until(lambda: publisher.poll() or publisher.nacked == {2})
    assert publisher.confirmed == {1}
    for each in run.brokers[1:]:
        each.freeze(is_frozen=False)
    run.in_sync(3)
    fresh = run.brokers[2].connect()
    fresh.publish(b"later")
    run.until(fresh.all_confirmed)
    assert bodies_left(fresh, 2)[0][0] == b"kept"
    run.no_faults()


def test_a_delivery_that_waits_for_a_majority_is_taken_back_once_with_its_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its cost is what the client had of its windows, which are whole then."""
    bounds = MirrorBounds(mark_ahead=1)
    monkeypatch.setattr(member_module, "MirrorBounds", lambda: bounds)
    run = Mirrored()
    run.in_sync(3)
    master = run.master()
    client = run.brokers[0].connect()
    client.consume()
    client.publish(b"seen")
    run.until(lambda: client.bodies == [b"seen"])
    client.ack(1)
    [consumer] = master.machine.consumers.all()
    run.until(lambda: not consumer.limiter.unacked)
    for each in run.brokers[1:]:
        each.freeze()
    client.publish(b"held", b"too", b"as well")
    run.until(lambda: bool(master.mirrored.held))
    assert [*master.making] == [], "it is in one place"
    run.until(lambda: not run.member(run.brokers[0]).served_term)
    run.rest(5)
    assert client.reader.window.spent == 0
    assert consumer.limiter.unacked == 0
    assert client.bodies == [b"seen"]
    run.no_faults()


def test_bodies_on_their_way_to_a_segment_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new master reads from its log what it delivers, and a checkpoint may be moving just that:
    it is in no memory any more, and in no segment yet."""
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[2].connect()
    client.publish(*numbered(0, 5))
    run.until(client.all_confirmed)
    run.brokers[0].crash()
    master = run.master()
    with monkeypatch.context() as moving:
        moving.setattr(master.member, "contents", lambda _: {})
        moving.setattr(master.store.raft, "reading", lambda *_: None)
        client.consume()
        run.until(lambda: bool(master.unsettled))
        run.rest(100)
        assert client.bodies == []
    master.settled()
    run.until(lambda: client.bodies == numbered(0, 5))
    run.no_faults()


def test_a_log_that_has_a_part_of_what_is_read_is_read_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the disk is full the rest may stay away for long."""
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[2].connect()
    client.publish(*numbered(0, 5))
    run.until(client.all_confirmed)
    run.brokers[0].crash()
    master = run.master()
    asked: list[int] = []

    def reading(group: int, indexes: list[int]) -> RaftEntriesRead:
        asked.extend(indexes)
        return RaftEntriesRead(group, [])

    with monkeypatch.context() as moving:
        moving.setattr(master.member, "contents", lambda _: {})
        moving.setattr(master.store.raft, "reading", reading)
        client.consume()
        run.until(lambda: bool(asked))
        run.rest(100)
        assert client.bodies == []
        assert len(asked) == len({*asked}), "each once so far"
    run.until(lambda: client.bodies == numbered(0, 5))
    run.no_faults()


def test_a_queue_is_deleted_on_all_nodes_and_declared_anew() -> None:
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[1].connect()
    client.publish(*numbered(0, 5))
    run.until(client.all_confirmed)
    deleted = client.call(1, m.QueueDelete(queue="q"), m.QueueDeleteOk)
    assert isinstance(deleted, m.QueueDeleteOk) and deleted.message_count == 5
    groups = [each.node.broker.store.raft.table.groups for each in run.brokers]
    run.until(lambda: all(len(each) == 1 for each in groups))
    client.call(1, m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
    client.publish(b"new")
    run.until(client.all_confirmed)
    assert client.depth() == 1
    run.no_faults()


def test_all_nodes_start_anew_with_what_was_confirmed() -> None:
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[1].connect()
    client.publish(*numbered(0, 30))
    run.until(client.all_confirmed)
    for each in run.brokers:
        each.crash(power=True)
    for each in run.brokers:
        each.start()
    run.until(lambda: all(each.has("q") for each in run.brokers))
    run.in_sync(3)
    fresh = run.brokers[2].connect()
    assert [body for body, _ in bodies_left(fresh, 30)] == numbered(0, 30)
    run.no_faults()


def test_two_mirrors_have_a_witness_that_never_serves() -> None:
    run = Mirrored({"ha-mode": "exactly", "ha-params": 2})
    run.in_sync(2)
    assert [len(run.member(each).mirrors) for each in run.brokers] == [2, 2, 2]
    client = run.brokers[1].connect()
    client.publish(*numbered(0, 10))
    run.until(client.all_confirmed)
    run.brokers[0].crash()
    master = run.master()
    assert master.member.own in master.member.mirrors
    [witness] = [each for each in run.running if run.member(each).is_witness]
    fresh = witness.connect()
    assert [body for body, _ in bodies_left(fresh, 10)] == numbered(0, 10)
    run.no_faults()


def test_a_mirror_that_stands_still_holds_up_and_is_dropped() -> None:
    run = Mirrored()
    run.in_sync(3)
    run.brokers[2].freeze()
    publisher = run.brokers[0].connect()
    publisher.publish(*numbered(0, 10))
    run.until(publisher.all_confirmed)
    run.in_sync(2)
    run.brokers[2].freeze(is_frozen=False)
    run.in_sync(3)
    run.no_faults()


@pytest.mark.parametrize(
    ("first", "then", "members"),
    [
        ({"ha-mode": "exactly", "ha-params": 1}, {"ha-mode": "all"}, 3),
        ({"ha-mode": "all"}, {"ha-mode": "exactly", "ha-params": 1}, 1),
        ({"ha-mode": "all"}, {"ha-mode": "exactly", "ha-params": 2}, 2),
        ({"ha-mode": "all"}, {"ha-mode": "nodes", "ha-params": ["n3"]}, 1),
    ],
)
def test_a_policy_is_effective_at_once_under_load(
    first: dict[str, Any], then: dict[str, Any], members: int
) -> None:
    run = Mirrored(first)
    publisher, consumer = run.brokers[0].connect(), run.brokers[1].connect()
    publisher.publish(*numbered(0, 20))
    run.until(publisher.all_confirmed)
    run.set_policy(then)
    publisher.publish(*numbered(20, 40))
    run.until(lambda: publisher.poll() or len(publisher.confirmed | publisher.nacked) == 40)
    masters = then.get("ha-params") if then["ha-mode"] == "nodes" else None
    run.until(lambda: masters is None or run.master_broker() is run.brokers[2])
    run.in_sync(members)
    publisher.publish(*numbered(40, 60))
    run.until(lambda: publisher.poll() or len(publisher.confirmed | publisher.nacked) == 60)
    kept = [n - 1 for n in sorted(publisher.confirmed)]
    consumer = run.brokers[1].connect()
    found = {int(body) for body, _ in bodies_left(consumer, len(kept))}
    assert found >= {*kept}
    assert len(kept) == 60 or masters
    run.no_faults()


def test_a_queue_with_messages_becomes_mirrored_under_load() -> None:
    run = Turned()
    publisher, consumer, other = (broker.connect() for broker in run.brokers)
    publisher.publish(*numbered(0, 300))
    run.until(publisher.all_confirmed)
    consumer.send(2, m.BasicQos(prefetch_count=5))
    consumer.consume(arguments={"x-cancel-on-ha-failover": True})
    run.until(lambda: len(consumer.bodies) == 5)
    run.set_policy({"ha-mode": "all"})
    publisher.publish(*numbered(300, 320))
    other.publish(*numbered(1000, 1020))
    assert isinstance(consumer.wait_for(m.BasicCancel), m.BasicCancel)
    run.in_sync(3)
    for each in (publisher, other):
        run.until(
            lambda each=each: each.poll() or len(each.confirmed | each.nacked) == each.published
        )  # type: ignore[misc]
    assert len(publisher.confirmed) == 320
    run.brokers[0].crash(power=True)
    run.master()
    fresh = run.running[0].connect()
    found = bodies_left(fresh, 320 + len(other.confirmed))
    wanted = [*numbered(0, 320), *(b"%d" % (n + 999) for n in sorted(other.confirmed))]
    assert {*wanted} <= {body for body, _ in found}
    assert [body for body, _ in found][:300] == numbered(0, 300)
    assert all(flagged for _, flagged in found[:5])
    run.no_faults()


def test_a_move_goes_on_after_a_restart() -> None:
    run = Turned(x_max_priority=3)
    publisher = run.brokers[0].connect()
    publisher.publish(*numbered(0, 500))
    run.until(publisher.all_confirmed)
    run.set_policy({"ha-mode": "exactly", "ha-params": 1})
    run.until(lambda: run.has_member(run.brokers[0]))
    run.until(lambda: run.member(run.brokers[0]).mirror.messages > 10)
    run.brokers[0].crash(power=True)
    run.brokers[0].start()
    run.until(lambda: run.brokers[0].has("q"))
    run.in_sync(1)
    fresh = run.brokers[1].connect()
    assert [body for body, _ in bodies_left(fresh, 500)] == numbered(0, 500)
    run.no_faults()


def test_a_policy_counts_that_a_node_has_not_followed_before_it_died() -> None:
    run = Turned()
    client = run.brokers[0].connect()
    client.publish(*numbered(0, 5))
    run.until(client.all_confirmed)
    run.brokers[0].crash()
    run.set_policy_at(run.brokers[1], {"ha-mode": "all"})
    run.brokers[0].start()
    run.until(lambda: run.brokers[0].has("q"))
    run.in_sync(3)
    fresh = run.brokers[2].connect()
    assert [body for body, _ in bodies_left(fresh, 5)] == numbered(0, 5)
    run.no_faults()


def test_a_slow_mirror_holds_up_publishers_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = MirrorBounds(gate_bytes=20_000, close_bytes=10_000)
    monkeypatch.setattr(member_module, "MirrorBounds", lambda: bounds)
    run = Mirrored()
    run.in_sync(3)
    master = run.master()
    run.brokers[2].freeze()
    publisher = run.brokers[0].connect()
    for _ in range(10):
        publisher.publish(*[b"x" * 500] * 10)
        run.rest(5)
    run.until(lambda: master.lagging.is_shut)
    assert (master.lagging.name, master.slow) == ("mirror on n3", ["n3"])
    assert len(publisher.confirmed) < 100, "confirms wait for it, too"
    drawing = Drawing(run.brokers[0].node.broker.world.clock)
    drawing.add_queue(master)
    assert any(each["receiver"] == "node n3" for each in drawing.links)
    run.until(publisher.all_confirmed)  # for it is dropped
    assert not master.lagging.is_shut and len(master.member.mirror.in_sync.members) == 2
    run.brokers[2].freeze(is_frozen=False)
    run.in_sync(3)
    run.no_faults()


def test_another_node_takes_the_place_of_one_that_stays_away() -> None:
    run = Mirrored({"ha-mode": "exactly", "ha-params": 2}, size=4)
    run.in_sync(2)
    client = run.brokers[0].connect()
    client.publish(*numbered(0, 20))
    run.until(client.all_confirmed)
    [gone] = [each for each in run.brokers[1:] if run.is_mirror(each)]
    gone.crash()
    run.rest(MIRROR_REPLACE_MS / 2)
    assert len(run.member(run.brokers[0]).in_sync) == 1, "it may come back"
    run.in_sync(2)
    [heir] = [each for each in run.running[1:] if run.is_mirror(each)]
    gone.start()
    run.until(lambda: gone.has("q") and not run.has_member(gone))
    run.brokers[0].crash(power=True)
    assert run.master_broker() is heir
    fresh = heir.connect()
    assert [body for body, _ in bodies_left(fresh, 20)] == numbered(0, 20)
    run.no_faults()


def test_a_witness_becomes_a_mirror_where_no_other_node_is_left() -> None:
    run = Mirrored({"ha-mode": "exactly", "ha-params": 2})
    run.in_sync(2)
    [gone] = [each for each in run.brokers[1:] if run.is_mirror(each)]
    gone.crash()
    run.rest(MIRROR_REPLACE_MS)
    run.in_sync(2)
    assert sum(map(run.is_mirror, run.running)) == 2
    gone.start()
    run.until(lambda: len(run.masters()) == 1 and run.is_mirror(gone))
    run.in_sync(2)
    run.no_faults()


@pytest.mark.parametrize("at", [0, 1], ids=["master", "mirror"])
def test_what_has_left_the_queue_is_accounted_for_until_it_has_left_ram(at: int) -> None:
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[0].connect()
    client.publish(*[b"x" * 10_000] * 50)
    run.until(client.all_confirmed)
    member = run.member(run.brokers[at])
    master = run.master()
    run.until(lambda: member.mirror.messages == 50)
    accounted = member.accounted + (master.accounted if at == 0 else 0)
    assert accounted > 500_000
    client.call(2, m.QueuePurge(queue="q"), m.QueuePurgeOk)
    run.until(lambda: member.mirror.messages == 0)
    assert member.accounted > 500_000
    run.until(lambda: member.accounted < 5_000)  # a snapshot is without them
    run.no_faults()


def test_entries_whose_messages_have_left_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node keeps no more of them than it takes for the next snapshot, and those under way."""
    monkeypatch.setattr(member_module, "SNAPSHOT_ENTRIES", 20)
    run = Mirrored()
    run.in_sync(3)
    client = run.brokers[1].connect()
    logs = [run.member(each).raft.member.log for each in run.brokers]
    for _ in range(5):
        for n in range(20):
            client.publish(b"%d" % n)
            run.until(client.all_confirmed)
        client.call(2, m.QueuePurge(queue="q"), m.QueuePurgeOk)
        run.until(lambda: all(len(each.entries) <= 40 for each in logs))
    assert all(each.snapshot.index > 60 for each in logs)
    run.no_faults()
