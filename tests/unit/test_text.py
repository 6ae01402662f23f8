"""Octets that are no UTF-8 pass through, and are shown as escapes."""

from __future__ import annotations

import pytest

from sluicemq.errors import ChannelViolation
from sluicemq.text import cut, is_text, is_utf8, octets, printable, readable, text_of


@pytest.mark.parametrize(
    "raw",
    [b"", b"abc", "\u00e9\u4e2d\U0001f600".encode(), b"\xff\x80", b"a\xed\xa0\x80", b"\xc3"],
)
def test_octets_come_out_as_they_came_in(raw: bytes) -> None:
    assert octets(text_of(raw)) == raw
    assert is_text(text_of(raw))


def test_only_what_is_no_utf8_is_escaped() -> None:
    assert readable(text_of(b"a\xc3\xa9\xff\n")) == "a\u00e9\\xff\n"
    assert readable(text_of(b"\xed\xa0\x80")) == "\\xed\\xa0\\x80"


def test_a_line_of_ascii_steers_no_terminal() -> None:
    said = printable("a\x1b[31m\r\n\t\x07\x7f\x9b\u00e9\u202e\udcff\\")
    assert said == "a\\x1b[31m\\r\\n\\t\\x07\\x7f\\x9b\\xe9\\u202e\\xff\\"
    assert printable("\ud800") == "\\ud800"
    assert said.isascii()
    assert said.isprintable()


def test_no_character_is_cut_in_two() -> None:
    assert cut("\u00e9\u00e9", 3) == "\u00e9"
    assert cut("\u00e9\udcff\udcc3", 3) == "\u00e9\udcff"
    assert cut("ab", 3) == "ab"


def test_halves_of_pairs_are_no_text() -> None:
    assert not is_text("\ud800")
    assert not is_utf8("\udcff")
    assert is_utf8("\u00e9")


def test_what_a_client_is_told_is_utf8_and_fits() -> None:
    violation = ChannelViolation(406, "\udcff" * 300)
    assert violation.short_text().startswith("PRECONDITION_FAILED - \\xff\\xff")
    assert len(violation.short_text().encode()) <= 255
