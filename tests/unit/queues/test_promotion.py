"""Goal: only the member with most goes on alone, and nobody while somebody leads, could be elected,
is known to lead elsewhere, or does not say what it has.

Method: what the nodes with members have answered, and who is chosen.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.queues.mirrored.promotion import heir_of, may_be_led


def has(
    member: int,
    voters: tuple[int, ...] = (1, 2, 3),
    state: str = "follower",
    newest: tuple[int, int] = (1, 10),
) -> dict[str, Any]:
    term, index = newest
    return {
        "raft_state": state,
        "member": member,
        "voters": [*voters],
        "last_term": term,
        "log_index": index,
    }


DOWN = {"raft_state": "nodedown"}
NONE = {"raft_state": "noproc"}


@pytest.mark.parametrize(
    ("found", "heir"),
    [
        ({1: DOWN, 2: DOWN, 3: has(3)}, 3),
        ({1: DOWN, 2: has(2), 3: has(3)}, 0),  # they can elect one
        ({1: DOWN, 2: NONE, 3: has(3)}, 0),
        ({1: DOWN, 2: {"raft_state": "timeout"}, 3: has(3)}, 0),
        ({1: has(1, (1,), "leader"), 2: has(2, ()), 3: has(3, ())}, 0),
        ({1: has(1, (1,)), 2: has(2, ()), 3: has(3, ())}, 0),  # it elects itself
        ({1: DOWN, 2: has(2, ()), 3: has(3, ())}, 2),
        (
            {
                1: DOWN,
                2: DOWN,
                3: DOWN,
                4: has(4, (1, 2, 3, 4, 5), newest=(1, 9)),
                5: has(5, (1, 2, 3, 4, 5), newest=(1, 10)),
            },
            5,
        ),
        (
            {
                1: DOWN,
                2: DOWN,
                3: DOWN,
                4: has(4, (1, 2, 3, 4, 5), newest=(2, 8)),
                5: has(5, (1, 2, 3, 4, 5), newest=(1, 10)),
            },
            4,
        ),
        ({1: DOWN, 2: DOWN}, 0),
    ],
)
def test_who_goes_on_alone(found: dict[int, dict[str, Any]], heir: int) -> None:
    assert heir_of(found) == heir


def test_of_two_that_have_most_the_one_that_asks_goes_on() -> None:
    group = (1, 2, 3, 4)
    found = {1: has(1, group), 2: DOWN, 3: DOWN, 4: has(4, group)}
    assert [heir_of(found, own) for own in (0, 1, 4)] == [1, 1, 4]


@pytest.mark.parametrize(
    ("found", "leaders", "may_lead"),
    [
        ({1: DOWN, 2: DOWN, 3: has(3), 4: NONE, 5: NONE}, {3: 0, 4: 0, 5: 0}, False),
        ({1: DOWN, 2: DOWN, 3: has(3), 4: NONE, 5: NONE}, {3: 0, 4: 0, 5: 2}, True),
        ({1: DOWN, 2: has(2), 3: has(3), 4: NONE}, {2: 0, 3: 0, 4: 2}, False),  # it leads no more
        ({1: DOWN, 2: DOWN, 3: has(3), 4: {"raft_state": "timeout"}}, {3: 0}, True),
    ],
)
def test_who_may_lead_out_of_reach(
    found: dict[int, dict[str, Any]], leaders: dict[int, int], may_lead: bool
) -> None:
    assert may_be_led(found, leaders) == may_lead
