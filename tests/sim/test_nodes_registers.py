"""Goal: histories that several nodes may answer pass, and no others."""

from __future__ import annotations

from math import inf

from sluicemq.sim.nodes.registers import (
    DECLARE,
    DELETE,
    DONE,
    LOOK,
    MISSING,
    OTHER,
    RegisterMove,
    is_linearizable,
)

DECLARED = RegisterMove(1, 0, DECLARE, "direct", 1, True, 9, DONE)


def look(node: int, began: float, answer: str, life: int = 0) -> RegisterMove:
    """While not all nodes are well."""
    return RegisterMove(node, life, LOOK, "", began, False, began + 0.1, answer)


def test_one_node_may_see_earlier_than_another_what_is_not_answered_yet() -> None:
    exact = [look(2, 3, DONE)._replace(is_exact=True), look(3, 4, MISSING)._replace(is_exact=True)]
    assert is_linearizable([DECLARED, *exact])


def test_a_node_does_not_go_back() -> None:
    assert is_linearizable([DECLARED, look(2, 3, MISSING), look(2, 4, DONE)])
    assert not is_linearizable([DECLARED, look(2, 3, DONE), look(2, 4, MISSING)])
    assert is_linearizable([DECLARED, look(2, 3, DONE), look(2, 4, MISSING, life=1)])


def test_all_that_was_answered_is_seen_while_all_nodes_are_well() -> None:
    late = look(2, 10, MISSING)
    assert is_linearizable([DECLARED, late])
    assert not is_linearizable([DECLARED, late._replace(is_exact=True)])


def test_who_changes_a_name_is_behind_all_that_was_seen_before() -> None:
    deleted = RegisterMove(2, 0, DELETE, "", 4, True, 5, DONE)
    fails = RegisterMove(3, 0, DECLARE, "fanout", 6, True, 7, OTHER)
    assert not is_linearizable([DECLARED, look(3, 3, DONE), deleted, fails])
    assert is_linearizable([DECLARED, deleted, fails])


def test_what_was_not_answered_may_have_been_done_at_any_time_later_or_never() -> None:
    unanswered = DECLARED._replace(ended=inf, answer="")
    assert is_linearizable([unanswered, look(2, 20, MISSING), look(2, 21, DONE)])
    assert is_linearizable([unanswered, look(2, 20, MISSING)])
    assert not is_linearizable([look(2, 0.5, DONE), unanswered])
