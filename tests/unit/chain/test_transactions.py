"""Goal: nothing of a transaction is seen before its commit, all of it after, and what it holds is
given back however it ends.
Method: a whole node without sockets; random transactions beside a model of one queue; the disk and
single confirms are held back by hand.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.amqp.method import Method
from sluicemq.chain.channel import transactions
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.channel.transactions import Transaction
from sluicemq.chain.queue.queue import CreditLink
from sluicemq.errors import DiskFailed
from sluicemq.limits import RUN_MESSAGES_MAX
from sluicemq.manage.lists import CHANNEL_COLUMNS
from support.thorough import examples

from .client import NO_PROPERTIES, PERSISTENT, Broker, Client


def in_transaction(durable: bool = False) -> tuple[Broker, Client]:
    """Channel 1 in a transaction, channel 2 to look, and the queue "q"."""
    broker = Broker()
    client = broker.connect()
    client.open(1, 2)
    client.call(1, m.QueueDeclare(queue="q", durable=durable))
    assert client.call(1, m.TxSelect()) == [m.TxSelectOk()]
    return broker, client


def channel_of(client: Client) -> Channel:
    return client.reader.channels[1]


def transaction_of(client: Client) -> Transaction:
    transaction = channel_of(client).publishing.transaction
    assert transaction is not None
    return transaction


def depth(broker: Broker) -> tuple[int, int]:
    """Ready and unacknowledged."""
    found = broker.node.broker.vhosts["/"].queues["q"].machine.depth
    return found.ready, found.unacked


class Model:
    """A queue of numbers in order, and one channel in transactional mode."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.out: dict[int, int] = {}
        """Tag to number."""
        self.tags = 0
        self.published = 0
        self.held: list[int] = []
        self.settled: list[tuple[dict[int, int], bool]] = []

    def publish(self) -> int:
        number = self.published
        self.published += 1
        self.held.append(number)
        return number

    def get(self) -> int:
        """The number that is next; it gets the next tag."""
        number = self.ready.pop(0)
        self.tags += 1
        self.out[self.tags] = number
        return number

    def settle(self, tag: int, multiple: bool, requeue: bool) -> None:
        tags = [each for each in self.out if each == tag or (multiple and each < tag)]
        self.settled.append(({each: self.out.pop(each) for each in tags}, requeue))

    def commit(self) -> None:
        self.ready += self.held
        for numbers, requeue in self.settled:
            if requeue:
                self.ready = sorted([*self.ready, *numbers.values()])
        self.held, self.settled = [], []

    def rollback(self) -> None:
        for numbers, _ in self.settled:
            self.out |= numbers
        self.out = dict(sorted(self.out.items()))
        self.held, self.settled = [], []

    def recover(self) -> None:
        self.ready = sorted([*self.ready, *self.out.values()])
        self.out = {}


def waiting_of(model: Model) -> int:
    return sum(len(numbers) for numbers, _ in model.settled)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "publish", "get", "get", "settle", "settle", "commit"])
        | st.sampled_from(["rollback", "recover"]),
        st.integers(0, 20),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)


@examples(50)
@given(STEPS)
def test_transactions_do_what_the_model_does(
    steps: list[tuple[str, int, bool, bool]],
) -> None:
    broker, client = in_transaction()
    model = Model()
    for what, pick, multiple, requeue in steps:
        if what == "publish":
            client.publish(1, "q", b"%d" % model.publish())
        elif what == "get" and model.ready:
            client.send(1, m.BasicGet(queue="q"))
            (event,) = client.events()
            assert isinstance(event, ContentMethod)
            assert int(content_body(event.content)) == model.get()
        elif what == "settle" and model.out:
            tag = sorted(model.out)[pick % len(model.out)]
            model.settle(tag, multiple, requeue)
            client.send(1, m.BasicNack(delivery_tag=tag, multiple=multiple, requeue=requeue))
        elif what == "commit":
            model.commit()
            assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]
        elif what == "rollback":
            model.rollback()
            assert client.call(1, m.TxRollback()) == [m.TxRollbackOk()]
        elif what == "recover":
            model.recover()
            assert client.call(1, m.BasicRecover(requeue=True)) == [m.BasicRecoverOk()]
        waiting = waiting_of(model)
        assert client.events() == []
        assert depth(broker) == (len(model.ready), len(model.out) + waiting)
        assert channel_of(client).consuming.unacked.count == len(model.out)
        assert transaction_of(client).messages == len(model.held)
        assert transaction_of(client).acks == waiting
    client.lose()
    assert depth(broker) == (len(model.ready) + len(model.out) + waiting_of(model), 0)
    footprint = broker.node.broker.vhosts["/"].queues["q"].machine.depth.footprint
    assert broker.node.broker.accounted_bytes == footprint


