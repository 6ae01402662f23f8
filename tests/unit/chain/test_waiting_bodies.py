"""Goal: what waits for a lease, and of which the group has let go, is there when the lease is: dead
letters arrive, and whoever gets a message is answered in any case.

Method: whole brokers in simulated time, whose leases are held when the test says so, and whose
journals are not emptied meanwhile, so that bodies are in RAM or nowhere.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_body
from sluicemq.chain.queue.quorum import member_shell
from sluicemq.chain.queue.quorum import shell as shell_module
from sluicemq.chain.queue.quorum.lease import DeliveryLease
from support.linked_brokers import Cluster, LinkedClient


class Leases:
    """Of all members: `are_held`."""

    are_held = True


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> Leases:
    leases = Leases()
    monkeypatch.setattr(DeliveryLease, "is_held", lambda _: leases.are_held)
    return leases


def with_a_get_that_waits(leases: Leases, *, no_ack: bool) -> tuple[Cluster, LinkedClient]:
    """A cluster, and a client of a node that does not lead, which waits for the only message, that
    the group has let go of if it was got without an acknowledgement."""
    run = Cluster()
    run.declare()
    leader = run.leader()
    publisher = leader.connect()
    publisher.publish(b"got")
    run.until(publisher.all_confirmed)
    getter = next(each for each in run.brokers if each is not leader).connect()
    leases.are_held = False
    getter.send(2, m.BasicGet(queue="q", no_ack=no_ack))
    shell = getter.broker.shell()
    run.until(lambda: shell.deliveries_due.got)
    run.until(lambda: not (no_ack and shell.fifo.messages.out))
    run.rest(100)
    getter.poll()
    assert not getter.got
    return run, getter


def test_what_was_got_without_an_acknowledgement_comes_with_the_lease(leases: Leases) -> None:
    run, getter = with_a_get_that_waits(leases, no_ack=True)
    leases.are_held = True
    run.until(lambda: getter.poll() or getter.got)
    assert content_body(getter.got[0].content) == b"got"
    run.until(lambda: not getter.broker.shell().bodies.ram_bytes)
    run.no_faults()


def test_dead_letters_that_count_as_gone_arrive_when_there_is_a_lease(leases: Leases) -> None:
    run = Cluster()
    run.declare("grave")
    run.declare(x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    leader = run.leader()
    leases.are_held = False
    publisher = leader.connect()
    for n in range(5):
        publisher.publish(b"%d" % n)
        run.until(publisher.all_confirmed)
    run.rest(100)
    assert publisher.depth("grave") == 0
    leases.are_held = True
    run.until(lambda: publisher.depth("grave") == 4)
    run.no_faults()


def test_who_waits_for_a_message_hears_that_the_node_was_taken_for_gone(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_shell, "RAFT_LOST_MS", 1000)
    run, getter = with_a_get_that_waits(leases, no_ack=False)
    run.cut_off(getter.broker)
    address = next(iter(getter.broker.shell().ends_at))
    other = run.leader().shell()
    run.until(lambda: other.fifo.enqueuers.has_ended(address))
    run.network.cut({})
    close = getter.wait_for(m.ChannelClose)
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 404
    assert other.fifo.messages.count == 1
    run.no_faults()


def test_who_waits_for_a_message_hears_that_a_snapshot_has_come_without_it(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 4)
    run, getter = with_a_get_that_waits(leases, no_ack=True)
    shell = getter.broker.shell()
    run.cut_off(getter.broker)
    for end in [*getter.broker.net.ends.values()]:
        run.network.tear(end)
    other = run.leader()
    publisher = other.connect()
    applied = shell.raft.applied
    while other.shell().raft.member.log.snapshot.index <= applied:
        publisher.publish(b"more")
        run.until(publisher.all_confirmed)
        run.rest(50)
    run.network.cut({})
    run.until(lambda: shell.raft.member.log.snapshot.index > applied)
    leases.are_held = True
    close = getter.wait_for(m.ChannelClose)
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 404
    run.no_faults()


def test_who_waits_for_a_message_hears_that_the_queue_is_deleted(leases: Leases) -> None:
    run, getter = with_a_get_that_waits(leases, no_ack=False)
    run.leader().connect().call(1, m.QueueDelete(queue="q"), m.QueueDeleteOk)
    close = getter.wait_for(m.ChannelClose)
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 404
    run.no_faults()
