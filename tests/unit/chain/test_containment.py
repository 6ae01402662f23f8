"""Goal: a fault in reader, channel or writer costs its connection and nothing else: 541, the queues
have everything back, no account keeps anything; a second fault ends it at once.

Method: two clients; a method of one client's actor is made to raise once, or for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import MethodFrame
from sluicemq.chain.channel.channel import Channel
from sluicemq.kernel.actor import Actor

from .client import Broker, Client


class Mistake(Exception):
    """One of ours."""


def raising(actor: object, name: str, times: int, after: bool) -> None:
    """That method of the actor raises so often, before or after its work."""
    original: Callable[..., Any] = getattr(actor, name)
    left = times

    def method(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            return original(*arguments)
        if after:
            original(*arguments)
        raise Mistake

    setattr(actor, name, method)


class Bench:
    """A victim with two channels: a consumer that holds two of four messages, and a publisher in
    confirm mode; an exclusive queue of its own; and a witness."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.said: list[str] = []
        self.broker.world.log.write = lambda _, text: self.said.append(text)  # type: ignore[method-assign]
        self.witness = self.broker.connect()
        self.witness.open(1)
        assert len(self.witness.call(1, m.QueueDeclare(queue="q"))) == 1
        self.witness.publish(1, "q", b"1", b"2", b"3", b"4")
        self.victim = victim = self.broker.connect()
        victim.open(1, 2, 3, 4)
        victim.call(1, m.QueueDeclare(queue="own", exclusive=True))
        victim.send(1, m.BasicQos(prefetch_count=2), m.BasicConsume(queue="q", consumer_tag="c"))
        victim.send(2, m.ConfirmSelect())
        victim.send(3, m.TxSelect())
        victim.publish(3, "q", b"never committed")
        victim.publish(2, "q", b"5")
        victim.send_bytes(m.BasicPublish(exchange="", routing_key="q").frame(4))
        victim.events()
        (vhost,) = self.broker.node.broker.vhosts.values()
        self.queue = vhost.queues["q"]
        assert self.queue.machine.depth.unacked == 2

    def closed_by(self) -> list[int]:
        """The codes by which the victim was told to go."""
        methods = [e.method for e in self.victim.events() if isinstance(e, MethodFrame)]
        return [each.reply_code for each in methods if isinstance(each, m.ConnectionClose)]

    def nothing_is_left(self) -> None:
        """Of the victim; and the witness is served."""
        node = self.broker.node.broker
        assert list(node.connections) == [self.witness.number]
        assert [*node.alarms.listeners] == [self.witness.reader]
        assert [*node.deadlines.of] == []
        assert node.admission.half_open == 0
        assert node.admission.logged_in == 1
        assert [*node.access.sessions["guest"]] == [self.witness.reader]
        (vhost,) = node.vhosts.values()
        assert vhost.connections == 1
        assert not vhost.exclusive
        assert [*vhost.queues] == ["q"]
        depth = self.queue.machine.depth
        assert (depth.unacked, depth.consumers) == (0, 0)
        assert [*self.queue.upstream] == [channel_of(self.witness, 1)]
        assert node.budget is not None
        assert node.budget.links == 1 + 1  # reader to channel, channel to queue
        assert node.accounted_bytes == depth.footprint
        before = depth.ready
        self.witness.publish(1, "q", b"more")
        assert depth.ready == before + 1


def channel_of(client: Client, number: int) -> Channel:
    return client.reader.channels[number]


def victims(bench: Bench) -> dict[str, Actor]:
    reader = bench.victim.reader
    return {
        "reader": reader,
        "writer": reader.writer,
        "consumer": reader.channels[1],
        "publisher": reader.channels[2],
        "transaction": reader.channels[3],
    }


METHODS = {"reader": ("pump", "see_to_socket"), "writer": ("take", "give", "turn_ended")}
"""Where others than channels work: a reader, amid a content, in turns of its intake; a writer, when
nobody else has a turn, in that of a channel."""

PLACES = [
    (kind, method, after)
    for kind in ("reader", "writer", "consumer", "publisher", "transaction")
    for method in METHODS.get(kind, ("receive", "turn_ended"))
    for after in (False, True)
]


@pytest.mark.parametrize(("kind", "method", "after"), PLACES)
def test_a_fault_closes_its_connection_and_leaks_nothing(
    kind: str, method: str, after: bool
) -> None:
    bench = Bench()
    actor = victims(bench)[kind]
    raising(actor, method, 1, after)
    actor.schedule()  # a writer may have no turn otherwise
    for channel in (1, 2, 3):
        bench.victim.send(channel, m.BasicQos(prefetch_count=2))
    assert bench.closed_by() == [541]
    assert bench.broker.node.broker.counters.faults == 1
    assert sum("Mistake" in text for text in bench.said) == 1
    bench.victim.send(0, m.ConnectionCloseOk())
    bench.victim.lose()
    bench.nothing_is_left()


