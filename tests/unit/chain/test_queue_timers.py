"""What a queue does for itself: expiry by the clock, limits, dead letters that are never lost."""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import ContentMethod
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import Table
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import PolicyChanged, SetTarget
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.limits import EXPIRY_LOOK_MS, RETRY_REFUSED_MS
from sluicemq.model.policies import EffectivePolicy

from .client import PERSISTENT, Broker, Client
from .test_transactions import found_after_a_crash

EXPIRES_IN_50 = b"\x01\x00\x0250"


def client_of(broker: Broker) -> Client:
    client = broker.connect()
    client.open(1)
    return client


def declare(client: Client, queue: str, durable: bool = False, **arguments: str | int) -> None:
    given: Table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.call(1, m.QueueDeclare(queue=queue, durable=durable, arguments=given))


def to(queue: str) -> dict[str, Any]:
    """Arguments: dead letters go there."""
    return {"dead_letter_exchange": "", "dead_letter_routing_key": queue}


def shell(broker: Broker, queue: str) -> ClassicShell:
    found = broker.node.broker.vhosts["/"].queues[queue]
    assert isinstance(found, ClassicShell)
    return found


def ready(broker: Broker, queue: str) -> int:
    return shell(broker, queue).machine.depth.ready


def pass_time(broker: Broker, ms: int) -> None:
    """With all that is due on the way, in order."""
    clock = broker.world.clock
    end_ns = clock.time_ns + ms * 10**6
    while timers := [timer for timer in clock.timers if timer[0] <= end_ns]:
        due = min(timers, key=lambda timer: timer[0])
        clock.timers.remove(due)
        clock.time_ns = max(clock.time_ns, due[0])
        due[1].post(due[2])
        broker.run()
    clock.time_ns = end_ns


def test_a_timer_waits_for_the_head_and_for_nothing_else() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q", message_ttl=50)
    client.publish(1, "q", b"1")
    pass_time(broker, 30)
    client.publish(1, "q", b"2")
    pass_time(broker, 20)
    assert ready(broker, "q") == 1
    pass_time(broker, 29)
    assert ready(broker, "q") == 1
    pass_time(broker, 1)
    assert ready(broker, "q") == 0
    assert not shell(broker, "q").machine.limits.needs_tick


def test_what_comes_later_in_the_same_millisecond_is_delivered_too() -> None:
    """However short its life: somebody waits for it."""
    broker = Broker()
    client = client_of(broker)
    declare(client, "q", message_ttl=0)
    client.call(1, m.BasicConsume(queue="q", no_ack=True))
    for tag in (1, 2, 3):
        client.publish(1, "q", b"soon old")
        assert client.delivered() == [tag]


def test_a_clock_that_is_set_forward_is_noticed() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q", message_ttl=10 * EXPIRY_LOOK_MS)
    client.publish(1, "q", b"1")
    clock = broker.world.clock
    clock.wall_ms = lambda: clock.time_ns // 10**6 + 10 * EXPIRY_LOOK_MS  # type: ignore[method-assign]
    pass_time(broker, EXPIRY_LOOK_MS)
    assert ready(broker, "q") == 0


def test_a_queue_that_needs_none_has_no_timer() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q")
    before = len(broker.world.clock.timers)
    client.publish(1, "q", b"1", b"2")
    client.call(1, m.BasicGet(queue="q", no_ack=True))
    assert len(broker.world.clock.timers) == before
    limits = shell(broker, "q").machine.limits
    assert not limits.needs_tick
    assert limits.now_ms == 0


def test_an_expiry_outlives_a_restart() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q", durable=True)
    raw = b"\x11\x00\x02\x0250"
    client.publish(1, "q", b"short", raw=raw)
    client.publish(1, "q", b"long", raw=PERSISTENT)
    broker.wait()
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    again.run()
    assert ready(again, "q") == 2
    pass_time(again, 50)
    assert ready(again, "q") == 1


