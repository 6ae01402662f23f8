"""Goal: whatever the moment, a stream that was declared is there after a crash with everything it
has confirmed, or, if it was being deleted, as a whole or not at all.

Method: a whole node on simulated files, stopped at each change of them in turn, half of that change
done; killed, or without power. Then it starts again, is looked at, and goes on.
"""

from __future__ import annotations

from random import Random

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body
from sluicemq.sim.disk import CHANGES, Crashed, SimFiles

from .client import Broker, Client

ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4096}
MESSAGES = 12
STEPS_MAX = 300


class Knowledge:
    """What the client has been told."""

    def __init__(self) -> None:
        self.declared = False
        self.sent = 0
        self.confirmed = 0
        self.deleting = False
        self.deleted = False


def body_of(number: int) -> bytes:
    return str(number).encode().ljust(900)


def heard(client: Client, known: Knowledge) -> None:
    for event in client.events():
        if isinstance(event, Acks):
            known.confirmed = max(known.confirmed, *event.tags)
        elif isinstance(event, MethodFrame):
            if isinstance(event.method, m.BasicAck):
                known.confirmed = max(known.confirmed, event.method.delivery_tag)
            known.declared |= isinstance(event.method, m.QueueDeclareOk)
            known.deleted |= isinstance(event.method, m.QueueDeleteOk)


def live(files: SimFiles, known: Knowledge) -> None:
    """Declare, publish, delete."""
    broker = Broker(files=files)  # type: ignore[arg-type]
    client = broker.connect()
    client.open(1)
    try:
        client.send(1, m.QueueDeclare(queue="s", durable=True, arguments=ARGUMENTS))
        heard(client, known)
        client.send(1, m.ConfirmSelect())
        for number in range(0, MESSAGES, 2):
            known.sent = number + 2
            client.publish(1, "s", body_of(number), body_of(number + 1))
            heard(client, known)
        known.deleting = True
        client.send(1, m.QueueDelete(queue="s"))
        heard(client, known)
    except Crashed:
        heard(client, known)
        raise


def look(files: SimFiles, known: Knowledge) -> None:
    """After the start: is everything as it was said to be?"""
    broker = Broker(files=files)  # type: ignore[arg-type]
    queues = broker.node.broker.vhosts["/"].queues
    if "s" not in queues:
        assert known.deleting or not known.declared
        assert not [path for path in files.inodes if path.startswith("streams/")]
        return
    assert not known.deleted
    client = broker.connect()
    client.open(1)
    ready = queues["s"].machine.depth.ready
    assert known.confirmed <= ready <= known.sent
    client.send(1, m.ConfirmSelect())
    client.publish(1, "s", body_of(ready))
    client.events()
    client.send(
        1,
        m.BasicQos(prefetch_count=100),
        m.BasicConsume(queue="s", arguments={"x-stream-offset": "first"}),
    )
    deliveries = [event for event in client.events() if isinstance(event, Deliveries)]
    bodies = [content_body(each) for event in deliveries for each in event.contents]
    assert bodies == [body_of(number) for number in range(ready + 1)]


@pytest.mark.parametrize("power", [False, True])
def test_every_change_may_be_the_last(power: bool) -> None:
    for step in range(1, STEPS_MAX):
        files, known = SimFiles(), Knowledge()
        seen = 0

        def before(_: int, action: str, _path: str) -> None:
            nonlocal seen
            seen += action in CHANGES
            if seen >= step:  # noqa: B023
                raise Crashed(0.5)

        files.before = before
        try:
            live(files, known)
        except Crashed:
            files.crash(Random(step)) if power else files.kill()
            look(files, known)
            continue
        assert known.deleted
        assert known.confirmed == MESSAGES
        assert step > 40, "there are more changes than these"
        return
    raise AssertionError("it never comes to an end")


def live_on(files: SimFiles, known: Knowledge, fails_at: int, code: str) -> Broker:
    """The same without deleting; one primitive of the disk fails. Timers come as they may."""
    broker = Broker(files=files)  # type: ignore[arg-type]
    files.plan = {files.number + fails_at: code}
    client = broker.connect()
    client.open(1)
    client.send(1, m.QueueDeclare(queue="s", durable=True, arguments=ARGUMENTS))
    heard(client, known)
    client.send(1, m.ConfirmSelect())
    for number in range(0, MESSAGES, 2):
        known.sent = number + 2
        client.publish(1, "s", body_of(number), body_of(number + 1))
        heard(client, known)
        timers, broker.world.clock.timers = broker.world.clock.timers, []
        for timer in timers:
            timer[1].post(timer[2])
        broker.run()
        heard(client, known)
    return broker


@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_a_disk_may_fail_at_any_moment(code: str) -> None:
    """Without space it goes on later; after anything else nothing more is confirmed."""
    failed = 0
    for step in range(1, STEPS_MAX):
        files, known = SimFiles(), Knowledge()
        broker = live_on(files, known, step, code)
        if files.plan:
            assert step > 30, "there are more primitives than these"
            break
        if broker.node.broker.store.storage_failed:
            failed += 1
        elif known.declared:
            assert known.confirmed == MESSAGES
        files.crash(Random(step))
        known.deleting = not known.declared
        look(files, known)
    assert failed > 10
