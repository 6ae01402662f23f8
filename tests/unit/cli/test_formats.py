"""Goal: rows come out as rabbitmqctl's users and their scripts expect. Method: exact text."""

from __future__ import annotations

import io
import json

import pytest

from sluicemq.cli.formats import plain, write

ROWS = [
    {"name": "orders", "messages": 12, "durable": True, "arguments": {"x-max-length": 5}},
    {"name": 'odd\tname"\x1b[2J', "messages": 0, "durable": False, "arguments": {}},
]
COLUMNS = ["name", "messages", "durable", "arguments"]


def written(formatter: str, header: bool = True) -> str:
    out = io.StringIO()
    write(ROWS, COLUMNS, formatter, header, out)
    return out.getvalue()


def test_tsv_is_rabbitmqctls_form_and_a_name_cannot_break_it() -> None:
    assert written("tsv") == (
        "name\tmessages\tdurable\targuments\n"
        'orders\t12\ttrue\t[{"x-max-length",5}]\n'
        'odd\\tname"\\x1b[2J\t0\tfalse\t[]\n'
    )
    assert written("tsv", header=False).startswith("orders\t")


def test_csv_quotes_what_needs_it() -> None:
    assert written("csv") == (
        "name,messages,durable,arguments\n"
        'orders,12,true,"[{""x-max-length"",5}]"\n'
        '"odd\\tname""\\x1b[2J",0,false,[]\n'
    )


def test_json_keeps_types_and_the_order_of_columns() -> None:
    rows = json.loads(written("json"))
    assert rows == ROWS
    assert list(rows[0]) == COLUMNS


@pytest.mark.parametrize("formatter", ["table", "pretty_table"])
def test_a_drawn_table_shows_every_value(formatter: str) -> None:
    drawn = written(formatter)
    assert "name" in drawn
    assert "orders" in drawn
    assert "\x1b[2J" not in drawn


def test_nothing_is_an_empty_cell() -> None:
    assert plain(None) == ""
    assert plain(["a", 1]) == '["a",1]'


def test_no_rows_are_a_header_or_an_empty_list() -> None:
    out = io.StringIO()
    write([], ["name"], "tsv", True, out)
    write([], ["name"], "json", True, out)
    assert out.getvalue() == "name\n[]\n"


def test_what_has_structure_is_printed_as_rabbitmqctl_prints_it() -> None:
    properties = {
        "capabilities": {"basic.nack": True},
        "connection_name": 'my "name"\\\x1b\n\u00e9',
        "n": -5,
        "v": None,
        "l": ["a", 1, {"k": "v"}],
        "empty": {},
    }
    assert plain(properties) == (
        '[{"capabilities",[{"basic.nack",true}]},'
        '{"connection_name","my \\"name\\"\\\\\\x1b\\n\u00e9"},'
        '{"n",-5},{"v",undefined},{"l",["a",1,[{"k","v"}]]},{"empty",[]}]'
    )
