"""Goal: what all actors of a node share gives no number twice, says once when the disk is full and
when it is not, and has the alarm look when memory has changed much. Method: the services of a node
without anybody else, on an empty disk.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.chain.services import Services
from sluicemq.config import Config
from sluicemq.kernel.actor import Scheduler
from sluicemq.limits import (
    ACCOUNT_STEP_BYTES,
    CONNECTION_WINDOW,
    CONNECTION_WINDOW_TIGHT,
    TIGHT_RATIO,
)
from sluicemq.metadata.changes import LOCAL_QUEUE_IDS, Life
from sluicemq.storage.recovery import Recovery
from support.fakes import FakeWorld


def services(life: Life | None = None) -> Services:
    world, config = FakeWorld(), Config()
    found = Recovery(world.disk.files, 64, lambda: bytes(16), lambda *_: None)
    found.journal_number, found.next_message_id, found.next_queue_id = 7, 1000, 50
    return Services(world, config, Scheduler(), found, life)


def test_numbers_go_on_behind_those_that_were_given_before() -> None:
    own = services()
    assert (own.message_ids(3), own.message_ids(1)) == (1000, 1003)
    assert (own.queue_id(), own.queue_id()) == (50, 51)


def test_a_node_that_is_alone_begins_a_life_with_each_journal_file() -> None:
    own = services()
    first, second = own.new_address(), own.new_address()
    assert (first.node, first.incarnation) == (1, 7)
    assert first != second


def test_in_a_cluster_a_node_gives_queues_numbers_of_its_own_lives() -> None:
    one, other = services(Life(2, 1)), services(Life(3, 1))
    given = [each.queue_id() for each in (one, one, other, other)]
    assert len({*given}) == 4
    assert all(number & LOCAL_QUEUE_IDS for number in given)


@pytest.mark.parametrize(
    ("home", "members", "has"),
    [(0, (), True), (2, (), True), (3, (), False), (3, (1, 2), True), (2, (1, 3), False)],
)
def test_a_node_has_a_part_in_its_own_queues_and_where_it_is_a_member(
    home: int, members: tuple[int, ...], has: bool
) -> None:
    assert services(Life(2, 1)).has_part(home, members) is has


def test_members_that_came_back_under_another_name_are_the_same_node() -> None:
    assert services(Life(2, 1)).has_part(3, (1, (9 << 32) | 2))


def test_a_full_disk_is_told_once_and_its_end_when_the_last_job_is_done() -> None:
    own = services()
    told: list[bool] = []
    own.disk_full = told.append
    jobs: list[Any] = [object(), object()]
    for job in jobs:
        own.no_space_for(job)
    own.has_space(jobs[0])
    assert False not in told
    own.has_space(object())  # type: ignore[arg-type]
    own.has_space(jobs[1])
    assert told[-1] is False
    assert told.count(False) == 1


def test_the_alarm_looks_when_memory_has_changed_much_either_way() -> None:
    own = services()
    looks: list[int] = []
    own.monitor = lambda: looks.append(own.accounted_bytes)
    own.memory_used(ACCOUNT_STEP_BYTES)
    assert looks == []
    own.memory_used(1)
    assert looks == [ACCOUNT_STEP_BYTES + 1]
    own.memory_used(-ACCOUNT_STEP_BYTES)
    own.memory_used(-1)
    assert looks == [ACCOUNT_STEP_BYTES + 1, 0]


def test_less_is_on_its_way_to_a_socket_while_memory_is_short() -> None:
    own = services()
    assert own.connection_window() == CONNECTION_WINDOW
    own.memory_pressure = TIGHT_RATIO
    assert own.connection_window() == CONNECTION_WINDOW // CONNECTION_WINDOW_TIGHT
    own.connection_window_max = 1
    assert own.connection_window() == 1, "nobody is shut out"
