"""Goal: a pattern finds what RabbitMQ's finds, and none can take the broker's time or memory.

Method: patterns with the answers RabbitMQ gives; patterns made to explode, with their clocks read.
"""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.limits import PATTERN_EXPANDED_MAX, PATTERN_STRIKES_MAX
from sluicemq.model.patterns import Pattern, expanded_size
from support.thorough import examples


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("", "anything", True),
        (".*", "", True),
        ("^orders", "orders.new", True),
        ("^orders", "new.orders", False),
        ("new", "orders.new.eu", True),
        (r"^(?!amq\.).*", "amq.gen-1", False),
        (r"^(?!amq\.).*", "orders", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("(?i)ABC", "abc", True),
        ("^...$", "ä", False),
        ("^..$", "ä", True),
    ],
)
def test_it_finds_what_rabbitmqs_finds(pattern: str, name: str, found: bool) -> None:
    assert Pattern(pattern).matches(name) is found


@pytest.mark.parametrize("text", ["(", "[", "a{2", "*", "a**"])
def test_what_is_no_pattern_is_refused_or_matches_something(text: str) -> None:
    try:
        Pattern(text).matches("a{2")
    except Refused as refused:
        assert str(refused)


@pytest.mark.parametrize(
    "text",
    ["(?:" * 10 + "a" + "{9})" * 10, "((a{99}){99}){99}", "(" * 500 + ")" * 500, "a" * 1025],
)
def test_what_would_take_the_memory_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        Pattern(text)


def test_repetitions_are_counted_as_they_nest() -> None:
    assert expanded_size("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}") < 50
    assert expanded_size(r"(\{99[{99]{9}){9}") < 150
    assert expanded_size("((a{100}){100}){2}") > PATTERN_EXPANDED_MAX


def test_a_pattern_that_explodes_gives_up_and_then_matches_nothing() -> None:
    pattern = Pattern("^(((((a{1,99}){1,99}){1,99}){1,99}){1,99})b")
    for _ in range(PATTERN_STRIKES_MAX):
        assert not pattern.spent
        assert not pattern.matches("a" * 255)
    assert pattern.spent
    assert not pattern.matches("aab")


def test_work_of_other_threads_is_not_taken_for_the_patterns() -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            pass

    others = [threading.Thread(target=work) for _ in range(2)]
    for each in others:
        each.start()
    try:
        pattern = Pattern("^app-[a-z]+")
        for at in range(20_000):
            assert pattern.matches("app-orders"), f"name {at} of a sane pattern took too long"
    finally:
        done.set()
        for each in others:
            each.join()


@given(st.text(alphabet="ab(){}[]?*+|^$\\.19,", max_size=40), st.text("ab", max_size=20))
@examples(100)
def test_any_text_is_a_pattern_or_refused(text: str, name: str) -> None:
    try:
        pattern = Pattern(text)
    except Refused:
        return
    pattern.matches(name)
