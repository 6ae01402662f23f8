"""The longest turn of any actor while one client does something large, in one process.

    .venv/bin/python bench/turns.py [--scale 1.0] [--cases REGEX]

Everybody else waits for a turn to end, so this is what one operation adds to the latency of all
others. The node runs in the tests' World, without sockets and with files in a dict; Python's
collector of cycles is off, and time is that of the processor. `--scale 0.1` does a tenth of it.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
from pathlib import Path
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from history import keep  # noqa: E402

from sluicemq.amqp import methods as m  # noqa: E402
from sluicemq.amqp.frames import content_frames  # noqa: E402
from sluicemq.amqp.properties import BasicProperties  # noqa: E402
from sluicemq.host.control_session import parts  # noqa: E402
from sluicemq.kernel.actor import Actor  # noqa: E402
from sluicemq.manage.actions import ACTIONS  # noqa: E402
from sluicemq.manage.gateway import GATEWAY  # noqa: E402
from sluicemq.manage.record_columns import RECORDS  # noqa: E402
from sluicemq.manage.task import CommandAnswer, GoOn, start  # noqa: E402
from unit.chain.client import NO_PROPERTIES, PERSISTENT, Broker, Client  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PART = 1000
"""Methods that are sent at a time: some 50 KiB."""


class Longest:
    """The longest turn since `reset`, in milliseconds, and who took it."""

    def __init__(self) -> None:
        self.plain = Actor.run_turn
        self.reset()
        Actor.run_turn = self.watched()  # type: ignore[method-assign]

    def reset(self) -> None:
        self.milliseconds = 0.0
        self.who = ""

    def watched(self) -> Callable[[Actor], None]:
        def run_turn(actor: Actor) -> None:
            begin = thread_time()
            self.plain(actor)
            self.note((thread_time() - begin) * 1000, type(actor).__name__)

        return run_turn

    def note(self, milliseconds: float, who: str) -> None:
        """Something took so long."""
        if milliseconds > self.milliseconds:
            self.milliseconds, self.who = milliseconds, who


class Bench:
    """One node and a client with a channel; `count` scales what is done."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.broker = Broker()
        self.client = self.connect()

    def connect(self) -> Client:
        client = self.broker.connect()
        client.open(1)
        return client

    def count(self, full: int) -> int:
        return max(1, int(full * self.scale))

    def send(self, methods: Iterator[m.Method] | list[m.Method]) -> None:
        """Without waiting for anything, some at a time."""
        frames = [method.frame(1) for method in methods]
        for at in range(0, len(frames), PART):
            self.client.send_bytes(b"".join(frames[at : at + PART]))
        self.read()

    def read(self) -> None:
        """What the node has written is not looked at."""
        self.broker.net.sent.clear()
        self.broker.net.written.clear()

    def declare(self, count: int, **more: Any) -> None:
        self.send(m.QueueDeclare(queue=f"q{each}", nowait=True, **more) for each in range(count))

    def publish(
        self,
        key: str,
        count: int,
        raw: bytes = NO_PROPERTIES,
        exchange: str = "",
        body: bytes = b"x",
    ) -> None:
        head = m.BasicPublish(exchange=exchange, routing_key=key).frame(1)
        message = head + content_frames(1, raw, body, 131072)
        for at in range(0, count, PART):
            self.client.send_bytes(message * min(PART, count - at))
            self.read()

    def lose(self) -> None:
        """The connection breaks."""
        self.client.lose()
        self.broker.run()

    def fire(self) -> None:
        """All timers go off."""
        clock = self.broker.world.clock
        timers, clock.timers = clock.timers, []
        for _, actor, message in timers:
            actor.post(message)
        self.broker.run()

    def ask(self, command: str, **arguments: Any) -> None:
        """A control command."""
        answers: list[CommandAnswer] = []
        begin = thread_time()
        start(self.broker.node, ACTIONS, command, arguments, answers.append)
        LONGEST.note((thread_time() - begin) * 1000, "the command itself")
        self.broker.run()

    def ask_pages(self, command: str, **arguments: Any) -> None:
        """What the management process asks, page by page; each is written as the control socket
        writes it, and a part of one counts as a turn."""
        answers: list[CommandAnswer] = []
        task = start(self.broker.node, GATEWAY, command, arguments, answers.append)
        self.broker.run()
        while True:
            begin = thread_time()
            for _ in parts(answers[-1]):
                now = thread_time()
                LONGEST.note((now - begin) * 1000, "the control socket")
                begin = thread_time()
            if not answers[-1].more:
                return
            task.post(GoOn(answers.append))
            self.broker.run()
        for _ in range(1000):
            if answers:
                break
            self.fire()
        assert answers, command
        assert not answers[0].error, answers[0].error