def half_way(broker: Broker) -> None:
    """Run, but leave the disk's jobs undone."""
    while broker.node.run(1000):
        pass


def committing(persistent: bool = True) -> tuple[Broker, Client]:
    """As far as a commit whose sync has not come back."""
    broker, client = in_transaction(durable=True)
    client.publish(1, "q", b"x", raw=PERSISTENT if persistent else NO_PROPERTIES)
    client.post_bytes(m.TxCommit().frame(1))
    half_way(broker)
    return broker, client


def test_the_answer_to_a_commit_waits_for_the_sync() -> None:
    broker, client = committing()
    assert client.events() == []
    assert broker.world.disk.jobs
    broker.run()
    assert client.call(1) == [m.TxCommitOk()]
    assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]


def test_what_needs_no_sync_does_not_wait() -> None:
    _, client = committing(persistent=False)
    assert client.call(1) == [m.TxCommitOk()]


def test_two_queues_one_answer() -> None:
    broker, client = in_transaction(durable=True)
    client.call(2, m.QueueDeclare(queue="p"))
    for name in ("p", "q"):
        client.call(2, m.QueueBind(queue=name, exchange="amq.fanout"))
    head = m.BasicPublish(exchange="amq.fanout", routing_key="").frame(1)
    client.send_bytes(head + content_frames(1, PERSISTENT, b"x", 131072))
    client.post_bytes(m.TxCommit().frame(1))
    half_way(broker)
    assert client.events() == []
    broker.run()
    assert client.call(1) == [m.TxCommitOk()]


@pytest.mark.parametrize(
    "method", [m.TxCommit(), m.BasicAck(delivery_tag=1), m.BasicGet(queue="q"), m.ChannelFlow()]
)
def test_who_does_not_wait_for_the_answer_is_refused(method: Method) -> None:
    broker, client = committing()
    client.post_bytes(method.frame(1))
    half_way(broker)
    (close,) = client.call(1)
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_text.startswith("CHANNEL_ERROR - unexpected command while processing")
    assert (close.failed_class_id, close.failed_method_id) == (method.class_id, method.method_id)
    broker.run()
    assert depth(broker) == (1, 0)


def test_a_channel_that_commits_can_be_closed() -> None:
    """Even if the disk never answers."""
    broker, client = committing()
    client.post_bytes(m.ChannelClose(reply_code=200).frame(1))
    half_way(broker)
    assert client.call(1) == [m.ChannelCloseOk()]
    broker.run()
    assert client.events() == []


def test_a_commit_the_disk_fails_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, client = in_transaction(durable=True)

    def fail(*_: object) -> None:
        raise DiskFailed("sync", "journal", "EIO")

    client.publish(1, "q", b"x", raw=PERSISTENT)
    monkeypatch.setattr(type(broker.world.disk.files), "sync", fail)
    said = client.call(1, m.TxCommit())
    assert m.TxCommitOk() not in said
    client.lose()
    assert broker.node.broker.vhosts["/"].queues["q"].machine.depth.ready == 1