def test_an_unused_queue_goes_after_a_restart_too() -> None:
    broker = Broker()
    declare(client_of(broker), "q", durable=True, expires=1000)
    broker.wait()
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    pass_time(again, 999)
    assert "q" in again.node.broker.vhosts["/"].queues
    pass_time(again, 1)
    assert "q" not in again.node.broker.vhosts["/"].queues


@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_a_dead_letter_is_never_lost(reason: str, size: int) -> None:
    """Pulling the plug after each job of the disk, with source and store ahead of the others."""
    broker = Broker()
    node = broker.node.broker
    client = client_of(broker)
    for target in ("a", "b"):
        declare(client, target, durable=True)
        client.call(1, m.QueueBind(queue=target, exchange="amq.fanout"))
    limit = {"message_ttl": 50} if reason == "expired" else {"max_length": 1}
    declare(client, "source", durable=True, dead_letter_exchange="amq.fanout", **limit)
    body = b"dying" * size
    client.publish(1, "source", body, raw=PERSISTENT)
    broker.wait()
    client.events()
    if reason == "rejected":
        client.send(1, m.BasicGet(queue="source"))
        client.post_bytes(m.BasicReject(delivery_tag=1, requeue=False).frame(1))
    elif reason == "expired":
        broker.world.clock.time_ns += 50 * 10**6
        shell(broker, "source").schedule()
    else:
        head = m.BasicPublish(exchange="", routing_key="source").frame(1)
        client.post_bytes(head + content_frames(1, PERSISTENT, b"", 131072))
    steps = 0
    while broker.node.run(1) or broker.world.disk.jobs:
        waiting = broker.node.scheduler.ready
        if isinstance(waiting.first, Republisher):
            shell(broker, "source").schedule()
            node.store.commits.urgent = True
            node.store.schedule()
        if broker.world.disk.jobs and not broker.node.scheduler.ready:
            broker.world.disk.finish()
            steps += 1
            source, a, b = found_after_a_crash(broker, "source", "a", "b")
            assert body in source or (body in a and body in b)
    assert steps
    broker.wait()
    source, a, b = found_after_a_crash(broker, "source", "a", "b")
    assert body not in source
    assert (a, b) == ([body], [body])
    assert shell(broker, "source").machine.limits.in_flight == 0
    assert shell(broker, "source").machine.depth.unacked == 0


@pytest.mark.parametrize("damaged", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_rejected_ones_go_on_without_those_whose_bodies_are_lost(damaged: tuple[int, ...]) -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "dead", durable=True)
    declare(client, "source", durable=True, delivery_limit=5, **to("dead"))
    bodies = [b"body %d " % number * 1000 for number in range(3)]
    client.publish(1, "source", *bodies, raw=PERSISTENT)
    broker.wait()
    client.send(1, m.BasicConsume(queue="source"))
    client.send(1, m.BasicRecover(requeue=True))
    shell(broker, "source").post(SetTarget(0.0))
    broker.wait()
    [run] = shell(broker, "source").machine.unacked_runs.values()
    assert run.sizes is not None, "the bodies are not on the disk only"
    for place in damaged:
        damage(broker, bodies[place])
    client.send(1, m.BasicNack(delivery_tag=6, multiple=True, requeue=False))
    broker.wait()
    source = shell(broker, "source")
    assert not source.vhost.crashes
    depth = source.machine.depth
    assert (depth.ready, depth.unacked, depth.persistent, depth.footprint) == (0, 0, 0, 0)
    assert source.machine.limits.in_flight == 0
    left = [body for place, body in enumerate(bodies) if place not in damaged]
    assert found_after_a_crash(broker, "source", "dead") == [[], left]


def damage(broker: Broker, body: bytes) -> None:
    """On the disk, wherever it is."""
    files = broker.world.disk.files
    paths = [path for path, node in files.files.items() if body in node.data]
    for path in paths:
        files.put(path, files.content(path).replace(body, body[:-1] + b"!"))
    assert paths


