"""Goal: a queue that deduplicates answers for each message of a batch once, whoever has published
it, and confirms nothing that it has not got, or that is not safe.

Method: a whole node, over files from which the plug can be pulled.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue.republish_messages import Republish
from sluicemq.chain.republish.republisher import Republisher

from .client import PERSISTENT, Broker, Client
from .test_poison_messages import Bench
from .test_queue_timers import declare, pass_time, to
from .test_transactions import found_after_a_crash

DEDUPLICATES = {"x-message-deduplication": True}
FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


def batch(queue: str, names: list[str], persistent: bool = True, exchange: str = "") -> bytes:
    """One message a name, which is its body, too. They differ in nothing else."""
    head = m.BasicPublish(exchange=exchange, routing_key=queue).frame(1)
    found = []
    for name in names:
        headers: dict[str, Any] = {"x-deduplication-header": name, "x-delay": 10}
        raw = BasicProperties(delivery_mode=2 if persistent else 1, headers=headers).encode()
        found.append(head + content_frames(1, raw, name.encode(), 131072))
    return b"".join(found)


def bodies(client: Client, queue: str) -> list[bytes]:
    """Of all that is there; it is taken out."""
    found: list[bytes] = []
    while True:
        client.send(1, m.BasicGet(queue=queue, no_ack=True))
        event = client.events()[-1]
        if not isinstance(event, ContentMethod):
            return found
        found.append(content_body(event.content))


def dead_lettering(arguments: dict[str, Any]) -> Bench:
    """Into "dead", which is declared with these."""
    bench = Bench()
    bench.client.call(
        1, m.QueueDeclare("dead", durable=True, arguments={**DEDUPLICATES, **arguments})
    )
    declare(bench.client, "q", durable=True, message_ttl=50, **to("dead"))
    return bench


def dying(bench: Bench) -> tuple[int, int, int]:
    """Messages of "q": on their way, unacknowledged, ready."""
    machine = bench.queue("q").machine
    return machine.limits.in_flight, machine.depth.unacked, machine.depth.ready


def test_dead_letters_that_are_known_are_settled() -> None:
    bench = dead_lettering({})
    for names in (["k1"], ["k1", "k2"], ["k2", "k2"], ["k3", "k3", "k1"], ["k1", "k4", "k2"]):
        bench.client.send_bytes(batch("q", names))
        bench.wait()
        bench.expire()
        assert dying(bench) == (0, 0, 0)
    assert bodies(bench.client, "dead") == [b"k1", b"k2", b"k3", b"k4"]
    republisher = bench.queue("q").dead_lettering.republisher
    assert republisher is not None
    assert not republisher.sent
    assert not republisher.refused


def test_dead_letters_that_do_not_fit_come_later() -> None:
    bench = dead_lettering(FULL)
    bench.client.publish(1, "dead", b"full", raw=PERSISTENT)
    bench.client.send_bytes(batch("q", ["k1", "k1", "k2"]))
    bench.wait()
    bench.expire()
    found: list[bytes] = []
    for _ in range(3):
        found += bodies(bench.client, "dead")
        pass_time(bench, 1500)
        bench.wait()
    assert found == [b"full", b"k1", b"k2"]
    assert dying(bench) == (0, 0, 0)
    assert (bench.crashes(), bench.state(), bench.state("dead")) == (0, "running", "running")


def test_delayed_messages_that_are_known_are_settled() -> None:
    bench = Bench()
    kind: dict[str, Any] = {"x-delayed-type": "direct"}
    bench.client.call(
        1,
        m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=kind),
        m.QueueDeclare("q", durable=True, arguments=DEDUPLICATES),
        m.QueueBind("q", "x", "k"),
    )
    bench.client.send_bytes(batch("k", ["a", "a", "b"], exchange="x"))
    bench.wait()
    pass_time(bench, 20)
    bench.wait()
    [holding] = bench.vhost.queues.holding.values()
    assert bench.ready("q") == 2
    assert holding.machine.depth.unacked == 0


class Confirming:
    """A client's view of its publishes to "q", by number from 1 on."""

    def __init__(self, broker: Broker, client: Client) -> None:
        self.broker = broker
        self.client = client
        client.call(1, m.ConfirmSelect())
        self.names: list[str] = [""]
        self.waiting: set[int] = set()
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()

    def publish(self, names: list[str], persistent: bool) -> None:
        """Nothing is done by the disk."""
        self.waiting |= set(range(len(self.names), len(self.names) + len(names)))
        self.names += names
        self.client.post_bytes(batch("q", names, persistent))
        while self.broker.node.run(1000):
            pass

    def hear(self) -> list[bytes]:
        """Sort out what has come; returns the bodies of what was fetched."""
        found: list[bytes] = []
        for event in self.client.events():
            if isinstance(event, Acks):
                for tag in event.tags:
                    self.answer(tag, False, self.confirmed)
            elif isinstance(event, ContentMethod):
                found.append(content_body(event.content))
            elif isinstance(event, MethodFrame):
                method = event.method
                if isinstance(method, m.BasicAck):
                    self.answer(method.delivery_tag, method.multiple, self.confirmed)
                elif isinstance(method, m.BasicNack):
                    self.answer(method.delivery_tag, method.multiple, self.refused)
        return found

    def answer(self, tag: int, multiple: bool, to: set[int]) -> None:
        """Each has one."""
        some = {each for each in self.waiting if each <= tag} if multiple else {tag}
        assert tag in self.waiting
        self.waiting -= some
        to |= some

    def get(self, no_ack: bool) -> None:
        self.client.post_bytes(m.BasicGet(queue="q", no_ack=no_ack).frame(1))
        while self.broker.node.run(1000):
            pass


