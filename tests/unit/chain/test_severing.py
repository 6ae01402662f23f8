"""Goal: a connection whose own code has failed gives back all that it holds, whichever step of that
fails, too. Method: a reader of which every part notes what was asked of it; each fails once.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluicemq.chain.connection.severing import QUEUES_MAX, end_queues, sever
from sluicemq.kernel.actor import Scheduler
from sluicemq.queues.commands import Delete
from support.fakes import bystander, drain

STEPS = (
    *("go_deaf", "abandon 1", "abandon 2", "detach 1", "detach 2", "account", "delete own"),
    *("leave", "give_up_place", "lost", "close 7", "release"),
)


class Severed:
    """Holds two channels, a link and an exclusive queue; the step `fails` raises."""

    def __init__(self, fails: str = "") -> None:
        self.done: list[str] = []
        self.faults: list[Exception] = []
        self.fails = fails
        self.scheduler = Scheduler()
        self.scheduler.witness = lambda _, error: self.faults.append(error)
        self.channels = {
            each: SimpleNamespace(
                abandon=self.step(f"abandon {each}"),
                outflow=SimpleNamespace(detach=self.step(f"detach {each}")),
            )
            for each in (1, 2)
        }
        own = SimpleNamespace(post=lambda _: self.step("delete own")())
        self.name, self.connection = "a connection", 7
        self.vhost: Any = SimpleNamespace(exclusive={self.name: {"own": own}})
        self.writer = SimpleNamespace(connection_lost=self.step("lost"))
        self.net = SimpleNamespace(close=lambda number: self.step(f"close {number}")())
        for name in ("go_deaf", "account", "give_up_place", "release"):
            setattr(self, name, self.step(name))

    def step(self, name: str) -> Any:
        def take() -> None:
            if name == self.fails:
                raise ValueError(name)
            self.done.append(name)

        return take

    def leaving_steps(self) -> list[Any]:
        return [self.step("leave")]


def test_all_that_it_holds_is_given_back_in_order() -> None:
    reader: Any = Severed()
    sever(reader)
    assert reader.done == [*STEPS]
    assert reader.channels == {}
    assert reader.faults == []


@pytest.mark.parametrize("fails", STEPS)
def test_a_step_that_fails_costs_that_step_alone(fails: str) -> None:
    reader: Any = Severed(fails)
    sever(reader)
    assert reader.done == [step for step in STEPS if step != fails]
    assert [str(error) for error in reader.faults] == [fails]


def test_one_that_has_not_logged_in_has_no_queues() -> None:
    reader: Any = Severed()
    reader.vhost = None
    sever(reader)
    assert reader.done == [step for step in STEPS if step != "delete own"]


def test_many_exclusive_queues_are_deleted_in_pieces_in_their_order() -> None:
    queues: list[Any] = [bystander() for _ in range(QUEUES_MAX + 3)]
    pieces = end_queues([*queues])
    next(pieces)
    posted = [drain(queue) for queue in queues]
    assert [len(each) for each in posted] == [1] * QUEUES_MAX + [0] * 3
    assert all(isinstance(each[0], Delete) for each in posted[:QUEUES_MAX])
    assert [*pieces] == [QUEUES_MAX]
    assert all(drain(queue) for queue in queues[QUEUES_MAX:])
