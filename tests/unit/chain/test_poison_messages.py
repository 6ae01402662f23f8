"""Goal: a message that its queue cannot handle makes it fault twice and no more: then it is in the
quarantine, the queue goes on without it, and so does every broker after this one. At no moment is
it in neither.

Method: a whole node; what makes something of a message is made to raise when its content has a
word in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.queue import delivery_counts
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.death_headers import DeadLetterHeaders
from sluicemq.chain.queue.poison_messages import unmanageable
from sluicemq.chain.republish import delayer
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.config import Config
from sluicemq.limits import CRASH_WINDOW_NS, SUSPECTS_MAX
from sluicemq.storage import quarantine
from sluicemq.storage.fsck import Check
from sluicemq.storage.inspection import BODY_SHOWN, inspect
from support.files import DictFiles

from .client import NO_PROPERTIES, PERSISTENT, Broker, Client
from .test_queue_timers import declare, pass_time, to
from .test_transactions import found_after_a_crash

POISON = b"poison"
CHANGES = ("write", "truncate", "sync", "sync_directory", "rename", "delete")


class Mistake(Exception):
    """One of ours."""


def raising(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, says: Callable[..., bytes]
) -> None:
    """That method, or function, cannot handle a content with the word in it."""
    original = getattr(where, name)

    def method(*arguments: Any) -> Any:
        if POISON in says(*arguments):
            raise Mistake(f"in {name}")
        return original(*arguments)

    monkeypatch.setattr(where, name, method)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dead letter can be made of it."""
    raising(monkeypatch, DeadLetterHeaders, "letter", lambda _, content: content)


class Bench(Broker):
    """Dead letters of "q" go to "dead"; what is said is kept."""

    def __init__(self, config: Config | None = None, files: DictFiles | None = None) -> None:
        super().__init__(config, files)
        self.said: list[str] = []
        self.world.log.write = lambda _, text: self.said.append(text)  # type: ignore[method-assign]
        self.client = self.connect()
        self.client.open(1)

    def declare(self) -> None:
        declare(self.client, "dead", durable=True)
        declare(self.client, "q", durable=True, message_ttl=50, **to("dead"))
        self.client.call(1, m.ConfirmSelect())

    def publish(self, *bodies: bytes) -> None:
        self.client.publish(1, "q", *bodies, raw=PERSISTENT)
        self.wait()

    @property
    def vhost(self) -> VirtualHost:
        return self.node.broker.vhosts["/"]

    def queue(self, name: str) -> ClassicShell:
        queue = self.vhost.queues[name]
        assert isinstance(queue, ClassicShell)
        return queue

    def state(self, name: str = "q") -> str:
        return self.queue(name).state(self.world.clock.now_ns())

    def ready(self, name: str) -> int:
        return self.queue(name).machine.depth.ready

    def kept(self) -> list[str]:
        return self.world.disk.files.names("quarantine")

    def crashes(self) -> int:
        return sum("has crashed: " in text for text in self.said)

    def expire(self) -> None:
        """What is in "q" dies, with all that follows."""
        pass_time(self, 60)
        self.wait()


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("large", [False, True])
def test_what_cannot_be_dead_lettered_is_set_aside_after_the_second_fault(large: bool) -> None:
    bench = Bench()
    bench.declare()
    filler = b"." * (5000 if large else 1)
    bench.publish(b"1" + filler, POISON + filler, b"2" + filler)
    bench.expire()
    assert bench.crashes() == 2
    assert bench.state() == "running"
    assert (bench.ready("q"), bench.ready("dead")) == (0, 2)
    [name] = bench.kept()
    path = f"quarantine/{name}"
    assert name == f"{bench.queue('q').id}-1.poison"
    size = len(content_frames(1, PERSISTENT, POISON + filler, 131072))
    assert (
        f"queue 'q' in vhost '/' cannot handle its message at position 1, published to exchange ''"
        f" with routing key 'q' ({size} bytes): it is set aside in {path}"
    ) in bench.said
    files = bench.world.disk.files
    aside, run, properties, body = inspect(files.content(path)).records[0].contents
    assert (aside["queue_name"], aside["vhost"]) == ("q", "/")
    assert aside["fault"] == "Mistake: in letter"
    assert (run["routing_key"], run["bytes"]) == ("q", size)
    assert properties == {"entry": "properties", "delivery_mode": "2"}
    assert body["bytes"] == len(POISON + filler)
    assert body["begins"].startswith(POISON.decode())
    notes = [note.text for note in Check(files).run().notes if note.path == path]
    assert notes == [
        "is a message that queue 'q' in vhost '/' cannot handle: position 1, exchange '',"
        f" routing key 'q', {size} bytes"
    ]
    ids = bench.node.broker.store.persistent.valid_bytes
    assert bool(ids) == large  # those in "dead"
    assert bench.node.broker.accounted_bytes == bench.queue("dead").machine.depth.footprint
    assert found_after_a_crash(bench, "q", "dead") == [[], [b"1" + filler, b"2" + filler]]