LONGEST = Longest()


def consumers_with_room(bench: Bench) -> None:
    """50,000 consumers on 50 channels, then 1,000 messages, then all of them end."""
    bench.declare(1)
    client = bench.client
    for number in range(2, 52):
        client.open(number)
        consumes = [
            m.BasicConsume(queue="q0", consumer_tag=f"c{each}", nowait=True)
            for each in range(bench.count(1000))
        ]
        client.send(number, *consumes)
    bench.publish("q0", 1000)
    bench.lose()


def consumers_of_one_channel(bench: Bench) -> None:
    """50,000 on one channel with prefetch 1; 50,000 messages; cancelled one by one."""
    bench.declare(1)
    count = bench.count(50_000)
    bench.send([m.BasicQos(prefetch_count=1)])
    bench.send(
        m.BasicConsume(queue="q0", consumer_tag=f"c{each}", nowait=True) for each in range(count)
    )
    bench.publish("q0", count)
    bench.send(m.BasicCancel(consumer_tag=f"c{each}", nowait=True) for each in range(count))


def exclusive_queues(bench: Bench) -> None:
    """50,000, which go with their connection."""
    bench.declare(bench.count(50_000), exclusive=True)
    bench.lose()


def durable_queues(bench: Bench) -> None:
    """3,000 are declared and deleted."""
    count = bench.count(3_000)
    bench.declare(count, durable=True)
    bench.send(m.QueueDelete(queue=f"q{each}", nowait=True) for each in range(count))


def auto_delete_queues(bench: Bench) -> None:
    """20,000, each with a consumer of one channel that closes."""
    count = bench.count(20_000)
    bench.declare(count, auto_delete=True)
    bench.send(m.BasicConsume(queue=f"q{each}", nowait=True) for each in range(count))
    close = m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
    bench.send([close])


def delayed_messages(bench: Bench) -> None:
    """200,000 to an exchange that delays them; all are due at once."""
    arguments = {"x-delayed-type": "direct"}
    exchange = m.ExchangeDeclare(
        exchange="later", exchange_type="x-delayed-message", arguments=arguments
    )
    bench.send([exchange])
    raw = BasicProperties(headers={"x-delay": 60_000}).encode()
    bench.publish("k", bench.count(200_000), raw, "later")
    bench.broker.world.clock.time_ns += 100 * 10**9
    for _ in range(20):
        bench.fire()


def priorities(bench: Bench) -> None:
    """2,000 queues of 255 priorities with a message of each in the first 20; a checkpoint's flush
    is not in it."""
    bench.declare(bench.count(2000), arguments={"x-max-priority": 255})
    for queue in range(20):
        for priority in range(255):
            raw = BasicProperties(priority=priority).encode()
            bench.publish(f"q{queue}", 1, raw)


def empty_transaction(bench: Bench, end: m.Method) -> None:
    bench.declare(1)
    bench.send([m.TxSelect()])
    bench.publish("q0", bench.count(500_000), body=b"")
    bench.send([end])


def commit(bench: Bench) -> None:
    """500,000 empty messages in a transaction."""
    empty_transaction(bench, m.TxCommit())


def rollback(bench: Bench) -> None:
    """The same, taken back."""
    empty_transaction(bench, m.TxRollback())


def commit_of_many_keys(bench: Bench) -> None:
    """100,000 messages that go to 100 queues in turn, in a transaction."""
    bench.declare(100)
    bench.send([m.TxSelect()])
    for _ in range(bench.count(1000)):
        keys = [f"q{each}" for each in range(100)]
        heads = [m.BasicPublish(exchange="", routing_key=key).frame(1) for key in keys]
        content = content_frames(1, NO_PROPERTIES, b"x", 131072)
        bench.client.send_bytes(b"".join([head + content for head in heads]))
    bench.send([m.TxCommit()])


