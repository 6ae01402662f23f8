"""Goal: a quorum queue with members on three nodes loses nothing that was confirmed, doubles
nothing, and goes on with clients on any node when its leader changes.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_body
from sluicemq.amqp.method import Method
from sluicemq.chain.queue.quorum import member_shell
from sluicemq.config import Config, RaftConfig
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import DiskJob
from sluicemq.queues.quorum.commands import Enqueue
from sluicemq.storage.raft.reading import RaftEntriesRead
from support.linked_brokers import Cluster, LinkedClient


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, end)]


def test_what_is_published_at_any_node_is_delivered_at_any_other() -> None:
    run = Cluster()
    run.declare()
    clients = [broker.connect() for broker in run.brokers]
    wanted: list[bytes] = []
    for client in clients:
        bodies = [b"%d of %d" % (n, client.broker.number) for n in range(20)]
        client.publish(*bodies)
        run.until(client.all_confirmed)
        wanted += bodies
    assert [client.depth() for client in clients] == [60, 60, 60]
    clients[2].consume()
    run.until(lambda: len(clients[2].bodies) == 60)
    assert clients[2].bodies == wanted
    clients[2].ack(60, multiple=True)
    run.until(lambda: clients[0].depth() == 0)
    run.until(
        lambda: all(
            b.shell().fifo.digest() == run.brokers[0].shell().fifo.digest() for b in run.brokers
        )
    )
    run.no_faults()


def test_what_comes_while_an_entry_is_being_agreed_on_goes_in_one_entry() -> None:
    run = Cluster()
    run.declare()
    leader = run.leader().shell()
    clients = [broker.connect() for broker in run.brokers]
    for client in clients:
        client.publish(b"first")
        run.until(client.all_confirmed)
    began = leader.raft.member.log.last_index
    for _ in range(20):
        for client in clients:
            client.publish(*numbered(0, 5))
    run.until(lambda: all(client.all_confirmed() for client in clients))
    entries = leader.raft.member.log.last_index - began
    assert 0 < entries < 30, "each of the 60 rows that may come is an entry of its own"
    assert clients[0].depth() == 303
    run.no_faults()


def test_a_node_where_nobody_waits_is_sent_several_entries_at_once() -> None:
    run = Cluster()
    run.declare()
    leader = run.leader()
    publisher = leader.connect()
    shell = leader.shell()
    leading = shell.raft.leading
    assert leading is not None
    sent = 0
    while not leading.late:
        sent += 1
        publisher.publish(b"once more")
        run.until(publisher.all_confirmed)
        run.rest(50)
    assert [*shell.listening] == [leader.number]
    [late] = [each for each in run.brokers if each.shell().raft.member.name in leading.late]
    written = late.shell().raft.member.number
    for n in range(40):
        publisher.publish(b"%d" % n)
        run.until(publisher.all_confirmed)
    assert late.shell().raft.member.number - written < 20, "it writes each of 40 entries"

    consumer = late.connect()
    consumer.consume()
    run.until(lambda: len(consumer.bodies) == sent + 40)
    assert late.number in shell.listening
    publisher.publish(b"40")
    run.until(lambda: len(consumer.bodies) == sent + 41, limit_ms=60)
    run.no_faults()


def test_clients_at_other_nodes_go_on_when_the_leader_dies() -> None:
    run = Cluster()
    run.declare()
    leader = run.leader()
    others = [each for each in run.brokers if each is not leader]
    publisher, consumer = others[0].connect(), others[1].connect()
    consumer.consume()
    for n in range(10):
        publisher.publish(*numbered(n * 10, n * 10 + 10))
        run.rest(2)
        if n == 4:
            leader.crash()
    run.until(publisher.all_confirmed)
    run.until(lambda: len(consumer.bodies) == 100)
    assert consumer.bodies == numbered(0, 100)
    assert not publisher.nacked
    assert not any(redelivered for _, _, redelivered in consumer.delivered)
    leader.start()
    consumer.ack(100, multiple=True)
    run.until(lambda: consumer.depth() == 0)
    run.until(lambda: leader.shell().fifo.digest() == others[0].shell().fifo.digest())
    run.no_faults()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_got_is_settled_once_though_all_that_is_asked_comes_twice(seed: int) -> None:
    run = Cluster(seed=seed)
    run.declare()
    publisher = run.leader().connect()
    publisher.publish(*numbered(0, 20))
    run.until(publisher.all_confirmed)
    getter = run.brokers[run.leader().number % 3].connect()
    shell, sent = getter.broker.shell(), 0

    def has_got(count: int) -> bool:
        """Hear of the leader again, which is to be sent all rows again that are under way."""
        nonlocal sent
        asking = shell.asking
        if asking.rows and asking.sent > sent:
            sent = asking.sent
            shell.post(shell.leader)
        getter.poll()
        return len(getter.got) == count

    for n in range(20):
        getter.send(2, m.BasicGet(queue="q"))
        run.until(lambda count=n + 1: has_got(count))
        getter.ack(n + 1)
    assert {content_body(each.content) for each in getter.got} == {*numbered(0, 20)}
    run.until(lambda: not (shell.fifo.messages.count or shell.fifo.messages.out))
    run.no_faults()


def test_a_channel_that_was_taken_for_gone_keeps_nothing_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(member_shell, "RAFT_LOST_MS", 1000)
    run = Cluster()
    run.declare()
    leader = run.leader()
    alone, other = (each for each in run.brokers if each is not leader)
    publisher = other.connect()
    publisher.publish(*numbered(0, 2))
    run.until(publisher.all_confirmed)
    getter = alone.connect()
    getter.send(2, m.BasicGet(queue="q"))
    run.until(lambda: getter.poll() or getter.got)
    address = next(iter(alone.shell().ends_at))
    ways = [(alone.host, each.host) for each in (leader, other)]
    run.network.cut(dict.fromkeys([*ways, *((there, here) for here, there in ways)]))
    getter.send(2, m.BasicGet(queue="q"))
    run.until(lambda: other.shell().fifo.enqueuers.has_ended(address))
    run.network.cut({})
    run.until(lambda: address not in alone.shell().ends_at)
    run.until(lambda: not other.shell().asking.rows and not alone.shell().asking.rows)
    messages = other.shell().fifo.messages
    assert (messages.count, messages.out) == (2, 0)
    run.no_faults()


def test_nobody_says_to_have_heard_what_becomes_of_what_is_sent() -> None:
    run = Cluster()
    run.declare()
    broker = next(each for each in run.brokers if each is not run.leader())
    publisher, asking = broker.connect(), broker.shell().asking
    run.until(lambda: asking.done and not asking.rows)
    for first_seq in (1, 3):
        publisher.publish(*numbered(0, 2))
        run.until(lambda: asking.rows)
        sent = asking.rows[-1].commands[-1]
        assert isinstance(sent, Enqueue)
        assert (sent.first_seq, sent.heard_seq) == (first_seq, first_seq)
        run.until(publisher.all_confirmed)


def test_what_a_deleted_queue_has_not_taken_is_not_accounted_for() -> None:
    run = Cluster()
    run.declare()
    leader = run.leader()
    other = next(broker for broker in run.brokers if broker is not leader)
    client = other.connect()
    client.publish(b"first")
    run.until(client.all_confirmed)
    run.network.cut({(other.host, leader.host): None})
    client.publish(*numbered(0, 20))
    asking, leading = other.shell().asking, leader.shell()
    run.until(lambda: asking.size_bytes)
    leader.connect().send(1, m.QueueDelete(queue="q"))
    run.until(lambda: leading.machine.deleted)
    run.network.cut({})
    run.until(client.all_confirmed)
    run.until(lambda: not any(broker.has("q") for broker in run.brokers))
    run.until(lambda: not any(broker.node.broker.accounted_bytes for broker in run.brokers))
    run.no_faults()


def test_what_was_read_for_a_laggard_is_dropped_when_the_queue_is_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raft = RaftConfig(segment_max_entries=3)
    run = Cluster(config=replace(Config(), storage=Config.tiny().storage, raft=raft))
    run.declare(x_max_in_memory_length=0)
    leader = run.leader()
    laggard = next(broker for broker in run.brokers if broker is not leader)
    client = leader.connect()
    laggard.crash()
    for body in numbered(0, 40):
        client.publish(body + bytes(1000))
        run.until(client.all_confirmed)
    submit = leader.disk.submit
    reads: list[tuple[DiskJob, Actor]] = []

    def submit_others(job: DiskJob, actor: Actor, strand: int) -> None:
        if isinstance(job, RaftEntriesRead):
            job.run(leader.files)
            reads.append((job, actor))
        else:
            submit(job, actor, strand)

    monkeypatch.setattr(leader.disk, "submit", submit_others)
    laggard.start()
    run.until(lambda: reads)
    client.call(1, m.QueueDelete(queue="q"), m.QueueDeleteOk)
    for job, actor in reads:
        actor.post(job)
    run.until(lambda: not any(broker.has("q") for broker in run.running))
    run.rest(50)
    run.no_faults()


def test_who_cancels_at_a_node_that_missed_the_deletion_is_answered() -> None:
    run = Cluster()
    run.declare()
    client, shell = run.brokers[2].connect(), run.brokers[2].shell()
    client.consume()
    shell.leave = lambda _: None  # type: ignore[method-assign]
    shell.undeclared()
    run.rest(20)
    assert shell.machine.deleted
    client.call(2, m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    run.no_faults()


def test_a_leader_takes_no_snapshot_to_spare_writes_that_a_member_would_be_sent() -> None:
    run = Cluster()
    run.declare()
    leader = run.leader()
    client = leader.connect()
    client.consume()
    for start in range(8):
        client.publish(*numbered(start, start + 1))
        run.until(lambda start=start: len(client.bodies) > start)  # type: ignore[misc]
        client.ack(start + 1)
    shell = leader.shell()
    run.until(lambda: shell.fifo.released >= 8 and shell.raft.has_sent(shell.fifo.index))
    assert shell.snapshots.spares_writes
    leading = shell.raft.leading
    assert leading is not None
    for progress in leading.progress.values():
        progress.next -= 1
    assert not shell.snapshots.spares_writes
    for progress in leading.progress.values():
        progress.next += 1
    others = [each for each in run.brokers if each is not leader]
    others[0].crash()
    run.until(lambda: bool(shell.raft.member.lost))
    assert not shell.snapshots.spares_writes
    run.no_faults()


def put_in_while(run: Cluster, client: LinkedClient, request: Method, answer: type[Method]) -> None:
    """The client gets its answer, though a leader's snapshot replaces the state of its node, which
    has not seen the request, while this is on its way."""
    shell = client.broker.shell()
    client.send(2, request)
    run.until(lambda: any(end.question for end in shell.ends.values()))
    shell.put_in()
    shell.deliveries_due.is_on_its_way = False  # as when the snapshot is durable
    client.wait_for(answer)


def test_what_is_on_its_way_at_a_leaders_snapshot_is_asked_once() -> None:
    run = Cluster()
    run.declare()
    client = next(each for each in run.brokers if each is not run.leader()).connect()
    client.consume()
    put_in_while(run, client, m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.consume()
    run.rest(200)
    client.publish(b"one")
    run.until(lambda: client.bodies == [b"one"])
    client.ack(1)
    client.call(2, m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    put_in_while(run, client, m.QueuePurge(queue="q"), m.QueuePurgeOk)
    client.publish(b"two", b"three")
    run.until(client.all_confirmed)
    run.rest(200)
    assert client.depth() == 2
    run.no_faults()
