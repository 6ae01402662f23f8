"""Goal: whatever step of a quorum queue has a fault, nothing that was confirmed is lost, everybody
is answered, memory is given back, and the queue goes on.

Method: a whole node with small files, on which there are reads, snapshots and rewrites; one step
raises once; then the queue is emptied, and so is another one on what a power loss leaves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body
from sluicemq.chain.queue.fault_history import CRASHED
from sluicemq.chain.queue.group.snapshots import Snapshots
from sluicemq.chain.queue.quorum import deliveries as deliveries_module
from sluicemq.chain.queue.quorum import shell as shell_module
from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
from sluicemq.chain.queue.quorum.deliveries import QuorumDeliveries
from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies
from sluicemq.chain.queue.quorum.replicator import FifoReplicator
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.config import KIB, Config, RaftConfig
from sluicemq.limits import RETRY_FULL_MS
from sluicemq.queues.quorum.commands import PurgeQueue
from sluicemq.queues.quorum.fifo import HANDLERS, Fifo
from sluicemq.storage.queue_index import READ_TRIES
from sluicemq.storage.raft.reading import RaftEntriesRead

from .client import PERSISTENT, SMALL_FILES, Broker, Client
from .test_quorum_crash import Mistake
from .test_quorum_queue import declare, get, shell

SMALL: Final = replace(
    Config(),
    storage=replace(SMALL_FILES, journal_file_size_limit=4 * KIB, reserve_bytes=0),
    raft=RaftConfig(segment_max_entries=3),
)
STEPS: Final = (
    (QuorumShell, "publish"),
    (QuorumShell, "settle"),
    (QuorumShell, "end_of"),
    (QuorumShell, "submit"),
    (QuorumShell, "applied"),
    (QuorumShell, "make_real"),
    (QuorumShell, "look_at_state"),
    (QuorumShell, "answer_inspections"),
    (QuorumShell, "plan_time"),
    (QuorumShell, "account"),
    (ChannelEnd, "answered"),
    (ChannelEnd, "settled"),
    (QuorumDeliveries, "serve"),
    (QuorumDeliveries, "dealt"),
    (QuorumDeliveries, "deliver"),
    (QuorumDeliveries, "cut"),
    (QuorumDeliveries, "read"),
    (QuorumDeliveries, "was_read"),
    (QuorumDeliveries, "answer_gets"),
    (EntryBodies, "add"),
    (EntryBodies, "find"),
    (EntryBodies, "release"),
    (EntryBodies, "were_stored"),
    (EntryBodies, "shrink"),
    (EntryBodies, "forget_dead"),
    (EntryBodies, "were_read"),
    (Snapshots, "begin"),
    (Snapshots, "go_on"),
    (Snapshots, "kept"),
    (FifoReplicator, "committed"),
    (FifoReplicator, "propose"),
    (Fifo, "entered"),
    (Fifo, "apply"),
    (Fifo, "serve"),
)


RARE: Final = (
    "begin",
    "forget_dead",
    "kept",
    "read",
    "shrink",
    "was_read",
    "were_read",
    "were_stored",
)


class Customers:
    """A publisher with confirms and a consumer, on a node whose files are small."""

    def __init__(self) -> None:
        self.broker = Broker(SMALL)
        self.publisher = self.broker.connect()
        self.publisher.open(1)
        declare(self.publisher, x_max_in_memory_bytes=0)
        self.publisher.call(1, m.ConfirmSelect())
        self.sent: list[bytes] = []
        self.confirmed: dict[bytes, None] = {}
        self.answered = 0
        self.done: dict[bytes, None] = {}
        """Acknowledged."""

    def publish(self, *bodies: bytes) -> None:
        self.sent += bodies
        self.publisher.publish(1, "q", *bodies)
        self.broker.wait()
        for event in self.publisher.events():
            if isinstance(event, Acks):
                for tag in event.tags:
                    self.confirmed[self.sent[tag - 1]] = None
                    self.answered += 1
            elif isinstance(event, MethodFrame):
                method = event.method
                assert isinstance(method, m.BasicAck | m.BasicNack)
                tags = range(
                    self.answered + 1 if method.multiple else method.delivery_tag,
                    method.delivery_tag + 1,
                )
                self.answered += len(tags)
                if isinstance(method, m.BasicAck):
                    self.confirmed |= dict.fromkeys(self.sent[tag - 1] for tag in tags)

    def live(self) -> None:
        """Publish, consume, acknowledge, get; over and over again."""
        for number in range(8):
            self.publish(*(b"%d %d " % (number, n) + bytes(300) for n in range(3)))
            consumer = self.broker.connect()
            consumer.open(1, 2, 3)
            consumer.send(1, m.BasicQos(prefetch_count=2), m.BasicConsume(queue="q"))
            self.settle(consumer, number)
            self.broker.world.clock.advance(1000)
            self.broker.run()
            consumer.lose()

    def settle(self, consumer: Client, number: int) -> None:
        """Acknowledge the first message, get another one, and ask for the depth."""
        tags = [each for each in consumer.events() if isinstance(each, Deliveries)]
        if tags:
            self.done[content_body(tags[0].contents[0])] = None
            consumer.send(1, m.BasicAck(delivery_tag=tags[0].tags[0]))
        consumer.send(2, m.BasicGet(queue="q"))
        answers = consumer.events()
        assert answers, f"a get in round {number} is not answered"
        for each in answers:
            if isinstance(each, ContentMethod):
                self.done[content_body(each.content)] = None
                consumer.send(2, m.BasicAck(delivery_tag=0, multiple=True))
        consumer.send(3, m.QueueDeclare(queue="q", passive=True))
        assert consumer.events(), f"a question in round {number} is not answered"

    def accounted(self) -> bool:
        """Is all memory given back but what queues have?"""
        broker = self.broker.node.broker
        footprint = sum(queue.machine.depth.footprint for queue in broker.all_queues())
        return broker.accounted_bytes == footprint


def left_in(broker: Broker) -> Counter[bytes]:
    """What can be taken out."""
    client = broker.connect()
    client.open(1)
    found: Counter[bytes] = Counter()
    while (got := get(client, no_ack=True)) is not None:
        found[content_body(got.content)] += 1
    return found


@pytest.mark.parametrize(
    ("kind", "name", "nth"),
    [(kind, name, nth) for kind, name in STEPS for nth in (1, 2, 7) if nth < 7 or name not in RARE],
    ids=str,
)
def test_a_fault_at_any_step(
    kind: type, name: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 4)
    monkeypatch.setattr(deliveries_module, "QUORUM_READ_BYTES", 400)
    customers = Customers()
    broker = customers.broker
    original = getattr(kind, name)
    calls = 0

    def step(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Mistake
        return original(*arguments, **named)

    monkeypatch.setattr(kind, name, step)
    customers.live()
    assert calls >= nth, "that step is never taken"
    customers.publish(b"may have the fault")
    customers.publish(b"last")
    assert customers.answered == len(customers.sent)
    assert b"last" in customers.confirmed
    assert customers.accounted()
    after = Broker(SMALL, files=broker.world.disk.files.crash())
    after.run()
    for found in (left_in(after), left_in(broker)):
        assert not customers.confirmed.keys() - customers.done.keys() - found.keys()
        assert max(found.values()) == 1


def test_a_queue_whose_log_cannot_be_applied_stays_down_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even checkpoints: the journal would grow and grow."""

    def mistaken(*_: Any) -> None:
        raise Mistake

    monkeypatch.setitem(HANDLERS, PurgeQueue, mistaken)
    customers = Customers()
    customers.publish(b"one", b"two")
    broker, client = customers.broker, customers.broker.connect()
    client.open(1, 2)
    client.send(1, m.QueuePurge(queue="q"))
    crash = broker.node.broker.vhosts["/"].queues["q"].crash
    assert crash is not None
    assert crash.state == CRASHED
    client.call(2, m.QueueDeclare(queue="classic", durable=True))
    for _ in range(20):
        client.publish(2, "classic", bytes(2000), raw=PERSISTENT)
        broker.wait()
    files = broker.world.disk.files
    assert len(files.names("journal")) < 4
    client.events()
    client.open(3)
    client.send(3, m.QueueDelete(queue="q"))
    assert [each.method for each in client.events() if isinstance(each, MethodFrame)] == [
        m.QueueDeleteOk(message_count=0)
    ]
    again = Broker(SMALL, files=files.crash())
    again.run()
    assert [*again.node.broker.vhosts["/"].queues] == ["classic"]
    assert not again.node.broker.store.raft.table.groups