def bindings(bench: Bench, kind: str, arguments: dict[str, object]) -> None:
    bench.declare(1)
    bench.send([m.ExchangeDeclare(exchange="e", exchange_type=kind)])
    bench.send(
        m.QueueBind(
            queue="q0",
            exchange="e",
            routing_key=f"a.{each}.*.b",
            arguments=arguments | {"n": each} if arguments else {},
            nowait=True,
        )
        for each in range(bench.count(50_000))
    )
    bench.publish("a.7.x.b", 200, exchange="e")
    for each in range(50):
        bench.publish(f"a.{each}.x.b", 1, exchange="e")


def topic_bindings(bench: Bench) -> None:
    """50,000 of one queue; messages; the queue is deleted."""
    bindings(bench, "topic", {})
    bench.send([m.QueueDelete(queue="q0")])


def headers_bindings(bench: Bench) -> None:
    """50,000 of one queue; messages; the exchange is deleted."""
    bindings(bench, "headers", {"x-match": "any"})
    bench.send([m.ExchangeDelete(exchange="e")])


def unacknowledged(bench: Bench, *ends: m.Method) -> None:
    bench.declare(1)
    count = bench.count(500_000)
    bench.publish("q0", count)
    for at in range(0, count, PART):
        bench.send([m.BasicGet(queue="q0")] * min(PART, count - at))
    bench.send(list(ends))


def ack_multiple(bench: Bench) -> None:
    """500,000 that were got one by one, acknowledged at once."""
    unacknowledged(bench, m.BasicAck(delivery_tag=0, multiple=True))


def nack_multiple(bench: Bench) -> None:
    """500,000 requeued at once, then purged."""
    unacknowledged(bench, m.BasicNack(multiple=True, requeue=True), m.QueuePurge(queue="q0"))


def recover(bench: Bench) -> None:
    """500,000 by basic.recover, then the queue is deleted."""
    unacknowledged(bench, m.BasicRecover(requeue=True), m.QueueDelete(queue="q0"))


def unacknowledged_lost(bench: Bench) -> None:
    """500,000 come back when their connection breaks."""
    unacknowledged(bench)
    bench.lose()


def consumed(bench: Bench, full: int, **arguments: Any) -> int:
    """So many messages of a queue with these arguments are out at a consumer, and can be got on
    another connection when they come back."""
    bench.declare(1, arguments=arguments)
    count = bench.count(full)
    bench.publish("q0", count)
    bench.send([m.BasicConsume(queue="q0", consumer_tag="c", nowait=True)])
    return count


def get_one(bench: Bench) -> None:
    """Whoever is first to ask has to wait for nothing that is put off until then."""
    bench.client = bench.connect()
    bench.send([m.BasicGet(queue="q0", no_ack=True)])


def consumed_ack(bench: Bench) -> None:
    """1,000,000 that were consumed, acknowledged at once."""
    consumed(bench, 1_000_000)
    bench.send([m.BasicAck(delivery_tag=0, multiple=True)])


def consumed_nack(bench: Bench) -> None:
    """1,000,000 that were consumed, requeued at once to who still consumes."""
    consumed(bench, 1_000_000)
    bench.send([m.BasicNack(multiple=True, requeue=True)])


def consumed_lost(bench: Bench) -> None:
    """1,000,000 that were consumed come back when their connection breaks; then one is got."""
    consumed(bench, 1_000_000)
    bench.lose()
    get_one(bench)


def holes_lost(bench: Bench) -> None:
    """1,000,000 of which every other one was acknowledged come back when their connection breaks;
    then one is got."""
    count = consumed(bench, 1_000_000)
    bench.send(m.BasicAck(delivery_tag=tag) for tag in range(2, count + 1, 2))
    bench.lose()
    get_one(bench)


def got_lost(bench: Bench) -> None:
    """500,000 that were got one by one come back when their connection breaks; then one is got."""
    unacknowledged(bench)
    bench.lose()
    get_one(bench)


