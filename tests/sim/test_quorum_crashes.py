"""Goal: whatever the moment of a crash, a node with quorum queues starts, and has every message
once that was confirmed and nobody is done with; nobody gets again what was settled durably.

Method: clients do everything by chance, on files so small that there are snapshots, checkpoints and
rewrites all the time; at each change of the files the state that a crash would leave is kept; from
each a node is started on what is left, after a kill and after a power loss, drained, and held to
what clients know. The same for crashes while it starts.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from sim.crash_bench import Recorder, State
from sim.first_seeds import is_caught, planted
from sim.quorum_bench import QUORUM, QuorumBench, first_quorum_state
from sim.quorum_canaries import QUORUM_CANARIES
from sim.test_storage_crashes import fall, halves
from sluicemq.chain.queue.quorum import deliveries
from sluicemq.chain.queue.quorum import shell as shell_module
from sluicemq.sim.messages import PERSISTENT
from sluicemq.sim.records import KILL, POWER
from sluicemq.storage.fsck import Check
from sluicemq.storage.raft import live_places
from support.thorough import thorough

STEPS = 90
SEEDS = (1, 2, 3, 4)
STRIDE = thorough(32, 4)
"""Of so many states that are beside one another one is tried, of each run another one."""
SECOND_EVERY = thorough(320, 80)
"""Of so many first crashes one is followed by crashes while the node starts."""
SECOND_STRIDE = 2
CANARY_SEEDS = (1, 3, 2, 5)
STATES_MAX = 1000
"""No run of a canary's has more states."""
CANARY_STATES = range(0, STATES_MAX, 7)
"""States that are beside one another are alike: a bug is looked for in every seventh."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are snapshots and rewrites all the time, and bodies are read back."""
    for name in ("ENTRY_BYTES", "MESSAGE_BYTES"):  # beside these nothing would be worth a rewrite
        monkeypatch.setattr(live_places, name, 0)
    monkeypatch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 8)
    monkeypatch.setattr(deliveries, "QUORUM_BODIES_BYTES", 400)
    monkeypatch.setattr(deliveries, "QUORUM_READ_BYTES", 400)


def live(seed: int, steps: int = STEPS) -> list[State]:
    """The states before each change, and the one at the end."""
    recorder = Recorder(first_quorum_state())
    bench = QuorumBench(recorder.state, seed)
    bench.live(steps, Random(seed))
    bench.without_errors()
    recorder.state.files.before = None
    return [*recorder.states, recorder.state.copy()]


@cache
def lived(seed: int) -> list[State]:
    """The same, once."""
    return live(seed)


def outcome(state: State, kind: str, seed: int) -> str:
    """Fall, start, drain; what is wrong, or "". Every other time the power goes once more as soon
    as the node has started."""
    try:
        bench = QuorumBench(fall(state, kind, seed), seed)
        if seed % 2:
            bench = QuorumBench(fall(bench.state, POWER, seed), seed + 1)
        bench.drain()
        findings = Check(bench.state.files).run().findings
        assert not findings, findings
    except Exception as error:  # whatever is raised in there is a finding
        return f"{kind} before {state.action} {state.path}: {type(error).__name__}: {error}"
    return ""


def test_the_clients_meet_every_kind_of_change() -> None:
    actions = {(state.action, state.path.partition("/")[0]) for state in lived(1)}
    assert {
        ("write", "journal"),
        ("sync", "journal"),
        ("delete", "journal"),
        ("write", "raft"),
        ("sync", "raft"),
        ("delete", "raft"),
        ("rename", "checkpoint"),
        ("write", "queues"),
    } <= actions


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change(kind: str, seed: int) -> None:
    """Of several runs; those of one are tried in turns by the kinds of crash."""
    states = lived(seed) if kind == POWER else [*lived(seed), *halves(lived(seed))]
    chosen = [*enumerate(states)][seed % STRIDE :: STRIDE]
    texts = [outcome(state.copy(), kind, n) for n, state in chosen]
    found = [f"{n}: {text}" for (n, _), text in zip(chosen, texts, strict=True) if text]
    assert not found, f"{len(found)} of {len(texts)}\n" + "\n".join(found[:10])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change_of_the_recovery_from_a_crash(kind: str) -> None:
    found = []
    tried = 0
    for n, state in enumerate(lived(1)[::SECOND_EVERY]):
        left = fall(state.copy(), kind, n)
        recorder = Recorder(left)
        QuorumBench(left, n).rest(20)
        left.files.before = None
        for second in recorder.states[::SECOND_STRIDE]:
            tried += 1
            text = outcome(second.copy(), (KILL, POWER)[tried % 2], tried)
            if text:
                found.append(f"{n * SECOND_EVERY} {kind} before {state.action}, then {text}")
    assert tried, "a recovery changes something"
    assert not found, f"{len(found)} of {tried}\n" + "\n".join(found[:10])


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_only_takes_time(seed: int) -> None:
    state = first_quorum_state()
    bench = QuorumBench(state, seed)
    random = Random(seed)
    bench.live(20, random)
    by, consumer = bench.new_hand(), bench.new_hand(confirming=False)
    consumer.consume("paged", 4)
    for _ in range(5):
        state.files.capacity = state.files.used + random.randint(0, 600)
        for queue in QUORUM:
            by.publish(queue, 3, 200, PERSISTENT)
        consumer.ack(2)
        bench.rest(50)
        state.files.capacity = None
        by.confirmed()
        consumer.sure()
    assert outcome(state, POWER, seed) == ""


@pytest.mark.parametrize("seed", range(6))
def test_after_a_failed_sync_nothing_is_confirmed(seed: int) -> None:
    state = first_quorum_state()
    bench = QuorumBench(state, seed)
    bench.live(10 + seed, Random(seed))
    by = bench.new_hand()
    bench.storage_may_fail = True
    state.files.sync_failures = 1
    for queue in QUORUM:
        by.publish(queue, 2, 60, PERSISTENT)
    bench.until(lambda: bool(bench.node.broker.store.storage_failed), "the storage has failed")
    bench.rest(100)
    known = len(bench.confirmed)
    for queue in QUORUM:
        by.publish(queue, 2, 60, PERSISTENT)
    bench.rest(200)
    assert len(bench.confirmed) == known
    assert outcome(state, POWER, seed) == ""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", QUORUM_CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    lives: dict[int, list[State]] = {}

    def states(seed: int) -> list[State]:
        with planted(QUORUM_CANARIES[name]):
            return live(seed)

    def fails(crash: int) -> object:
        seed, n = divmod(crash, STATES_MAX)
        try:
            found = lives[seed] = lives.get(seed) or states(seed)
        except Exception:
            return True
        with planted(QUORUM_CANARIES[name]):
            return n < len(found) and outcome(found[n].copy(), (POWER, KILL)[n % 2], n)

    crashes = [seed * STATES_MAX + n for seed in CANARY_SEEDS for n in CANARY_STATES]
    found = is_caught(f"quorum crashes: {name}", crashes, fails, rewrite)
    assert found, f"{name} was not noticed in {len(crashes)} crashes"
