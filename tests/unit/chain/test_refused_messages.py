"""Goal: a message that makes its queue fault as it is published does so twice and no more: then it
is refused, the queue goes on and takes all others, however often somebody tries.

Method: a whole node; what takes a publish in is made to raise when a content has a word in it.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.refused_messages import SUSPECTS_KEPT, RefusedMessages, digests
from sluicemq.chain.republish import delayer
from sluicemq.limits import REFUSED_MESSAGES_MAX, RETRY_REFUSED_MS
from sluicemq.model.batch import ENVELOPED, Batch
from sluicemq.queues.classic.deduplication import Deduplication
from sluicemq.queues.commands import Publish
from sluicemq.queues.stream.machine import Stream
from support.batches import batch_of

from .client import PERSISTENT, Client
from .test_poison_messages import POISON, Bench, declare_delaying, raising
from .test_queue_timers import pass_time

ENVELOPE = b"\0\1q"


def bodies_of(*arguments: Any) -> bytes:
    """Of the batch or publish that is given."""
    for each in arguments:
        if isinstance(each, Publish):
            each = each.batch
        if isinstance(each, Batch):
            return b"".join(each.contents)
    return b""


KINDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "classic": (ClassicShell, "take_in", {}),
    "deduplicating": (Deduplication, "publish", {"x-message-deduplication": True}),
    "stream": (Stream, "apply", {"x-queue-type": "stream"}),
}


class Publishing:
    """Two clients that publish to "q", each on a channel of another number, with confirms."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.bench = Bench()
        self.clients = [self.bench.client, self.bench.connect()]
        self.clients[1].open(1, 2)
        self.clients[0].call(1, m.QueueDeclare("q", durable=True, arguments=arguments))
        for channel, client in enumerate(self.clients, 1):
            assert client.call(channel, m.ConfirmSelect()) == [m.ConfirmSelectOk()]

    def publish(self, by: int, *bodies: bytes) -> set[bool]:
        """By one of them, in one batch. The answers: True is a refusal."""
        self.clients[by].publish(by + 1, "q", *bodies, raw=PERSISTENT)
        self.bench.wait()
        return refusals(self.clients[by])

    @property
    def queue(self) -> Queue:
        return self.bench.vhost.queues["q"]

    def state(self) -> str:
        return self.queue.state(self.bench.world.clock.now_ns())


def refusals(client: Client) -> set[bool]:
    """What has come since the last time: refusals, confirms."""
    heard: set[bool] = set()
    for event in client.events():
        if isinstance(event, MethodFrame):
            heard.add(isinstance(event.method, m.BasicNack))
        else:
            assert isinstance(event, Acks)
            heard.add(False)
    return heard


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_refused_after_the_second_fault(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    where, name, arguments = KINDS[kind]
    raising(monkeypatch, where, name, bodies_of)
    publishing = Publishing(arguments)
    bench = publishing.bench
    assert publishing.publish(0, b"1", b"2") == {False}
    assert publishing.publish(0, b"3", POISON) == {True}
    assert publishing.publish(1, POISON, b"4") == {True}
    assert (bench.crashes(), publishing.state()) == (2, "running")
    [told] = [text for text in bench.said if "refuses 1 messages" in text]
    assert told.endswith(
        "queue 'q' in vhost '/' refuses 1 messages from now on, for it had its faults at their"
        f" publish: published to exchange '' with routing key 'q', of {size_of(POISON)} bytes"
    )
    for by in 0, 1, 0:
        assert publishing.publish(by, POISON) == {True}
        assert publishing.publish(by, b"5", POISON) == {True}
    assert publishing.publish(0, b"4", b"3") == {False, True}
    assert publishing.publish(0, b"3") == {False}
    assert (bench.crashes(), publishing.state()) == (2, "running")
    assert publishing.queue.machine.depth.ready == 4
    for client in publishing.clients:
        assert all(each.outflow.credit > 0 for each in client.reader.channels.values())


def test_the_innocents_of_a_batch_are_not_condemned(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ClassicShell, "take_in", bodies_of)
    publishing = Publishing({})
    assert publishing.publish(0, b"1", b"2", POISON, b"3") == {True}
    assert publishing.publish(0, b"1", b"2", POISON, b"3") == {False, True}
    assert publishing.publish(0, POISON, b"3") == {True}
    assert publishing.publish(0, b"3") == {False}
    assert publishing.publish(0, b"1", b"3", b"2") == {False}
    assert publishing.publish(0, b"1", POISON, b"2") == {True}
    assert (publishing.bench.crashes(), publishing.state()) == (2, "running")
    assert publishing.queue.machine.depth.ready == 6


def test_the_innocents_among_dead_letters_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.declare()
    raising(
        monkeypatch,
        ClassicShell,
        "take_in",
        lambda queue, publish, *_: bodies_of(publish) if queue.name == "dead" else b"",
    )
    bench.publish(b"1", b"2", POISON, b"3")
    bench.expire()
    for _ in range(10):
        pass_time(bench, RETRY_REFUSED_MS + 1)
        bench.wait()
    assert bench.ready("dead") == 3
    republisher = bench.queue("q").dead_lettering.republisher
    assert republisher is not None
    assert [len(each.batch.contents) for each in republisher.refused] == [1]
    assert (bench.state("q"), bench.state("dead")) == ("running", "running")
    assert bench.crashes() <= 3


def size_of(body: bytes) -> int:
    return len(content_frames(1, PERSISTENT, body, 131072))


def test_who_wants_no_confirms_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ClassicShell, "take_in", bodies_of)
    bench = Bench()
    client = bench.client
    client.call(1, m.QueueDeclare("q", durable=True))
    for number in range(2000):  # more than there is credit for
        client.publish(1, "q", POISON, b"%d" % number)
        if number < 2:
            bench.wait()
    client.publish(1, "q", b"last")
    bench.wait()
    assert (bench.crashes(), bench.state(), bench.ready("q")) == (2, "running", 1)