def requeues_at_random(bench: Bench) -> None:
    """200,000 that were consumed, requeued one by one in no order; then one is got."""
    count = consumed(bench, 200_000)
    bench.send([m.BasicCancel(consumer_tag="c", nowait=True)])
    tags = [each * 7919 % count + 1 for each in range(count)]
    bench.send(m.BasicReject(delivery_tag=tag, requeue=True) for tag in tags)
    get_one(bench)


def acks_in_order(bench: Bench) -> None:
    """200,000 that were consumed as they were published, acknowledged one by one."""
    count = consumed(bench, 1)
    count = bench.count(200_000)
    for _ in range(count):
        bench.publish("q0", 1)
    bench.send(m.BasicAck(delivery_tag=tag) for tag in range(1, count + 2))


def purge_while_out(bench: Bench) -> None:
    """A queue is purged, then deleted, with 1,000,000 messages ready and as many at consumers."""
    count = consumed(bench, 1_000_000)
    bench.send([m.BasicCancel(consumer_tag="c", nowait=True)])
    bench.publish("q0", count)
    bench.client = bench.connect()
    bench.send([m.QueuePurge(queue="q0"), m.QueueDelete(queue="q0")])


def delivery_limit(bench: Bench) -> None:
    """300,000 come back to a queue that counts how often, are consumed again, and it is purged;
    it stops counting."""
    consumed(bench, 300_000, **{"x-delivery-limit": 20})
    for _ in range(2):
        bench.lose()
        bench.client = bench.connect()
        bench.send([m.BasicConsume(queue="q0", consumer_tag="c", nowait=True)])
    bench.client = bench.connect()
    bench.send([m.QueuePurge(queue="q0")])


def emptied_by_policy(bench: Bench) -> None:
    """1,000,000 messages are in a queue when it gets the maximal length 0."""
    bench.declare(1)
    bench.publish("q0", bench.count(1_000_000))
    definition = '{"max-length": 0}'
    bench.ask("set_policy", name="p", pattern=".*", definition=definition, apply_to="queues")


def acks_at_random(bench: Bench) -> None:
    """100,000 that were consumed, acknowledged in no order."""
    bench.declare(1)
    count = bench.count(100_000)
    bench.publish("q0", count)
    bench.send([m.BasicConsume(queue="q0", consumer_tag="c", nowait=True)])
    tags = [each * 7919 % count + 1 for each in range(count)]
    bench.send(m.BasicAck(delivery_tag=tag) for tag in tags)


def requeue_to_self(bench: Bench) -> None:
    """A consumer of 20,000 that gives each back."""
    bench.declare(1)
    bench.publish("q0", bench.count(20_000))
    bench.send([m.BasicConsume(queue="q0", consumer_tag="c", nowait=True)])
    tags = range(1, 10_000)
    bench.send(m.BasicReject(delivery_tag=each, requeue=True) for each in tags if each % 2)
    bench.send([m.BasicNack(delivery_tag=0, multiple=True, requeue=True)] * 20)


def purge(bench: Bench) -> None:
    """500,000 messages, each a chunk of its own."""
    bench.declare(1)
    for number in range(2):
        bench.client.open(2 + number)
    for _ in range(bench.count(500)):
        bench.publish("q0", 500, body=b"xy")
        bench.publish("q0", 500)
    bench.send([m.QueuePurge(queue="q0")])


def delete_durable(bench: Bench) -> None:
    """A queue with 300,000 persistent messages."""
    bench.declare(1, durable=True)
    bench.publish("q0", bench.count(300_000), PERSISTENT)
    bench.send([m.QueueDelete(queue="q0")])