def test_a_rejected_message_fails_the_commit() -> None:
    """As soon as the others are answered for."""
    broker, client = in_transaction(durable=True)
    for size in (1, 5000):
        client.publish(1, "q", bytes(size), raw=PERSISTENT)
    client.post_bytes(m.TxCommit().frame(1))
    half_way(broker)
    channel = channel_of(client)
    channel.publishing.unconfirmed.reject(1, 1)
    channel.schedule()
    half_way(broker)
    assert client.events() == []
    broker.run()
    (close,) = client.call(1)
    assert isinstance(close, m.ChannelClose)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - partial tx completion",
    )
    assert (close.failed_class_id, close.failed_method_id) == (90, 20)


@pytest.mark.parametrize("end", ["rollback", "close", "lose", "refused"])
def test_what_is_held_counts_as_memory_until_the_end(end: str) -> None:
    broker, client = in_transaction()
    assert broker.node.broker.accounted_bytes == 0
    client.publish(1, "q", *[bytes(1000)] * 5)
    assert broker.node.broker.accounted_bytes > 5000
    if end == "rollback":
        client.call(1, m.TxRollback())
    elif end == "close":
        client.call(1, m.ChannelClose(reply_code=200))
    elif end == "lose":
        client.lose()
    else:
        client.call(1, m.BasicAck(delivery_tag=9))
    assert broker.node.broker.accounted_bytes == 0


