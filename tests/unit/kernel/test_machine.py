"""Goal: a replicated state can be taken over at any entry, names what it still needs of its log,
and no more, and is the same in each member. Method: an Echo, against a second one that was restored
on the way, under random commands.
"""

from __future__ import annotations

from random import Random

import pytest

from support.echo import Echo, EchoCommand, Keep, LetGo, Say

SEEDS = 100
ENTRIES = 60


def command(dice: Random, echo: Echo, number: int) -> EchoCommand:
    kind = dice.choice(("say", "keep", "let go"))
    if kind == "keep":
        return Keep(f"kept {number}", dice.randrange(4))
    if kind == "let go" and echo.kept:
        index = dice.choice([*echo.kept])
        return LetGo(index, dice.choice([*echo.kept[index]]))
    return Say(f"said {number}")


def entered(echo: Echo, index: int, stamp_ms: int, what: EchoCommand) -> list[str]:
    echo.entered(index, stamp_ms)
    effects: list[str] = []
    echo.apply(what, effects)
    return effects


@pytest.mark.parametrize("seed", range(SEEDS))
def test_members_are_alike_wherever_they_came_in(seed: int) -> None:
    dice = Random(seed)
    first, second = Echo(), Echo()
    index = stamp_ms = latest_ms = released = 0
    for number in range(ENTRIES):
        index += dice.randrange(1, 3)  # some entries are nothing to a machine
        stamp_ms += dice.randrange(-3, 10)  # another leader's clock may be behind
        latest_ms = max(latest_ms, stamp_ms)
        what = command(dice, first, number)
        effects = entered(first, index, stamp_ms, what)
        assert entered(second, index, stamp_ms, what) == effects
        assert (first.index, first.now_ms) == (index, latest_ms)
        assert first.released >= released
        released = first.released
        assert {entry: [*places] for entry, places in first.live()} == {
            entry: [range(place, place + 1) for place in sorted(places)]
            for entry, places in first.kept.items()
        }
        assert all(entry > released for entry, _ in first.live())
        if dice.random() < 0.1:
            second = Echo()
            second.restore(first.snapshot())
        assert [*second.snapshot()] == [*first.snapshot()]


def test_a_snapshot_is_of_when_it_was_asked_for() -> None:
    echo = Echo()
    entered(echo, 1, 0, Say("before"))
    snapshot = echo.snapshot()
    entered(echo, 2, 0, Say("after"))
    restored = Echo()
    restored.restore(snapshot)
    assert (restored.index, restored.said) == (1, ["before"])


def test_one_old_message_keeps_itself_and_not_what_is_behind_it() -> None:
    echo = Echo()
    entered(echo, 1, 0, Say("nothing"))
    entered(echo, 2, 0, Keep("old", 2))
    for index in range(3, 100):
        entered(echo, index, 0, Say("new"))
    assert echo.released == 1
    assert [*echo.live()] == [(2, [range(1), range(1, 2)])]
    entered(echo, 100, 0, LetGo(2, 0))
    entered(echo, 101, 0, LetGo(2, 1))
    assert (echo.released, [*echo.live()]) == (101, [])


@pytest.mark.parametrize("index", [1, 2])
def test_no_entry_is_applied_twice_or_late(index: int) -> None:
    echo = Echo()
    echo.entered(2, 0)
    with pytest.raises(AssertionError):
        echo.entered(index, 0)
