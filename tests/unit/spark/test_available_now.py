"""Goal: what was counted is waited for as long as something goes on, and the error of a wait that
was in vain says what is missing and who asked for it.

Method: consumers and processes that are only what is known of them; times are numbers.
"""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from sluicemq.spark.available_now import TOLD_MAX, AvailableNow
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_assignment import Group
from sluicemq.spark.options import Options
from sluicemq.spark.transfer import Endpoint

TIMEOUT_S = 30.0


class ConsumerThread:
    """What is known of one."""

    def __init__(self, queue: str, name: str) -> None:
        self.queue = queue
        self.name = name
        self.taken = 0
        self.rows = 0
        self.tried = threading.Event()
        self.tried.set()
        self.outage = cast("Any", self)
        self.attempts = 0

    def waiting_rows(self) -> int:
        return self.rows


class Process:
    """It has said something `heard_at`."""

    def __init__(self, *consumers: ConsumerThread) -> None:
        self.consumers = list(consumers)
        self.endpoint = Endpoint("10.0.0.3", 4000, "", "")
        self.heard_at = 1e9


def available(counted: dict[str, int], **options: str) -> AvailableNow:
    given = {"queues": ",".join(counted), "timeout": f"{TIMEOUT_S * 1000:.0f}"} | options
    return AvailableNow(Options.parse(given, "source"), counted)


class Wait:
    """For 10 messages of queue a, by one consumer, since 0.0."""

    def __init__(self) -> None:
        self.consumer = ConsumerThread("a", "a@1")
        self.process = Process(self.consumer, ConsumerThread("b", "b@1"))
        self.processes = [self.process]
        self.available = available({"a": 10, "b": 0})
        self.available.begin(0.0)
        assert not self.is_over(0.0)

    def is_over(self, now: float) -> bool:
        return self.available.is_over(cast("list[Group]", self.processes), now)


def test_a_wait_ends_when_nothing_happens() -> None:
    wait = Wait()
    assert not wait.is_over(TIMEOUT_S)
    assert wait.is_over(TIMEOUT_S + 1)


@pytest.mark.parametrize("sign", ["rows", "outage", "connecting", "joined", "left"])
def test_each_sign_of_life_begins_it_anew(sign: str) -> None:
    wait = Wait()
    second = Process(ConsumerThread("a", "a@2"))
    if sign == "rows":
        wait.consumer.rows = 1
    elif sign == "outage":
        wait.consumer.attempts = 1
    elif sign == "connecting":
        wait.consumer.tried.clear()
    else:
        wait.processes.append(second)
    at = TIMEOUT_S + 1 if sign != "left" else 0.0
    assert not wait.is_over(at)
    wait.consumer.rows = wait.consumer.attempts = 0
    wait.consumer.tried.set()
    if sign == "left":
        wait.processes.remove(second)
        assert not wait.is_over(at := TIMEOUT_S + 1)
    assert not wait.is_over(at + TIMEOUT_S)
    assert wait.is_over(at + TIMEOUT_S + 1)


def test_what_nobody_wants_is_no_sign() -> None:
    wait = Wait()
    wait.process.consumers[1].rows = 1
    wait.processes.append(Process(ConsumerThread("b", "b@2")))
    assert wait.is_over(TIMEOUT_S + 1)


def test_it_does_not_end_on_old_news() -> None:
    """A process that says nothing is lost at last, and its messages come from another one."""
    wait = Wait()
    wait.process.heard_at = TIMEOUT_S
    assert not wait.is_over(10 * TIMEOUT_S)
    silent = Process(ConsumerThread("b", "b@2"))
    silent.heard_at = 0.0
    wait.processes.append(silent)
    wait.process.heard_at = TIMEOUT_S + 0.1
    assert wait.is_over(10 * TIMEOUT_S)


def test_a_wait_in_vain_says_what_is_missing_and_who_asked() -> None:
    counted = available({"a": 10, "b": 5, "c": 0})
    counted.taken("a", 7)
    counted.again("a", 1)
    counted.taken("b", 6)
    consumer = ConsumerThread("a", "a@1")
    consumer.taken = 7
    with pytest.raises(AmqpError) as caught:
        counted.give_up(
            cast("list[Group]", [Process(consumer, ConsumerThread("b", "b@1"))]), {"a": 3, "b": 0}
        )
    assert str(caught.value) == (
        "messages that were counted do not come in 30 s: 4 of queue 'a', of which the broker has 3;"
        " asked for by a@1 at 10.0.0.3 (7 handed out) (failOnDataLoss = true)"
    )


def test_it_names_so_many_consumers_at_most() -> None:
    consumers = [ConsumerThread("a", f"a@{number}") for number in range(TOLD_MAX + 2)]
    with pytest.raises(AmqpError, match=f"a@{TOLD_MAX - 1} at .* and 2 more"):
        available({"a": 1}).give_up(cast("list[Group]", [Process(*consumers)]), {"a": 1})


def test_less_may_be_good_enough() -> None:
    counted = available({"a": 10}, failOnDataLoss="false")
    assert counted.wanted(cast("Any", [ConsumerThread("a", "a@1")]))
    counted.give_up([], {"a": 10})
    assert counted.left() == {}
    assert counted.wanted(cast("Any", [ConsumerThread("a", "a@1")])) == []
