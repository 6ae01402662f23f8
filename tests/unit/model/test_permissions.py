"""Goal: patterns match as RabbitMQ's do, in bounded time; names in topic permissions are names.
Method: RabbitMQ 3.10.8's own answers, patterns that are catastrophes, random names.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.limits import PATTERN_BYTES_MAX, PATTERN_STRIKES_MAX
from sluicemq.model.patterns import Pattern
from sluicemq.model.permissions import CONFIGURE, READ, WRITE, Permission, TopicPermission

SUBJECTS = (
    *("", "a", "ab", "ba", "A", "aa", "a.b", "axb", "secret", "x-secret", "a-12", "amq.default"),
    *("ü", "x/y", "xy", "abc", "ac", "foo bar", "foo.bar", "a\n", "555-1234", "amq.gen-x"),
)
ANSWERS = {
    "^$": "1000000000000000000000",
    ".*": "1111111111111111111111",
    "^a": "0110011100110001100101",
    "a$": "0101010000000000000100",
    "a": "0111011100110001111101",
    "^a$": "0100000000000000000100",
    "A": "0000100000000000000000",
    "(?i)A": "0111111100110001111101",
    r"^a\.b$": "0000001000000000000000",
    "^(?!secret).*": "1111111101111111111111",
    r"^(a|b)-\d+$": "0000000000100000000000",
    r"\Aamq\.default\z": "0000000000010000000000",
    "^[[:alpha:]]+$": "0111110110000011100100",
    "^(a+)+$": "0100010000000000000100",
    "a{2}": "0000010000000000000000",
    "a|^$": "1111011100110001111101",
    r"^\w+$": "0111110110000011100100",
    "^.$": "0100100000000000000100",
    "ü": "0000000000001000000000",
    "^[^/]+$": "0111111111111011111111",
    "(?<=x)y": "0000000000000010000000",
    "a++b": "0010000000000001000000",
    "^(?>a|ab)c$": "0000000000000000100000",
    "x*": "1111111111111111111111",
    "^a$|b": "0111001100000001011100",
    r"\bfoo\b": "0000000000000000011000",
    "^foo.bar$": "0000000000000000011000",
    "(?P<n>a)": "0111011100110001111101",
    r"^\S+$": "0111111111111111101111",
    r"^\x61$": "0100000000000000000100",
    "$a": "0000000000000000000000",
    r"(a)\1": "0000010000000000000000",
    r"^(?:orders|invoices)\..+": "0000000000000000000000",
    r"\.": "0000001000010000001001",
    "(?#c)a": "0111011100110001111101",
    "(?x) a b": "0010000000000001000000",
    r"^a\z|^b\Z": "0100000000000000000000",
    r"\d{3}-\d{4}$": "0000000000000000000010",
    r"^amq\.gen.*$|^x$": "0000000000000000000001",
}
"""RabbitMQ's, one digit a subject: 1 for a match."""


@pytest.mark.parametrize("pattern", ANSWERS)
def test_matches_are_rabbitmqs(pattern: str) -> None:
    compiled = Pattern(pattern)
    assert "".join(str(int(compiled.matches(each))) for each in SUBJECTS) == ANSWERS[pattern]


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{2,1}", "a" * (PATTERN_BYTES_MAX + 1)])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Refused):
        Permission("u", "/", ".*", pattern, ".*").check()
    with pytest.raises(Refused):
        TopicPermission("u", "/", "x", ".*", pattern).check()


def test_a_catastrophe_does_not_match_and_in_the_end_is_not_tried() -> None:
    pattern = Pattern("(a|a)+$")
    assert not pattern.matches("a" * 100 + "!")
    assert pattern.strikes == 1
    assert pattern.matches("a")
    pattern.strikes = PATTERN_STRIKES_MAX - 1
    assert not pattern.matches("a" * 100 + "!")
    assert pattern.spent
    assert not pattern.matches("a")
    assert pattern.strikes == PATTERN_STRIKES_MAX


def test_an_empty_permission_is_for_nothing_that_has_a_name() -> None:
    patterns = Permission("u", "/", "", ".*", "^r$").patterns()
    assert not patterns[CONFIGURE].matches("q")
    assert patterns[WRITE].matches("q")
    assert patterns[READ].matches("r")
    assert not patterns[READ].matches("rr")


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(
    ["a.b", "(", "{vhost}", "{username}", "\\", "[x", "a|b", ".*", "a b", "#"]
)


@given(names, names, names)
def test_names_in_topic_permissions_are_taken_literally(user: str, vhost: str, key: str) -> None:
    permission = TopicPermission(user, vhost, "x", "^{username}-{vhost}$", "^{username}$")
    permission.check()
    patterns = permission.patterns()
    assert patterns[WRITE].matches(f"{user}-{vhost}")
    assert patterns[READ].matches(user)
    if key.rstrip("\n") != user.rstrip("\n"):
        assert not patterns[READ].matches(key)


def test_an_amqp_client_has_no_client_id() -> None:
    patterns = TopicPermission("u", "/", "x", "^{client_id}$", "").patterns()
    assert patterns[WRITE].matches("{client_id}")
    assert not patterns[READ].matches("k")
