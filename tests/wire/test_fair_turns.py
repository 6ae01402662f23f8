"""Goal: one connection with a long pipeline starves nobody, and gets all its answers.

Method: the pipeline is written at once, with confirm.select as its last method. While its answer is
not there yet, another client publishes messages and gets them back. A broker that does all of a
pipeline in one go leaves it two to four such rounds, however fast it is; one that deals in pieces
leaves it dozens. On a busy machine the client itself may wait for a processor while the broker gets
on, so the best of a few pipelines counts.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import PATIENCE_SECONDS, Peer, call, publish, raw_method

Basic, Queue, Tx = commands.Basic, commands.Queue, commands.Tx
Channel, Confirm = commands.Channel, commands.Confirm

ROUNDS_MIN = 8
PIPELINES_MAX = 5
LAST = raw_method(1, 85, 11)
"""confirm.select-ok, which no pipeline here has but as its last answer."""


class Pipeline(NamedTuple):
    """What is written; an answer's class and method, how often it has to come; the last answer."""

    data: bytes
    answer: tuple[int, int]
    count: int
    last: bytes = LAST


class Attacker(threading.Thread):
    """Writes all of a pipeline and reads all answers, at once."""

    def __init__(self, peer: Peer, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self.socket: socket.socket = peer.socket
        self.last = pipeline.last
        self.left = memoryview(
            pipeline.data + (call(Confirm.Select()) if self.last == LAST else b"")
        )
        self.wanted = pipeline
        self.is_last_there = False
        self.answers = bytearray()

    def is_done(self) -> bool:
        """Has all come? Deliveries may come behind the last answer."""
        return self.is_last_there and self.count(*self.wanted.answer) >= self.wanted.count

    def run(self) -> None:
        self.socket.setblocking(False)
        while not self.is_done():
            writing = [self.socket] if self.left else []
            readable, writable, _ = select.select([self.socket], writing, [], PATIENCE_SECONDS)
            if writable:
                self.left = self.left[self.socket.send(self.left) :]
            if readable:
                data = self.socket.recv(1 << 18)
                if not data:
                    return
                self.answers += data
                self.is_last_there |= self.last in self.answers[-len(data) - len(self.last) :]
            elif not writable:
                return

    def count(self, class_id: int, method_id: int) -> int:
        """Answers of that kind; no body here looks like one."""
        ids = class_id << 16 | method_id
        return self.answers.count(ids.to_bytes(4, "big"))


def rounds_meanwhile(target: Target, attacker: Attacker, name: str) -> int:
    """Messages published and got back until the attacker has all its answers."""
    queue = f"{name}-victim"
    rounds = 0
    with Peer(target) as victim:
        victim.log_in().open().send(call(Queue.Declare(queue=queue, exclusive=True)))
        victim.expect("Queue.DeclareOk")
        attacker.start()
        while attacker.is_alive():
            body = b"%d" % rounds
            victim.send(publish(queue, body), call(Basic.Get(queue=queue, no_ack=True)))
            victim.expect("Basic.GetOk")
            assert victim.content() == body
            rounds += 1
    return rounds


def many(count: int, make: Callable[[int], bytes]) -> bytes:
    return b"".join(make(number) for number in range(count))


def channels(_: str) -> Pipeline:
    close = call(Channel.Close(reply_code=200, class_id=0, method_id=0), 2)
    return Pipeline((call(Channel.Open(), 2) + close) * 20_000, (20, 11), 20_000)


def prefetches(_: str) -> Pipeline:
    return Pipeline(call(Basic.Qos(prefetch_count=5)) * 50_000, (60, 11), 50_000)


def queues(name: str) -> Pipeline:
    declared = many(5000, lambda n: call(Queue.Declare(queue=f"{name}{n}", exclusive=True)))
    return Pipeline(declared, (50, 11), 5000)


def queues_come_and_go(name: str) -> Pipeline:
    made = many(5000, lambda n: call(Queue.Declare(queue=f"{name}{n}", nowait=True)))
    return Pipeline(
        made + many(5000, lambda n: call(Queue.Delete(queue=f"{name}{n}"))), (50, 41), 5000
    )


def bindings(name: str) -> Pipeline:
    def bind(number: int) -> bytes:
        key = f"key.{number}.*"
        return call(Queue.Bind(queue=name, exchange="amq.topic", routing_key=key))

    return Pipeline(
        call(Queue.Declare(queue=name, exclusive=True)) + many(30_000, bind), (50, 21), 30_000
    )


def gets(name: str) -> Pipeline:
    got = call(Basic.Get(queue=name)) * 20_000
    return Pipeline(call(Queue.Declare(queue=name, exclusive=True)) + got, (60, 72), 20_000)


def returned(name: str) -> Pipeline:
    return Pipeline(
        publish(f"{name}-missing", b"x" * 500, mandatory=True) * 100_000, (60, 50), 100_000
    )


def transaction(name: str) -> Pipeline:
    began = call(Queue.Declare(queue=name, exclusive=True)) + call(Tx.Select())
    published = publish(name, b"") * 300_000
    return Pipeline(began + published + call(Tx.Commit()), (90, 21), 1, raw_method(1, 90, 21))


def consumers(name: str) -> Pipeline:
    """Each message goes to one of 2,000 consumers."""
    began = call(Queue.Declare(queue=name, exclusive=True))
    began += many(
        2000,
        lambda n: call(Basic.Consume(queue=name, consumer_tag=str(n), no_ack=True, nowait=True)),
    )
    asked = call(Queue.Declare(queue=name, passive=True))
    return Pipeline(began + publish(name, b"x") * 50_000 + asked, (60, 60), 50_000)


PIPELINES = (
    channels,
    prefetches,
    queues,
    queues_come_and_go,
    bindings,
    gets,
    returned,
    transaction,
    consumers,
)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda each: each.__name__)
def test_others_are_served_between_the_pieces_of_a_pipeline(
    target: Target, name: str, pipeline: Callable[[str], Pipeline]
) -> None:
    rounds: list[int] = []
    while max(rounds, default=0) < ROUNDS_MIN and len(rounds) < PIPELINES_MAX:
        own = f"{name}-{len(rounds)}"
        wanted = pipeline(own)
        with Peer(target) as peer:
            peer.log_in().open()
            attacker = Attacker(peer, wanted)
            rounds.append(rounds_meanwhile(target, attacker, own))
            attacker.join()
            assert attacker.is_last_there
            assert attacker.count(*wanted.answer) == wanted.count
    assert max(rounds) >= ROUNDS_MIN, rounds
