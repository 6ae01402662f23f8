"""Goal: whatever the moment of a crash, each Raft member finds what it was told is durable, whole.

Method: members of several groups write by chance; at each change of the files the state that a
crash would leave is kept; from each a node is started on what is left, after a kill and after a
power loss, and held to what the members know. The same for crashes while it starts.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from sim.crash_bench import Recorder, State
from sim.first_seeds import is_caught, planted
from sim.raft_storage_bench import RaftBench, first_raft_state
from sim.raft_storage_canaries import RAFT_STORAGE_CANARIES
from sim.test_storage_crashes import fall, halves, unlike
from sluicemq.sim.records import KILL, POWER
from sluicemq.storage.fsck import Check
from sluicemq.storage.raft import live_places
from sluicemq.storage.raft.codec import NO_FILE
from sluicemq.storage.raft.segment_file import raft_segment_path, read_raft_segment
from sluicemq.storage.raft.snapshot_file import raft_snapshot_path
from support.thorough import thorough

STEPS = 32
TRIED = thorough(6, 1)
"""Of so many states that are beside one another one is tried."""

SECOND_EVERY = thorough(160, 40)
"""Of so many first crashes one is followed by crashes at every change of its recovery."""
CANARY_SEEDS = (2, 3, 1, 4, 5, 6)
LATE = ("trimmed_to_what_an_earlier_snapshot_says", "trimmed_for_a_snapshot_that_does_not_say_how")
LATE_STEPS = 80
"""They show when segments are rewritten for the second time."""
STATES_MAX = 1000
"""No run of a canary's has more states."""
CANARY_STATES = sorted(range(STATES_MAX), key=lambda n: n % 7)
"""States that are beside one another are alike: a bug is looked for in every seventh first."""