@pytest.mark.usefixtures("letters")
def test_it_does_not_come_back_after_a_restart_nor_does_its_body() -> None:
    bench = Bench()
    bench.declare()
    bench.publish(POISON + b"." * 5000)
    bench.expire()
    bench.stop()
    files = bench.world.disk.files
    assert Check(files).run().findings == []
    again = Bench(files=files)
    again.expire()
    assert (again.crashes(), again.ready("q"), len(again.kept())) == (0, 0, 1)
    assert again.node.broker.store.persistent.valid_bytes == 0


@pytest.mark.usefixtures("letters")
def test_one_that_is_there_at_a_start_is_set_aside_by_the_node_that_finds_it() -> None:
    bench = Bench()
    bench.declare()
    bench.publish(b"1", POISON, b"2")
    again = Bench(files=bench.world.disk.files.crash())
    again.expire()
    assert again.crashes() == 2
    assert (again.ready("q"), again.ready("dead"), len(again.kept())) == (0, 2, 1)


@pytest.mark.usefixtures("letters")
def test_several_are_set_aside_one_after_the_other_or_together() -> None:
    bench = Bench()
    bench.declare()
    bench.publish(*[POISON + b"%d" % n for n in range(3)], b"1")
    bench.publish(b"2" * 20, POISON * 3)
    bench.expire()
    assert (bench.state(), bench.ready("q"), len(bench.kept())) == ("running", 0, 4)
    assert set(found_after_a_crash(bench, "dead")[0]) == {b"1", b"2" * 20}


@pytest.mark.usefixtures("letters")
def test_many_that_cannot_be_handled_are_no_fault_of_theirs() -> None:
    bench = Bench()
    bench.declare()
    bench.publish(*[POISON] * (SUSPECTS_MAX + 1))
    bench.expire()
    assert (bench.state(), bench.crashes(), bench.kept()) == ("crashed", 2, [])


def test_nor_is_a_fault_that_comes_with_any_message(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, DeadLetterHeaders, "letter", lambda *_: POISON)
    bench = Bench()
    bench.declare()
    bench.publish(b"harmless")
    bench.expire()
    assert (bench.state(), bench.crashes(), bench.kept()) == ("crashed", 2, [])
    assert found_after_a_crash(bench, "q") == [[b"harmless"]]