def without_reads(broker: Broker) -> None:
    """All that can be done while the disk does not read entries."""
    jobs = broker.world.disk.jobs
    while broker.node.run(1000) or any(not isinstance(job, RaftEntriesRead) for job, *_ in jobs):
        for each in [each for each in jobs if not isinstance(each[0], RaftEntriesRead)]:
            jobs.remove(each)
            jobs.insert(0, each)
            broker.world.disk.finish()


def on_the_disk() -> Customers:
    """With messages whose bodies are on the disk alone."""
    customers = Customers()
    for number in range(20):
        customers.publish(b"%d" % number + bytes(300))
    assert not shell(customers.broker).bodies.has(2)
    return customers


def test_what_the_disk_fails_to_read_is_tried_again_and_no_fault() -> None:
    customers = on_the_disk()
    broker = customers.broker
    queue = shell(broker)
    client = broker.connect()
    client.open(1)
    broker.world.disk.files.fail = lambda action, _: "EIO" if action == "read" else None
    client.send(1, m.BasicGet(queue="q"))
    assert client.events() == []
    broker.world.disk.files.fail = None
    broker.world.clock.advance(RETRY_FULL_MS)
    broker.run()
    [got] = client.events()
    assert isinstance(got, ContentMethod)
    assert shell(broker) is queue


def test_a_disk_that_always_fails_to_read_is_a_fault_in_the_end() -> None:
    customers = on_the_disk()
    broker = customers.broker
    queue = shell(broker)
    client = broker.connect()
    client.open(1)
    broker.world.disk.files.fail = lambda action, path: (
        "EIO" if action == "read" and path.startswith("raft/") else None
    )
    client.send(1, m.BasicGet(queue="q"))
    for _ in range(READ_TRIES):
        assert queue.crash is None
        broker.world.clock.advance(RETRY_FULL_MS)
        broker.run()
    assert queue.crash is not None


def test_what_is_read_of_messages_that_have_left_meanwhile_does_not_stay() -> None:
    customers = on_the_disk()
    broker = customers.broker
    queue = shell(broker)
    client = broker.connect()
    client.open(1, 2)
    client.post_bytes(m.BasicConsume(queue="q", no_ack=True).frame(1))
    without_reads(broker)
    assert queue.deliveries_due.is_reading
    client.post_bytes(m.ChannelClose(reply_code=200).frame(1))
    client.post_bytes(m.QueuePurge(queue="q").frame(2))
    without_reads(broker)
    assert queue.fifo.messages.count == 0
    assert queue.deliveries_due.is_reading
    broker.run()
    assert not queue.deliveries_due.is_reading
    assert queue.bodies.ram_bytes == 0