@pytest.mark.parametrize("after", [False, True])
def test_a_fault_in_the_turn_of_those_who_publish_closes_its_connection(after: bool) -> None:
    bench = Bench()
    intake = bench.victim.reader.intake
    raising(intake, "turn_ended", 1, after)
    intake.schedule()
    bench.broker.run()
    assert bench.closed_by() == [541]
    assert bench.broker.node.broker.counters.faults == 1
    bench.victim.send(0, m.ConnectionCloseOk())
    bench.victim.lose()
    bench.nothing_is_left()


@pytest.mark.parametrize(("kind", "method", "after"), PLACES)
def test_one_that_goes_on_failing_is_cut_off(kind: str, method: str, after: bool) -> None:
    bench = Bench()
    actor = victims(bench)[kind]
    raising(actor, method, 1000, after)
    actor.schedule()  # a writer may have no turn otherwise
    for channel in (1, 2, 3):
        bench.victim.send(channel, m.BasicQos(prefetch_count=2))
    bench.victim.send(0, m.ConnectionCloseOk())
    bench.victim.lose()
    assert bench.broker.node.broker.counters.faults <= 3
    bench.nothing_is_left()


@pytest.mark.parametrize("step", ["publishing.close", "forget_transaction", "consuming.close"])
def test_a_fault_in_the_cleanup_costs_no_other_step(step: str) -> None:
    bench = Bench()
    channel = channel_of(bench.victim, 1)
    part, _, name = step.rpartition(".")
    raising(getattr(channel, part) if part else channel, name, 1000, after=True)
    raising(channel, "receive", 1, after=False)
    bench.victim.send(1, m.BasicQos(prefetch_count=2))
    assert bench.closed_by() == [541]
    bench.victim.lose()
    bench.nothing_is_left()


def test_before_tune_ok_the_socket_is_closed_without_a_word() -> None:
    bench = Bench()
    bench.victim.lose()
    stranger = Client(bench.broker, 77)
    raising(stranger.reader.handshake, "receive", 1, after=False)
    raising(stranger.reader.handshake, "start", 1, after=False)
    stranger.shake_hands("guest", "/")
    assert stranger.events() == []
    assert bench.broker.net.closed[-1] == (77, 0)
    stranger.lose()
    bench.nothing_is_left()


@pytest.mark.parametrize("part", ["definitions", "store", "journal"])
def test_a_fault_in_what_all_share_ends_the_node_whoever_has_the_turn(part: str) -> None:
    bench = Bench()
    ends: list[None] = []
    bench.broker.node.broken = lambda: ends.append(None)
    broker = bench.broker.node.broker
    within: dict[str, Callable[[], object]] = {
        "definitions": lambda: broker.definitions.apply(None),  # type: ignore[arg-type]
        "store": lambda: broker.store.done(None),  # type: ignore[arg-type]
        "journal": lambda: broker.store.journal.group(None),  # type: ignore[arg-type]
    }
    channel_of(bench.victim, 1).turn_ended = within[part]  # type: ignore[method-assign,assignment]
    bench.victim.send(1, m.BasicQos(prefetch_count=2))
    assert ends == [None]


@pytest.mark.parametrize("part", ["store", "monitor", "retargeting", "deadlines", "policy_rounds"])
def test_a_fault_in_a_shared_actor_ends_the_node(part: str) -> None:
    bench = Bench()
    ends: list[None] = []
    bench.broker.node.broken = lambda: ends.append(None)
    node = bench.broker.node
    monitors = {"monitor": node.monitor, "retargeting": node.monitor.retargeting}
    actor = monitors.get(part) or getattr(node.broker, part)
    raising(actor, "receive", 1, after=False)
    actor.post(object())
    bench.broker.run()
    assert ends == [None]
    bench.witness.post_bytes(b"anything")
    assert not node.run(100)
    assert not node.scheduler.is_busy
    assert "exiting now" in bench.said[-1]


def test_a_fault_in_a_command_is_its_answer() -> None:
    bench = Bench()
    raising(bench.broker.node.broker.store, "info", 1, after=False)
    (answer,) = bench.broker.begin("status")
    assert answer.code == 70
    assert "has failed in this command (Mistake)" in answer.error
    assert bench.broker.begin("status")[0].rows