def test_the_second_fault_may_be_much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.declare()
    bench.publish(POISON)
    with monkeypatch.context() as patch:
        raising(patch, DeadLetterHeaders, "letter", lambda _, content: content)
        clock = bench.world.clock
        clock.time_ns += 60 * 10**6
        bench.queue("q").schedule()
        bench.node.run(1)
        assert bench.queue("q").crash is not None
    queue = bench.queue("q")
    faults = bench.vhost.crashes["q"]
    assert faults.accused == {(queue.id, 0)}
    [wanted] = [quarantine.Wanted(0, b"")]
    later_ns = clock.time_ns + 10 * CRASH_WINDOW_NS
    assert faults.judge(later_ns, queue.id, [wanted], []) == ("recovering", [wanted])
    assert faults.judge(later_ns, queue.id, [wanted], []) == ("recovering", [])


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("bound", ["QUARANTINE_MESSAGES_MAX", "QUARANTINE_BYTES_MAX"])
def test_without_room_the_queue_stays_down_with_all_its_messages(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(quarantine, bound, 1 if bound == "QUARANTINE_MESSAGES_MAX" else 500)
    bench = Bench()
    bench.declare()
    bench.publish(POISON)
    bench.expire()
    assert (bench.state(), len(bench.kept())) == ("running", 1)
    bench.publish(POISON + b"." * 300, b"1")
    bench.expire()
    assert (bench.state(), len(bench.kept())) == ("crashed", 1)
    assert any("the quarantine has no room besides its 1 messages" in text for text in bench.said)
    assert found_after_a_crash(bench, "q") == [[POISON + b"." * 300, b"1"]]


@pytest.mark.usefixtures("letters")
def test_a_transient_one_is_gone_after_the_first_fault() -> None:
    bench = Bench()
    bench.declare()
    bench.client.publish(1, "q", POISON)
    bench.publish(b"1")
    bench.expire()
    assert (bench.crashes(), bench.kept()) == (1, [])
    assert (bench.state(), bench.ready("dead")) == ("running", 1)


def test_what_cannot_be_routed_as_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, Republisher, "way_by", lambda _, __, letter: letter.content)
    bench = Bench()
    bench.declare()
    bench.publish(b"1", POISON, b"2")
    bench.expire()
    assert (bench.state(), bench.crashes(), len(bench.kept())) == ("running", 2, 1)
    assert (bench.ready("q"), bench.ready("dead")) == (0, 2)


@pytest.mark.parametrize("by_get", [False, True])
def test_what_cannot_be_counted(monkeypatch: pytest.MonkeyPatch, by_get: bool) -> None:
    raising(monkeypatch, delivery_counts, "marked", lambda content, _: content)
    bench = Bench()
    declare(bench.client, "q", durable=True, delivery_limit=5)
    bench.publish(b"1", POISON, b"2")
    for crashes in (1, 2):
        consumer = bench.connect()
        consumer.open(1)
        take = [m.BasicGet(queue="q")] * 3 if by_get else [m.BasicConsume(queue="q")]
        consumer.send(1, *take)
        consumer.send(1, m.BasicRecover(requeue=True))  # then each comes with its count
        consumer.send(1, *take[1:2])
        consumer.send(1, *take[1:2])
        bench.wait()
        assert bench.crashes() == crashes
        consumer.lose()
    assert (bench.state(), len(bench.kept()), bench.ready("q")) == ("running", 1, 2)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("by_get", [False, True])
def test_what_cannot_be_counted_for_who_acknowledges_nothing(
    monkeypatch: pytest.MonkeyPatch, by_get: bool, persistent: bool
) -> None:
    """It is out at nobody when that fails. A transient one is gone after the first time."""
    raising(monkeypatch, delivery_counts, "marked", lambda content, _: content)
    bench = Bench()
    declare(bench.client, "q", durable=True, delivery_limit=5)
    bench.client.publish(1, "q", POISON, raw=PERSISTENT if persistent else NO_PROPERTIES)
    bench.publish(b"2")
    for crashes in (1, 2) if persistent else (1, 1):
        first = bench.connect()
        first.open(1)
        first.send(1, m.BasicConsume(queue="q"))
        first.lose()
        consumer = bench.connect()
        consumer.open(1)
        if by_get:
            consumer.send(1, m.BasicGet(queue="q", no_ack=True))
        else:
            consumer.send(1, m.BasicConsume(queue="q", no_ack=True))
        bench.wait()
        assert bench.crashes() == crashes
        consumer.lose()
    assert (bench.state(), len(bench.kept())) == ("running", int(persistent))
    assert bench.ready("q") == int(persistent)


def declare_delaying(client: Client) -> None:
    """ "x", which delays, and "q" behind it by the key "k"."""
    kind = {"x-delayed-type": "direct"}
    client.call(
        1,
        m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=kind),
        m.QueueDeclare("q", durable=True),
        m.QueueBind("q", "x", "k"),
    )


