"""The topic exchange against a recursive oracle, and its order, pruning and cost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.topic import TopicExchange, split

WORDS = st.sampled_from(["a", "b", "", "*", "#", "long"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)
NAMES = st.sampled_from(["q1", "q2", "q3", "q4"])


def topic() -> TopicExchange:
    return TopicExchange(ExchangeDefinition("t", "topic"))


def binding(pattern: str, queue: str) -> BindingDefinition:
    return BindingDefinition("t", queue, routing_key=pattern)


def matched(exchange: TopicExchange, key: str) -> list[str]:
    return [destination.name for destination in exchange.match(key)]


def oracle(pattern: list[str], words: list[str]) -> bool:
    """The text of AMQP 0-9-1, 3.1.3.3, word by word."""
    if not pattern:
        return not words
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(oracle(rest, words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and head in ("*", words[0]) and oracle(rest, words[1:])


@given(st.lists(st.tuples(KEYS, NAMES), max_size=12), st.lists(KEYS, min_size=1, max_size=6))
def test_matches_like_the_oracle_and_in_order_of_binding(
    bindings: list[tuple[str, str]], keys: list[str]
) -> None:
    exchange = topic()
    for pattern, queue in bindings:
        exchange.add(binding(pattern, queue))
    for key in keys:
        fitting = [queue for pattern, queue in bindings if oracle(split(pattern), split(key))]
        assert matched(exchange, key) == list(dict.fromkeys(fitting))


LONG_KEYS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6).map(".".join)


@given(
    st.lists(st.tuples(st.booleans(), KEYS), min_size=1, max_size=12),
    st.lists(LONG_KEYS, min_size=4, max_size=20),
    st.integers(0, 1),
    st.sampled_from([0, 10, 10_000]),
)
def test_what_is_remembered_of_many_nodes_is_what_they_say(
    changes: list[tuple[bool, str]], keys: list[str], crowd_nodes: int, nodes_max: int
) -> None:
    """Also when bindings come and go between, and when there is little room to remember."""
    exchange = topic()
    bound: dict[str, None] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluicemq.routing.topic.CROWD_NODES", crowd_nodes)
        patch.setattr("sluicemq.routing.topic.CROWDS_NODES_MAX", nodes_max)
        patch.setattr("sluicemq.routing.topic.ANSWERS_WORDS_MAX", nodes_max)
        for adding, pattern in changes:
            if adding or not bound:
                exchange.add(binding(pattern, pattern))
                bound.setdefault(pattern)
            else:
                gone = next(iter(bound))
                del bound[gone]
                assert exchange.remove(binding(gone, gone))
            for key in keys:
                fitting = [each for each in bound if oracle(split(each), split(key))]
                assert matched(exchange, key) == fitting
                assert exchange.crowds.size <= nodes_max + 100
                assert exchange.crowds.answers_size <= nodes_max
    for pattern in bound:
        exchange.remove(binding(pattern, pattern))
    assert not exchange.crowds.words


def test_keys_of_one_shape_are_walked_once() -> None:
    """Many patterns with many `#`, long keys: a word is a look-up, not a walk over all nodes."""
    exchange = topic()
    for number in range(200):
        words = ".#.".join("ab"[number >> bit & 1] for bit in range(8))
        exchange.add(binding(f"#.{words}.#.z.#", "q"))
    for number in range(50):
        assert matched(exchange, f"{number}." + "a.b." * 58 + "a") == []
        assert matched(exchange, f"{number}." + "a.b." * 58 + "z") == ["q"]
    assert len(exchange.crowds.known) < 60


def test_new_keys_that_differ_in_words_of_no_pattern_have_one_answer() -> None:
    exchange = topic()
    exchange.add(binding("a.*.#", "q1"))
    for number in range(50):
        assert matched(exchange, f"a.{number}.x{number}") == ["q1"]
        assert matched(exchange, f"{number}.a.{number}") == []
    assert len(exchange.crowds.answers) == 2
    exchange.add(binding("#.7", "q2"))
    assert matched(exchange, "7.a.7") == ["q2"]
    assert matched(exchange, "8.a.8") == []
    assert matched(exchange, "a.7") == ["q1", "q2"]
    exchange.remove(binding("a.*.#", "q1"))
    assert matched(exchange, "a.7") == ["q2"]


@given(st.lists(st.tuples(KEYS, NAMES), max_size=12), st.data())
def test_leaves_no_trace_of_removed_bindings(
    bindings: list[tuple[str, str]], data: st.DataObject
) -> None:
    exchange = topic()
    for pattern, queue in bindings:
        exchange.add(binding(pattern, queue))
    for pattern, queue in data.draw(st.permutations(list(dict.fromkeys(bindings)))):
        assert exchange.remove(binding(pattern, queue))
    assert exchange.is_empty
    assert exchange.root.is_bare


def test_add_and_remove_say_whether_they_changed_anything() -> None:
    exchange = topic()
    assert exchange.add(binding("a.#", "q1"))
    assert not exchange.add(binding("a.#", "q1"))
    assert not exchange.remove(binding("a.*", "q1"))
    assert exchange.remove(binding("a.#", "q1"))
    assert not exchange.remove(binding("a.#", "q1"))


def test_the_empty_key_has_no_words() -> None:
    exchange = topic()
    for pattern, queue in (("#", "q1"), ("*", "q2"), ("", "q3"), ("#.#", "q4")):
        exchange.add(binding(pattern, queue))
    assert matched(exchange, "") == ["q1", "q3", "q4"]
    assert matched(exchange, ".") == ["q1", "q4"]


def test_queue_and_exchange_of_one_name_are_two_destinations() -> None:
    exchange = topic()
    exchange.add(BindingDefinition("t", "same", "queue", "#"))
    exchange.add(BindingDefinition("t", "same", "exchange", "#"))
    assert exchange.match("k") == [Destination("queue", "same"), Destination("exchange", "same")]


def test_many_hashes_cost_no_more_than_their_length() -> None:
    """A backtracking matcher would need longer than the universe has."""
    exchange = topic()
    exchange.add(binding(".".join(["#", "a"] * 60 + ["end"]), "q1"))
    exchange.add(binding(".".join(["#"] * 120), "q2"))
    begun = time.thread_time()
    assert matched(exchange, ".".join(["a"] * 125)) == ["q2"]
    assert time.thread_time() - begun < 1