def test_a_queue_that_refuses_is_asked_again() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "full", max_length=1, overflow="reject-publish")
    declare(client, "source", max_length=0, **to("full"))
    client.publish(1, "source", b"1", b"2", b"3")
    assert ready(broker, "full") == 1
    source = shell(broker, "source").machine
    assert (source.depth.ready, source.depth.unacked) == (0, 3)
    for left in (3, 0, 0):  # settled together
        (got,) = client.call(1, m.BasicGet(queue="full", no_ack=True))
        assert isinstance(got, m.BasicGetOk)
        pass_time(broker, RETRY_REFUSED_MS)
        assert source.depth.unacked == left
    assert source.limits.in_flight == 0


def test_nobody_waits_for_a_queue_that_is_deleted() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "full", max_length=0, overflow="reject-publish")
    declare(client, "source", max_length=0, **to("full"))
    client.publish(1, "source", b"1")
    assert shell(broker, "source").machine.depth.unacked == 1
    client.call(1, m.QueueDelete(queue="full"))
    pass_time(broker, RETRY_REFUSED_MS)
    assert shell(broker, "source").machine.depth.unacked == 0


def test_a_source_that_is_deleted_leaves_nothing_behind() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "dead")
    declare(client, "source", message_ttl=0, **to("dead"))
    client.publish(1, "source", b"1", b"2")
    client.call(1, m.QueueDelete(queue="source"))
    assert ready(broker, "dead") == 2
    assert list(shell(broker, "dead").upstream) == []


def test_many_more_than_may_be_under_way_arrive_in_order() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "dead")
    declare(client, "source", message_ttl=50, **to("dead"))
    bodies = [b"%d" % number for number in range(3000)]
    for start in range(0, 3000, 500):
        client.publish(1, "source", *bodies[start : start + 500])
    pass_time(broker, 50)
    assert ready(broker, "source") == 0
    found = []
    for _ in bodies:
        client.send(1, m.BasicGet(queue="dead", no_ack=True))
        (event,) = client.events()
        assert isinstance(event, ContentMethod)
        found.append(event.content[event.content.index(b"\xce", 20) + 8 : -1])
    assert found == bodies


def policy(broker: Broker, **definition: object) -> None:
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    shell(broker, "q").post(PolicyChanged(EffectivePolicy("p", "", given)))
    broker.run()


def test_a_policy_holds_at_once() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q")
    declare(client, "dead")
    client.publish(1, "q", *[b"%d" % number for number in range(10)])
    policy(broker, max_length=6)
    assert ready(broker, "q") == 6
    policy(broker, max_length=4, dead_letter_exchange="", dead_letter_routing_key="dead")
    assert (ready(broker, "q"), ready(broker, "dead")) == (4, 2)
    policy(broker, message_ttl=50)
    pass_time(broker, 60)
    assert ready(broker, "q") == 4, "they had come before"
    client.publish(1, "q", b"new")
    pass_time(broker, 60)
    assert ready(broker, "q") == 5, "behind the others"
    policy(broker, max_length=1)
    assert ready(broker, "q") == 0, "the last one has expired long ago"
    shell(broker, "q").post(PolicyChanged(None))
    client.publish(1, "q", b"1", b"2")
    pass_time(broker, 1000)
    assert ready(broker, "q") == 2
    policy(broker, expires=100)
    pass_time(broker, 100)
    assert "q" not in broker.node.broker.vhosts["/"].queues


def test_after_a_restart_bodies_are_weighed_without_their_properties() -> None:
    broker = Broker()
    client = client_of(broker)
    declare(client, "q", durable=True, max_length_bytes=100)
    raw = BasicProperties(delivery_mode=2, message_id="m" * 200).encode()
    client.publish(1, "q", *[b"0123456789"] * 12, raw=raw)
    assert ready(broker, "q") == 10
    broker.wait()
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    again.run()
    assert ready(again, "q") == 10
    client_of(again).publish(1, "q", b"0123456789", raw=raw)
    assert ready(again, "q") == 10
    shell(again, "q").post(PolicyChanged(EffectivePolicy("p", "", {"max-length-bytes": 50})))
    again.run()
    assert ready(again, "q") == 5