@pytest.mark.parametrize("function", ["letter_of", "traits_and_channel"])
def test_what_cannot_leave_an_exchange_that_delays(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    raising(monkeypatch, delayer, function, lambda due: due.content)
    bench = Bench()
    client = bench.client
    declare_delaying(client)
    raw = BasicProperties(delivery_mode=2, headers={"x-delay": 10}).encode()
    head = m.BasicPublish(exchange="x", routing_key="k").frame(1)
    bodies = (b"1", POISON, b"2")
    client.send_bytes(b"".join(head + content_frames(1, raw, body, 131072) for body in bodies))
    bench.wait()
    for _ in range(5):
        pass_time(bench, 1000)
        bench.wait()
    assert (bench.crashes(), len(bench.kept()), bench.ready("q")) == (2, 1, 2)
    [name] = bench.kept()
    contents = inspect(bench.world.disk.files.content(f"quarantine/{name}")).records[0].contents
    assert contents[0]["delayed_until_ms"] == 10**6 + 10
    assert contents[1]["routing_key"] == "k"
    assert contents[3]["begins"] == POISON.decode()


def bodies_in(files: DictFiles) -> list[str]:
    """What the quarantine has whole."""
    found: list[str] = []
    for name in files.names("quarantine"):
        records = inspect(files.content(f"quarantine/{name}")).records
        found += [record.contents[3]["begins"] for record in records]
    return found


def killed(files: DictFiles) -> DictFiles:
    """What is there when the process was killed: all that was written."""
    after = DictFiles()
    after.directories = set(files.directories)
    for name, node in files.files.items():
        after.put(name, bytes(node.data))
    after.actions.clear()
    return after


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(("large", "power"), [(False, True), (True, False)])
def test_at_no_moment_is_it_in_neither(
    monkeypatch: pytest.MonkeyPatch, large: bool, power: bool
) -> None:
    """A crash before each change of the files, and from each of them on, once more."""
    poison = POISON + b"." * (5000 if large else 1)
    shown = poison[:BODY_SHOWN].decode()
    bench = Bench()
    bench.declare()
    bench.publish(b"1", poison, b"2")
    states: list[DictFiles] = []
    files = bench.world.disk.files

    def keep(action: str, _: str) -> None:
        if action in CHANGES:
            states.append(files.crash() if power else killed(files))

    files.fail = keep
    bench.expire()
    files.fail = None
    assert len(bench.kept()) == 1 and len(states) > 10
    monkeypatch.undo()
    some = moved = 0
    for state in states:
        whole = bodies_in(state)
        after = Bench(files=state)
        after.expire()
        pass_time(after, 60_000)
        after.wait()
        dead = found_after_a_crash(after, "q", "dead")
        assert dead[0] == []
        assert {b"1", b"2"} <= {*dead[1]}
        assert poison in dead[1] or shown in bodies_in(after.world.disk.files)
        some += poison in dead[1]
        moved += poison not in dead[1] and whole == [shown]
    assert some and moved


def test_a_plain_item_that_fails_too_accuses_nobody() -> None:
    def handle(item: int) -> float:
        return 1 / item

    assert unmanageable(handle, [1, 0, 2], 1) == [1]
    assert unmanageable(handle, [1, 0, 2], 0) == []
    assert unmanageable(handle, [0] * (SUSPECTS_MAX + 1), 1) == []


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("left", [0, 63, 64, 150])
def test_one_whose_file_was_cut_off_is_noted_as_that(left: int) -> None:
    bench = Bench()
    bench.declare()
    bench.publish(POISON)
    bench.expire()
    files = bench.world.disk.files
    path = f"quarantine/{bench.kept()[0]}"
    cut = files.content(path)[:left]
    files.put(path, cut)
    verdict = Check(files).run()
    [note] = [note.text for note in verdict.notes if note.path == path]
    assert note.startswith("a message that was to be set aside cannot be read there: ")
    assert verdict.findings == []
    found = inspect(cut)
    assert found.records == []
    assert found.is_sound == (left >= 64)  # what is torn was never written