def max_length(bench: Bench) -> None:
    """200,000 to a queue of 10 with a dead letter exchange."""
    arguments = {
        "x-max-length": 10,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    bench.declare(1, arguments=arguments)
    bench.send([m.QueueDeclare(queue="dead")])
    bench.publish("q0", bench.count(200_000))


def expiry(bench: Bench) -> None:
    """500,000 expire at one moment, without a dead letter exchange."""
    bench.declare(1, arguments={"x-message-ttl": 60_000})
    bench.publish("q0", bench.count(500_000))
    bench.broker.world.clock.time_ns += 100 * 10**9
    bench.send([m.QueueDeclare(queue="q0", passive=True)])


def policy(bench: Bench) -> None:
    """One over 3,000 queues, set and cleared."""
    bench.declare(bench.count(3000))
    definition = '{"max-length": 10}'
    bench.ask("set_policy", name="p", pattern=".*", definition=definition, apply_to="queues")
    bench.ask("clear_policy", name="p")


def fanout(bench: Bench) -> None:
    """20,000 queues; 20 messages, confirmed; the exchange is deleted."""
    count = bench.count(20_000)
    bench.declare(count)
    bench.send([m.ExchangeDeclare(exchange="e", exchange_type="fanout"), m.ConfirmSelect()])
    bench.send(m.QueueBind(queue=f"q{each}", exchange="e", nowait=True) for each in range(count))
    bench.publish("", 20, exchange="e")
    bench.send([m.ExchangeDelete(exchange="e")])


def carbon_copies(bench: Bench) -> None:
    """A message with 4,000 keys in CC, each a queue, 20 times."""
    bench.declare(4000)
    raw = BasicProperties(headers={"CC": [f"q{each}" for each in range(4000)]}).encode()
    bench.publish("q0", 20, raw)


def list_queues(bench: Bench) -> None:
    """20,000 queues and their bindings, as an operator asks for them."""
    bench.declare(bench.count(20_000))
    columns = ["name", "messages", "consumers", "memory", "state"]
    for command in ("list_queues", "list_bindings", "status", "chain"):
        bench.ask(command, columns=columns if command == "list_queues" else None)


def list_records(bench: Bench) -> None:
    """10,000 queues and all else that a page of the management process asks for, as JSON."""
    bench.declare(10_000)
    for kind in RECORDS:
        bench.ask_pages("records", kind=kind)
    bench.ask_pages("node_figures")


def export(bench: Bench) -> None:
    """Definitions of 20,000 durable queues."""
    bench.declare(bench.count(20_000), durable=True)
    bench.ask("export_definitions")


def channels(bench: Bench) -> None:
    """2,000 channels, each with a consumer; the connection breaks."""
    bench.declare(1)
    client = bench.client
    count = min(98, bench.count(2000))
    for number in range(2, 2 + count):
        client.open(number)
        client.send(number, m.BasicConsume(queue="q0", consumer_tag="c", nowait=True))
    bench.lose()


def delete_vhost(bench: Bench) -> None:
    """With 20,000 queues."""
    bench.declare(bench.count(20_000))
    bench.ask("delete_vhost", vhost="/")


CASES: dict[str, Callable[[Bench], None]] = {
    function.__name__: function
    for function in (
        consumers_with_room,
        consumers_of_one_channel,
        fanout,
        carbon_copies,
        ack_multiple,
        nack_multiple,
        recover,
        unacknowledged_lost,
        consumed_ack,
        consumed_nack,
        consumed_lost,
        holes_lost,
        got_lost,
        acks_in_order,
        acks_at_random,
        requeues_at_random,
        requeue_to_self,
        purge,
        purge_while_out,
        delivery_limit,
        emptied_by_policy,
        delete_durable,
        exclusive_queues,
        durable_queues,
        auto_delete_queues,
        topic_bindings,
        headers_bindings,
        commit,
        rollback,
        commit_of_many_keys,
        delayed_messages,
        policy,
        priorities,
        expiry,
        max_length,
        list_queues,
        list_records,
        export,
        channels,
        delete_vhost,
    )
}


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--cases", default="")
    given = parser.parse_args()
    print("| operation | longest turn, ms | of | all, s |\n|---|---|---|---|")
    for name, case in CASES.items():
        if not re.search(given.cases, name):
            continue
        bench = Bench(given.scale)
        gc.collect()
        gc.disable()
        LONGEST.reset()
        begin = perf_counter()
        case(bench)
        took = perf_counter() - begin
        gc.enable()
        keep("turns", name, longest_ms=LONGEST.milliseconds, seconds=took)
        what = " ".join((case.__doc__ or name).split())
        print(
            f"| {name}: {what} | {LONGEST.milliseconds:.1f} | {LONGEST.who} | {took:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