def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a single message, however large."""
    monkeypatch.setattr(transactions, "TRANSACTION_BYTES_MAX", 5000)
    broker, client = in_transaction()
    client.publish(1, "q", bytes(10_000))
    assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]
    client.publish(1, "q", *[bytes(1000)] * 4)
    assert client.events() == []
    client.publish(1, "q", bytes(1000))
    (close,) = client.call(1)
    assert isinstance(close, m.ChannelClose)
    assert close.reply_text == (
        "PRECONDITION_FAILED - a transaction may hold 5000 bytes of messages"
    )
    assert depth(broker) == (1, 0)


def test_credit_is_given_back_after_a_long_commit() -> None:
    """Much more than the credit of the link goes over it at once."""
    broker, client = in_transaction()
    client.publish(1, "q", *[b"%d" % n for n in range(3000)])
    assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]
    assert depth(broker) == (3000, 0)
    link = channel_of(client).publishing.links[broker.node.broker.vhosts["/"].queues["q"]]
    assert isinstance(link, CreditLink)
    outflow, inflow = link.outflow, link.inflow
    assert outflow.credit + inflow.owed + inflow.withheld + inflow.deferred == outflow.initial
    assert not channel_of(client).keeper.gates_shut


def test_publishes_of_one_kind_are_joined() -> None:
    """So that what is committed reaches the queue in a few batches; in order nevertheless."""
    broker, client = in_transaction(durable=True)
    sizes = [10] * 250 + [11] * 30 + [5000] * 10 + [10] * 10
    for number, size in enumerate(sizes):
        client.publish(1, "q", (b"%d" % number).ljust(size), raw=PERSISTENT)
    client.publish(1, "q", b"%d" % len(sizes))
    pending = transaction_of(client).pending_publishes
    assert [len(each.contents) for each in pending] == [RUN_MESSAGES_MAX, 80, 10, 10, 1]
    assert [each.same_size for each in pending] == [True, False, True, True, True]
    assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]
    assert broker.node.broker.store.commits.groups == 2  # the declaration, and all of this
    for number in range(len(sizes) + 1):
        client.send(1, m.BasicGet(queue="q", no_ack=True))
        (event,) = client.events()
        assert isinstance(event, ContentMethod)
        assert int(content_body(event.content)) == number


def test_the_mode_is_shown() -> None:
    _, client = in_transaction()
    client.publish(1, "q", b"1", b"2")
    client.call(1, m.TxCommit())
    client.send(1, m.BasicGet(queue="q"), m.BasicAck(delivery_tag=1))
    client.publish(1, "q", b"3", b"4")
    client.events()
    names = ("transactional", "confirm", "messages_uncommitted", "acks_uncommitted")
    shown = [CHANNEL_COLUMNS[name](channel_of(client)) for name in names]
    assert shown == [True, False, 2, 1]
    other = [CHANNEL_COLUMNS[name](client.reader.channels[2]) for name in names]
    assert other == [False, False, 0, 0]


def test_answers_of_questions_in_a_transaction_come_as_ever() -> None:
    _, client = in_transaction()
    assert client.call(1, m.QueuePurge(queue="q"), m.TxCommit()) == [
        m.QueuePurgeOk(message_count=0),
        m.TxCommitOk(),
    ]


def found_after_a_crash(broker: Broker, *queues: str) -> list[list[bytes]]:
    """The bodies in each queue of a broker that begins on what is durable now."""
    client = Broker(files=broker.world.disk.files.crash()).connect()
    client.open(1)
    found: list[list[bytes]] = []
    for queue in queues:
        found.append([])
        while True:
            client.send(1, m.BasicGet(queue=queue, no_ack=True))
            (event,) = client.events()
            if not isinstance(event, ContentMethod):
                break
            found[-1].append(content_body(event.content))
    return found


@pytest.mark.parametrize("busy", [(), ("source",), ("q",), ("source", "q")])
@pytest.mark.parametrize("store_is_busy", [False, True])
@pytest.mark.parametrize("count", [1, 100])
def test_a_message_that_is_moved_is_never_lost(
    busy: tuple[str, ...], store_is_busy: bool, count: int
) -> None:
    """From "source" to "q", whatever stands ahead of the receiver, pulling the plug after each
    job of the disk."""
    broker, client = in_transaction(durable=True)
    node = broker.node.broker
    broker.node.scheduler.share_work = 1  # the channel does not come within the reader's turn
    client.call(2, m.QueueDeclare(queue="source", durable=True), m.ConfirmSelect())
    client.publish(2, "source", b"moved", raw=PERSISTENT)
    client.send(1, m.BasicGet(queue="source"))
    for number in reversed(range(count)):
        body = b"moved" if not number else bytes(5000 * (number % 2))  # none joined to the next
        client.publish(1, "q", body, raw=PERSISTENT)
    client.send(1, m.BasicAck(delivery_tag=1))
    client.events()
    client.post_bytes(m.TxCommit().frame(1))
    broker.node.run(1)  # the reader
    assert channel_of(client).scheduled
    for name in busy:
        broker.node.broker.vhosts["/"].queues[name].schedule()
    if store_is_busy:
        node.store.commits.urgent = True
        node.store.schedule()
    while broker.node.run(1) or broker.world.disk.jobs:
        if broker.world.disk.jobs and not broker.node.scheduler.ready:
            broker.world.disk.finish()
            source, target = found_after_a_crash(broker, "source", "q")
            assert source or b"moved" in target
    assert client.call(1) == [m.TxCommitOk()]
    broker.wait()
    source, target = found_after_a_crash(broker, "source", "q")
    assert source == []
    assert len(target) == count


def test_what_is_moved_within_its_queue_before_its_sync_is_not_confirmed_before_the_move() -> None:
    """Or a crash would leave neither what was confirmed nor what was to take its place."""
    broker, client = in_transaction(durable=True)
    client.call(2, m.ConfirmSelect())
    head = m.BasicPublish(exchange="", routing_key="q")
    publish, move = (
        head.frame(number) + content_frames(number, PERSISTENT, b"x", 131072) for number in (2, 1)
    )
    get = m.BasicGet(queue="q").frame(1)
    commit = m.BasicAck(delivery_tag=2).frame(1) + m.TxCommit().frame(1)
    for data in (publish, publish, get, get, move + commit):
        client.post_bytes(data)
        half_way(broker)
    confirmed: list[int] = []
    is_over = False
    while not is_over:
        acks = [event for event in client.events() if isinstance(event, Acks)]
        confirmed += [tag for event in acks for tag in event.tags]
        [found] = found_after_a_crash(broker, "q")
        assert len(found) >= len(confirmed)
        is_over = not broker.world.disk.jobs
        if not is_over:
            broker.world.disk.finish()
            half_way(broker)
    assert confirmed == [1, 2]
    broker.wait()
    assert found_after_a_crash(broker, "q") == [[b"x"] * 2]