@pytest.mark.parametrize("limit", [None, 1, 5])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_every_publish_has_one_answer_that_is_true(
    seed: int, persistent: bool, limit: int | None
) -> None:
    random = Random(seed)
    broker = Broker()
    client = broker.connect()
    client.open(1)
    bound = {} if limit is None else {**FULL, "x-max-length": limit}
    client.call(1, m.QueueDeclare("q", durable=True, arguments={**DEDUPLICATES, **bound}))
    publisher = Confirming(broker, client)
    quiet = broker.connect()  # who wants no confirms
    quiet.open(1)
    taken: list[bytes] = []
    for _ in range(40):
        names = [f"{random.randrange(40):03}" for _ in range(random.randrange(1, 9))]
        what = random.random()
        if what < 0.5:
            publisher.publish(names, persistent)
        elif what < 0.6:
            quiet.post_bytes(batch("q", names, persistent))
            while broker.node.run(1000):
                pass
        elif what < 0.85:
            publisher.get(no_ack=random.random() < 0.7)
        elif broker.world.disk.jobs:
            broker.world.disk.finish()
            while broker.node.run(1000):
                pass
        else:
            broker.wait()
        taken += publisher.hear()
    confirmed = {publisher.names[each].encode() for each in publisher.confirmed}
    if persistent:
        [found] = found_after_a_crash(broker, "q")
        assert confirmed <= {*found, *taken}
    broker.wait()
    taken += publisher.hear()
    assert not publisher.waiting
    assert limit is not None or not publisher.refused
    taken += bodies(client, "q")
    assert len(taken) == len(set(taken))
    assert {publisher.names[each].encode() for each in publisher.confirmed} <= set(taken)


@pytest.mark.parametrize("limit", [None, 1, 5])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_broker_publishes_itself_arrives(
    seed: int, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[Republish] = []
    original = Republisher.settled

    def noting(self: Republisher, republish: Republish) -> None:
        original(self, republish)
        if not republish.open:
            settled.append(republish)

    monkeypatch.setattr(Republisher, "settled", noting)
    random = Random(seed)
    bench = dead_lettering({} if limit is None else {**FULL, "x-max-length": limit})
    sent: set[bytes] = set()
    found: list[bytes] = []
    for _ in range(15):
        names = [f"{random.randrange(40):03}" for _ in range(random.randrange(1, 9))]
        sent |= {each.encode() for each in names}
        bench.client.send_bytes(batch("q", names, random.random() < 0.5))
        bench.wait()
        if random.random() < 0.5:
            found += bodies(bench.client, "dead")
        bench.expire()
    for _ in range(100):
        if dying(bench) == (0, 0, 0):
            break
        found += bodies(bench.client, "dead")
        pass_time(bench, 1500)
        bench.wait()
    assert dying(bench) == (0, 0, 0)
    found += bodies(bench.client, "dead")
    assert (len(found), set(found)) == (len(sent), sent)
    assert (bench.crashes(), bench.state(), bench.state("dead")) == (0, "running", "running")
    assert len(settled) == len(set(map(id, settled)))


def test_a_confirm_waits_for_what_was_written_without_one() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare("q", durable=True, arguments=DEDUPLICATES))
    publisher = Confirming(broker, client)
    quiet = broker.connect()
    quiet.open(1)
    quiet.post_bytes(batch("q", ["a"]))
    while broker.node.run(1000):
        pass
    publisher.publish(["a"], True)
    publisher.hear()
    assert not publisher.confirmed
    assert found_after_a_crash(broker, "q") == [[]]
    broker.wait()
    publisher.hear()
    assert publisher.confirmed == {1}
    assert found_after_a_crash(broker, "q") == [[b"a"]]


def test_a_confirm_waits_for_all_of_its_batch_when_the_last_has_left_the_queue() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare("q", durable=True, arguments=DEDUPLICATES))
    publisher = Confirming(broker, client)
    publisher.publish(["b"], True)  # this one is being written when the others come
    assert broker.world.disk.jobs
    publisher.publish(["a", "b", "c"], True)
    publisher.get(no_ack=False)
    publisher.get(no_ack=False)
    publisher.get(no_ack=True)
    assert publisher.hear() == [b"b", b"a", b"c"]
    assert publisher.waiting == {1, 2, 3, 4}
    broker.wait()
    publisher.hear()
    assert not publisher.waiting
