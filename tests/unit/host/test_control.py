"""Goal: an answer on the control socket is one line of JSON, however long it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicemq.host.control_session import parts
from sluicemq.limits import CONTROL_PART_BYTES
from sluicemq.manage.task import CommandAnswer

LONGEST = 2 * CONTROL_PART_BYTES


def assert_is_one_line(rows: list[dict[str, Any]]) -> list[bytes]:
    """Of JSON, in parts that are short."""
    written = list(parts(CommandAnswer(rows)))
    line = b"".join(written)
    assert line.index(b"\n") == len(line) - 1
    assert json.loads(line) == {"ok": True, "rows": rows}
    assert max(map(len, written)) < LONGEST
    return written


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_rows_are_one_line_in_parts_of_bounded_length(count: int) -> None:
    rows = [{"name": f"queue {number}\n", "messages": number} for number in range(count)]
    written = assert_is_one_line(rows)
    assert len(written) <= 1 + count * 250 // CONTROL_PART_BYTES


def test_one_long_row_comes_in_parts_too() -> None:
    """The chain of many queues; definitions, which are a text."""
    stages = [{"id": f"queue '{number}'", "inbox": number} for number in range(5000)]
    text = '\u00e4\U0001f407"\\\n' * 50_000
    written = assert_is_one_line([{"stages": stages, "links": []}, {"file": text, "size": 1.5}])
    assert len(written) > len(text) // CONTROL_PART_BYTES


def test_rows_that_are_large_do_not_come_at_one_blow() -> None:
    rows = [{"name": str(number), "arguments": {"x": "y" * 10_000}} for number in range(100)]
    assert len(assert_is_one_line(rows)) > 20


@pytest.mark.parametrize("row", [{}, {"a": {}, "b": [], "c": None}, {"a": [[]] * 2000, "b": {}}])
def test_what_is_empty_is_json_too(row: dict[str, Any]) -> None:
    assert_is_one_line([row, row])


def test_a_refusal_is_one_line() -> None:
    (line,) = parts(CommandAnswer((), "no\nsuch thing", 65))
    assert json.loads(line) == {"ok": False, "error": "no\nsuch thing", "code": 65}
