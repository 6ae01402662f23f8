"""Goal: an answer on the control socket is one line of JSON, however long it is."""

from __future__ import annotations

import json

import pytest

from sluicemq.host.control import parts
from sluicemq.limits import CONTROL_ROWS
from sluicemq.manage.task import Answer


@pytest.mark.parametrize("count", [0, 1, CONTROL_ROWS, CONTROL_ROWS + 1, 5 * CONTROL_ROWS])
def test_rows_are_one_line_in_parts_of_bounded_length(count: int) -> None:
    rows = [{"name": f"queue {number}\n", "messages": number} for number in range(count)]
    written = list(parts(Answer(rows)))
    line = b"".join(written)
    assert line.index(b"\n") == len(line) - 1
    assert json.loads(line) == {"ok": True, "rows": rows}
    assert len(written) <= 2 + count // CONTROL_ROWS
    assert max(map(len, written)) < 100 * CONTROL_ROWS


def test_a_refusal_is_one_line() -> None:
    (line,) = parts(Answer((), "no\nsuch thing", 65))
    assert json.loads(line) == {"ok": False, "error": "no\nsuch thing", "code": 65}
