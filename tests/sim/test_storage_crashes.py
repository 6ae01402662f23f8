"""Goal: whatever the moment of a crash, what was promised is there afterwards.

Method: one script that meets every kind of write. At each change of the files the state a crash
would leave is kept; from each a node is started on what is left, after a kill and after a power
loss, drained, and held to the history. The same for crashes while it starts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from sim.crash_bench import BOTH, WORKING, Bench, Facts, Recorder, State, first_state
from sim.first_seeds import is_caught, planted
from sim.storage_canaries import STORAGE_CANARIES
from sluicemq.amqp import methods as m
from sluicemq.sim.records import KILL, POWER, STOP, promise
from support.thorough import thorough

SMALL, LARGE = 60, 500
"""Body sizes below and above what a queue embeds."""

STRIDE = thorough(6, 1)
"""Of so many states that are beside one another one is tried."""

SECOND_EVERY = thorough(150, 15)
"""Of so many first crashes one is followed by crashes at every change of its recovery, in turn a
kill and a power loss."""
FIRST_OF = {KILL: 0, POWER: SECOND_EVERY}


def declare(bench: Bench, facts: Facts) -> None:
    """All that the script needs."""
    admin = bench.hand("admin")
    for name in (*WORKING, "v"):
        admin.ask(m.QueueDeclare(queue=name, durable=True))
        facts.queues[name] = None
    admin.ask(m.QueueDeclare(queue="n"))
    admin.ask(m.ExchangeDeclare(exchange=BOTH, exchange_type="fanout", durable=True))
    for name in WORKING:
        admin.ask(m.QueueBind(queue=name, exchange=BOTH))
    facts.bound = True
    admin.peer.close()


def script(bench: Bench) -> None:
    """Publish, confirm, consume, acknowledge, page out, go on with the next journal file, delete,
    page in."""
    facts = bench.state.facts
    declare(bench, facts)
    publisher = bench.hand("publisher", confirming=True)
    publisher.publish(5, WORKING, SMALL)
    publisher.publish(4, WORKING, LARGE)
    publisher.publish(3, ("a",), SMALL, persistent=False)
    publisher.publish(2, ("n",), SMALL)
    publisher.confirmed()
    consumer = bench.hand("consumer")
    consumer.consume("a", prefetch=4)
    consumer.takes(4)
    consumer.ack(2)
    consumer.takes(4)
    consumer.ack(2, multiple=False)
    consumer.acks_arrive()
    for _ in range(6):
        publisher.publish(3, WORKING, LARGE)
        publisher.publish(4, ("b",), SMALL)
        publisher.publish(2, ("a",), LARGE, persistent=False)
        publisher.confirmed()
    getter = bench.hand("getter")
    getter.get("b", 3, no_ack=True)
    publisher.publish(4, ("v",), SMALL)
    publisher.publish(2, ("v",), LARGE)
    publisher.confirmed()
    bench.rest(300)
    admin = bench.hand("admin again")
    del facts.queues["v"]
    admin.ask(m.QueueDelete(queue="v"))
    admin.ask(m.QueueDeclare(queue="v", durable=True))
    facts.queues["v"] = None
    publisher.publish(3, ("v",), SMALL)
    publisher.publish(6, ("a",), SMALL)  # and nobody waits for its confirms
    consumer.give_back(2)
    consumer.takes(4)
    for _ in range(4):
        consumer.ack(3)
        consumer.takes(4)
        consumer.acks_arrive()
    for _ in range(2):
        publisher.publish(1, WORKING, SMALL)
        publisher.confirmed()
    admin.ask(m.QueuePurge(queue="v"))
    bench.rest(300)
    while len(consumer.held) == 4:
        consumer.ack(4)
        bench.rest(20)
    publisher.publish(2, WORKING, SMALL)
    bench.rest(1500)


def drain(bench: Bench) -> None:
    """Everything that was said to be there is; take all messages out; it still works."""
    facts = bench.state.facts
    admin = bench.hand("heir")
    for name in facts.queues:
        admin.ask(m.QueueDeclare(queue=name, passive=True))
    if facts.bound:
        admin.ask(m.ExchangeDeclare(exchange=BOTH, exchange_type="fanout", passive=True))
    else:
        declare(bench, facts)
    publisher = bench.hand("late publisher", confirming=True)
    publisher.publish(1, WORKING, SMALL)
    publisher.publish(1, WORKING, LARGE)
    publisher.confirmed()
    for name in facts.queues:
        consumer = bench.hand(f"drain {name}")
        consumer.consume(name)
        for _ in range(100):
            if consumer.held:
                consumer.ack(len(consumer.held))
            bench.rest(5)
            answer = admin.ask(m.QueueDeclare(queue=name, passive=True))
            assert isinstance(answer, m.QueueDeclareOk)
            if not (answer.message_count or consumer.held):
                break
        promise(not consumer.held, name, "is not drained")
    for peer in list(bench.peers):
        peer.close()
    bench.until(lambda: not bench.peers, "all leave")
    bench.state.book.all_is_well()


def fall(state: State, kind: str, seed: int) -> State:
    """The crash: `state` becomes what is left."""
    if kind == KILL:
        state.files.kill()
    else:
        state.files.crash(Random(seed))
    state.book.crash(kind)
    return state


def live() -> list[State]:
    """The states before each change of the script, and the one at its end."""
    recorder = Recorder(first_state())
    bench = Bench(recorder.state)
    script(bench)
    recorder.state.files.before = None
    return [*recorder.states, recorder.state.copy()]


@cache
def lived() -> list[State]:
    """The same, once."""
    return live()


@cache
def stopped() -> list[State]:
    """The same of an orderly stop."""
    state = first_state()
    bench = Bench(state)
    script(bench)
    recorder = Recorder(state)
    bench.stop()
    state.files.before = None
    return [*recorder.states, state]


def common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    most = min(len(one), len(other))
    return bisect_left(range(most), True, key=lambda at: one[: at + 1] != other[: at + 1])


def halves(states: list[State]) -> list[State]:
    """Where a write was under way: the states in which half of it has happened."""
    found: list[State] = []
    for before, after in pairwise(states):
        if before.action != "write":
            continue
        there = before.files.inodes.get(before.path)
        old = bytes(there.data) if there else b""
        new = bytes(after.files.inodes[before.path].data)
        start = common(old, new)
        if start < len(new):
            last = len(new) - 1 - (common(old[::-1], new[::-1]) if len(old) == len(new) else 0)
            end = (start + last) // 2
            half = before.copy()
            half.files.write(before.path, start, new[start:end])
            found.append(half)
    return found


Left = tuple[frozenset[tuple[str, bytes]], frozenset[str]]


def left_by_kill(state: State) -> Left:
    """Files and directories. A sync changes none of them, so one kill stands for several."""
    files = state.files.copy()
    files.kill()
    contents = ((path, bytes(inode.data)) for path, inode in files.inodes.items())
    return frozenset(contents), frozenset(files.directories)


def unlike(states: Iterable[tuple[int, State]]) -> list[tuple[int, State]]:
    """Without those that a kill leaves as it leaves another, with clients that know the same."""
    found: dict[tuple[Left, bytes], tuple[int, State]] = {}
    for n, state in states:
        found.setdefault((left_by_kill(state), state.known()), (n, state))
    return [*found.values()]


def outcome(state: State, kind: str, seed: int) -> str:
    """Fall, start, drain; what is wrong, or "". Every other time the power goes once more as soon
    as the node has started."""
    try:
        bench = Bench(fall(state, kind, seed), seed)
        if seed % 2:
            bench = Bench(fall(bench.state, POWER, seed), seed + 1)
        drain(bench)
    except Exception as error:  # whatever is raised in there is a finding
        return f"{kind} before {state.action} {state.path}: {type(error).__name__}: {error}"
    return ""


def test_the_script_meets_every_kind_of_change() -> None:
    actions = {(state.action, state.path.partition("/")[0]) for state in lived()}
    assert {
        ("write", "journal"),
        ("sync", "journal"),
        ("delete", "journal"),
        ("write", "queues"),
        ("sync", "queues"),
        ("rename", "checkpoint"),
        ("write", "messages"),
        ("sync", "messages"),
    } <= actions


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change(kind: str) -> None:
    states = [*enumerate(lived())]
    if kind == KILL:
        states = unlike(enumerate([*lived(), *halves(lived())]))
    states = states[::STRIDE]
    texts = [outcome(state.copy(), kind, n) for n, state in states]
    found = [f"{n}: {text}" for (n, _), text in zip(states, texts, strict=True) if text]
    assert not found, f"{len(found)} of {len(states)}\n" + "\n".join(found[:10])


@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change_of_an_orderly_stop(kind: str) -> None:
    texts = [outcome(state.copy(), kind, n) for n, state in enumerate(stopped())]
    assert not any(texts), texts


def test_after_an_orderly_stop_everything_is_there_even_if_the_power_goes() -> None:
    assert [outcome(stopped()[-1].copy(), STOP, seed) for seed in range(6)] == [""] * 6


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change_of_the_recovery_from_a_crash(kind: str) -> None:
    found = []
    tried = 0
    for n in range(FIRST_OF[kind], len(lived()), 2 * SECOND_EVERY):
        state = lived()[n]
        left = fall(state.copy(), kind, n)
        recorder = Recorder(left)
        bench = Bench(left, n)
        left.files.before = None
        assert bench.node
        killed: set[Left] = set()
        for second in recorder.states:
            tried += 1
            kinds = [POWER] if left_by_kill(second) in killed else [KILL, POWER]
            killed.add(left_by_kill(second))
            for again in kinds:
                text = outcome(second.copy(), again, tried)
                if text:
                    found.append(f"{n} {kind} before {state.action}, then {text}")
    assert tried, "a recovery changes something"
    assert not found, f"{len(found)} of {tried}\n" + "\n".join(found[:10])


@pytest.mark.parametrize("name", STORAGE_CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    with planted(STORAGE_CANARIES[name]):
        states = live()

    def fails(crash: int) -> str:
        n, kind = divmod(crash, 2)
        with planted(STORAGE_CANARIES[name]):
            return outcome(states[n].copy(), (POWER, KILL)[kind], n)

    found = is_caught(f"storage: {name}", range(2 * len(states)), fails, rewrite)
    assert found, f"{name} was not noticed in {2 * len(states)} crashes"