@pytest.fixture(autouse=True)
def small_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside what is guessed for heads nothing would be worth a rewrite."""
    for name in ("ENTRY_BYTES", "MESSAGE_BYTES"):
        monkeypatch.setattr(live_places, name, 0)


def live(seed: int = 1, steps: int = STEPS) -> list[State]:
    """The states before each change, and the one at the end."""
    recorder = Recorder(first_raft_state())
    RaftBench(recorder.state, seed).live(steps, Random(seed))
    recorder.state.files.before = None
    return [*recorder.states, recorder.state.copy()]


@cache
def lived() -> list[State]:
    """The same, once."""
    return live()


def outcome(state: State, kind: str, seed: int) -> str:
    """Fall, start, go on; what is wrong, or "". Some stop in order and start once more."""
    try:
        bench = RaftBench(fall(state, kind, seed), seed)
        bench.live(2, Random(seed))
        if not seed % 3:
            bench.stop()
        bench = RaftBench(fall(bench.state, POWER, seed), seed + 1)
        findings = Check(bench.state.files).run().findings
        assert not findings, findings
    except Exception as error:  # whatever is raised in there is a finding
        return f"{kind} before {state.action} {state.path}: {type(error).__name__}: {error}"
    return ""


def test_the_members_meet_every_kind_of_change() -> None:
    actions = {(state.action, state.path.partition("/")[0]) for state in lived()}
    assert {
        ("write", "journal"),
        ("sync", "journal"),
        ("delete", "journal"),
        ("write", "raft"),
        ("sync", "raft"),
        ("sync_directory", "raft"),
        ("delete", "raft"),
        ("rename", "checkpoint"),
    } <= actions


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change(kind: str) -> None:
    states = [*enumerate(lived())]
    if kind == KILL:
        states = unlike(enumerate([*lived(), *halves(lived())]))
    states = states[::TRIED]
    texts = [outcome(state.copy(), kind, n) for n, state in states]
    found = [f"{n}: {text}" for (n, _), text in zip(states, texts, strict=True) if text]
    assert not found, f"{len(found)} of {len(states)}\n" + "\n".join(found[:10])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KILL, POWER])
def test_a_crash_at_every_change_of_the_recovery_from_a_crash(kind: str) -> None:
    found = []
    tried = 0
    for n, state in enumerate(lived()[::SECOND_EVERY]):
        left = fall(state.copy(), kind, n)
        recorder = Recorder(left)
        RaftBench(left, n)
        left.files.before = None
        for second in recorder.states:
            tried += 1
            text = outcome(second.copy(), (KILL, POWER)[tried % 2], tried)
            if text:
                found.append(f"{n * SECOND_EVERY} {kind} before {state.action}, then {text}")
    assert tried, "a recovery changes something"
    assert not found, f"{len(found)} of {tried}\n" + "\n".join(found[:10])


def test_files_that_nobody_needs_go_while_the_node_runs() -> None:
    state = first_raft_state()
    bench = RaftBench(state, 3)
    bench.live(STEPS, Random(3))
    bench.until(lambda: not bench.store.raft.rewriting, "segments are rewritten")
    bench.rest(500)
    table = bench.store.raft.table
    needed = {
        raft_segment_path(group.id, segment.number)
        for group in table.groups.values()
        for segment in group.segments
    }
    needed |= {
        raft_snapshot_path(group.id, group.snapshot.index)
        for group in table.groups.values()
        if group.snapshot_file != NO_FILE
    }
    needed |= {path for _, gone in bench.store.raft.superseded for path in gone.paths}
    there = {path for path in state.files.inodes if path.startswith("raft/")}
    assert there == needed
    assert max(group.next_segment for group in table.groups.values()) > 2, "some have gone"


def test_segments_are_rewritten() -> None:
    bench = RaftBench(first_raft_state(), 1)
    rewrites = []
    original = bench.store.raft.rewritten
    bench.store.raft.rewritten = lambda job: (rewrites.append(job), original(job))
    bench.live(4 * STEPS, Random(1))
    made = [(job.group, job.made) for job in rewrites if job.made is not None]
    assert len(made) > 1
    found = [read_raft_segment(bench.state.files, *each) for each in made]
    assert any(each.last_trimmed for each in found), "and entries trimmed"


def test_members_read_what_they_need_while_they_write() -> None:
    bench = RaftBench(first_raft_state(), 1)
    bench.live(3 * STEPS, Random(3))
    bench.rest(200)
    assert bench.reads > 20


def test_with_a_damaged_checkpoint_the_one_before_finds_all_files() -> None:
    """Nothing is deleted that it needs; but who knows what was said since."""
    for n, state in enumerate(lived()[20::12]):
        files = fall(state.copy(), KILL, n).files
        names = [name for name in files.names("checkpoint") if name.endswith(".ckp")]
        if len(names) < 2:
            continue
        path = f"checkpoint/{max(names)}"
        files.flip(path, files.size(path) - 1)
        assert Check(files).run().losses == [], n


def test_a_full_disk_only_takes_time() -> None:
    state = first_raft_state()
    bench = RaftBench(state)
    random = Random(5)
    bench.live(10, random)
    for _ in range(6):
        state.files.capacity = state.files.used + random.randint(0, 600)
        for member in bench.facts.members.values():
            bench.append(member, random)
        bench.rest(50)
        state.files.capacity = None
        bench.until(bench.settled, "appends are durable once there is space")
        bench.live(3, random)
    assert bench.ear.refusals == []
    assert outcome(state, POWER, 1) == ""


@pytest.mark.parametrize("seed", range(6))
def test_after_a_failed_sync_nothing_is_said_to_be_durable(seed: int) -> None:
    state = first_raft_state()
    bench = RaftBench(state, seed)
    random = Random(seed)
    bench.live(5 + seed, random)
    state.files.sync_failures = 1
    for member in bench.facts.members.values():
        bench.append(member, random)
    bench.until(lambda: bool(bench.store.storage_failed), "the storage has failed")
    bench.rest(100)
    known = {key: member.acked for key, member in bench.facts.members.items()}
    for member in bench.facts.members.values():
        bench.append(member, random)
    bench.rest(100)
    assert bench.ear.refusals
    assert known == {key: member.acked for key, member in bench.facts.members.items()}
    assert outcome(state, POWER, seed) == ""


@pytest.mark.parametrize("name", RAFT_STORAGE_CANARIES)
def test_a_planted_bug_is_caught(name: str, rewrite: bool) -> None:
    lives: dict[int, list[State]] = {}

    def states(seed: int) -> list[State]:
        with planted(RAFT_STORAGE_CANARIES[name]):
            return live(seed, LATE_STEPS if name in LATE else 20)

    def fails(crash: int) -> object:
        seed, n = divmod(crash, STATES_MAX)
        try:
            found = lives[seed] = lives.get(seed) or states(seed)
        except Exception:
            return True
        with planted(RAFT_STORAGE_CANARIES[name]):
            return n < len(found) and outcome(found[n].copy(), (POWER, KILL)[n % 2], n)

    crashes = [seed * STATES_MAX + n for seed in CANARY_SEEDS for n in CANARY_STATES]
    found = is_caught(f"Raft storage: {name}", crashes, fails, rewrite)
    assert found, f"{name} was not noticed in {len(crashes)} crashes"
