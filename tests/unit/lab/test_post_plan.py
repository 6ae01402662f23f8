"""The post as a plan: every run it needs, each as the post had it, and one that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.lab.post_plan import (
    REPLICATED,
    PostClock,
    PostRun,
    PostSettings,
    clear_unfinished,
    duration_text,
    is_done,
    post_runs,
    settle,
)
from sluicemq.lab.scenarios import SCENARIOS

FULL = PostSettings(scale=1.0, step_seconds=20, short=False)
SHORT = PostSettings(scale=0.25, step_seconds=4, short=True)
RUNS = {run.name: run for run in post_runs(REPLICATED, with_profiles=True)}


def planned(name: str, settings: PostSettings = FULL) -> object:
    return RUNS[name].plan(settings, ["amqp://a"], Path("out"))


def test_every_scenario_is_run_in_every_mode_on_both_types() -> None:
    usual = [name for name in RUNS if RUNS[name].profile is None and not RUNS[name].in_memory]
    assert len(usual) == 2 * (5 + 5 + 3)
    for scenario in SCENARIOS:
        for kind in REPLICATED:
            assert f"{scenario.number}-{kind}-no-confirms" in usual
            assert f"{scenario.number}-{kind}-confirms" in usual
            assert (f"{scenario.number}-{kind}-multiple" in usual) == scenario.multiple


def test_what_one_claim_needs_is_run_besides() -> None:
    others = [name for name in RUNS if RUNS[name].profile or RUNS[name].in_memory]
    assert others == [
        "5-quorum-confirms-in-memory",
        "5-quorum-confirms-rabbitmq-3.8.3",
        "5-quorum-confirms-rabbitmq-3.8.4",
    ]
    foreign = [run.name for run in post_runs(REPLICATED, with_profiles=False)]
    assert [name for name in others if name in foreign] == ["5-quorum-confirms-in-memory"]
    assert {run.queue_type for run in post_runs(["mirrored"], with_profiles=True)} == {"mirrored"}


def test_a_run_is_as_the_post_had_it() -> None:
    plan = RUNS["2-quorum-multiple"].plan(FULL, ["amqp://a", "amqp://b"], Path("out"))
    assert (plan.queue_type, plan.declare_arguments["x-max-in-memory-length"]) == ("quorum", 0)
    assert (plan.confirms, plan.ack_interval) == (True, 200)
    assert [each.messages for each in plan.limits if each] == [20, 40, 100, 200, 400, 2000]
    free = RUNS["2-mirrored-no-confirms"].plan(FULL, ["amqp://a"], Path("out"))
    assert (free.confirms, free.ack_interval, free.step_seconds) == (False, 1, 40)
    assert free.declare_arguments == {}
    other = RUNS["5-quorum-confirms-in-memory"].plan(FULL, ["amqp://a"], Path("out"))
    assert other.declare_arguments == {"x-queue-type": "quorum"}
    assert RUNS["5-quorum-confirms-rabbitmq-3.8.3"].profile == "rabbitmq-3.8.3"


@pytest.mark.parametrize(
    ("name", "percents"),
    [
        ("1-quorum-confirms", [1, 10, 100]),
        ("4-quorum-confirms", [5, 10, 100, 200]),
        ("5-mirrored-multiple", [2, 10, 100, 200]),
    ],
)
def test_a_short_post_has_the_limits_that_claims_speak_of(name: str, percents: list[int]) -> None:
    limits = RUNS[name].limits(SHORT)
    assert limits is not None
    assert [limit.percent for limit in limits] == percents
    assert all(limit.messages >= 1 for limit in limits)


def test_multiple_acks_are_multiple_however_small_the_scale() -> None:
    tiny = PostSettings(scale=0.01, step_seconds=4, short=True)
    for name in ("2-quorum-multiple", "4-quorum-multiple", "5-quorum-multiple"):
        if RUNS[name].scenario.rate * tiny.scale >= 2:
            assert RUNS[name].plan(tiny, ["amqp://a"], Path("out")).ack_interval >= 2


def left_behind(directory: Path, stopped: str | None) -> Path:
    directory.mkdir()
    (directory / "run.json").write_text(json.dumps({"stopped": stopped}))
    return directory


def test_what_ran_to_an_end_is_done(tmp_path: Path) -> None:
    assert is_done(left_behind(tmp_path / "a", None))
    assert is_done(left_behind(tmp_path / "b", "a publisher's connection was lost"))
    assert not is_done(left_behind(tmp_path / "c", "interrupted"))
    assert not is_done(tmp_path / "nothing")
    (tmp_path / "c" / "run.json").write_text("{")
    assert not is_done(tmp_path / "c")
    clear_unfinished(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_post_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    begun = settle(tmp_path / "out", FULL, scale=0.5, step_seconds=None, short=None)
    assert begun == PostSettings(scale=0.5, step_seconds=20, short=False)
    assert settle(tmp_path / "out", SHORT) == begun
    assert settle(tmp_path / "out", SHORT, scale=0.5) == begun
    with pytest.raises(Refused, match=r"--step-seconds: the runs in .* were begun with 20, not 4"):
        settle(tmp_path / "out", FULL, step_seconds=4)
    (tmp_path / "out" / "post.json").write_text('{"scale": 1}')
    with pytest.raises(Refused, match=r"post\.json is damaged"):
        settle(tmp_path / "out", FULL)


def test_a_scale_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--scale must be above 0, not 0"):
        settle(tmp_path, FULL, scale=0.0)


def test_the_estimate_learns_from_what_was_seen() -> None:
    runs: list[PostRun] = [RUNS["1-quorum-no-confirms"], RUNS["1-quorum-confirms"]]
    clock = PostClock(SHORT)
    assert clock.estimate_s(runs) == (8 + 12) + 2 * 10
    clock.ran(runs[0], 11.0)
    clock.ran(runs[1], 17.0)
    assert clock.estimate_s(runs) == 20 + 2 * 4
    assert clock.estimate_s([]) == 0


@pytest.mark.parametrize(("seconds", "words"), [(40, "40 s"), (200, "3 min"), (4800, "1 h 20 min")])
def test_estimates_are_in_words(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