def test_what_cannot_be_dated_by_an_exchange_that_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, delayer, "dated", bodies_of)
    bench = Bench()
    client = bench.client
    declare_delaying(client)
    client.call(1, m.ConfirmSelect())
    raw = BasicProperties(delivery_mode=2, headers={"x-delay": 10}).encode()
    head = m.BasicPublish(exchange="x", routing_key="k").frame(1)
    for bodies, heard in [
        ((POISON, b"1"), {True}),
        ((POISON, b"2"), {True}),
        ((POISON,), {True}),
        ((b"2", b"1"), {False, True}),
        ((b"1",), {False}),
    ]:
        data = b"".join(head + content_frames(1, raw, body, 131072) for body in bodies)
        client.send_bytes(data)
        bench.wait()
        assert refusals(client) == heard
    assert bench.crashes() == 2
    pass_time(bench, 20)
    assert bench.ready("q") == 2


def test_a_fault_with_any_message_takes_the_queue_down(monkeypatch: pytest.MonkeyPatch) -> None:
    publishing = Publishing({})
    raising(monkeypatch, ClassicShell, "take_in", lambda *_: POISON)
    assert publishing.publish(0, b"1") == {True}
    assert publishing.publish(0, b"2") == {True}
    assert (publishing.bench.crashes(), publishing.state()) == (2, "crashed")


def test_one_is_the_same_on_any_channel_and_in_any_batch() -> None:
    frames = [content_frames(number, PERSISTENT, b"x" * 300_000, 131072) for number in (1, 2)]
    found = RefusedMessages()
    assert found.accuse(batch(frames[:1], ENVELOPE)) == []
    assert found.accuse(batch([ENVELOPE + frames[1]], ENVELOPED)) == [ENVELOPE + frames[1]]
    assert found.admitted(batch([b"\0\1k" + frames[0]], ENVELOPED)) == (0, [])
    others = [content_frames(1, PERSISTENT, b"y", 131072), content_frames(1, b"\0\0", b"x", 131072)]
    assert found.admitted(batch(others, ENVELOPE)) == (2, [])


def batch(contents: list[bytes], envelope: bytes) -> Batch:
    return batch_of(contents, envelope, same_size=False, persistent=True)


def some(*numbers: int) -> Batch:
    return batch([content_frames(1, b"\0\0", b"%d" % n, 131072) for n in numbers], ENVELOPE)


def test_what_is_remembered_is_bounded() -> None:
    found = RefusedMessages()
    for start in range(0, 3 * SUSPECTS_KEPT, SUSPECTS_KEPT // 2):
        assert found.accuse(some(*range(start, start + SUSPECTS_KEPT // 2))) == []
        assert len(found.suspects) <= SUSPECTS_KEPT
        assert found.near <= found.suspects.keys()
    last = 3 * SUSPECTS_KEPT
    for each in range(last - REFUSED_MESSAGES_MAX, last):
        assert found.accuse(some(each)) == some(each).contents
        assert found.has_come_nearer()
    assert found.accuse(some(last - REFUSED_MESSAGES_MAX - 1)) == []
    assert not found.has_come_nearer()
    assert len(found.known) == REFUSED_MESSAGES_MAX


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
@pytest.mark.parametrize("bad", [1, 2, 100])
def test_each_poison_is_found_and_no_other(bad: int, count: int, parts: int) -> None:
    """What is refused is published again: after a fault as it was or in two parts, else in two."""
    random = Random(count + bad)
    poison = set(random.sample(range(count), min(bad, count)))
    found = RefusedMessages()
    waiting = deque([list(range(count))])
    taken_in: list[int] = []
    faults = offers = 0
    steps = count.bit_length() + 1
    while waiting:
        offers += 1
        assert offers <= (3 + 2 * len(poison)) * count + 2 * steps
        part = waiting.popleft()
        taken, tried = found.admitted(some(*part))
        again = 2
        if not poison.isdisjoint(part[:taken]):
            faults += 1
            refused = found.accuse(some(*part))
            assert refused in ([], *(some(each).contents for each in poison))
            assert found.has_come_nearer() == (faults > 1)
            taken, again = 0, parts
        else:
            found.clear(tried)
            taken_in += part[:taken]
        rest = part[taken:]
        middle = len(rest) // 2 if again == 2 else 0
        waiting.extend(each for each in (rest[:middle], rest[middle:]) if each)
        waiting = deque(
            each
            for each in waiting
            if len(each) > 1 or found.known.isdisjoint(digests(some(*each)))
        )
    assert sorted(taken_in) == sorted(set(range(count)) - poison)
    assert found.known == {each for number in poison for each in digests(some(number))}
    assert not found.suspects
    assert faults <= len(poison) * steps + 1
