"""Goal: the log of a quorum queue takes little more on the disk than what is still in the queue,
and that is delivered as it was. Method: a whole node, whose snapshots and files are small.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_body
from sluicemq.chain.queue.group import snapshots as snapshots_module
from sluicemq.chain.queue.quorum import shell as shell_module
from sluicemq.chain.queue.quorum.shell import SETTLES_WAIT_MS
from sluicemq.config import Config
from sluicemq.limits import SEAL_AFTER_MS
from sluicemq.storage.fsck import Check
from sluicemq.storage.raft.segment_file import RaftFilesGone

from .client import PERSISTENT, Broker, Client
from .test_quorum_queue import deliveries, get, ready, shell

BATCHES = 60
EACH = 10
KEPT = 7
"""Of each batch the message at this place is never acknowledged."""
BODY_BYTES = 300
SMALL = replace(Config(), storage=Config.tiny().storage)


def body(batch: int, place: int) -> bytes:
    return (b"%3d/%3d" % (batch, place)).ljust(BODY_BYTES, b".")


def wait(broker: Broker) -> None:
    """Until what is put off is done."""
    broker.world.clock.advance(SETTLES_WAIT_MS)
    broker.run()
    broker.wait()


def publish_and_acknowledge(broker: Broker, client: Client) -> None:
    """All but one message of each batch is acknowledged."""
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    for batch in range(BATCHES):
        client.publish(1, "q", *(body(batch, place) for place in range(EACH)), raw=PERSISTENT)
        tags = {found: tag for tag, found, _ in deliveries(client)}
        for place in range(EACH):
            if place != KEPT:
                client.send(2, m.BasicAck(delivery_tag=tags[body(batch, place)]))
        wait(broker)


def after_crash(broker: Broker) -> tuple[Broker, Client]:
    """The broker's next life, and a client of it with two channels; the files are sound."""
    files = broker.world.disk.files.crash()
    assert Check(files).run().findings == []
    after = Broker(SMALL, files)
    after.run()
    client = after.connect()
    client.open(1, 2)
    return after, client


def only_content_after_crash(broker: Broker) -> bytes:
    """Content of the one message, `last`, that is in the queue after a crash."""
    _, client = after_crash(broker)
    event = get(client)
    assert event is not None
    assert content_body(event.content) == b"last"
    assert get(client) is None
    return event.content


def test_one_message_of_each_batch_is_all_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 16)
    broker, client = ready(config=SMALL)
    publish_and_acknowledge(broker, client)
    group = broker.node.broker.store.raft.table.groups
    [log] = group.values()
    below = [segment for segment in log.segments if segment.last <= log.snapshot.index]
    assert below
    needed = BATCHES * (BODY_BYTES + 200)
    assert sum(segment.length for segment in below) < needed < BATCHES * EACH * BODY_BYTES / 5
    after, other = after_crash(broker)
    other.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    found = [each for _, each, _ in deliveries(other)]
    wait(after)
    found += [each for _, each, _ in deliveries(other)]
    assert sorted(found) == sorted(body(batch, KEPT) for batch in range(BATCHES))


def test_bodies_of_messages_that_have_gone_are_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither in memory nor in segments, though no snapshot stands for their entries. What the
    state needs of these is there: the next life has the rest, and the count of what came back."""
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 1 << 30)
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_BYTES", 1 << 40)
    monkeypatch.setattr(snapshots_module, "SPARED_MIN", 1 << 30)
    broker, client = ready(config=SMALL)
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    for batch in range(BATCHES):
        client.publish(1, "q", *(body(batch, place) for place in range(EACH)), raw=PERSISTENT)
        found = deliveries(client)
        client.send(2, m.BasicAck(delivery_tag=found[-1][0], multiple=True))
        wait(broker)
    client.publish(1, "q", b"last", raw=PERSISTENT)
    [(tag, _, _)] = deliveries(client)
    client.send(2, m.BasicNack(delivery_tag=tag, requeue=True))
    wait(broker)
    [log] = broker.node.broker.store.raft.table.groups.values()
    assert log.top > BATCHES
    assert log.snapshot.index == 0
    assert sum(segment.length for segment in log.segments) < BATCHES * EACH * BODY_BYTES / 5
    entries = shell(broker).replicator.raft.member.log.entries
    assert sum(entry.size_bytes for entry in entries) < BATCHES * EACH * BODY_BYTES / 5
    assert b"x-delivery-count" in only_content_after_crash(broker)


def test_entries_whose_messages_have_gone_are_written_to_no_segment() -> None:
    """A snapshot takes their place before a checkpoint has to write them."""
    broker, client = ready(config=SMALL)
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    for batch in range(BATCHES):
        client.publish(1, "q", *(body(batch, place) for place in range(EACH)), raw=PERSISTENT)
        found = deliveries(client)
        client.send(2, m.BasicAck(delivery_tag=found[-1][0], multiple=True))
        wait(broker)
    store = broker.node.broker.store
    [log] = store.raft.table.groups.values()
    assert store.checkpoints.count > 2
    assert not log.segments
    assert log.snapshot.index > BATCHES
    client.publish(1, "q", b"last", raw=PERSISTENT)
    wait(broker)
    only_content_after_crash(broker)


def test_files_that_were_rewritten_go_when_the_broker_falls_idle() -> None:
    """Though the journal does not rotate then, and a checkpoint is made when it does."""
    broker, client = ready()
    raft = broker.node.broker.store.raft
    files = broker.world.disk.files
    files.make_directory("raft/1")
    files.write("raft/1/old.log", 0, b"old")
    raft.superseded.append((3, RaftFilesGone(1, 3, ["raft/1/old.log"], whole=False)))
    client.publish(1, "q", b"one", raw=PERSISTENT)
    for _ in range(3):
        broker.world.clock.advance(SEAL_AFTER_MS)
        broker.run()
    assert not raft.superseded
    assert files.size("raft/1/old.log") < 0
