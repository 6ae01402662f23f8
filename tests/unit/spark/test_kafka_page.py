"""Goal: the table beside Spark's Kafka source is true where that can be checked: what it names here
is an option or a column, and who gives a Kafka option is told what there is instead.

Method: docs/spark-kafka.md is read, and options are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.spark.options import ALIASES, Options, declarations
from sluicemq.spark.schema import ENVELOPE, PROPERTY_COLUMNS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-kafka.md"
OPTIONS = {declared.name for _, declared in declarations()}
COLUMNS = {name for name, _ in ENVELOPE + PROPERTY_COLUMNS} | {"value"}
WORDS = {"amqp", "amqps"}
CODE = re.compile(r"`([^`]+)`")
HINTED = (
    *("subscribe", "subscribePattern", "assign", "kafka.bootstrap.servers", "startingTimestamp"),
    *("startingOffsetsByTimestamp", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "includeHeaders", "groupIdPrefix"),
    *("kafka.group.id", "kafka.security.protocol", "kafka.acks", "topic"),
)


def rows() -> Iterator[tuple[str, list[str]]]:
    """Of the tables with options and columns: (of Kafka, [here..])."""
    text = PAGE.read_text(encoding="utf-8")
    for line in text[: text.index("## What else differs")].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "Kafka":
            yield cells[0], cells[1:3] if len(cells) == 4 else cells[1:2]


def test_what_the_page_names_is_there() -> None:
    found = list(rows())
    assert len(found) > 30
    named = {name for _, cells in found for cell in cells for name in CODE.findall(cell)}
    assert len(named) > 25
    assert named - OPTIONS - COLUMNS - WORDS == set()


def test_the_page_has_the_options_that_are_hinted_at() -> None:
    assert set(HINTED) <= {name for kafka, _ in rows() for name in CODE.findall(kafka)}


@pytest.mark.parametrize("name", HINTED)
def test_a_kafka_option_is_answered(name: str) -> None:
    with pytest.raises(Refused, match=r"no such option of format amqp; ") as caught:
        Options.parse({"queue": "q", name: "x"}, "source")
    instead = set(re.findall(r"[A-Za-z]+", str(caught.value).partition("amqp; ")[2]))
    assert instead & (OPTIONS | set(ALIASES) | {"md"})


def test_a_table_that_is_read_is_told_what_works() -> None:
    with pytest.raises(Refused, match=r"which queue to read.*no tables.*CREATE TEMPORARY VIEW"):
        Options.parse({}, "source")
    with pytest.raises(Refused, match=r"which queue to read$"):
        Options.parse({"uri": "amqp://one/"}, "source")
